//! What a leader knows of one other replica: how far it has fetched, and when it was last caught up.
//! Not here: the decision about the ISR (leader.rs).
//! Runs inside the partition's owner. Kafka: kafka.cluster.Replica, ReplicaState; KIP-16, KIP-903.

use kavka_common::guards::{Guard, holds};
use kavka_common::{BrokerEpoch, Offset};

/// The progress of a remote replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// `None` until its first fetch under this leadership.
    pub log_end_offset: Option<Offset>,
    pub log_start_offset: Option<Offset>,
    pub last_caught_up_ms: i64,
    pub broker_epoch: BrokerEpoch,
    /// Neither fenced nor shutting down, as the metadata says (KIP-841).
    pub isr_eligible: bool,
    /// Of the broker's registration in force, as far as the metadata is known here.
    pub registered_epoch: BrokerEpoch,
    last_fetch_ms: i64,
    leader_end_at_last_fetch: Offset,
}

impl Replica {
    /// A replica before its first fetch. Those that were in sync get the benefit of the doubt for one lag period.
    pub(crate) fn new(now_ms: i64, in_sync: bool) -> Self {
        Replica {
            log_end_offset: None,
            log_start_offset: None,
            last_caught_up_ms: if in_sync { now_ms } else { i64::MIN },
            broker_epoch: BrokerEpoch::UNKNOWN,
            isr_eligible: true,
            registered_epoch: BrokerEpoch::UNKNOWN,
            last_fetch_ms: i64::MIN,
            leader_end_at_last_fetch: 0,
        }
    }

    /// A fetch acknowledges everything before its offset. Returns false when it comes from an earlier incarnation of
    /// the broker: a delayed request must not vouch for the rebooted one (KIP-903).
    pub(crate) fn fetched(
        &mut self,
        now_ms: i64,
        fetch_offset: Offset,
        log_start_offset: Offset,
        leader_end: Offset,
        broker_epoch: BrokerEpoch,
    ) -> bool {
        if self.is_outdated(broker_epoch) {
            return false;
        }
        if fetch_offset >= leader_end {
            self.last_caught_up_ms = self.last_caught_up_ms.max(now_ms);
        } else if fetch_offset >= self.leader_end_at_last_fetch {
            // it has what the leader had at its previous fetch: it was caught up then
            self.last_caught_up_ms = self.last_caught_up_ms.max(self.last_fetch_ms);
        }
        self.log_end_offset = Some(fetch_offset);
        self.log_start_offset = Some(log_start_offset);
        self.broker_epoch = broker_epoch;
        self.last_fetch_ms = now_ms;
        self.leader_end_at_last_fetch = leader_end;
        true
    }

    /// Whether a fetch with this epoch comes from an earlier incarnation than the last one.
    pub fn is_outdated(&self, broker_epoch: BrokerEpoch) -> bool {
        broker_epoch != BrokerEpoch::UNKNOWN
            && broker_epoch < self.broker_epoch
            && holds(Guard::BrokerEpoch)
    }

    /// KAFKA-15221: what an earlier incarnation of a rebooted broker fetched says nothing about the present one.
    pub fn may_join_isr(&self) -> bool {
        self.isr_eligible
            && (self.broker_epoch == BrokerEpoch::UNKNOWN
                || self.registered_epoch == BrokerEpoch::UNKNOWN
                || self.broker_epoch == self.registered_epoch
                || !holds(Guard::BrokerEpoch))
    }

    /// Has all of the leader's log, or had it not longer ago than the lag allows.
    pub fn is_caught_up(&self, leader_end: Offset, now_ms: i64, lag_ms_max: i64) -> bool {
        self.log_end_offset == Some(leader_end)
            || now_ms.saturating_sub(self.last_caught_up_ms) <= lag_ms_max
    }
}
