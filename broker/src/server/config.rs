//! What the properties file decides, for both programs: a broker's file, or ZooKeeper's.
//! Not here: the settings themselves (crates/config).
//! Read once, before any thread exists.
//! Kafka: KafkaConfig; ZooKeeper: QuorumPeerConfig.

use super::controller_part;
use super::failed_dirs::FailedDirsSettings;
use crate::api::auto_create;
use crate::coordinator::groups;
use crate::network::NetworkLimits;
use crate::program::Program;
use crate::replica::{FetcherSettings, ReplicaSelector};
use crate::start_error::{SettingNames, StartError};
use kavka_config::zookeeper::ZooKeeperConfig;
use kavka_config::{BrokerConfig, Properties};
use kavka_controller::ControllerConfig;
use std::path::Path;
use std::sync::Arc;
use tracing::{info, warn};

const LOGGER: &str = "kafka.server.KafkaConfig";

/// Settings that rooms without a list of their own act on: replicas, producer ids, lifecycle.
const OTHER_KEYS: &[&str] = &[
    "broker.heartbeat.interval.ms",
    "broker.rack",
    "controller.socket.timeout.ms",
    "fetch.max.bytes",
    "initial.broker.registration.timeout.ms",
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "log.initial.task.delay.ms",
    "log.retention.check.interval.ms",
    "max.incremental.fetch.session.cache.slots",
    "num.recovery.threads.per.data.dir",
    "producer.id.expiration.check.interval.ms",
    "producer.id.expiration.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.time.max.ms",
    ReplicaSelector::KEY,
    "replication.quota.window.size.seconds",
];

/// Topic settings that no part acts on yet: compaction, tiers.
const TOPIC_KEYS_WITHOUT_EFFECT: &[&str] = &[
    "delete.retention.ms",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
];

/// Everything that the properties file decides.
#[derive(Debug)]
pub struct ServerConfig {
    pub broker: Arc<BrokerConfig>,
    /// Of a quorum node that stands in for a ZooKeeper server.
    pub zookeeper: Option<ZooKeeperConfig>,
}

impl ServerConfig {
    pub fn read(program: Program, properties: &Properties) -> Result<Self, StartError> {
        match program {
            Program::KafkaServer => {
                let broker = BrokerConfig::from_properties(properties)?;
                ReplicaSelector::from_config(&broker).map_err(unknown_selector)?;
                Ok(ServerConfig {
                    broker: Arc::new(broker),
                    zookeeper: None,
                })
            }
            Program::ZooKeeperServer => {
                let zookeeper = ZooKeeperConfig::from_properties(properties)?;
                let my_id = if zookeeper.needs_my_id() {
                    my_id(&zookeeper.data_dir)?
                } else {
                    None
                };
                let quorum_node = zookeeper.quorum_node_properties(my_id)?;
                Ok(ServerConfig {
                    broker: Arc::new(BrokerConfig::from_properties(&quorum_node)?),
                    zookeeper: Some(zookeeper),
                })
            }
        }
    }

    /// What the settings are called in the file that was read.
    pub fn names(&self) -> SettingNames {
        match self.zookeeper {
            None => SettingNames::OF_BROKER,
            Some(_) => SettingNames::OF_ZOOKEEPER,
        }
    }

    pub fn node_id(&self) -> Option<i32> {
        Some(self.broker.node_id().get())
    }

    /// As `process.roles` would say it.
    pub fn roles(&self) -> String {
        let mode = self.broker.mode();
        [
            mode.has_broker().then_some("broker"),
            mode.has_controller().then_some("controller"),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(",")
    }

    /// Says once what is odd about the settings.
    pub fn report(&self) {
        if let Some(zookeeper) = &self.zookeeper {
            for warning in &zookeeper.warnings {
                warn!(target: LOGGER, "{warning}");
            }
            return;
        }
        for warning in self.broker.warnings() {
            warn!(target: LOGGER, "{warning}");
        }
        let unknown = self.broker.unknown_keys();
        if !unknown.is_empty() {
            warn!(target: LOGGER, "These configurations '[{}]' were supplied but are not used yet.", unknown.join(", "));
            for key in unknown {
                if let Some(meant) = BrokerConfig::meant_by(key) {
                    warn!(target: LOGGER, "{key} is not a setting; {meant}");
                }
            }
        }
        let of_topics = kavka_config::generated::topic::DEFINITIONS
            .iter()
            .filter(|topic_setting| !TOPIC_KEYS_WITHOUT_EFFECT.contains(&topic_setting.name))
            .flat_map(|topic_setting| topic_setting.broker_settings)
            .map(|broker_setting| broker_setting.name);
        let mut acted_on: Vec<&str> = of_topics.collect();
        acted_on.extend(NetworkLimits::KEYS);
        acted_on.extend(controller_part::KEYS);
        acted_on.extend(ControllerConfig::KEYS);
        acted_on.extend(auto_create::KEYS);
        acted_on.extend(groups::ACTED_ON);
        acted_on.extend(FetcherSettings::KEYS);
        acted_on.extend(FailedDirsSettings::KEYS);
        acted_on.extend(OTHER_KEYS);
        let unacted = self.broker.unacted_keys(&acted_on);
        if unacted.contains(&"authorizer.class.name") {
            warn!(target: LOGGER, "authorizer.class.name is set, but this version has no authorizer: every client may do everything");
        }
        if !unacted.is_empty() {
            info!(target: LOGGER, "Accepted, and without effect in this version: {}", unacted.join(", "));
        }
    }
}

/// Kafka would look for the class; here there are none but its own two.
fn unknown_selector(class: String) -> StartError {
    let key = ReplicaSelector::KEY;
    StartError::thrown(
        "org.apache.kafka.common.KafkaException",
        format!("Invalid value {class} for configuration {key}: Class {class} could not be found."),
    )
    .with_remedy(format!(
        "{key} may be one of {}",
        ReplicaSelector::known_classes().join(", ")
    ))
}

/// The number in `<dataDir>/myid`; `None` when there is no such file.
fn my_id(data_dir: &str) -> Result<Option<i32>, StartError> {
    let path = Path::new(data_dir).join("myid");
    #[allow(clippy::disallowed_methods)] // the program's own file, not the broker's storage
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map(Some).map_err(|_| {
            StartError::thrown(
                "java.lang.IllegalArgumentException",
                format!("serverid {} is not a number", text.trim()),
            )
            .with_remedy(format!(
                "{} holds the N of this server's server.N line",
                path.display()
            ))
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StartError::thrown(
            "java.io.IOException",
            format!("{}: {e}", path.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_that_are_acted_on_are_defined_ones() {
        let lists = [
            NetworkLimits::KEYS,
            controller_part::KEYS,
            groups::ACTED_ON,
            FetcherSettings::KEYS,
            FailedDirsSettings::KEYS,
            auto_create::KEYS,
            ControllerConfig::KEYS,
            OTHER_KEYS,
        ];
        for key in lists.concat() {
            assert!(
                BrokerConfig::definitions().iter().any(|d| d.name == key),
                "{key}"
            );
        }
        for key in TOPIC_KEYS_WITHOUT_EFFECT {
            let known = kavka_config::generated::topic::DEFINITIONS;
            assert!(known.iter().any(|d| d.name == *key), "{key}");
        }
    }

    #[test]
    fn a_zookeeper_file_makes_a_quorum_node() {
        let properties = Properties::parse(b"dataDir=/tmp/zookeeper\nclientPort=2181\n").unwrap();
        let config = ServerConfig::read(Program::ZooKeeperServer, &properties).unwrap();
        assert_eq!(config.roles(), "controller");
        assert!(config.zookeeper.is_some());
        let refused = ServerConfig::read(Program::KafkaServer, &properties).unwrap_err();
        assert!(refused.message.contains("process.roles"), "{refused}");
    }
}
