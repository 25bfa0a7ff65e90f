//! The broker as a library: everything behind the `kafka-server-start` and `zookeeper-server-start` programs.
//! Not here: decisions about replication, groups and the cluster (pure crates), the wire codec, files.
//! `server` is the only composition root: it starts and stops every task and thread.
//! Kafka: core/src/main/scala/kafka/server.

pub mod api;
pub mod arguments;
pub mod controller;
pub mod coordinator;
pub mod daemon;
pub mod identity;
pub mod lifecycle;
pub mod log_file;
pub mod logging;
pub mod machine;
pub mod metadata;
pub mod network;
pub mod pid_file;
pub mod program;
pub mod quorum;
pub mod replica;
pub mod server;
pub mod start_error;
pub mod stop_program;
pub mod zookeeper_port;
