//! SyncGroup. Not here: the group's rules (crates/coordinator).
//! Submitted in the order of arrival in the connection's task.
//! Kafka: KafkaApis.handleSyncGroupRequest.

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use crate::network::Pending;
use kavka_coordinator::group::{GroupRequest, GroupResponse};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use std::sync::Arc;

/// From this version on the protocol must be named (KIP-559).
const PROTOCOL_REQUIRED_SINCE: i16 = 5;

pub fn handle(
    groups: &Arc<GroupCoordinator>,
    context: RequestContext,
    request: SyncGroupRequest,
) -> Pending {
    let lacks_protocol = request.protocol_type.is_none() || request.protocol_name.is_none();
    if context.api_version >= PROTOCOL_REQUIRED_SINCE && lacks_protocol {
        return context.ready(&refusal(ErrorCode::InconsistentGroupProtocol));
    }
    let group_id = request.group_id.clone();
    let answer = groups.submit(&group_id, GroupRequest::Sync(request));
    context.later(async move {
        match answer.await {
            Ok(GroupResponse::Sync(response)) => response,
            Ok(_) => refusal(ErrorCode::UnknownServerError),
            Err(code) => refusal(code),
        }
    })
}

fn refusal(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: code.code(),
        ..Default::default()
    }
}
