//! DescribeLogDirs: what lies in the broker's log directories.
//! Not here: moving replicas between directories.
//! Asks the file system for free space, so it runs on the blocking pool. Kafka: KafkaApis.handleDescribeLogDirsRequest; KIP-113, KIP-827.

use crate::api::RequestContext;
use crate::replica::{ReplicaManager, ReplicaSize};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kavka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use std::collections::BTreeMap;
use std::sync::Arc;

pub async fn handle(
    replicas: Arc<ReplicaManager>,
    _context: RequestContext,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let described = tokio::task::spawn_blocking(move || respond(&replicas, &request));
    // a join error means that the runtime is stopping; the connection goes with it
    described.await.unwrap_or_default()
}

fn respond(replicas: &ReplicaManager, request: &DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let wanted = |replica: &ReplicaSize| match &request.topics {
        None => true,
        Some(topics) => topics.iter().any(|topic| {
            *topic.topic == *replica.topic_partition.topic
                && topic
                    .partitions
                    .contains(&replica.topic_partition.partition)
        }),
    };
    let results = replicas.describe_log_dirs().into_iter().map(|dir| {
        let mut result = DescribeLogDirsResult {
            log_dir: dir.path.to_string_lossy().into_owned().into(),
            ..Default::default()
        };
        if dir.is_offline {
            result.error_code = ErrorCode::KafkaStorageError.code();
            return result;
        }
        result.total_bytes = dir.total_bytes;
        result.usable_bytes = dir.usable_bytes;
        let mut topics: BTreeMap<Arc<str>, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
        for replica in dir.replicas.iter().filter(|replica| wanted(replica)) {
            topics
                .entry(Arc::clone(&replica.topic_partition.topic))
                .or_default()
                .push(DescribeLogDirsPartition {
                    partition_index: replica.topic_partition.partition,
                    partition_size: i64::try_from(replica.size_bytes).unwrap_or(i64::MAX),
                    offset_lag: replica.offset_lag,
                    is_future_key: false,
                    ..Default::default()
                });
        }
        result.topics = topics
            .into_iter()
            .map(|(name, partitions)| DescribeLogDirsTopic {
                name: (&*name).into(),
                partitions,
                ..Default::default()
            })
            .collect();
        result
    });
    DescribeLogDirsResponse {
        results: results.collect(),
        ..Default::default()
    }
}
