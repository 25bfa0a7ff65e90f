//! Our reading of properties files, values and whole server files against what the JVM made of the same text.
//! Not here: what Kafka has no counterpart for (the ZooKeeper age, remedies): see tests/vintages.rs.
//! Run by `cargo test`; the goldens were written by ConfigDef, KafkaConfig and java.util.Properties of 4.3.1 and JDK 17.

use kavka_config::{BrokerConfig, Definition, Listener, Properties, Value, definition, generated};

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
