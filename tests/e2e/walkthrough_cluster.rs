//! The multi-broker quickstart in its own order and words: three copies of server.properties, a replicated topic, the
//! leader killed with `kill -9`, and every message still there.
//! Not here: one broker (walkthrough_zookeeper), kills under load (cluster).
//! Kafka: quickstart of the releases before 3.0, "Setting up a multi-broker cluster".

use crate::walkthrough_places::installed;
use crate::{produce, text};
use kavka_testkit::{Sandbox, Server, eventually, free_port, run};
use regex::Regex;
use std::process::Command;

/// `cp config/server.properties config/<name>`, and the lines to change.
fn properties(sandbox: &Sandbox, from: &str, name: &str, changes: &[(&str, String)]) {
    let text = std::fs::read_to_string(sandbox.config(from)).expect("a properties file");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (key, value) in changes {
        let line = format!("{key}={value}");
        let known = |line: &String| line.trim_start_matches('#').starts_with(&format!("{key}="));
        match lines.iter().position(known) {
            Some(at) => lines[at] = line,
            None => lines.push(line),
        }
    }
    std::fs::write(sandbox.config(name), lines.join("\n") + "\n").expect("a properties file");
}

fn start(sandbox: &Sandbox, script: &str, properties: &str) -> Server {
    let server = Server::start(
        sandbox
            .script(script)
            .arg(format!("config/{properties}"))
            .current_dir(&sandbox.home),
    );
    server.line("Kafka Server started");
    server
}

/// What describe says of the topic's only partition: leader, replicas and ISR as they stand there.
fn described(sandbox: &Sandbox, bootstrap: &str) -> (i32, String, Vec<i32>) {
    let output = sandbox
        .tool(
            "kafka-topics",
            &[
                "--describe",
                "--bootstrap-server",
                bootstrap,
                "--topic",
                "my-replicated-topic",
            ],
        )
        .success();
    let line = Regex::new(
        r"Topic: my-replicated-topic\tPartition: 0\tLeader: (\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)",
    )
    .expect("a pattern");
    let found = line
        .captures(&output)
        .unwrap_or_else(|| panic!("no leader, replicas and isr in {output}"));
    let numbers = |text: &str| -> Vec<i32> {
        let numbers = text.split(',').map(|n| n.parse().expect("a number"));
        numbers.collect()
    };
    let leader = found[1].parse().expect("a number");
    (leader, found[2].to_owned(), numbers(&found[3]))
}

/// `ps aux | grep server-1.properties`: the broker's process id.
fn process_of(properties: &str) -> String {
    let mut ps = Command::new("sh");
    ps.arg("-c").arg(format!("ps aux | grep {properties}"));
    let output = run(&mut ps, "").success();
    let line = output
        .lines()
        .find(|line| line.contains("kafka-server-start") && !line.contains("grep"))
        .unwrap_or_else(|| panic!("no broker in\n{output}"));
    line.split_whitespace().nth(1).expect("a pid").to_owned()
}

fn consume_both(sandbox: &Sandbox, bootstrap: &str) {
    let read = sandbox
        .tool(
            "kafka-console-consumer",
            &[
                "--bootstrap-server",
                bootstrap,
                "--from-beginning",
                "--topic",
                "my-replicated-topic",
                "--max-messages",
                "2",
                "--timeout-ms",
                "30000",
            ],
        )
        .success();
    assert_eq!(read, "my test message 1\nmy test message 2\n");
}

#[test]
fn a_leader_is_killed_and_no_message_is_lost() {
    let sandbox = installed("kafka");
    let ports = [free_port(), free_port(), free_port()];
    let zookeeper_port = free_port();
    let bootstrap = format!("localhost:{}", ports[0]);
    // Other ports and folders than the text's: those may be in use here.
    let zookeeper_changes = [
        ("dataDir", text(&sandbox.path("zookeeper"))),
        ("clientPort", zookeeper_port.to_string()),
    ];
    properties(
        &sandbox,
        "zookeeper.properties",
        "zookeeper.properties",
        &zookeeper_changes,
    );
    let first_changes = [
        ("listeners", format!("PLAINTEXT://:{}", ports[0])),
        ("log.dirs", text(&sandbox.path("kafka-logs"))),
        ("zookeeper.connect", format!("localhost:{zookeeper_port}")),
    ];
    properties(
        &sandbox,
        "server.properties",
        "server.properties",
        &first_changes,
    );

    // Step 2: start the server.
    let _zookeeper = start(&sandbox, "zookeeper-server-start", "zookeeper.properties");
    let mut servers = vec![Some(start(
        &sandbox,
        "kafka-server-start",
        "server.properties",
    ))];
    // Steps 3 to 5: a topic, some messages, a consumer.
    let topics = |arguments: &[&str]| {
        let mut all = vec!["--bootstrap-server", &*bootstrap];
        all.extend(arguments);
        sandbox.tool("kafka-topics", &all).success()
    };
    topics(&[
        "--create",
        "--replication-factor",
        "1",
        "--partitions",
        "1",
        "--topic",
        "test",
    ]);
    assert_eq!(topics(&["--list"]).trim_end(), "test");
    produce(&sandbox, &bootstrap, "test", "This is a message\n");
    assert_eq!(
        crate::consume(&sandbox, &bootstrap, "test", 1),
        "This is a message\n"
    );

    // Step 6: "First we make a config file for each of the brokers. Now edit these new files and set the following
    // properties."
    for (id, port) in ports.iter().enumerate().skip(1) {
        let changes = [
            ("broker.id", id.to_string()),
            ("listeners", format!("PLAINTEXT://:{port}")),
            ("log.dirs", text(&sandbox.path(format!("kafka-logs-{id}")))),
        ];
        let name = format!("server-{id}.properties");
        properties(&sandbox, "server.properties", &name, &changes);
        servers.push(Some(start(&sandbox, "kafka-server-start", &name)));
    }

    // "Now create a new topic with a replication factor of three." The text's leader is node 1. One of node 0 would
    // take the consumer's offsets with it, of which config/server.properties keeps one copy, as the text's does.
    let (leader, replicas) = eventually("a topic that node 0 does not lead", || {
        topics(&[
            "--create",
            "--replication-factor",
            "3",
            "--partitions",
            "1",
            "--topic",
            "my-replicated-topic",
        ]);
        let (leader, replicas, isr) = described(&sandbox, &bootstrap);
        assert_eq!(isr.len(), 3, "{isr:?}");
        if leader != 0 {
            return Ok((leader, replicas));
        }
        topics(&["--delete", "--topic", "my-replicated-topic"]);
        Err(String::from("node 0 leads"))
    });
    assert!(
        replicas.starts_with(&format!("{leader},")) && replicas.len() == "1,2,0".len(),
        "leader {leader}, replicas {replicas}"
    );
    // "So there is no surprise there: the original topic has no replicas and is on server 0."
    let original = topics(&["--describe", "--topic", "test"]);
    assert!(
        original.contains("Topic: test\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0"),
        "{original}"
    );

    // "Let's publish a few messages to our new topic. Now let's consume these messages."
    produce(
        &sandbox,
        &bootstrap,
        "my-replicated-topic",
        "my test message 1\nmy test message 2\n",
    );
    consume_both(&sandbox, &bootstrap);

    // "Now let's test out fault-tolerance. Broker 1 was acting as the leader so let's kill it."
    let name = format!("server-{leader}.properties");
    let process_id = process_of(&name);
    run(Command::new("kill").args(["-9", &process_id]), "").success();
    let at = usize::try_from(leader).expect("an index");
    let killed = servers[at].take().expect("a server");
    assert_eq!(killed.pid().as_raw_nonzero().to_string(), process_id);
    killed.ended();

    // "Leadership has switched to one of the followers and node 1 is no longer in the in-sync replica set."
    let next = eventually("another leader and a shorter ISR", || {
        let (next, replicas_now, isr) = described(&sandbox, &bootstrap);
        assert_eq!(replicas_now, replicas);
        if next != leader && isr.len() == 2 && !isr.contains(&leader) {
            return Ok(next);
        }
        Err(format!("leader {next}, isr {isr:?}"))
    });
    assert_ne!(next, leader);

    // "But the messages are still available for consumption even though the leader that took the writes originally is
    // down."
    consume_both(&sandbox, &bootstrap);

    // And it comes back.
    servers[at] = Some(start(&sandbox, "kafka-server-start", &name));
    eventually("the killed broker is in the ISR again", || {
        let (_, _, isr) = described(&sandbox, &bootstrap);
        match isr.contains(&leader) && isr.len() == 3 {
            true => Ok(()),
            false => Err(format!("{isr:?}")),
        }
    });
    consume_both(&sandbox, &bootstrap);
}
