//! Creating, deleting and growing topics.
use super::test_cluster::*;
use super::*;
use kavka_metadata::topics::raw_ids;
use kavka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kavka_protocol::messages::*;

fn topic(name: &str) -> CreatableTopic {
    CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    }
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> CreatableTopic {
    CreatableTopic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: assignments
            .iter()
            .map(|(index, brokers)| CreatableReplicaAssignment {
                partition_index: *index,
                broker_ids: brokers.to_vec(),
                ..Default::default()
            })
            .collect(),
        ..topic(name)
    }
}

fn configured(name: &str, key: &str, value: Option<&str>) -> CreatableTopic {
    CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: key.into(),
            value: value.map(Into::into),
            ..Default::default()
        }],
        ..topic(name)
    }
}

/// Messages are those that Apache Kafka 4.3.1 gave (see the recorded transcripts) or has in its classes.
#[test]
fn create_topics_refuses_as_kafka_does() {
    let mut cluster = TestCluster::with_brokers(3, "");
    assert_eq!(cluster.create("one", 1, 1), ErrorCode::None);
    assert_eq!(cluster.create("with_underscore", 1, 1), ErrorCode::None);
    use ErrorCode::*;
    let long = "x".repeat(250);
    let cases = [
        (topic("one"), TopicAlreadyExists, "Topic 'one' already exists.".to_owned()),
        (
            topic("with.underscore"),
            InvalidTopicException,
            "Topic 'with.underscore' collides with existing topic: with_underscore".into(),
        ),
        (
            topic("bad name"),
            InvalidTopicException,
            "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'".into(),
        ),
        (
            topic(&long),
            InvalidTopicException,
            format!("Topic name is invalid: the length of '{long}' is longer than the max allowed length 249"),
        ),
        (
            topic("__cluster_metadata"),
            InvalidRequest,
            "Creation of internal topic __cluster_metadata is prohibited.".into(),
        ),
        (
            CreatableTopic { replication_factor: 4, ..topic("toomany") },
            InvalidReplicationFactor,
            "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only 3 broker(s) are registered or some brokers have all their log directories cordoned.".into(),
        ),
        (
            CreatableTopic { replication_factor: 0, ..topic("zero") },
            InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.".into(),
        ),
        (
            CreatableTopic { num_partitions: 0, ..topic("zerop") },
            InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.".into(),
        ),
        (
            CreatableTopic { num_partitions: -2, ..topic("negp") },
            InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.".into(),
        ),
        (
            CreatableTopic { num_partitions: 1_000_000, ..topic("huge") },
            PolicyViolation,
            "Excessively large number of partitions per request.".into(),
        ),
        (
            configured("badcfg", "no.such.config", Some("1")),
            InvalidConfig,
            "Unknown topic config name: no.such.config".into(),
        ),
        (
            configured("badcfg", "retention.ms", Some("abc")),
            InvalidConfig,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG".into(),
        ),
        (
            configured("badcfg", "cleanup.policy", Some("maybe")),
            InvalidConfig,
            "Invalid value maybe for configuration cleanup.policy: String must be one of: compact, delete".into(),
        ),
        (
            configured("badcfg", "retention.ms", Option::None),
            InvalidConfig,
            "Null value not supported for topic configs: retention.ms".into(),
        ),
        (
            assigned("badplace", &[(0, &[9])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.".into(),
        ),
        (
            assigned("badplace", &[(0, &[1, 1])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes the broker 1 more than once.".into(),
        ),
        (
            assigned("badplace", &[(0, &[])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes an empty replica list.".into(),
        ),
        (
            assigned("badplace", &[(0, &[1, 2]), (1, &[3])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with previous partitions, which have 2 replica(s).".into(),
        ),
        (
            assigned("badplace", &[(1, &[1])]),
            InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence".into(),
        ),
        (
            assigned("badplace", &[(0, &[1]), (0, &[2])]),
            InvalidReplicaAssignment,
            "Found multiple manual partition assignments for partition 0".into(),
        ),
        (
            CreatableTopic { num_partitions: 1, ..assigned("badplace", &[(0, &[1])]) },
            InvalidRequest,
            "A manual partition assignment was specified, but numPartitions was not set to -1.".into(),
        ),
        (
            CreatableTopic { replication_factor: 1, ..assigned("badplace", &[(0, &[1])]) },
            InvalidRequest,
            "A manual partition assignment was specified, but replication factor was not set to -1.".into(),
        ),
    ];
    for (topic, error, message) in cases {
        let name = topic.name.clone();
        let before = cluster.image.clone();
        let response = cluster.create_topics(CreateTopicsRequest {
            topics: vec![topic],
            ..Default::default()
        });
        let result = &response.topics[0];
        assert_eq!(ErrorCode::from(result.error_code), error, "{name}");
        assert_eq!(result.error_message.as_deref(), Some(&*message), "{name}");
        assert_eq!(cluster.image, before, "{name} left something behind");
    }
}

#[test]
fn create_topics_takes_defaults_and_tells_them() {
    let mut cluster =
        TestCluster::with_brokers(3, "num.partitions=5\ndefault.replication.factor=2\n");
    let response = cluster.create_topics(CreateTopicsRequest {
        topics: vec![CreatableTopic {
            num_partitions: -1,
            replication_factor: -1,
            ..configured("t", "cleanup.policy", Some("compact"))
        }],
        ..Default::default()
    });
    let result = &response.topics[0];
    assert_eq!(
        (
            result.error_code,
            result.num_partitions,
            result.replication_factor
        ),
        (0, 5, 2)
    );
    assert_eq!(cluster.image.topics.id_of("t"), Some(result.topic_id));
    let configs = result.configs.as_ref().unwrap();
    let config = |name: &str| configs.iter().find(|config| &*config.name == name).unwrap();
    assert_eq!(config("cleanup.policy").value.as_deref(), Some("compact"));
    assert_eq!(config("cleanup.policy").config_source, 1);
    assert_eq!(config("min.insync.replicas").config_source, 3);
    assert_eq!(config("retention.bytes").config_source, 5);
    let leaders: Vec<i32> = (0..3)
        .map(|partition| cluster.partition("t", partition).leader.get())
        .collect();
    assert_eq!(
        leaders
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        3,
        "{leaders:?}"
    );
}

#[test]
fn validate_only_creates_nothing() {
    let mut cluster = TestCluster::with_brokers(1, "");
    let response = cluster.create_topics(CreateTopicsRequest {
        topics: vec![topic("t")],
        validate_only: true,
        ..Default::default()
    });
    assert_eq!(response.topics[0].error_code, 0);
    assert!(cluster.image.topics.is_empty());
}

#[test]
fn a_topic_named_twice_is_refused_once() {
    let mut cluster = TestCluster::with_brokers(1, "");
    let response = cluster.create_topics(CreateTopicsRequest {
        topics: vec![topic("t"), topic("t"), topic("u")],
        ..Default::default()
    });
    let errors: Vec<i16> = response
        .topics
        .iter()
        .map(|topic| topic.error_code)
        .collect();
    assert_eq!(errors, [ErrorCode::InvalidRequest.code(), 0]);
}

fn delete(
    cluster: &mut TestCluster,
    version: i16,
    request: DeleteTopicsRequest,
) -> Vec<(ErrorCode, Option<String>)> {
    match cluster
        .handle(version, AnyRequest::DeleteTopics(request))
        .response
    {
        AnyResponse::DeleteTopics(response) => response
            .responses
            .into_iter()
            .map(|topic| {
                (
                    ErrorCode::from(topic.error_code),
                    topic.error_message.map(|text| text.to_string()),
                )
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let mut cluster = TestCluster::with_brokers(1, "");
    for name in ["a", "b", "c"] {
        assert_eq!(cluster.create(name, 1, 1), ErrorCode::None);
    }
    let resource = ConfigResource::topic("a");
    assert_eq!(
        cluster
            .alter_config(&resource, "retention.ms", 0, Some("1"))
            .0,
        ErrorCode::None
    );
    let id = cluster.image.topics.id_of("b").unwrap();
    let by_name = DeleteTopicsRequest {
        topic_names: vec!["a".into(), "none".into()],
        ..Default::default()
    };
    assert_eq!(
        delete(&mut cluster, 5, by_name),
        [
            (ErrorCode::None, None),
            (
                ErrorCode::UnknownTopicOrPartition,
                Some("This server does not host this topic-partition.".into())
            )
        ]
    );
    assert!(
        cluster.image.configs.get(&resource).is_none(),
        "settings outlived the topic"
    );
    let twice = DeleteTopicsRequest {
        topic_names: vec!["c".into(), "c".into()],
        ..Default::default()
    };
    assert_eq!(
        delete(&mut cluster, 5, twice),
        [(
            ErrorCode::InvalidRequest,
            Some("Duplicate topic name.".into())
        )]
    );
    let state = |name: Option<&str>, topic_id| delete_topics_request::DeleteTopicState {
        name: name.map(Into::into),
        topic_id,
        ..Default::default()
    };
    let by_either = DeleteTopicsRequest {
        topics: vec![
            state(None, id),
            state(None, Uuid::ZERO),
            state(Some("c"), id),
            state(None, uuid(99)),
            state(Some("b"), Uuid::ZERO),
        ],
        ..Default::default()
    };
    let messages: Vec<String> = delete(&mut cluster, 6, by_either)
        .into_iter()
        .map(|(_, message)| message.unwrap_or_default())
        .collect();
    assert_eq!(
        messages,
        [
            "",
            "Neither topic name nor id were specified.",
            "You may not specify both topic name and topic id.",
            "This server does not host this topic ID.",
            "The provided topic name maps to an ID that was already supplied.",
        ]
    );
    assert_eq!(cluster.image.topics.len(), 1);
    // C8: a name that comes back gets another id.
    assert_eq!(cluster.create("b", 1, 1), ErrorCode::None);
    assert_ne!(cluster.image.topics.id_of("b"), Some(id));
}

#[test]
fn deletion_can_be_switched_off() {
    let mut cluster = TestCluster::with_brokers(1, "delete.topic.enable=false\n");
    cluster.create("a", 1, 1);
    let request = DeleteTopicsRequest {
        topic_names: vec!["a".into()],
        ..Default::default()
    };
    assert_eq!(
        delete(&mut cluster, 5, request)[0].0,
        ErrorCode::TopicDeletionDisabled
    );
    assert!(cluster.image.topics.contains("a"));
}

#[test]
fn partitions_are_added() {
    let mut cluster = TestCluster::with_brokers(3, "");
    cluster.create("t", 2, 2);
    let ask =
        |cluster: &mut TestCluster, name: &str, count: i32, assignments: Option<&[&[i32]]>| {
            let request = CreatePartitionsRequest {
                topics: vec![create_partitions_request::CreatePartitionsTopic {
                    name: name.into(),
                    count,
                    assignments: assignments.map(|assignments| {
                        assignments
                            .iter()
                            .map(
                                |replicas| create_partitions_request::CreatePartitionsAssignment {
                                    broker_ids: replicas.to_vec(),
                                    ..Default::default()
                                },
                            )
                            .collect()
                    }),
                    ..Default::default()
                }],
                ..Default::default()
            };
            match cluster
                .handle(3, AnyRequest::CreatePartitions(request))
                .response
            {
                AnyResponse::CreatePartitions(response) => {
                    let result = &response.results[0];
                    let message = result
                        .error_message
                        .as_ref()
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    (ErrorCode::from(result.error_code), message)
                }
                other => panic!("{other:?}"),
            }
        };
    let ok = (ErrorCode::None, String::new());
    assert_eq!(ask(&mut cluster, "t", 4, None), ok);
    assert_eq!(
        cluster.image.topics.by_name("t").unwrap().partitions.size(),
        4
    );
    assert_eq!(cluster.partition("t", 3).replicas.len(), 2);
    for (name, count, assignments, error, message) in [
        (
            "t",
            4,
            None,
            ErrorCode::InvalidPartitions,
            "Topic already has 4 partition(s).",
        ),
        (
            "t",
            2,
            None,
            ErrorCode::InvalidPartitions,
            "The topic t currently has 4 partition(s); 2 would not be an increase.",
        ),
        ("none", 2, None, ErrorCode::UnknownTopicOrPartition, ""),
        (
            "t",
            6,
            Some(&[&[1, 2][..]][..]),
            ErrorCode::InvalidReplicaAssignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
    ] {
        assert_eq!(
            ask(&mut cluster, name, count, assignments),
            (error, message.to_owned())
        );
    }
    assert_eq!(ask(&mut cluster, "t", 5, Some(&[&[3, 1]])), ok);
    assert_eq!(raw_ids(&cluster.partition("t", 4).replicas), [3, 1]);
}
