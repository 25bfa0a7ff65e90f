//! The clock seam: wall time for records and files, monotonic time for timers.
//! Not here: timers themselves (cores return deadlines, shells wait for them).
//! Any task; `SystemClock` is the only place in the workspace that asks the machine for the time.
//! Kafka: org.apache.kafka.common.utils.{Time, SystemTime, MockTime}.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time in milliseconds.
pub trait Clock: Send + Sync {
    /// Wall time since the epoch. May jump.
    fn wall_ms(&self) -> i64;
    /// Time since some fixed moment of this process. Never goes back; timers use this one.
    fn monotonic_ms(&self) -> i64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    #[allow(clippy::disallowed_methods)] // the seam itself
    pub fn new() -> Self {
        SystemClock {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the seam itself
    fn wall_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        }
    }

    #[allow(clippy::disallowed_methods)] // the seam itself
    fn monotonic_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that a test moves by hand; both times advance together.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
}

impl ManualClock {
    pub fn at(wall_ms: i64) -> Self {
        ManualClock {
            wall_ms: AtomicI64::new(wall_ms),
            monotonic_ms: AtomicI64::new(0),
        }
    }

    pub fn advance(&self, by_ms: i64) {
        self.wall_ms.fetch_add(by_ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> i64 {
        self.monotonic_ms.load(Ordering::SeqCst)
    }
}
