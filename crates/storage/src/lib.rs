//! One partition's log in Kafka's files, and the log directories that hold such logs.
//! Not here: protocol messages, replication decisions, compaction; record contents (crates/records reads those).
//! Nothing locks inside a `Log`: its owner does. fsync and deletions are handed out to be run outside that lock.
//! Kafka: org.apache.kafka.storage.internals.log.{UnifiedLog, LocalLog, LogSegment}, LogManager.

pub mod checkpoint;
pub mod config;
mod disk;
pub mod error;
mod index;
mod lazy_file;
pub mod leader_epoch;
pub mod log;
pub mod log_dir;
pub mod meta_properties;
pub mod names;
pub mod producer_state;
mod scan;
mod segment;
pub mod testing;
mod txn_index;
pub mod vfs;

pub use config::LogConfig;
pub use error::{FailureLatch, StorageError};
pub use log::{
    AppendError, AppendInfo, CheckpointOffsets, FileDeletions, FlushTicket, Log, LookupError,
    OffsetOutOfRange, OpenOptions, PlannedRead, ReadError, ReadLookup, ReadResult, RecoveryReport,
    TimestampLookup, TimestampedOffset,
};
pub use log_dir::{LogDir, LogDirError, LogDirs};
pub use meta_properties::MetaProperties;
pub use producer_state::{AppendOrigin, ProducerEntry, ProducerError};
pub use txn_index::AbortedTxn;
