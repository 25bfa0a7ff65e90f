//! Replicas: where they go, who leads, who is in sync.
//! Not here: topics themselves (`topics`), the data plane's side of it (crates/replication).
//! Pure. Kafka: ReplicationControlManager, PartitionChangeBuilder, StripedReplicaPlacer.

pub mod alter_partition;
pub mod broker_changes;
pub mod directories;
pub mod elect_leaders;
pub mod partition_change;
pub mod placement;
pub mod reassignment;
