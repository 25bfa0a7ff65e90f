//! The brokers of a cluster, and the moves of replicas that are under way.
//! Not here: what a node holds (topics, log directories).
//! Runs on the caller's task. Kafka: Admin.describeCluster, listPartitionReassignments; KIP-455, KIP-700.

use crate::{BrokerAddress, ClientError, Cluster};
use kavka_common::{BrokerId, NodeId};
use kavka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kavka_protocol::messages::{
    ApiVersionsRequest, DescribeClusterRequest, ListPartitionReassignmentsRequest,
};
use std::collections::BTreeMap;

/// `DescribeCluster`'s kind of endpoint: brokers, whoever answers.
const ENDPOINT_TYPE_BROKER: i8 = 1;
/// Controllers, which only controllers tell of (KIP-919).
const ENDPOINT_TYPE_CONTROLLER: i8 = 2;

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

/// The ids of the nodes that are alive: brokers, or the controllers where the cluster is seen through them.
pub async fn node_ids(cluster: &mut Cluster) -> Result<Vec<i32>, ClientError> {
    if cluster.is_of_controllers() {
        cluster.learn_nodes("describeCluster").await?;
        return Ok(cluster.brokers().keys().map(|id| id.0).collect());
    }
    let brokers = live_brokers(cluster).await?;
    Ok(brokers.into_iter().map(|broker| broker.id.0).collect())
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

/// The APIs that one broker serves: key, lowest and highest version, in its order.
pub async fn api_versions(
    cluster: &mut Cluster,
    broker: BrokerId,
) -> Result<Vec<(i16, i16, i16)>, ClientError> {
    let request = ApiVersionsRequest {
        client_software_name: "kavka".into(),
        client_software_version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let answer = cluster.call_node(broker, "apiVersions", &request).await?;
    super::outcome(answer.error_code, None)?;
    Ok(answer
        .api_keys
        .into_iter()
        .map(|api| (api.api_key, api.min_version, api.max_version))
        .collect())
}

/// A node as the cluster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
    /// Registered, but not alive; of a controller never.
    pub is_fenced: bool,
}

/// A cluster as a node describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub cluster_id: Option<String>,
    pub nodes: Vec<Node>,
}

/// The cluster's id and its nodes: brokers, or the controllers where the cluster is seen through them. Fenced brokers
/// are told from version 2 of the API on.
pub async fn describe_cluster(
    cluster: &mut Cluster,
    include_fenced_brokers: bool,
) -> Result<Description, ClientError> {
    let request = DescribeClusterRequest {
        endpoint_type: if cluster.is_of_controllers() {
            ENDPOINT_TYPE_CONTROLLER
        } else {
            ENDPOINT_TYPE_BROKER
        },
        include_fenced_brokers,
        ..Default::default()
    };
    match cluster.call_any("listNodes", &request).await {
        Ok(answer) => {
            super::outcome(answer.error_code, answer.error_message.as_ref())?;
            Ok(Description {
                cluster_id: Some(answer.cluster_id.to_string()),
                nodes: answer
                    .brokers
                    .into_iter()
                    .map(|node| Node {
                        id: node.broker_id,
                        host: node.host.to_string(),
                        port: node.port,
                        rack: node.rack.map(|rack| rack.to_string()),
                        is_fenced: node.is_fenced,
                    })
                    .collect(),
            })
        }
        // Brokers before 2.8.
        Err(ClientError::UnsupportedApi { .. })
            if !cluster.is_of_controllers() && !include_fenced_brokers =>
        {
            let brokers = live_brokers(cluster).await?;
            Ok(Description {
                cluster_id: cluster.cluster_id().map(str::to_owned),
                nodes: brokers
                    .into_iter()
                    .map(|broker| Node {
                        id: broker.id.0,
                        host: broker.address.host,
                        port: i32::from(broker.address.port),
                        rack: broker.rack,
                        is_fenced: false,
                    })
                    .collect(),
            })
        }
        Err(error) => Err(error),
    }
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
