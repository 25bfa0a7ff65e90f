//! Topics: creation, deletion, more partitions.
//! Not here: placement and leaders (`replication`), the settings' rules (`configs`).
//! Pure. Kafka: ReplicationControlManager, ControllerApis; KIP-4, KIP-195, KIP-516, KIP-599.

pub mod assignment;
pub mod create;
pub mod create_partitions;
pub mod delete;
