//! The group settings of Apache Kafka 4.3.1, sorted by name.
//! Generated from tables/group-configs.tsv by tests/tables.rs (scripts/regenerate); do not edit.
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
    row("consumer.assignment.interval.ms", K::Int, D::Text("1000"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[]),
    row("consumer.heartbeat.interval.ms", K::Int, D::Text("5000"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[]),
    row("consumer.session.timeout.ms", K::Int, D::Text("45000"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[]),
    row("share.assignment.interval.ms", K::Int, D::Text("1000"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[]),
    row("share.auto.offset.reset", K::String, D::Text("latest"), V::ShareOffsetReset, I::Medium, U::ClusterWide, false, &[]),
    row("share.delivery.count.limit", K::Int, D::Text("5"), V::AtLeast(2), I::Medium, U::ClusterWide, false, &[]),
    row("share.heartbeat.interval.ms", K::Int, D::Text("5000"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[]),
    row("share.isolation.level", K::String, D::Text("read_uncommitted"), V::OneOf(&["read_committed", "read_uncommitted"]), I::Medium, U::ClusterWide, false, &[]),
    row("share.partition.max.record.locks", K::Int, D::Text("2000"), V::AtLeast(100), I::Medium, U::ClusterWide, false, &[]),
    row("share.record.lock.duration.ms", K::Int, D::Text("30000"), V::AtLeast(1000), I::Medium, U::ClusterWide, false, &[]),
    row("share.renew.acknowledge.enable", K::Boolean, D::Text("true"), V::Any, I::Medium, U::ClusterWide, false, &[]),
    row("share.session.timeout.ms", K::Int, D::Text("45000"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[]),
    row("streams.assignment.interval.ms", K::Int, D::Text("1000"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[]),
    row("streams.heartbeat.interval.ms", K::Int, D::Text("5000"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[]),
    row("streams.initial.rebalance.delay.ms", K::Int, D::Text("3000"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[]),
    row("streams.num.standby.replicas", K::Int, D::Text("0"), V::AtLeast(0), I::Medium, U::ClusterWide, false, &[]),
    row("streams.session.timeout.ms", K::Int, D::Text("45000"), V::AtLeast(1), I::Medium, U::ClusterWide, false, &[]),
];
