//! A topic's settings: its own, else the broker's, else the table's default; typed, and checked when altered.
//! Not here: what a log does with them (storage has its own small struct), where they are stored.
//! Pure; made when a topic or a broker setting changes. Kafka: LogConfig, ServerTopicConfigSynonyms.

use std::collections::BTreeMap;

use crate::definition::{self, Default as Fallback, Definition};
use crate::dynamic::{Layers, Overrides};
use crate::error::{ConfigError, Thrown};
use crate::generated::topic::DEFINITIONS;
use crate::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    pub delete: bool,
    pub compact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// As the producer sent it.
    Producer,
    Uncompressed,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// Every topic setting with its value for one topic on one broker.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    pub cleanup_policy: CleanupPolicy,
    pub compression_type: CompressionType,
    pub compression_gzip_level: i32,
    pub compression_lz4_level: i32,
    pub compression_zstd_level: i32,
    pub delete_retention_ms: i64,
    pub file_delete_delay_ms: i64,
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub follower_replication_throttled_replicas: Vec<String>,
    pub index_interval_bytes: i32,
    pub leader_replication_throttled_replicas: Vec<String>,
    /// -2 is `retention_bytes`.
    pub local_retention_bytes: i64,
    /// -2 is `retention_ms`.
    pub local_retention_ms: i64,
    pub max_compaction_lag_ms: i64,
    pub max_message_bytes: i32,
    pub message_timestamp_after_max_ms: i64,
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_type: TimestampType,
    pub min_cleanable_dirty_ratio: f64,
    pub min_compaction_lag_ms: i64,
    pub min_insync_replicas: i32,
    pub preallocate: bool,
    pub remote_log_copy_disable: bool,
    pub remote_log_delete_on_disable: bool,
    pub remote_storage_enable: bool,
    /// -1 is without limit.
    pub retention_bytes: i64,
    /// -1 is forever.
    pub retention_ms: i64,
    /// `internal.segment.bytes` where a test sets it.
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
    pub unclean_leader_election_enable: bool,
}

/// Every topic setting's value by name, for one topic on one broker.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicValues(BTreeMap<&'static str, Value>);

impl TopicValues {
    /// Overrides that do not parse (stored by another version) are passed over.
    pub fn resolve(layers: &Layers, overrides: &Overrides) -> Self {
        let values = DEFINITIONS.iter().map(|definition| {
            let own = overrides
                .get(definition.name)
                .and_then(|text| definition.value(Some(text)).ok());
            (
                definition.name,
                own.unwrap_or_else(|| inherited(layers, definition)),
            )
        });
        Self(values.collect())
    }

    pub fn get(&self, key: &str) -> &Value {
        self.0
            .get(key)
            .unwrap_or_else(|| panic!("{key} is not a topic setting"))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static Definition, &Value)> {
        DEFINITIONS
            .iter()
            .map(|definition| (definition, self.get(definition.name)))
    }

    fn boolean(&self, key: &str) -> bool {
        matches!(self.get(key), Value::Boolean(true))
    }

    fn int(&self, key: &str) -> i32 {
        match self.get(key) {
            Value::Int(value) => *value,
            other => panic!("{key} is not an INT with a value: {other:?}"),
        }
    }

    fn long(&self, key: &str) -> i64 {
        match self.get(key) {
            Value::Long(value) => *value,
            other => panic!("{key} is not a LONG with a value: {other:?}"),
        }
    }

    fn list(&self, key: &str) -> Vec<String> {
        match self.get(key) {
            Value::List(items) => items.clone(),
            _ => Vec::new(),
        }
    }

    fn text(&self, key: &str) -> &str {
        match self.get(key) {
            Value::Text(text) => text,
            _ => "",
        }
    }
}

/// The first of the broker settings behind a topic setting that has a value, else the table's default.
fn inherited(layers: &Layers, definition: &Definition) -> Value {
    for setting in definition.broker_settings {
        let value = match (layers.value(setting.name), setting.factor) {
            (Value::Null, _) => continue,
            (Value::Int(number), factor) if factor != 1 => {
                Value::Long(i64::from(number).saturating_mul(factor))
            }
            (Value::Long(number), factor) => Value::Long(number.saturating_mul(factor)),
            (other, _) => other,
        };
        return match value {
            // Any negative retention is none at all.
            Value::Long(number) if definition.name == "retention.ms" && number < 0 => {
                Value::Long(-1)
            }
            other => other,
        };
    }
    match definition.default {
        Fallback::Text(_) => definition.value(None).unwrap_or(Value::Null),
        Fallback::Null | Fallback::Required => Value::Null,
    }
}

impl TopicConfig {
    pub fn resolve(layers: &Layers, overrides: &Overrides) -> Self {
        Self::from_values(&TopicValues::resolve(layers, overrides))
    }

    pub fn from_values(values: &TopicValues) -> Self {
        let policy = values.list("cleanup.policy");
        let has = |name: &str| policy.iter().any(|known| known == name);
        Self {
            cleanup_policy: CleanupPolicy {
                delete: has("delete"),
                compact: has("compact"),
            },
            compression_type: match values.text("compression.type") {
                "uncompressed" => CompressionType::Uncompressed,
                "gzip" => CompressionType::Gzip,
                "snappy" => CompressionType::Snappy,
                "lz4" => CompressionType::Lz4,
                "zstd" => CompressionType::Zstd,
                _ => CompressionType::Producer,
            },
            compression_gzip_level: values.int("compression.gzip.level"),
            compression_lz4_level: values.int("compression.lz4.level"),
            compression_zstd_level: values.int("compression.zstd.level"),
            delete_retention_ms: values.long("delete.retention.ms"),
            file_delete_delay_ms: values.long("file.delete.delay.ms"),
            flush_messages: values.long("flush.messages"),
            flush_ms: values.long("flush.ms"),
            follower_replication_throttled_replicas: values
                .list("follower.replication.throttled.replicas"),
            index_interval_bytes: values.int("index.interval.bytes"),
            leader_replication_throttled_replicas: values
                .list("leader.replication.throttled.replicas"),
            local_retention_bytes: values.long("local.retention.bytes"),
            local_retention_ms: values.long("local.retention.ms"),
            max_compaction_lag_ms: values.long("max.compaction.lag.ms"),
            max_message_bytes: values.int("max.message.bytes"),
            message_timestamp_after_max_ms: values.long("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: values.long("message.timestamp.before.max.ms"),
            message_timestamp_type: match values.text("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            min_cleanable_dirty_ratio: match values.get("min.cleanable.dirty.ratio") {
                Value::Double(ratio) => *ratio,
                other => panic!("min.cleanable.dirty.ratio is not a DOUBLE: {other:?}"),
            },
            min_compaction_lag_ms: values.long("min.compaction.lag.ms"),
            min_insync_replicas: values.int("min.insync.replicas"),
            preallocate: values.boolean("preallocate"),
            remote_log_copy_disable: values.boolean("remote.log.copy.disable"),
            remote_log_delete_on_disable: values.boolean("remote.log.delete.on.disable"),
            remote_storage_enable: values.boolean("remote.storage.enable"),
            retention_bytes: values.long("retention.bytes"),
            retention_ms: values.long("retention.ms"),
            segment_bytes: match values.get("internal.segment.bytes") {
                Value::Int(bytes) => *bytes,
                _ => values.int("segment.bytes"),
            },
            segment_index_bytes: values.int("segment.index.bytes"),
            segment_jitter_ms: values.long("segment.jitter.ms"),
            segment_ms: values.long("segment.ms"),
            unclean_leader_election_enable: values.boolean("unclean.leader.election.enable"),
        }
    }
}

fn invalid_configuration(message: String) -> ConfigError {
    ConfigError {
        thrown: Thrown::InvalidConfiguration,
        message,
        remedy: None,
    }
}

/// Whether a topic may have these overrides: all it would have, not only the altered ones. `layers` is what it
/// inherits; without it (a controller that holds no broker settings) the table's defaults stand in.
pub fn check_overrides(layers: Option<&Layers>, overrides: &Overrides) -> Result<(), ConfigError> {
    for key in overrides.keys() {
        if definition::place(DEFINITIONS, key).is_none() {
            return Err(invalid_configuration(format!(
                "Unknown topic config name: {key}"
            )));
        }
    }
    let mut values = BTreeMap::new();
    for definition in DEFINITIONS {
        let value = match (overrides.get(definition.name), layers) {
            (Some(text), _) => definition.value(Some(text))?,
            (None, Some(layers)) => inherited(layers, definition),
            (None, None) => definition.value(None)?,
        };
        values.insert(definition.name, value);
    }
    let values = TopicValues(values);
    let (min, max) = (
        values.long("min.compaction.lag.ms"),
        values.long("max.compaction.lag.ms"),
    );
    if min > max {
        return Err(invalid_configuration(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    if values.boolean("remote.storage.enable") {
        return Err(ConfigError::new(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ));
    }
    Ok(())
}
