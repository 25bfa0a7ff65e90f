//! A node's settings: every definition with its checked value, and what follows from them (mode, listeners, directories).
//! Not here: dynamic settings (`source`), files (the caller hands in `Properties`), rules across keys (`checks`).
//! Built once at start, then shared as `Arc<BrokerConfig>`. Kafka: KafkaConfig, AbstractKafkaConfig; KIP-500, KIP-631.

mod checks;
mod vintage;

use std::collections::BTreeMap;

use kavka_common::NodeId;

use crate::definition::{self, Default as Fallback, Definition};
use crate::error::ConfigError;
use crate::generated::broker::DEFINITIONS;
use crate::listener::{Listener, SecurityProtocol};
use crate::properties::Properties;
use crate::quorum::{HostPort, Voter, ZooKeeperConnect};
use crate::spelling;
use crate::value::Value;

pub use vintage::{RETIRED, Retired};

/// Where a node without the controller role finds the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataVia {
    /// `controller.quorum.voters` or `controller.quorum.bootstrap.servers`.
    Quorum,
    /// `zookeeper.connect`, answered by our quorum node on its client port.
    ZooKeeperEra,
}

/// What a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMode {
    Combined,
    BrokerOnly { via: MetadataVia },
    ControllerOnly,
}

impl ServerMode {
    pub const fn has_broker(self) -> bool {
        matches!(self, Self::Combined | Self::BrokerOnly { .. })
    }

    pub const fn has_controller(self) -> bool {
        matches!(self, Self::Combined | Self::ControllerOnly)
    }
}

/// Keys this crate itself acts on; the broker adds its own to them, see `unacted_keys`.
pub const ACTED_ON: &[&str] = &[
    "advertised.listeners",
    "broker.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
    "process.roles",
    "security.inter.broker.protocol",
];

#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// One for each definition, in the table's order.
    values: Vec<Value>,
    /// What the file and the overrides said, less what the vintage added: defined keys and unknown ones.
    originals: BTreeMap<String, String>,
    warnings: Vec<String>,
    mode: ServerMode,
    node_id: NodeId,
    node_id_is_generated: bool,
    listeners: Vec<Listener>,
    advertised_listeners: Vec<Listener>,
    controller_listener_names: Vec<String>,
    inter_broker_listener_name: String,
    inter_broker_security_protocol: SecurityProtocol,
    log_dirs: Vec<String>,
    metadata_log_dir: String,
    quorum_voters: Vec<Voter>,
    quorum_bootstrap_servers: Vec<HostPort>,
    zookeeper_connect: Option<ZooKeeperConnect>,
    zookeeper_connection_timeout_ms: Option<u32>,
}

impl BrokerConfig {
    pub fn from_properties(properties: &Properties) -> Result<Self, ConfigError> {
        let given = vintage::read(properties)?;
        // Kafka reads these first, so a file that lacks several things is told about the first of them.
        let first = [
            "process.roles",
            "broker.id",
            "node.id",
            "controller.listener.names",
        ]
        .into_iter()
        .filter_map(|key| definition::find(DEFINITIONS, key));
        let value_of = |definition: &Definition| {
            let text = given.properties.get(definition.name);
            if text.is_none()
                && definition.default == Fallback::Required
                && given.zookeeper_connect.is_some()
            {
                // A file of the ZooKeeper age knows neither roles nor controller listeners.
                return Ok(Value::Null);
            }
            definition.value(text)
        };
        let values = first
            .map(value_of)
            .collect::<Result<Vec<Value>, ConfigError>>()
            .and_then(|_| DEFINITIONS.iter().map(value_of).collect())
            .map_err(|error| vintage::with_remedy(error, properties))?;
        checks::build(given, values)
    }

    /// The value of a defined key.
    ///
    /// # Panics
    /// If no such key is defined: keys are constants of our own code.
    pub fn value(&self, key: &str) -> &Value {
        let place = definition::place(DEFINITIONS, key);
        &self.values[place.unwrap_or_else(|| panic!("{key} is not a broker setting"))]
    }

    pub fn boolean(&self, key: &str) -> bool {
        match self.value(key) {
            Value::Boolean(value) => *value,
            other => panic!("{key} is not a BOOLEAN with a value: {other:?}"),
        }
    }

    pub fn int(&self, key: &str) -> i32 {
        match self.value(key) {
            Value::Int(value) => *value,
            other => panic!("{key} is not an INT with a value: {other:?}"),
        }
    }

    pub fn short(&self, key: &str) -> i16 {
        match self.value(key) {
            Value::Short(value) => *value,
            other => panic!("{key} is not a SHORT with a value: {other:?}"),
        }
    }

    /// A LONG, or an INT made wide.
    pub fn long(&self, key: &str) -> i64 {
        match self.value(key) {
            Value::Long(value) => *value,
            Value::Int(value) => i64::from(*value),
            Value::Short(value) => i64::from(*value),
            other => panic!("{key} is not a LONG with a value: {other:?}"),
        }
    }

    /// A whole number whose default is null.
    pub fn optional_long(&self, key: &str) -> Option<i64> {
        match self.value(key) {
            Value::Null => None,
            _ => Some(self.long(key)),
        }
    }

    pub fn double(&self, key: &str) -> f64 {
        match self.value(key) {
            Value::Double(value) => *value,
            other => panic!("{key} is not a DOUBLE with a value: {other:?}"),
        }
    }

    /// A STRING, CLASS or PASSWORD; none for null.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Value::Null => None,
            Value::Text(value) | Value::Password(value) => Some(value),
            other => panic!("{key} is not a STRING: {other:?}"),
        }
    }

    /// A LIST; empty for null.
    pub fn list(&self, key: &str) -> &[String] {
        match self.value(key) {
            Value::Null => &[],
            Value::List(values) => values,
            other => panic!("{key} is not a LIST: {other:?}"),
        }
    }

    /// A size, a count or a time that cannot be negative once checked; zero if it is.
    pub fn unsigned(&self, key: &str) -> u64 {
        u64::try_from(self.long(key)).unwrap_or(0)
    }

    pub fn mode(&self) -> ServerMode {
        self.mode
    }

    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// The file named no id (`broker.id` unset or -1 in the ZooKeeper age): an id stored in `meta.properties` wins.
    pub fn node_id_is_generated(&self) -> bool {
        self.node_id_is_generated
    }

    /// Every listener this node binds, controller listeners included.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    pub fn broker_listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners
            .iter()
            .filter(|listener| !self.is_controller_listener(&listener.name))
    }

    pub fn controller_listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners
            .iter()
            .filter(|listener| self.is_controller_listener(&listener.name))
    }

    /// What clients are told; a listener with an empty host is told as the address each client reached.
    pub fn advertised_listeners(&self) -> &[Listener] {
        &self.advertised_listeners
    }

    pub fn advertised_listener(&self, name: &str) -> Option<&Listener> {
        self.advertised_listeners
            .iter()
            .find(|listener| listener.name == name)
    }

    pub fn controller_listener_names(&self) -> &[String] {
        &self.controller_listener_names
    }

    pub fn is_controller_listener(&self, name: &str) -> bool {
        self.controller_listener_names
            .iter()
            .any(|known| known == name)
    }

    pub fn inter_broker_listener_name(&self) -> &str {
        &self.inter_broker_listener_name
    }

    pub fn inter_broker_security_protocol(&self) -> SecurityProtocol {
        self.inter_broker_security_protocol
    }

    /// `log.dirs`, else `log.dir`.
    pub fn log_dirs(&self) -> &[String] {
        &self.log_dirs
    }

    /// `metadata.log.dir`, else the first of `log_dirs`.
    pub fn metadata_log_dir(&self) -> &str {
        &self.metadata_log_dir
    }

    pub fn quorum_voters(&self) -> &[Voter] {
        &self.quorum_voters
    }

    pub fn quorum_bootstrap_servers(&self) -> &[HostPort] {
        &self.quorum_bootstrap_servers
    }

    pub fn zookeeper_connect(&self) -> Option<&ZooKeeperConnect> {
        self.zookeeper_connect.as_ref()
    }

    /// `zookeeper.connection.timeout.ms`: how long a broker of the ZooKeeper age waits for the servers it names.
    pub fn zookeeper_connection_timeout_ms(&self) -> Option<u32> {
        self.zookeeper_connection_timeout_ms
    }

    pub fn rack(&self) -> Option<&str> {
        self.text("broker.rack")
    }

    /// `log.retention.ms`, `.minutes` or `.hours`, the first that is set; -1 is forever.
    pub fn log_retention_ms(&self) -> i64 {
        let ms = self
            .optional_long("log.retention.ms")
            .or_else(|| {
                self.optional_long("log.retention.minutes")
                    .map(|minutes| minutes.saturating_mul(60_000))
            })
            .unwrap_or_else(|| self.long("log.retention.hours").saturating_mul(3_600_000));
        if ms < 0 { -1 } else { ms }
    }

    pub fn log_roll_ms(&self) -> i64 {
        self.optional_long("log.roll.ms")
            .unwrap_or_else(|| self.long("log.roll.hours").saturating_mul(3_600_000))
    }

    pub fn log_roll_jitter_ms(&self) -> i64 {
        self.optional_long("log.roll.jitter.ms")
            .unwrap_or_else(|| self.long("log.roll.jitter.hours").saturating_mul(3_600_000))
    }

    pub fn log_flush_interval_ms(&self) -> i64 {
        self.optional_long("log.flush.interval.ms")
            .unwrap_or_else(|| self.long("log.flush.scheduler.interval.ms"))
    }

    /// What was set explicitly, by key (STATIC_BROKER_CONFIG); `node.id` and `broker.id` fill in for each other.
    pub fn originals(&self) -> &BTreeMap<String, String> {
        &self.originals
    }

    /// Things to log once at start: repeated keys, old spellings, what is ignored and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Defined keys that were set but that neither this crate nor the caller acts on: log each once, by name.
    pub fn unacted_keys<'a>(&'a self, acted_on: &[&str]) -> Vec<&'a str> {
        self.originals
            .keys()
            .map(String::as_str)
            .filter(|key| definition::place(DEFINITIONS, key).is_some())
            .filter(|key| !ACTED_ON.contains(key) && !acted_on.contains(key))
            .filter(|key| !self.has_default_value(key))
            .collect()
    }

    fn has_default_value(&self, key: &str) -> bool {
        definition::find(DEFINITIONS, key)
            .is_some_and(|row| row.value(None).is_ok_and(|value| value == *self.value(key)))
    }

    /// What may have been meant by a key that no table defines: `did you mean log.dirs?`.
    pub fn meant_by(key: &str) -> Option<String> {
        let names = DEFINITIONS.iter().map(|row| row.name);
        spelling::did_you_mean(key, names.chain(["zookeeper.connect"]))
    }

    /// Keys that no table defines; Kafka ignores them with a warning.
    pub fn unknown_keys(&self) -> Vec<&str> {
        self.originals
            .keys()
            .map(String::as_str)
            .filter(|key| definition::place(DEFINITIONS, key).is_none())
            .filter(|key| !vintage::is_known_outside_the_table(key))
            .collect()
    }

    pub fn definitions() -> &'static [Definition] {
        DEFINITIONS
    }
}
