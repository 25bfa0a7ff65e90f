//! Hosts coordinators' shards on the partitions that hold their records.
//! Not here: what a coordinator decides (crates/coordinator), requests (api/).
//! One `Host` per led partition of a coordinator's topic, with one driver task; see `host`.
//! Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime, group.GroupCoordinatorService.

pub mod groups;
pub mod host;
pub mod loader;
pub mod record;

pub use groups::GroupCoordinator;
pub use host::Host;
pub use record::LogRecord;

use crate::api::errors::WireError;
use crate::replica::ReplicaError;
use kavka_protocol::ErrorCode;

/// Kafka's choice of a key's partition: Java's `String.hashCode`, made positive, modulo the partition count.
pub fn partition_for(key: &str, partition_count: i32) -> i32 {
    let hash = key.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    (hash & i32::MAX) % partition_count.max(1)
}

/// What a client is told when a coordinator's write fails (CoordinatorOperationExceptionHelper).
pub fn write_error(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
        other => other,
    }
}

/// As `write_error`, for an error of this broker's log. While its disk is full or it has too many files open, it still
/// coordinates, and the same request may succeed later.
fn failed_write(error: &ReplicaError) -> ErrorCode {
    match error {
        ReplicaError::Storage(cause) if cause.is_passing() => ErrorCode::CoordinatorNotAvailable,
        other => write_error(other.error_code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_java_puts_them() {
        // Computed by a JVM.
        for (key, partition) in [("", 0), ("g1", 42), ("group", 47), ("Привет", 2)] {
            assert_eq!(partition_for(key, 50), partition, "{key}");
        }
    }
}
