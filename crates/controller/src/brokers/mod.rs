//! Brokers: registration, heartbeats, fencing, controlled shutdown.
//! Not here: what that does to partitions (`replication::broker_changes`).
//! Pure. Kafka: ClusterControlManager, BrokerHeartbeatManager; KIP-631, KIP-841.

pub mod heartbeat;
pub mod registration;
pub mod unregister;
