//! Heartbeat. Not here: the group's rules (crates/coordinator).
//! Submitted in the order of arrival in the connection's task.
//! Kafka: KafkaApis.handleHeartbeatRequest.

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use crate::network::Pending;
use kavka_coordinator::group::{GroupRequest, GroupResponse};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use std::sync::Arc;

pub fn handle(
    groups: &Arc<GroupCoordinator>,
    context: RequestContext,
    request: HeartbeatRequest,
) -> Pending {
    let group_id = request.group_id.clone();
    let answer = groups.submit(&group_id, GroupRequest::Heartbeat(request));
    context.later(async move {
        let code = match answer.await {
            Ok(GroupResponse::Heartbeat(response)) => return response,
            Ok(_) => ErrorCode::UnknownServerError,
            // A member goes on while its group is being loaded (GroupCoordinatorService.heartbeat).
            Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
            Err(code) => code,
        };
        HeartbeatResponse {
            error_code: code.code(),
            ..Default::default()
        }
    })
}
