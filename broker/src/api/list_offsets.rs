//! ListOffsets: offsets by timestamp and by the special timestamps.
//! Not here: the lookup (replica/offsets.rs).
//! Runs in the connection's task. A lookup by time may read a batch from disk, so it goes to the blocking pool.
//! Kafka: KafkaApis.handleListOffsetRequest; KIP-79, KIP-207, KIP-734, KIP-1005.

use crate::api::RequestContext;
use crate::api::errors::WireError;
use crate::replica::{
    FetchIsolation, FoundOffset, OffsetSpec, ReplicaError, ReplicaManager, find_offset,
};
use kavka_common::{LeaderEpoch, NodeId};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kavka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use std::collections::HashSet;
use std::sync::Arc;

const READ_COMMITTED: i8 = 1;
const LEADER_EPOCH_SINCE: i16 = 4;
/// Before, clients knew only LEADER_NOT_AVAILABLE for an offset that is not available yet.
const OFFSET_NOT_AVAILABLE_SINCE: i16 = 5;

pub async fn handle(
    replicas: Arc<ReplicaManager>,
    context: RequestContext,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let version = context.api_version;
    let looked_up = tokio::task::spawn_blocking(move || respond(&replicas, version, &request));
    // a join error means that the runtime is stopping; the connection goes with it
    looked_up.await.unwrap_or_default()
}

fn respond(
    replicas: &ReplicaManager,
    version: i16,
    request: &ListOffsetsRequest,
) -> ListOffsetsResponse {
    let isolation = if request.replica_id != NodeId::CONSUMER.get() {
        FetchIsolation::LogEnd
    } else if request.isolation_level == READ_COMMITTED {
        FetchIsolation::TxnCommitted
    } else {
        FetchIsolation::HighWatermark
    };
    let leader_only = request.replica_id != NodeId::DEBUGGING_CONSUMER.get();
    let mut seen = HashSet::new();
    // named twice: refused, and answered once
    let mut duplicates = HashSet::new();
    for topic in &request.topics {
        for p in &topic.partitions {
            if !seen.insert((&*topic.name, p.partition_index)) {
                duplicates.insert((&*topic.name, p.partition_index));
            }
        }
    }
    let mut answered = HashSet::new();
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .filter(|p| {
                let key = (&*topic.name, p.partition_index);
                !duplicates.contains(&key) || answered.insert(key)
            })
            .map(|p| {
                let found = if duplicates.contains(&(&*topic.name, p.partition_index)) {
                    Err(ReplicaError::DuplicatePartition)
                } else {
                    OffsetSpec::from_wire(p.timestamp, version).and_then(|spec| {
                        let partition = replicas.partition(&topic.name, p.partition_index)?;
                        let epoch = LeaderEpoch(p.current_leader_epoch);
                        find_offset(&partition, spec, isolation, epoch, leader_only)
                    })
                };
                partition_response(p.partition_index, version, found)
            })
            .collect(),
        ..Default::default()
    });
    ListOffsetsResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn partition_response(
    partition_index: i32,
    version: i16,
    found: Result<FoundOffset, ReplicaError>,
) -> ListOffsetsPartitionResponse {
    match found {
        Ok(found) => ListOffsetsPartitionResponse {
            partition_index,
            timestamp: found.timestamp,
            offset: found.offset,
            leader_epoch: if version >= LEADER_EPOCH_SINCE {
                found.leader_epoch.get()
            } else {
                LeaderEpoch::UNKNOWN.get()
            },
            ..Default::default()
        },
        Err(e) => {
            let code = match e.error_code() {
                ErrorCode::OffsetNotAvailable if version < OFFSET_NOT_AVAILABLE_SINCE => {
                    ErrorCode::LeaderNotAvailable
                }
                code => code,
            };
            ListOffsetsPartitionResponse {
                partition_index,
                error_code: code.code(),
                ..Default::default()
            }
        }
    }
}
