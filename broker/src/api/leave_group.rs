//! LeaveGroup. Not here: the group's rules (crates/coordinator).
//! Submitted in the order of arrival in the connection's task.
//! Kafka: KafkaApis.handleLeaveGroupRequest.

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use crate::network::Pending;
use kavka_coordinator::group::{GroupRequest, GroupResponse};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use std::sync::Arc;

/// From this version on one request names several members (KIP-345).
const MEMBERS_SINCE: i16 = 3;

pub fn handle(
    groups: &Arc<GroupCoordinator>,
    context: RequestContext,
    request: LeaveGroupRequest,
) -> Pending {
    let group_id = request.group_id.clone();
    let answer = groups.submit(
        &group_id,
        GroupRequest::Leave {
            request,
            single_member: context.api_version < MEMBERS_SINCE,
        },
    );
    context.later(async move {
        let code = match answer.await {
            Ok(GroupResponse::Leave(response)) => return response,
            Ok(_) => ErrorCode::UnknownServerError,
            Err(code) => code,
        };
        LeaveGroupResponse {
            error_code: code.code(),
            ..Default::default()
        }
    })
}
