//! OffsetForLeaderEpoch: where a leader epoch ends in this broker's log.
//! Not here: the epoch cache (crates/storage).
//! Runs in the connection's task, in memory only. Kafka: KafkaApis.handleOffsetForLeaderEpochRequest; KIP-101, KIP-320.

use crate::api::RequestContext;
use crate::api::errors::WireError;
use crate::replica::ReplicaManager;
use kavka_common::{LeaderEpoch, NodeId};
use kavka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kavka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

pub fn handle(
    replicas: &ReplicaManager,
    _context: &RequestContext,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let leader_only = request.replica_id != NodeId::DEBUGGING_CONSUMER.get();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let end = replicas
                .partition(&topic.topic, p.partition)
                .and_then(|partition| {
                    partition.end_of_epoch(
                        LeaderEpoch(p.current_leader_epoch),
                        LeaderEpoch(p.leader_epoch),
                        leader_only,
                    )
                });
            let mut result = EpochEndOffset {
                partition: p.partition,
                ..Default::default()
            };
            match end {
                Ok(Some(end)) => {
                    result.leader_epoch = end.leader_epoch.get();
                    result.end_offset = end.end_offset;
                }
                Ok(None) => {}
                Err(e) => result.error_code = e.error_code().code(),
            }
            result
        });
        OffsetForLeaderTopicResult {
            partitions: partitions.collect(),
            topic: topic.topic.clone(),
            ..Default::default()
        }
    });
    OffsetForLeaderEpochResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}
