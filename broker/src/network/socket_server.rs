//! All listeners of the process: bound together, opened when the server is ready, drained at its stop.
//! Not here: one listener's loop (listener.rs), when each step happens (server.rs).
//! Called by the composition root; owns the accept tasks and counts the connection tasks.
//! Kafka: kafka.network.SocketServer.

use crate::logging::RateLimit;
use crate::network::budget::RequestBudget;
use crate::network::connection::Dispatch;
use crate::network::connection_quota::ConnectionQuota;
use crate::network::listener::{BindError, Endpoint, Listener, ListenerInfo};
use crate::network::{ListenerKind, NetworkLimits};
use kavka_common::Clock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What every connection needs.
pub(crate) struct NetworkShared {
    pub(crate) limits: NetworkLimits,
    pub(crate) budget: Arc<RequestBudget>,
    pub(crate) quota: Arc<ConnectionQuota>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Limits the lines that a peer can cause.
    pub(crate) fault_lines: RateLimit,
    pub(crate) draining: watch::Sender<bool>,
    pub(crate) connections: Connections,
    next_id: AtomicU64,
}

impl NetworkShared {
    pub(crate) fn new(limits: NetworkLimits, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(NetworkShared {
            budget: RequestBudget::new(limits.queued_request_bytes_max),
            quota: ConnectionQuota::new(&limits),
            limits,
            clock,
            fault_lines: RateLimit::per_second(5),
            draining: watch::Sender::new(false),
            connections: Connections::default(),
            next_id: AtomicU64::new(1),
        })
    }

    pub(crate) fn next_connection_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Counts the running connection tasks, so that a stop can wait for them.
#[derive(Clone, Default)]
pub(crate) struct Connections {
    running: Arc<watch::Sender<usize>>,
}

impl Connections {
    pub(crate) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        struct Running(Arc<watch::Sender<usize>>);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.send_modify(|running| *running -= 1);
            }
        }
        self.running.send_modify(|running| *running += 1);
        let running = Running(Arc::clone(&self.running));
        tokio::spawn(async move {
            let _running = running;
            connection.await;
        });
    }

    async fn all_closed(&self) {
        let mut running = self.running.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = running.wait_for(|running| *running == 0).await;
    }
}

/// The server's sockets.
pub struct SocketServer {
    shared: Arc<NetworkShared>,
    bound: Mutex<Vec<Listener>>,
    listeners: Vec<Arc<ListenerInfo>>,
    accepting: Mutex<Vec<JoinHandle<()>>>,
    stop_accepting: watch::Sender<bool>,
}

impl SocketServer {
    /// Binds all endpoints; nothing is accepted yet, clients wait in the backlog.
    pub fn bind(
        endpoints: &[Endpoint],
        limits: NetworkLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<SocketServer, BindError> {
        let shared = NetworkShared::new(limits, clock);
        let mut bound = Vec::with_capacity(endpoints.len());
        for (i, endpoint) in endpoints.iter().enumerate() {
            let v6_only = endpoints
                .iter()
                .enumerate()
                .any(|(j, other)| i != j && endpoint.port != 0 && other.port == endpoint.port);
            bound.push(Listener::bind(endpoint, v6_only, &shared)?);
        }
        Ok(SocketServer {
            listeners: bound.iter().map(|l| Arc::clone(&l.info)).collect(),
            shared,
            bound: Mutex::new(bound),
            accepting: Mutex::default(),
            stop_accepting: watch::Sender::new(false),
        })
    }

    /// All bound listeners, in the order of the endpoints.
    pub fn listeners(&self) -> &[Arc<ListenerInfo>] {
        &self.listeners
    }

    /// Opens the listeners of one kind. `protected` names the listener that stays open at the connection limit.
    pub fn open(&self, kind: ListenerKind, dispatch: &Arc<dyn Dispatch>, protected: Option<&str>) {
        let (open, keep): (Vec<_>, Vec<_>) = self
            .bound
            .lock()
            .drain(..)
            .partition(|l| l.info.kind == kind);
        *self.bound.lock() = keep;
        let mut accepting = self.accepting.lock();
        for listener in open {
            let is_protected =
                kind == ListenerKind::Controller || protected == Some(listener.info.name.as_str());
            accepting.push(tokio::spawn(listener.accept_loop(
                Arc::clone(dispatch),
                Arc::clone(&self.shared),
                is_protected,
                self.stop_accepting.subscribe(),
            )));
        }
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared.quota.total()
    }

    /// Stops accepting, then lets every connection finish the requests that it has dispatched, for at most the
    /// configured time.
    pub async fn shutdown(&self) {
        self.stop_accepting.send_replace(true);
        self.bound.lock().clear();
        let accepting = std::mem::take(&mut *self.accepting.lock());
        for task in accepting {
            // A panic in an accept loop has been reported by the panic hook.
            let _ = task.await;
        }
        self.shared.draining.send_replace(true);
        // Each connection keeps its own drain deadline; the margin is for scheduling.
        let _ = tokio::time::timeout(
            self.shared.limits.drain * 2,
            self.shared.connections.all_closed(),
        )
        .await;
    }
}
