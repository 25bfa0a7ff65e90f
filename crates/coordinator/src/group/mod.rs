//! The group coordinator's shard: groups of the classic protocol and the offsets they commit.
//! Not here: the consumer, share and streams protocols (later), the assignors (members of a classic group assign).
//! Driven by the runtime of one partition of `__consumer_offsets`.
//! Kafka: org.apache.kafka.coordinator.group.{GroupCoordinatorShard, GroupMetadataManager, OffsetMetadataManager}.

mod classic;
mod deleted_topics;
mod describe;
mod join;
mod member;
mod membership;
mod offsets;
mod rebalance;
mod records;
#[cfg(test)]
mod tests;
mod turn;

pub use classic::{ClassicGroup, GroupState};
pub use deleted_topics::DeletedTopic;
pub use member::Member;
pub use offsets::CommittedOffset;
pub use records::{GroupRecord, GroupRecordError};

use crate::shard::{Now, Outcome, Shard, Token, WriteId};
use bytes::Bytes;
use kavka_common::Uuid;
use kavka_protocol::messages::{
    DeleteGroupsResponse, GroupMetadataValue, HeartbeatRequest, HeartbeatResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    SyncGroupRequest, SyncGroupResponse,
};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::{BTreeMap, BTreeSet};
use turn::{PendingWrite, PendingWrites, Turn};

/// The settings that the shard acts on, by their Kafka names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    pub group_min_session_timeout_ms: i32,
    pub group_max_session_timeout_ms: i32,
    pub group_max_size: usize,
    pub group_initial_rebalance_delay_ms: i64,
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes` in milliseconds.
    pub offsets_retention_ms: i64,
    pub offsets_retention_check_interval_ms: i64,
}

/// Who asks: what the connection knows and the request does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub client_id: StrBytes,
    /// `/address`, as Java prints it.
    pub client_host: StrBytes,
}

/// A request that may change the shard.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRequest {
    Join {
        request: JoinGroupRequest,
        caller: Caller,
        /// Version 4 and later: a new dynamic member is told its id first (KIP-394).
        require_known_member_id: bool,
        /// Version 9 and later: the leader may be told that nobody needs an assignment (KIP-814).
        supports_skipping_assignment: bool,
        /// Drawn by the shell; becomes part of a new member's id.
        new_member_uuid: String,
    },
    Sync(SyncGroupRequest),
    Heartbeat(HeartbeatRequest),
    Leave {
        request: LeaveGroupRequest,
        /// Versions up to 2 carry one member and answer in the top-level error.
        single_member: bool,
    },
    OffsetCommit(OffsetCommitRequest),
    OffsetDelete(OffsetDeleteRequest),
    /// The groups of one DeleteGroups request that live in this shard.
    DeleteGroups(Vec<StrBytes>),
    /// Offsets of these topics are to be forgotten. Answered at once.
    TopicsDeleted(Vec<DeletedTopic>),
}

/// The answer to a [`GroupRequest`] of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupResponse {
    Join(JoinGroupResponse),
    Sync(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    Leave(LeaveGroupResponse),
    OffsetCommit(OffsetCommitResponse),
    OffsetDelete(OffsetDeleteResponse),
    DeleteGroups(DeleteGroupsResponse),
    TopicsDeleted,
}

/// What the runtime gets from one call.
pub type GroupOutcome = Outcome<GroupRecord, GroupResponse>;

/// State that only [`Shard::replay`] changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hard {
    /// Newest committed metadata record of each classic group.
    pub groups: BTreeMap<StrBytes, GroupMetadataValue>,
    /// Committed offsets: group, then topic, then partition.
    pub offsets: BTreeMap<StrBytes, BTreeMap<StrBytes, BTreeMap<i32, CommittedOffset>>>,
}

/// Groups whose records live in one partition of `__consumer_offsets`.
#[derive(Debug)]
pub struct GroupShard {
    config: GroupConfig,
    hard: Hard,
    groups: BTreeMap<StrBytes, ClassicGroup>,
    pending: PendingWrites,
    next_expiry_check_ms: Option<i64>,
    /// Deleted topics of which something may still be stored.
    doomed: Vec<deleted_topics::Doomed>,
}

impl GroupShard {
    pub fn new(config: GroupConfig) -> Self {
        GroupShard {
            config,
            hard: Hard::default(),
            groups: BTreeMap::new(),
            pending: PendingWrites::default(),
            next_expiry_check_ms: None,
            doomed: Vec::new(),
        }
    }

    /// The committed state, for reading and for tests.
    pub fn hard(&self) -> &Hard {
        &self.hard
    }

    /// Topics for which offsets are stored: name and id, `Uuid::ZERO` where it was not stored.
    pub fn committed_topics(&self) -> BTreeSet<(StrBytes, Uuid)> {
        let offsets = self.hard.offsets.values().flatten();
        offsets
            .flat_map(|(topic, partitions)| {
                partitions
                    .values()
                    .map(|committed| (topic.clone(), committed.topic_id))
            })
            .collect()
    }

    /// A group as it is in memory.
    pub fn group(&self, group_id: &str) -> Option<&ClassicGroup> {
        self.groups.get(group_id)
    }

    fn turn<'a>(
        config: &'a GroupConfig,
        pending: &'a mut PendingWrites,
        out: &'a mut GroupOutcome,
        now: Now,
    ) -> Turn<'a> {
        Turn {
            now,
            config,
            pending,
            out,
        }
    }
}

impl Shard for GroupShard {
    type Request = GroupRequest;
    type Response = GroupResponse;
    type Record = GroupRecord;

    fn handle(&mut self, now: Now, token: Token, request: GroupRequest) -> GroupOutcome {
        let mut out = GroupOutcome::default();
        let mut turn = Self::turn(&self.config, &mut self.pending, &mut out, now);
        match request {
            GroupRequest::Join {
                request,
                caller,
                require_known_member_id,
                supports_skipping_assignment,
                new_member_uuid,
            } => {
                let joining = join::Joining {
                    request,
                    caller,
                    require_known_member_id,
                    supports_skipping_assignment,
                    new_member_uuid,
                };
                join::join(&mut self.groups, &mut turn, token, joining);
            }
            GroupRequest::Sync(request) => {
                membership::sync(&mut self.groups, &mut turn, token, request);
            }
            GroupRequest::Heartbeat(request) => {
                let code = membership::heartbeat(&mut self.groups, &mut turn, &request);
                turn.reply(
                    token,
                    GroupResponse::Heartbeat(HeartbeatResponse {
                        error_code: code.code(),
                        ..Default::default()
                    }),
                );
            }
            GroupRequest::Leave {
                request,
                single_member,
            } => {
                let response =
                    membership::leave(&mut self.groups, &mut turn, request, single_member);
                turn.reply(token, GroupResponse::Leave(response));
            }
            GroupRequest::OffsetCommit(request) => {
                offsets::commit(&mut self.groups, &mut turn, token, request);
            }
            GroupRequest::OffsetDelete(request) => {
                offsets::delete(&self.hard, &self.groups, &mut turn, token, request);
            }
            GroupRequest::DeleteGroups(names) => {
                describe::delete_groups(&self.hard, &mut self.groups, &mut turn, token, names);
            }
            GroupRequest::TopicsDeleted(topics) => {
                deleted_topics::forget(&self.hard, &mut self.doomed, &mut turn, topics);
                turn.reply(token, GroupResponse::TopicsDeleted);
            }
        }
        out
    }

    fn on_deadline(&mut self, now: Now) -> GroupOutcome {
        let mut out = GroupOutcome::default();
        let mut turn = Self::turn(&self.config, &mut self.pending, &mut out, now);
        for group in self.groups.values_mut() {
            rebalance::on_deadline(group, &mut turn);
        }
        if self
            .next_expiry_check_ms
            .is_some_and(|due| due <= now.monotonic_ms)
        {
            deleted_topics::retry(&self.hard, &mut self.doomed, &mut turn);
            offsets::expire(&self.hard, &mut self.groups, &mut turn);
            self.next_expiry_check_ms =
                Some(now.monotonic_ms + self.config.offsets_retention_check_interval_ms);
        }
        out
    }

    fn next_deadline_ms(&self) -> Option<i64> {
        self.groups
            .values()
            .filter_map(ClassicGroup::next_deadline_ms)
            .chain(self.next_expiry_check_ms)
            .min()
    }

    fn replay(&mut self, record: GroupRecord) {
        records::replay(&mut self.hard, record);
    }

    fn write_done(&mut self, now: Now, id: WriteId, result: Result<(), ErrorCode>) -> GroupOutcome {
        let mut out = GroupOutcome::default();
        let Some(write) = self.pending.take(id) else {
            return out;
        };
        let mut turn = Self::turn(&self.config, &mut self.pending, &mut out, now);
        match write {
            PendingWrite::Assignment {
                group_id,
                generation_id,
            } => {
                if let Some(group) = self.groups.get_mut(&group_id) {
                    rebalance::assignment_written(group, &mut turn, generation_id, result);
                }
            }
            PendingWrite::StaticMember {
                group_id,
                token,
                member_id,
                response,
            } => {
                if let Some(group) = self.groups.get_mut(&group_id) {
                    join::static_member_written(
                        group, &mut turn, token, &member_id, response, result,
                    );
                }
            }
            PendingWrite::Silent => {}
            PendingWrite::Offsets {
                group_id,
                token,
                response,
            } => {
                if let Some(group) = self.groups.get_mut(&group_id) {
                    group.pending_offset_commits = group.pending_offset_commits.saturating_sub(1);
                }
                turn.reply(token, offsets::committed(response, result));
                deleted_topics::commit_done(&self.hard, &mut self.doomed, &mut turn);
            }
            PendingWrite::DeletedTopic(topic) => {
                if result.is_err() {
                    deleted_topics::not_written(&mut self.doomed, vec![topic]);
                }
            }
            PendingWrite::Reply { token, response } => {
                turn.reply(token, turn::with_write_result(response, result));
            }
            PendingWrite::Deleted { group_ids, next } => {
                for group_id in &group_ids {
                    describe::deletion_written(&mut self.groups, group_id, result);
                }
                if let Some((token, response)) = next {
                    turn.reply(token, turn::with_write_result(response, result));
                }
            }
        }
        out
    }

    fn loaded(&mut self, now: Now) {
        self.groups = self
            .hard
            .groups
            .iter()
            .map(|(id, value)| (id.clone(), ClassicGroup::loaded(id.clone(), value, now)))
            .collect();
        for id in self.hard.offsets.keys() {
            self.groups
                .entry(id.clone())
                .or_insert_with(|| ClassicGroup::new(id.clone(), now));
        }
        self.next_expiry_check_ms =
            Some(now.monotonic_ms + self.config.offsets_retention_check_interval_ms);
    }

    fn unload(&mut self) -> Vec<(Token, GroupResponse)> {
        let mut waiting = Vec::new();
        for group in self.groups.values_mut() {
            for member in group.members.values_mut() {
                if let Some(token) = member.awaiting_join.take() {
                    let response = join::refusal(ErrorCode::NotCoordinator, member.id.clone());
                    waiting.push((token, GroupResponse::Join(response)));
                }
                if let Some(token) = member.awaiting_sync.take() {
                    waiting.push((token, membership::sync_refusal(ErrorCode::NotCoordinator)));
                }
            }
        }
        for write in self.pending.drain() {
            match write {
                PendingWrite::Assignment { .. }
                | PendingWrite::Silent
                | PendingWrite::DeletedTopic(_) => {}
                PendingWrite::StaticMember {
                    token, member_id, ..
                } => {
                    let response = join::refusal(ErrorCode::NotCoordinator, member_id);
                    waiting.push((token, GroupResponse::Join(response)));
                }
                PendingWrite::Offsets {
                    token, response, ..
                } => waiting.push((
                    token,
                    offsets::committed(response, Err(ErrorCode::NotCoordinator)),
                )),
                PendingWrite::Reply { token, response }
                | PendingWrite::Deleted {
                    next: Some((token, response)),
                    ..
                } => waiting.push((
                    token,
                    turn::with_write_result(response, Err(ErrorCode::NotCoordinator)),
                )),
                PendingWrite::Deleted { next: None, .. } => {}
            }
        }
        self.groups.clear();
        self.doomed.clear();
        self.hard = Hard::default();
        waiting
    }
}

/// Bytes of an empty assignment or metadata.
fn no_bytes() -> Bytes {
    Bytes::new()
}
