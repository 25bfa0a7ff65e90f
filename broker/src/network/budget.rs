//! The memory that all requests of the process may hold together, and a guard that gives its part back.
//! Not here: the size cap of one request (frame.rs), the number of requests in flight (connection.rs).
//! Any task; counts with atomics, wakes waiting connections.
//! Kafka: org.apache.kafka.common.memory.SimpleMemoryPool (`queued.max.request.bytes`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Requests at most this long are never held back: heartbeats and metadata must pass a full queue of produce
/// requests. Their sum is bounded by the connections and their requests in flight.
const ALWAYS_ADMITTED_BYTES: usize = 4096;

/// Bytes of requests that are being received or handled.
#[derive(Debug)]
pub struct RequestBudget {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    room: Notify,
}

impl RequestBudget {
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(RequestBudget {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
            room: Notify::new(),
        })
    }

    /// Charges a request before its body is read. As in Kafka, the last request admitted may exceed the limit
    /// (else one request larger than the whole limit would wait for ever).
    pub fn try_charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        if bytes > ALWAYS_ADMITTED_BYTES && !self.has_room() {
            return None;
        }
        self.used_bytes.fetch_add(bytes, Ordering::AcqRel);
        Some(Charge {
            budget: Arc::clone(self),
            bytes,
        })
    }

    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Acquire)
    }

    fn has_room(&self) -> bool {
        self.used_bytes() < self.limit_bytes
    }

    /// Returns when a charge may succeed again; another connection may take the room first.
    pub async fn wait_for_room(&self) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // Registered before the check, so that a release in between is not lost.
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }
}

/// Part of the budget, returned when the request is answered.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<RequestBudget>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let before = self
            .budget
            .used_bytes
            .fetch_sub(self.bytes, Ordering::AcqRel);
        assert!(before >= self.bytes);
        let limit_bytes = self.budget.limit_bytes;
        if before >= limit_bytes && before - self.bytes < limit_bytes {
            self.budget.room.notify_waiters();
        }
    }
}

/// The default of `queued.max.request.bytes` when the property says -1: a quarter of the machine's memory, or of
/// the control group's limit where that is lower.
pub fn default_limit_bytes(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / 4)
        .unwrap_or(usize::MAX)
        .max(64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_budget_admits_small_requests_and_wakes_large_ones() {
        let budget = RequestBudget::new(10_000);
        let large = budget.try_charge(20_000).expect("the first is admitted");
        assert!(budget.try_charge(5_000).is_none());
        let small = budget.try_charge(100).expect("small requests pass");
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.wait_for_room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(large);
        waiting.await.unwrap();
        assert!(budget.try_charge(5_000).is_some());
        drop(small);
        assert_eq!(budget.used_bytes(), 0);
    }
}
