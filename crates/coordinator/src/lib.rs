//! Coordinators as pure state machines over their own records: groups now, transactions and share groups later.
//! Not here: sockets, files, clocks, random numbers, and which broker hosts which shard (broker/src/coordinator).
//! Each shard is driven by one owner at a time, the runtime of the partition that holds its records.
//! Kafka: coordinator-common (CoordinatorShard), group-coordinator; KIP-848 (the runtime's shape).

pub mod group;
pub mod shard;

pub use shard::{Now, Outcome, Shard, Token, Write, WriteId};
