//! The brokers of a cluster, and the moves of replicas that are under way.
//! Not here: what a node holds (topics, log directories).
//! Runs on the caller's task. Kafka: Admin.describeCluster, listPartitionReassignments; KIP-455, KIP-700.

use crate::{BrokerAddress, ClientError, Cluster};
use kavka_common::{BrokerId, NodeId};
use kavka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kavka_protocol::messages::{DescribeClusterRequest, ListPartitionReassignmentsRequest};
use std::collections::BTreeMap;

/// `DescribeCluster`'s kind of endpoint: brokers, whoever answers.
const ENDPOINT_TYPE_BROKER: i8 = 1;

/// A live broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: BrokerId,
    pub address: BrokerAddress,
    pub rack: Option<String>,
}

/// The brokers that are alive.
pub async fn live_brokers(cluster: &mut Cluster) -> Result<Vec<Broker>, ClientError> {
    let answer = cluster.metadata("listNodes", Some(&[])).await?;
    Ok(answer
        .brokers
        .into_iter()
        .filter_map(|broker| {
            Some(Broker {
                id: NodeId(broker.node_id),
                address: BrokerAddress::new(
                    broker.host.to_string(),
                    u16::try_from(broker.port).ok()?,
                ),
                rack: broker.rack.map(|rack| rack.to_string()),
            })
        })
        .collect())
}

/// The brokers that the controller behind this connection knows; for a port that serves no `Metadata`.
pub async fn brokers_by_controller(
    cluster: &mut Cluster,
) -> Result<Vec<BrokerAddress>, ClientError> {
    let request = DescribeClusterRequest {
        endpoint_type: ENDPOINT_TYPE_BROKER,
        ..Default::default()
    };
    let answer = cluster.call_any("describeCluster", &request).await?;
    super::outcome(answer.error_code, answer.error_message.as_ref())?;
    Ok(answer
        .brokers
        .into_iter()
        .filter(|broker| !broker.is_fenced)
        .filter_map(|broker| {
            Some(BrokerAddress::new(
                broker.host.to_string(),
                u16::try_from(broker.port).ok()?,
            ))
        })
        .collect())
}

/// Replicas of one partition on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reassignment {
    pub replicas: Vec<i32>,
    pub adding_replicas: Vec<i32>,
    pub removing_replicas: Vec<i32>,
}

/// The moves under way among the given partitions (`None`: all), by topic and partition.
pub async fn reassignments(
    cluster: &mut Cluster,
    partitions: Option<&BTreeMap<String, Vec<i32>>>,
) -> Result<BTreeMap<(String, i32), Reassignment>, ClientError> {
    let request = ListPartitionReassignmentsRequest {
        timeout_ms: cluster.server_timeout_ms(),
        topics: partitions.map(|partitions| {
            partitions
                .iter()
                .map(|(name, indexes)| ListPartitionReassignmentsTopics {
                    name: name.as_str().into(),
                    partition_indexes: indexes.clone(),
                    ..Default::default()
                })
                .collect()
        }),
        ..Default::default()
    };
    cluster
        .retrying("listPartitionReassignments", async |cluster| {
            let answer = cluster
                .call_controller("listPartitionReassignments", &request)
                .await?;
            super::outcome(answer.error_code, answer.error_message.as_ref())?;
            let mut found = BTreeMap::new();
            for topic in answer.topics {
                for partition in topic.partitions {
                    found.insert(
                        (topic.name.to_string(), partition.partition_index),
                        Reassignment {
                            replicas: partition.replicas,
                            adding_replicas: partition.adding_replicas,
                            removing_replicas: partition.removing_replicas,
                        },
                    );
                }
            }
            Ok(found)
        })
        .await
}
