//! Offsets of topics that are deleted: their tombstones, so that a topic made again under the name starts afresh.
//! Not here: who notices that a topic is gone (the runtime), offsets whose time is over (offsets).
//! Runs inside a call into the shard.
//! Kafka: org.apache.kafka.coordinator.group.OffsetMetadataManager.onTopicsDeleted, GroupCoordinatorShard.DeletedTopic.

use super::turn::{PendingWrite, Turn};
use super::{CommittedOffset, GroupRecord, Hard};
use crate::shard::WriteId;
use kavka_common::Uuid;
use kavka_protocol::StrBytes;

/// Tombstones in one batch: a batch must stay below `max.message.bytes` however many groups read the topic.
const TOMBSTONES_PER_WRITE: usize = 1_000;

/// A topic that does not exist any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    pub name: StrBytes,
    /// `Uuid::ZERO` means offsets that were stored without an id, and only those.
    pub id: Uuid,
}

impl DeletedTopic {
    /// Another topic of the same name may exist already, with offsets of its own.
    fn had(&self, committed: &CommittedOffset) -> bool {
        committed.topic_id == Uuid::ZERO || committed.topic_id == self.id
    }
}

/// A deleted topic that is not done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doomed {
    topic: DeletedTopic,
    /// The last commit that was under way when the topic went: what it stores must go, too. `None`: the tombstones
    /// could not be written; tried again with the next check for expired offsets.
    after: Option<WriteId>,
}

/// Writes tombstones for all that is stored, and remembers the topics while commits are under way.
pub(super) fn forget(
    hard: &Hard,
    doomed: &mut Vec<Doomed>,
    turn: &mut Turn<'_>,
    topics: Vec<DeletedTopic>,
) {
    // Before the tombstones, which are writes themselves.
    if let Some(last) = turn.pending.last_commit() {
        doomed.extend(topics.iter().map(|topic| Doomed {
            topic: topic.clone(),
            after: Some(last),
        }));
    }
    write_tombstones(hard, turn, topics);
}

/// A commit is done, well or not.
pub(super) fn commit_done(hard: &Hard, doomed: &mut Vec<Doomed>, turn: &mut Turn<'_>) {
    if doomed.is_empty() {
        return;
    }
    let first = turn.pending.first_commit();
    let ripe = take(doomed, |doomed| {
        doomed
            .after
            .is_some_and(|after| first.is_none_or(|first| first > after))
    });
    write_tombstones(hard, turn, ripe);
}

/// Tombstones could not be written.
pub(super) fn not_written(doomed: &mut Vec<Doomed>, topics: Vec<DeletedTopic>) {
    for topic in topics {
        let again = Doomed { topic, after: None };
        if !doomed.contains(&again) {
            doomed.push(again);
        }
    }
}

/// Tries again what could not be written.
pub(super) fn retry(hard: &Hard, doomed: &mut Vec<Doomed>, turn: &mut Turn<'_>) {
    let again = take(doomed, |doomed| doomed.after.is_none());
    write_tombstones(hard, turn, again);
}

fn take(doomed: &mut Vec<Doomed>, which: impl Fn(&Doomed) -> bool) -> Vec<DeletedTopic> {
    doomed
        .extract_if(.., |doomed| which(doomed))
        .map(|doomed| doomed.topic)
        .collect()
}

fn write_tombstones(hard: &Hard, turn: &mut Turn<'_>, topics: Vec<DeletedTopic>) {
    for topic in topics {
        let mut records = Vec::new();
        for (group_id, offsets) in &hard.offsets {
            for (partition, committed) in offsets.get(&topic.name).into_iter().flatten() {
                if topic.had(committed) {
                    records.push(GroupRecord::Offset {
                        group_id: group_id.clone(),
                        topic: topic.name.clone(),
                        partition: *partition,
                        value: None,
                    });
                }
            }
        }
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(TOMBSTONES_PER_WRITE));
            turn.write(
                std::mem::replace(&mut records, rest),
                PendingWrite::DeletedTopic(topic.clone()),
            );
        }
    }
}
