//! The log directories of brokers: what lies in them, and moves of replicas from one to another.
//! Not here: moves between brokers (reassignments).
//! Runs on the caller's task. Kafka: Admin.{describeLogDirs, describeReplicaLogDirs, alterReplicaLogDirs}; KIP-113, KIP-827.

use super::{ItemResult, outcome};
use crate::{ClientError, Cluster};
use kavka_common::{BrokerId, TopicPartition};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use kavka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kavka_protocol::messages::{AlterReplicaLogDirsRequest, DescribeLogDirsRequest};
use std::collections::BTreeMap;

/// A replica in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    pub partition: TopicPartition,
    pub size_bytes: i64,
    /// How far behind: the end of the log for one that becomes the current one later, else the high watermark.
    pub offset_lag: i64,
    /// It is being moved here.
    pub is_future: bool,
}

/// A directory of one broker.
#[derive(Clone, Debug)]
pub struct LogDir {
    pub path: String,
    /// What is wrong with it.
    pub error: Option<ErrorCode>,
    /// In the order of the answer.
    pub replicas: Vec<Replica>,
    /// Of the volume; `None` from brokers that do not tell.
    pub total_bytes: Option<i64>,
    pub usable_bytes: Option<i64>,
}

/// The directories of one broker with the replicas of the given partitions; `None`: all replicas.
pub async fn describe(
    cluster: &mut Cluster,
    broker: BrokerId,
    partitions: Option<&BTreeMap<String, Vec<i32>>>,
) -> Result<Vec<LogDir>, ClientError> {
    let request = DescribeLogDirsRequest {
        topics: partitions.map(|topics| {
            topics
                .iter()
                .map(|(topic, partitions)| DescribableLogDirTopic {
                    topic: topic.as_str().into(),
                    partitions: partitions.clone(),
                    ..Default::default()
                })
                .collect()
        }),
        ..Default::default()
    };
    let answer = cluster
        .call_node(broker, "describeLogDirs", &request)
        .await?;
    outcome(answer.error_code, None)?;
    // Before version 3, an answer without directories is how a broker says no.
    if answer.results.is_empty() {
        outcome(ErrorCode::ClusterAuthorizationFailed as i16, None)?;
    }
    let known = |bytes: i64| (bytes >= 0).then_some(bytes);
    Ok(answer
        .results
        .into_iter()
        .map(|dir| LogDir {
            path: dir.log_dir.to_string(),
            error: match ErrorCode::from(dir.error_code) {
                ErrorCode::None => None,
                code => Some(code),
            },
            total_bytes: known(dir.total_bytes),
            usable_bytes: known(dir.usable_bytes),
            replicas: dir
                .topics
                .into_iter()
                .flat_map(|topic| {
                    let name = topic.name.to_string();
                    topic.partitions.into_iter().map(move |replica| Replica {
                        partition: TopicPartition::new(name.as_str(), replica.partition_index),
                        size_bytes: replica.partition_size,
                        offset_lag: replica.offset_lag,
                        is_future: replica.is_future_key,
                    })
                })
                .collect(),
        })
        .collect())
}

/// Moves replicas of one broker to the directories given for them; each has an outcome of its own.
pub async fn alter_replicas(
    cluster: &mut Cluster,
    broker: BrokerId,
    targets: &BTreeMap<TopicPartition, String>,
) -> Result<Vec<(TopicPartition, ItemResult<()>)>, ClientError> {
    let mut dirs: BTreeMap<&str, BTreeMap<&str, Vec<i32>>> = BTreeMap::new();
    for (partition, path) in targets {
        let topics = dirs.entry(path).or_default();
        let partitions = topics.entry(&*partition.topic).or_default();
        partitions.push(partition.partition);
    }
    let request = AlterReplicaLogDirsRequest {
        dirs: dirs
            .into_iter()
            .map(|(path, topics)| AlterReplicaLogDir {
                path: path.into(),
                topics: topics
                    .into_iter()
                    .map(|(topic, partitions)| AlterReplicaLogDirTopic {
                        name: topic.into(),
                        partitions,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let answer = cluster
        .call_node(broker, "alterReplicaLogDirs", &request)
        .await?;
    Ok(answer
        .results
        .into_iter()
        .flat_map(|topic| {
            let name = topic.topic_name.to_string();
            topic.partitions.into_iter().map(move |partition| {
                (
                    TopicPartition::new(name.as_str(), partition.partition_index),
                    outcome(partition.error_code, None),
                )
            })
        })
        .collect())
}
