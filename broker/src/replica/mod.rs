//! The replicas that this broker hosts: appends, fetches, offsets, and their upkeep.
//! Not here: replication rules (crates/replication), files (crates/storage), the wire (api/).
//! Requests run in their connections' tasks; blocking work on the blocking pool with a bounded width.
//! Kafka: kafka.server.ReplicaManager, kafka.cluster.Partition, LogManager.

pub mod alter_partition;
pub mod append;
pub mod apply;
pub mod assignments;
pub mod closest;
mod cut;
pub mod error;
pub mod fetch;
pub mod fetcher;
pub mod log_dirs;
pub mod maintenance;
pub mod manager;
pub mod offsets;
pub mod panics;
pub mod partition;
mod placement;
pub mod producer_ids;
pub mod purgatory;
pub mod recovery;
pub mod settings;
mod shelf;
pub mod throttle;

pub use append::{Acks, InDoubt, acknowledged};
pub use closest::ReplicaSelector;
pub use error::ReplicaError;
pub use fetch::{FetchParams, FetchPartition, FetchResult, fetch};
pub use fetcher::{FetcherSettings, Fetchers};
pub use log_dirs::{DirDescription, ReplicaSize};
pub use manager::{LeaderEndpoint, LeaderHint, ReplicaManager};
pub use offsets::{FoundOffset, OffsetSpec, find_offset};
pub use partition::{
    Appended, Cut, FetchIsolation, FetchingReplica, Followed, IsrAnswer, IsrProposal, Partition,
    PartitionRead, PartitionView, ReadRequest, ViewedRole,
};
pub use producer_ids::{NoProducerIds, ProducerIdBlock, ProducerIdSource, ProducerIds};
pub use purgatory::Waiter;
pub use settings::{ReplicaSettings, TopicSettings};
pub use throttle::{ThrottledReplicas, Throttles};

#[cfg(test)]
#[path = "replica_test.rs"]
mod replica_test;

#[cfg(test)]
#[path = "shelf_test.rs"]
mod shelf_test;

#[cfg(test)]
mod spoilt_vfs;

#[cfg(test)]
#[path = "cold_read_test.rs"]
mod cold_read_test;

#[cfg(test)]
#[path = "cut_test.rs"]
mod cut_test;

#[cfg(test)]
#[path = "follow_test.rs"]
mod follow_test;

#[cfg(test)]
#[path = "log_dirs_test.rs"]
mod log_dirs_test;
