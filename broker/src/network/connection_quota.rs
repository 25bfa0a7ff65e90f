//! Counts the connections of the process and of each address.
//! Not here: what happens to a refused connection (listener.rs).
//! Any task; a short lock per accept and per close.
//! Kafka: kafka.network.ConnectionQuotas.

use crate::network::NetworkLimits;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct ConnectionQuota {
    connections_max: usize,
    per_ip_max: usize,
    per_ip_overrides: HashMap<IpAddr, usize>,
    counts: Mutex<Counts>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_ip: HashMap<IpAddr, usize>,
}

/// The address has as many connections as it may have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("Too many connections from {ip} (maximum = {max})")]
pub(crate) struct TooManyConnections {
    pub(crate) ip: IpAddr,
    pub(crate) max: usize,
}

impl ConnectionQuota {
    pub(crate) fn new(limits: &NetworkLimits) -> Arc<Self> {
        Arc::new(ConnectionQuota {
            connections_max: limits.connections_max,
            per_ip_max: limits.connections_per_ip_max,
            per_ip_overrides: limits.connections_per_ip_overrides.clone(),
            counts: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Waits until the process may have one more connection. Nothing is reserved: only the accept tasks add.
    pub(crate) async fn wait_for_slot(&self) {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if self.counts.lock().total < self.connections_max {
                return;
            }
            freed.await;
        }
    }

    pub(crate) fn admit(self: &Arc<Self>, ip: IpAddr) -> Result<Admitted, TooManyConnections> {
        let max = self
            .per_ip_overrides
            .get(&ip)
            .copied()
            .unwrap_or(self.per_ip_max);
        let mut counts = self.counts.lock();
        let of_ip = counts.by_ip.entry(ip).or_default();
        if *of_ip >= max {
            if *of_ip == 0 {
                counts.by_ip.remove(&ip);
            }
            return Err(TooManyConnections { ip, max });
        }
        *of_ip += 1;
        counts.total += 1;
        Ok(Admitted {
            quota: Arc::clone(self),
            ip,
        })
    }

    pub(crate) fn total(&self) -> usize {
        self.counts.lock().total
    }
}

/// One counted connection.
#[derive(Debug)]
pub(crate) struct Admitted {
    quota: Arc<ConnectionQuota>,
    ip: IpAddr,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.quota.counts.lock();
        counts.total -= 1;
        if let Some(of_ip) = counts.by_ip.get_mut(&self.ip) {
            *of_ip -= 1;
            if *of_ip == 0 {
                counts.by_ip.remove(&self.ip);
            }
        }
        drop(counts);
        self.quota.freed.notify_waiters();
    }
}
