//! Images for the tests of handlers, made of records as real ones are.
//! Not here: brokers, sockets.
//! Test only.

use crate::api::cluster_view::Viewpoint;
use kavka_common::{LeaderEpoch, NodeId, PartitionEpoch, Uuid};
use kavka_config::{BrokerConfig, Properties};
use kavka_metadata::{
    LeaderRecoveryState, MetadataImage, MetadataRecord, MetadataVersion, PartitionRegistration,
};
use kavka_protocol::messages::{
    BrokerRegistrationChangeRecord, ConfigRecord, PartitionRecord, RegisterBrokerRecord,
    TopicRecord, register_broker_record::BrokerEndpoint,
};
use std::sync::Arc;

/// Records of an image to be.
pub(crate) struct TestImage {
    records: Vec<MetadataRecord>,
}

/// A partition to take fields of.
pub(crate) const PARTITION: PartitionRegistration = PartitionRegistration {
    replicas: Vec::new(),
    directories: Vec::new(),
    isr: Vec::new(),
    elr: Vec::new(),
    last_known_elr: Vec::new(),
    removing_replicas: Vec::new(),
    adding_replicas: Vec::new(),
    leader: NodeId::NONE,
    leader_recovery_state: LeaderRecoveryState::Recovered,
    leader_epoch: LeaderEpoch::INITIAL,
    partition_epoch: PartitionEpoch::INITIAL,
};

pub(crate) fn topic_id(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

impl TestImage {
    pub(crate) fn new() -> Self {
        let bootstrap =
            kavka_metadata::bootstrap::format_records(MetadataVersion::LATEST_PRODUCTION);
        TestImage {
            records: kavka_metadata::bootstrap::activation_records(bootstrap, 1),
        }
    }

    pub(crate) fn broker(mut self, broker_id: i32, host: &str, port: u16) -> Self {
        self.records
            .push(MetadataRecord::RegisterBroker(RegisterBrokerRecord {
                broker_id,
                broker_epoch: i64::from(broker_id),
                fenced: false,
                end_points: vec![BrokerEndpoint {
                    name: "PLAINTEXT".into(),
                    host: host.into(),
                    port,
                    ..Default::default()
                }],
                ..Default::default()
            }));
        self
    }

    pub(crate) fn fenced(mut self, broker_id: i32) -> Self {
        self.records.push(MetadataRecord::BrokerRegistrationChange(
            BrokerRegistrationChangeRecord {
                broker_id,
                broker_epoch: i64::from(broker_id),
                fenced: 1,
                ..Default::default()
            },
        ));
        self
    }

    /// Partitions led by broker 1.
    pub(crate) fn topic(mut self, name: &str, id: u8, partitions: i32) -> Self {
        self.records.push(MetadataRecord::Topic(TopicRecord {
            name: name.into(),
            topic_id: topic_id(id),
            ..Default::default()
        }));
        self.records.extend((0..partitions).map(|partition_id| {
            MetadataRecord::Partition(PartitionRecord {
                partition_id,
                topic_id: topic_id(id),
                replicas: vec![1],
                isr: vec![1],
                leader: 1,
                leader_epoch: 5,
                partition_epoch: 0,
                directories: vec![Uuid::DIR_UNASSIGNED],
                ..Default::default()
            })
        }));
        self
    }

    pub(crate) fn config(
        mut self,
        resource_type: i8,
        resource: &str,
        name: &str,
        value: &str,
    ) -> Self {
        self.records.push(MetadataRecord::Config(ConfigRecord {
            resource_type,
            resource_name: resource.into(),
            name: name.into(),
            value: Some(value.into()),
            ..Default::default()
        }));
        self
    }

    pub(crate) fn image(self) -> MetadataImage {
        let last_offset = i64::try_from(self.records.len()).unwrap() - 1;
        MetadataImage::empty()
            .apply(last_offset, LeaderEpoch(1), &self.records)
            .unwrap()
            .0
    }
}

/// A client of node `node_id` that reached it at 192.0.2.7:19092.
pub(crate) fn viewpoint(node_id: i32, advertised: Option<(&str, u16)>) -> Viewpoint {
    Viewpoint {
        node_id: NodeId(node_id),
        listener: "PLAINTEXT".into(),
        local_host: "192.0.2.7".into(),
        local_port: 19092,
        advertised: advertised.map(|(host, port)| (host.to_owned(), port)),
    }
}

pub(crate) fn broker_config(settings: &str) -> Arc<BrokerConfig> {
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n{settings}"
    );
    Arc::new(BrokerConfig::from_properties(&Properties::parse_str(&text).unwrap()).unwrap())
}
