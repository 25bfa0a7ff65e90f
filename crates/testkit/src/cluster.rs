//! A cluster of real processes: controllers and brokers of either vintage, killed, paused, stopped and started by name.
//! Not here: one process (process), the network between them (network), what clients do (workload).
//! Owned by one test; every process ends with it. Every wait has a condition and a deadline.
//! Kafka: kafkatest.services.kafka.KafkaService; kafka.testkit.KafkaClusterTestKit.

use crate::cluster_view::{self, PartitionView};
use crate::network::Network;
use crate::ports::free_port;
use crate::process::Server;
use crate::sandbox::Sandbox;
use crate::wait::eventually;
use kavka_client::BrokerAddress;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitStatus;

/// What a node is started as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Controller,
    Broker,
    /// Both in one process.
    Combined,
    /// `zookeeper-server-start`.
    ZooKeeper,
    /// `broker.id` and `zookeeper.connect`.
    ZooKeeperBroker,
}

impl Role {
    fn is_broker(self) -> bool {
        matches!(self, Role::Broker | Role::Combined | Role::ZooKeeperBroker)
    }
}

/// Which nodes there are, and what their properties say.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    roles: BTreeMap<i32, Role>,
    properties: Vec<(String, String)>,
    of_node: Vec<(i32, String, String)>,
    proxied: bool,
}

impl ClusterSpec {
    fn new(roles: impl IntoIterator<Item = (i32, Role)>) -> ClusterSpec {
        let spec = ClusterSpec {
            roles: roles.into_iter().collect(),
            properties: Vec::new(),
            of_node: Vec::new(),
            proxied: false,
        };
        let brokers = spec.roles.values().filter(|role| role.is_broker()).count();
        let replicas = brokers.min(3).to_string();
        spec.with("default.replication.factor", &replicas)
            .with("offsets.topic.replication.factor", &replicas)
            .with("min.insync.replicas", if brokers > 2 { "2" } else { "1" })
            .with("group.initial.rebalance.delay.ms", "0")
    }

    /// Nodes 1, 2, … are broker and controller.
    pub fn combined(nodes: i32) -> ClusterSpec {
        ClusterSpec::new((1..=nodes).map(|id| (id, Role::Combined)))
    }

    /// Brokers 1, 2, … and controllers 101, 102, …
    pub fn dedicated(controllers: i32, brokers: i32) -> ClusterSpec {
        let controllers = (101..=100 + controllers).map(|id| (id, Role::Controller));
        ClusterSpec::new(controllers.chain((1..=brokers).map(|id| (id, Role::Broker))))
    }

    /// One ZooKeeper server, here node 1000, and brokers 0, 1, …
    pub fn of_zookeeper(brokers: i32) -> ClusterSpec {
        let brokers = (0..brokers).map(|id| (id, Role::ZooKeeperBroker));
        ClusterSpec::new([(1000, Role::ZooKeeper)].into_iter().chain(brokers))
    }

    /// A setting of every broker and controller, but of no ZooKeeper.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> ClusterSpec {
        self.properties.retain(|(known, _)| known != key);
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A setting of one node.
    #[must_use]
    pub fn with_node(mut self, node: i32, key: &str, value: &str) -> ClusterSpec {
        self.of_node.push((node, key.to_owned(), value.to_owned()));
        self
    }

    /// Puts a proxy before each node, so that the network can be spoilt.
    #[must_use]
    pub fn proxied(mut self) -> ClusterSpec {
        self.proxied = true;
        self
    }

    /// Sessions and lags of a few seconds, for tests that wait for them.
    #[must_use]
    pub fn impatient(self) -> ClusterSpec {
        self.with("broker.session.timeout.ms", "3000")
            .with("broker.heartbeat.interval.ms", "500")
            .with("replica.lag.time.max.ms", "3000")
            .with("log.initial.task.delay.ms", "0")
            .with("log.flush.offset.checkpoint.interval.ms", "500")
    }
}

/// Where a node listens, and where others find it: the same, unless there is a proxy between.
#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    client_proxy: u16,
    controller: u16,
    controller_proxy: u16,
}

/// One node, up or down.
#[derive(Debug)]
pub struct Node {
    pub role: Role,
    pub properties_file: PathBuf,
    pub data: PathBuf,
    ports: Ports,
    server: Option<Server>,
    /// What earlier processes of this node wrote.
    past: Vec<String>,
}

impl Node {
    pub fn is_running(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_running)
    }

    /// The process, while there is one.
    #[track_caller]
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("the node is up")
    }

    /// Everything that its processes wrote.
    pub fn output(&self) -> String {
        let mut all = self.past.join("\n— started again —\n");
        if let Some(server) = &self.server {
            all.push_str("\n— started again —\n");
            all.push_str(&server.output());
        }
        all
    }

    pub fn address(&self) -> BrokerAddress {
        BrokerAddress::new("127.0.0.1", self.ports.client_proxy)
    }
}

/// The nodes of one test.
#[derive(Debug)]
pub struct Cluster<'s> {
    sandbox: &'s Sandbox,
    pub nodes: BTreeMap<i32, Node>,
    network: Option<Network>,
}

impl<'s> Cluster<'s> {
    /// Starts all nodes, and waits until each of them serves.
    #[track_caller]
    pub fn start(sandbox: &'s Sandbox, spec: &ClusterSpec) -> Cluster<'s> {
        let mut cluster = Cluster::prepare(sandbox, spec);
        cluster.launch_all();
        cluster.await_all();
        cluster
    }

    /// Writes the properties files, and starts nothing.
    pub fn prepare(sandbox: &'s Sandbox, spec: &ClusterSpec) -> Cluster<'s> {
        let mut network = spec.proxied.then(Network::new);
        let mut ports = BTreeMap::new();
        for id in spec.roles.keys() {
            let (client, controller) = (free_port(), free_port());
            let (mut client_proxy, mut controller_proxy) = (client, controller);
            if let Some(network) = &mut network {
                (client_proxy, controller_proxy) = (free_port(), free_port());
                network.add(*id, client_proxy, client);
                network.add(*id, controller_proxy, controller);
            }
            let of_node = Ports {
                client,
                client_proxy,
                controller,
                controller_proxy,
            };
            ports.insert(*id, of_node);
        }
        let nodes = spec.roles.iter().map(|(id, role)| {
            let data = sandbox.path(format!("node-{id}"));
            let properties_file = sandbox.path(format!("node-{id}.properties"));
            let text = properties(spec, &ports, *id, *role, &data.display().to_string());
            std::fs::write(&properties_file, text).expect("a properties file");
            let node = Node {
                role: *role,
                properties_file,
                data,
                ports: ports[id],
                server: None,
                past: Vec::new(),
            };
            (*id, node)
        });
        Cluster {
            sandbox,
            nodes: nodes.collect(),
            network,
        }
    }

    /// The network between the nodes, where the cluster has one of ours.
    #[track_caller]
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("ClusterSpec::proxied")
    }

    pub fn brokers(&self) -> Vec<i32> {
        let brokers = self.nodes.iter().filter(|(_, node)| node.role.is_broker());
        brokers.map(|(id, _)| *id).collect()
    }

    /// Nodes that vote in the quorum.
    pub fn controllers(&self) -> Vec<i32> {
        let controllers = self.nodes.iter().filter(|(_, node)| {
            matches!(
                node.role,
                Role::Controller | Role::Combined | Role::ZooKeeper
            )
        });
        controllers.map(|(id, _)| *id).collect()
    }

    fn node(&mut self, id: i32) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node of the cluster")
    }

    /// Every broker's address, running or not.
    pub fn addresses(&self) -> Vec<BrokerAddress> {
        let brokers = self.brokers().into_iter();
        brokers.map(|id| self.nodes[&id].address()).collect()
    }

    pub fn bootstrap(&self) -> String {
        let addresses = self.addresses();
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        texts.join(",")
    }

    /// Starts a node without waiting.
    pub fn launch(&mut self, id: i32) {
        let sandbox = self.sandbox;
        if let Some(network) = &mut self.network {
            network.open(id);
        }
        let node = self.node(id);
        if let Some(old) = node.server.take() {
            old.kill();
            node.past.push(old.output());
        }
        let script = match node.role {
            Role::ZooKeeper => "zookeeper-server-start",
            Role::Controller | Role::Broker | Role::Combined | Role::ZooKeeperBroker => {
                "kafka-server-start"
            }
        };
        let server = Server::start(sandbox.script(script).arg(&node.properties_file));
        let process_id = server.pid().as_raw_nonzero().get();
        node.server = Some(server);
        if let Some(network) = &self.network {
            network.process(process_id, id);
        }
    }

    pub fn launch_all(&mut self) {
        let ids: Vec<i32> = self.nodes.keys().copied().collect();
        for id in ids {
            self.launch(id);
        }
    }

    /// Waits until a node serves.
    #[track_caller]
    pub fn await_started(&self, id: i32) {
        self.nodes[&id].server().line("Kafka Server started");
    }

    /// Waits until every running node serves.
    #[track_caller]
    pub fn await_all(&self) {
        for (id, node) in &self.nodes {
            if node.is_running() {
                self.await_started(*id);
            }
        }
    }

    /// Starts a node and waits until it serves.
    #[track_caller]
    pub fn start_node(&mut self, id: i32) {
        self.launch(id);
        self.await_started(id);
    }

    /// `kill -9`, and waits until the process is gone.
    pub fn kill(&mut self, id: i32) {
        if let Some(network) = &mut self.network {
            network.close(id);
        }
        self.node(id).server().kill();
    }

    /// `kill -9` as if the machine went away with it: its listeners' addresses do not refuse. For nodes that are parted.
    pub fn kill_unheard(&mut self, id: i32) {
        self.node(id).server().kill();
    }

    /// `kill -9` for all at once.
    pub fn kill_all(&mut self) {
        for node in self.nodes.values() {
            if let Some(server) = &node.server {
                server.signal(Signal::KILL);
            }
        }
        let running: Vec<i32> = self.nodes.keys().copied().collect();
        for id in running {
            self.kill(id);
        }
    }

    /// SIGTERM, and the exit status.
    #[track_caller]
    pub fn terminate(&mut self, id: i32) -> ExitStatus {
        let status = self.node(id).server().terminate();
        if let Some(network) = &mut self.network {
            network.close(id);
        }
        status
    }

    /// SIGTERM for all; each has to end as Kafka does. Controllers of their own go last: brokers sign off with them.
    #[track_caller]
    pub fn terminate_all(&mut self) {
        let (last, first): (Vec<i32>, Vec<i32>) = self
            .nodes
            .keys()
            .partition(|id| !self.nodes[id].role.is_broker());
        for ids in [first, last] {
            for id in &ids {
                self.nodes[id].server().signal(Signal::TERM);
            }
            for id in ids {
                let status = self.terminate(id);
                let output = self.nodes[&id].output();
                assert_eq!(status.code(), Some(143), "node {id}: {output}");
            }
        }
    }

    /// SIGSTOP.
    pub fn pause(&self, id: i32) {
        self.nodes[&id].server().signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self, id: i32) {
        self.nodes[&id].server().signal(Signal::CONT);
    }

    /// The partitions of a topic as the first broker sees them that answers.
    pub fn describe(&self, topic: &str) -> Result<Vec<PartitionView>, String> {
        let mut why = String::from("no broker runs");
        for id in self.brokers() {
            if self.nodes[&id].is_running() {
                match self.describe_at(id, topic) {
                    Ok(view) => return Ok(view),
                    Err(error) => why = error,
                }
            }
        }
        Err(why)
    }

    /// The partitions of a topic as this broker sees them.
    pub fn describe_at(&self, id: i32, topic: &str) -> Result<Vec<PartitionView>, String> {
        cluster_view::partitions(&self.nodes[&id].address(), topic)
    }

    /// The active controller, as a broker knows it.
    pub fn active_controller(&self) -> Result<i32, String> {
        let mut why = String::from("no broker runs");
        for id in self.brokers() {
            if self.nodes[&id].is_running() {
                match cluster_view::active_controller(&self.nodes[&id].address()) {
                    Ok(leader) => return Ok(leader),
                    Err(error) => why = error,
                }
            }
        }
        Err(why)
    }

    #[track_caller]
    pub fn create_topic(&self, topic: &str, partitions: i32, replication_factor: i16) {
        let what = format!("topic {topic} is created");
        eventually(&what, || {
            cluster_view::create_topic(&self.addresses(), topic, partitions, replication_factor)
        });
        self.await_full_isr(topic);
    }

    /// Waits until every partition has a leader and all its replicas are in sync.
    #[track_caller]
    pub fn await_full_isr(&self, topic: &str) {
        eventually(&format!("{topic} is in sync"), || {
            let view = self.describe(topic)?;
            let full = |p: &&PartitionView| p.leader >= 0 && p.isr.len() == p.replicas.len();
            match view.iter().find(|p| !full(p)) {
                None if !view.is_empty() => Ok(()),
                lagging => Err(format!("{lagging:?}{}", self.last_words())),
            }
        });
    }

    /// The end of what each node wrote, for a failure's text.
    pub fn last_words(&self) -> String {
        const LINES: usize = 15;
        let mut text = String::new();
        for (id, node) in &self.nodes {
            let output = node.output();
            let lines: Vec<&str> = output.lines().collect();
            let from = lines.len().saturating_sub(LINES);
            let _ = write!(text, "\n— node {id} —\n{}", lines[from..].join("\n"));
        }
        text
    }
}

/// Names a folder that gets what each node wrote.
const LOGS_VARIABLE: &str = "KAVKA_NODE_LOGS";

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        if let Some(folder) = std::env::var_os(LOGS_VARIABLE) {
            for (id, node) in &self.nodes {
                let file = PathBuf::from(&folder).join(format!("node-{id}.log"));
                let _ = std::fs::write(file, node.output());
            }
        }
    }
}

fn properties(
    spec: &ClusterSpec,
    ports: &BTreeMap<i32, Ports>,
    id: i32,
    role: Role,
    data: &str,
) -> String {
    let own = ports[&id];
    let zookeeper = spec.roles.iter().find(|(_, r)| **r == Role::ZooKeeper);
    let zookeeper_port =
        zookeeper.map(|(id, _)| (ports[id].controller, ports[id].controller_proxy));
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, value: String| pairs.push((key.to_owned(), value));
    if role == Role::ZooKeeper {
        add("dataDir", data.to_owned());
        add("clientPort", own.controller.to_string());
    } else {
        let client = format!("PLAINTEXT://127.0.0.1:{}", own.client);
        let controller = format!("CONTROLLER://127.0.0.1:{}", own.controller);
        let (listeners, roles) = match role {
            Role::Controller => (controller, Some("controller")),
            Role::Broker => (client, Some("broker")),
            Role::Combined => (format!("{client},{controller}"), Some("broker,controller")),
            Role::ZooKeeperBroker | Role::ZooKeeper => (client, None),
        };
        add("listeners", listeners);
        add("log.dirs", data.to_owned());
        if role.is_broker() {
            add(
                "advertised.listeners",
                format!("PLAINTEXT://127.0.0.1:{}", own.client_proxy),
            );
        }
        if let Some(roles) = roles {
            let voters: Vec<String> = spec
                .roles
                .iter()
                .filter(|(_, role)| matches!(role, Role::Controller | Role::Combined))
                .map(|(id, _)| format!("{id}@127.0.0.1:{}", ports[id].controller_proxy))
                .collect();
            add("process.roles", roles.to_owned());
            add("node.id", id.to_string());
            add("controller.quorum.voters", voters.join(","));
            add("controller.listener.names", "CONTROLLER".into());
            add(
                "listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT".into(),
            );
        } else {
            let (_, port) = zookeeper_port.expect("a ZooKeeper server");
            add("broker.id", id.to_string());
            add("zookeeper.connect", format!("127.0.0.1:{port}"));
        }
        for (key, value) in &spec.properties {
            add(key, value.clone());
        }
    }
    for (node, key, value) in &spec.of_node {
        if *node == id {
            pairs.retain(|(known, _)| known != key);
            pairs.push((key.clone(), value.clone()));
        }
    }
    pairs.iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "{key}={value}");
        text
    })
}
