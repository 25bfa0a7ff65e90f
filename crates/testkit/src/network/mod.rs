//! A network that a test can spoil: one proxy before each node, which knows who connects, and rules for each pair.
//! Not here: carrying the bytes (proxy), finding out whose a connection is (whose), starting nodes (cluster).
//! One thread with a runtime of its own; rules are changed by the test's thread and hold at once, also for connections
//! that are open. Kafka: no counterpart; its system tests use Trogdor and iptables, which need root.

mod proxy;
mod whose;

use kavka_protocol::ApiKey;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// The test itself, tools, real clients: everything that is not a node.
    Client,
    Node(i32),
}

/// What is done to one request, or to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// The request is served, its answer never comes; the connection stays.
    SwallowResponse,
    /// The request is served, the connection is reset instead of the answer.
    CutBeforeResponse,
    /// The connection is reset after this many bytes of the request.
    CutRequest { after_bytes: usize },
    /// The connection is reset after this many bytes of the answer.
    CutResponse { after_bytes: usize },
    /// The connection is reset; the request arrives by itself, so much later.
    HoldRequest { ms: u64 },
}

/// Which requests a mischief is for, and how often.
#[derive(Clone, Debug)]
struct Planned {
    from: Option<Host>,
    to: Option<i32>,
    api: i16,
    mischief: Mischief,
    left: u32,
}

/// What holds now. A pair is (who sends the packets, who would get them).
#[derive(Clone, Debug, Default)]
struct Rules {
    /// Packets vanish; TCP sends them again, so what is under way arrives after the healing.
    blocked: BTreeSet<(Host, Host)>,
    /// Milliseconds that packets take, from and to.
    delay_ms: BTreeMap<(Host, Host), (u64, u64)>,
    /// Frames are written in pieces of so many bytes.
    pieces_bytes: Option<usize>,
    /// Connections of the pair that are older than this count of resets are reset.
    resets: BTreeMap<(Host, Host), u64>,
}

impl Rules {
    fn silent(&self, a: Host, b: Host) -> bool {
        self.blocked.contains(&(a, b)) || self.blocked.contains(&(b, a))
    }

    fn resets_of(&self, a: Host, b: Host) -> u64 {
        self.resets.get(&(a.min(b), a.max(b))).copied().unwrap_or(0)
    }
}

/// What the proxies share with the test.
struct Shared {
    rules: watch::Sender<Rules>,
    planned: Mutex<Vec<Planned>>,
    /// Process id → node.
    processes: Mutex<BTreeMap<i32, i32>>,
    fired: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", *self.rules.borrow())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The mischief for this request, which uses it up.
    fn mischief(&self, from: Host, to: i32, api: i16) -> Option<Mischief> {
        let mut planned = locked(&self.planned);
        let found = planned.iter_mut().find(|plan| {
            plan.left > 0
                && plan.api == api
                && plan.from.is_none_or(|host| host == from)
                && plan.to.is_none_or(|node| node == to)
        })?;
        found.left -= 1;
        self.fired.fetch_add(1, Ordering::SeqCst);
        Some(found.mischief)
    }
}

/// A way in: connections to `port` go to `target_port` of the node.
#[derive(Debug)]
struct Entrance {
    node: i32,
    port: u16,
    target_port: u16,
    task: Option<JoinHandle<()>>,
}

/// All proxies of a cluster.
#[derive(Debug)]
pub struct Network {
    shared: Arc<Shared>,
    entrances: Vec<Entrance>,
    runtime: Option<Runtime>,
}

impl Default for Network {
    fn default() -> Self {
        Network::new()
    }
}

impl Network {
    pub fn new() -> Network {
        // Everything that the nodes say to each other and to clients goes through this process, twice.
        let mut files = getrlimit(Resource::Nofile);
        files.current = files.maximum;
        let _ = setrlimit(Resource::Nofile, files);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("network")
            .enable_all()
            .build()
            .expect("a runtime");
        Network {
            shared: Arc::new(Shared {
                rules: watch::Sender::new(Rules::default()),
                planned: Mutex::new(Vec::new()),
                processes: Mutex::new(BTreeMap::new()),
                fired: AtomicU64::new(0),
            }),
            entrances: Vec::new(),
            runtime: Some(runtime),
        }
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("until it is dropped")
    }

    /// A proxy from `port` to `target_port` of a node; closed until the node is up.
    pub(crate) fn add(&mut self, node: i32, port: u16, target_port: u16) {
        self.entrances.push(Entrance {
            node,
            port,
            target_port,
            task: None,
        });
    }

    /// The node's process is about to run.
    pub(crate) fn open(&mut self, node: i32) {
        let shared = Arc::clone(&self.shared);
        let handle = self.runtime().handle().clone();
        for entrance in self.entrances.iter_mut().filter(|e| e.node == node) {
            if entrance.task.is_none() {
                let listener = std::net::TcpListener::bind(("127.0.0.1", entrance.port))
                    .expect("a port of our own");
                let (shared, to, target) = (Arc::clone(&shared), node, entrance.target_port);
                entrance.task = Some(handle.spawn(proxy::serve(shared, listener, to, target)));
            }
        }
    }

    /// The node's process is gone, or about to go: from now on connections are refused.
    pub(crate) fn close(&mut self, node: i32) {
        let handle = self.runtime().handle().clone();
        for entrance in self.entrances.iter_mut().filter(|e| e.node == node) {
            if let Some(task) = entrance.task.take() {
                task.abort();
                // until the listener is closed
                let _ = handle.block_on(task);
            }
        }
    }

    /// Connections from this process are the node's.
    pub(crate) fn process(&self, process_id: i32, node: i32) {
        locked(&self.shared.processes).insert(process_id, node);
    }

    fn change(&self, change: impl FnOnce(&mut Rules)) {
        self.shared.rules.send_modify(change);
    }

    /// Packets from `from` to `to` vanish from now on.
    pub fn block(&self, from: Host, to: Host) {
        self.change(|rules| {
            rules.blocked.insert((from, to));
        });
    }

    /// Both ways.
    pub fn part(&self, a: Host, b: Host) {
        self.change(|rules| {
            rules.blocked.insert((a, b));
            rules.blocked.insert((b, a));
        });
    }

    pub fn unblock(&self, from: Host, to: Host) {
        self.change(|rules| {
            rules.blocked.remove(&(from, to));
        });
    }

    /// Packets between the two take between `from_ms` and `to_ms`, each way.
    pub fn delay(&self, a: Host, b: Host, from_ms: u64, to_ms: u64) {
        self.change(|rules| {
            rules.delay_ms.insert((a, b), (from_ms, to_ms));
            rules.delay_ms.insert((b, a), (from_ms, to_ms));
        });
    }

    /// Every frame goes out in pieces of so many bytes.
    pub fn in_pieces(&self, bytes: usize) {
        self.change(|rules| rules.pieces_bytes = Some(bytes));
    }

    /// Resets the connections that are open between the two.
    pub fn reset(&self, a: Host, b: Host) {
        self.change(|rules| {
            *rules.resets.entry((a.min(b), a.max(b))).or_default() += 1;
        });
    }

    /// Does `mischief` to the next `times` requests of this kind.
    pub fn plan(
        &self,
        from: Option<Host>,
        to: Option<i32>,
        api: ApiKey,
        mischief: Mischief,
        times: u32,
    ) {
        locked(&self.shared.planned).push(Planned {
            from,
            to,
            api: api as i16,
            mischief,
            left: times,
        });
    }

    /// How many requests mischief was done to.
    pub fn fired(&self) -> u64 {
        self.shared.fired.load(Ordering::SeqCst)
    }

    /// No partitions, delays and mischief any more. What was held up arrives.
    pub fn heal(&self) {
        locked(&self.shared.planned).clear();
        self.change(|rules| {
            rules.blocked.clear();
            rules.delay_ms.clear();
            rules.pieces_bytes = None;
        });
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}
