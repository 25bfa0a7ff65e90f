//! The first steps as in the ZooKeeper age: two servers, a topic, records in and out, stopped and started again.
//! Not here: the same in one process (walkthrough_kraft).
//! Kafka: the quickstart of releases before 4.0.

use crate::{consume, produce, sorted_lines, text};
use kavka_testkit::{Broker, Sandbox, Server, free_port};
use rustix::process::Signal;
use std::time::{Duration, Instant};

fn start_zookeeper(sandbox: &Sandbox, port: u16) -> Server {
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

/// Nobody is left to hand partitions over to. Whoever asks a second time does not want to wait for the controller.
#[test]
fn the_wrong_order_of_stopping_needs_a_second_signal_only() {
    let sandbox = Sandbox::new();
    let zookeeper_port = free_port();
    let zookeeper = start_zookeeper(&sandbox, zookeeper_port);
    assert!(
        zookeeper
            .output()
            .contains(&format!("Answering ZooKeeper clients, and brokers with zookeeper.connect, on port {zookeeper_port}")),
        "{}",
        zookeeper.output()
    );
    let broker = Broker::of_zookeeper(&sandbox, "kafka-logs", zookeeper_port);
    let server = broker.start(&sandbox);
    assert!(
        !server.output().contains("effect"),
        "the shipped file complains of itself:\n{}",
        server.output()
    );
    assert_eq!(zookeeper.terminate().code(), Some(143));
    server.signal(Signal::TERM);
    server.line("a second signal stops it without that");
    let asked = Instant::now();
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
    assert!(
        server.output().contains("shut down completed"),
        "{}",
        server.output()
    );
}

#[test]
fn zookeeper_then_broker_then_a_topic_that_outlives_both() {
    let sandbox = Sandbox::new();
    let zookeeper_port = free_port();
    let zookeeper_address = format!("localhost:{zookeeper_port}");
    let broker = Broker::of_zookeeper(&sandbox, "kafka-logs", zookeeper_port);
    let bootstrap = broker.bootstrap();
    let topics = |arguments: &[&str]| sandbox.tool("kafka-topics", arguments);

    let zookeeper = start_zookeeper(&sandbox, zookeeper_port);
    let server = broker.start(&sandbox);

    // created and looked at the old way
    let created = topics(&[
        "--create",
        "--zookeeper",
        &zookeeper_address,
        "--replication-factor",
        "1",
        "--partitions",
        "2",
        "--topic",
        "old-way",
    ])
    .success();
    assert_eq!(created.trim_end(), "Created topic old-way.");
    let described = topics(&[
        "--describe",
        "--zookeeper",
        &zookeeper_address,
        "--topic",
        "old-way",
    ])
    .success();
    assert!(
        described.contains("Topic: old-way\tPartition: 1\tLeader: 0\tReplicas: 0\tIsr: 0"),
        "{described}"
    );
    // … and the new way
    let created = topics(&[
        "--create",
        "--bootstrap-server",
        &bootstrap,
        "--topic",
        "new-way",
    ])
    .success();
    assert_eq!(created.trim_end(), "Created topic new-way.");
    let described = topics(&[
        "--describe",
        "--bootstrap-server",
        &bootstrap,
        "--topic",
        "old-way",
    ])
    .success();
    assert!(described.contains("PartitionCount: 2"), "{described}");
    for list in [
        topics(&["--list", "--zookeeper", &zookeeper_address]).success(),
        topics(&["--list", "--bootstrap-server", &bootstrap]).success(),
    ] {
        assert_eq!(sorted_lines(&list), ["new-way", "old-way"]);
    }

    produce(
        &sandbox,
        &bootstrap,
        "old-way",
        "This is a message\nThis is another message\n",
    );
    sandbox
        .tool_with_input(
            "kafka-console-producer",
            &["--broker-list", &bootstrap, "--topic", "old-way"],
            "and one by --broker-list\n",
        )
        .success();
    let expected = [
        "This is a message",
        "This is another message",
        "and one by --broker-list",
    ];
    let read = consume(&sandbox, &bootstrap, "old-way", 3);
    assert_eq!(sorted_lines(&read), expected);

    // the scripts stop them in this order, and each waits until its server is gone
    sandbox.tool("kafka-server-stop", &[]).success();
    assert_eq!(server.ended().code(), Some(143), "{}", server.output());
    sandbox.tool("zookeeper-server-stop", &[]).success();
    assert_eq!(
        zookeeper.ended().code(),
        Some(143),
        "{}",
        zookeeper.output()
    );

    let _zookeeper = start_zookeeper(&sandbox, zookeeper_port);
    let server = broker.start(&sandbox);
    let list = topics(&["--list", "--bootstrap-server", &bootstrap]).success();
    assert_eq!(
        sorted_lines(&list)
            .into_iter()
            .filter(|name| *name != "__consumer_offsets")
            .collect::<Vec<_>>(),
        ["new-way", "old-way"]
    );
    let read = consume(&sandbox, &bootstrap, "old-way", 3);
    assert_eq!(sorted_lines(&read), expected);
    produce(&sandbox, &bootstrap, "old-way", "and a fourth\n");
    let read = consume(&sandbox, &bootstrap, "old-way", 4);
    assert_eq!(sorted_lines(&read).len(), 4);
    assert!(server.is_running());
}

#[test]
fn the_broker_may_be_started_first() {
    let sandbox = Sandbox::new();
    let zookeeper_port = free_port();
    let broker = Broker::of_zookeeper(&sandbox, "kafka-logs", zookeeper_port);
    let server = broker.launch(&sandbox);
    let _zookeeper = start_zookeeper(&sandbox, zookeeper_port);
    server.line("Kafka Server started");
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
}
