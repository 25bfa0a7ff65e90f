//! JoinGroup for classic groups: dynamic and static members, known and new.
//! Not here: what a rebalance does once it runs (rebalance).
//! Runs inside a call into the shard. Kafka: GroupMetadataManager.classicGroupJoinToClassicGroup; KIP-345, KIP-394, KIP-814.

use super::member::{Protocol, protocols_of};
use super::rebalance::{self, NEW_MEMBER_JOIN_TIMEOUT_MS};
use super::turn::{PendingWrite, Turn};
use super::{Caller, ClassicGroup, GroupResponse, GroupState, Member, membership, no_bytes};
use crate::shard::Token;
use kavka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kavka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeMap;

pub(super) struct Joining {
    pub(super) request: JoinGroupRequest,
    pub(super) caller: Caller,
    pub(super) require_known_member_id: bool,
    pub(super) supports_skipping_assignment: bool,
    pub(super) new_member_uuid: String,
}

/// A refusal as Kafka shapes it.
pub(super) fn refusal(code: ErrorCode, member_id: StrBytes) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: code.code(),
        generation_id: -1,
        // versions that know no null are given the empty name by the shell
        protocol_name: None,
        member_id,
        ..Default::default()
    }
}

/// The answer to a member of the current generation; the leader also gets the members' metadata.
pub(super) fn accepted(
    group: &ClassicGroup,
    member_id: &StrBytes,
    skip_assignment: bool,
) -> JoinGroupResponse {
    let members = if group.is_leader(member_id) {
        let protocol_name = group.protocol_name.as_deref().unwrap_or_default();
        group
            .members
            .values()
            .map(|member| JoinGroupResponseMember {
                member_id: member.id.clone(),
                group_instance_id: member.instance_id.clone(),
                metadata: member.metadata(protocol_name),
                ..Default::default()
            })
            .collect()
    } else {
        Vec::new()
    };
    JoinGroupResponse {
        generation_id: group.generation_id,
        protocol_type: group.protocol_type.clone(),
        protocol_name: group.protocol_name.clone(),
        leader: group.leader_id.clone().unwrap_or_default(),
        skip_assignment,
        member_id: member_id.clone(),
        members,
        ..Default::default()
    }
}

pub(super) fn join(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    token: Token,
    joining: Joining,
) {
    let member_id = joining.request.member_id.clone();
    if let Err(code) = try_join(groups, turn, token, joining) {
        turn.reply(token, GroupResponse::Join(refusal(code, member_id)));
    }
}

/// `Ok` when the request is answered or parked.
fn try_join(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    token: Token,
    joining: Joining,
) -> Result<(), ErrorCode> {
    let request = &joining.request;
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let legal_session =
        turn.config.group_min_session_timeout_ms..=turn.config.group_max_session_timeout_ms;
    if !legal_session.contains(&request.session_timeout_ms) {
        return Err(ErrorCode::InvalidSessionTimeout);
    }
    let is_new_member = request.member_id.is_empty();
    let is_new_group = !groups.contains_key(&request.group_id);
    if is_new_group && !is_new_member {
        return Err(ErrorCode::UnknownMemberId);
    }
    let protocols = protocols_of(&request.protocols);
    if is_new_group && (request.protocol_type.is_empty() || protocols.is_empty()) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    let group_id = request.group_id.detached();
    let group = groups
        .entry(group_id.clone())
        .or_insert_with(|| ClassicGroup::new(group_id, turn.now));
    if is_new_group {
        rebalance::write_group(group, turn, PendingWrite::Silent);
    }
    if group.state == GroupState::Dead {
        return Err(ErrorCode::CoordinatorNotAvailable);
    }
    if !has_room(group, turn.config.group_max_size, &request.member_id) {
        return Err(ErrorCode::GroupMaxSizeReached);
    }
    if !group.supports(&request.protocol_type, &protocols) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    if is_new_member {
        join_new(group, turn, token, joining, protocols)
    } else {
        join_existing(group, turn, token, joining, protocols)
    }
}

/// Whether the group may take (or keep) the member (GroupMetadataManager.acceptJoiningMember).
fn has_room(group: &ClassicGroup, group_max_size: usize, member_id: &StrBytes) -> bool {
    let joined = || {
        group
            .members
            .values()
            .filter(|member| member.awaiting_join.is_some())
            .count()
    };
    match group.state {
        GroupState::Empty | GroupState::Dead => true,
        GroupState::PreparingRebalance => match group.members.get(member_id) {
            Some(member) => member.awaiting_join.is_some() || joined() < group_max_size,
            None => joined() < group_max_size,
        },
        GroupState::CompletingRebalance | GroupState::Stable => {
            group.members.contains_key(member_id) || group.members.len() < group_max_size
        }
    }
}

fn join_new(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    joining: Joining,
    protocols: Vec<Protocol>,
) -> Result<(), ErrorCode> {
    let prefix = match &joining.request.group_instance_id {
        Some(instance_id) => instance_id,
        None => &joining.caller.client_id,
    };
    let new_id = StrBytes::from(format!("{prefix}-{}", joining.new_member_uuid));
    match joining.request.group_instance_id.clone() {
        Some(instance_id) if group.static_members.contains_key(&instance_id) => {
            let instance_id = instance_id.detached();
            replace_static(group, turn, token, joining, protocols, instance_id, new_id);
        }
        None if joining.require_known_member_id => {
            let lapses_ms = turn.now.monotonic_ms + i64::from(joining.request.session_timeout_ms);
            group.pending_join.insert(new_id.clone(), lapses_ms);
            turn.reply(
                token,
                GroupResponse::Join(refusal(ErrorCode::MemberIdRequired, new_id)),
            );
        }
        Some(_) | None => add(group, turn, token, joining, protocols, new_id),
    }
    Ok(())
}

fn join_existing(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    joining: Joining,
    protocols: Vec<Protocol>,
) -> Result<(), ErrorCode> {
    let member_id = joining.request.member_id.clone();
    let instance_id = joining.request.group_instance_id.clone();
    if group.pending_join.contains_key(&member_id) {
        // Ids are handed out this way to dynamic members only.
        if instance_id.is_some() {
            return Err(ErrorCode::UnknownMemberId);
        }
        add(group, turn, token, joining, protocols, member_id.detached());
        return Ok(());
    }
    group.validate_member(&member_id, instance_id.as_ref())?;
    let unchanged = group
        .members
        .get(&member_id)
        .is_some_and(|member| member.offers(&protocols));
    match group.state {
        GroupState::PreparingRebalance => update(group, turn, token, &joining, protocols),
        GroupState::CompletingRebalance if unchanged => {
            // It did not get the answer of this generation: say it again.
            reply_current(group, turn, token, &member_id);
        }
        GroupState::Stable if unchanged && !group.is_leader(&member_id) => {
            reply_current(group, turn, token, &member_id);
        }
        GroupState::CompletingRebalance | GroupState::Stable => {
            update(group, turn, token, &joining, protocols);
        }
        GroupState::Empty | GroupState::Dead => return Err(ErrorCode::UnknownMemberId),
    }
    Ok(())
}

fn reply_current(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    member_id: &StrBytes,
) {
    membership::keep_alive(group, turn.now, member_id);
    let response = accepted(group, member_id, false);
    turn.reply(token, GroupResponse::Join(response));
}

/// The rebalance timeout of version 0 is the session timeout.
fn rebalance_timeout_ms(request: &JoinGroupRequest) -> i32 {
    match request.rebalance_timeout_ms {
        -1 => request.session_timeout_ms,
        given => given,
    }
}

fn add(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    joining: Joining,
    protocols: Vec<Protocol>,
    member_id: StrBytes,
) {
    let request = joining.request;
    if group.members.is_empty() {
        group.protocol_type = Some(request.protocol_type.detached());
        group.leader_id = None;
    }
    if matches!(
        group.join_timer,
        Some(super::classic::JoinTimer::Initial { .. })
    ) {
        group.new_member_added = true;
    }
    let rebalance_timeout_ms = rebalance_timeout_ms(&request);
    group.add_member(Member {
        id: member_id,
        instance_id: request.group_instance_id.map(|id| id.detached()),
        client_id: joining.caller.client_id.detached(),
        client_host: joining.caller.client_host,
        rebalance_timeout_ms,
        session_timeout_ms: request.session_timeout_ms,
        protocols,
        assignment: no_bytes(),
        awaiting_join: Some(token),
        awaiting_sync: None,
        is_new: true,
        // The answer may be long in coming; until then this guards against a client that is gone for good.
        session_deadline_ms: Some(turn.now.monotonic_ms + NEW_MEMBER_JOIN_TIMEOUT_MS),
    });
    rebalance::prepare_or_complete(group, turn);
}

fn update(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    joining: &Joining,
    protocols: Vec<Protocol>,
) {
    let Some(member) = group.members.get_mut(&joining.request.member_id) else {
        return;
    };
    member.protocols = protocols;
    member.rebalance_timeout_ms = rebalance_timeout_ms(&joining.request);
    member.session_timeout_ms = joining.request.session_timeout_ms;
    if !member.is_new {
        member.session_deadline_ms = None;
    }
    if let Some(earlier) = member.awaiting_join.replace(token) {
        // The same member asks again, on another connection: the first request must not wait for ever.
        let response = refusal(ErrorCode::RebalanceInProgress, member.id.clone());
        turn.reply(earlier, GroupResponse::Join(response));
    }
    rebalance::prepare_or_complete(group, turn);
}

/// A static member is back without its member id: it gets a new one, the old one is fenced.
fn replace_static(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    joining: Joining,
    protocols: Vec<Protocol>,
    instance_id: StrBytes,
    new_id: StrBytes,
) {
    let leader_before = group.leader_id.clone();
    let Some(old_id) = group.static_members.get(&instance_id).cloned() else {
        return;
    };
    let Some(mut member) = group.members.remove(&old_id) else {
        return;
    };
    if let Some(parked) = member.awaiting_join.take() {
        let response = refusal(ErrorCode::FencedInstanceId, old_id.clone());
        turn.reply(parked, GroupResponse::Join(response));
    }
    if let Some(parked) = member.awaiting_sync.take() {
        turn.reply(
            parked,
            membership::sync_refusal(ErrorCode::FencedInstanceId),
        );
    }
    if group.pending_sync.remove(&old_id) {
        group.pending_sync.insert(new_id.clone());
    }
    if group.is_leader(&old_id) {
        group.leader_id = Some(new_id.clone());
    }
    member.id = new_id.clone();
    member.client_id = joining.caller.client_id.detached();
    member.client_host = joining.caller.client_host;
    member.protocols = protocols;
    member.rebalance_timeout_ms = rebalance_timeout_ms(&joining.request);
    member.session_timeout_ms = joining.request.session_timeout_ms;
    group.static_members.insert(instance_id, new_id.clone());

    let keeps_protocol = group.state == GroupState::Stable && {
        group.members.insert(new_id.clone(), member.clone());
        group.select_protocol() == group.protocol_name
    };
    if keeps_protocol {
        // No rebalance for a restart within the session timeout (KIP-345); only the new id must be durable.
        membership::keep_alive(group, turn.now, &new_id);
        let mut response = accepted(group, &new_id, false);
        if !joining.supports_skipping_assignment {
            // An old client that is told it leads would assign; it is told the id that led before.
            response.leader = leader_before.unwrap_or_default();
            response.members = Vec::new();
        } else if group.is_leader(&new_id) {
            response.skip_assignment = true;
        }
        rebalance::write_group(
            group,
            turn,
            PendingWrite::StaticMember {
                group_id: group.id.clone(),
                token,
                member_id: new_id,
                response,
            },
        );
        return;
    }
    member.awaiting_join = Some(token);
    member.session_deadline_ms = None;
    group.members.insert(new_id, member);
    rebalance::prepare_or_complete(group, turn);
}

/// The record with a static member's new id is durable, or could not be written.
pub(super) fn static_member_written(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    token: Token,
    member_id: &StrBytes,
    response: JoinGroupResponse,
    result: Result<(), ErrorCode>,
) {
    let response = match result {
        Ok(()) => response,
        Err(code) => {
            // The id never became known: the group goes on without it, the client joins afresh.
            rebalance::remove_and_rebalance(group, turn, member_id, code);
            refusal(code, StrBytes::default())
        }
    };
    turn.reply(token, GroupResponse::Join(response));
}
