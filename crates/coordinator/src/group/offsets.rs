//! Committed offsets: commit, fetch, delete, expiry.
//! Not here: offsets inside transactions (with the transaction coordinator), whether a topic exists (the API).
//! Runs inside a call into the shard. Kafka: org.apache.kafka.coordinator.group.{OffsetMetadataManager,
//! OffsetExpirationConditionImpl}; KIP-211, KIP-496.

use super::turn::{PendingWrite, Turn};
use super::{ClassicGroup, GroupRecord, GroupResponse, GroupShard, GroupState, Hard, membership};
use crate::shard::{Now, Token};
use kavka_common::{LeaderEpoch, Offset, Uuid};
use kavka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kavka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kavka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kavka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kavka_protocol::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitValue, OffsetDeleteRequest,
    OffsetDeleteResponse,
};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeMap;

/// `CommittedOffset` of a partition without one.
const NO_OFFSET: Offset = -1;

/// What a group committed for one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedOffset {
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: StrBytes,
    pub commit_timestamp_ms: i64,
    /// Set by old clients that chose their own retention.
    pub expire_timestamp_ms: Option<i64>,
    /// `Uuid::ZERO` where it was not known.
    pub topic_id: Uuid,
}

impl CommittedOffset {
    pub(super) fn to_value(&self) -> OffsetCommitValue {
        OffsetCommitValue {
            offset: self.offset,
            leader_epoch: self.leader_epoch.get(),
            metadata: self.metadata.clone(),
            commit_timestamp: self.commit_timestamp_ms,
            expire_timestamp: self.expire_timestamp_ms.unwrap_or(-1),
            topic_id: self.topic_id,
            ..Default::default()
        }
    }

    pub(super) fn from_value(value: OffsetCommitValue) -> Self {
        CommittedOffset {
            offset: value.offset,
            leader_epoch: LeaderEpoch(value.leader_epoch),
            metadata: value.metadata,
            commit_timestamp_ms: value.commit_timestamp,
            expire_timestamp_ms: (value.expire_timestamp >= 0).then_some(value.expire_timestamp),
            topic_id: value.topic_id,
        }
    }
}

/// Every partition of a request, answered alike.
fn commit_response(
    request: &OffsetCommitRequest,
    mut code: impl FnMut(&str) -> ErrorCode,
) -> OffsetCommitResponse {
    OffsetCommitResponse {
        topics: request
            .topics
            .iter()
            .map(|topic| OffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| OffsetCommitResponsePartition {
                        partition_index: partition.partition_index,
                        error_code: code(
                            partition.committed_metadata.as_deref().unwrap_or_default(),
                        )
                        .code(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// The answer once its write is done: partitions that were to be written take over the write's error.
pub(super) fn committed(
    mut response: OffsetCommitResponse,
    result: Result<(), ErrorCode>,
) -> GroupResponse {
    if let Err(code) = result {
        for partition in response.topics.iter_mut().flat_map(|t| &mut t.partitions) {
            if partition.error_code == ErrorCode::None.code() {
                partition.error_code = code.code();
            }
        }
    }
    GroupResponse::OffsetCommit(response)
}

pub(super) fn commit(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    token: Token,
    request: OffsetCommitRequest,
) {
    if let Err(code) = admit_commit(groups, turn.now, &request) {
        let response = commit_response(&request, |_| code);
        turn.reply(token, GroupResponse::OffsetCommit(response));
        return;
    }
    let metadata_max = turn.config.offset_metadata_max_bytes;
    let response = commit_response(&request, |metadata| {
        if metadata.len() > metadata_max {
            ErrorCode::OffsetMetadataTooLarge
        } else {
            ErrorCode::None
        }
    });
    let now_ms = turn.now.wall_ms;
    let expire_timestamp_ms =
        (request.retention_time_ms >= 0).then(|| now_ms.saturating_add(request.retention_time_ms));
    // What is stored outlives the request's frame.
    let group_id = request.group_id.detached();
    let mut records = Vec::new();
    for topic in request.topics {
        let name = topic.name.detached();
        for partition in topic.partitions {
            let metadata = partition.committed_metadata.unwrap_or_default().detached();
            if metadata.len() > metadata_max {
                continue;
            }
            records.push(GroupRecord::Offset {
                group_id: group_id.clone(),
                topic: name.clone(),
                partition: partition.partition_index,
                value: Some(CommittedOffset {
                    offset: partition.committed_offset,
                    leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                    metadata,
                    commit_timestamp_ms: now_ms,
                    expire_timestamp_ms,
                    topic_id: topic.topic_id,
                }),
            });
        }
    }
    if records.is_empty() {
        turn.reply(token, GroupResponse::OffsetCommit(response));
        return;
    }
    if let Some(group) = groups.get_mut(&group_id) {
        group.pending_offset_commits += 1;
    }
    turn.write(
        records,
        PendingWrite::Offsets {
            group_id,
            token,
            response,
        },
    );
}

/// Whether the caller may commit for the group; a group that only stores offsets comes into being here.
fn admit_commit(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    now: Now,
    request: &OffsetCommitRequest,
) -> Result<(), ErrorCode> {
    // The empty group id is taken: old clients that only store offsets use it.
    let generation_id = request.generation_id_or_member_epoch;
    let Some(group) = groups.get_mut(&request.group_id) else {
        if generation_id >= 0 {
            return Err(ErrorCode::GroupIdNotFound);
        }
        let group_id = request.group_id.detached();
        groups.insert(group_id.clone(), ClassicGroup::new(group_id, now));
        return Ok(());
    };
    if group.state == GroupState::Dead {
        return Err(ErrorCode::CoordinatorNotAvailable);
    }
    if generation_id < 0 && group.state == GroupState::Empty {
        return Ok(());
    }
    if generation_id >= 0 || !request.member_id.is_empty() || request.group_instance_id.is_some() {
        group.validate_member(&request.member_id, request.group_instance_id.as_ref())?;
        if generation_id != group.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
    } else if group.state != GroupState::Empty {
        return Err(ErrorCode::UnknownMemberId);
    }
    match group.state {
        GroupState::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
        GroupState::Stable | GroupState::PreparingRebalance => {
            membership::keep_alive(group, now, &request.member_id);
            Ok(())
        }
        GroupState::Empty | GroupState::Dead => Ok(()),
    }
}

impl GroupShard {
    /// Committed offsets of one group; `topics` of `None` asks for all of them. Names and ids are as asked.
    pub fn fetch_offsets(&self, request: &OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
        let known = self.hard().offsets.get(&request.group_id);
        let one = |topic: &StrBytes, partition: i32| {
            known
                .and_then(|topics| topics.get(topic))
                .and_then(|partitions| partitions.get(&partition))
        };
        let topics = match &request.topics {
            Some(asked) => asked
                .iter()
                .map(|topic| OffsetFetchResponseTopics {
                    name: topic.name.clone(),
                    topic_id: topic.topic_id,
                    partitions: topic
                        .partition_indexes
                        .iter()
                        .map(|partition| fetched(*partition, one(&topic.name, *partition)))
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            None => known
                .into_iter()
                .flatten()
                .map(|(topic, partitions)| OffsetFetchResponseTopics {
                    name: topic.clone(),
                    topic_id: partitions
                        .values()
                        .next()
                        .map_or(Uuid::ZERO, |committed| committed.topic_id),
                    partitions: partitions
                        .iter()
                        .map(|(partition, committed)| fetched(*partition, Some(committed)))
                        .collect(),
                    ..Default::default()
                })
                .collect(),
        };
        OffsetFetchResponseGroup {
            group_id: request.group_id.clone(),
            topics,
            ..Default::default()
        }
    }
}

fn fetched(partition: i32, committed: Option<&CommittedOffset>) -> OffsetFetchResponsePartitions {
    match committed {
        Some(committed) => OffsetFetchResponsePartitions {
            partition_index: partition,
            committed_offset: committed.offset,
            committed_leader_epoch: committed.leader_epoch.get(),
            metadata: Some(committed.metadata.clone()),
            ..Default::default()
        },
        None => OffsetFetchResponsePartitions {
            partition_index: partition,
            committed_offset: NO_OFFSET,
            committed_leader_epoch: LeaderEpoch::UNKNOWN.get(),
            metadata: Some(StrBytes::default()),
            ..Default::default()
        },
    }
}

pub(super) fn delete(
    hard: &Hard,
    groups: &BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    token: Token,
    request: OffsetDeleteRequest,
) {
    let refusal = if request.group_id.is_empty() {
        Some(ErrorCode::InvalidGroupId)
    } else {
        match groups
            .get(&request.group_id)
            .map(|group| (group.state, group))
        {
            None | Some((GroupState::Dead, _)) => Some(ErrorCode::GroupIdNotFound),
            Some((GroupState::Empty, _)) => None,
            Some((
                GroupState::Stable
                | GroupState::PreparingRebalance
                | GroupState::CompletingRebalance,
                group,
            )) => (!group.uses_consumer_protocol()).then_some(ErrorCode::NonEmptyGroup),
        }
    };
    if let Some(code) = refusal {
        let response = OffsetDeleteResponse {
            error_code: code.code(),
            ..Default::default()
        };
        turn.reply(token, GroupResponse::OffsetDelete(response));
        return;
    }
    let group = groups.get(&request.group_id);
    let known = hard.offsets.get(&request.group_id);
    let mut records = Vec::new();
    let mut topics = Vec::new();
    for topic in request.topics {
        let subscribed = group.is_some_and(|group| group.is_subscribed_to(&topic.name));
        let mut partitions = Vec::new();
        for partition in topic.partitions {
            let code = if subscribed {
                ErrorCode::GroupSubscribedToTopic
            } else {
                let stored = known
                    .and_then(|topics| topics.get(&topic.name))
                    .is_some_and(|stored| stored.contains_key(&partition.partition_index));
                if stored {
                    records.push(GroupRecord::Offset {
                        group_id: request.group_id.clone(),
                        topic: topic.name.clone(),
                        partition: partition.partition_index,
                        value: None,
                    });
                }
                ErrorCode::None
            };
            partitions.push(OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
                ..Default::default()
            });
        }
        topics.push(OffsetDeleteResponseTopic {
            name: topic.name,
            partitions,
            ..Default::default()
        });
    }
    let response = GroupResponse::OffsetDelete(OffsetDeleteResponse {
        topics,
        ..Default::default()
    });
    if records.is_empty() {
        turn.reply(token, response);
    } else {
        turn.write(records, PendingWrite::Reply { token, response });
    }
}

/// Writes tombstones for offsets whose time is over, and for empty groups that have none left.
pub(super) fn expire(
    hard: &Hard,
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
) {
    let now_ms = turn.now.wall_ms;
    let retention_ms = turn.config.offsets_retention_ms;
    for (group_id, group) in groups.iter_mut() {
        if group.pending_offset_commits > 0 {
            continue;
        }
        let subscribed = group.subscribed_topics();
        let known = hard.offsets.get(group_id);
        let mut records = Vec::new();
        let mut kept = 0_usize;
        for (topic, partitions) in known.into_iter().flatten() {
            for (partition, committed) in partitions {
                if expired(
                    group,
                    subscribed.as_ref(),
                    topic,
                    committed,
                    now_ms,
                    retention_ms,
                ) {
                    records.push(GroupRecord::Offset {
                        group_id: group_id.clone(),
                        topic: topic.clone(),
                        partition: *partition,
                        value: None,
                    });
                } else {
                    kept += 1;
                }
            }
        }
        let ends = kept == 0
            && group.state == GroupState::Empty
            && group.pending_join.is_empty()
            && (known.is_some() || hard.groups.contains_key(group_id) || group.is_simple());
        if ends {
            group.state = GroupState::Dead;
            if hard.groups.contains_key(group_id) {
                records.push(GroupRecord::Group {
                    group_id: group_id.clone(),
                    value: None,
                });
            }
        }
        match (ends, records.is_empty()) {
            (true, false) => turn.write(
                records,
                PendingWrite::Deleted {
                    group_ids: vec![group_id.clone()],
                    next: None,
                },
            ),
            (false, false) => turn.write(records, PendingWrite::Silent),
            (_, true) => {}
        }
    }
    // What left no record behind can go at once.
    groups.retain(|group_id, group| {
        group.state != GroupState::Dead
            || hard.groups.contains_key(group_id)
            || hard.offsets.contains_key(group_id)
    });
}

/// Kafka's rule of when an offset's time is over (OffsetExpirationConditionImpl).
fn expired(
    group: &ClassicGroup,
    subscribed: Option<&std::collections::BTreeSet<StrBytes>>,
    topic: &StrBytes,
    committed: &CommittedOffset,
    now_ms: i64,
    retention_ms: i64,
) -> bool {
    if let Some(expire_ms) = committed.expire_timestamp_ms {
        return now_ms >= expire_ms;
    }
    let by_commit = now_ms.saturating_sub(committed.commit_timestamp_ms) >= retention_ms;
    if group.is_simple() {
        return by_commit;
    }
    match group.state {
        GroupState::Empty => {
            let since = group
                .state_timestamp_ms
                .unwrap_or(committed.commit_timestamp_ms);
            now_ms.saturating_sub(since) >= retention_ms
        }
        // KIP-211: while members are there, only topics that nobody subscribes to any more.
        GroupState::Stable => subscribed.is_some_and(|topics| !topics.contains(topic)) && by_commit,
        GroupState::PreparingRebalance | GroupState::CompletingRebalance | GroupState::Dead => {
            false
        }
    }
}
