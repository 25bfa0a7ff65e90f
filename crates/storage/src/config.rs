//! The settings that one log acts on.
//! Not here: where they come from, their defaults for users, their validation (crates/config has the rows).
//! Pure data; the owner of a log replaces it when the topic's configuration changes.
//! Kafka: org.apache.kafka.storage.internals.log.LogConfig, ProducerStateManagerConfig.

use kavka_records::TimestampType;

/// Settings of one log; each field is Kafka's topic or broker key of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub segment_bytes: u32,
    pub segment_ms: i64,
    pub segment_jitter_ms: i64,
    pub segment_index_bytes: u32,
    pub index_interval_bytes: u32,
    /// Negative: no limit.
    pub retention_ms: i64,
    /// Negative: no limit.
    pub retention_bytes: i64,
    /// Whether `cleanup.policy` has `delete`; without it only the log start offset deletes segments.
    pub cleanup_delete: bool,
    pub file_delete_delay_ms: i64,
    pub message_timestamp_type: TimestampType,
    /// Messages after which the owner asks for a flush.
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    /// Kafka's defaults, for tests and tools. A broker fills every field from its configuration.
    fn default() -> Self {
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_ms: 7 * 24 * 3_600_000,
            retention_bytes: -1,
            cleanup_delete: true,
            file_delete_delay_ms: 60_000,
            message_timestamp_type: TimestampType::CreateTime,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            producer_id_expiration_ms: 24 * 3_600_000,
        }
    }
}
