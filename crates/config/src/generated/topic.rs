//! The topic settings of Apache Kafka 4.3.1, sorted by name.
//! Generated from tables/topic-configs.tsv by tests/tables.rs (scripts/regenerate); do not edit.
//! Pure data.

use crate::definition::BrokerSetting as B;
use crate::definition::{Default as D, Definition, Importance as I, Kind as K, UpdateMode as U, Validator as V};

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "one argument for each column")]
const fn row(
    name: &'static str, kind: K, default: D, validator: V, importance: I, update_mode: U, internal: bool,
    broker_settings: &'static [B],
) -> Definition {
    Definition { name, kind, default, validator, importance, update_mode, internal, broker_settings }
}

#[rustfmt::skip]
pub static DEFINITIONS: &[Definition] = &[
    row("cleanup.policy", K::List, D::Text("delete"), V::List { one_of: &["compact", "delete"], empty_allowed: true, null_allowed: false }, I::Medium, U::ClusterWide, false, &[B { name: "log.cleanup.policy", factor: 1 }]),
    row("compression.gzip.level", K::Int, D::Text("-1"), V::GzipLevel, I::Medium, U::ClusterWide, false, &[B { name: "compression.gzip.level", factor: 1 }]),
    row("compression.lz4.level", K::Int, D::Text("9"), V::Between(1, 17), I::Medium, U::ClusterWide, false, &[B { name: "compression.lz4.level", factor: 1 }]),
    row("compression.type", K::String, D::Text("producer"), V::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), I::Medium, U::ClusterWide, false, &[B { name: "compression.type", factor: 1 }]),
    row("compression.zstd.level", K::Int, D::Text("3"), V::Between(-131072, 22), I::Medium, U::ClusterWide, false, &[B { name: "compression.zstd.level", factor: 1 }]),
    row("delete.retention.ms", K::Long, D::Text("86400000"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.cleaner.delete.retention.ms", factor: 1 }]),
    row("file.delete.delay.ms", K::Long, D::Text("60000"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.segment.delete.delay.ms", factor: 1 }]),
    row("flush.messages", K::Long, D::Text("9223372036854775807"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[B { name: "log.flush.interval.messages", factor: 1 }]),
    row("flush.ms", K::Long, D::Text("9223372036854775807"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.flush.interval.ms", factor: 1 }, B { name: "log.flush.scheduler.interval.ms", factor: 1 }]),
    row("follower.replication.throttled.replicas", K::List, D::Text(""), V::ThrottledReplicas, I::Medium, U::ClusterWide, false, &[]),
    row("index.interval.bytes", K::Int, D::Text("4096"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.index.interval.bytes", factor: 1 }]),
    row("internal.segment.bytes", K::Int, D::Null, V::Any, I::Medium, U::ClusterWide, true, &[]),
    row("leader.replication.throttled.replicas", K::List, D::Text(""), V::ThrottledReplicas, I::Medium, U::ClusterWide, false, &[]),
    row("local.retention.bytes", K::Long, D::Text("-2"), V::AtLeast(-2), I::Medium, U::ClusterWide, false, &[B { name: "log.local.retention.bytes", factor: 1 }]),
    row("local.retention.ms", K::Long, D::Text("-2"), V::AtLeast(-2), I::Medium, U::ClusterWide, false, &[B { name: "log.local.retention.ms", factor: 1 }]),
    row("max.compaction.lag.ms", K::Long, D::Text("9223372036854775807"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[B { name: "log.cleaner.max.compaction.lag.ms", factor: 1 }]),
    row("max.message.bytes", K::Int, D::Text("1048588"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "message.max.bytes", factor: 1 }]),
    row("message.timestamp.after.max.ms", K::Long, D::Text("3600000"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.message.timestamp.after.max.ms", factor: 1 }]),
    row("message.timestamp.before.max.ms", K::Long, D::Text("9223372036854775807"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.message.timestamp.before.max.ms", factor: 1 }]),
    row("message.timestamp.type", K::String, D::Text("CreateTime"), V::OneOf(&["CreateTime", "LogAppendTime"]), I::Medium, U::ClusterWide, false, &[B { name: "log.message.timestamp.type", factor: 1 }]),
    row("min.cleanable.dirty.ratio", K::Double, D::Text("0.5"), V::DoubleBetween { min: 0.0, max: 1.0, max_text: "1" }, I::Medium, U::ClusterWide, false, &[B { name: "log.cleaner.min.cleanable.ratio", factor: 1 }]),
    row("min.compaction.lag.ms", K::Long, D::Text("0"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.cleaner.min.compaction.lag.ms", factor: 1 }]),
    row("min.insync.replicas", K::Int, D::Text("1"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[B { name: "min.insync.replicas", factor: 1 }]),
    row("preallocate", K::Boolean, D::Text("false"), V::Any, I::Medium, U::ClusterWide, false, &[B { name: "log.preallocate", factor: 1 }]),
    row("remote.log.copy.disable", K::Boolean, D::Text("false"), V::Any, I::Medium, U::ClusterWide, false, &[]),
    row("remote.log.delete.on.disable", K::Boolean, D::Text("false"), V::Any, I::Medium, U::ClusterWide, false, &[]),
    row("remote.storage.enable", K::Boolean, D::Text("false"), V::Any, I::Medium, U::ClusterWide, false, &[]),
    row("retention.bytes", K::Long, D::Text("-1"), V::Any, I::Medium, U::ClusterWide, false, &[B { name: "log.retention.bytes", factor: 1 }]),
    row("retention.ms", K::Long, D::Text("604800000"), V::AtLeast(-1), I::Medium, U::ClusterWide, false, &[B { name: "log.retention.ms", factor: 1 }, B { name: "log.retention.minutes", factor: 60000 }, B { name: "log.retention.hours", factor: 3600000 }]),
    row("segment.bytes", K::Int, D::Text("1073741824"), V::AtLeast(1048576), I::Medium, U::ClusterWide, false, &[B { name: "log.segment.bytes", factor: 1 }]),
    row("segment.index.bytes", K::Int, D::Text("10485760"), V::AtLeast(4), I::Medium, U::ClusterWide, false, &[B { name: "log.index.size.max.bytes", factor: 1 }]),
    row("segment.jitter.ms", K::Long, D::Text("0"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[B { name: "log.roll.jitter.ms", factor: 1 }, B { name: "log.roll.jitter.hours", factor: 3600000 }]),
    row("segment.ms", K::Long, D::Text("604800000"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[B { name: "log.roll.ms", factor: 1 }, B { name: "log.roll.hours", factor: 3600000 }]),
    row("unclean.leader.election.enable", K::Boolean, D::Text("false"), V::Any, I::Medium, U::ClusterWide, false, &[B { name: "unclean.leader.election.enable", factor: 1 }]),
];
