//! Notices at once when a broker's process is gone: its connection drops, or the active controller has changed, and its
//! listeners refuse a probe.
//! Not here: sessions that lapse by time (crates/controller), what fencing means.
//! Told by connection tasks and the controller's task; each look is a task of its own and ends within seconds.
//! Kafka waits for `broker.session.timeout.ms`; the ZooKeeper brokers waited for their session likewise.

use super::shell::Command;
use crate::quorum::MetadataQuorum;
use kavka_common::{BrokerEpoch, NodeId};
use kavka_metadata::{BrokerRegistration, MetadataImage};
use kavka_protocol::messages::BrokerRegistrationRequest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tracing::info;

const LOGGER: &str = "org.apache.kafka.controller.QuorumController";

/// A listener that neither answers nor refuses within this time says nothing: the machine may be busy.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// A connection cannot tell more brokers than this apart from a flood of ids.
const CONNECTIONS_MAX: usize = 10_000;

/// Which broker heartbeats over which connection.
#[derive(Debug, Default)]
pub struct BrokerConnections {
    seen: Mutex<HashMap<u64, (NodeId, BrokerEpoch)>>,
}

impl BrokerConnections {
    /// A heartbeat was accepted over this connection.
    pub fn heard(&self, connection_id: u64, broker_id: NodeId, broker_epoch: BrokerEpoch) {
        let mut seen = self.seen.lock();
        if seen.len() < CONNECTIONS_MAX || seen.contains_key(&connection_id) {
            seen.insert(connection_id, (broker_id, broker_epoch));
        }
    }

    /// Whether the broker heartbeats over any connection.
    pub fn vouches_for(&self, broker_id: NodeId, broker_epoch: BrokerEpoch) -> bool {
        let broker = (broker_id, broker_epoch);
        self.seen.lock().values().any(|other| *other == broker)
    }

    /// The connection is closed; gives the broker that heartbeat over it, unless it does so over another one too.
    pub fn closed(&self, connection_id: u64) -> Option<(NodeId, BrokerEpoch)> {
        let mut seen = self.seen.lock();
        let broker = seen.remove(&connection_id)?;
        (!seen.values().any(|other| *other == broker)).then_some(broker)
    }
}

/// Pauses before each probe. A process that dies closes its connections and its listeners one after the other, so the
/// first look may come too early.
const PROBE_PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1500),
];

/// What is needed to look after a broker.
#[derive(Clone)]
pub struct Liveness {
    /// Weak: the controller's task ends with its handles.
    commands: mpsc::WeakSender<Command>,
    quorum: Arc<dyn MetadataQuorum>,
    pub connections: Arc<BrokerConnections>,
}

impl Liveness {
    pub fn new(commands: mpsc::WeakSender<Command>, quorum: Arc<dyn MetadataQuorum>) -> Self {
        Liveness {
            commands,
            quorum,
            connections: Arc::default(),
        }
    }

    /// Looks after every broker that counts as alive and is not in this process.
    pub fn look_after_all(&self, image: &MetadataImage) {
        let own = self.quorum.node_id();
        for broker in image.cluster.unfenced_brokers() {
            if broker.broker_id != own {
                self.look_after(broker.broker_id, broker.broker_epoch);
            }
        }
    }

    /// Has the broker fenced if it heartbeats over no connection to this node and nothing listens at its addresses.
    pub fn look_after(&self, broker_id: NodeId, broker_epoch: BrokerEpoch) {
        // None while the process stops, when there is nobody left to tell.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let this = self.clone();
        runtime.spawn(async move {
            for pause in PROBE_PAUSES {
                tokio::time::sleep(pause).await;
                let image = this.quorum.image();
                let registration = image
                    .cluster
                    .broker(broker_id)
                    .filter(|broker| broker.broker_epoch == broker_epoch && !broker.fenced);
                let Some(broker) = registration else {
                    return;
                };
                if this.connections.vouches_for(broker_id, broker_epoch) {
                    return;
                }
                if is_gone(broker).await {
                    info!(target: LOGGER, "broker {broker_id} has no connection and its listeners refuse connections: fencing it");
                    let command = Command::Fence {
                        broker_id,
                        broker_epoch,
                    };
                    if let Some(commands) = this.commands.upgrade() {
                        let _ = commands.send(command).await;
                    }
                    return;
                }
            }
        });
    }
}

/// Whether a broker registers from the addresses at which its earlier life listened. Two processes cannot.
pub fn is_same_place(old: &BrokerRegistration, new: &BrokerRegistrationRequest) -> bool {
    !old.endpoints.is_empty()
        && old.endpoints.len() == new.listeners.len()
        && old.endpoints.iter().all(|endpoint| {
            new.listeners
                .iter()
                .any(|listener| *listener.host == *endpoint.host && listener.port == endpoint.port)
        })
}

/// Whether no process listens where the broker said that it does. Only a refusal counts: silence may be the network's.
async fn is_gone(broker: &BrokerRegistration) -> bool {
    if broker.endpoints.is_empty() {
        return false;
    }
    for endpoint in &broker.endpoints {
        let connect = TcpStream::connect((&*endpoint.host, endpoint.port));
        match tokio::time::timeout(PROBE_TIMEOUT, connect).await {
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Ok(Ok(_) | Err(_)) | Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_with_another_connection_is_not_given_up() {
        let connections = BrokerConnections::default();
        let broker = (NodeId(1), BrokerEpoch(7));
        connections.heard(10, broker.0, broker.1);
        connections.heard(11, broker.0, broker.1);
        assert_eq!(connections.closed(10), None);
        assert_eq!(connections.closed(12), None);
        assert_eq!(connections.closed(11), Some(broker));
        assert_eq!(connections.closed(11), None);
    }
}
