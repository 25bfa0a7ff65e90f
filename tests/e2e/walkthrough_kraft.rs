//! The first steps with one process: a topic, records in and out, stopped and started again; as a daemon; formatted first.
//! Not here: two processes (walkthrough_zookeeper), odd places to start from (walkthrough_places).
//! Kafka: the quickstart of 3.3 and later.

use crate::{consume, produce, sorted_lines, text};
use kavka_testkit::process::run;
use kavka_testkit::{Broker, Sandbox, eventually};

/// What a newcomer does with a broker that runs.
pub(crate) fn first_steps(sandbox: &Sandbox, broker: &Broker) {
    let bootstrap = broker.bootstrap();
    let topics = |arguments: &[&str]| sandbox.tool("kafka-topics", arguments).success();
    let created = topics(&[
        "--create",
        "--topic",
        "quickstart-events",
        "--bootstrap-server",
        &bootstrap,
    ]);
    assert_eq!(created.trim_end(), "Created topic quickstart-events.");
    let described = topics(&[
        "--describe",
        "--topic",
        "quickstart-events",
        "--bootstrap-server",
        &bootstrap,
    ]);
    assert!(
        described.contains("PartitionCount: 1\tReplicationFactor: 1"),
        "{described}"
    );
    produce(
        sandbox,
        &bootstrap,
        "quickstart-events",
        "This is my first event\nThis is my second event\n",
    );
    all_there(sandbox, broker);
}

/// What `first_steps` has left is still there.
pub(crate) fn all_there(sandbox: &Sandbox, broker: &Broker) {
    let bootstrap = broker.bootstrap();
    let read = consume(sandbox, &bootstrap, "quickstart-events", 2);
    assert_eq!(read, "This is my first event\nThis is my second event\n");
    let list = sandbox
        .tool(
            "kafka-topics",
            &["--list", "--bootstrap-server", &bootstrap],
        )
        .success();
    assert!(sorted_lines(&list).contains(&"quickstart-events"), "{list}");
}

#[test]
fn one_process_without_a_format_step() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let server = broker.start(&sandbox);
    first_steps(&sandbox, &broker);
    let file = text(&broker.properties_file);
    // of several brokers, the one with this file and this id is meant
    let other = sandbox
        .tool("kafka-server-stop", &[&file, "--node-id", "2"])
        .failure();
    assert!(other.contains("No kafka server to stop"), "{other}");
    sandbox
        .tool("kafka-server-stop", &[&file, "--node-id", "1"])
        .success();
    assert_eq!(server.ended().code(), Some(143), "{}", server.output());

    let server = broker.start(&sandbox);
    all_there(&sandbox, &broker);
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    let nothing = sandbox.tool("kafka-server-stop", &[]).failure();
    assert!(nothing.contains("No kafka server to stop"), "{nothing}");
}

#[test]
fn a_daemon_serves_when_its_command_returns() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    for round in 0..2 {
        let mut command = sandbox.script("kafka-server-start");
        command.arg("-daemon").args(broker.arguments());
        run(&mut command, "").success();
        // no waiting here: the daemon has said that it is ready
        match round {
            0 => first_steps(&sandbox, &broker),
            _ => all_there(&sandbox, &broker),
        }
        sandbox.tool("kafka-server-stop", &[]).success();
    }
    let log = std::fs::read_to_string(sandbox.path("logs/server.log")).expect("the daemon's log");
    assert_eq!(log.matches("Kafka Server started").count(), 2, "{log}");
    assert_eq!(log.matches("shut down completed").count(), 2, "{log}");
}

#[test]
fn a_daemon_that_cannot_start_says_why_and_fails() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let _first = broker.start(&sandbox);
    let mut command = sandbox.script("kafka-server-start");
    command.arg("-daemon").args(broker.arguments());
    let said = run(&mut command, "").failure();
    assert!(said.contains("Address already in use"), "{said}");
}

#[test]
fn formatted_first() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let id = sandbox.tool("kafka-storage", &["random-uuid"]).success();
    // the tool reads a file, so that the overrides go into one
    let file = sandbox.path("server.properties");
    let mut properties = std::fs::read_to_string(&broker.properties_file).expect("a file");
    for (key, value) in &broker.overrides {
        properties.push_str(&format!("\n{key}={value}"));
    }
    std::fs::write(&file, properties).expect("a file");
    let broker = Broker {
        properties_file: file.clone(),
        overrides: Vec::new(),
        ..broker
    };
    let arguments = ["format", "-t", id.trim_end(), "-c", &text(&file)];
    let formatted = sandbox.tool("kafka-storage", &arguments).success();
    assert!(formatted.contains("Formatting"), "{formatted}");
    // a second time is refused, as the directory is in use by that cluster
    let again = sandbox.tool("kafka-storage", &arguments).failure();
    assert!(again.contains("already formatted"), "{again}");

    let server = broker.start(&sandbox);
    assert!(
        server
            .output()
            .contains(&format!("Cluster ID = {}", id.trim_end())),
        "{}",
        server.output()
    );
    first_steps(&sandbox, &broker);
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    let _server = broker.start(&sandbox);
    all_there(&sandbox, &broker);
    let info = sandbox
        .tool("kafka-storage", &["info", "-c", &text(&file)])
        .success();
    assert!(info.contains(id.trim_end()), "{info}");
}

#[test]
fn a_group_goes_on_where_it_stopped() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let bootstrap = broker.bootstrap();
    let server = broker.start(&sandbox);
    let topics = ["--create", "--topic", "t", "--bootstrap-server", &bootstrap];
    sandbox.tool("kafka-topics", &topics).success();
    let read = |count: &str| {
        sandbox
            .tool(
                "kafka-console-consumer",
                &[
                    "--bootstrap-server",
                    &bootstrap,
                    "--topic",
                    "t",
                    "--group",
                    "g",
                    "--from-beginning",
                    "--max-messages",
                    count,
                    "--timeout-ms",
                    "30000",
                ],
            )
            .success()
    };
    produce(&sandbox, &bootstrap, "t", "1\n2\n3\n");
    assert_eq!(read("2"), "1\n2\n");
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    let _server = broker.start(&sandbox);
    produce(&sandbox, &bootstrap, "t", "4\n");
    assert_eq!(read("2"), "3\n4\n");
    if sandbox.has("kafka-consumer-groups") {
        let described = eventually("the group is empty", || {
            let said = sandbox
                .tool(
                    "kafka-consumer-groups",
                    &[
                        "--bootstrap-server",
                        &bootstrap,
                        "--describe",
                        "--group",
                        "g",
                    ],
                )
                .success();
            match said.lines().any(|line| {
                line.split_whitespace()
                    .collect::<Vec<_>>()
                    .starts_with(&["g", "t", "0", "4", "4", "0"])
            }) {
                true => Ok(said),
                false => Err(said),
            }
        });
        assert!(described.contains("LAG"), "{described}");
    } else {
        println!("left out: kafka-consumer-groups is not built yet");
    }
}
