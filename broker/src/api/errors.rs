//! The only mapping from error enums to the wire's error codes.
//! Not here: the errors themselves (each room has its own), messages of responses (handlers).
//! Pure. Exhaustive matches only: a new error does not compile until it has its code.
//! Kafka: org.apache.kafka.common.protocol.Errors.

use crate::replica::ReplicaError;
use kavka_protocol::ErrorCode;
use kavka_records::{InvalidBatch, InvalidBatchKind};
use kavka_replication::FetchSessionError;
use kavka_storage::{AppendError, ProducerError, StorageError};

/// An error that a client is told by number.
pub trait WireError {
    fn error_code(&self) -> ErrorCode;
}

impl WireError for ReplicaError {
    fn error_code(&self) -> ErrorCode {
        match self {
            ReplicaError::UnknownTopicOrPartition => ErrorCode::UnknownTopicOrPartition,
            ReplicaError::UnknownTopicId => ErrorCode::UnknownTopicId,
            ReplicaError::NotLeaderOrFollower => ErrorCode::NotLeaderOrFollower,
            ReplicaError::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
            ReplicaError::UnknownLeaderEpoch => ErrorCode::UnknownLeaderEpoch,
            ReplicaError::OffsetOutOfRange(_) | ReplicaError::EpochOutOfRange => {
                ErrorCode::OffsetOutOfRange
            }
            ReplicaError::OffsetNotAvailable => ErrorCode::OffsetNotAvailable,
            ReplicaError::NotEnoughReplicas => ErrorCode::NotEnoughReplicas,
            ReplicaError::NotEnoughReplicasAfterAppend => ErrorCode::NotEnoughReplicasAfterAppend,
            ReplicaError::RequestTimedOut => ErrorCode::RequestTimedOut,
            ReplicaError::DeletePolicy(_) => ErrorCode::PolicyViolation,
            ReplicaError::InternalTopic(_) => ErrorCode::InvalidTopicException,
            ReplicaError::UnknownTransaction => ErrorCode::InvalidProducerIdMapping,
            ReplicaError::UnsupportedVersion => ErrorCode::UnsupportedVersion,
            ReplicaError::DuplicatePartition => ErrorCode::InvalidRequest,
            ReplicaError::InvalidBatch(invalid) => invalid.error_code(),
            ReplicaError::Append(error) => error.error_code(),
            ReplicaError::LogDirOffline(_) => ErrorCode::KafkaStorageError,
            ReplicaError::Storage(error) => error.error_code(),
        }
    }
}

impl WireError for InvalidBatch {
    fn error_code(&self) -> ErrorCode {
        match self.kind {
            InvalidBatchKind::NotOneBatch | InvalidBatchKind::InvalidRecord => {
                ErrorCode::InvalidRecord
            }
            InvalidBatchKind::CorruptMessage | InvalidBatchKind::Unreadable => {
                ErrorCode::CorruptMessage
            }
            InvalidBatchKind::MessageTooLarge => ErrorCode::MessageTooLarge,
            InvalidBatchKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
            InvalidBatchKind::UnsupportedCompressionType => ErrorCode::UnsupportedCompressionType,
        }
    }
}

impl WireError for AppendError {
    fn error_code(&self) -> ErrorCode {
        match self {
            AppendError::InvalidBatch(_) => ErrorCode::InvalidRecord,
            AppendError::BatchTooLarge { .. } => ErrorCode::RecordListTooLarge,
            AppendError::Producer(error) => match error {
                ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
                ProducerError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
                ProducerError::TransactionCoordinatorFenced { .. } => {
                    ErrorCode::TransactionCoordinatorFenced
                }
                ProducerError::InvalidTxnState { .. } => ErrorCode::InvalidTxnState,
            },
            // only followers append at given offsets; a leader that sees this has a bug
            AppendError::UnexpectedOffset { .. } => ErrorCode::UnknownServerError,
            AppendError::Storage(error) => error.error_code(),
        }
    }
}

impl WireError for StorageError {
    fn error_code(&self) -> ErrorCode {
        ErrorCode::KafkaStorageError
    }
}

impl WireError for FetchSessionError {
    fn error_code(&self) -> ErrorCode {
        match self {
            FetchSessionError::SessionIdNotFound => ErrorCode::FetchSessionIdNotFound,
            FetchSessionError::InvalidSessionEpoch => ErrorCode::InvalidFetchSessionEpoch,
            FetchSessionError::TopicIdMismatch => ErrorCode::FetchSessionTopicIdError,
        }
    }
}
