//! DescribeAcls, CreateAcls and DeleteAcls of a broker without an authorizer: refused, as Kafka does.
//! Not here: matching (crates/security), the records (crates/controller).
//! Answers at once.
//! Kafka: kafka.server.AclApis; KIP-140.

use crate::api::RequestContext;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::create_acls_response::AclCreationResult;
use kavka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kavka_protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse,
};

const DISABLED: i16 = ErrorCode::SecurityDisabled as i16;

/// Kafka words it in two ways.
const UNREADABLE: &str = "No Authorizer is configured on the broker";
const UNALTERABLE: &str = "No Authorizer is configured.";

pub fn describe(_context: &RequestContext, _request: DescribeAclsRequest) -> DescribeAclsResponse {
    DescribeAclsResponse {
        error_code: DISABLED,
        error_message: Some(UNREADABLE.into()),
        ..Default::default()
    }
}

pub fn create(_context: &RequestContext, request: CreateAclsRequest) -> CreateAclsResponse {
    let refused = AclCreationResult {
        error_code: DISABLED,
        error_message: Some(UNALTERABLE.into()),
        ..Default::default()
    };
    CreateAclsResponse {
        results: vec![refused; request.creations.len()],
        ..Default::default()
    }
}

pub fn delete(_context: &RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = DeleteAclsFilterResult {
        error_code: DISABLED,
        error_message: Some(UNALTERABLE.into()),
        ..Default::default()
    };
    DeleteAclsResponse {
        filter_results: vec![refused; request.filters.len()],
        ..Default::default()
    }
}
