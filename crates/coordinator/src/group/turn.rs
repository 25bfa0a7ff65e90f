//! One call's working set: the time, the settings, what was decided so far, and writes that are under way.
//! Not here: rules.
//! Lives for one call into the shard. Kafka: CoordinatorResult with its append future.

use super::{DeletedTopic, GroupConfig, GroupOutcome, GroupRecord, GroupResponse};
use crate::shard::{Now, Token, Write, WriteId};
use kavka_protocol::messages::{JoinGroupResponse, OffsetCommitResponse};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeMap;

/// Why records were written: what to do when they are committed or refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PendingWrite {
    /// The leader's assignment for a generation; waiting SyncGroup requests depend on it.
    Assignment {
        group_id: StrBytes,
        generation_id: i32,
    },
    /// A static member came back under a new id (KIP-345); its JoinGroup waits until that is durable.
    StaticMember {
        group_id: StrBytes,
        token: Token,
        member_id: StrBytes,
        response: JoinGroupResponse,
    },
    /// Nobody waits.
    Silent,
    /// An OffsetCommit waits.
    Offsets {
        group_id: StrBytes,
        token: Token,
        response: OffsetCommitResponse,
    },
    /// A request waits whose answer is known already.
    Reply {
        token: Token,
        response: GroupResponse,
    },
    /// Groups are gone once this is durable.
    Deleted {
        group_ids: Vec<StrBytes>,
        next: Option<(Token, GroupResponse)>,
    },
    /// Offsets of a deleted topic go.
    DeletedTopic(DeletedTopic),
}

/// Writes that were handed out and are not done.
#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    next_id: u64,
    under_way: BTreeMap<WriteId, PendingWrite>,
}

impl PendingWrites {
    pub(super) fn take(&mut self, id: WriteId) -> Option<PendingWrite> {
        self.under_way.remove(&id)
    }

    /// The oldest OffsetCommit under way.
    pub(super) fn first_commit(&self) -> Option<WriteId> {
        self.commits().next()
    }

    /// The newest OffsetCommit under way.
    pub(super) fn last_commit(&self) -> Option<WriteId> {
        self.commits().next_back()
    }

    fn commits(&self) -> impl DoubleEndedIterator<Item = WriteId> {
        self.under_way
            .iter()
            .filter(|(_, why)| matches!(why, PendingWrite::Offsets { .. }))
            .map(|(id, _)| *id)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = PendingWrite> + use<> {
        std::mem::take(&mut self.under_way).into_values()
    }
}

pub(super) struct Turn<'a> {
    pub(super) now: Now,
    pub(super) config: &'a GroupConfig,
    pub(super) pending: &'a mut PendingWrites,
    pub(super) out: &'a mut GroupOutcome,
}

impl Turn<'_> {
    pub(super) fn reply(&mut self, token: Token, response: GroupResponse) {
        self.out.replies.push((token, response));
    }

    pub(super) fn write(&mut self, records: Vec<GroupRecord>, why: PendingWrite) {
        let id = WriteId(self.pending.next_id);
        self.pending.next_id += 1;
        self.pending.under_way.insert(id, why);
        self.out.writes.push(Write { id, records });
    }
}

/// The answer that waited for a write, with the error when the write did not happen.
pub(super) fn with_write_result(
    response: GroupResponse,
    result: Result<(), ErrorCode>,
) -> GroupResponse {
    let Err(code) = result else {
        return response;
    };
    match response {
        GroupResponse::Join(mut r) => {
            r.error_code = code.code();
            GroupResponse::Join(r)
        }
        GroupResponse::Sync(mut r) => {
            r.error_code = code.code();
            GroupResponse::Sync(r)
        }
        GroupResponse::Heartbeat(mut r) => {
            r.error_code = code.code();
            GroupResponse::Heartbeat(r)
        }
        GroupResponse::Leave(mut r) => {
            r.error_code = code.code();
            GroupResponse::Leave(r)
        }
        GroupResponse::OffsetCommit(mut r) => {
            for partition in r.topics.iter_mut().flat_map(|t| &mut t.partitions) {
                partition.error_code = code.code();
            }
            GroupResponse::OffsetCommit(r)
        }
        GroupResponse::OffsetDelete(mut r) => {
            r.error_code = code.code();
            r.topics.clear();
            GroupResponse::OffsetDelete(r)
        }
        GroupResponse::DeleteGroups(mut r) => {
            for result in &mut r.results {
                result.error_code = code.code();
            }
            GroupResponse::DeleteGroups(r)
        }
        GroupResponse::TopicsDeleted => GroupResponse::TopicsDeleted,
    }
}
