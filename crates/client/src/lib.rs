//! A small Kafka client: connections, version negotiation, routing, and the operations of the admin tools; behind the
//! feature `rdkafka`, a producer and a consumer with Java's property names on librdkafka.
//! Not here: what tools print (tools).
//! Runs on the caller's tokio runtime; nothing is spawned, a connection belongs to one caller at a time.
//! Kafka: org.apache.kafka.clients.{NetworkClient, Metadata, admin.KafkaAdminClient}.

pub mod address;
pub mod admin;
pub mod cluster;
pub mod config;
pub mod connection;
#[cfg(feature = "rdkafka")]
pub mod consumer;
pub mod error;
pub mod java_properties;
#[cfg(feature = "rdkafka")]
pub mod librdkafka;
pub mod probe;
#[cfg(feature = "rdkafka")]
pub mod producer;

pub mod zookeeper;

pub use address::BrokerAddress;
pub use cluster::{Cluster, Coordinator};
pub use config::ClientConfig;
pub use connection::Connection;
pub use error::ClientError;
