//! The client metrics settings of Apache Kafka 4.3.1, sorted by name.
//! Generated from tables/client-metrics-configs.tsv by tests/tables.rs (scripts/regenerate); do not edit.
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
    row("interval.ms", K::Int, D::Text("300000"), V::Any, I::Medium, U::ClusterWide, false, &[]),
    row("match", K::List, D::Text(""), V::List { one_of: &[], empty_allowed: true, null_allowed: false }, I::Medium, U::ClusterWide, false, &[]),
    row("metrics", K::List, D::Text(""), V::List { one_of: &[], empty_allowed: true, null_allowed: false }, I::Medium, U::ClusterWide, false, &[]),
];
