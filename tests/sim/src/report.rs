//! What a run came to: numbers over schedules, and the first violation.
//! Not here: what is a violation (invariants/).
//! Plain data. Kafka: none.

use std::collections::BTreeMap;
use std::fmt;

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub at_ms: i64,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {} ms: {}",
            self.invariant, self.at_ms, self.message
        )
    }
}

/// What happened in one schedule, or in many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub schedules: u64,
    pub events: u64,
    pub faults: BTreeMap<&'static str, u64>,
    /// Records that were acknowledged, surely not written, or of an unknown fate.
    pub ok: u64,
    pub failed: u64,
    pub unknown: u64,
    pub consumed: u64,
    pub activations: u64,
    pub resignations: u64,
    pub leaderships: u64,
    pub truncations: u64,
    pub isr_changes: u64,
    pub simulated_ms: i64,
}

impl Stats {
    pub fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_default() += 1;
    }

    pub fn add(&mut self, other: &Stats) {
        self.schedules += other.schedules;
        self.events += other.events;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
        self.ok += other.ok;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.consumed += other.consumed;
        self.activations += other.activations;
        self.resignations += other.resignations;
        self.leaderships += other.leaderships;
        self.truncations += other.truncations;
        self.isr_changes += other.isr_changes;
        self.simulated_ms += other.simulated_ms;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "schedules {}  events {}  simulated {} s",
            self.schedules,
            self.events,
            self.simulated_ms / 1000
        )?;
        writeln!(
            f,
            "records: ok {}  failed {}  unknown {}  consumed {}",
            self.ok, self.failed, self.unknown, self.consumed
        )?;
        writeln!(
            f,
            "controllers: activations {}  resignations {}; partitions: leaderships {}  isr changes {}  truncations {}",
            self.activations,
            self.resignations,
            self.leaderships,
            self.isr_changes,
            self.truncations
        )?;
        let fired: u64 = self.faults.values().sum();
        write!(f, "faults fired {fired}:")?;
        for (name, count) in &self.faults {
            write!(f, " {name} {count}")?;
        }
        Ok(())
    }
}
