//! Rules across several keys, in Kafka's words, and what is derived from the values while they are checked.
//! Not here: rules of one key (`crate::definition`), old spellings (`vintage`).
//! Pure, used at start. Kafka: KafkaConfig.validateValues, GroupCoordinatorConfig, ShareGroupConfig; KIP-631, KIP-848, KIP-932.

use kavka_common::NodeId;

use super::vintage::Given;
use super::{BrokerConfig, MetadataVia, ServerMode};
use crate::error::ConfigError;
use crate::listener::{self, Listener, ProtocolMap, SecurityProtocol};
use crate::quorum;

const PROTOCOL_MAP: &str = "listener.security.protocol.map";
const INTER_BROKER_NAME: &str = "inter.broker.listener.name";
const INTER_BROKER_PROTOCOL: &str = "security.inter.broker.protocol";

fn require(condition: bool, text: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if condition {
        Ok(())
    } else {
        Err(ConfigError::requirement(text()))
    }
}

pub(super) fn build(
    given: Given,
    values: Vec<crate::value::Value>,
) -> Result<BrokerConfig, ConfigError> {
    let mut config = BrokerConfig {
        values,
        originals: given
            .properties
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        warnings: given.warnings,
        mode: ServerMode::Combined,
        node_id: NodeId(0),
        node_id_is_generated: given.node_id_is_generated,
        listeners: Vec::new(),
        advertised_listeners: Vec::new(),
        controller_listener_names: Vec::new(),
        inter_broker_listener_name: String::new(),
        inter_broker_security_protocol: SecurityProtocol::Plaintext,
        log_dirs: Vec::new(),
        metadata_log_dir: String::new(),
        quorum_voters: Vec::new(),
        quorum_bootstrap_servers: Vec::new(),
        zookeeper_connect: given.zookeeper_connect,
        zookeeper_connection_timeout_ms: given.zookeeper_connection_timeout_ms,
    };
    config.mode = mode(&config);
    check_groups(&config)?;
    if config.int("node.id") != config.int("broker.id") {
        return Err(
            ConfigError::new("You must set `node.id` to the same value as `broker.id`.")
                .with_remedy(format!(
                    "node.id is {}, broker.id is {}: remove one of them",
                    config.int("node.id"),
                    config.int("broker.id")
                )),
        );
    }
    config.node_id = NodeId(config.int("node.id"));
    check_log(&config)?;
    set_directories(&mut config)?;
    set_listeners(&mut config)?;
    config.quorum_voters = quorum::parse_voters(config.list("controller.quorum.voters"))?;
    config.quorum_bootstrap_servers =
        quorum::parse_bootstrap_servers(config.list("controller.quorum.bootstrap.servers"))?;
    check_roles(&config)?;
    check_network(&config)?;
    Ok(config)
}

fn mode(config: &BrokerConfig) -> ServerMode {
    let roles = config.list("process.roles");
    let has = |role: &str| roles.iter().any(|known| known == role);
    match (
        config.zookeeper_connect.is_some(),
        has("broker"),
        has("controller"),
    ) {
        (true, ..) => ServerMode::BrokerOnly {
            via: MetadataVia::ZooKeeperEra,
        },
        (false, true, true) => ServerMode::Combined,
        (false, false, true) => ServerMode::ControllerOnly,
        (false, ..) => ServerMode::BrokerOnly {
            via: MetadataVia::Quorum,
        },
    }
}

fn check_log(config: &BrokerConfig) -> Result<(), ConfigError> {
    require(config.log_roll_ms() >= 1, || {
        "log.roll.ms must be greater than or equal to 1".to_owned()
    })?;
    require(config.log_roll_jitter_ms() >= 0, || {
        "log.roll.jitter.ms must be greater than or equal to 0".to_owned()
    })?;
    let retention = config.log_retention_ms();
    require(retention >= 1 || retention == -1, || {
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1".to_owned()
    })?;
    let threads = config.long("log.cleaner.threads");
    require(
        threads == 0 || config.long("log.cleaner.dedupe.buffer.size") / threads > 1024 * 1024,
        || "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.".to_owned(),
    )?;
    let fetch_wait = config.long("replica.fetch.wait.max.ms");
    require(
        fetch_wait <= config.long("replica.socket.timeout.ms"),
        || {
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary \
         socket timeouts"
            .to_owned()
        },
    )?;
    require(fetch_wait <= config.long("replica.lag.time.max.ms"), || {
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent \
         frequent changes in ISR"
            .to_owned()
    })
}

fn set_directories(config: &mut BrokerConfig) -> Result<(), ConfigError> {
    let dirs = config.list("log.dirs");
    let dirs = if dirs.is_empty() {
        config.list("log.dir")
    } else {
        dirs
    };
    config.log_dirs = dirs.to_vec();
    config.metadata_log_dir = match config.text("metadata.log.dir") {
        Some(dir) => dir.to_owned(),
        None => config.log_dirs[0].clone(),
    };
    let cordoned = config.list("cordoned.log.dirs");
    if cordoned.iter().any(|dir| dir == "*") {
        return require(cordoned.len() == 1, || {
            "When cordoned.log.dirs is set to *, it must not contain other values".to_owned()
        });
    }
    let missing: Vec<&str> = cordoned
        .iter()
        .map(String::as_str)
        .filter(|dir| !config.log_dirs.iter().any(|known| known == dir))
        .collect();
    require(missing.is_empty(), || {
        format!(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : {}",
            missing.join(", ")
        )
    })
}

fn protocols(config: &BrokerConfig) -> Result<ProtocolMap, ConfigError> {
    let text = config.text(PROTOCOL_MAP).unwrap_or_default();
    let mut map = listener::parse_protocol_map(PROTOCOL_MAP, text)?;
    if config.originals.contains_key(PROTOCOL_MAP) {
        return Ok(map);
    }
    // Without an explicit map every controller listener is PLAINTEXT, unless something asks for more.
    let guarded = |name: &str| {
        SecurityProtocol::from_name(name)
            .is_some_and(|protocol| protocol != SecurityProtocol::Plaintext)
    };
    let mut names = config.controller_listener_names.clone();
    for entry in config.list("listeners") {
        names.push(listener::listener_name(entry)?);
    }
    if !names.iter().any(|name| guarded(name)) {
        for name in &config.controller_listener_names {
            map.insert(name.clone(), SecurityProtocol::Plaintext);
        }
    }
    Ok(map)
}

fn set_listeners(config: &mut BrokerConfig) -> Result<(), ConfigError> {
    config.controller_listener_names = config
        .list("controller.listener.names")
        .iter()
        .map(|name| name.to_uppercase())
        .collect();
    let protocols = protocols(config)?;
    config.listeners = listener::parse_listeners(config.list("listeners"), &protocols, true)?;
    let advertised = config.list("advertised.listeners");
    let mut told = if advertised.is_empty() {
        config.listeners.clone()
    } else {
        listener::parse_listeners(advertised, &protocols, false)?
    };
    if advertised.is_empty() {
        // Nobody can connect to a wildcard: clients are told the address they reached us by.
        for listener in told.iter_mut().filter(|listener| listener.is_wildcard()) {
            listener.host.clear();
        }
    }
    told.retain(|listener| !config.is_controller_listener(&listener.name));
    require(
        told.iter()
            .all(|listener| !matches!(listener.host.as_str(), "0.0.0.0" | "::")),
        || {
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.".to_owned()
        },
    )?;
    config.advertised_listeners = told;

    let explicit_protocol = config.originals.contains_key(INTER_BROKER_PROTOCOL);
    let (name, protocol) = match config.text(INTER_BROKER_NAME) {
        Some(_) if explicit_protocol => {
            return Err(ConfigError::new(format!(
                "Only one of {INTER_BROKER_NAME} and {INTER_BROKER_PROTOCOL} should be set."
            )));
        }
        Some(name) => {
            let name = name.to_uppercase();
            let protocol = *protocols.get(&name).ok_or_else(|| {
                ConfigError::new(format!(
                    "Listener with name {name} defined in {INTER_BROKER_NAME} not found in {PROTOCOL_MAP}."
                ))
            })?;
            (name, protocol)
        }
        None => {
            let name = config
                .text(INTER_BROKER_PROTOCOL)
                .unwrap_or("PLAINTEXT")
                .to_owned();
            let protocol =
                SecurityProtocol::from_name(&name).unwrap_or(SecurityProtocol::Plaintext);
            (name, protocol)
        }
    };
    config.inter_broker_listener_name = name;
    config.inter_broker_security_protocol = protocol;

    for name in config
        .list("early.start.listeners")
        .iter()
        .map(|name| name.to_uppercase())
    {
        if !config.listeners.iter().any(|known| known.name == name)
            && !config.is_controller_listener(&name)
        {
            return Err(ConfigError::new(format!(
                "early.start.listeners contains listener {name}, but this is not contained in listeners or \
                 controller.listener.names"
            )));
        }
    }
    if config.mode
        == (ServerMode::BrokerOnly {
            via: MetadataVia::Quorum,
        })
    {
        require(config.controller_listeners().next().is_none(), || {
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when \
             running KRaft with just the broker role"
                .to_owned()
        })?;
        for name in &config.controller_listener_names {
            if !protocols.contains_key(name) {
                return Err(ConfigError::new(format!(
                    "Controller listener with name {name} defined in controller.listener.names not found in \
                     {PROTOCOL_MAP}  (an explicit security mapping for each controller listener is required if \
                     {PROTOCOL_MAP} is non-empty, or if there are security protocols other than PLAINTEXT in use)"
                ))
                .with_remedy(format!("add {name}:PLAINTEXT (or another protocol) to {PROTOCOL_MAP}")));
            }
        }
    }
    Ok(())
}

fn check_roles(config: &BrokerConfig) -> Result<(), ConfigError> {
    let node_id = config.node_id.get();
    let voters = &config.quorum_voters;
    let voter_set = || {
        let ids: Vec<String> = voters.iter().map(|voter| voter.id.to_string()).collect();
        format!("controller.quorum.voters=Set({})", ids.join(", "))
    };
    let is_voter = voters.iter().any(|voter| voter.id == node_id);
    let zookeeper_era = config.zookeeper_connect.is_some();
    if !zookeeper_era && voters.is_empty() && config.quorum_bootstrap_servers.is_empty() {
        return Err(ConfigError::new(
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap \
             controllers or controller.quorum.voters must contain a parseable set of controllers.",
        )
        .with_remedy("for one node: controller.quorum.bootstrap.servers=localhost:<port of its controller listener>"));
    }
    if config.mode
        == (ServerMode::BrokerOnly {
            via: MetadataVia::Quorum,
        })
    {
        require(!is_voter, || {
            format!(
                "If process.roles contains just the 'broker' role, the node id {node_id} must not be included in \
                 the set of voters {}",
                voter_set()
            )
        })?;
    }
    if config.mode == ServerMode::ControllerOnly {
        require(
            config.controller_listeners().count() == config.listeners.len(),
            || {
                "The listeners config must only contain KRaft controller listeners from controller.listener.names when \
             process.roles=controller"
                .to_owned()
            },
        )?;
        require(!config.originals.contains_key(INTER_BROKER_NAME), || {
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration \
             value when process.roles=controller'"
                .to_owned()
        })?;
    }
    if config.mode.has_controller() {
        require(voters.is_empty() || is_voter, || {
            format!(
                "If process.roles contains the 'controller' role, the node id {node_id} must be included in the set \
                 of voters {}",
                voter_set()
            )
        })?;
        require(config.controller_listeners().next().is_some(), || {
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration \
             when running the KRaft controller role"
                .to_owned()
        })?;
        let bound = |name: &String| {
            config
                .listeners
                .iter()
                .any(|listener| listener.name == *name)
        };
        require(config.controller_listener_names.iter().all(bound), || {
            "controller.listener.names must only contain values appearing in the 'listeners' configuration when \
             running the KRaft controller role"
                .to_owned()
        })?;
    }
    if config.mode.has_broker() {
        check_advertised(config)?;
    }
    Ok(())
}

fn check_advertised(config: &BrokerConfig) -> Result<(), ConfigError> {
    let names = |listeners: &[Listener]| {
        listeners
            .iter()
            .map(|listener| listener.name.as_str())
            .collect::<Vec<_>>()
            .join(",")
    };
    let advertised = &config.advertised_listeners;
    require(!advertised.is_empty(), || {
        "There must be at least one broker advertised listener. Perhaps all listeners appear in \
         controller.listener.names?"
            .to_owned()
    })?;
    require(
        config
            .advertised_listener(&config.inter_broker_listener_name)
            .is_some(),
        || {
            format!(
                "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options \
             based on currently configured listeners are {}",
                names(advertised)
            )
        },
    )?;
    let bound = |listener: &Listener| {
        config
            .listeners
            .iter()
            .any(|known| known.name == listener.name)
    };
    require(advertised.iter().all(bound), || {
        format!(
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. \
             Found {}. The valid options based on the current configuration are {}",
            names(advertised),
            names(&config.listeners)
        )
    })
}

fn check_network(config: &BrokerConfig) -> Result<(), ConfigError> {
    if !(0..=4).contains(&config.int("offsets.topic.compression.codec")) {
        return Err(ConfigError::illegal(format!(
            "Unknown compression type id: {}",
            config.int("offsets.topic.compression.codec")
        ))
        .with_remedy("offsets.topic.compression.codec is 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)"));
    }
    let queued = config.long("queued.max.request.bytes");
    require(
        queued <= 0 || queued >= config.long("socket.request.max.bytes"),
        || {
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
                .to_owned()
        },
    )?;
    let overrides = config.connections_per_ip_overrides()?;
    require(
        config.int("max.connections.per.ip") > 0 || !overrides.is_empty(),
        || {
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.".to_owned()
        },
    )?;
    let idle = config.long("connections.max.idle.ms");
    let delay = config.long("connection.failed.authentication.delay.ms");
    require(idle < 0 || delay < idle, || {
        format!(
            "connection.failed.authentication.delay.ms={delay} should always be less than \
             connections.max.idle.ms={idle} to prevent failed authentication responses from timing out"
        )
    })?;
    if config.mode.has_broker() {
        let mechanism = config
            .text("sasl.mechanism.inter.broker.protocol")
            .unwrap_or_default();
        let enabled = config.list("sasl.enabled.mechanisms");
        require(
            !config.inter_broker_security_protocol.uses_sasl()
                || enabled.iter().any(|known| known == mechanism),
            || {
                "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used \
                 for inter-broker communication"
                    .to_owned()
            },
        )?;
    }
    Ok(())
}

impl BrokerConfig {
    /// `max.connections.per.ip.overrides` as host and number.
    pub fn connections_per_ip_overrides(&self) -> Result<Vec<(String, u32)>, ConfigError> {
        const KEY: &str = "max.connections.per.ip.overrides";
        let text = self.text(KEY).unwrap_or_default();
        listener::parse_map(KEY, text)?
            .into_iter()
            .map(|(host, number)| match number.parse() {
                Ok(number) => Ok((host, number)),
                Err(_) => Err(ConfigError::illegal(format!(
                    "Error parsing configuration property '{KEY}': {number}"
                ))
                .with_remedy(format!(
                    "{KEY}: \"{host}:{number}\" is not an address and a number"
                ))),
            })
            .collect()
    }
}

/// `min <= value <= max` for each timing of a group protocol, then what must lie below what.
fn check_groups(config: &BrokerConfig) -> Result<(), ConfigError> {
    let at_least = |larger: &str, smaller: &str| {
        if config.long(larger) >= config.long(smaller) {
            return Ok(());
        }
        Err(ConfigError::illegal(format!(
            "{larger} must be greater than or equal to {smaller}"
        )))
    };
    let at_most = |smaller: &str, larger: &str| {
        if config.long(smaller) <= config.long(larger) {
            return Ok(());
        }
        Err(ConfigError::illegal(format!(
            "{smaller} must be less than or equal to {larger}"
        )))
    };
    let ranges: [(&str, &[&str]); 3] = [
        (
            "consumer",
            &[
                "heartbeat.interval.ms",
                "session.timeout.ms",
                "assignment.interval.ms",
            ],
        ),
        (
            "share",
            &[
                "heartbeat.interval.ms",
                "session.timeout.ms",
                "record.lock.duration.ms",
                "delivery.count.limit",
                "partition.max.record.locks",
                "assignment.interval.ms",
            ],
        ),
        (
            "streams",
            &[
                "heartbeat.interval.ms",
                "session.timeout.ms",
                "assignment.interval.ms",
            ],
        ),
    ];
    for (group, settings) in ranges {
        for setting in settings {
            let value = format!("group.{group}.{setting}");
            let (min, max) = (
                format!("group.{group}.min.{setting}"),
                format!("group.{group}.max.{setting}"),
            );
            at_least(&max, &min)?;
            at_least(&value, &min)?;
            at_most(&value, &max)?;
        }
        let (heartbeat, session) = (
            format!("group.{group}.heartbeat.interval.ms"),
            format!("group.{group}.session.timeout.ms"),
        );
        if config.long(&heartbeat) >= config.long(&session) {
            return Err(ConfigError::illegal(format!(
                "{heartbeat} must be less than {session}"
            )));
        }
    }
    if !config
        .list("group.coordinator.rebalance.protocols")
        .iter()
        .any(|protocol| protocol == "classic")
    {
        return Err(ConfigError::new(
            "Disabling the 'classic' protocol is not supported.",
        ));
    }
    Ok(())
}
