//! The settings that partitions and the replica manager act on.
//! Not here: their defaults and validation (crates/config), the log's own (kavka_storage::LogConfig is a part of these).
//! Pure data; a partition's settings are replaced as a whole when its topic's configuration changes.
//! Kafka: LogConfig, ReplicationConfigs, ServerLogConfigs.

use crate::replica::closest::ReplicaSelector;
use crate::replica::throttle::ThrottledReplicas;
use kavka_common::TopicPartition;
use kavka_config::topic as config;
use kavka_config::topic::{CompressionType, TopicConfig};
use kavka_config::{BrokerConfig, Layers, Value};
use kavka_records::{Compression, CompressionLevel, ProduceRules, TimestampType, TopicCompression};
use kavka_storage::LogConfig;
use std::sync::Arc;

/// The settings of one topic.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSettings {
    pub log: LogConfig,
    pub compression: TopicCompression,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    /// `cleanup.policy` contains `compact`.
    pub compact: bool,
    pub max_message_bytes: usize,
    pub min_in_sync_replicas: usize,
    /// `leader.replication.throttled.replicas`.
    pub leader_throttled: ThrottledReplicas,
    /// `follower.replication.throttled.replicas`.
    pub follower_throttled: ThrottledReplicas,
}

impl TopicSettings {
    /// A topic's settings: its own overrides over what the broker has.
    pub fn resolve<'a>(
        layers: &Layers,
        overrides: impl IntoIterator<Item = (&'a Arc<str>, &'a Arc<str>)>,
    ) -> TopicSettings {
        let overrides = overrides
            .into_iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        let config = TopicConfig::resolve(layers, &overrides);
        let producer_id_expiration_ms = match layers.value("producer.id.expiration.ms") {
            Value::Int(ms) => i64::from(ms),
            Value::Long(ms) => ms,
            _ => layers.file.long("producer.id.expiration.ms"),
        };
        TopicSettings::from_config(&config, producer_id_expiration_ms)
    }

    fn from_config(config: &TopicConfig, producer_id_expiration_ms: i64) -> TopicSettings {
        // the table's bounds keep these from being negative
        let bytes = |value: i32| u32::try_from(value).unwrap_or(0);
        let fixed =
            |compression, level| TopicCompression::Fixed(compression, CompressionLevel(level));
        TopicSettings {
            log: LogConfig {
                segment_bytes: bytes(config.segment_bytes),
                segment_ms: config.segment_ms,
                segment_jitter_ms: config.segment_jitter_ms,
                segment_index_bytes: bytes(config.segment_index_bytes),
                index_interval_bytes: bytes(config.index_interval_bytes),
                retention_ms: config.retention_ms,
                retention_bytes: config.retention_bytes,
                cleanup_delete: config.cleanup_policy.delete,
                file_delete_delay_ms: config.file_delete_delay_ms,
                message_timestamp_type: match config.message_timestamp_type {
                    config::TimestampType::CreateTime => TimestampType::CreateTime,
                    config::TimestampType::LogAppendTime => TimestampType::LogAppendTime,
                },
                flush_messages: config.flush_messages,
                flush_ms: config.flush_ms,
                producer_id_expiration_ms,
            },
            compression: match config.compression_type {
                CompressionType::Producer => TopicCompression::Producer,
                CompressionType::Uncompressed => fixed(Compression::None, None),
                CompressionType::Gzip => {
                    fixed(Compression::Gzip, Some(config.compression_gzip_level))
                }
                CompressionType::Snappy => fixed(Compression::Snappy, None),
                CompressionType::Lz4 => fixed(Compression::Lz4, Some(config.compression_lz4_level)),
                CompressionType::Zstd => {
                    fixed(Compression::Zstd, Some(config.compression_zstd_level))
                }
            },
            timestamp_before_max_ms: config.message_timestamp_before_max_ms,
            timestamp_after_max_ms: config.message_timestamp_after_max_ms,
            compact: config.cleanup_policy.compact,
            max_message_bytes: usize::try_from(config.max_message_bytes).unwrap_or(0),
            min_in_sync_replicas: usize::try_from(config.min_insync_replicas).unwrap_or(1),
            leader_throttled: ThrottledReplicas::from_entries(
                &config.leader_replication_throttled_replicas,
            ),
            follower_throttled: ThrottledReplicas::from_entries(
                &config.follower_replication_throttled_replicas,
            ),
        }
    }

    pub fn produce_rules<'a>(
        &self,
        topic_partition: &'a TopicPartition,
        now_ms: i64,
    ) -> ProduceRules<'a> {
        ProduceRules {
            topic_partition,
            compression: self.compression,
            timestamp_type: self.log.message_timestamp_type,
            timestamp_before_max_ms: self.timestamp_before_max_ms,
            timestamp_after_max_ms: self.timestamp_after_max_ms,
            compact: self.compact,
            max_message_bytes: self.max_message_bytes,
            now_ms,
        }
    }

    pub fn stamps_append_time(&self) -> bool {
        self.log.message_timestamp_type == TimestampType::LogAppendTime
    }
}

/// The broker's settings for all partitions.
#[derive(Clone, Debug)]
pub struct ReplicaSettings {
    /// `replica.lag.time.max.ms`.
    pub replica_lag_ms_max: i64,
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub high_watermark_checkpoint_interval_ms: i64,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub recovery_point_checkpoint_interval_ms: i64,
    /// `log.flush.start.offset.checkpoint.interval.ms`.
    pub log_start_checkpoint_interval_ms: i64,
    /// `log.flush.scheduler.interval.ms`.
    pub flush_scheduler_interval_ms: i64,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// `log.initial.task.delay.ms`.
    pub initial_task_delay_ms: i64,
    /// `producer.id.expiration.check.interval.ms`.
    pub producer_id_expiration_check_interval_ms: i64,
    /// `num.recovery.threads.per.data.dir`.
    pub recovery_threads_per_dir: usize,
    /// `fetch.max.bytes` of the broker.
    pub fetch_max_bytes: usize,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_session_slots: usize,
    /// `replication.quota.window.size.seconds`.
    pub replication_quota_window_ms: u32,
    /// `replica.selector.class`.
    pub replica_selector: ReplicaSelector,
}

impl ReplicaSettings {
    pub fn from_config(config: &BrokerConfig) -> ReplicaSettings {
        let size = |key: &str| usize::try_from(config.long(key)).unwrap_or(0);
        ReplicaSettings {
            replica_lag_ms_max: config.long("replica.lag.time.max.ms"),
            high_watermark_checkpoint_interval_ms: config
                .long("replica.high.watermark.checkpoint.interval.ms"),
            recovery_point_checkpoint_interval_ms: config
                .long("log.flush.offset.checkpoint.interval.ms"),
            log_start_checkpoint_interval_ms: config
                .long("log.flush.start.offset.checkpoint.interval.ms"),
            flush_scheduler_interval_ms: config.long("log.flush.scheduler.interval.ms"),
            retention_check_interval_ms: config.long("log.retention.check.interval.ms"),
            initial_task_delay_ms: config.long("log.initial.task.delay.ms"),
            producer_id_expiration_check_interval_ms: config
                .long("producer.id.expiration.check.interval.ms"),
            recovery_threads_per_dir: size("num.recovery.threads.per.data.dir"),
            fetch_max_bytes: size("fetch.max.bytes"),
            fetch_session_slots: size("max.incremental.fetch.session.cache.slots"),
            replication_quota_window_ms: u32::try_from(
                config.long("replication.quota.window.size.seconds") * 1000,
            )
            .unwrap_or(u32::MAX),
            // an unknown class has been refused at start
            replica_selector: ReplicaSelector::from_config(config).unwrap_or_default(),
        }
    }
}
