//! Waiting requests: a waiter is registered with each partition it depends on, and woken when one of them moves.
//! Not here: what a request waits for (it looks again when woken), deadlines (the waiting future has a timer).
//! Lists live inside the partition's state, under its lock; waiters are woken after that lock is released.
//! Kafka: DelayedOperationPurgatory, DelayedProduce, DelayedFetch. No polling, and no reaper: a dropped request's waiter is dead.

use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// One waiting request.
#[derive(Debug, Default)]
pub struct Waiter {
    notify: Notify,
}

impl Waiter {
    pub fn new() -> Arc<Waiter> {
        Arc::new(Waiter::default())
    }

    /// Until a partition has moved since the last call. A wake-up that came in between is not lost.
    pub async fn wait(&self) {
        self.notify.notified().await;
    }

    fn wake(&self) {
        self.notify.notify_one();
    }
}

/// The requests that wait for one partition.
#[derive(Debug, Default)]
pub struct Waiters {
    list: Vec<Weak<Waiter>>,
    /// Dead waiters are swept when the list has doubled: a partition without traffic still collects timed-out fetches.
    sweep_at: usize,
}

const SWEEP_AT_MIN: usize = 32;

impl Waiters {
    pub fn add(&mut self, waiter: &Arc<Waiter>) {
        if self.list.len() >= self.sweep_at.max(SWEEP_AT_MIN) {
            self.list.retain(|weak| weak.strong_count() > 0);
            self.sweep_at = 2 * self.list.len();
        }
        self.list.push(Arc::downgrade(waiter));
    }

    /// Takes all; call `wake` on the result once the partition's lock is released.
    pub fn take(&mut self) -> Woken {
        Woken(std::mem::take(&mut self.list))
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Waiters on their way out of a partition's lock.
#[derive(Debug, Default)]
#[must_use = "the waiters sleep until `wake`"]
pub struct Woken(Vec<Weak<Waiter>>);

impl Woken {
    /// Those of both.
    pub fn and(mut self, other: Woken) -> Woken {
        self.0.extend(other.0);
        self
    }

    pub fn wake(self) {
        for waiter in self.0 {
            if let Some(waiter) = waiter.upgrade() {
                waiter.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wake_up_before_the_wait_is_not_lost() {
        let mut waiters = Waiters::default();
        let waiter = Waiter::new();
        waiters.add(&waiter);
        waiters.take().wake();
        waiter.wait().await;
        assert!(waiters.is_empty());
    }

    #[test]
    fn dead_waiters_are_swept() {
        let mut waiters = Waiters::default();
        let alive = Waiter::new();
        waiters.add(&alive);
        for _ in 0..10_000 {
            waiters.add(&Waiter::new());
        }
        assert!(waiters.len() <= 2 * SWEEP_AT_MIN);
        assert!(waiters.list[0].upgrade().is_some());
    }
}
