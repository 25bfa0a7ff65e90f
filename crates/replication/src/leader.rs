//! Leader side of one partition: follower progress, high watermark on the maximal ISR, ISR proposals, acks.
//! Not here: the log itself, waiting requests (both belong to the owner), elections (the controller's).
//! Runs inside the partition's owner (broker/src/replica/partition.rs).
//! Kafka: kafka.cluster.Partition (leader half); KIP-497, KIP-841, KIP-903, KIP-966.

use crate::replica::Replica;
use kavka_common::guards::{Guard, holds};
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, Offset, PartitionEpoch};
use std::collections::BTreeMap;

/// The settings that bear on replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderConfig {
    /// `min.insync.replicas`.
    pub min_in_sync_replicas: usize,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_ms_max: i64,
}

/// The partition as the controller has registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub replicas: Vec<NodeId>,
    pub isr: Vec<NodeId>,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: PartitionEpoch,
}

/// Everything a leadership begins with.
#[derive(Clone, Debug)]
pub struct LeaderStart {
    pub local: NodeId,
    pub registration: Registration,
    pub config: LeaderConfig,
    pub log_start_offset: Offset,
    pub log_end_offset: Offset,
    /// As checkpointed, or as known as a follower.
    pub high_watermark: Offset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderEvent {
    /// The local log grew.
    LocalAppend {
        log_end_offset: Offset,
    },
    /// A follower fetches from `fetch_offset`: it has everything before. Sent only for fetches whose epochs agree
    /// with the local log (a diverging fetch acknowledges nothing).
    FollowerFetch {
        replica_id: NodeId,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
    },
    /// Time has passed: replicas may have fallen behind.
    Tick,
    /// The answer to the proposal that was made in this leader epoch on top of this partition epoch. An answer to an
    /// earlier proposal changes nothing.
    AlterPartition {
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        outcome: AlterPartitionOutcome,
    },
    /// The controller changed the registration under the same leader epoch.
    Registered(Registration),
    /// The metadata says whether a broker may be in an ISR, and in which incarnation (KIP-841, KIP-903).
    Eligibility {
        replica_id: NodeId,
        eligible: bool,
        broker_epoch: BrokerEpoch,
    },
    Configured(LeaderConfig),
    /// Retention or DeleteRecords moved the start of the local log.
    LogStart {
        log_start_offset: Offset,
    },
}

/// How a proposed ISR fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterPartitionOutcome {
    Accepted(Registration),
    /// The controller says that it was not and will not be applied, and that the partition epoch is current
    /// (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED).
    Rejected,
    /// It may or may not have been applied (a timeout): the wider ISR stays in force and the proposal goes out again.
    Unknown,
    /// The registration is another by now (a fenced or stale epoch): the wider ISR stays in force until the metadata
    /// with it arrives.
    Superseded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderAction {
    HighWatermark(Offset),
    /// Ask the controller for this ISR (AlterPartition).
    ProposeIsr {
        isr: Vec<(NodeId, BrokerEpoch)>,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
    },
}

/// Whether an append with acks=all may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcksState {
    Pending,
    Done,
    /// Committed, but the ISR shrank below the minimum meanwhile.
    NotEnoughReplicas,
}

/// The leader of one partition.
#[derive(Clone, Debug)]
pub struct Leader {
    local: NodeId,
    registration: Registration,
    /// Proposed and not answered. The union with the registered ISR is the maximal ISR: whichever of the two the
    /// controller has, every member holds what is below the high watermark.
    proposed: Option<Vec<NodeId>>,
    config: LeaderConfig,
    epoch_start_offset: Offset,
    remotes: BTreeMap<NodeId, Replica>,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
}

impl Leader {
    /// Begins a leadership. The log's end is where the new epoch starts; its owner persists that even if nothing is
    /// appended (KAFKA-7415). A single replica's high watermark is its log end at once.
    pub fn start(now_ms: i64, start: LeaderStart, out: &mut Vec<LeaderAction>) -> Leader {
        assert!(start.log_start_offset <= start.log_end_offset);
        let mut leader = Leader {
            local: start.local,
            remotes: BTreeMap::new(),
            registration: start.registration,
            proposed: None,
            config: start.config,
            epoch_start_offset: start.log_end_offset,
            log_start_offset: start.log_start_offset,
            log_end_offset: start.log_end_offset,
            high_watermark: start
                .high_watermark
                .clamp(start.log_start_offset, start.log_end_offset),
        };
        leader.follow_replicas(now_ms);
        leader.advance_high_watermark(now_ms, out);
        leader
    }

    pub fn on_event(&mut self, now_ms: i64, event: LeaderEvent, out: &mut Vec<LeaderAction>) {
        match event {
            LeaderEvent::LocalAppend { log_end_offset } => {
                assert!(log_end_offset >= self.log_end_offset);
                self.log_end_offset = log_end_offset;
            }
            LeaderEvent::FollowerFetch {
                replica_id,
                broker_epoch,
                fetch_offset,
                log_start_offset,
            } => {
                let leader_end = self.log_end_offset;
                let Some(replica) = self.remotes.get_mut(&replica_id) else {
                    return;
                };
                if !replica.fetched(
                    now_ms,
                    fetch_offset,
                    log_start_offset,
                    leader_end,
                    broker_epoch,
                ) {
                    return;
                }
                self.propose_expansion(replica_id, out);
            }
            LeaderEvent::Tick => self.propose_shrink(now_ms, out),
            LeaderEvent::AlterPartition {
                leader_epoch,
                partition_epoch,
                outcome,
            } => {
                // metadata overtook the answer: what it says is about a proposal that is settled
                let current = self.proposed.is_some()
                    && leader_epoch == self.registration.leader_epoch
                    && partition_epoch == self.registration.partition_epoch;
                if current {
                    self.answered(now_ms, outcome, out);
                }
            }
            LeaderEvent::Registered(registration) => self.register(now_ms, registration),
            LeaderEvent::Eligibility {
                replica_id,
                eligible,
                broker_epoch,
            } => {
                if let Some(replica) = self.remotes.get_mut(&replica_id) {
                    replica.isr_eligible = eligible;
                    replica.registered_epoch = broker_epoch;
                }
            }
            LeaderEvent::Configured(config) => self.config = config,
            LeaderEvent::LogStart { log_start_offset } => {
                assert!(log_start_offset <= self.log_end_offset);
                self.log_start_offset = self.log_start_offset.max(log_start_offset);
                // KAFKA-16452: a high watermark below the log start could never be read past
                if self.high_watermark < self.log_start_offset {
                    self.high_watermark = self.log_start_offset;
                    out.push(LeaderAction::HighWatermark(self.high_watermark));
                }
            }
        }
        self.advance_high_watermark(now_ms, out);
    }

    /// When `Tick` is worth sending: half the lag, as Kafka's isr-expiration task.
    pub fn tick_interval_ms(&self) -> i64 {
        self.config.replica_lag_ms_max / 2
    }

    fn answered(
        &mut self,
        now_ms: i64,
        outcome: AlterPartitionOutcome,
        out: &mut Vec<LeaderAction>,
    ) {
        match outcome {
            AlterPartitionOutcome::Accepted(registration) => {
                // the change ended a reassignment and moved the leadership: metadata tells the rest
                if registration.leader_epoch == self.registration.leader_epoch {
                    self.register(now_ms, registration);
                    // the same set was registered already: no new partition epoch settles it
                    self.proposed = None;
                }
            }
            AlterPartitionOutcome::Rejected => self.proposed = None,
            AlterPartitionOutcome::Unknown => {
                if let Some(isr) = self.proposed.clone() {
                    self.propose(isr, out);
                }
            }
            AlterPartitionOutcome::Superseded => {}
        }
    }

    fn register(&mut self, now_ms: i64, registration: Registration) {
        // an older registration arriving late must not undo a newer one
        if registration.partition_epoch < self.registration.partition_epoch {
            return;
        }
        assert!(registration.leader_epoch == self.registration.leader_epoch);
        if registration.partition_epoch > self.registration.partition_epoch {
            self.proposed = None;
        }
        self.registration = registration;
        self.follow_replicas(now_ms);
    }

    fn follow_replicas(&mut self, now_ms: i64) {
        let registration = &self.registration;
        self.remotes
            .retain(|id, _| registration.replicas.contains(id));
        for id in &registration.replicas {
            if *id != self.local {
                self.remotes
                    .entry(*id)
                    .or_insert_with(|| Replica::new(now_ms, registration.isr.contains(id)));
            }
        }
    }

    fn in_maximal_isr(&self, id: NodeId) -> bool {
        self.registration.isr.contains(&id)
            || (holds(Guard::MaximalIsr)
                && self.proposed.as_ref().is_some_and(|isr| isr.contains(&id)))
    }

    fn maximal_isr_size(&self) -> usize {
        let registered = &self.registration.isr;
        let added = self
            .proposed
            .iter()
            .flatten()
            .filter(|id| !registered.contains(id));
        registered.len() + added.count()
    }

    /// The registered ISR with the proposed members: whatever the controller has, it is among these.
    pub fn maximal_isr(&self) -> Vec<NodeId> {
        let registration = &self.registration;
        let replicas = registration.replicas.iter().copied();
        replicas.filter(|id| self.in_maximal_isr(*id)).collect()
    }

    /// `min.insync.replicas`, but never more than there are replicas.
    fn effective_min_isr(&self) -> usize {
        self.config.min_in_sync_replicas.min(self.remotes.len() + 1)
    }

    fn advance_high_watermark(&mut self, now_ms: i64, out: &mut Vec<LeaderAction>) {
        // KIP-966: with fewer members than the minimum nothing new is committed
        if self.registration.isr.len() < self.effective_min_isr() && holds(Guard::MinIsr) {
            return;
        }
        let mut committed = self.log_end_offset;
        for (id, replica) in &self.remotes {
            let counts = self.in_maximal_isr(*id)
                || (replica.may_join_isr()
                    && replica.log_end_offset.is_some()
                    && replica.is_caught_up(
                        self.log_end_offset,
                        now_ms,
                        self.config.replica_lag_ms_max,
                    ));
            if counts {
                // not fetched yet under this leadership: it is known to have what was committed, no more
                let end = replica.log_end_offset.unwrap_or(self.high_watermark);
                committed = committed.min(end);
            }
        }
        if committed > self.high_watermark {
            self.high_watermark = committed;
            out.push(LeaderAction::HighWatermark(committed));
        }
        assert!(self.log_start_offset <= self.high_watermark);
        assert!(self.high_watermark <= self.log_end_offset);
    }

    fn propose_expansion(&mut self, replica_id: NodeId, out: &mut Vec<LeaderAction>) {
        let replica = &self.remotes[&replica_id];
        // KIP-101: below the epoch's start it may still hold records that the leader never had
        let in_sync = replica
            .log_end_offset
            .is_some_and(|end| end >= self.high_watermark && end >= self.epoch_start_offset);
        if (!in_sync && holds(Guard::IsrExpansion))
            || (!replica.may_join_isr() && holds(Guard::Fencing))
            || self.proposed.is_some()
            || self.registration.isr.contains(&replica_id)
        {
            return;
        }
        let mut isr = self.registration.isr.clone();
        isr.push(replica_id);
        self.propose(isr, out);
    }

    fn propose_shrink(&mut self, now_ms: i64, out: &mut Vec<LeaderAction>) {
        if self.proposed.is_some() {
            return;
        }
        let lag_ms_max = self.config.replica_lag_ms_max;
        let kept: Vec<NodeId> = self
            .registration
            .isr
            .iter()
            .copied()
            .filter(|id| {
                *id == self.local
                    || self.remotes.get(id).is_some_and(|replica| {
                        replica.is_caught_up(self.log_end_offset, now_ms, lag_ms_max)
                    })
            })
            .collect();
        if kept.len() < self.registration.isr.len() {
            self.propose(kept, out);
        }
    }

    fn propose(&mut self, isr: Vec<NodeId>, out: &mut Vec<LeaderAction>) {
        out.push(LeaderAction::ProposeIsr {
            isr: isr
                .iter()
                .map(|id| {
                    let epoch = self
                        .remotes
                        .get(id)
                        .map_or(BrokerEpoch::UNKNOWN, |replica| replica.broker_epoch);
                    (*id, epoch)
                })
                .collect(),
            leader_epoch: self.registration.leader_epoch,
            partition_epoch: self.registration.partition_epoch,
        });
        self.proposed = Some(isr);
    }

    /// Whether acks=all appends are taken at all: enough replicas registered as in sync.
    pub fn has_enough_in_sync_replicas(&self) -> bool {
        self.registration.isr.len() >= self.effective_min_isr()
    }

    /// Whether everything before `required_offset` is committed, on enough replicas.
    pub fn acks_state(&self, required_offset: Offset) -> AcksState {
        if self.high_watermark < required_offset {
            AcksState::Pending
        } else if self.maximal_isr_size() >= self.effective_min_isr() {
            AcksState::Done
        } else {
            AcksState::NotEnoughReplicas
        }
    }

    /// The least log start over the replicas that are there: what DeleteRecords waits for and answers. -1 while one of
    /// them has not fetched yet. A broker that is gone will follow when it comes back.
    pub fn low_watermark(&self) -> Offset {
        self.remotes
            .values()
            .filter(|replica| replica.isr_eligible)
            .map(|replica| replica.log_start_offset.unwrap_or(-1))
            .fold(self.log_start_offset, Offset::min)
    }

    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.registration.leader_epoch
    }

    pub fn epoch_start_offset(&self) -> Offset {
        self.epoch_start_offset
    }

    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    pub fn is_replica(&self, id: NodeId) -> bool {
        self.remotes.contains_key(&id)
    }

    pub fn replica(&self, id: NodeId) -> Option<&Replica> {
        self.remotes.get(&id)
    }
}

#[cfg(test)]
#[path = "leader_test.rs"]
mod leader_test;
