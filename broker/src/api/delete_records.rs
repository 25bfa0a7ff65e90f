//! DeleteRecords: moves log starts up, and answers when every replica has done so.
//! Not here: removing segments (retention does, later).
//! The moves are made before the wait; the wait is woken by fetches of followers.
//! Kafka: KafkaApis.handleDeleteRecordsRequest, DelayedDeleteRecords; KIP-107.

use crate::api::RequestContext;
use crate::api::errors::WireError;
use crate::replica::ReplicaManager;
use kavka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kavka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use std::sync::Arc;

pub async fn handle(
    replicas: Arc<ReplicaManager>,
    _context: RequestContext,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let wanted: Vec<(usize, i32, i64)> = request
        .topics
        .iter()
        .enumerate()
        .flat_map(|(at, topic)| {
            let partitions = topic.partitions.iter();
            partitions.map(move |p| (at, p.partition_index, p.offset))
        })
        .collect();
    let targets = wanted.iter().map(|(at, partition, offset)| {
        let topic = &request.topics[*at].name;
        (replicas.partition(topic, *partition), *offset)
    });
    let results = replicas
        .delete_records(targets.collect(), i64::from(request.timeout_ms))
        .await;
    let mut response = DeleteRecordsResponse {
        topics: request
            .topics
            .iter()
            .map(|topic| DeleteRecordsTopicResult {
                name: topic.name.clone(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    for ((at, partition_index, _), result) in wanted.into_iter().zip(results) {
        let partition = match result {
            Ok(low_watermark) => DeleteRecordsPartitionResult {
                partition_index,
                low_watermark,
                ..Default::default()
            },
            Err(e) => DeleteRecordsPartitionResult {
                partition_index,
                low_watermark: -1,
                error_code: e.error_code().code(),
                ..Default::default()
            },
        };
        response.topics[at].partitions.push(partition);
    }
    response
}
