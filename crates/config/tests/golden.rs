//! Our reading of properties files, values and whole server files against what the JVM made of the same text.
//! Not here: what Kafka has no counterpart for (the ZooKeeper age, remedies): see tests/vintages.rs.
//! Run by `cargo test`; the goldens were written by ConfigDef, KafkaConfig and java.util.Properties of 4.3.1 and JDK 17.

use std::sync::Arc;

use kavka_config::topic::TopicValues;
use kavka_config::{
    BrokerConfig, Definition, Described, Layers, Listener, Overrides, Properties, Value,
    definition, generated, source,
};

fn unescape(text: &str) -> String {
    let mut units = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\u") {
        units.extend(rest[..at].encode_utf16());
        units.push(u16::from_str_radix(&rest[at + 2..at + 6], 16).expect("four digits"));
        rest = &rest[at + 6..];
    }
    units.extend(rest.encode_utf16());
    String::from_utf16_lossy(&units)
}

#[test]
fn files_are_read_as_java_reads_them() {
    let golden = include_str!("golden/properties.txt");
    let mut cases = 0;
    for case in golden.split("\nin ").skip(1) {
        let mut lines = case.lines();
        let input = unescape(lines.next().unwrap_or(""));
        let bytes: Vec<u8> = input
            .chars()
            .map(|c| u8::try_from(u32::from(c)).expect("a byte"))
            .collect();
        let read = Properties::parse(&bytes);
        let expected: Vec<&str> = lines.collect();
        cases += 1;
        if expected.first().is_some_and(|line| line.starts_with('!')) {
            assert!(
                read.is_err(),
                "{input:?} is malformed to Java, but gave {read:?}"
            );
            continue;
        }
        let expected: Vec<(String, String)> = expected
            .chunks(2)
            .map(|pair| {
                (
                    unescape(pair[0].strip_prefix("  ").unwrap()),
                    unescape(pair[1].strip_prefix("    ").unwrap()),
                )
            })
            .collect();
        let mut read: Vec<(String, String)> = read
            .unwrap_or_else(|error| panic!("{input:?}: {error}"))
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        read.sort();
        assert_eq!(read, expected, "{input:?}");
    }
    assert!(cases > 400, "only {cases} cases were found");
}

#[test]
fn entries_are_written_as_java_writes_them() {
    for line in include_str!("golden/store.txt").lines().skip(1) {
        let [key, value, written] = line
            .split('\t')
            .map(unescape)
            .collect::<Vec<_>>()
            .try_into()
            .expect("three cells");
        let properties: Properties = [(key, value)].into_iter().collect();
        assert_eq!(properties.store(&[]), format!("{written}\n"));
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Password(secret) => secret.clone(),
        other => other.to_text().expect("a value"),
    }
}

/// Values that Java lets through and we refuse, with the reason.
const VALUE_DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "controller.quorum.bootstrap.servers",
        "PLAINTEXT://:9092",
        "nobody can connect to a server without a host",
    ),
    (
        "follower.replication.throttled.replicas",
        ",",
        "a list of two empty texts names no replica",
    ),
];

#[test]
fn values_are_parsed_and_refused_as_java_does() {
    let tables: [(&str, &'static [Definition]); 4] = [
        ("broker", generated::broker::DEFINITIONS),
        ("topic", generated::topic::DEFINITIONS),
        ("group", generated::group::DEFINITIONS),
        ("client-metrics", generated::client_metrics::DEFINITIONS),
    ];
    let mut failures = Vec::new();
    for line in include_str!("golden/parse.tsv").lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [set, key, text, outcome, expected] = cells.try_into().expect("five cells");
        let table = tables
            .iter()
            .find(|(name, _)| *name == set)
            .expect("a known set")
            .1;
        let definition =
            definition::find(table, key).unwrap_or_else(|| panic!("{key} is not defined"));
        if VALUE_DIFFERENCES
            .iter()
            .any(|&(known, value, _)| known == key && value == text)
        {
            continue;
        }
        // Classes are not loaded here: any name without blanks is taken.
        if definition.kind == kavka_config::Kind::Class
            && !text.trim().is_empty()
            && !text.contains(' ')
        {
            continue;
        }
        let text = unescape(text);
        let ours = match definition.value(Some(&text)) {
            Ok(value) => ("ok", shown(&value)),
            Err(error) => ("error", error.message),
        };
        let expected = (outcome, unescape(expected));
        if ours != expected {
            failures.push(format!(
                "{key}={text:?}\n   java {expected:?}\n   ours {ours:?}"
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Where we mean to differ from `KafkaConfig`, with the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "listeners=PLAINTEXT://0.0.0.0:9092,",
        "a wildcard without advertised.listeners is told as the address a client used",
    ),
    (
        "localhost:99999",
        "a port that cannot be bound is refused at once",
    ),
    (
        "localhost:-5",
        "a port that cannot be bound is refused at once",
    ),
    (
        "broker.id=0|zookeeper.connect",
        "a file of the ZooKeeper age is one of our three vintages",
    ),
    (
        "|zookeeper.connect=localhost:2181",
        "a file of two vintages contradicts itself",
    ),
];

fn listeners<'a>(all: impl Iterator<Item = &'a Listener>) -> String {
    let shown: Vec<String> = all
        .map(|l| format!("{}/{}/{}/{}", l.name, l.security_protocol, l.host, l.port))
        .collect();
    shown.join(",")
}

#[test]
fn server_files_are_understood_as_kafka_does() {
    let mut failures = Vec::new();
    let mut cases = 0;
    for case in include_str!("golden/server.txt").split("\nin ").skip(1) {
        let mut lines = case.lines();
        let input = lines.next().expect("an input");
        if DIFFERENCES.iter().any(|(part, _)| input.contains(part)) {
            continue;
        }
        cases += 1;
        let expected: Vec<String> = lines
            .filter(|line| !line.starts_with("  caused by"))
            .map(|line| line.trim_end().to_owned())
            .collect();
        let properties = Properties::parse(input.replace('|', "\n").as_bytes()).expect("a file");
        let ours = match BrokerConfig::from_properties(&properties) {
            Ok(config) => vec![
                format!("  listeners {}", listeners(config.listeners().iter())),
                format!(
                    "  advertised {}",
                    listeners(config.advertised_listeners().iter())
                ),
                format!(
                    "  inter.broker {} {}",
                    config.inter_broker_listener_name(),
                    config.inter_broker_security_protocol()
                ),
                format!(
                    "  log.dirs {} {}",
                    config.log_dirs().join(","),
                    config.metadata_log_dir()
                ),
                format!("  node {}", config.node_id()),
                format!(
                    "  times {} {} {} {}",
                    config.log_retention_ms(),
                    config.log_roll_ms(),
                    config.log_roll_jitter_ms(),
                    config.log_flush_interval_ms()
                ),
            ]
            .into_iter()
            .map(|line| line.trim_end().to_owned())
            .collect(),
            Err(error) => vec![format!("! {}: {}", error.java_class(), error.message)],
        };
        if ours != expected {
            failures.push(format!("{input}\n   java {expected:#?}\n   ours {ours:#?}"));
        }
    }
    assert!(cases > 100, "only {cases} cases were found");
    assert!(
        failures.is_empty(),
        "{} of {cases} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

const NODE: &str = "process.roles=broker|node.id=1|controller.listener.names=C|controller.quorum.bootstrap.servers=localhost:9093|";

fn layers(settings: &str) -> Layers {
    let file = Properties::parse(format!("{NODE}{settings}").replace('|', "\n").as_bytes())
        .expect("a file");
    Layers::of_file(Arc::new(
        BrokerConfig::from_properties(&file).expect("a node"),
    ))
}

#[test]
fn alterations_are_refused_as_kafka_does() {
    // The JVM divides by the number of threads; loading classes is not ours.
    let differences = [
        "broker log.cleaner.threads=0",
        "broker principal.builder.class=x.Y",
    ];
    let golden = include_str!("golden/alter.txt");
    let lines: Vec<&str> = golden.lines().skip(1).collect();
    let node = layers("");
    for pair in lines.chunks(2) {
        let (what, settings) = pair[0].split_once(' ').expect("what, and settings");
        let properties =
            Properties::parse(settings.replace('|', "\n").as_bytes()).expect("settings");
        let altered: Overrides = properties
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let answer = match what {
            "topic" => kavka_config::topic::check_overrides(Some(&node), &altered),
            _ => node.check_alteration(&altered, what == "broker"),
        };
        let answer = match answer {
            Ok(()) => "  ok".to_owned(),
            Err(error) => format!("  ! {}: {}", error.java_class(), error.message),
        };
        if !differences.contains(&pair[0]) {
            assert_eq!(answer, pair[1], "{}", pair[0]);
        }
    }
}

#[test]
fn topics_inherit_from_the_broker_as_in_kafka() {
    let plain = TopicValues::resolve(&layers(""), &Overrides::new());
    for case in include_str!("golden/topic.txt").split("\nin ").skip(1) {
        let mut lines = case.lines();
        let values = TopicValues::resolve(&layers(lines.next().unwrap_or("")), &Overrides::new());
        let ours: Vec<String> = values
            .iter()
            .filter(|(definition, value)| **value != *plain.get(definition.name))
            .map(|(definition, value)| match value {
                Value::List(items) => format!("  {}=[{}]", definition.name, items.join(", ")),
                other => format!("  {}={}", definition.name, shown(other)),
            })
            .collect();
        assert_eq!(ours, lines.map(str::to_owned).collect::<Vec<_>>(), "{case}");
    }
}

/// `name=value … synonyms={SOURCE:name=value, …}` as the tool prints it.
fn printed(described: &Described) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
    let synonyms: Vec<String> = described
        .synonyms
        .iter()
        .map(|synonym| {
            format!(
                "{}:{}={}",
                synonym.source.name(),
                synonym.name,
                text(&synonym.value)
            )
        })
        .collect();
    format!(
        "  {}={} sensitive={} synonyms={{{}}}",
        described.name,
        text(&described.value),
        described.is_sensitive,
        synonyms.join(", ")
    )
}

/// The settings of one source, taken from the printed synonyms.
fn of_source(printed: &str, source: &str) -> Overrides {
    let mut found = Overrides::new();
    for (_, synonyms) in printed
        .lines()
        .filter_map(|line| line.split_once(" synonyms={"))
    {
        let mut rest = format!(", {synonyms}");
        while let Some((_, after)) = rest.split_once(&format!(", {source}:")) {
            let (key, after) = after.split_once('=').expect("a value");
            let end = after.find(", D").or(after.find('}')).expect("an end");
            found.insert(key.to_owned(), after[..end].to_owned());
            rest = after[end..].to_owned();
        }
    }
    found
}

#[test]
fn settings_are_described_as_kafka_does() {
    let golden = include_str!("golden/describe.txt");
    let mut sections = golden
        .split("$ kafka-configs.sh")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap().1);
    let topic = sections.next().expect("a topic");
    let broker = sections.next().expect("a broker");
    let file: Properties = of_source(broker, "STATIC_BROKER_CONFIG")
        .into_iter()
        .collect();
    let node = Layers {
        file: Arc::new(BrokerConfig::from_properties(&file).expect("a node")),
        dynamic_default: of_source(broker, "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        dynamic_broker: of_source(broker, "DYNAMIC_BROKER_CONFIG"),
    };
    let ours: Vec<String> = source::describe_broker(&node).iter().map(printed).collect();
    let theirs: Vec<&str> = broker
        .lines()
        .filter(|line| line.starts_with(' '))
        .collect();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());

    let node = Layers {
        dynamic_broker: Overrides::new(),
        ..node
    };
    let overrides = of_source(topic, "DYNAMIC_TOPIC_CONFIG");
    let ours: Vec<String> = source::describe_topic(&node, &overrides)
        .iter()
        .map(printed)
        .collect();
    let theirs: Vec<&str> = topic.lines().filter(|line| line.starts_with(' ')).collect();
    assert_eq!(ours, theirs);
}
