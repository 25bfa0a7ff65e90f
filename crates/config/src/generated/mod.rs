//! The settings tables as Rust constants, made from tables/*.tsv.
//! Not here: anything written by hand; see tests/tables.rs and scripts/regenerate.
//! Pure data. Kafka: AbstractKafkaConfig.CONFIG_DEF, LogConfig, GroupConfig, ClientMetricsConfigs.

#[rustfmt::skip]
pub mod broker;
#[rustfmt::skip]
pub mod client_metrics;
#[rustfmt::skip]
pub mod group;
#[rustfmt::skip]
pub mod topic;
