//! Three brokers, one topic on all of them: the leader is killed, another serves everything, the killed one catches up.
//! Not here: many kills, other faults, clients that judge what they read (the cluster tests).
//! Kafka: replication_test.py; KIP-101, KIP-497.

use crate::{consume, read_partition, text};
use kavka_client::{BrokerAddress, ClientConfig, Connection};
use kavka_common::Uuid;
use kavka_protocol::Records;
use kavka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kavka_protocol::messages::fetch_response::PartitionData;
use kavka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kavka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kavka_protocol::messages::{FetchRequest, IncrementalAlterConfigsRequest, ProduceRequest};
use kavka_records::{BatchBuilder, BatchOptions};
use kavka_testkit::{Broker, Sandbox, Server, eventually, free_port};
use std::path::Path;

const TOPIC: &str = "replicated";

fn start_quorum(sandbox: &Sandbox, port: u16) -> Server {
    let server = Server::start(sandbox.script("zookeeper-server-start").args([
        text(&sandbox.config("zookeeper.properties")),
        "--override".into(),
        format!("dataDir={}", text(&sandbox.path("zookeeper"))),
        "--override".into(),
        format!("clientPort={port}"),
    ]));
    server.line("Kafka Server started");
    server
}

/// Partition 0 of the topic as `kafka-topics --describe` shows it.
#[derive(Debug, PartialEq, Eq)]
struct Described {
    leader: usize,
    isr: Vec<usize>,
}

fn described(sandbox: &Sandbox, bootstrap: &str) -> Described {
    described_topic(sandbox, bootstrap, TOPIC)
}

fn described_topic(sandbox: &Sandbox, bootstrap: &str, topic: &str) -> Described {
    let arguments = [
        "--describe",
        "--topic",
        topic,
        "--bootstrap-server",
        bootstrap,
    ];
    let text = sandbox.tool("kafka-topics", &arguments).success();
    let field = |name: &str| -> String {
        let after = text.split(&format!("\t{name}: ")).nth(1);
        let value = after.unwrap_or_else(|| panic!("no {name} in {text}"));
        value.split('\t').next().expect("a value").trim().to_owned()
    };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is no id"));
    let mut isr: Vec<usize> = field("Isr").split(',').map(number).collect();
    isr.sort_unstable();
    Described {
        leader: number(&field("Leader")),
        isr,
    }
}

fn produce_to_all(sandbox: &Sandbox, bootstrap: &str, lines: &str) {
    let arguments = [
        "--bootstrap-server",
        bootstrap,
        "--topic",
        TOPIC,
        "--command-property",
        "acks=all",
    ];
    sandbox
        .tool_with_input("kafka-console-producer", &arguments, lines)
        .success();
}

/// The bytes of a replica's only segment.
fn segment(data: &Path) -> Vec<u8> {
    let file = data.join(format!("{TOPIC}-0/00000000000000000000.log"));
    std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[test]
fn a_killed_leader_is_replaced_and_catches_up() {
    let sandbox = Sandbox::new();
    let quorum_port = free_port();
    let brokers: Vec<Broker> = (0..3)
        .map(|id| {
            Broker::of_zookeeper(&sandbox, &format!("data-{id}"), quorum_port)
                .with("broker.id", id.to_string())
        })
        .collect();
    let quorum = start_quorum(&sandbox, quorum_port);
    let mut servers: Vec<Server> = brokers.iter().map(|b| b.launch(&sandbox)).collect();
    for server in &servers {
        server.line("Kafka Server started");
    }
    let bootstrap = brokers[0].bootstrap();
    let create = [
        "--create",
        "--topic",
        TOPIC,
        "--partitions",
        "1",
        "--replication-factor",
        "3",
        "--config",
        "min.insync.replicas=2",
        "--bootstrap-server",
        &bootstrap,
    ];
    sandbox.tool("kafka-topics", &create).success();
    produce_to_all(
        &sandbox,
        &bootstrap,
        "my test message 1\nmy test message 2\n",
    );
    let before = described(&sandbox, &bootstrap);
    assert_eq!(before.isr, [0, 1, 2]);

    servers[before.leader].kill();
    let survivor = brokers[(before.leader + 1) % 3].bootstrap();
    let after = eventually("another leader", || {
        let seen = described(&sandbox, &survivor);
        (seen.leader != before.leader && seen.isr.len() == 2)
            .then_some(())
            .ok_or(format!("{seen:?}"))
            .map(|()| seen)
    });
    assert!(!after.isr.contains(&before.leader), "{after:?}");
    produce_to_all(&sandbox, &survivor, "my test message 3\n");
    assert_eq!(
        read_partition(&sandbox, &survivor, TOPIC, 3),
        "my test message 1\nmy test message 2\nmy test message 3\n"
    );

    // what only the dead leader has is cut when it comes back: it never was acknowledged
    servers[before.leader] = brokers[before.leader].start(&sandbox);
    eventually("the killed one is back in sync", || {
        let seen = described(&sandbox, &survivor);
        (seen.isr == [0, 1, 2])
            .then_some(())
            .ok_or(format!("{seen:?}"))
    });
    produce_to_all(&sandbox, &survivor, "my test message 4\n");
    for server in &servers {
        assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    }
    assert_eq!(quorum.terminate().code(), Some(143), "{}", quorum.output());
    let logs: Vec<Vec<u8>> = brokers.iter().map(|b| segment(&b.data)).collect();
    assert!(!logs[0].is_empty());
    assert_eq!(logs[0], logs[1]);
    assert_eq!(logs[0], logs[2]);
}

#[test]
fn too_few_in_sync_replicas_refuse_acks_all() {
    let sandbox = Sandbox::new();
    let quorum_port = free_port();
    let brokers: Vec<Broker> = (0..2)
        .map(|id| {
            Broker::of_zookeeper(&sandbox, &format!("data-{id}"), quorum_port)
                .with("broker.id", id.to_string())
        })
        .collect();
    let _quorum = start_quorum(&sandbox, quorum_port);
    let servers: Vec<Server> = brokers.iter().map(|b| b.start(&sandbox)).collect();
    let bootstrap = format!("{},{}", brokers[0].bootstrap(), brokers[1].bootstrap());
    let create = [
        "--create",
        "--topic",
        TOPIC,
        "--replication-factor",
        "2",
        "--config",
        "min.insync.replicas=2",
        "--bootstrap-server",
        &bootstrap,
    ];
    sandbox.tool("kafka-topics", &create).success();
    produce_to_all(&sandbox, &bootstrap, "acknowledged by both\n");
    let leader = described(&sandbox, &bootstrap).leader;
    servers[1 - leader].kill();
    eventually("the other one leaves the in-sync set", || {
        let seen = described(&sandbox, &bootstrap);
        (seen.isr == [leader])
            .then_some(())
            .ok_or(format!("{seen:?}"))
    });
    let refused = sandbox.tool_with_input(
        "kafka-console-producer",
        &[
            "--bootstrap-server",
            &bootstrap,
            "--topic",
            TOPIC,
            "--command-property",
            "acks=all",
            "--command-property",
            "delivery.timeout.ms=2000",
            "--command-property",
            "request.timeout.ms=1000",
        ],
        "refused\n",
    );
    assert!(refused.stderr.contains("Error when sending"), "{refused}");
    // nothing of it is committed
    assert_eq!(
        consume(&sandbox, &bootstrap, TOPIC, 1),
        "acknowledged by both\n"
    );
}

/// Fetches partition 0 from its beginning as a consumer in `rack`.
async fn fetch_in_rack(broker: &Broker, topic_id: Uuid, rack: &str) -> PartitionData {
    let address = BrokerAddress::new("localhost", broker.port);
    let mut connection = Connection::connect(&address, &ClientConfig::default())
        .await
        .expect("a connection");
    let request = FetchRequest {
        max_wait_ms: 1000,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic_id,
            partitions: vec![FetchPartition {
                partition: 0,
                fetch_offset: 0,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        rack_id: rack.into(),
        ..Default::default()
    };
    let response = connection.call(&request).await.expect("an answer");
    assert_eq!(response.error_code, 0);
    response.responses[0].partitions[0].clone()
}

#[test]
fn a_consumer_is_sent_to_the_follower_in_its_rack() {
    let sandbox = Sandbox::new();
    let quorum_port = free_port();
    let brokers: Vec<Broker> = (0..2)
        .map(|id| {
            Broker::of_zookeeper(&sandbox, &format!("data-{id}"), quorum_port)
                .with("broker.id", id.to_string())
                .with("broker.rack", format!("rack-{id}"))
                .with(
                    "replica.selector.class",
                    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
                )
        })
        .collect();
    let _quorum = start_quorum(&sandbox, quorum_port);
    let _servers: Vec<Server> = brokers.iter().map(|b| b.start(&sandbox)).collect();
    let bootstrap = brokers[0].bootstrap();
    let create = [
        "--create",
        "--topic",
        TOPIC,
        "--replication-factor",
        "2",
        "--bootstrap-server",
        &bootstrap,
    ];
    sandbox.tool("kafka-topics", &create).success();
    produce_to_all(&sandbox, &bootstrap, "read nearby\n");
    let leader = described(&sandbox, &bootstrap).leader;
    let follower = 1 - leader;
    let arguments = [
        "--describe",
        "--topic",
        TOPIC,
        "--bootstrap-server",
        &bootstrap,
    ];
    let text = sandbox.tool("kafka-topics", &arguments).success();
    let topic_id = text.split("TopicId: ").nth(1).expect("an id");
    let topic_id: Uuid = topic_id
        .split('\t')
        .next()
        .and_then(|id| id.trim().parse().ok())
        .expect("a topic id");

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let rack = |id: usize| format!("rack-{id}");
        let sent = fetch_in_rack(&brokers[leader], topic_id, &rack(follower)).await;
        assert_eq!(sent.preferred_read_replica, follower as i32);
        assert!(sent.records.is_none_or(|records| records.is_empty()));
        for (broker, rack) in [
            (leader, rack(leader)),
            (leader, "elsewhere".to_owned()),
            (leader, String::new()),
            (follower, rack(follower)),
        ] {
            let served = fetch_in_rack(&brokers[broker], topic_id, &rack).await;
            assert_eq!((served.error_code, served.preferred_read_replica), (0, -1));
            assert!(
                !served.records.expect("records").is_empty(),
                "{broker} {rack}"
            );
        }
    });
}

/// Sets a dynamic setting of all brokers.
async fn set_for_all_brokers(broker: &Broker, settings: &[(&str, &str)]) {
    let address = BrokerAddress::new("localhost", broker.port);
    let mut connection = Connection::connect(&address, &ClientConfig::default())
        .await
        .expect("a connection");
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: BROKER,
            configs: settings
                .iter()
                .map(|(name, value)| AlterableConfig {
                    name: (*name).into(),
                    value: Some((*value).into()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = connection.call(&request).await.expect("an answer");
    assert_eq!(response.responses[0].error_code, 0, "{response:?}");
}

const BROKER: i8 = 4;

#[test]
fn a_throttled_replica_catches_up_at_its_rate() {
    const RATE: u64 = 1_000_000;
    let sandbox = Sandbox::new();
    let quorum_port = free_port();
    let brokers: Vec<Broker> = (0..2)
        .map(|id| {
            Broker::of_zookeeper(&sandbox, &format!("data-{id}"), quorum_port)
                .with("broker.id", id.to_string())
        })
        .collect();
    let _quorum = start_quorum(&sandbox, quorum_port);
    let mut servers: Vec<Server> = brokers.iter().map(|b| b.start(&sandbox)).collect();
    let bootstrap = brokers[0].bootstrap();
    for side in ["leader", "follower"] {
        let throttled = format!("{side}.replication.throttled.replicas=*");
        let topic = format!("{TOPIC}-{side}");
        let create = [
            "--create",
            "--topic",
            &topic,
            "--replica-assignment",
            "0:1",
            "--config",
            &throttled,
            "--bootstrap-server",
            &bootstrap,
        ];
        sandbox.tool("kafka-topics", &create).success();
        servers[1].kill();
        let lines = format!("{}\n", "x".repeat(1000)).repeat(5000);
        let arguments = ["--bootstrap-server", &bootstrap, "--topic", &topic];
        sandbox
            .tool_with_input("kafka-console-producer", &arguments, &lines)
            .success();
        let rate = RATE.to_string();
        let key = format!("{side}.replication.throttled.rate");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(set_for_all_brokers(&brokers[0], &[(&key, &rate)]));
        servers[1] = brokers[1].start(&sandbox);
        let begun = std::time::Instant::now();
        eventually("the throttled one is in sync", || {
            let seen = described_topic(&sandbox, &bootstrap, &topic);
            (seen.isr == [0, 1])
                .then_some(())
                .ok_or(format!("{seen:?}"))
        });
        // five megabytes, but for a second's worth and one answer of a megabyte that the limit did not foresee
        let took = begun.elapsed();
        assert!(took.as_millis() >= 2000, "{side}: {took:?}");
    }
}

#[test]
fn acks_all_takes_a_round_trip_not_a_long_poll() {
    let sandbox = Sandbox::new();
    let quorum_port = free_port();
    let brokers: Vec<Broker> = (0..3)
        .map(|id| {
            Broker::of_zookeeper(&sandbox, &format!("data-{id}"), quorum_port)
                .with("broker.id", id.to_string())
        })
        .collect();
    let _quorum = start_quorum(&sandbox, quorum_port);
    let _servers: Vec<Server> = brokers.iter().map(|b| b.start(&sandbox)).collect();
    let bootstrap = brokers[0].bootstrap();
    let create = [
        "--create",
        "--topic",
        TOPIC,
        "--replica-assignment",
        "0:1:2",
        "--bootstrap-server",
        &bootstrap,
    ];
    sandbox.tool("kafka-topics", &create).success();
    let mut took = Vec::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let address = BrokerAddress::new("localhost", brokers[0].port);
        let mut connection = Connection::connect(&address, &ClientConfig::default())
            .await
            .expect("a connection");
        for round in 0..60 {
            let mut batch = BatchBuilder::new(BatchOptions::default());
            let value = format!("record {round}");
            batch
                .append(0, None, Some(value.as_bytes()), [])
                .expect("room");
            let request = ProduceRequest {
                acks: -1,
                timeout_ms: 30_000,
                topic_data: vec![TopicProduceData {
                    name: TOPIC.into(),
                    partition_data: vec![PartitionProduceData {
                        index: 0,
                        records: Some(Records::Bytes(batch.build().expect("a batch").into())),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let begun = std::time::Instant::now();
            // the last version that names topics by name
            let response = connection
                .call_version(&request, 12)
                .await
                .expect("an answer");
            took.push(begun.elapsed());
            let answer = &response.responses[0].partition_responses[0];
            assert_eq!((answer.error_code, answer.base_offset), (0, round));
        }
    });
    took.sort_unstable();
    let median = took[took.len() / 2];
    println!(
        "acks=all: median {median:?}, longest {:?}",
        took[took.len() - 1]
    );
    // a couple of milliseconds; ten times that on a machine that does much else, but nothing like a poll of half a second
    assert!(median.as_millis() < 50, "{took:?}");
}
