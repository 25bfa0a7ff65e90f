//! Files of every age: which of the three vintages a properties file belongs to, and its old spellings.
//! Not here: value checks (`checks`), ZooKeeper's own file (`crate::zookeeper`).
//! Pure, used at start. Kafka: KafkaConfig.populateSynonyms; the 2.x and 3.x KafkaConfig for the retired keys.

use crate::error::ConfigError;
use crate::properties::Properties;
use crate::quorum::ZooKeeperConnect;
use crate::spelling;

/// A key that releases before 4.0 had: accepted, with a note on what became of it.
#[derive(Clone, Copy, Debug)]
pub struct Retired {
    pub name: &'static str,
    pub note: &'static str,
}

const CONNECTION_TIMEOUT: &str = "zookeeper.connection.timeout.ms";
const OLD_ADDRESS: &str = "read as listeners or advertised.listeners, which replace it";
const NO_ZOOKEEPER: &str = "has no effect: there is no ZooKeeper session behind zookeeper.connect";
const ANY_VERSION: &str = "has no effect: every protocol and message version is served at once";
const ALWAYS_STATIC: &str = "has no effect here";
const FOR_GENERATED_IDS: &str = "has no effect: broker.id is set";

/// Sorted by name.
pub const RETIRED: &[Retired] = &[
    Retired {
        name: "advertised.host.name",
        note: OLD_ADDRESS,
    },
    Retired {
        name: "advertised.port",
        note: OLD_ADDRESS,
    },
    Retired {
        name: "broker.id.generation.enable",
        note: FOR_GENERATED_IDS,
    },
    Retired {
        name: "control.plane.listener.name",
        note: "has no effect: the quorum has controller.listener.names",
    },
    Retired {
        name: "controlled.shutdown.max.retries",
        note: ALWAYS_STATIC,
    },
    Retired {
        name: "controlled.shutdown.retry.backoff.ms",
        note: ALWAYS_STATIC,
    },
    Retired {
        name: "delegation.token.master.key",
        note: "has no effect: use delegation.token.secret.key",
    },
    Retired {
        name: "enable.zookeeper.securityclient",
        note: NO_ZOOKEEPER,
    },
    Retired {
        name: "host.name",
        note: OLD_ADDRESS,
    },
    Retired {
        name: "inter.broker.protocol.version",
        note: ANY_VERSION,
    },
    Retired {
        name: "log.message.downconversion.enable",
        note: ANY_VERSION,
    },
    Retired {
        name: "log.message.format.version",
        note: ANY_VERSION,
    },
    Retired {
        name: "log.message.timestamp.difference.max.ms",
        note: "has no effect: use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms",
    },
    Retired {
        name: "offsets.commit.required.acks",
        note: "has no effect: a commit is answered once it is replicated",
    },
    Retired {
        name: "password.encoder.cipher.algorithm",
        note: NO_ZOOKEEPER,
    },
    Retired {
        name: "password.encoder.iterations",
        note: NO_ZOOKEEPER,
    },
    Retired {
        name: "password.encoder.key.length",
        note: NO_ZOOKEEPER,
    },
    Retired {
        name: "password.encoder.keyfactory.algorithm",
        note: NO_ZOOKEEPER,
    },
    Retired {
        name: "password.encoder.old.secret",
        note: NO_ZOOKEEPER,
    },
    Retired {
        name: "password.encoder.secret",
        note: NO_ZOOKEEPER,
    },
    Retired {
        name: "port",
        note: OLD_ADDRESS,
    },
    Retired {
        name: "quota.consumer.default",
        note: "has no effect: set client quotas with kafka-configs",
    },
    Retired {
        name: "quota.producer.default",
        note: "has no effect: set client quotas with kafka-configs",
    },
    Retired {
        name: "replica.lag.max.messages",
        note: "has no effect: use replica.lag.time.max.ms",
    },
    Retired {
        name: "reserved.broker.max.id",
        note: FOR_GENERATED_IDS,
    },
];

/// `reserved.broker.max.id` where it is not set.
const RESERVED_BROKER_MAX_ID: i32 = 1000;

/// The id of the first broker that has none: one more than those that are reserved for brokers with an id.
fn first_generated_id(properties: &Properties) -> Result<i32, ConfigError> {
    let key = "reserved.broker.max.id";
    let Some(text) = set_and_not_blank(properties, key) else {
        return Ok(RESERVED_BROKER_MAX_ID + 1);
    };
    text.parse::<i32>()
        .ok()
        .filter(|id| (0..i32::MAX).contains(id))
        .map(|id| id + 1)
        .ok_or_else(|| {
            ConfigError::invalid(key, text, "Not a number from 0 to 2147483646")
                .with_remedy("ids from the next one on are given to brokers without broker.id")
        })
}

const QUORUM_KEYS: [&str; 2] = [
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
];

pub(super) struct Given {
    pub properties: Properties,
    pub warnings: Vec<String>,
    pub zookeeper_connect: Option<ZooKeeperConnect>,
    pub zookeeper_connection_timeout_ms: Option<u32>,
    pub node_id_is_generated: bool,
}

pub(super) fn is_known_outside_the_table(key: &str) -> bool {
    let prefixes = [
        "listener.name.",
        "rlmm.config.",
        "rsm.config.",
        "zookeeper.",
        "config.providers.",
    ];
    RETIRED.iter().any(|retired| retired.name == key)
        || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

fn set_and_not_blank<'a>(properties: &'a Properties, key: &str) -> Option<&'a str> {
    properties
        .get(key)
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

pub(super) fn read(properties: &Properties) -> Result<Given, ConfigError> {
    let mut found = Given {
        properties: properties.clone(),
        warnings: Vec::new(),
        zookeeper_connect: None,
        zookeeper_connection_timeout_ms: None,
        node_id_is_generated: false,
    };
    for key in properties.duplicates() {
        found.warnings.push(format!(
            "{key} is given more than once; the last value, {}, is used",
            properties.get(key).unwrap_or_default()
        ));
    }
    let zookeeper_connect = set_and_not_blank(properties, "zookeeper.connect");
    match (properties.get("process.roles"), zookeeper_connect) {
        (Some(roles), Some(connect)) => {
            return Err(ConfigError::new(format!(
                "zookeeper.connect={connect} contradicts process.roles={roles}: the first joins the quorum node at that \
                 port, the second is for controller.quorum.voters or controller.quorum.bootstrap.servers"
            ))
            .with_remedy(
                "remove zookeeper.connect, or remove process.roles, controller.quorum.* and controller.listener.names",
            ));
        }
        (_, None) => {}
        (None, Some(connect)) => read_zookeeper_era(&mut found, connect)?,
    }
    for (key, value) in properties.iter() {
        let retired = RETIRED.iter().find(|retired| retired.name == key);
        if let Some(retired) = retired {
            if found.node_id_is_generated && retired.note == FOR_GENERATED_IDS {
                continue;
            }
            found
                .warnings
                .push(format!("{key}={value} {}", retired.note));
        } else if key == CONNECTION_TIMEOUT && found.zookeeper_connect.is_some() {
            let timeout_ms = value.trim().parse().ok().filter(|ms: &u32| *ms > 0);
            found.zookeeper_connection_timeout_ms = Some(timeout_ms.ok_or_else(|| {
                ConfigError::invalid(key, value, "Not a number of type INT")
                    .with_remedy(format!("{key} is a time in milliseconds, from 1"))
            })?);
        } else if key.starts_with("zookeeper.") && key != "zookeeper.connect" {
            found.warnings.push(format!("{key}={value} {NO_ZOOKEEPER}"));
        }
    }
    // Kafka's own synonym: either name fills in for the other.
    for (missing, set) in [("broker.id", "node.id"), ("node.id", "broker.id")] {
        if !found.properties.contains_key(missing)
            && let Some(value) = found.properties.get(set).map(str::to_owned)
        {
            found.properties.set(missing, value);
        }
    }
    Ok(found)
}

fn read_zookeeper_era(found: &mut Given, connect: &str) -> Result<(), ConfigError> {
    for key in QUORUM_KEYS.into_iter().chain(["controller.listener.names"]) {
        if let Some(value) = set_and_not_blank(&found.properties, key) {
            return Err(ConfigError::new(format!(
                "{key}={value} contradicts zookeeper.connect={connect}, and process.roles is not set"
            ))
            .with_remedy(format!(
                "remove {key} to join the quorum at {connect}, or remove zookeeper.connect and set \
                 process.roles=broker (or broker,controller)"
            )));
        }
    }
    if found
        .properties
        .get("zookeeper.metadata.migration.enable")
        .is_some_and(|v| v.trim() == "true")
    {
        return Err(ConfigError::new(
            "zookeeper.metadata.migration.enable=true needs a ZooKeeper ensemble, which this broker never talks to",
        )
        .with_remedy("remove zookeeper.metadata.migration.enable"));
    }
    found.zookeeper_connect = Some(ZooKeeperConnect::parse(connect)?);
    let id = set_and_not_blank(&found.properties, "broker.id")
        .or_else(|| set_and_not_blank(&found.properties, "node.id"));
    if id.is_none_or(|id| id == "-1") {
        if set_and_not_blank(&found.properties, "broker.id.generation.enable")
            .is_some_and(|enabled| enabled.eq_ignore_ascii_case("false"))
        {
            return Err(ConfigError::new(
                "broker.id is not set, and broker.id.generation.enable=false",
            )
            .with_remedy("set broker.id to a number that no other broker of the cluster has"));
        }
        let first = first_generated_id(&found.properties)?;
        found.node_id_is_generated = true;
        found.properties.set("broker.id", first.to_string());
        found.properties.set("node.id", first.to_string());
    }
    for (new, host, port) in [
        ("listeners", "host.name", "port"),
        (
            "advertised.listeners",
            "advertised.host.name",
            "advertised.port",
        ),
    ] {
        let host_value = set_and_not_blank(&found.properties, host).map(str::to_owned);
        let port_value = set_and_not_blank(&found.properties, port).map(str::to_owned);
        if found.properties.contains_key(new) || (host_value.is_none() && port_value.is_none()) {
            continue;
        }
        let own_host = set_and_not_blank(&found.properties, "host.name")
            .unwrap_or_default()
            .to_owned();
        let own_port = set_and_not_blank(&found.properties, "port")
            .unwrap_or("9092")
            .to_owned();
        let mut host_value = host_value.unwrap_or(own_host);
        if host_value.contains(':') && !host_value.starts_with('[') {
            host_value = format!("[{host_value}]");
        }
        let protocol = set_and_not_blank(&found.properties, "security.inter.broker.protocol")
            .unwrap_or("PLAINTEXT");
        let value = format!(
            "{protocol}://{host_value}:{}",
            port_value.unwrap_or(own_port)
        );
        found.properties.set(new, value);
    }
    Ok(())
}

/// Adds the way out to Kafka's terse "Missing required configuration".
pub(super) fn with_remedy(error: ConfigError, properties: &Properties) -> ConfigError {
    if error.remedy.is_some() || !error.message.starts_with("Missing required configuration") {
        return error;
    }
    let misspelt = ["process.roles", "node.id", "controller.listener.names"]
        .into_iter()
        .filter(|key| error.message.contains(key))
        .find_map(|key| {
            let given = properties.iter().map(|(given, _)| given);
            let near = *spelling::near(key, given).first()?;
            (near != key).then(|| format!("{near} is not a setting; did you mean {key}?"))
        });
    if let Some(misspelt) = misspelt {
        return error.with_remedy(misspelt);
    }
    let has_quorum = QUORUM_KEYS
        .iter()
        .any(|key| set_and_not_blank(properties, key).is_some());
    let remedy = if error.message.contains("process.roles") {
        if has_quorum {
            "set process.roles=broker (or controller, or broker,controller) beside controller.quorum.*"
        } else {
            "set process.roles=broker,controller with node.id, listeners and controller.listener.names for a node \
             of its own (see config/kraft/server.properties), or broker.id and zookeeper.connect=localhost:2181 \
             beside a running zookeeper-server-start (see config/server.properties)"
        }
    } else if error.message.contains("node.id") {
        "set node.id to a number from 0 on that no other node of the cluster has"
    } else {
        "set controller.listener.names, for example to CONTROLLER, and add CONTROLLER://host:9093 to listeners \
         if this node has the controller role"
    };
    error.with_remedy(remedy)
}
