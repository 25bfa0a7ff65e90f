//! Starts that cannot work: each ends at once, with a status that is not 0, and says what is wrong and what to do.
//! Not here: every setting's bounds (crates/config).
//! Kafka: "Exiting Kafka due to fatal exception"; wishes.md.

use crate::text;
use kavka_testkit::{Broker, Sandbox, Server, free_port, run};
use std::net::TcpListener;

/// The message names the thing and the way out.
#[track_caller]
fn says(case: &str, said: &str, words: &[&str]) {
    for word in words {
        assert!(
            said.contains(word),
            "{case}: {word:?} is missing in:\n{said}"
        );
    }
}

#[test]
fn a_port_in_use() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let _taken = TcpListener::bind(("0.0.0.0", broker.port)).expect("a port");
    let said = broker.refused(&sandbox).failure();
    says(
        "port",
        &said,
        &[
            "Address already in use",
            &broker.port.to_string(),
            "'listeners'",
        ],
    );
    // nothing has been touched
    assert!(!broker.data.exists());
}

#[test]
fn a_directory_that_another_broker_uses() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let first = broker.start(&sandbox);
    let second = sandbox.broker();
    let said = second.refused(&sandbox).failure();
    says(
        "lock",
        &said,
        &[
            "Failed to acquire lock",
            &text(&broker.data),
            "Stop that server first",
        ],
    );
    assert_eq!(first.terminate().code(), Some(143), "{}", first.output());
}

#[test]
fn a_directory_of_another_node() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let server = broker.start(&sandbox);
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    let controller = free_port();
    let other = broker.clone().with("node.id", "2").with(
        "controller.quorum.voters",
        format!("2@localhost:{controller}"),
    );
    let said = other.refused(&sandbox).failure();
    says("node", &said, &["1", "2", "meta.properties", "node.id"]);
    let _server = broker.start(&sandbox);
}

#[test]
fn a_directory_of_another_cluster() {
    let sandbox = Sandbox::new();
    // two directories, each from a cluster of its own
    let one = Broker::combined(&sandbox, "one");
    let two = Broker::combined(&sandbox, "two");
    for broker in [&one, &two] {
        let server = broker.start(&sandbox);
        assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    }
    let both = one.clone().with(
        "log.dirs",
        format!("{},{}", text(&one.data), text(&two.data)),
    );
    let said = both.refused(&sandbox).failure();
    let id = |broker: &Broker| {
        let meta = std::fs::read_to_string(broker.data.join("meta.properties")).expect("a file");
        let line = meta
            .lines()
            .find_map(|line| line.strip_prefix("cluster.id="));
        line.expect("an id").to_owned()
    };
    says("cluster", &said, &[&id(&one), &id(&two), "meta.properties"]);

    // a broker whose data is of another cluster than the controller it finds
    let zookeeper_port = free_port();
    let zookeeper = |data: &str| {
        let server = Server::start(sandbox.script("zookeeper-server-start").args([
            text(&sandbox.config("zookeeper.properties")),
            "--override".into(),
            format!("dataDir={}", text(&sandbox.path(data))),
            "--override".into(),
            format!("clientPort={zookeeper_port}"),
        ]));
        server.line("Kafka Server started");
        server
    };
    let broker = Broker::of_zookeeper(&sandbox, "kafka-logs", zookeeper_port);
    let first = zookeeper("zookeeper-1");
    let server = broker.start(&sandbox);
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    assert_eq!(first.terminate().code(), Some(143), "{}", first.output());
    let _second = zookeeper("zookeeper-2");
    let said = broker.refused(&sandbox).failure();
    says(
        "cluster",
        &said,
        &[&id(&broker), &format!("localhost:{zookeeper_port}")],
    );
}

#[test]
fn nobody_at_zookeeper_connect() {
    let sandbox = Sandbox::new();
    let port = free_port();
    let broker = Broker::of_zookeeper(&sandbox, "kafka-logs", port)
        .with("zookeeper.connection.timeout.ms", "500");
    let said = broker.refused(&sandbox).failure();
    says(
        "zookeeper.connect",
        &said,
        &[
            "Waiting up to 0.5 s",
            &format!("zookeeper.connect=localhost:{port}"),
            "Connection refused",
            "zookeeper-server-start.sh config/zookeeper.properties",
            "config/kraft/server.properties",
        ],
    );
}

#[test]
fn properties_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let bad = sandbox.path("bad.properties");
    std::fs::write(&bad, "node.id=1\nlog.dirs=\\uZZZZ\n").expect("a file");
    let missing = sandbox.path("missing.properties");
    let folder = sandbox.path("folder");
    std::fs::create_dir_all(&folder).expect("a folder");
    let cases = [
        (
            "missing",
            &missing,
            vec!["NoSuchFileException", "missing.properties"],
        ),
        ("a folder", &folder, vec!["folder", "Is a directory"]),
        ("a bad escape", &bad, vec!["bad.properties", "uxxxx"]),
    ];
    for script in ["kafka-server-start", "zookeeper-server-start"] {
        for (case, file, words) in &cases {
            let said = run(sandbox.script(script).arg(file), "").failure();
            says(&format!("{script}: {case}"), &said, words);
        }
    }
    for script in ["kafka-server-start", "zookeeper-server-start"] {
        let said = sandbox.tool(script, &[]).failure();
        says(script, &said, &["USAGE", "--override"]);
    }
}

#[test]
fn settings_that_contradict_each_other() {
    let sandbox = Sandbox::new();
    let kraft = sandbox.broker();
    let zookeeper = Broker::of_zookeeper(&sandbox, "kafka-logs", free_port());
    let with = |broker: &Broker, pairs: &[(&str, &str)]| {
        let start = broker.clone();
        pairs
            .iter()
            .fold(start, |broker, (key, value)| broker.with(key, *value))
    };
    let cases = [
        (
            "not a number",
            with(&kraft, &[("log.retention.hours", "a week")]),
            vec!["log.retention.hours", "a week"],
        ),
        (
            "out of bounds",
            with(&kraft, &[("num.io.threads", "0")]),
            vec!["num.io.threads", "0"],
        ),
        (
            "an unknown role",
            with(&kraft, &[("process.roles", "broker,janitor")]),
            vec!["process.roles", "janitor"],
        ),
        (
            "a controller without a listener",
            with(&kraft, &[("controller.listener.names", "")]),
            vec!["controller.listener.names"],
        ),
        (
            "not among the voters",
            with(&kraft, &[("node.id", "7")]),
            vec!["node id 7", "controller.quorum.voters=Set(1)"],
        ),
        (
            "voters that are none",
            with(&kraft, &[("controller.quorum.voters", "localhost:9093")]),
            vec!["controller.quorum.voters", "{id}@{host}:{port}"],
        ),
        (
            "a listener that is none",
            with(&kraft, &[("listeners", "9092")]),
            vec!["listeners", "9092"],
        ),
        (
            "no broker's id in the old age",
            with(&zookeeper, &[("broker.id", "x")]),
            vec!["broker.id", "x"],
        ),
        (
            "two vintages in one file",
            with(&kraft, &[("zookeeper.connect", "localhost:2181")]),
            vec![
                "zookeeper.connect=localhost:2181",
                "process.roles=broker,controller",
                "remove zookeeper.connect",
            ],
        ),
        (
            "no port at zookeeper.connect",
            with(&zookeeper, &[("zookeeper.connect", "localhost:port")]),
            vec!["zookeeper.connect", "localhost:port"],
        ),
    ];
    for (case, broker, words) in cases {
        let said = broker.refused(&sandbox).failure();
        says(case, &said, &words);
    }
}
