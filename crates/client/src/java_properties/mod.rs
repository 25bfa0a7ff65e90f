//! Java's producer and consumer settings: checked with Java's rules and words, then translated to librdkafka's.
//! Not here: reading `.properties` files (kavka-config), the clients themselves.
//! Pure. Kafka: org.apache.kafka.clients.{producer.ProducerConfig, consumer.ConsumerConfig}.

mod definition;
mod jaas;
mod rows;
mod translate;

pub use translate::{Translated, translate};

use definition::Row;

/// Which client the settings are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Producer,
    Consumer,
}

impl Role {
    /// As in "Failed to construct kafka producer".
    pub fn name(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Consumer => "consumer",
        }
    }

    fn find(self, name: &str) -> Option<&'static Row> {
        let own = match self {
            Role::Producer => rows::PRODUCER,
            Role::Consumer => rows::CONSUMER,
        };
        rows::COMMON.iter().chain(own).find(|row| row.name == name)
    }
}

/// Why a client cannot be made from these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// One value, or two together, are invalid.
    #[error("org.apache.kafka.common.config.ConfigException: {0}")]
    Invalid(String),
    /// The values are fine one by one, but no client can be made from them.
    #[error(
        "org.apache.kafka.common.KafkaException: Failed to construct kafka {role}\nCaused by: {cause}"
    )]
    Construct { role: &'static str, cause: String },
}

/// Settings by their Java names; setting a name again replaces its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaProperties {
    entries: Vec<(String, String)>,
}

impl JavaProperties {
    pub fn new() -> Self {
        JavaProperties::default()
    }

    pub fn put(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.entries.iter_mut().find(|(n, _)| *n == name) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((name, value)),
        }
    }

    pub fn put_if_absent(&mut self, name: &str, value: impl Into<String>) {
        if !self.contains(name) {
            self.put(name, value);
        }
    }

    pub fn put_all<I, N, V>(&mut self, entries: I)
    where
        I: IntoIterator<Item = (N, V)>,
        N: Into<String>,
        V: Into<String>,
    {
        for (name, value) in entries {
            self.put(name, value);
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// A number that was checked before, else `default`.
    pub fn number(&self, name: &str, default: i64) -> i64 {
        self.get(name)
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(default)
    }

    fn is_true(&self, name: &str, default: bool) -> bool {
        self.get(name)
            .map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    }
}

#[cfg(test)]
#[path = "../java_properties_test.rs"]
mod java_properties_test;
