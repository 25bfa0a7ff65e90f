//! Settings as DescribeConfigs shows them: value, source, synonyms, whether secret, whether fixed.
//! Not here: which of them a request asked for, the response's bytes (broker/api).
//! Pure, run for each request. Kafka: ConfigHelper; KIP-226, KIP-569.

use crate::definition::{self, Definition, Kind, UpdateMode};
use crate::dynamic::{Layers, Overrides, base_of_listener_key, synonyms_of};
use crate::generated::{broker, client_metrics, group, topic};
use crate::topic::TopicValues;
use crate::value::Value;

/// Numbered as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    Unknown = 0,
    Topic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
    DynamicBrokerLogger = 6,
    ClientMetrics = 7,
    Group = 8,
}

impl ConfigSource {
    pub const fn wire_id(self) -> i8 {
        self as i8
    }

    pub fn from_wire(id: i8) -> Self {
        use ConfigSource as S;
        [
            S::Topic,
            S::DynamicBroker,
            S::DynamicDefaultBroker,
            S::StaticBroker,
            S::Default,
            S::DynamicBrokerLogger,
            S::ClientMetrics,
            S::Group,
        ]
        .into_iter()
        .find(|known| known.wire_id() == id)
        .unwrap_or(S::Unknown)
    }

    /// As the tools print it.
    pub const fn name(self) -> &'static str {
        match self {
            ConfigSource::Unknown => "UNKNOWN",
            ConfigSource::Topic => "DYNAMIC_TOPIC_CONFIG",
            ConfigSource::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            ConfigSource::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            ConfigSource::StaticBroker => "STATIC_BROKER_CONFIG",
            ConfigSource::Default => "DEFAULT_CONFIG",
            ConfigSource::DynamicBrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
            ConfigSource::ClientMetrics => "DYNAMIC_CLIENT_METRICS_CONFIG",
            ConfigSource::Group => "DYNAMIC_GROUP_CONFIG",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    pub name: String,
    /// None if secret.
    pub value: Option<String>,
    pub source: ConfigSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub name: String,
    pub value: Option<String>,
    pub source: ConfigSource,
    pub is_sensitive: bool,
    pub read_only: bool,
    /// None for keys that no table defines.
    pub kind: Option<Kind>,
    pub synonyms: Vec<Synonym>,
}

/// Every layer's text for `names`, topmost layer first, from the entry named `name` on.
fn synonyms(layers: &Layers, name: &str, names: &[&str], sensitive: bool) -> Vec<Synonym> {
    let mut all = Vec::new();
    let mut add = |source, texts: &mut dyn FnMut(&str) -> Option<String>| {
        for &synonym in names {
            if let Some(text) = texts(synonym) {
                all.push(Synonym {
                    name: synonym.to_owned(),
                    value: Some(text).filter(|_| !sensitive),
                    source,
                });
            }
        }
    };
    add(ConfigSource::DynamicBroker, &mut |key| {
        layers.dynamic_broker.get(key).cloned()
    });
    add(ConfigSource::DynamicDefaultBroker, &mut |key| {
        layers.dynamic_default.get(key).cloned()
    });
    add(ConfigSource::StaticBroker, &mut |key| {
        layers.file.originals().get(key).cloned()
    });
    add(ConfigSource::Default, &mut |key| default_text(key));
    all.into_iter()
        .skip_while(|synonym| synonym.name != name)
        .collect()
}

fn default_text(key: &str) -> Option<String> {
    let definition =
        definition::find(broker::DEFINITIONS, key).filter(|definition| !definition.internal)?;
    match definition.default {
        definition::Default::Text(_) => definition.value(None).ok()?.to_text(),
        definition::Default::Null | definition::Default::Required => None,
    }
}

fn first_source(synonyms: &[Synonym]) -> ConfigSource {
    synonyms
        .first()
        .map_or(ConfigSource::Default, |first| first.source)
}

fn broker_entry(
    layers: &Layers,
    name: &str,
    value: Option<String>,
    of_one_broker: bool,
) -> Described {
    let definition = definition::find(
        broker::DEFINITIONS,
        base_of_listener_key(name).unwrap_or(name),
    );
    // What no table defines may be anything, a password too.
    let is_sensitive = definition.is_none_or(Definition::is_sensitive);
    let mut synonyms = synonyms(layers, name, &synonyms_of(name), is_sensitive);
    synonyms
        .retain(|synonym| of_one_broker || synonym.source == ConfigSource::DynamicDefaultBroker);
    Described {
        name: name.to_owned(),
        value: value.filter(|_| !is_sensitive),
        source: first_source(&synonyms),
        is_sensitive,
        read_only: definition.is_none_or(|known| known.update_mode == UpdateMode::ReadOnly),
        kind: definition.map(|known| known.kind),
        synonyms,
    }
}

/// All settings of one broker, by name: the tables' and whatever else its file or its dynamic settings name.
pub fn describe_broker(layers: &Layers) -> Vec<Described> {
    let mut texts: std::collections::BTreeMap<&str, Option<String>> =
        std::collections::BTreeMap::new();
    let set = [
        layers.file.originals(),
        &layers.dynamic_default,
        &layers.dynamic_broker,
    ];
    for (key, text) in set.into_iter().flatten() {
        texts.insert(key, Some(text.clone()));
    }
    for definition in broker::DEFINITIONS
        .iter()
        .filter(|definition| !definition.internal)
    {
        texts.insert(definition.name, layers.value(definition.name).to_text());
    }
    texts
        .into_iter()
        .map(|(name, text)| broker_entry(layers, name, text, true))
        .collect()
}

/// The dynamic settings of every broker (config resource BROKER with an empty name).
pub fn describe_broker_defaults(layers: &Layers) -> Vec<Described> {
    let all = layers.dynamic_default.iter();
    all.map(|(name, text)| broker_entry(layers, name, Some(text.clone()), false))
        .collect()
}

/// All settings of one topic, by name.
pub fn describe_topic(layers: &Layers, overrides: &Overrides) -> Vec<Described> {
    let values = TopicValues::resolve(layers, overrides);
    let shown =
        |definition: &&Definition| !definition.internal || overrides.contains_key(definition.name);
    topic::DEFINITIONS
        .iter()
        .filter(shown)
        .map(|definition| {
            let value = values.get(definition.name).to_text();
            let inherited = definition.broker_settings.first().map(|first| first.name);
            let below = inherited
                .map(|name| synonyms(layers, name, &synonyms_of(name), definition.is_sensitive()));
            entry(
                definition,
                value,
                overrides,
                ConfigSource::Topic,
                below.unwrap_or_default(),
            )
        })
        .collect()
}

fn entry(
    definition: &Definition,
    value: Option<String>,
    overrides: &Overrides,
    own: ConfigSource,
    mut below: Vec<Synonym>,
) -> Described {
    if overrides.contains_key(definition.name) {
        below.insert(
            0,
            Synonym {
                name: definition.name.to_owned(),
                value: value.clone(),
                source: own,
            },
        );
    }
    Described {
        name: definition.name.to_owned(),
        value,
        source: first_source(&below),
        is_sensitive: definition.is_sensitive(),
        read_only: false,
        kind: Some(definition.kind),
        synonyms: below,
    }
}

/// All settings of one group; those it does not set come from the broker's `group.…` settings.
pub fn describe_group(layers: &Layers, overrides: &Overrides) -> Vec<Described> {
    group::DEFINITIONS
        .iter()
        .map(|definition| {
            let name = format!("group.{}", definition.name);
            let inherited = match definition::find(broker::DEFINITIONS, &name) {
                Some(_) => layers.value(&name),
                None => definition.value(None).unwrap_or(Value::Null),
            };
            let own = overrides
                .get(definition.name)
                .and_then(|text| definition.value(Some(text)).ok());
            let value = own.unwrap_or(inherited).to_text();
            let below = synonyms(layers, &name, &[&name], definition.is_sensitive());
            entry(definition, value, overrides, ConfigSource::Group, below)
        })
        .collect()
}

/// All settings of one client metrics subscription.
pub fn describe_client_metrics(overrides: &Overrides) -> Vec<Described> {
    client_metrics::DEFINITIONS
        .iter()
        .map(|definition| {
            let text = overrides.get(definition.name).map(String::as_str);
            let value = definition
                .value(text)
                .or_else(|_| definition.value(None))
                .unwrap_or(Value::Null);
            entry(
                definition,
                value.to_text(),
                overrides,
                ConfigSource::ClientMetrics,
                Vec::new(),
            )
        })
        .collect()
}
