//! Topics: list, create, delete, add partitions.
//! Not here: describing them (describe_topics), their settings (configs).
//! Runs on the caller's task. Kafka: Admin.{listTopics, createTopics, deleteTopics, createPartitions}; KIP-4, KIP-195, KIP-516.

use super::{ItemResult, outcome};
use crate::{ClientError, Cluster};
use kavka_common::Uuid;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kavka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kavka_protocol::messages::delete_topics_request::DeleteTopicState;
use kavka_protocol::messages::{CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest};
use std::time::Duration;

/// "As the broker's configuration says", in place of a number.
const BY_DEFAULT: i16 = -1;

/// A topic in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicListing {
    pub name: String,
    /// Zero from brokers that know no topic ids.
    pub topic_id: Uuid,
    pub is_internal: bool,
}

/// Every topic that the caller may see, internal ones too, sorted by name.
pub async fn list(cluster: &mut Cluster) -> Result<Vec<TopicListing>, ClientError> {
    let answer = cluster.metadata("listTopics", None).await?;
    let mut topics: Vec<TopicListing> = answer
        .topics
        .into_iter()
        .filter_map(|topic| {
            Some(TopicListing {
                name: topic.name?.to_string(),
                topic_id: topic.topic_id,
                is_internal: topic.is_internal,
            })
        })
        .collect();
    topics.sort();
    Ok(topics)
}

/// A topic to create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    pub name: String,
    /// `None`: the broker's default.
    pub partitions: Option<i32>,
    pub replication_factor: Option<i16>,
    /// Replicas of each partition, from partition 0 on; instead of the two numbers.
    pub assignment: Option<Vec<Vec<i32>>>,
    pub configs: Vec<(String, String)>,
}

/// What became of a new topic; numbers are -1 where the broker did not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    pub topic_id: Uuid,
    pub partitions: i32,
    pub replication_factor: i16,
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let assignments = topic.assignment.iter().flatten().zip(0..);
    CreatableTopic {
        name: topic.name.as_str().into(),
        num_partitions: topic.partitions.unwrap_or(i32::from(BY_DEFAULT)),
        replication_factor: topic.replication_factor.unwrap_or(BY_DEFAULT),
        assignments: assignments
            .map(|(replicas, partition)| CreatableReplicaAssignment {
                partition_index: partition,
                broker_ids: replicas.clone(),
                ..Default::default()
            })
            .collect(),
        configs: topic
            .configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig {
                name: name.as_str().into(),
                value: Some(value.as_str().into()),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// Creates topics; each has an outcome of its own.
pub async fn create(
    cluster: &mut Cluster,
    topics: &[NewTopic],
    validate_only: bool,
) -> Result<Vec<(String, ItemResult<CreatedTopic>)>, ClientError> {
    let request = CreateTopicsRequest {
        topics: topics.iter().map(creatable).collect(),
        timeout_ms: cluster.server_timeout_ms(),
        validate_only,
        ..Default::default()
    };
    let answer = cluster.call_controller("createTopics", &request).await?;
    Ok(answer
        .topics
        .into_iter()
        .map(|topic| {
            let created =
                outcome(topic.error_code, topic.error_message.as_ref()).map(|()| CreatedTopic {
                    topic_id: topic.topic_id,
                    partitions: topic.num_partitions,
                    replication_factor: topic.replication_factor,
                });
            (topic.name.to_string(), created)
        })
        .collect())
}

/// Deletes topics; each has an outcome of its own.
pub async fn delete(
    cluster: &mut Cluster,
    names: &[String],
) -> Result<Vec<(String, ItemResult<()>)>, ClientError> {
    let request = DeleteTopicsRequest {
        // Versions from 6 on take states, earlier ones names.
        topics: names
            .iter()
            .map(|name| DeleteTopicState {
                name: Some(name.as_str().into()),
                ..Default::default()
            })
            .collect(),
        topic_names: Vec::new(),
        timeout_ms: cluster.server_timeout_ms(),
        ..Default::default()
    };
    let by_names = DeleteTopicsRequest {
        topics: Vec::new(),
        topic_names: names.iter().map(|name| name.as_str().into()).collect(),
        timeout_ms: request.timeout_ms,
        ..Default::default()
    };
    let answer = cluster
        .call_controller_versioned("deleteTopics", |version| {
            if version >= 6 { &request } else { &by_names }
        })
        .await?;
    Ok(answer
        .responses
        .into_iter()
        .map(|topic| {
            (
                topic.name.map(|name| name.to_string()).unwrap_or_default(),
                outcome(topic.error_code, topic.error_message.as_ref()),
            )
        })
        .collect())
}

/// More partitions for a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewPartitions {
    pub topic: String,
    pub total_count: i32,
    /// Replicas of the partitions that are added.
    pub assignment: Option<Vec<Vec<i32>>>,
}

/// Adds partitions; each topic has an outcome of its own.
pub async fn create_partitions(
    cluster: &mut Cluster,
    topics: &[NewPartitions],
) -> Result<Vec<(String, ItemResult<()>)>, ClientError> {
    let request = CreatePartitionsRequest {
        topics: topics
            .iter()
            .map(|topic| CreatePartitionsTopic {
                name: topic.topic.as_str().into(),
                count: topic.total_count,
                assignments: topic.assignment.as_ref().map(|partitions| {
                    partitions
                        .iter()
                        .map(|replicas| CreatePartitionsAssignment {
                            broker_ids: replicas.clone(),
                            ..Default::default()
                        })
                        .collect()
                }),
                ..Default::default()
            })
            .collect(),
        timeout_ms: cluster.server_timeout_ms(),
        ..Default::default()
    };
    let answer = cluster
        .call_controller("createPartitions", &request)
        .await?;
    Ok(answer
        .results
        .into_iter()
        .map(|topic| {
            (
                topic.name.to_string(),
                outcome(topic.error_code, topic.error_message.as_ref()),
            )
        })
        .collect())
}

/// How long a change may take to reach the broker that was asked.
const SETTLE_MS_MAX: u64 = 3_000;
const SETTLE_PAUSE_MS: u64 = 20;

/// Waits until the broker that answers shows each topic with at least this many partitions (0: no longer). A change is
/// made by the controller and learned by brokers a moment later, and whoever asks next should see it. Gives up without
/// an error: the change itself has succeeded.
pub async fn settle(cluster: &mut Cluster, expected: &[(&str, usize)]) {
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    for _ in 0..SETTLE_MS_MAX / SETTLE_PAUSE_MS {
        let Ok(answer) = cluster.metadata("metadata", Some(&names)).await else {
            return;
        };
        let settled = expected.iter().all(|(name, partitions)| {
            let known = answer.topics.iter().find(|topic| {
                topic.error_code == ErrorCode::None as i16 && topic.name.as_deref() == Some(name)
            });
            match known {
                Some(topic) => *partitions > 0 && topic.partitions.len() >= *partitions,
                None => *partitions == 0,
            }
        });
        if settled {
            return;
        }
        tokio::time::sleep(Duration::from_millis(SETTLE_PAUSE_MS)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_left_to_the_broker() {
        let topic = creatable(&NewTopic {
            name: "t".into(),
            ..Default::default()
        });
        assert_eq!((topic.num_partitions, topic.replication_factor), (-1, -1));
        assert!(topic.assignments.is_empty() && topic.configs.is_empty());
    }

    #[test]
    fn assignments_are_numbered_from_zero() {
        let topic = creatable(&NewTopic {
            name: "t".into(),
            assignment: Some(vec![vec![1, 2], vec![2, 3]]),
            ..Default::default()
        });
        let placed: Vec<_> = topic
            .assignments
            .iter()
            .map(|a| (a.partition_index, a.broker_ids.as_slice()))
            .collect();
        assert_eq!(placed, [(0, &[1, 2][..]), (1, &[2, 3][..])]);
    }
}
