//! SyncGroup, Heartbeat and LeaveGroup for classic groups.
//! Not here: JoinGroup (join), the timers they reset (rebalance).
//! Runs inside a call into the shard. Kafka: GroupMetadataManager.{classicGroupSyncToClassicGroup,
//! classicGroupHeartbeatToClassicGroup, classicGroupLeaveToClassicGroup}; KIP-345.

use super::rebalance;
use super::turn::{PendingWrite, Turn};
use super::{ClassicGroup, GroupRecord, GroupResponse, GroupState, no_bytes};
use crate::shard::{Now, Token};
use bytes::Bytes;
use kavka_protocol::messages::leave_group_request::MemberIdentity;
use kavka_protocol::messages::leave_group_response::MemberResponse;
use kavka_protocol::messages::{
    HeartbeatRequest, LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeMap;

/// Gives a member another session timeout to live, unless a parked request of it proves that it lives.
pub(super) fn keep_alive(group: &mut ClassicGroup, now: Now, member_id: &str) {
    if let Some(member) = group.members.get_mut(member_id)
        && member.awaiting_join.is_none()
    {
        member.session_deadline_ms = Some(now.monotonic_ms + i64::from(member.session_timeout_ms));
    }
}

pub(super) fn sync_refusal(code: ErrorCode) -> GroupResponse {
    GroupResponse::Sync(SyncGroupResponse {
        error_code: code.code(),
        ..Default::default()
    })
}

pub(super) fn sync(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    token: Token,
    request: SyncGroupRequest,
) {
    if let Err(code) = try_sync(groups, turn, token, request) {
        turn.reply(token, sync_refusal(code));
    }
}

/// `Ok` when the request is answered or parked.
fn try_sync(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    token: Token,
    request: SyncGroupRequest,
) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let group = groups
        .get_mut(&request.group_id)
        .ok_or(ErrorCode::UnknownMemberId)?;
    if group.state == GroupState::Dead {
        return Err(ErrorCode::CoordinatorNotAvailable);
    }
    group.validate_member(&request.member_id, request.group_instance_id.as_ref())?;
    if request.generation_id != group.generation_id {
        return Err(ErrorCode::IllegalGeneration);
    }
    let differs = |asked: &Option<StrBytes>, known: &Option<StrBytes>| matches!((asked, known), (Some(asked), Some(known)) if asked != known);
    if differs(&request.protocol_type, &group.protocol_type)
        || differs(&request.protocol_name, &group.protocol_name)
    {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    match group.state {
        GroupState::Empty => Err(ErrorCode::UnknownMemberId),
        GroupState::Dead => Err(ErrorCode::CoordinatorNotAvailable),
        GroupState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
        GroupState::CompletingRebalance => {
            park_sync(group, turn, token, request);
            Ok(())
        }
        GroupState::Stable => {
            keep_alive(group, turn.now, &request.member_id);
            let assignment = group
                .members
                .get(&request.member_id)
                .map_or_else(no_bytes, |member| member.assignment.clone());
            turn.reply(
                token,
                GroupResponse::Sync(SyncGroupResponse {
                    protocol_type: group.protocol_type.clone(),
                    protocol_name: group.protocol_name.clone(),
                    assignment,
                    ..Default::default()
                }),
            );
            Ok(())
        }
    }
}

fn park_sync(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    request: SyncGroupRequest,
) {
    group.pending_sync.remove(&request.member_id);
    if let Some(member) = group.members.get_mut(&request.member_id) {
        // A member that waits for the others is alive.
        member.session_deadline_ms = None;
        if let Some(earlier) = member.awaiting_sync.replace(token) {
            turn.reply(earlier, sync_refusal(ErrorCode::RebalanceInProgress));
        }
    }
    if !group.is_leader(&request.member_id) {
        return;
    }
    let mut assignments: BTreeMap<_, _> = request
        .assignments
        .into_iter()
        .map(|a| (a.member_id, Bytes::copy_from_slice(&a.assignment)))
        .collect();
    // The record carries the new assignments; the members get them when it is durable. A member that the leader
    // left out gets an empty one.
    let mut value = group.to_value();
    for stored in &mut value.members {
        stored.assignment = assignments
            .get(&stored.member_id)
            .cloned()
            .unwrap_or_default();
    }
    for member in group.members.values_mut() {
        member.assignment = assignments.remove(&member.id).unwrap_or_default();
    }
    let record = GroupRecord::Group {
        group_id: group.id.clone(),
        value: Some(value),
    };
    turn.write(
        vec![record],
        PendingWrite::Assignment {
            group_id: group.id.clone(),
            generation_id: group.generation_id,
        },
    );
}

pub(super) fn heartbeat(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    request: &HeartbeatRequest,
) -> ErrorCode {
    if request.group_id.is_empty() {
        return ErrorCode::InvalidGroupId;
    }
    let Some(group) = groups.get_mut(&request.group_id) else {
        return ErrorCode::UnknownMemberId;
    };
    if group.state == GroupState::Dead {
        return ErrorCode::CoordinatorNotAvailable;
    }
    if let Err(code) = group.validate_member(&request.member_id, request.group_instance_id.as_ref())
    {
        return code;
    }
    if request.generation_id != group.generation_id {
        return ErrorCode::IllegalGeneration;
    }
    match group.state {
        GroupState::Empty => ErrorCode::UnknownMemberId,
        GroupState::Dead => ErrorCode::CoordinatorNotAvailable,
        GroupState::CompletingRebalance | GroupState::Stable => {
            keep_alive(group, turn.now, &request.member_id);
            ErrorCode::None
        }
        GroupState::PreparingRebalance => {
            keep_alive(group, turn.now, &request.member_id);
            ErrorCode::RebalanceInProgress
        }
    }
}

pub(super) fn leave(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    request: LeaveGroupRequest,
    single_member: bool,
) -> LeaveGroupResponse {
    let refused = |code: ErrorCode| LeaveGroupResponse {
        error_code: code.code(),
        ..Default::default()
    };
    if request.group_id.is_empty() {
        return refused(ErrorCode::InvalidGroupId);
    }
    let Some(group) = groups.get_mut(&request.group_id) else {
        if single_member {
            return refused(ErrorCode::UnknownMemberId);
        }
        // A group that is not there has none of the members; the request as a whole is fine.
        let unknown = |identity: MemberIdentity| MemberResponse {
            member_id: identity.member_id,
            group_instance_id: identity.group_instance_id,
            error_code: ErrorCode::UnknownMemberId.code(),
            ..Default::default()
        };
        return LeaveGroupResponse {
            members: request.members.into_iter().map(unknown).collect(),
            ..Default::default()
        };
    };
    if group.state == GroupState::Dead {
        return refused(ErrorCode::CoordinatorNotAvailable);
    }
    let leaving = if single_member {
        vec![MemberIdentity {
            member_id: request.member_id,
            ..Default::default()
        }]
    } else {
        request.members
    };
    let members: Vec<MemberResponse> = leaving
        .into_iter()
        .map(|identity| {
            let code = leave_one(group, turn, &identity);
            MemberResponse {
                member_id: identity.member_id,
                group_instance_id: identity.group_instance_id,
                error_code: code.code(),
                ..Default::default()
            }
        })
        .collect();
    if members
        .iter()
        .any(|m| m.error_code == ErrorCode::None.code())
    {
        rebalance::prepare_or_complete(group, turn);
    }
    match members.first() {
        Some(only) if single_member => LeaveGroupResponse {
            error_code: only.error_code,
            ..Default::default()
        },
        _ => LeaveGroupResponse {
            members,
            ..Default::default()
        },
    }
}

fn leave_one(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    identity: &MemberIdentity,
) -> ErrorCode {
    if group.pending_join.remove(&identity.member_id).is_some() {
        return if identity.group_instance_id.is_some() {
            ErrorCode::UnknownMemberId
        } else {
            ErrorCode::None
        };
    }
    let member_id = match &identity.group_instance_id {
        // An administrator names a static member by its instance id alone.
        Some(instance_id) if identity.member_id.is_empty() => {
            match group.static_members.get(instance_id) {
                Some(member_id) => member_id.clone(),
                None => return ErrorCode::UnknownMemberId,
            }
        }
        instance_id => {
            if let Err(code) = group.validate_member(&identity.member_id, instance_id.as_ref()) {
                return code;
            }
            identity.member_id.clone()
        }
    };
    rebalance::remove(group, turn, &member_id, ErrorCode::UnknownMemberId);
    ErrorCode::None
}
