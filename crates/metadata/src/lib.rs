//! The cluster's metadata as a value: an image that is the fold of the metadata log, and what changed between two images.
//! Not here: deciding which records to write (crates/controller), reading or replicating the log (broker/src/quorum).
//! Pure data; images are persistent maps, so that a clone costs a few reference counts and any task may hold one.
//! Kafka: org.apache.kafka.image.*, org.apache.kafka.metadata.*; KIP-500, KIP-631, KIP-966.

pub mod acls;
pub mod bootstrap;
pub mod cluster;
pub mod configs;
pub mod delta;
pub mod features;
pub mod image;
pub mod quotas;
pub mod record_version;
pub mod scram;
pub mod snapshot;
pub mod tokens;
pub mod topics;

pub use acls::{Acl, AclsImage};
pub use cluster::{
    BrokerRegistration, ClusterImage, ControllerRegistration, Endpoint, VersionRange,
};
pub use configs::{ConfigResource, ConfigResourceType, ConfigsImage, ResourceConfig};
pub use delta::{LocalReplicaChanges, MetadataDelta, PartitionChange};
pub use features::{FeaturesImage, MetadataVersion};
pub use image::{MetadataImage, ReplayError};
pub use kavka_protocol::MetadataRecord;
pub use quotas::{QuotaEntity, QuotasImage};
pub use record_version::record_version;
pub use scram::{ScramCredential, ScramImage};
pub use tokens::{DelegationToken, TokensImage};
pub use topics::{LeaderRecoveryState, PartitionRegistration, TopicImage, TopicsImage};

/// A persistent map that iterates in key order, so that every node walks an image the same way.
pub type Map<K, V> = rpds::RedBlackTreeMapSync<K, V>;
