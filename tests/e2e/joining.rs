//! Who joins a cluster and how: by a copied properties file, through an ensemble, without an id; and who is refused.
//! Not here: starts that fail alone (bad_starts), changes of the voters (voters).
//! Every refusal names both values, and what runs is not touched.
//! Kafka: the multi-broker quickstart; DuplicateBrokerRegistrationException, InconsistentClusterIdException.

use crate::text;
use kavka_client::BrokerAddress;
use kavka_testkit::{Broker, Sandbox, Server, cluster_view, eventually, free_port};
use std::path::{Path, PathBuf};

/// A file of `config/` with some lines changed, as an editor would.
fn edited(sandbox: &Sandbox, original: &str, name: &str, changes: &[(&str, String)]) -> PathBuf {
    let mut lines: Vec<String> = std::fs::read_to_string(sandbox.config(original))
        .expect("a file of config/")
        .lines()
        .map(str::to_owned)
        .collect();
    for (key, value) in changes {
        lines.retain(|line| !line.starts_with(&format!("{key}=")));
        lines.push(format!("{key}={value}"));
    }
    let path = sandbox.path(name);
    std::fs::write(&path, lines.join("\n")).expect("a properties file");
    path
}

#[track_caller]
fn zookeeper(sandbox: &Sandbox, file: &Path) -> Server {
    Server::start(sandbox.script("zookeeper-server-start").arg(file))
}

#[track_caller]
fn broker(sandbox: &Sandbox, file: &Path) -> Server {
    let server = Server::start(sandbox.script("kafka-server-start").arg(file));
    server.line("Kafka Server started");
    server
}

fn at(port: u16) -> BrokerAddress {
    BrokerAddress::new("localhost", port)
}

/// Places a topic on as many brokers as it has replicas.
#[track_caller]
fn replicated(port: u16, topic: &str, replicas: &[i32]) {
    let count = i16::try_from(replicas.len()).expect("a few");
    eventually(topic, || {
        cluster_view::create_topic(&[at(port)], topic, 1, count)
    });
    eventually("all replicas are in sync", || {
        let view = cluster_view::partitions(&at(port), topic)?;
        match view.first() {
            Some(partition) if partition.isr == replicas => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[test]
fn copies_of_server_properties_join_through_zookeeper_connect() {
    let sandbox = Sandbox::new();
    let client_port = free_port();
    let quorum = edited(
        &sandbox,
        "zookeeper.properties",
        "zookeeper.properties",
        &[
            ("dataDir", text(&sandbox.path("zookeeper"))),
            ("clientPort", client_port.to_string()),
        ],
    );
    let zookeeper = zookeeper(&sandbox, &quorum);
    zookeeper.line("Kafka Server started");
    let ports = [free_port(), free_port(), free_port()];
    let servers: Vec<Server> = (0..3)
        .map(|id: i32| {
            let port = ports[usize::try_from(id).expect("0 to 2")];
            let file = edited(
                &sandbox,
                "server.properties",
                &format!("server-{id}.properties"),
                &[
                    ("broker.id", id.to_string()),
                    ("listeners", format!("PLAINTEXT://:{port}")),
                    ("log.dirs", text(&sandbox.path(format!("kafka-logs-{id}")))),
                    ("zookeeper.connect", format!("localhost:{client_port}")),
                ],
            );
            broker(&sandbox, &file)
        })
        .collect();
    replicated(ports[0], "my-replicated-topic", &[0, 1, 2]);
    for server in servers {
        assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    }
}

#[test]
fn an_ensemble_of_three_outlives_one_of_them() {
    let sandbox = Sandbox::new();
    let clients = [free_port(), free_port(), free_port()];
    let lines: Vec<String> = (1..=3)
        .map(|n| format!("server.{n}=127.0.0.1:{}:{}", free_port(), free_port()))
        .collect();
    let files: Vec<PathBuf> = (1..=3)
        .map(|n: usize| {
            let data = sandbox.path(format!("zookeeper-{n}"));
            std::fs::create_dir_all(&data).expect("a folder");
            std::fs::write(data.join("myid"), format!("{n}\n")).expect("myid");
            let mut content = format!(
                "dataDir={}\nclientPort={}\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n",
                text(&data),
                clients[n - 1]
            );
            content.push_str(&lines.join("\n"));
            let file = sandbox.path(format!("zookeeper-{n}.properties"));
            std::fs::write(&file, content).expect("a properties file");
            file
        })
        .collect();
    let mut ensemble: Vec<Server> = files.iter().map(|file| zookeeper(&sandbox, file)).collect();
    for server in &ensemble {
        server.line("Kafka Server started");
    }
    let connect = clients.map(|port| format!("localhost:{port}")).join(",");
    let kafka =
        Broker::of_zookeeper(&sandbox, "kafka-logs", clients[0]).with("zookeeper.connect", connect);
    let server = kafka.start(&sandbox);
    let leader = eventually("a leader", || {
        cluster_view::active_controller(&at(kafka.port))
    });
    // Quorum nodes of the ZooKeeper age count from 3000.
    let place = usize::try_from(leader - 3001).expect("one of the three");
    ensemble[place].kill();
    eventually("the other two decide", || {
        cluster_view::create_topic(&[at(kafka.port)], "without-it", 1, 1)
    });
    ensemble[place] = zookeeper(&sandbox, &files[place]);
    ensemble[place].line("Kafka Server started");
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
}

#[test]
fn a_broker_id_is_given_to_one_broker() {
    let sandbox = Sandbox::new();
    let first = sandbox.broker();
    let running = first.start(&sandbox);
    let controller = first
        .overrides
        .iter()
        .find(|(key, _)| key == "controller.quorum.voters")
        .and_then(|(_, voters)| voters.split_once('@'))
        .map(|(_, address)| address.to_owned())
        .expect("a voter");
    let joiner = |id: &str, data: &str| {
        let port = free_port();
        Broker {
            properties_file: sandbox.config("kraft/server.properties"),
            overrides: Vec::new(),
            port,
            data: sandbox.path(data),
        }
        .with("process.roles", "broker")
        .with("node.id", id)
        .with("controller.quorum.voters", "")
        .with("controller.quorum.bootstrap.servers", controller.as_str())
        .with("listeners", format!("PLAINTEXT://:{port}"))
        .with(
            "advertised.listeners",
            format!("PLAINTEXT://localhost:{port}"),
        )
        .with("log.dirs", text(&sandbox.path(data)))
        .with("broker.session.timeout.ms", "2000")
        .with("broker.heartbeat.interval.ms", "500")
    };
    let second = joiner("2", "second");
    let other = second.start(&sandbox);
    replicated(first.port, "on-both", &[1, 2]);
    let again = joiner("2", "third");
    let said = again.refused(&sandbox).failure();
    for words in [
        "Broker 2 runs already at",
        &format!("localhost:{}", second.port),
        &format!("localhost:{}", again.port),
        "another node.id",
    ] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
    assert!(other.is_running());
    replicated(first.port, "on-both-again", &[1, 2]);
    assert_eq!(other.terminate().code(), Some(143), "{}", other.output());
    assert_eq!(
        running.terminate().code(),
        Some(143),
        "{}",
        running.output()
    );
}

#[test]
fn brokers_without_an_id_get_ids_of_their_own() {
    let sandbox = Sandbox::new();
    let client_port = free_port();
    let quorum = edited(
        &sandbox,
        "zookeeper.properties",
        "zookeeper.properties",
        &[
            ("dataDir", text(&sandbox.path("zookeeper"))),
            ("clientPort", client_port.to_string()),
        ],
    );
    let zookeeper = zookeeper(&sandbox, &quorum);
    zookeeper.line("Kafka Server started");
    let without_id = |data: &str| {
        Broker::of_zookeeper(&sandbox, data, client_port)
            .with("broker.id", "-1")
            .with("reserved.broker.max.id", "40")
    };
    let (one, two) = (without_id("one"), without_id("two"));
    let first = one.start(&sandbox);
    let second = two.start(&sandbox);
    replicated(one.port, "on-both", &[41, 42]);
    assert_eq!(second.terminate().code(), Some(143), "{}", second.output());
    assert_eq!(first.terminate().code(), Some(143), "{}", first.output());
    // The directory remembers it, in whatever order they start.
    let second = two.start(&sandbox);
    let first = one.start(&sandbox);
    replicated(one.port, "on-both-again", &[41, 42]);
    let meta = std::fs::read_to_string(two.data.join("meta.properties")).expect("a file");
    assert!(meta.contains("node.id=42"), "{meta}");
    drop((first, second));
}

/// A controller alone, as one of several voters.
fn controller(sandbox: &Sandbox, id: i32, port: u16, voters: &str, data: &str) -> Broker {
    let data = sandbox.path(data);
    let properties_file = sandbox.path(format!("controller-{id}-{port}.properties"));
    let content = format!(
        "process.roles=controller\nnode.id={id}\nlisteners=CONTROLLER://:{port}\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters={voters}\nlog.dirs={}\n",
        text(&data)
    );
    std::fs::write(&properties_file, content).expect("a properties file");
    Broker {
        properties_file,
        overrides: Vec::new(),
        port,
        data,
    }
}

fn cluster_id(node: &Broker) -> String {
    let meta = std::fs::read_to_string(node.data.join("meta.properties")).expect("a file");
    let id = meta
        .lines()
        .find_map(|line| line.strip_prefix("cluster.id="));
    id.expect("an id").to_owned()
}

#[test]
fn controllers_of_another_cluster_or_with_a_taken_id_are_refused() {
    let sandbox = Sandbox::new();
    let ports = [free_port(), free_port()];
    let voters = format!("1@localhost:{},2@localhost:{}", ports[0], ports[1]);
    let one = controller(&sandbox, 1, ports[0], &voters, "one");
    let two = controller(&sandbox, 2, ports[1], &voters, "two");
    let first = one.start(&sandbox);
    let second = two.start(&sandbox);
    eventually("one of them leads", || {
        let outputs = [first.output(), second.output()];
        match outputs
            .iter()
            .any(|said| said.contains("Becoming the active controller"))
        {
            true => Ok(()),
            false => Err(outputs.join("\n")),
        }
    });

    let taken = controller(&sandbox, 1, free_port(), &voters, "taken");
    let said = taken.refused(&sandbox).failure();
    for words in [
        "Controller 1 runs already",
        &format!("localhost:{}", ports[0]),
        &taken.port.to_string(),
    ] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
    assert!(second.is_running());
    assert_eq!(second.terminate().code(), Some(143), "{}", second.output());

    // A node 2 that belonged to another cluster before.
    let own = format!("2@localhost:{}", ports[1]);
    let alone = controller(&sandbox, 2, ports[1], &own, "foreign");
    let foreign = alone.start(&sandbox);
    assert_eq!(
        foreign.terminate().code(),
        Some(143),
        "{}",
        foreign.output()
    );
    let said = controller(&sandbox, 2, ports[1], &voters, "foreign")
        .refused(&sandbox)
        .failure();
    for words in [cluster_id(&one), cluster_id(&alone)] {
        assert!(said.contains(&words), "{words:?} is missing in:\n{said}");
    }
    assert!(first.is_running());
}
