//! A node's settings in layers: its file, the cluster's dynamic defaults, its own dynamic settings.
//! Not here: where dynamic settings are stored (the metadata image) and who applies a change (the owning rooms).
//! Pure; a new `Layers` is made when the image changes. Kafka: DynamicBrokerConfig; KIP-226.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::broker::BrokerConfig;
use crate::definition::{self, UpdateMode};
use crate::error::ConfigError;
use crate::generated::broker::DEFINITIONS;
use crate::properties::Properties;
use crate::value::Value;

/// Keys and texts as they are stored in config records.
pub type Overrides = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub struct Layers {
    pub file: Arc<BrokerConfig>,
    /// Of every broker: config resource BROKER with an empty name.
    pub dynamic_default: Overrides,
    /// Of this broker: config resource BROKER with its id.
    pub dynamic_broker: Overrides,
}

const LISTENER_PREFIX: &str = "listener.name.";

/// Only meaningful for one listener: two listeners seldom share a key store.
const PER_LISTENER_ONLY: [&str; 10] = [
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Settings that mean the same thing in another unit or an older spelling, most telling first.
pub fn synonyms_of(name: &str) -> Vec<&str> {
    const GROUPS: [&[&str]; 4] = [
        &[
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
        ],
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
    ];
    if let Some(group) = GROUPS.iter().find(|group| group.contains(&name)) {
        // Only asking for log.flush.interval.ms itself finds the scheduler's interval in Kafka.
        if name != "log.flush.scheduler.interval.ms" {
            return group.to_vec();
        }
    }
    match base_of_listener_key(name) {
        Some(base) => vec![name, base],
        None => vec![name],
    }
}

/// `ssl.keystore.type` of `listener.name.external.ssl.keystore.type`.
pub fn base_of_listener_key(key: &str) -> Option<&str> {
    let rest = key.strip_prefix(LISTENER_PREFIX)?;
    rest.split_once('.')
        .map(|(_, base)| base)
        .filter(|base| !base.is_empty())
}

impl Layers {
    /// A node without dynamic settings.
    pub fn of_file(file: Arc<BrokerConfig>) -> Self {
        Self {
            file,
            dynamic_default: Overrides::new(),
            dynamic_broker: Overrides::new(),
        }
    }

    /// The text set for a key in the topmost layer that has it.
    pub fn set_text(&self, key: &str) -> Option<&str> {
        self.dynamic_broker
            .get(key)
            .or_else(|| self.dynamic_default.get(key))
            .or_else(|| self.file.originals().get(key))
            .map(String::as_str)
    }

    /// A key's value now. A stored dynamic value that does not parse is passed over, as Kafka does.
    pub fn value(&self, key: &str) -> Value {
        let dynamic = [&self.dynamic_broker, &self.dynamic_default];
        let texts = dynamic.into_iter().filter_map(|layer| layer.get(key));
        let definition = definition::find(DEFINITIONS, key);
        let parsed = definition.and_then(|definition| {
            texts
                .filter_map(|text| definition.value(Some(text)).ok())
                .next()
        });
        match (parsed, definition) {
            (Some(value), _) => value,
            (None, Some(_)) => self.file.value(key).clone(),
            (None, None) => Value::Null,
        }
    }

    /// The node's settings with the dynamic ones applied, checked as at start.
    pub fn effective(&self) -> Result<BrokerConfig, ConfigError> {
        let mut all: Properties = self
            .file
            .originals()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        for layer in [&self.dynamic_default, &self.dynamic_broker] {
            for (key, value) in layer {
                all.set(key.clone(), value.clone());
            }
        }
        BrokerConfig::from_properties(&all)
    }

    /// Whether a running node takes these dynamic settings: the whole new content of the one layer.
    pub fn check_alteration(
        &self,
        altered: &Overrides,
        of_one_broker: bool,
    ) -> Result<(), ConfigError> {
        let shown = |keys: Vec<&str>| format!("[{}]", keys.join(", "));
        let mode = |key: &str| definition::find(DEFINITIONS, key).map(|known| known.update_mode);
        let keys = || altered.keys().map(String::as_str);

        let read_only: Vec<&str> = keys()
            .filter(|key| {
                mode(base_of_listener_key(key).unwrap_or(key)) == Some(UpdateMode::ReadOnly)
            })
            .collect();
        if !read_only.is_empty() {
            return Err(ConfigError::new(format!(
                "Cannot update these configs dynamically: {}",
                shown(read_only)
            ))
            .with_remedy("set them in the properties file of each broker and restart it"));
        }
        let unprefixed: Vec<&str> = keys()
            .filter(|key| PER_LISTENER_ONLY.contains(key))
            .collect();
        if !unprefixed.is_empty() {
            return Err(ConfigError::new(format!(
                "These security configs can be dynamically updated only per-listener using the listener prefix: {}",
                shown(unprefixed)
            )));
        }
        if !of_one_broker {
            let of_a_broker: Vec<&str> = keys()
                .filter(|key| {
                    key.starts_with(LISTENER_PREFIX) || mode(key) == Some(UpdateMode::PerBroker)
                })
                .collect();
            if !of_a_broker.is_empty() {
                return Err(ConfigError::new(format!(
                    "Cannot update these configs at default cluster level, broker id must be specified: {}",
                    shown(of_a_broker)
                )));
            }
        }
        let mut next = self.clone();
        if of_one_broker {
            next.dynamic_broker = altered.clone();
        } else {
            next.dynamic_default = altered.clone();
        }
        next.effective().map(|_| ())
    }
}
