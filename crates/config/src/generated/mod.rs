//! The settings tables as Rust constants, made from tables/*.tsv.
//! Not here: anything written by hand; see tests/tables.rs and scripts/regenerate.
//! Pure data. Kafka: AbstractKafkaConfig.CONFIG_DEF, LogConfig, GroupConfig, ClientMetricsConfigs.

pub mod broker;
pub mod client_metrics;
pub mod group;
pub mod topic;
