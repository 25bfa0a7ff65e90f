//! The pure core of one partition's replication, of fetch sessions, and of fetching from a leader.
//! Not here: record bytes, disk, sockets, clocks (time and sizes come in as arguments, actions go out as data).
//! Runs inside the partition's owner (broker/src/replica/partition.rs) and under the session cache's lock.
//! Kafka: kafka.cluster.Partition, FetchSession; KIP-101, KIP-227, KIP-497, KIP-841, KIP-903, KIP-966.

pub mod fetch_session;
pub mod fetcher;
pub mod follower;
pub mod leader;
pub mod replica;
pub mod replica_selector;
pub mod throttle;

pub use fetch_session::{
    FetchContext, FetchSessionCache, FetchSessionError, PartitionOutcome, SessionId,
    SessionPartition, SessionRequest,
};
pub use fetcher::{
    ActionKind, FetchAnswer, FetchFault, FetchPlan, FetchPosition, Fetcher, FetcherAction,
    FetcherConfig, FetcherEvent, LeaderRange, Outcome, PartitionAnswer, SessionFault,
};
pub use follower::{EpochEnd, Follower, Truncation};
pub use leader::{
    AcksState, AlterPartitionOutcome, Leader, LeaderAction, LeaderConfig, LeaderEvent, LeaderStart,
    Registration,
};
pub use throttle::Throttle;
