//! Moves of replicas between brokers: begin and cancel them.
//! Not here: those under way (nodes::reassignments), moves between the directories of one broker (log_dirs).
//! Runs on the caller's task. Kafka: Admin.alterPartitionReassignments; KIP-455, KIP-860.

use super::elections::by_topic;
use super::{ItemResult, outcome};
use crate::{ClientError, Cluster};
use kavka_common::TopicPartition;
use kavka_protocol::messages::AlterPartitionReassignmentsRequest;
use kavka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use std::collections::BTreeMap;

/// Gives partitions new replicas; `None` cancels the move under way. Each partition has an outcome of its own.
/// A refused change of the replication factor needs a broker that knows version 1 of the API.
pub async fn alter(
    cluster: &mut Cluster,
    targets: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
    allow_replication_factor_change: bool,
) -> Result<Vec<(TopicPartition, ItemResult<()>)>, ClientError> {
    let partitions: Vec<TopicPartition> = targets.keys().cloned().collect();
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: cluster.server_timeout_ms(),
        allow_replication_factor_change,
        topics: by_topic(&partitions)
            .into_iter()
            .map(|(topic, indexes)| ReassignableTopic {
                name: topic.into(),
                partitions: indexes
                    .into_iter()
                    .map(|index| ReassignablePartition {
                        partition_index: index,
                        replicas: targets
                            .get(&TopicPartition::new(topic, index))
                            .cloned()
                            .flatten(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    cluster
        .retrying("alterPartitionReassignments", async |cluster| {
            let answer = cluster
                .call_controller("alterPartitionReassignments", &request)
                .await?;
            outcome(answer.error_code, answer.error_message.as_ref())?;
            let mut found = Vec::new();
            for topic in answer.responses {
                for partition in topic.partitions {
                    found.push((
                        TopicPartition::new(&*topic.name, partition.partition_index),
                        outcome(partition.error_code, partition.error_message.as_ref()),
                    ));
                }
            }
            Ok(found)
        })
        .await
}
