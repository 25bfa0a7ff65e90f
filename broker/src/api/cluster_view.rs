//! What clients are told of brokers and partitions: endpoints per listener, leaders, replicas that are offline.
//! Not here: the responses (metadata.rs, describe_cluster.rs, describe_topic_partitions.rs, find_coordinator.rs).
//! Pure functions of an image and a request's circumstances.
//! Kafka: KRaftMetadataCache, MetadataResponse; KIP-103, KIP-112, KIP-858.

use crate::api::RequestContext;
use kavka_common::NodeId;
use kavka_config::BrokerConfig;
use kavka_metadata::{BrokerRegistration, MetadataImage, PartitionRegistration};
use kavka_protocol::ErrorCode;
use std::sync::Arc;

/// What a client may do with a topic when there is no authorizer: a bit per AclOperation.
pub const TOPIC_OPERATIONS: i32 = 3576;
/// What a client may do with the cluster when there is no authorizer.
pub const CLUSTER_OPERATIONS: i32 = 8096;

/// A broker as a client reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerNode {
    pub broker_id: NodeId,
    pub host: String,
    pub port: i32,
    pub rack: Option<Arc<str>>,
    pub is_fenced: bool,
}

/// Who answers, and by which address the asker reached it.
#[derive(Clone, Debug)]
pub struct Viewpoint {
    pub node_id: NodeId,
    pub listener: String,
    /// The address of this server that the client used.
    pub local_host: String,
    pub local_port: u16,
    /// This node's own advertised endpoint of the listener; an empty host when none is configured.
    pub advertised: Option<(String, u16)>,
}

impl Viewpoint {
    pub fn new(config: &BrokerConfig, context: &RequestContext) -> Self {
        let listener = &context.listener.name;
        Viewpoint {
            node_id: config.node_id(),
            listener: listener.clone(),
            // A dual-stack socket shows IPv4 clients as mapped addresses, which others could not connect to.
            local_host: context.local.ip().to_canonical().to_string(),
            local_port: context.listener.address.port(),
            advertised: config
                .advertised_listener(listener)
                .map(|advertised| (advertised.host.clone(), advertised.port)),
        }
    }

    /// The broker's endpoint on the asker's listener. `None` when it does not have that listener.
    pub fn node(&self, broker: &BrokerRegistration) -> Option<BrokerNode> {
        let endpoint = broker.endpoint(&self.listener)?;
        let mut host = endpoint.host.to_string();
        let mut port = endpoint.port;
        if broker.broker_id == self.node_id {
            // Nobody has said how this node is reached: the client just has.
            let is_told = self
                .advertised
                .as_ref()
                .is_some_and(|(host, _)| !is_wildcard(host));
            if !is_told {
                host.clone_from(&self.local_host);
            }
            if port == 0 {
                port = self.local_port;
            }
        }
        if is_wildcard(&host) {
            host.clone_from(&self.local_host);
        }
        Some(BrokerNode {
            broker_id: broker.broker_id,
            host,
            port: i32::from(port),
            rack: broker.rack.clone(),
            is_fenced: broker.fenced,
        })
    }

    /// Brokers of the image with the asker's listener, in the order of their ids.
    pub fn nodes<'a>(&'a self, image: &'a MetadataImage) -> impl Iterator<Item = BrokerNode> + 'a {
        image
            .cluster
            .brokers
            .values()
            .filter_map(|broker| self.node(broker))
    }

    fn has_endpoint(&self, image: &MetadataImage, broker_id: NodeId) -> bool {
        image
            .cluster
            .broker(broker_id)
            .is_some_and(|broker| broker.endpoint(&self.listener).is_some())
    }

    /// A partition as clients see it. `is_version_0` and `knows_listener_error` are about old versions of Metadata.
    pub fn partition(
        &self,
        image: &MetadataImage,
        partition: &PartitionRegistration,
        is_version_0: bool,
        knows_listener_error: bool,
    ) -> PartitionView {
        let reachable = |ids: &[NodeId]| -> Vec<i32> {
            ids.iter()
                .filter(|id| !is_version_0 || self.has_endpoint(image, **id))
                .map(|id| id.get())
                .collect()
        };
        let replicas = reachable(&partition.replicas);
        let isr = reachable(&partition.isr);
        let offline_replicas = partition
            .replicas
            .iter()
            .filter(|id| self.is_offline(image, partition, **id))
            .map(|id| id.get())
            .collect();
        let (error, leader_id) = if self.has_endpoint(image, partition.leader) {
            let all_reachable =
                replicas.len() == partition.replicas.len() && isr.len() == partition.isr.len();
            let error = if all_reachable {
                ErrorCode::None
            } else {
                ErrorCode::ReplicaNotAvailable
            };
            (error, partition.leader)
        } else if image.cluster.broker(partition.leader).is_some() && knows_listener_error {
            (ErrorCode::ListenerNotFound, NodeId::NONE)
        } else {
            (ErrorCode::LeaderNotAvailable, NodeId::NONE)
        };
        PartitionView {
            error,
            leader_id: leader_id.get(),
            replicas,
            isr,
            offline_replicas,
        }
    }

    fn is_offline(
        &self,
        image: &MetadataImage,
        partition: &PartitionRegistration,
        replica_id: NodeId,
    ) -> bool {
        match image.cluster.broker(replica_id) {
            None => true,
            Some(broker) => {
                broker.fenced
                    || broker.endpoint(&self.listener).is_none()
                    || partition
                        .directory(replica_id)
                        .is_some_and(|directory| !broker.has_online_directory(&directory))
            }
        }
    }
}

/// A partition's leader and replicas as the wire carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    pub error: ErrorCode,
    pub leader_id: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    pub offline_replicas: Vec<i32>,
}

fn is_wildcard(host: &str) -> bool {
    matches!(host, "" | "0.0.0.0" | "::")
}

/// Some broker that serves: what KRaft clusters tell clients that ask for the controller, so that requests to it
/// spread. Any broker forwards them. The same one for the same offset, so that one answer agrees with itself.
pub fn shown_controller(image: &MetadataImage, nodes: &[BrokerNode]) -> i32 {
    let alive: Vec<i32> = nodes
        .iter()
        .filter(|node| !node.is_fenced)
        .map(|node| node.broker_id.get())
        .collect();
    let pick = usize::try_from(image.last_offset.max(0)).unwrap_or(0);
    match alive.len() {
        0 => NodeId::NONE.get(),
        len => alive[pick % len],
    }
}

#[cfg(test)]
#[path = "cluster_view_test.rs"]
mod cluster_view_test;
