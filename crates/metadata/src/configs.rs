//! Dynamic settings of topics, brokers, groups and client metrics.
//! Not here: definitions, defaults, validation (crates/config), who may change them (crates/controller).
//! Pure data. Kafka: ConfigurationsImage, ConfigResource; KIP-226, KIP-714, KIP-848.

use crate::Map;
use kavka_common::NodeId;
use kavka_protocol::messages::ConfigRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a setting belongs to (ConfigResource.Type).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResourceType {
    Unknown,
    Topic,
    Broker,
    BrokerLogger,
    ClientMetrics,
    Group,
}

impl ConfigResourceType {
    pub const fn id(self) -> i8 {
        match self {
            ConfigResourceType::Unknown => 0,
            ConfigResourceType::Topic => 2,
            ConfigResourceType::Broker => 4,
            ConfigResourceType::BrokerLogger => 8,
            ConfigResourceType::ClientMetrics => 16,
            ConfigResourceType::Group => 32,
        }
    }

    /// Unknown numbers become `Unknown`, as in Java.
    pub const fn from_id(id: i8) -> Self {
        match id {
            2 => ConfigResourceType::Topic,
            4 => ConfigResourceType::Broker,
            8 => ConfigResourceType::BrokerLogger,
            16 => ConfigResourceType::ClientMetrics,
            32 => ConfigResourceType::Group,
            _ => ConfigResourceType::Unknown,
        }
    }

    /// The name of Java's enum constant, as messages print it.
    pub const fn name(self) -> &'static str {
        match self {
            ConfigResourceType::Unknown => "UNKNOWN",
            ConfigResourceType::Topic => "TOPIC",
            ConfigResourceType::Broker => "BROKER",
            ConfigResourceType::BrokerLogger => "BROKER_LOGGER",
            ConfigResourceType::ClientMetrics => "CLIENT_METRICS",
            ConfigResourceType::Group => "GROUP",
        }
    }
}

/// A thing that has settings. The broker resource with the empty name is the default of all brokers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigResource {
    pub resource_type: ConfigResourceType,
    pub name: Arc<str>,
}

impl ConfigResource {
    pub fn new(resource_type: ConfigResourceType, name: impl Into<Arc<str>>) -> Self {
        ConfigResource {
            resource_type,
            name: name.into(),
        }
    }

    pub fn topic(name: impl Into<Arc<str>>) -> Self {
        ConfigResource::new(ConfigResourceType::Topic, name)
    }

    pub fn broker(broker_id: NodeId) -> Self {
        ConfigResource::new(ConfigResourceType::Broker, broker_id.to_string())
    }

    pub fn broker_default() -> Self {
        ConfigResource::new(ConfigResourceType::Broker, "")
    }
}

impl std::fmt::Display for ConfigResource {
    /// As Java prints it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ConfigResource(type={}, name='{}')",
            self.resource_type.name(),
            self.name
        )
    }
}

/// Settings of one resource, by key.
pub type ResourceConfig = Map<Arc<str>, Arc<str>>;

/// All dynamic settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigsImage {
    resources: Map<ConfigResource, ResourceConfig>,
}

impl ConfigsImage {
    pub fn get(&self, resource: &ConfigResource) -> Option<&ResourceConfig> {
        self.resources.get(resource)
    }

    pub fn value(&self, resource: &ConfigResource, key: &str) -> Option<&Arc<str>> {
        self.resources.get(resource)?.get(key)
    }

    /// The stored settings of a resource as plain text, for crates/config.
    pub fn overrides(&self, resource: &ConfigResource) -> BTreeMap<String, String> {
        let stored = self.resources.get(resource).into_iter().flatten();
        stored
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }

    /// Overrides of one topic.
    pub fn topic(&self, topic: &str) -> Option<&ResourceConfig> {
        self.resources.get(&ConfigResource::topic(topic))
    }

    /// Dynamic settings of one broker.
    pub fn broker(&self, broker_id: NodeId) -> Option<&ResourceConfig> {
        self.resources.get(&ConfigResource::broker(broker_id))
    }

    /// Dynamic settings that hold for all brokers.
    pub fn broker_default(&self) -> Option<&ResourceConfig> {
        self.resources.get(&ConfigResource::broker_default())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ConfigResource, &ResourceConfig)> {
        self.resources.iter()
    }

    pub(crate) fn replay(&mut self, record: &ConfigRecord) -> ConfigResource {
        let resource = ConfigResource::new(
            ConfigResourceType::from_id(record.resource_type),
            &*record.resource_name,
        );
        let mut configs = self.resources.get(&resource).cloned().unwrap_or_default();
        match &record.value {
            Some(value) => configs.insert_mut(Arc::from(&*record.name), Arc::from(&**value)),
            None => {
                configs.remove_mut(&*record.name);
            }
        }
        if configs.is_empty() {
            self.resources.remove_mut(&resource);
        } else {
            self.resources.insert_mut(resource.clone(), configs);
        }
        resource
    }

    /// A deleted topic takes its settings along. Tells whether there were any.
    pub(crate) fn remove(&mut self, resource: &ConfigResource) -> bool {
        self.resources.remove_mut(resource)
    }
}
