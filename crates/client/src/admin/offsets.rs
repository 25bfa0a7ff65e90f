//! Offsets: those that a group committed, those of a log by its ends or by time; commit and delete a group's.
//! Not here: which offset a group is reset to (the tools).
//! Runs on the caller's task.
//! Kafka: Admin.{listConsumerGroupOffsets, listOffsets, alterConsumerGroupOffsets, deleteConsumerGroupOffsets}; KIP-79, KIP-496.

use super::ItemResult;
use super::groups::item;
use crate::{ClientError, Cluster, Coordinator};
use kavka_common::{NodeId, TopicPartition};
use kavka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kavka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kavka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kavka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kavka_protocol::messages::{
    ListOffsetsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeMap;

/// From this version on topics go by id, which commits of deleted topics do not have.
const BY_NAME_MAX: i16 = 9;
/// From this version on one request may ask for several groups.
const GROUPS_FROM: i16 = 8;

/// An offset that a group committed for a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: i64,
    pub leader_epoch: Option<i32>,
    pub metadata: String,
}

/// Every offset that a group committed. A group that does not exist has none.
pub async fn committed(
    cluster: &mut Cluster,
    group_id: &str,
) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
    const WHAT: &str = "listConsumerGroupOffsets";
    cluster
        .retrying(WHAT, async |cluster| {
            let node = cluster
                .coordinator(WHAT, Coordinator::Group, group_id)
                .await?;
            let answer = cluster
                .call_node_versioned(node, WHAT, BY_NAME_MAX, |version| {
                    if version < GROUPS_FROM {
                        OffsetFetchRequest {
                            group_id: group_id.into(),
                            topics: None,
                            ..Default::default()
                        }
                    } else {
                        OffsetFetchRequest {
                            groups: vec![OffsetFetchRequestGroup {
                                group_id: group_id.into(),
                                topics: None,
                                ..Default::default()
                            }],
                            ..Default::default()
                        }
                    }
                })
                .await?;
            let mut found = BTreeMap::new();
            match answer.groups.into_iter().next() {
                Some(group) => {
                    ClientError::check(group.error_code, None)?;
                    for topic in group.topics {
                        for p in topic.partitions {
                            add_committed(
                                &mut found,
                                TopicPartition::new(&*topic.name, p.partition_index),
                                p.error_code,
                                (p.committed_offset, p.committed_leader_epoch, p.metadata),
                            )?;
                        }
                    }
                }
                None => {
                    ClientError::check(answer.error_code, None)?;
                    for topic in answer.topics {
                        for p in topic.partitions {
                            add_committed(
                                &mut found,
                                TopicPartition::new(&*topic.name, p.partition_index),
                                p.error_code,
                                (p.committed_offset, p.committed_leader_epoch, p.metadata),
                            )?;
                        }
                    }
                }
            }
            Ok(found)
        })
        .await
}

fn add_committed(
    found: &mut BTreeMap<TopicPartition, CommittedOffset>,
    partition: TopicPartition,
    error_code: i16,
    (offset, leader_epoch, metadata): (i64, i32, Option<StrBytes>),
) -> Result<(), ClientError> {
    ClientError::check(error_code, None)?;
    if offset >= 0 {
        found.insert(
            partition,
            CommittedOffset {
                offset,
                leader_epoch: (leader_epoch >= 0).then_some(leader_epoch),
                metadata: metadata.map(|text| text.to_string()).unwrap_or_default(),
            },
        );
    }
    Ok(())
}

/// Which offset of a log is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    Earliest,
    Latest,
    /// The first record with this timestamp or a later one.
    Timestamp(i64),
    MaxTimestamp,
}

impl OffsetSpec {
    fn timestamp(self) -> i64 {
        match self {
            OffsetSpec::Latest => -1,
            OffsetSpec::Earliest => -2,
            OffsetSpec::MaxTimestamp => -3,
            OffsetSpec::Timestamp(timestamp) => timestamp,
        }
    }
}

/// An offset of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedOffset {
    /// `None`: no record is that young.
    pub offset: Option<i64>,
    pub timestamp: Option<i64>,
    pub leader_epoch: Option<i32>,
}

/// What `list` does about partitions that are missing or have no leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Waits for them until the operation's time is over.
    Await,
    /// Their outcome says so at once.
    Report,
}

/// Offsets of partitions, each named once, asked of their leaders; each has an outcome of its own, in the order given.
pub async fn list(
    cluster: &mut Cluster,
    wanted: &[(TopicPartition, OffsetSpec)],
    absent: Absent,
) -> Result<Vec<(TopicPartition, ItemResult<ListedOffset>)>, ClientError> {
    const WHAT: &str = "listOffsets";
    let mut found: BTreeMap<TopicPartition, ItemResult<ListedOffset>> = BTreeMap::new();
    let outcome = cluster
        .retrying(WHAT, async |cluster| {
            let missing: Vec<&(TopicPartition, OffsetSpec)> = wanted
                .iter()
                .filter(|(partition, _)| !matches!(found.get(partition), Some(Ok(_))))
                .collect();
            let by_leader = leaders(cluster, &missing, &mut found).await?;
            for (node, items) in by_leader {
                ask_leader(cluster, node, &items, &mut found).await?;
            }
            // Leaders move; the metadata of the next round tells where to.
            let retriable = found.iter().find_map(|(partition, result)| match result {
                Err(error)
                    if error.is_retriable()
                        && (absent == Absent::Await
                            || !matches!(
                                error.code(),
                                Some(
                                    ErrorCode::LeaderNotAvailable
                                        | ErrorCode::UnknownTopicOrPartition
                                )
                            )) =>
                {
                    Some((partition.clone(), error.code()))
                }
                _ => None,
            });
            match retriable {
                Some((_, Some(code))) => Err(ClientError::Refused {
                    code,
                    message: None,
                }),
                _ => Ok(()),
            }
        })
        .await;
    if let Err(error) = outcome
        && error.code().is_none()
    {
        return Err(error);
    }
    Ok(wanted
        .iter()
        .filter_map(|(partition, _)| Some((partition.clone(), found.remove(partition)?)))
        .collect())
}

/// Sorts partitions by leader; those without one get their outcome at once.
async fn leaders<'a>(
    cluster: &mut Cluster,
    wanted: &[&'a (TopicPartition, OffsetSpec)],
    found: &mut BTreeMap<TopicPartition, ItemResult<ListedOffset>>,
) -> Result<BTreeMap<NodeId, Vec<&'a (TopicPartition, OffsetSpec)>>, ClientError> {
    let mut by_leader: BTreeMap<NodeId, Vec<_>> = BTreeMap::new();
    let mut names: Vec<&str> = wanted.iter().map(|(p, _)| &*p.topic).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(by_leader);
    }
    let metadata = cluster.metadata("listOffsets", Some(&names)).await?;
    let mut known: BTreeMap<TopicPartition, (ErrorCode, NodeId)> = BTreeMap::new();
    for topic in &metadata.topics {
        let name = topic.name.as_deref().unwrap_or_default();
        for partition in &topic.partitions {
            let code = match ErrorCode::from(partition.error_code) {
                ErrorCode::None if NodeId(partition.leader_id) == NodeId::NONE => {
                    ErrorCode::LeaderNotAvailable
                }
                code => code,
            };
            known.insert(
                TopicPartition::new(name, partition.partition_index),
                (code, NodeId(partition.leader_id)),
            );
        }
    }
    for item in wanted {
        let topic_error = metadata
            .topics
            .iter()
            .find(|topic| topic.name.as_deref() == Some(&*item.0.topic))
            .map_or(ErrorCode::UnknownTopicOrPartition, |topic| {
                ErrorCode::from(topic.error_code)
            });
        let (code, leader) = match (topic_error, known.get(&item.0)) {
            (ErrorCode::None, Some(known)) => *known,
            (ErrorCode::None, None) => (ErrorCode::UnknownTopicOrPartition, NodeId::NONE),
            (code, _) => (code, NodeId::NONE),
        };
        if code == ErrorCode::None {
            by_leader.entry(leader).or_default().push(*item);
        } else {
            let refused = ClientError::Refused {
                code,
                message: None,
            };
            found.insert(item.0.clone(), Err(refused));
        }
    }
    Ok(by_leader)
}

async fn ask_leader(
    cluster: &mut Cluster,
    node: NodeId,
    items: &[&(TopicPartition, OffsetSpec)],
    found: &mut BTreeMap<TopicPartition, ItemResult<ListedOffset>>,
) -> Result<(), ClientError> {
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for (partition, spec) in items {
        topics
            .entry(&partition.topic)
            .or_default()
            .push(ListOffsetsPartition {
                partition_index: partition.partition,
                current_leader_epoch: -1,
                timestamp: spec.timestamp(),
                ..Default::default()
            });
    }
    let timeout_ms = cluster.server_timeout_ms();
    let topics: Vec<ListOffsetsTopic> = topics
        .into_iter()
        .map(|(name, partitions)| ListOffsetsTopic {
            name: name.into(),
            partitions,
            ..Default::default()
        })
        .collect();
    let answer = cluster
        .call_node_versioned(node, "listOffsets", i16::MAX, |version| {
            ListOffsetsRequest {
                replica_id: NodeId::NONE.0,
                topics: topics.clone(),
                timeout_ms: if version < LIST_TIMEOUT_FROM {
                    0
                } else {
                    timeout_ms
                },
                ..Default::default()
            }
        })
        .await?;
    for topic in answer.topics {
        for p in topic.partitions {
            let result = ClientError::check(p.error_code, None).map(|()| ListedOffset {
                offset: (p.offset >= 0).then_some(p.offset),
                timestamp: (p.timestamp >= 0).then_some(p.timestamp),
                leader_epoch: (p.leader_epoch >= 0).then_some(p.leader_epoch),
            });
            found.insert(TopicPartition::new(&*topic.name, p.partition_index), result);
        }
    }
    Ok(())
}

const LIST_TIMEOUT_FROM: i16 = 10;

/// Commits offsets in the name of a group without members; each partition has an outcome of its own.
pub async fn commit(
    cluster: &mut Cluster,
    group_id: &str,
    offsets: &[(TopicPartition, CommittedOffset)],
) -> Result<Vec<(TopicPartition, ItemResult<()>)>, ClientError> {
    const WHAT: &str = "alterConsumerGroupOffsets";
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for (partition, committed) in offsets {
        topics
            .entry(&partition.topic)
            .or_default()
            .push(OffsetCommitRequestPartition {
                partition_index: partition.partition,
                committed_offset: committed.offset,
                committed_leader_epoch: committed.leader_epoch.unwrap_or(-1),
                committed_metadata: Some(committed.metadata.as_str().into()),
                ..Default::default()
            });
    }
    let topics: Vec<OffsetCommitRequestTopic> = topics
        .into_iter()
        .map(|(name, partitions)| OffsetCommitRequestTopic {
            name: name.into(),
            partitions,
            ..Default::default()
        })
        .collect();
    cluster
        .retrying(WHAT, async |cluster| {
            let node = cluster
                .coordinator(WHAT, Coordinator::Group, group_id)
                .await?;
            let answer = cluster
                .call_node_versioned(node, WHAT, BY_NAME_MAX, |_| OffsetCommitRequest {
                    group_id: group_id.into(),
                    generation_id_or_member_epoch: -1,
                    topics: topics.clone(),
                    ..Default::default()
                })
                .await?;
            let mut found = Vec::new();
            for topic in answer.topics {
                for p in topic.partitions {
                    let result = ClientError::check(p.error_code, None);
                    found.push((
                        TopicPartition::new(&*topic.name, p.partition_index),
                        when_settled(result)?,
                    ));
                }
            }
            Ok(found)
        })
        .await
}

/// A coordinator that moves says so for each partition; then the whole call is done again.
fn when_settled(result: Result<(), ClientError>) -> Result<ItemResult<()>, ClientError> {
    match &result {
        Err(error)
            if matches!(
                error.code(),
                Some(
                    ErrorCode::NotCoordinator
                        | ErrorCode::CoordinatorNotAvailable
                        | ErrorCode::CoordinatorLoadInProgress
                )
            ) =>
        {
            result.map(Ok)
        }
        _ => item(result),
    }
}

/// Forgets what a group committed; each partition has an outcome of its own, unless the group's is an error.
pub async fn delete(
    cluster: &mut Cluster,
    group_id: &str,
    partitions: &[TopicPartition],
) -> Result<ItemResult<Vec<(TopicPartition, ItemResult<()>)>>, ClientError> {
    const WHAT: &str = "deleteConsumerGroupOffsets";
    let mut topics: BTreeMap<&str, Vec<OffsetDeleteRequestPartition>> = BTreeMap::new();
    for partition in partitions {
        topics
            .entry(&partition.topic)
            .or_default()
            .push(OffsetDeleteRequestPartition {
                partition_index: partition.partition,
            });
    }
    let request = OffsetDeleteRequest {
        group_id: group_id.into(),
        topics: topics
            .into_iter()
            .map(|(name, partitions)| OffsetDeleteRequestTopic {
                name: name.into(),
                partitions,
            })
            .collect(),
    };
    let outcome = cluster
        .retrying(WHAT, async |cluster| {
            let node = cluster
                .coordinator(WHAT, Coordinator::Group, group_id)
                .await?;
            let answer = cluster.call_node(node, WHAT, &request).await?;
            ClientError::check(answer.error_code, None)?;
            let mut found = Vec::new();
            for topic in answer.topics {
                for p in topic.partitions {
                    found.push((
                        TopicPartition::new(&*topic.name, p.partition_index),
                        ClientError::check(p.error_code, None),
                    ));
                }
            }
            Ok(found)
        })
        .await;
    item(outcome)
}
