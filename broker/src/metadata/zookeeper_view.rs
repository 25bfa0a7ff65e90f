//! The image as ZooKeeper's clients expect to find it under `/brokers` and `/controller`.
//! Not here: the tree and the protocol (crates/zookeeper), who the active controller is (given).
//! A value over one image, made per request. Kafka 2.x: KafkaZkClient.

use kavka_common::NodeId;
use kavka_config::SecurityProtocol;
use kavka_metadata::MetadataImage;
use kavka_zookeeper::tree::{EndpointNode, PartitionNode};
use kavka_zookeeper::{BrokerNode, ClusterView, ControllerNode, TopicNode};
use std::sync::Arc;

/// One image, read as a tree.
pub struct ZooKeeperView {
    pub image: Arc<MetadataImage>,
    pub cluster_id: Arc<str>,
    pub controller_id: Option<NodeId>,
    /// When this server started: the image keeps no times of registrations.
    pub started_ms: i64,
}

impl ClusterView for ZooKeeperView {
    fn zxid(&self) -> i64 {
        self.image.last_offset.max(0)
    }

    fn cluster_id(&self) -> String {
        self.cluster_id.to_string()
    }

    fn controller(&self) -> Option<ControllerNode> {
        self.controller_id.map(|id| ControllerNode {
            id: id.get(),
            controller_epoch: self.image.last_epoch.get(),
            timestamp_ms: self.started_ms,
        })
    }

    fn broker_ids(&self) -> Vec<i32> {
        self.image
            .cluster
            .unfenced_brokers()
            .map(|broker| broker.broker_id.get())
            .collect()
    }

    fn broker(&self, id: i32) -> Option<BrokerNode> {
        let broker = self
            .image
            .cluster
            .broker(NodeId(id))
            .filter(|broker| !broker.fenced)?;
        Some(BrokerNode {
            id,
            endpoints: broker
                .endpoints
                .iter()
                .map(|endpoint| EndpointNode {
                    name: endpoint.name.to_string(),
                    security_protocol: security_protocol_name(endpoint.security_protocol),
                    host: endpoint.host.to_string(),
                    port: endpoint.port,
                })
                .collect(),
            rack: broker.rack.as_deref().map(str::to_owned),
            broker_epoch: broker.broker_epoch.get(),
            timestamp_ms: self.started_ms,
        })
    }

    fn topic_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .image
            .topics
            .iter()
            .map(|topic| topic.name.to_string())
            .collect();
        names.sort_unstable();
        names
    }

    fn topic(&self, name: &str) -> Option<TopicNode> {
        let topic = self.image.topics.by_name(name)?;
        let ids = |ids: &[NodeId]| ids.iter().map(|id| id.get()).collect::<Vec<i32>>();
        Some(TopicNode {
            partitions: topic
                .partitions
                .iter()
                .map(|(partition, registration)| PartitionNode {
                    partition: *partition,
                    replicas: ids(&registration.replicas),
                    isr: ids(&registration.isr),
                    leader: registration.leader.get(),
                    leader_epoch: registration.leader_epoch.get(),
                    adding_replicas: ids(&registration.adding_replicas),
                    removing_replicas: ids(&registration.removing_replicas),
                })
                .collect(),
            configs: self
                .image
                .configs
                .topic(name)
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        })
    }
}

fn security_protocol_name(id: i16) -> String {
    [
        SecurityProtocol::Plaintext,
        SecurityProtocol::Ssl,
        SecurityProtocol::SaslPlaintext,
        SecurityProtocol::SaslSsl,
    ]
    .get(usize::try_from(id).unwrap_or(usize::MAX))
    .map_or_else(|| id.to_string(), ToString::to_string)
}
