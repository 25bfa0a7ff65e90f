//! What single replicas hold, followers too: reads them as a consumer that debugs.
//! Not here: comparing them (the tools), consuming (consumer).
//! Runs on the caller's task. Kafka: FetchRequest.DEBUGGING_CONSUMER_ID, ReplicaVerificationTool.ReplicaFetcher.

use super::ItemResult;
use super::elections::by_topic;
use crate::{ClientError, Cluster};
use bytes::Bytes;
use kavka_common::{BrokerId, NodeId, TopicPartition, Uuid};
use kavka_protocol::messages::FetchRequest;
use kavka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use std::collections::BTreeMap;

/// From this version on topics go by id; names are enough here, and are told back.
const BY_NAME_MAX: i16 = 12;
const SESSION_EPOCH_NONE: i32 = -1;

/// What one replica answered for a partition.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub high_watermark: i64,
    /// Batches, the last one perhaps cut.
    pub records: Bytes,
}

/// How much is fetched, and how long is waited for it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub partition_bytes: i32,
    pub max_wait_ms: i32,
}

/// Reads from these offsets what one broker holds; each partition has an outcome of its own.
pub async fn fetch(
    cluster: &mut Cluster,
    broker: BrokerId,
    offsets: &BTreeMap<TopicPartition, i64>,
    limits: Limits,
) -> Result<BTreeMap<TopicPartition, ItemResult<Fetched>>, ClientError> {
    let partitions: Vec<TopicPartition> = offsets.keys().cloned().collect();
    let topics: Vec<FetchTopic> = by_topic(&partitions)
        .into_iter()
        .map(|(topic, indexes)| FetchTopic {
            topic: topic.into(),
            topic_id: Uuid::ZERO,
            partitions: indexes
                .into_iter()
                .map(|index| FetchPartition {
                    partition: index,
                    fetch_offset: offsets
                        .get(&TopicPartition::new(topic, index))
                        .copied()
                        .unwrap_or_default(),
                    partition_max_bytes: limits.partition_bytes,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    let answer = cluster
        .call_node_versioned(broker, "fetch", BY_NAME_MAX, |_| FetchRequest {
            replica_id: NodeId::DEBUGGING_CONSUMER.0,
            replica_state: ReplicaState::default(),
            max_wait_ms: limits.max_wait_ms,
            min_bytes: 1,
            session_epoch: SESSION_EPOCH_NONE,
            topics: topics.clone(),
            ..Default::default()
        })
        .await?;
    ClientError::check(answer.error_code, None)?;
    let mut found = BTreeMap::new();
    for topic in answer.responses {
        for partition in topic.partitions {
            let records = partition
                .records
                .as_ref()
                .and_then(|records| records.as_bytes());
            let fetched = ClientError::check(partition.error_code, None).map(|()| Fetched {
                high_watermark: partition.high_watermark,
                records: records.cloned().unwrap_or_default(),
            });
            let at = TopicPartition::new(&*topic.topic, partition.partition_index);
            found.insert(at, fetched);
        }
    }
    Ok(found)
}
