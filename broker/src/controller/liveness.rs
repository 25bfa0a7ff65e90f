//! Notices at once when a broker's process is gone: its connection drops, and its listeners refuse a probe.
//! Not here: sessions that lapse by time (crates/controller), what fencing means.
//! Told by connection tasks; each probe is a task of its own and ends within a second.
//! Kafka waits for `broker.session.timeout.ms`; the ZooKeeper brokers waited for their session likewise.

use kavka_common::{BrokerEpoch, NodeId};
use kavka_metadata::BrokerRegistration;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

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
pub const PROBE_PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1500),
];

/// Whether no process listens where the broker said that it does. Only a refusal counts: silence may be the network's.
pub async fn is_gone(broker: &BrokerRegistration) -> bool {
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
