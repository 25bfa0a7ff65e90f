//! DescribeGroups: state and members of classic groups.
//! Not here: what a group is (crates/coordinator).
//! Runs in the connection's task.
//! Kafka: KafkaApis.handleDescribeGroupsRequest; KIP-1043.

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use kavka_protocol::messages::describe_groups_response::DescribedGroup;
use kavka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use kavka_protocol::{ErrorCode, StrBytes};

/// From this version on a missing group is an error, before it is a dead group.
const MISSING_IS_ERROR_SINCE: i16 = 6;

/// AclOperation bits of a group, given to whoever asks while there is no authorizer: READ, DELETE, DESCRIBE,
/// DESCRIBE_CONFIGS, ALTER_CONFIGS (AclEntry.supportedOperations).
const ALL_GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

pub fn handle(
    groups: &GroupCoordinator,
    context: &RequestContext,
    request: &DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let report_missing = context.api_version >= MISSING_IS_ERROR_SINCE;
    let describe = |group_id: &StrBytes| {
        let described = groups
            .host(group_id)
            .and_then(|host| host.read(|shard| shard.describe_group(group_id, report_missing)));
        let mut described = described.unwrap_or_else(|code| DescribedGroup {
            error_code: code.code(),
            group_id: group_id.clone(),
            ..Default::default()
        });
        if request.include_authorized_operations && described.error_code == ErrorCode::None.code() {
            described.authorized_operations = ALL_GROUP_OPERATIONS;
        }
        described
    };
    DescribeGroupsResponse {
        groups: request.groups.iter().map(describe).collect(),
        ..Default::default()
    }
}
