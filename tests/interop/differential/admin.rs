//! CreateTopics, CreatePartitions, DeleteTopics, DescribeConfigs, AlterConfigs, IncrementalAlterConfigs.
//! Not here: what clients do with the topics (logs, groups).
//! Part of the duel; each version makes topics of its own. Kafka: the answers of 4.3.1.

use crate::Duel;
use crate::side::Side;
use kavka_common::Uuid;
use kavka_protocol::messages::alter_configs_request::{
    AlterConfigsResource, AlterableConfig as Whole,
};
use kavka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kavka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kavka_protocol::messages::delete_topics_request::DeleteTopicState;
use kavka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kavka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource as IncrementalResource, AlterableConfig,
};
use kavka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, IncrementalAlterConfigsRequest,
};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

pub async fn run(duel: &mut Duel) {
    creating(duel).await;
    growing(duel).await;
    settings(duel).await;
    changing_settings(duel).await;
    deleting(duel).await;
}

fn topic(name: &str, partitions: i32, replicas: i16) -> CreatableTopic {
    CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: replicas,
        ..Default::default()
    }
}

fn with_config(name: &str, key: &str, value: Option<&str>) -> CreatableTopic {
    CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: key.into(),
            value: value.map(Into::into),
            ..Default::default()
        }],
        ..topic(name, 1, 1)
    }
}

fn placed(name: &str, places: &[(i32, &[i32])]) -> CreatableTopic {
    CreatableTopic {
        assignments: places
            .iter()
            .map(|(partition, brokers)| CreatableReplicaAssignment {
                partition_index: *partition,
                broker_ids: brokers.to_vec(),
                ..Default::default()
            })
            .collect(),
        ..topic(name, -1, -1)
    }
}

async fn creating(duel: &mut Duel) {
    let here = duel.theirs.broker_id;
    type Make = Box<dyn Fn(i16) -> Vec<CreatableTopic>>;
    let cases: Vec<(&str, bool, Make)> = vec![
        (
            "plain",
            false,
            Box::new(|v| vec![topic(&format!("made-{v}"), 2, 1)]),
        ),
        (
            "again",
            false,
            Box::new(|v| vec![topic(&format!("made-{v}"), 2, 1)]),
        ),
        (
            "defaults",
            false,
            Box::new(|v| vec![topic(&format!("default-{v}"), -1, -1)]),
        ),
        (
            "only validated",
            true,
            Box::new(|v| vec![topic(&format!("dry-{v}"), 2, 1)]),
        ),
        (
            "no partitions",
            false,
            Box::new(|_| vec![topic("zero", 0, 1)]),
        ),
        (
            "negative partitions",
            false,
            Box::new(|_| vec![topic("less", -5, 1)]),
        ),
        (
            "no replicas",
            false,
            Box::new(|_| vec![topic("none", 1, 0)]),
        ),
        (
            "too many replicas",
            false,
            Box::new(|_| vec![topic("many", 1, 5)]),
        ),
        (
            "illegal name",
            false,
            Box::new(|_| vec![topic("a b", 1, 1)]),
        ),
        ("empty name", false, Box::new(|_| vec![topic("", 1, 1)])),
        (
            "long name",
            false,
            Box::new(|_| vec![topic(&"n".repeat(250), 1, 1)]),
        ),
        ("dots", false, Box::new(|_| vec![topic("..", 1, 1)])),
        (
            "colliding name",
            false,
            Box::new(|v| {
                vec![
                    topic(&format!("col.{v}"), 1, 1),
                    topic(&format!("col_{v}"), 1, 1),
                ]
            }),
        ),
        (
            "internal name",
            false,
            Box::new(|_| vec![topic("__cluster_metadata", 1, 1)]),
        ),
        (
            "twice in one request",
            false,
            Box::new(|v| {
                vec![
                    topic(&format!("twice-{v}"), 1, 1),
                    topic(&format!("twice-{v}"), 1, 1),
                ]
            }),
        ),
        ("nothing", false, Box::new(|_| vec![])),
        (
            "with a setting",
            false,
            Box::new(|v| {
                vec![with_config(
                    &format!("set-{v}"),
                    "retention.ms",
                    Some("60000"),
                )]
            }),
        ),
        (
            "unknown setting",
            false,
            Box::new(|_| vec![with_config("unknown", "no.such.key", Some("1"))]),
        ),
        (
            "setting without value",
            false,
            Box::new(|_| vec![with_config("valueless", "retention.ms", None)]),
        ),
        (
            "setting of a wrong type",
            false,
            Box::new(|_| vec![with_config("wrong", "retention.ms", Some("soon"))]),
        ),
        (
            "setting out of bounds",
            false,
            Box::new(|_| vec![with_config("bounds", "segment.bytes", Some("1"))]),
        ),
        (
            "setting of a wrong word",
            false,
            Box::new(|_| vec![with_config("word", "cleanup.policy", Some("shred"))]),
        ),
        (
            "placed",
            false,
            Box::new(move |v| {
                vec![placed(
                    &format!("placed-{v}"),
                    &[(0, &[here]), (1, &[here])],
                )]
            }),
        ),
        (
            "placed with a gap",
            false,
            Box::new(move |_| vec![placed("gap", &[(0, &[here]), (2, &[here])])]),
        ),
        (
            "placed nowhere",
            false,
            Box::new(|_| vec![placed("nobody", &[(0, &[])])]),
        ),
        (
            "placed on a stranger",
            false,
            Box::new(|_| vec![placed("stranger", &[(0, &[77])])]),
        ),
        (
            "placed twice on one broker",
            false,
            Box::new(move |_| vec![placed("double", &[(0, &[here, here])])]),
        ),
        (
            "placed and counted",
            false,
            Box::new(move |_| {
                let mut both = placed("both", &[(0, &[here])]);
                both.num_partitions = 3;
                vec![both]
            }),
        ),
    ];
    for (what, validate_only, make) in &cases {
        duel.each_version(what, |version, _| {
            Some(CreateTopicsRequest {
                topics: make(version),
                timeout_ms: 10_000,
                validate_only: *validate_only,
                ..Default::default()
            })
        })
        .await;
    }
}

async fn growing(duel: &mut Duel) {
    let here = duel.theirs.broker_id;
    type Growth<'a> = (&'a str, Option<&'a str>, i32, Option<Vec<Vec<i32>>>, bool);
    let cases: Vec<Growth<'_>> = vec![
        ("to five", None, 5, None, false),
        ("only validated", None, 9, None, true),
        ("to the same count", None, 5, None, false),
        ("to fewer", None, 1, None, false),
        ("to none", None, 0, None, false),
        ("unknown topic", Some("nowhere"), 3, None, false),
        ("illegal name", Some("a b"), 3, None, false),
        ("placed", None, 6, Some(vec![vec![here]]), false),
        ("placed too few", None, 9, Some(vec![vec![here]]), false),
        ("placed on a stranger", None, 7, Some(vec![vec![77]]), false),
        (
            "placed with other replication",
            None,
            7,
            Some(vec![vec![here, 78]]),
            false,
        ),
    ];
    for (what, name, count, assignments, validate_only) in &cases {
        duel.each_version(what, |version, _| {
            // CreateTopics begins at version 2: use its topics.
            let own = format!("made-{}", version + 2);
            Some(CreatePartitionsRequest {
                topics: vec![CreatePartitionsTopic {
                    name: name.unwrap_or(&own).into(),
                    count: *count,
                    assignments: assignments.as_ref().map(|lists| {
                        lists
                            .iter()
                            .map(|brokers| CreatePartitionsAssignment {
                                broker_ids: brokers.clone(),
                                ..Default::default()
                            })
                            .collect()
                    }),
                    ..Default::default()
                }],
                timeout_ms: 10_000,
                validate_only: *validate_only,
                ..Default::default()
            })
        })
        .await;
    }
}

fn describe(kind: i8, name: &str, keys: Option<&[&str]>, version: i16) -> DescribeConfigsRequest {
    DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: kind,
            resource_name: name.into(),
            configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).into()).collect()),
            ..Default::default()
        }],
        include_synonyms: true,
        // The texts are Apache's documentation, which is not copied.
        include_documentation: false,
        ..Default::default()
    }
    .for_version(version)
}

trait ForVersion {
    fn for_version(self, version: i16) -> Self;
}

impl ForVersion for DescribeConfigsRequest {
    fn for_version(mut self, version: i16) -> Self {
        self.include_documentation &= version >= 3;
        self
    }
}

const BROKER_KEYS: &[&str] = &[
    "num.partitions",
    "log.retention.ms",
    "log.retention.hours",
    "compression.type",
    "background.threads",
    "min.insync.replicas",
    "message.max.bytes",
    "auto.create.topics.enable",
    "ssl.keystore.password",
];

async fn settings(duel: &mut Duel) {
    let own = duel.theirs.broker_id.to_string();
    for (what, kind, name, keys) in [
        ("a topic", TOPIC, "d1", None),
        ("a topic with its own setting", TOPIC, "set-7", None),
        (
            "some keys of a topic",
            TOPIC,
            "d1",
            Some(&["retention.ms", "no.such.key"][..]),
        ),
        ("no keys", TOPIC, "d1", Some(&[][..])),
        ("a missing topic", TOPIC, "nowhere", None),
        ("an illegal topic", TOPIC, "a b", None),
        (
            "some keys of the broker",
            BROKER,
            own.as_str(),
            Some(BROKER_KEYS),
        ),
        ("the default of brokers", BROKER, "", None),
        ("another broker", BROKER, "77", None),
        ("a broker by no number", BROKER, "one", None),
        ("an unknown kind", 99, "x", None),
    ] {
        duel.each_version(what, |version, _| Some(describe(kind, name, keys, version)))
            .await;
    }
}

fn increment(
    kind: i8,
    name: &str,
    changes: &[(&str, i8, Option<&str>)],
) -> IncrementalAlterConfigsRequest {
    IncrementalAlterConfigsRequest {
        resources: vec![IncrementalResource {
            resource_type: kind,
            resource_name: name.into(),
            configs: changes
                .iter()
                .map(|(key, operation, value)| AlterableConfig {
                    name: (*key).into(),
                    config_operation: *operation,
                    value: value.map(Into::into),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn changing_settings(duel: &mut Duel) {
    const SET: i8 = 0;
    const DELETE: i8 = 1;
    const APPEND: i8 = 2;
    const SUBTRACT: i8 = 3;
    let own = duel.theirs.broker_id.to_string();
    type Change<'a> = (&'a str, i8, Option<&'a str>);
    let cases: Vec<(&str, i8, &str, Vec<Change<'_>>)> = vec![
        (
            "set",
            TOPIC,
            "d1",
            vec![("retention.ms", SET, Some("1000000"))],
        ),
        (
            "append",
            TOPIC,
            "d1",
            vec![("cleanup.policy", APPEND, Some("compact"))],
        ),
        (
            "append again",
            TOPIC,
            "d1",
            vec![("cleanup.policy", APPEND, Some("compact"))],
        ),
        (
            "subtract",
            TOPIC,
            "d1",
            vec![("cleanup.policy", SUBTRACT, Some("compact"))],
        ),
        (
            "append to a number",
            TOPIC,
            "d1",
            vec![("retention.ms", APPEND, Some("1"))],
        ),
        ("delete", TOPIC, "d1", vec![("retention.ms", DELETE, None)]),
        (
            "delete what is not set",
            TOPIC,
            "d1",
            vec![("retention.bytes", DELETE, None)],
        ),
        (
            "unknown key",
            TOPIC,
            "d1",
            vec![("no.such.key", SET, Some("1"))],
        ),
        (
            "wrong type",
            TOPIC,
            "d1",
            vec![("retention.ms", SET, Some("soon"))],
        ),
        (
            "out of bounds",
            TOPIC,
            "d1",
            vec![("segment.bytes", SET, Some("1"))],
        ),
        ("null", TOPIC, "d1", vec![("retention.ms", SET, None)]),
        (
            "unknown operation",
            TOPIC,
            "d1",
            vec![("retention.ms", 9, Some("1"))],
        ),
        (
            "twice",
            TOPIC,
            "d1",
            vec![
                ("retention.ms", SET, Some("1")),
                ("retention.ms", SET, Some("2")),
            ],
        ),
        (
            "missing topic",
            TOPIC,
            "nowhere",
            vec![("retention.ms", SET, Some("1"))],
        ),
        (
            "dynamic setting of the broker",
            BROKER,
            &own,
            vec![("log.cleaner.threads", SET, Some("2"))],
        ),
        (
            "read-only setting of the broker",
            BROKER,
            &own,
            vec![("broker.id", SET, Some("2"))],
        ),
        (
            "cluster-wide default",
            BROKER,
            "",
            vec![("message.max.bytes", SET, Some("2000000"))],
        ),
        (
            "remove the cluster-wide default",
            BROKER,
            "",
            vec![("message.max.bytes", DELETE, None)],
        ),
        (
            "another broker",
            BROKER,
            "77",
            vec![("log.cleaner.threads", SET, Some("2"))],
        ),
        ("unknown kind", 99, "x", vec![("a", SET, Some("b"))]),
    ];
    for (what, kind, name, changes) in &cases {
        duel.each_version(what, |_, _| Some(increment(*kind, name, changes)))
            .await;
    }
    for (what, name, key, value, validate_only) in [
        ("set", "d2", "retention.ms", Some("5000000"), false),
        (
            "only validated",
            "d2",
            "retention.ms",
            Some("6000000"),
            true,
        ),
        ("unknown key", "d2", "no.such.key", Some("1"), false),
        ("null", "d2", "retention.ms", None, false),
        ("missing topic", "nowhere", "retention.ms", Some("1"), false),
        ("to defaults", "d2", "retention.bytes", Some("-1"), false),
    ] {
        duel.each_version(what, |_, _| {
            Some(AlterConfigsRequest {
                resources: vec![AlterConfigsResource {
                    resource_type: TOPIC,
                    resource_name: name.into(),
                    configs: vec![Whole {
                        name: key.into(),
                        value: value.map(Into::into),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                validate_only,
                ..Default::default()
            })
        })
        .await;
        duel.one(&format!("after '{what}'"), 4, |version, _| {
            Some(describe(TOPIC, "d2", None, version))
        })
        .await;
    }
}

fn by_name(version: i16, names: &[&str]) -> DeleteTopicsRequest {
    let states = version >= 6;
    DeleteTopicsRequest {
        topics: if states {
            names
                .iter()
                .map(|name| DeleteTopicState {
                    name: Some((*name).into()),
                    ..Default::default()
                })
                .collect()
        } else {
            Vec::new()
        },
        topic_names: if states {
            Vec::new()
        } else {
            names.iter().map(|name| (*name).into()).collect()
        },
        timeout_ms: 10_000,
        ..Default::default()
    }
}

async fn deleting(duel: &mut Duel) {
    for (what, fixed) in [
        ("a topic", None),
        ("again", None),
        ("missing", Some("nowhere")),
        ("illegal name", Some("a b")),
    ] {
        duel.each_version(what, |version, _| {
            let own = format!("default-{}", version.max(2));
            // Version 1 shares its topic with version 2.
            Some(by_name(version, &[fixed.unwrap_or(&own)]))
                .filter(|_| version > 1 || fixed.is_some())
        })
        .await;
    }
    let by_id = |id: fn(&Side) -> Uuid| {
        move |version: i16, side: &Side| {
            (version >= 6).then(|| DeleteTopicsRequest {
                topics: vec![DeleteTopicState {
                    name: None,
                    topic_id: id(side),
                    ..Default::default()
                }],
                timeout_ms: 10_000,
                ..Default::default()
            })
        }
    };
    duel.each_version("an unknown id", by_id(|_| Uuid::from_bytes([5; 16])))
        .await;
    duel.each_version("by id", by_id(|side| side.topic_id("d2")))
        .await;
    duel.each_version("twice in one request", |version, _| {
        Some(by_name(version, &["placed-7", "placed-7"]))
    })
    .await;
}
