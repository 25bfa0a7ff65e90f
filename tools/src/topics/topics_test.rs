use super::describe::{Described, Style, View};
use super::options::{self, Refusal};
use super::plan::*;
use crate::exit::Stop;
use crate::json::Format;
use kavka_client::admin::configs::{ConfigEntry, Source};
use kavka_client::admin::describe_topics::{PartitionDescription, TopicDescription};
use kavka_client::admin::nodes::Reassignment;
use kavka_common::Uuid;
use std::ffi::OsString;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ')
        .filter(|word| !word.is_empty())
        .map(OsString::from)
        .collect()
}

fn plan(line: &str) -> Plan {
    Plan::of(&options::parse(words(&format!("--bootstrap-server b:1 {line}"))).unwrap()).unwrap()
}

fn failure(line: &str) -> String {
    let parsed = options::parse(words(&format!("--bootstrap-server b:1 {line}"))).unwrap();
    Plan::of(&parsed).unwrap_err().exception.trace()
}

fn refused(line: &str) -> String {
    match options::parse(words(line)).unwrap_err() {
        Refusal::Stop(Stop::Usage(text)) => text,
        Refusal::Stop(other) => format!("{other:?}"),
        Refusal::Exception(e) | Refusal::Uncaught(e) => e.trace(),
    }
}

#[test]
fn command_lines_become_plans() {
    assert_eq!(
        plan("--create --topic t --partitions 3 --replication-factor 2 --config retention.ms=1 --if-not-exists")
            .action,
        plan("--create --topic=t -partitions 3 --replication-factor=2 --config retention.ms=1 --if-not-exists")
            .action
    );
}

#[test]
fn create_takes_numbers_or_an_assignment() {
    let Action::Create(topic) =
        plan("--create --topic t --partitions 3 --config retention.ms=5").action
    else {
        panic!()
    };
    assert_eq!(
        topic,
        TopicPlan {
            name: "t".into(),
            partitions: Some(3),
            configs: vec![("retention.ms".into(), "5".into())],
            ..Default::default()
        }
    );
    let Action::Create(topic) = plan("--create --topic t --replica-assignment 1:2,2:3").action
    else {
        panic!()
    };
    assert_eq!(topic.assignment, Some(vec![vec![1, 2], vec![2, 3]]));
    let mut bad = TopicPlan {
        replication_factor: Some(0),
        ..Default::default()
    };
    assert_eq!(
        check_numbers(&bad).unwrap_err().message,
        "The replication factor must be between 1 and 32767 inclusive"
    );
    bad.replication_factor = None;
    bad.partitions = Some(-1);
    assert_eq!(
        check_numbers(&bad).unwrap_err().message,
        "The partitions must be greater than 0"
    );
}

#[test]
fn describe_has_its_filters() {
    let described =
        plan("--describe --topic-id AAAAAAAAAAAAAAAAAAAAAA --at-min-isr-partitions --output json");
    assert_eq!(described.format, Format::Json);
    let Action::Describe(describe) = described.action else {
        panic!()
    };
    assert_eq!(describe.topic_id, None);
    assert!(describe.reports.at_min_isr && describe.reports.only_partitions());
    assert_eq!(describe.partitions_per_response, 2000);
}

#[test]
fn values_are_refused_in_javas_words() {
    for (line, text) in [
        (
            "--create --topic t --partitions abc",
            "joptsimple.OptionArgumentConversionException: Cannot parse argument 'abc' of option partitions",
        ),
        (
            "--create --topic t --config retention.ms",
            "java.lang.IllegalArgumentException: requirement failed: Invalid topic config: all configs to be added must be in the format \"key=val\".",
        ),
        (
            "--create --topic t --config no.such.config=1",
            "org.apache.kafka.common.errors.InvalidConfigurationException: Unknown topic config name: no.such.config",
        ),
        (
            "--create --topic t --config retention.ms=abc",
            "org.apache.kafka.common.config.ConfigException: Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "--create --topic t --replica-assignment 1:1",
            "org.apache.kafka.tools.AdminCommandFailedException: Partition replica lists may not contain duplicate entries: 1",
        ),
        (
            "--create --topic t --replica-assignment 1:2,3",
            "org.apache.kafka.tools.AdminOperationException: Partition 1 has different replication factor: [3]",
        ),
        (
            "--create --topic t --replica-assignment 1,x",
            "java.lang.NumberFormatException: For input string: \"x\"",
        ),
        (
            "--describe --topic-id notanid",
            "java.lang.IllegalArgumentException: Input string `notanid` decoded as 5 bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID",
        ),
        (
            "--list --output xml",
            "java.lang.IllegalArgumentException: --output xml is not known; it is one of text, table, json",
        ),
    ] {
        let line = line.replace("a.b=1", "retention.ms=1");
        assert_eq!(failure(&line), text, "{line}");
    }
}

#[test]
fn settings_have_one_equals_sign() {
    let parse = |text: &str| parse_configs(&[text.to_owned()]);
    assert_eq!(
        parse(" retention.ms = 1 ").unwrap(),
        [("retention.ms".to_owned(), "1".to_owned())]
    );
    for bad in ["retention.ms", "retention.ms=", "=", "retention.ms=1=2"] {
        assert!(parse(bad).unwrap_err().message.contains("key=val"), "{bad}");
    }
    // Brackets are part of the value; kafka-configs reads them otherwise.
    assert_eq!(
        parse("cleanup.policy=[compact,delete]")
            .unwrap_err()
            .message,
        "Invalid value [compact for configuration cleanup.policy: String must be one of: compact, delete"
    );
    assert_eq!(
        parse("cleanup.policy=compact,delete").unwrap(),
        [("cleanup.policy".to_owned(), "compact,delete".to_owned())]
    );
    assert!(parse("remote.storage.enable=true").is_ok());
}

#[test]
fn options_that_do_not_go_together() {
    for (line, text) in [
        (
            "--list",
            "java.lang.IllegalArgumentException: --bootstrap-server must be specified",
        ),
        (
            "--bootstrap-server b:1",
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
        ),
        (
            "--bootstrap-server b:1 --list --describe",
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
        ),
        (
            "--bootstrap-server b:1 --list --nonsense",
            "joptsimple.UnrecognizedOptionException: nonsense is not a recognized option",
        ),
        (
            "--bootstrap-server b:1 --create",
            "Missing required argument \"[topic]\"",
        ),
        (
            "--bootstrap-server b:1 --alter --topic t",
            "Missing required argument \"[partitions]\"",
        ),
        (
            "--bootstrap-server b:1 --list --if-exists",
            "Option \"[if-exists]\" can't be used with option \"[list]\"",
        ),
        (
            "--bootstrap-server b:1 --describe --partitions 3",
            "Option \"[partitions]\" can't be used with option \"[describe]\"",
        ),
        (
            "--bootstrap-server b:1 --create --topic t --partitions 1 --replica-assignment 1",
            "Option \"[replica-assignment]\" can't be used with option \"[partitions]\"",
        ),
        (
            "--bootstrap-server b:1 --describe --topics-with-overrides --at-min-isr-partitions",
            "Option \"[at-min-isr-partitions]\" can't be used with option \"[topics-with-overrides]\"",
        ),
        (
            "--bootstrap-server b:1 --describe --if-exists",
            "--topic or --topic-id is required to describe a topic",
        ),
        (
            "--zookeeper z:1 --bootstrap-server b:1 --list",
            "java.lang.IllegalArgumentException: Only one of --bootstrap-server or --zookeeper must be specified",
        ),
        (
            "--zookeeper z:1 --create --topic x",
            "Missing required argument \"[partitions]\"",
        ),
        (
            "--zookeeper z:1 --create --topic x --partitions 1",
            "Missing required argument \"[replication-factor]\"",
        ),
    ] {
        assert_eq!(refused(line), text, "{line}");
    }
    assert!(
        options::parse(words(
            "--zookeeper z:1 --create --topic x --replica-assignment 1,1"
        ))
        .is_ok()
    );
    assert!(
        options::parse(words(
            "--zookeeper z:1 --alter --topic x --config retention.ms=1"
        ))
        .is_ok()
    );
}

#[test]
fn topics_are_meant_by_whole_names() {
    let matching = |text: &str, topic: &str| IncludeList::new(text).unwrap().matches(topic);
    assert!(matching("t.*", "two") && !matching("t.*", "atwo"));
    assert!(matching("one, two", "two") && !matching("one,two", "three"));
    assert!(matching("'quoted'", "quoted"));
    assert!(matching("a.b", "a.b") && matching("a.b", "axb"));
    assert!(!matching("", "x"));
    assert_eq!(
        IncludeList::new("[").unwrap_err().trace(),
        "java.lang.RuntimeException: [ is an invalid regex."
    );
}

fn entry(name: &str, value: &str, source: Source) -> ConfigEntry {
    ConfigEntry {
        name: name.into(),
        value: Some(value.into()),
        source,
        is_sensitive: false,
        is_read_only: false,
        synonyms: Vec::new(),
    }
}

fn described() -> Described {
    // As many settings as a topic has: the order of those that are shown depends on it.
    let mut configs: Vec<ConfigEntry> = (0..31)
        .map(|n| entry(&format!("other.{n}"), "x", Source::Default))
        .collect();
    for (name, value, source) in [
        ("retention.ms", "60000", Source::DynamicTopic),
        ("min.insync.replicas", "1", Source::DynamicDefaultBroker),
        ("cleanup.policy", "compact", Source::DynamicTopic),
    ] {
        configs.push(entry(name, value, source));
    }
    Described {
        topic: TopicDescription {
            name: "three".into(),
            topic_id: "tUCcCVD8TUaMZzT5iZC6cQ".parse::<Uuid>().unwrap(),
            is_internal: false,
            partitions: vec![
                PartitionDescription {
                    partition: 0,
                    leader: Some(3),
                    replicas: vec![3, 1, 2],
                    isr: vec![3, 1, 2],
                    elr: Some(vec![]),
                    last_known_elr: Some(vec![]),
                },
                PartitionDescription {
                    partition: 1,
                    leader: None,
                    replicas: vec![3],
                    isr: vec![],
                    elr: Some(vec![3]),
                    last_known_elr: None,
                },
                PartitionDescription {
                    partition: 2,
                    leader: Some(9),
                    replicas: vec![9, 1],
                    isr: vec![9],
                    elr: None,
                    last_known_elr: Some(vec![1]),
                },
            ],
        },
        configs,
        reassignments: Default::default(),
    }
}

fn view(style: Style, reports: Reports) -> View {
    View {
        style,
        reports,
        live_brokers: [1, 2, 3].into(),
    }
}

#[test]
fn descriptions_are_apaches_lines() {
    let topic = described();
    assert_eq!(
        topic.text(&view(Style::Current, Reports::default())),
        "Topic: three\tTopicId: tUCcCVD8TUaMZzT5iZC6cQ\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: min.insync.replicas=1,cleanup.policy=compact,retention.ms=60000\n\
\tTopic: three\tPartition: 0\tLeader: 3\tReplicas: 3,1,2\tIsr: 3,1,2\tElr: \tLastKnownElr: \n\
\tTopic: three\tPartition: 1\tLeader: none\tReplicas: 3\tIsr: \tElr: 3\tLastKnownElr: N/A\n\
\tTopic: three\tPartition: 2\tLeader: 9\tReplicas: 9,1\tIsr: 9\tElr: N/A\tLastKnownElr: 1\n"
    );
    assert_eq!(
        topic
            .text(&view(Style::TwoX, Reports::default()))
            .lines()
            .next(),
        Some(
            "Topic: three\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: cleanup.policy=compact,retention.ms=60000"
        )
    );
    assert!(
        !topic
            .text(&view(Style::TwoX, Reports::default()))
            .contains("Elr")
    );
}

#[test]
fn reports_choose_partitions() {
    let topic = described();
    let partitions = |reports: Reports| {
        topic
            .text(&view(Style::Current, reports))
            .lines()
            .map(|line| line.split('\t').nth(2).unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let none = Reports::default();
    for (reports, expected) in [
        (
            Reports {
                under_replicated: true,
                ..none
            },
            "Partition: 1 Partition: 2",
        ),
        (
            Reports {
                unavailable: true,
                ..none
            },
            "Partition: 1 Partition: 2",
        ),
        (
            Reports {
                under_min_isr: true,
                ..none
            },
            "Partition: 1",
        ),
        (
            Reports {
                at_min_isr: true,
                ..none
            },
            "Partition: 2",
        ),
    ] {
        assert_eq!(partitions(reports), expected, "{reports:?}");
    }
    let overridden = Reports {
        overridden_configs: true,
        ..none
    };
    assert_eq!(
        topic
            .text(&view(Style::Current, overridden))
            .lines()
            .count(),
        1
    );
    let mut plain = topic.clone();
    plain.configs.clear();
    assert_eq!(plain.text(&view(Style::Current, overridden)), "");
}

#[test]
fn moves_show_and_do_not_count_as_replicas() {
    let mut topic = described();
    topic.reassignments.insert(
        0,
        Reassignment {
            replicas: vec![3, 1, 2],
            adding_replicas: vec![2],
            removing_replicas: vec![1],
        },
    );
    let text = topic.text(&view(Style::Current, Reports::default()));
    let mut lines = text.lines();
    assert!(lines.next().unwrap().contains("ReplicationFactor: 2"));
    assert!(lines.next().unwrap().ends_with(
        "\tIsr: 3,1,2\tAdding Replicas: 2\tRemoving Replicas: 1\tElr: \tLastKnownElr: "
    ));
}

#[test]
fn documents_hold_what_lines_hold() {
    let document = super::describe::document(
        &[described()],
        &view(
            Style::Current,
            Reports {
                unavailable: true,
                ..Default::default()
            },
        ),
    );
    let topic = &document["topics"][0];
    assert_eq!(topic["configs"]["retention.ms"], "60000");
    assert_eq!(topic["partitions"].as_array().unwrap().len(), 2);
    assert_eq!(topic["partitions"][0]["leader"], serde_json::Value::Null);
    assert_eq!(topic["partitions"][0]["elr"], serde_json::json!([3]));
}
