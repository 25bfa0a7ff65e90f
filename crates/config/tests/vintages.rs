//! What Kafka 4 has no counterpart for: files of the ZooKeeper age, ZooKeeper's own file, remedies, ignored keys.
//! Not here: whatever a JVM can be asked (tests/golden.rs).
//! Run by `cargo test`.

use kavka_config::{
    BrokerConfig, ConfigError, MetadataVia, Properties, ServerMode, ZooKeeperConfig,
};

fn node(text: &str) -> Result<BrokerConfig, ConfigError> {
    BrokerConfig::from_properties(&Properties::parse(text.as_bytes()).expect("a file"))
}

fn zookeeper(text: &str) -> Result<ZooKeeperConfig, ConfigError> {
    ZooKeeperConfig::from_properties(&Properties::parse(text.as_bytes()).expect("a file"))
}

fn refusal(text: &str) -> (String, String) {
    let error = node(text).expect_err("to be refused");
    (error.message, error.remedy.unwrap_or_default())
}

#[test]
fn a_quickstart_file_of_the_zookeeper_age_makes_a_broker() {
    let config = node(
        "broker.id=0\nnum.network.threads=3\nlog.dirs=/tmp/kafka-logs\nzookeeper.connect=localhost:2181\n\
         zookeeper.connection.timeout.ms=18000\ngroup.initial.rebalance.delay.ms=0\n",
    )
    .expect("a broker");
    assert_eq!(
        config.mode(),
        ServerMode::BrokerOnly {
            via: MetadataVia::ZooKeeperEra
        }
    );
    assert_eq!(config.node_id().get(), 0);
    assert!(!config.node_id_is_generated());
    assert_eq!(config.listeners()[0].to_string(), "PLAINTEXT://:9092");
    assert_eq!(
        config.zookeeper_connect().expect("servers").servers[0].to_string(),
        "localhost:2181"
    );
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    assert_eq!(config.zookeeper_connection_timeout_ms(), Some(18_000));
    assert!(config.unknown_keys().is_empty());
    assert_eq!(
        config.unacted_keys(&["num.network.threads"]),
        ["group.initial.rebalance.delay.ms"]
    );
    // What is set to its default asks for nothing.
    assert_eq!(
        config.unacted_keys(&[]),
        ["group.initial.rebalance.delay.ms"]
    );
    let (message, remedy) = refusal(
        "broker.id=0\nzookeeper.connect=localhost:2181\nzookeeper.connection.timeout.ms=soon",
    );
    assert!(
        message.contains("zookeeper.connection.timeout.ms"),
        "{message}"
    );
    assert!(remedy.contains("milliseconds"), "{remedy}");
}

#[test]
fn misspelt_names_are_recognised() {
    assert_eq!(
        BrokerConfig::meant_by("logs.dir").as_deref(),
        Some("did you mean log.dir or log.dirs?")
    );
    assert_eq!(
        BrokerConfig::meant_by("zookeper.connect").as_deref(),
        Some("did you mean zookeeper.connect?")
    );
    assert_eq!(BrokerConfig::meant_by("my.own.setting"), None);

    let (_, remedy) = refusal("proces.roles=broker\nnode.id=1");
    assert_eq!(
        remedy,
        "proces.roles is not a setting; did you mean process.roles?"
    );
    let (_, remedy) = refusal(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://:9092,CONTROLER://:9093\ncontroller.quorum.voters=1@localhost:9093",
    );
    assert!(remedy.starts_with("did you mean CONTROLLER?"), "{remedy}");
    let file = "dataDir=/d\nclientPort=1\ntickTme=2000";
    let warnings = zookeeper(file).expect("a server").warnings;
    assert!(
        warnings[0].ends_with("did you mean tickTime?"),
        "{warnings:?}"
    );
}

#[test]
fn old_spellings_of_addresses_become_listeners() {
    let config = node("broker.id=1\nzookeeper.connect=z1,z2:99,[::1]:7/chroot\nport=9999\nhost.name=::1\nadvertised.host.name=pub")
        .expect("a broker");
    assert_eq!(config.listeners()[0].to_string(), "PLAINTEXT://[::1]:9999");
    assert_eq!(
        config.advertised_listeners()[0].to_string(),
        "PLAINTEXT://pub:9999"
    );
    let connect = config.zookeeper_connect().expect("servers");
    let servers: Vec<String> = connect.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["z1:2181", "z2:99", "[::1]:7"]);
    assert_eq!(connect.chroot.as_deref(), Some("/chroot"));
    assert_eq!(config.warnings().len(), 3);
}

#[test]
fn a_broker_without_an_id_gets_the_first_one_zookeeper_gave() {
    for text in ["zookeeper.connect=a", "zookeeper.connect=a\nbroker.id=-1"] {
        let config = node(text).expect("a broker");
        assert!(config.node_id_is_generated());
        assert_eq!(config.node_id().get(), 1001);
    }
    let config = node("zookeeper.connect=a\nreserved.broker.max.id=50").expect("a broker");
    assert_eq!(config.node_id().get(), 51);
    assert!(config.warnings().is_empty());
    let config =
        node("zookeeper.connect=a\nbroker.id=3\nreserved.broker.max.id=50").expect("a broker");
    assert_eq!(config.node_id().get(), 3);
    assert!(config.warnings()[0].contains("broker.id is set"));
    let (message, _) = refusal("zookeeper.connect=a\nbroker.id.generation.enable=false");
    assert!(message.contains("broker.id is not set"), "{message}");
    let (message, _) = refusal("zookeeper.connect=a\nreserved.broker.max.id=-7");
    assert!(message.contains("reserved.broker.max.id"), "{message}");
}

#[test]
fn contradictions_name_key_value_and_remedy() {
    let (message, remedy) =
        refusal("broker.id=0\nzookeeper.connect=localhost:2181\ncontroller.quorum.voters=1@a:9093");
    assert!(message.contains(
        "controller.quorum.voters=1@a:9093 contradicts zookeeper.connect=localhost:2181"
    ));
    assert!(remedy.contains("remove controller.quorum.voters"));

    let (message, remedy) = refusal("broker.id=0");
    assert_eq!(
        message,
        "Missing required configuration \"process.roles\" which has no default value."
    );
    assert!(remedy.contains("zookeeper.connect=localhost:2181"));

    let (message, remedy) = refusal("zookeeper.connect=a:b\nbroker.id=1");
    assert!(message.contains("zookeeper.connect"), "{message}");
    assert!(remedy.contains("localhost:2181"));

    let (message, _) = refusal("zookeeper.connect=a\nbroker.id=x");
    assert_eq!(
        message,
        "Invalid value x for configuration broker.id: Not a number of type INT"
    );
}

#[test]
fn one_file_is_of_one_vintage() {
    let file = "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=C\n\
         listeners=PLAINTEXT://0.0.0.0:9092,C://:9093\ncontroller.quorum.voters=1@localhost:9093";
    let (message, remedy) = refusal(&format!("{file}\nzookeeper.connect=localhost:2181"));
    for words in [
        "zookeeper.connect=localhost:2181",
        "process.roles=broker,controller",
    ] {
        assert!(message.contains(words), "{message}");
    }
    assert!(remedy.contains("remove zookeeper.connect"), "{remedy}");
    let config = node(file).expect("a node");
    assert_eq!(config.mode(), ServerMode::Combined);
    assert!(config.zookeeper_connect().is_none());
    // Nobody is told a wildcard.
    assert_eq!(config.advertised_listeners()[0].host, "");
    assert_eq!(config.broker_listeners().count(), 1);
    assert_eq!(config.controller_listeners().count(), 1);
}

#[test]
fn repeated_and_unknown_keys_are_known_by_name() {
    let config =
        node("broker.id=1\nzookeeper.connect=a\nbroker.id=2\nno.such.key=1\nnum.partitions=2")
            .expect("a broker");
    assert_eq!(config.node_id().get(), 2);
    assert!(config.warnings()[0].contains("broker.id is given more than once"));
    assert_eq!(config.unknown_keys(), ["no.such.key"]);
    assert_eq!(config.unacted_keys(&[]), ["num.partitions"]);
}

#[test]
fn zookeepers_own_file_becomes_a_quorum_node() {
    let config = zookeeper(
        "dataDir=/tmp/zookeeper\nclientPort=2181\nmaxClientCnxns=0\nadmin.enableServer=false\n",
    )
    .expect("a server");
    assert_eq!(config.tick_time_ms, 3000);
    assert_eq!(
        (config.session_timeout_min_ms, config.session_timeout_max_ms),
        (6000, 60_000)
    );
    assert_eq!(config.client_connections_max, 0);
    assert!(!config.admin_server_enabled);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let node =
        BrokerConfig::from_properties(&config.quorum_node_properties(None).expect("settings"))
            .expect("a node");
    assert_eq!(node.mode(), ServerMode::ControllerOnly);
    assert_eq!(node.listeners()[0].to_string(), "CONTROLLER://:2181");
    assert_eq!(node.log_dirs(), ["/tmp/zookeeper"]);
}

#[test]
fn an_ensemble_has_one_voter_for_each_server_line() {
    let text = "dataDir=/d\nclientPort=2181\nclientPortAddress=127.0.0.1\nserver.1=a:2888:3888\nserver.2=[::1]:2889:3889:participant;2182\n\
                server.3=c:2890:3890:observer";
    let config = zookeeper(text).expect("a server");
    assert!(config.needs_my_id());
    let node =
        BrokerConfig::from_properties(&config.quorum_node_properties(Some(2)).expect("settings"))
            .expect("a node");
    let voters: Vec<String> = node
        .quorum_voters()
        .iter()
        .map(|voter| format!("{}@{}", voter.id, voter.address))
        .collect();
    assert_eq!(voters, ["3001@a:2888", "3002@[::1]:2889"]);
    let listeners: Vec<String> = node.listeners().iter().map(ToString::to_string).collect();
    assert_eq!(listeners, ["QUORUM://:2889", "CONTROLLER://127.0.0.1:2181"]);
    assert!(config.quorum_node_properties(None).is_err());
    assert!(config.quorum_node_properties(Some(9)).is_err());
}

#[test]
fn a_bad_zookeeper_file_is_refused_by_key() {
    for (text, part) in [
        ("clientPort=2181", "dataDir"),
        ("dataDir=/d", "clientPort"),
        ("dataDir=/d\nclientPort=x", "clientPort"),
        ("dataDir=/d\nclientPort=1\ntickTime=0", "tickTime"),
        ("dataDir=/d\nclientPort=1\nserver.x=a:1:2", "server.x"),
        ("dataDir=/d\nclientPort=1\nserver.1=a", "server.1"),
        ("dataDir=/d\nclientPort=1\nserver.1=a:1", "server.1"),
        (
            "dataDir=/d\nclientPort=1\nminSessionTimeout=9\nmaxSessionTimeout=3",
            "minSessionTimeout",
        ),
        ("broker.id=1\nzookeeper.connect=a", "broker.id"),
    ] {
        let error = zookeeper(text).expect_err(text);
        assert!(error.message.contains(part), "{text}: {error}");
    }
}
