//! Rules of replication whose absence the simulation has to notice, and the switch that takes one of them away.
//! Not here: the rules themselves; each stands where it belongs and asks `holds` about itself.
//! The switch belongs to one thread and exists only where debug assertions do: in a release build `holds` is `true`.
//! Kafka: nothing like it; the idea is mutation testing. Used by tests/sim.

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Requests of an earlier leader epoch are refused (KIP-320).
    LeaderEpoch,
    /// The high watermark counts the members of a proposed ISR, too (KIP-497).
    MaximalIsr,
    /// A replica joins the ISR only at the high watermark and behind the epoch's start (KIP-101).
    IsrExpansion,
    /// Nothing is committed while the ISR is smaller than `min.insync.replicas` (KIP-966).
    MinIsr,
    /// A follower truncates where the epochs part, not at its high watermark (KIP-101, KIP-279).
    TruncateByEpoch,
    /// A repeated batch of an idempotent producer is not appended again (KIP-98).
    Dedup,
    /// What an earlier life of a broker asked for vouches for nothing (KIP-903).
    BrokerEpoch,
    /// A broker that stopped uncleanly is not eligible for leadership (KIP-966).
    UncleanShutdown,
    /// A fenced broker is in no ISR (KIP-841).
    Fencing,
    /// A vote is on the disk before it is given (KIP-595).
    DurableVote,
    /// A broker acts on no metadata from before its own registration.
    RegistrationFirst,
    /// A broker that was unregistered and comes back has stopped uncleanly (KIP-966).
    UnregisteredReturn,
}

impl Guard {
    pub const ALL: [Guard; 12] = [
        Guard::LeaderEpoch,
        Guard::MaximalIsr,
        Guard::IsrExpansion,
        Guard::MinIsr,
        Guard::TruncateByEpoch,
        Guard::Dedup,
        Guard::BrokerEpoch,
        Guard::UncleanShutdown,
        Guard::Fencing,
        Guard::DurableVote,
        Guard::RegistrationFirst,
        Guard::UnregisteredReturn,
    ];
}

#[cfg(debug_assertions)]
thread_local! {
    static OFF: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}

/// Whether the rule is in force on this thread.
#[cfg(debug_assertions)]
#[inline]
pub fn holds(guard: Guard) -> bool {
    OFF.get() != Some(guard)
}

/// Whether the rule is in force: always.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn holds(_guard: Guard) -> bool {
    true
}

/// Takes one rule away on this thread, for a test; `None` puts all of them back.
#[cfg(debug_assertions)]
pub fn switch_off(guard: Option<Guard>) {
    OFF.set(guard);
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn one_rule_is_off_on_one_thread() {
        switch_off(Some(Guard::Dedup));
        assert!(!holds(Guard::Dedup) && holds(Guard::MinIsr));
        let elsewhere = std::thread::spawn(|| holds(Guard::Dedup)).join();
        assert!(elsewhere.is_ok_and(|holds| holds));
        switch_off(None);
        assert!(Guard::ALL.into_iter().all(holds));
    }
}
