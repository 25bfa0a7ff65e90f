//! A rebalance of a classic group, from the first cause to the assignment, and all its timers.
//! Not here: the requests that cause it.
//! Runs inside a call into the shard. Kafka: GroupMetadataManager.{prepareRebalance, completeClassicGroupJoin,
//! maybePrepareRebalanceOrCompleteJoin, expirePendingSync, expireClassicGroupMemberHeartbeat}; KIP-134, KIP-345.

use super::classic::JoinTimer;
use super::turn::{PendingWrite, Turn};
use super::{ClassicGroup, GroupRecord, GroupResponse, GroupState, join, membership, no_bytes};
use kavka_protocol::messages::SyncGroupResponse;
use kavka_protocol::{ErrorCode, StrBytes};

/// A new member's first join may take this long (ClassicGroup.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT).
pub(super) const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 5 * 60 * 1000;

/// Starts a rebalance, or ends the join phase of the running one when everybody is there.
pub(super) fn prepare_or_complete(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    match group.state {
        GroupState::PreparingRebalance => complete_if_all_joined(group, turn),
        GroupState::Empty | GroupState::CompletingRebalance | GroupState::Stable => {
            prepare(group, turn);
        }
        GroupState::Dead => {}
    }
}

/// Starts a rebalance if the state allows one.
pub(super) fn maybe_prepare(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    if matches!(
        group.state,
        GroupState::Empty | GroupState::CompletingRebalance | GroupState::Stable
    ) {
        prepare(group, turn);
    }
}

pub(super) fn prepare(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    if group.state == GroupState::CompletingRebalance {
        reset_assignments(group, turn, ErrorCode::RebalanceInProgress);
    }
    group.pending_sync.clear();
    group.sync_deadline_ms = None;
    let now_ms = turn.now.monotonic_ms;
    let initial = group.state == GroupState::Empty;
    group.transition(GroupState::PreparingRebalance, turn.now);
    if initial {
        let delay_ms = turn.config.group_initial_rebalance_delay_ms;
        let remaining_ms = (group.rebalance_timeout_ms() - delay_ms).max(0);
        group.join_timer = Some(JoinTimer::Initial {
            due_ms: now_ms + delay_ms,
            remaining_ms,
        });
        group.new_member_added = false;
        if delay_ms <= 0 {
            on_join_timer(group, turn);
        }
    } else {
        group.join_timer = Some(JoinTimer::Rebalance {
            due_ms: now_ms + group.rebalance_timeout_ms(),
        });
        complete_if_all_joined(group, turn);
    }
}

fn complete_if_all_joined(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    // The initial delay waits for members that nobody knows of yet.
    let waits_for_more = matches!(group.join_timer, Some(JoinTimer::Initial { .. }));
    if !waits_for_more && group.all_members_joined() {
        complete_join(group, turn);
    }
}

fn on_join_timer(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    match group.join_timer {
        Some(JoinTimer::Initial { remaining_ms, .. })
            if group.new_member_added && remaining_ms > 0 =>
        {
            group.new_member_added = false;
            let delay_ms = turn
                .config
                .group_initial_rebalance_delay_ms
                .min(remaining_ms);
            group.join_timer = Some(JoinTimer::Initial {
                due_ms: turn.now.monotonic_ms + delay_ms,
                remaining_ms: remaining_ms - delay_ms,
            });
        }
        Some(_) => complete_join(group, turn),
        None => {}
    }
}

/// Ends the join phase: who is missing leaves, a generation begins, everybody hears of it.
fn complete_join(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    group.join_timer = None;
    let missing: Vec<StrBytes> = group
        .members
        .values()
        .filter(|member| member.awaiting_join.is_none() && !member.is_static())
        .map(|member| member.id.clone())
        .collect();
    for member_id in missing {
        remove(group, turn, &member_id, ErrorCode::UnknownMemberId);
    }
    if !elect_joined_leader(group) && !group.members.is_empty() {
        // Only static members are left and none of them came: keep their places for another round.
        group.join_timer = Some(JoinTimer::Rebalance {
            due_ms: turn.now.monotonic_ms + group.rebalance_timeout_ms(),
        });
        return;
    }
    group.generation_id = group.generation_id.wrapping_add(1).max(0);
    if group.members.is_empty() {
        group.protocol_name = None;
        group.leader_id = None;
        group.transition(GroupState::Empty, turn.now);
        write_group(group, turn, PendingWrite::Silent);
        return;
    }
    group.protocol_name = group.select_protocol();
    group.transition(GroupState::CompletingRebalance, turn.now);
    let mut replies = Vec::new();
    let ids: Vec<StrBytes> = group.members.keys().cloned().collect();
    for member_id in &ids {
        let response = join::accepted(group, member_id, false);
        let now_ms = turn.now.monotonic_ms;
        if let Some(member) = group.members.get_mut(member_id) {
            if let Some(token) = member.awaiting_join.take() {
                replies.push((token, GroupResponse::Join(response)));
            }
            member.is_new = false;
            member.session_deadline_ms = Some(now_ms + i64::from(member.session_timeout_ms));
        }
        group.pending_sync.insert(member_id.clone());
    }
    turn.out.replies.extend(replies);
    group.sync_deadline_ms = Some(turn.now.monotonic_ms + group.rebalance_timeout_ms());
}

/// Keeps the leader if it rejoined, else takes a member that did. `false` when nobody did.
fn elect_joined_leader(group: &mut ClassicGroup) -> bool {
    let joined = |id: &StrBytes, group: &ClassicGroup| {
        group
            .members
            .get(id)
            .is_some_and(|member| member.awaiting_join.is_some())
    };
    if group
        .leader_id
        .as_ref()
        .is_some_and(|leader| joined(leader, group))
    {
        return true;
    }
    let candidate = group
        .members
        .values()
        .find(|member| member.awaiting_join.is_some())
        .map(|member| member.id.clone());
    match candidate {
        Some(id) => {
            group.leader_id = Some(id);
            true
        }
        None => false,
    }
}

/// The leader's assignment is durable, or could not be written.
pub(super) fn assignment_written(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    generation_id: i32,
    result: Result<(), ErrorCode>,
) {
    // Another rebalance may have begun since; its members have been told already.
    if group.state != GroupState::CompletingRebalance || group.generation_id != generation_id {
        return;
    }
    match result {
        Ok(()) => {
            group.sync_deadline_ms = None;
            group.pending_sync.clear();
            group.transition(GroupState::Stable, turn.now);
            answer_parked_syncs(group, turn);
        }
        Err(code) => {
            reset_assignments(group, turn, code);
            maybe_prepare(group, turn);
        }
    }
}

fn answer_parked_syncs(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    let (protocol_type, protocol_name) = (group.protocol_type.clone(), group.protocol_name.clone());
    for member in group.members.values_mut() {
        if let Some(token) = member.awaiting_sync.take() {
            member.session_deadline_ms =
                Some(turn.now.monotonic_ms + i64::from(member.session_timeout_ms));
            turn.reply(
                token,
                GroupResponse::Sync(SyncGroupResponse {
                    protocol_type: protocol_type.clone(),
                    protocol_name: protocol_name.clone(),
                    assignment: member.assignment.clone(),
                    ..Default::default()
                }),
            );
        }
    }
}

fn reset_assignments(group: &mut ClassicGroup, turn: &mut Turn<'_>, code: ErrorCode) {
    for member in group.members.values_mut() {
        member.assignment = no_bytes();
        if let Some(token) = member.awaiting_sync.take() {
            member.session_deadline_ms =
                Some(turn.now.monotonic_ms + i64::from(member.session_timeout_ms));
            turn.reply(token, membership::sync_refusal(code));
        }
    }
}

/// Takes a member out and answers what it had parked.
pub(super) fn remove(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    member_id: &str,
    code: ErrorCode,
) {
    let Some(member) = group.remove_member(member_id) else {
        return;
    };
    if let Some(token) = member.awaiting_join {
        let response = join::refusal(code, member.id);
        turn.reply(token, GroupResponse::Join(response));
    }
    if let Some(token) = member.awaiting_sync {
        turn.reply(token, membership::sync_refusal(code));
    }
}

/// Takes a member out and lets the group go on without it.
pub(super) fn remove_and_rebalance(
    group: &mut ClassicGroup,
    turn: &mut Turn<'_>,
    member_id: &str,
    code: ErrorCode,
) {
    remove(group, turn, member_id, code);
    prepare_or_complete(group, turn);
}

/// Writes the group's record as it stands.
pub(super) fn write_group(group: &ClassicGroup, turn: &mut Turn<'_>, why: PendingWrite) {
    let record = GroupRecord::Group {
        group_id: group.id.clone(),
        value: Some(group.to_value()),
    };
    turn.write(vec![record], why);
}

/// Runs the group's timers that are due.
pub(super) fn on_deadline(group: &mut ClassicGroup, turn: &mut Turn<'_>) {
    let now_ms = turn.now.monotonic_ms;
    let lapsed = group.pending_join.len();
    group.pending_join.retain(|_, due_ms| *due_ms > now_ms);
    if group.pending_join.len() < lapsed && group.state == GroupState::PreparingRebalance {
        complete_if_all_joined(group, turn);
    }

    let expired: Vec<StrBytes> = group
        .members
        .values()
        .filter(|member| member.session_deadline_ms.is_some_and(|due| due <= now_ms))
        .map(|member| member.id.clone())
        .collect();
    for member_id in expired {
        remove_and_rebalance(group, turn, &member_id, ErrorCode::UnknownMemberId);
    }

    if group.sync_deadline_ms.is_some_and(|due| due <= now_ms) {
        group.sync_deadline_ms = None;
        let late = std::mem::take(&mut group.pending_sync);
        if group.state == GroupState::CompletingRebalance && !late.is_empty() {
            for member_id in &late {
                remove(group, turn, member_id, ErrorCode::UnknownMemberId);
            }
            prepare(group, turn);
        }
    }

    if group.join_timer.is_some_and(|timer| match timer {
        JoinTimer::Initial { due_ms, .. } | JoinTimer::Rebalance { due_ms } => due_ms <= now_ms,
    }) {
        on_join_timer(group, turn);
    }
}
