//! The command-line tools: what they share, and the modules behind the larger ones. `src/bin/` has one thin main each.
//! Not here: talking to a cluster (kavka-client), the broker.
//! Kafka: org.apache.kafka.tools, org.apache.kafka.server.util.CommandLineUtils.

pub mod args;
pub mod broker_api_versions;
#[cfg(feature = "rdkafka")]
pub mod client_events;
pub mod cluster;
#[cfg(feature = "rdkafka")]
pub mod console_consumer;
#[cfg(feature = "rdkafka")]
pub mod console_producer;
pub mod consumer_groups;
pub mod diagnosis;
pub mod exit;
pub mod features;
pub mod files;
pub mod java;
pub mod json;
pub mod json_input;
pub mod leader_election;
pub mod log_dirs;
pub mod metadata_quorum;
pub mod output;
pub mod reassign_partitions;
pub mod replica_verification;
pub mod session;
pub mod signals;
pub mod storage;
pub mod table;
pub mod topics;
