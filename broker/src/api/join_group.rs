//! JoinGroup. Not here: the group's rules (crates/coordinator).
//! Submitted in the order of arrival in the connection's task; the answer waits for the rebalance.
//! Kafka: KafkaApis.handleJoinGroupRequest; KIP-345, KIP-394, KIP-814.

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use crate::network::Pending;
use kavka_coordinator::group::{Caller, GroupRequest, GroupResponse};
use kavka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kavka_protocol::{ErrorCode, StrBytes};
use std::sync::Arc;

const KNOWN_MEMBER_ID_SINCE: i16 = 4;
const SKIP_ASSIGNMENT_SINCE: i16 = 9;
/// Up to this version the protocol's name cannot be null.
const NULL_PROTOCOL_SINCE: i16 = 7;

pub fn handle(
    groups: &Arc<GroupCoordinator>,
    context: RequestContext,
    request: JoinGroupRequest,
) -> Pending {
    let version = context.api_version;
    let member_id = request.member_id.clone();
    let group_id = request.group_id.clone();
    let answer = groups.submit(
        &group_id,
        GroupRequest::Join {
            request,
            caller: Caller {
                client_id: StrBytes::from(&*context.client_id),
                client_host: StrBytes::from(format!("/{}", context.peer.ip())),
            },
            require_known_member_id: version >= KNOWN_MEMBER_ID_SINCE,
            supports_skipping_assignment: version >= SKIP_ASSIGNMENT_SINCE,
            new_member_uuid: random_uuid(),
        },
    );
    context.later(async move {
        let mut response = match answer.await {
            Ok(GroupResponse::Join(response)) => response,
            Ok(_) => refusal(ErrorCode::UnknownServerError, member_id),
            Err(code) => refusal(code, member_id),
        };
        if version < NULL_PROTOCOL_SINCE {
            response.protocol_name.get_or_insert_default();
        }
        response
    })
}

fn refusal(code: ErrorCode, member_id: StrBytes) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: code.code(),
        protocol_name: None,
        member_id,
        ..Default::default()
    }
}

/// A random id in the form of java.util.UUID.
fn random_uuid() -> String {
    let mut bytes = [0_u8; 16];
    // The operating system's generator fails only before it is seeded, at boot.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}
