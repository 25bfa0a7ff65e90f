//! What clients saw of a topic: each send with its outcome, each poll, and one complete reading at the end.
//! Not here: sending and polling (workload), what must not happen (judge).
//! Pure data; `Recorder` is shared by the threads of a workload and gives out the moments.
//! Kafka: no counterpart; in the manner of Jepsen's Kafka workload (jepsen.tests.kafka), one value for each send.

pub mod judge;
#[cfg(test)]
mod judge_test;

pub use judge::{Anomaly, Judgement, judge};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A place in the one order of everything that the test's process did.
pub type Moment = u64;

/// How a send ended for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged by all replicas in sync, at this offset.
    Ok { offset: i64 },
    /// Refused before anything could have been written.
    Failed,
    /// Nobody knows: it may be there, now or later, or not. Never counted as failed.
    Unknown,
}

/// One record on its way. `value` is unique in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    pub partition: i32,
    pub value: u64,
    pub invoked: Moment,
    pub completed: Moment,
    pub outcome: Outcome,
}

/// What one fetch brought: offsets and values in the order in which they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    pub reader: u32,
    pub partition: i32,
    /// Whether the reader chose this place instead of going on where its last poll ended.
    pub sought: bool,
    pub completed: Moment,
    pub records: Vec<(i64, u64)>,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub sends: Vec<Send>,
    pub polls: Vec<Poll>,
    /// Each partition from its beginning to its end, read after everything was healed.
    pub finally: BTreeMap<i32, Vec<(i64, u64)>>,
    /// Answers that no sound broker gives, in words.
    pub surprises: Vec<String>,
}

/// Collects a history from several threads.
#[derive(Debug, Default)]
pub struct Recorder {
    clock: AtomicU64,
    next_value: AtomicU64,
    acknowledged: AtomicU64,
    /// When the newest acknowledged send began.
    newest: AtomicU64,
    /// When records were acknowledged, for those who measure.
    times: Mutex<Vec<Instant>>,
    history: Mutex<History>,
}

impl Recorder {
    pub fn now(&self) -> Moment {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A value that no other send has.
    pub fn fresh_value(&self) -> u64 {
        self.next_value.fetch_add(1, Ordering::Relaxed)
    }

    /// How many sends were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Whether a send that began after `moment` is acknowledged.
    pub fn acknowledged_since(&self, moment: Moment) -> bool {
        self.newest.load(Ordering::SeqCst) > moment
    }

    /// The longest time between two acknowledgements from `since` on.
    pub fn longest_pause(&self, since: Instant) -> Duration {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let first = times
            .partition_point(|time| *time < since)
            .saturating_sub(1);
        let pauses = times[first..].windows(2).map(|pair| pair[1] - pair[0]);
        pauses.max().unwrap_or_default()
    }

    fn with(&self, change: impl FnOnce(&mut History)) {
        change(&mut self.history.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The end of a send that began at `invoked`; it completes now.
    pub fn sent(&self, partition: i32, value: u64, invoked: Moment, outcome: Outcome) {
        let completed = self.now();
        self.with(|history| {
            history.sends.push(Send {
                partition,
                value,
                invoked,
                completed,
                outcome,
            });
        });
        if matches!(outcome, Outcome::Ok { .. }) {
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            self.newest.fetch_max(invoked, Ordering::SeqCst);
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.push(Instant::now());
        }
    }

    pub fn polled(&self, reader: u32, partition: i32, sought: bool, records: Vec<(i64, u64)>) {
        let completed = self.now();
        self.with(|history| {
            history.polls.push(Poll {
                reader,
                partition,
                sought,
                completed,
                records,
            });
        });
    }

    pub fn finally(&self, partition: i32, records: Vec<(i64, u64)>) {
        self.with(|history| {
            history.finally.insert(partition, records);
        });
    }

    pub fn surprise(&self, what: String) {
        self.with(|history| history.surprises.push(what));
    }

    /// What was recorded so far.
    pub fn history(&self) -> History {
        self.history
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
