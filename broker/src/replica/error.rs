//! Why an operation on a partition is refused.
//! Not here: wire codes (api/errors.rs).
//! Pure data. Kafka: org.apache.kafka.common.errors.*, as ReplicaManager and Partition throw them.

use kavka_common::TopicPartition;
use kavka_records::InvalidBatch;
use kavka_storage::{AppendError, OffsetOutOfRange, ReadError, StorageError};

#[derive(Clone, Debug, thiserror::Error)]
pub enum ReplicaError {
    #[error("This server does not host this topic-partition.")]
    UnknownTopicOrPartition,
    #[error("This server does not host this topic ID.")]
    UnknownTopicId,
    #[error(
        "For requests intended only for the leader, this error indicates that the broker is not the current leader."
    )]
    NotLeaderOrFollower,
    #[error("The leader epoch in the request is older than the epoch on the broker.")]
    FencedLeaderEpoch,
    #[error("The leader epoch in the request is newer than the epoch on the broker.")]
    UnknownLeaderEpoch,
    #[error(transparent)]
    OffsetOutOfRange(#[from] OffsetOutOfRange),
    /// The epoch that the reader saw last is unknown here: its offset means nothing in this log.
    #[error("The requested offset is not within the range of offsets maintained by the server.")]
    EpochOutOfRange,
    /// A new leader has not yet committed anything of its own epoch.
    #[error(
        "The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to be monotonically increasing."
    )]
    OffsetNotAvailable,
    #[error("Messages are rejected since there are fewer in-sync replicas than required.")]
    NotEnoughReplicas,
    #[error("Messages are written to the log, but to fewer in-sync replicas than required.")]
    NotEnoughReplicasAfterAppend,
    #[error("The request timed out.")]
    RequestTimedOut,
    #[error("Records of partition {0} can not be deleted due to the configured policy.")]
    DeletePolicy(String),
    #[error("Cannot delete records of internal topic {0}")]
    InternalTopic(String),
    #[error("Nobody coordinates the transaction that the records are said to belong to.")]
    UnknownTransaction,
    #[error("The version of the request does not know this special timestamp.")]
    UnsupportedVersion,
    #[error("The request names the same partition twice.")]
    DuplicatePartition,
    #[error(
        "The log of {0} may lie in a log directory that is offline, so none is made in another one."
    )]
    LogDirOffline(TopicPartition),
    #[error("{0}")]
    InvalidBatch(Box<InvalidBatch>),
    #[error(transparent)]
    Append(AppendError),
    #[error(transparent)]
    Storage(StorageError),
}

impl From<InvalidBatch> for ReplicaError {
    fn from(invalid: InvalidBatch) -> Self {
        ReplicaError::InvalidBatch(Box::new(invalid))
    }
}

impl From<StorageError> for ReplicaError {
    fn from(error: StorageError) -> Self {
        ReplicaError::Storage(error)
    }
}

impl From<AppendError> for ReplicaError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Storage(error) => ReplicaError::Storage(error),
            other => ReplicaError::Append(other),
        }
    }
}

impl From<ReadError> for ReplicaError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::OutOfRange(error) => ReplicaError::OffsetOutOfRange(error),
            ReadError::Storage(error) => ReplicaError::Storage(error),
        }
    }
}
