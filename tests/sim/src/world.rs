//! The simulated cluster: its nodes, its clock, the queue of what happens next, and the trace of what has happened.
//! Not here: what nodes do, which faults happen when (faults.rs).
//! One thread. Two events of the same millisecond happen in the order in which they were put in.
//! Kafka: RaftEventSimulationTest's Cluster and EventQueue, for the quorum alone.

use crate::admin::Admin;
use crate::broker_node::{BrokerNode, CLUSTER_ID, Exit};
use crate::consumer::Consumer;
use crate::context::{Context, Output};
use crate::controller_node::ControllerNode;
use crate::message::{
    Address, FIRST_CLIENT, FIRST_CONTROLLER, Message, Timer, is_broker, is_controller,
};
use crate::network::Network;
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::producer::Producer;
use crate::report::Stats;
use kavka_common::NodeId;
use kavka_config::{BrokerConfig, Properties};
use kavka_controller::{Controller, ControllerConfig, Random};
use kavka_storage::testing::Loss;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
enum What {
    Deliver {
        from: Address,
        to: Address,
        message: Message,
    },
    Timer {
        to: Address,
        life: u64,
        timer: Timer,
    },
    Start(Address),
    Resume(Address),
    Fault,
}

struct Scheduled {
    at_ms: i64,
    sequence: u64,
    what: What,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    /// The earliest first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at_ms, other.sequence).cmp(&(self.at_ms, self.sequence))
    }
}

/// What has happened, as one number; and as lines where somebody wants to read it.
#[derive(Debug)]
pub struct Trace {
    pub hash: u64,
    pub print: bool,
}

impl Trace {
    pub fn step(&mut self, at_ms: i64, numbers: [i64; 4], name: &str) {
        for byte in name.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        for number in numbers.into_iter().chain([at_ms]) {
            self.hash = (self.hash ^ number.cast_unsigned()).wrapping_mul(0x0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
        if self.print {
            println!("{at_ms:>6} {name} {numbers:?}");
        }
    }
}

/// How a broker ended that did not stop cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncleanEnd {
    /// Only its process.
    Killed,
    /// With what it had not fsynced.
    Lossy,
    /// It will, when its disk gets so far.
    Armed,
}

pub enum Client {
    Producer(Producer),
    Consumer(Consumer),
}

pub struct World {
    pub plan: Plan,
    pub now: i64,
    queue: BinaryHeap<Scheduled>,
    sequence: u64,
    correlations: u64,
    pub random: Random,
    pub network: Network,
    pub trace: Trace,
    pub stats: Stats,
    pub oracle: Oracle,
    file: Arc<BrokerConfig>,
    pub controllers: BTreeMap<Address, ControllerNode>,
    pub brokers: BTreeMap<Address, BrokerNode>,
    pub clients: BTreeMap<Address, Client>,
    pub admin: Admin,
    /// Counts the lives of each node: timers of an earlier one are dropped.
    lives: BTreeMap<Address, u64>,
    pub down: BTreeMap<Address, Loss>,
    paused: BTreeMap<Address, Vec<What>>,
    out: Vec<Output>,
    /// Brokers that did not stop cleanly and are not yet back in sync everywhere.
    pub unclean: BTreeMap<Address, UncleanEnd>,
}

/// The settings of all nodes, for each min.insync.replicas that plans know.
fn settings(min_isr: i32) -> Arc<BrokerConfig> {
    static PARSED: [OnceLock<Arc<BrokerConfig>>; 2] = [OnceLock::new(), OnceLock::new()];
    let at = usize::from(min_isr == 2);
    let parse = || {
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\nmin.insync.replicas={min_isr}\ndefault.replication.factor=3\nauto.leader.rebalance.enable=false\n"
        );
        let parsed = Properties::parse_str(&text)
            .ok()
            .and_then(|properties| BrokerConfig::from_properties(&properties).ok());
        match parsed {
            Some(config) => Arc::new(config),
            None => panic!("the simulation's settings are not valid"),
        }
    };
    Arc::clone(PARSED[at].get_or_init(parse))
}

impl World {
    pub fn new(plan: Plan) -> World {
        let mut seed = [0xa5; 32];
        seed[..8].copy_from_slice(&plan.seed.to_le_bytes());
        let file = settings(plan.min_isr);
        let voters: Vec<Address> = (0..plan.controllers)
            .map(|n| FIRST_CONTROLLER + n)
            .collect();
        let config = || {
            let ids = voters.iter().map(|id| NodeId(*id)).collect();
            ControllerConfig {
                session_timeout_ms: plan.session_timeout_ms,
                ..ControllerConfig::new(CLUSTER_ID, ids, Arc::clone(&file))
            }
        };
        let mut clients = BTreeMap::new();
        let mut next_client = FIRST_CLIENT + 1;
        for number in 0..plan.producers {
            let producer = Producer::new(next_client, number == 0, plan.partitions);
            clients.insert(next_client, Client::Producer(producer));
            next_client += 1;
        }
        for _ in 0..plan.consumers {
            let consumer = Consumer::new(next_client, plan.partitions);
            clients.insert(next_client, Client::Consumer(consumer));
            next_client += 1;
        }
        let mut world = World {
            now: 0,
            queue: BinaryHeap::new(),
            sequence: 0,
            correlations: 0,
            random: Random::from_seed(seed),
            network: Network::default(),
            trace: Trace {
                hash: 0xcbf2_9ce4_8422_2325,
                print: false,
            },
            stats: Stats {
                schedules: 1,
                ..Stats::default()
            },
            oracle: Oracle {
                min_isr: usize::try_from(plan.min_isr).unwrap_or(1),
                ..Oracle::default()
            },
            controllers: voters
                .iter()
                .map(|id| {
                    let core = Controller::new(config());
                    (*id, ControllerNode::new(*id, voters.clone(), core))
                })
                .collect(),
            brokers: (1..=plan.brokers)
                .map(|id| (id, BrokerNode::new(id)))
                .collect(),
            clients,
            admin: Admin::new(FIRST_CLIENT),
            lives: BTreeMap::new(),
            down: BTreeMap::new(),
            paused: BTreeMap::new(),
            out: Vec::new(),
            unclean: BTreeMap::new(),
            file,
            plan,
        };
        let nodes: Vec<Address> = world.nodes().collect();
        for node in nodes {
            world.down.insert(node, Loss::Nothing);
            world.start_at(node, 0);
        }
        world
    }

    pub fn nodes(&self) -> impl Iterator<Item = Address> {
        let clients = self.clients.keys().copied().chain([self.admin.id]);
        let servers = self.controllers.keys().chain(self.brokers.keys()).copied();
        servers.chain(clients).collect::<Vec<_>>().into_iter()
    }

    fn schedule(&mut self, after_ms: i64, what: What) {
        self.sequence += 1;
        self.queue.push(Scheduled {
            at_ms: self.now + after_ms.max(0),
            sequence: self.sequence,
            what,
        });
    }

    pub fn start_at(&mut self, node: Address, after_ms: i64) {
        self.schedule(after_ms, What::Start(node));
    }

    pub fn fault_at(&mut self, after_ms: i64) {
        self.schedule(after_ms, What::Fault);
    }

    /// Lets a node handle something, and takes what it sends. `None` when it is down.
    pub fn with<T>(
        &mut self,
        node: Address,
        run: impl FnOnce(&mut Nodes<'_>, &mut Context<'_>) -> T,
    ) -> (T, bool, bool) {
        let mut out = std::mem::take(&mut self.out);
        let mut context = Context {
            now: self.now,
            address: node,
            plan: &self.plan,
            random: &mut self.random,
            oracle: &mut self.oracle,
            stats: &mut self.stats,
            out: &mut out,
            correlations: &mut self.correlations,
            voted: false,
            exits: false,
        };
        let mut nodes = Nodes {
            controllers: &mut self.controllers,
            brokers: &mut self.brokers,
            clients: &mut self.clients,
            admin: &mut self.admin,
            file: &self.file,
        };
        let result = run(&mut nodes, &mut context);
        let (voted, exits) = (context.voted, context.exits);
        let life = self.lives.get(&node).copied().unwrap_or(0);
        for output in out.drain(..) {
            match output {
                Output::Send { to, message } => {
                    let copies = self.network.route(&self.plan, &mut self.random, node, to);
                    for delay_ms in copies.into_iter().flatten() {
                        let message = message.clone();
                        let from = node;
                        self.schedule(delay_ms, What::Deliver { from, to, message });
                    }
                }
                Output::Timer { after_ms, timer } => {
                    let to = node;
                    self.schedule(after_ms.max(1), What::Timer { to, life, timer });
                }
            }
        }
        self.out = out;
        (result, voted, exits)
    }

    /// The next event; false when it is not before `until_ms`.
    pub fn step(&mut self, until_ms: i64) -> bool {
        if self.queue.peek().is_none_or(|next| next.at_ms >= until_ms) {
            self.now = until_ms;
            return false;
        }
        let Some(next) = self.queue.pop() else {
            return false;
        };
        self.now = next.at_ms;
        self.stats.events += 1;
        self.happen(next.what);
        true
    }

    fn happen(&mut self, what: What) {
        let node = match &what {
            What::Deliver { to, .. } | What::Timer { to, .. } => *to,
            What::Start(node) => {
                self.start(*node);
                return;
            }
            What::Resume(node) => {
                for held in self.paused.remove(node).unwrap_or_default() {
                    self.schedule(0, held);
                }
                return;
            }
            What::Fault => {
                self.fault();
                return;
            }
        };
        if let Some(held) = self.paused.get_mut(&node) {
            held.push(what);
            return;
        }
        if self.down.contains_key(&node) {
            return;
        }
        match what {
            What::Deliver { from, to, message } => {
                let (name, a, b) = message.digest();
                let numbers = [i64::from(from), i64::from(to), a, b];
                self.trace.step(self.now, numbers, name);
                self.deliver(from, to, message);
            }
            What::Timer { to, life, timer } => {
                if self.lives.get(&to) != Some(&life) {
                    return;
                }
                let tag = match timer {
                    Timer::Call(correlation) => i64::try_from(correlation).unwrap_or(-1),
                    _ => 0,
                };
                self.trace
                    .step(self.now, [i64::from(to), tag, 0, 0], timer_name(timer));
                self.wake(to, timer);
            }
            What::Start(_) | What::Resume(_) | What::Fault => {}
        }
        self.after(node);
    }

    fn deliver(&mut self, from: Address, to: Address, message: Message) {
        let (_, voted, _) = self.with(to, |nodes, context| {
            if let Some(controller) = nodes.controllers.get_mut(&to) {
                controller.on_message(context, from, message);
            } else if let Some(broker) = nodes.brokers.get_mut(&to) {
                if let Some(life) = &mut broker.life {
                    life.on_message(context, from, message);
                }
            } else if to == nodes.admin.id {
                nodes.admin.on_message(context, message);
            } else {
                match nodes.clients.get_mut(&to) {
                    Some(Client::Producer(producer)) => producer.on_message(context, message),
                    Some(Client::Consumer(consumer)) => consumer.on_message(context, message),
                    None => {}
                }
            }
        });
        if voted {
            self.voted(to);
        }
    }

    fn wake(&mut self, to: Address, timer: Timer) {
        self.with(to, |nodes, context| {
            if let Some(controller) = nodes.controllers.get_mut(&to) {
                controller.on_timer(context, timer);
            } else if let Some(broker) = nodes.brokers.get_mut(&to) {
                if let Some(life) = &mut broker.life {
                    life.on_timer(context, timer);
                }
            } else if to == nodes.admin.id {
                nodes.admin.on_timer(context);
            } else {
                match nodes.clients.get_mut(&to) {
                    Some(Client::Producer(producer)) => producer.on_timer(context),
                    Some(Client::Consumer(consumer)) => consumer.on_timer(context),
                    None => {}
                }
            }
        });
    }

    /// A broker may have ended by itself: stopped in order, its disk failed, its machine died in a disk operation.
    fn after(&mut self, node: Address) {
        let Some(broker) = self.brokers.get(&node) else {
            return;
        };
        let Some(life) = &broker.life else { return };
        if broker.disk.crashed() {
            let loss = Loss::Random(self.random.next_u64());
            self.crash_broker(node, loss, false);
        } else if life.exit == Some(Exit::Clean) {
            self.crash_broker(node, Loss::Nothing, true);
        } else if life.exit == Some(Exit::Failed) {
            // the machine goes on: only what a failed fsync lost is lost
            self.crash_broker(node, Loss::Nothing, false);
        }
    }

    /// Ends a broker's process; it starts again after a while.
    pub fn crash_broker(&mut self, id: Address, loss: Loss, clean: bool) {
        let disk_failed = self.disk_failed(id);
        self.oracle
            .stopped(id, loss == Loss::Nothing && !disk_failed, disk_failed);
        self.trace.step(
            self.now,
            [i64::from(id), i64::from(clean), 0, 0],
            "broker-ends",
        );
        let broker_epoch = self
            .brokers
            .get(&id)
            .and_then(|broker| broker.life.as_ref()?.broker_epoch);
        if let Some(broker) = self.brokers.get_mut(&id) {
            broker.crash(loss);
        }
        let known = self.unclean.get(&id).copied();
        if loss != Loss::Nothing || known.is_some_and(|end| end != UncleanEnd::Killed) {
            self.unclean.insert(id, UncleanEnd::Lossy);
        } else if !clean {
            self.unclean.insert(id, UncleanEnd::Killed);
        }
        self.down.insert(id, Loss::Nothing);
        self.paused.remove(&id);
        *self.lives.entry(id).or_default() += 1;
        let away_ms = i64::try_from(self.random.below(1_500)).unwrap_or(0);
        self.start_at(id, 20 + away_ms);
        if self.random.below(3) == 0 {
            self.hold_messages_of(id, 200 + away_ms);
        }
        // its connections drop, and its port refuses: controllers may notice before the session lapses
        let controllers: Vec<Address> = self.controllers.keys().copied().collect();
        for controller in controllers {
            if let Some(broker_epoch) = broker_epoch
                && self.random.below(2) == 0
                && self.network.reaches(id, controller)
            {
                let life = self.lives.get(&controller).copied().unwrap_or(0);
                let timer = Timer::BrokerGone {
                    broker: id,
                    broker_epoch: broker_epoch.get(),
                };
                let to = controller;
                self.schedule(5 + away_ms % 90, What::Timer { to, life, timer });
            }
        }
    }

    /// What a node had sent stays in the network for longer: it may arrive when the node has begun another life.
    fn hold_messages_of(&mut self, node: Address, for_ms: i64) {
        let mut held = false;
        let queue = std::mem::take(&mut self.queue);
        self.queue = queue
            .into_iter()
            .map(|mut scheduled| {
                if let What::Deliver { from, .. } = &scheduled.what
                    && *from == node
                {
                    scheduled.at_ms += for_ms;
                    held = true;
                }
                scheduled
            })
            .collect();
        if held {
            self.stats.fault("late-messages-of-an-earlier-life");
        }
    }

    fn disk_failed(&self, id: Address) -> bool {
        self.brokers.get(&id).is_some_and(|broker| {
            let exit = broker.life.as_ref().and_then(|life| life.exit);
            broker.disk.crashed() || exit == Some(Exit::Failed)
        })
    }

    pub fn crash_controller(&mut self, id: Address, loss: Loss, away_ms: i64) {
        self.trace
            .step(self.now, [i64::from(id), 0, 0, 0], "controller-ends");
        self.down.insert(id, loss);
        self.paused.remove(&id);
        *self.lives.entry(id).or_default() += 1;
        self.start_at(id, away_ms);
    }

    pub fn pause(&mut self, node: Address, for_ms: i64) {
        if self.down.contains_key(&node) || self.paused.contains_key(&node) {
            return;
        }
        self.trace
            .step(self.now, [i64::from(node), for_ms, 0, 0], "pause");
        self.paused.insert(node, Vec::new());
        self.schedule(for_ms, What::Resume(node));
    }

    pub fn is_paused(&self, node: Address) -> bool {
        self.paused.contains_key(&node)
    }

    /// Everybody goes on, and whoever is down starts now.
    pub fn resume_all(&mut self) {
        let paused: Vec<Address> = self.paused.keys().copied().collect();
        for node in paused {
            self.schedule(0, What::Resume(node));
        }
        let down: Vec<Address> = self.down.keys().copied().collect();
        for node in down {
            self.start_at(node, 1);
        }
    }

    fn start(&mut self, node: Address) {
        let Some(loss) = self.down.remove(&node) else {
            return;
        };
        self.trace
            .step(self.now, [i64::from(node), 0, 0, 0], "start");
        *self.lives.entry(node).or_default() += 1;
        let (_, _, exits) = self.with(node, |nodes, context| {
            if is_controller(node) {
                if let Some(controller) = nodes.controllers.get_mut(&node) {
                    controller.start(context, loss);
                }
            } else if is_broker(node) {
                if let Some(broker) = nodes.brokers.get_mut(&node) {
                    broker.start(context, nodes.file);
                }
            } else if node == nodes.admin.id {
                nodes.admin.start(context);
            } else {
                match nodes.clients.get_mut(&node) {
                    Some(Client::Producer(producer)) => producer.start(context),
                    Some(Client::Consumer(consumer)) => consumer.start(context),
                    None => {}
                }
            }
        });
        if exits {
            let loss = Loss::Random(self.random.next_u64());
            self.crash_broker(node, loss, false);
        }
        self.after(node);
    }
}

/// The nodes, apart from what a context borrows.
pub struct Nodes<'a> {
    pub controllers: &'a mut BTreeMap<Address, ControllerNode>,
    pub brokers: &'a mut BTreeMap<Address, BrokerNode>,
    pub clients: &'a mut BTreeMap<Address, Client>,
    pub admin: &'a mut Admin,
    pub file: &'a Arc<BrokerConfig>,
}

fn timer_name(timer: Timer) -> &'static str {
    match timer {
        Timer::Election => "election",
        Timer::RaftHeartbeat => "raft-heartbeat",
        Timer::ControllerDeadline => "controller-deadline",
        Timer::ReleaseObservers => "release-observers",
        Timer::BrokerGone { .. } => "broker-gone",
        Timer::Heartbeat => "heartbeat",
        Timer::Metadata => "metadata",
        Timer::LeaderTick => "leader-tick",
        Timer::Flush => "flush",
        Timer::Checkpoint => "checkpoint",
        Timer::Fetch => "fetch",
        Timer::ParkedRequests => "parked-requests",
        Timer::Call(_) => "call",
        Timer::Work => "work",
    }
}
