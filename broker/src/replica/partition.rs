//! One replica of one partition on this broker: its log, its role, and who waits for it.
//! Not here: the rules of replication (crates/replication), files (crates/storage), many partitions at once (manager.rs).
//! One short mutex around log and core, never held across an await nor while fsyncing; waiters are woken outside it.
//! Kafka: kafka.cluster.Partition; KIP-101, KIP-320, KIP-392, KIP-595.

use crate::replica::error::ReplicaError;
use crate::replica::purgatory::{Waiter, Waiters, Woken};
use crate::replica::settings::TopicSettings;
use crate::replica::throttle::Throttles;
use arc_swap::ArcSwap;
use kavka_common::guards::{Guard, holds};
use kavka_common::{Clock, LeaderEpoch, NodeId, Offset, TopicIdPartition, TopicPartition, Uuid};
use kavka_replication::{
    AcksState, EpochEnd, Follower, Leader, LeaderAction, LeaderConfig, LeaderEvent, LeaderStart,
    Registration,
};
use kavka_storage::{AppendInfo, AppendOrigin, Log, OffsetOutOfRange};
use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

mod flush;
mod follow;
mod isr;
mod read;
mod throttled;
mod view;

pub use follow::{AnnouncedCut, Cut, Followed};
pub use isr::{IsrAnswer, IsrProposal};
pub use read::{
    BegunRead, FetchIsolation, FetchingReplica, PartitionRead, PendingRead, ReadRequest,
};
pub use view::{FollowerView, PartitionView, ViewedRole};

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub info: AppendInfo,
    pub leader_epoch: LeaderEpoch,
    /// `flush.messages` is reached: the append is answered when it is durable.
    pub must_flush: bool,
}

#[derive(Debug)]
enum Role {
    /// The partition has no leader, or its registration has not arrived.
    None,
    Leader(Leader),
    Follower(Follower),
}

#[derive(Debug)]
struct State {
    /// `None` once closed or deleted.
    log: Option<Log>,
    role: Role,
    /// Those who wait for the end of the log: replicas, which see everything.
    append_waiters: Waiters,
    /// Those who wait for what is committed, or for anything else.
    waiters: Waiters,
    flush_waiters: Waiters,
    flushing: bool,
    last_flush_ms: i64,
    /// Reused by each step of the core.
    actions: Vec<LeaderAction>,
}

/// What waiting requests depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Visible {
    log_end_offset: Offset,
    high_watermark: Offset,
    last_stable_offset: Offset,
    low_watermark: Offset,
}

impl State {
    fn visible(&self) -> Option<Visible> {
        let log = self.log.as_ref()?;
        Some(Visible {
            log_end_offset: log.log_end_offset(),
            high_watermark: log.high_watermark(),
            last_stable_offset: log.last_stable_offset(),
            low_watermark: match &self.role {
                Role::Leader(leader) => leader.low_watermark(),
                Role::Follower(_) | Role::None => log.log_start_offset(),
            },
        })
    }

    /// Those for whom something has moved. An append alone moves nothing for consumers, and what is committed nothing for
    /// replicas: with many partitions in one fetch each needless look is a costly one.
    fn moved_since(&mut self, before: Option<Visible>) -> Woken {
        let now = self.visible();
        if now == before {
            return Woken::default();
        }
        let (Some(now), Some(before)) = (now, before) else {
            return self.take_waiters();
        };
        let appended = match now.log_end_offset != before.log_end_offset {
            true => self.append_waiters.take(),
            false => Woken::default(),
        };
        let same_end = Visible {
            log_end_offset: now.log_end_offset,
            ..before
        };
        match same_end == now {
            true => appended,
            false => appended.and(self.waiters.take()),
        }
    }

    fn take_waiters(&mut self) -> Woken {
        self.append_waiters.take().and(self.waiters.take())
    }
}

/// One partition on this broker.
pub struct Partition {
    id: TopicIdPartition,
    local: NodeId,
    log_dir: Arc<Path>,
    settings: ArcSwap<TopicSettings>,
    replica_lag_ms_max: i64,
    clock: Arc<dyn Clock>,
    proposals: UnboundedSender<IsrProposal>,
    throttles: Arc<Throttles>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Partition({})", self.id.topic_partition)
    }
}

/// What all partitions of a broker have in common.
#[derive(Clone)]
pub struct PartitionContext {
    pub local: NodeId,
    pub replica_lag_ms_max: i64,
    pub clock: Arc<dyn Clock>,
    pub proposals: UnboundedSender<IsrProposal>,
    pub throttles: Arc<Throttles>,
}

impl Partition {
    pub fn new(
        id: TopicIdPartition,
        log_dir: Arc<Path>,
        log: Log,
        settings: TopicSettings,
        context: &PartitionContext,
    ) -> Arc<Partition> {
        Arc::new(Partition {
            id,
            local: context.local,
            log_dir,
            settings: ArcSwap::from_pointee(settings),
            replica_lag_ms_max: context.replica_lag_ms_max,
            state: Mutex::new(State {
                log: Some(log),
                role: Role::None,
                append_waiters: Waiters::default(),
                waiters: Waiters::default(),
                flush_waiters: Waiters::default(),
                flushing: false,
                last_flush_ms: context.clock.monotonic_ms(),
                actions: Vec::new(),
            }),
            clock: Arc::clone(&context.clock),
            proposals: context.proposals.clone(),
            throttles: Arc::clone(&context.throttles),
        })
    }

    pub fn id(&self) -> &TopicIdPartition {
        &self.id
    }

    pub fn topic_partition(&self) -> &TopicPartition {
        &self.id.topic_partition
    }

    pub fn topic_id(&self) -> Uuid {
        self.id.topic_id
    }

    pub fn log_dir(&self) -> &Arc<Path> {
        &self.log_dir
    }

    pub fn settings(&self) -> Arc<TopicSettings> {
        self.settings.load_full()
    }

    fn leader_config(&self, settings: &TopicSettings) -> LeaderConfig {
        LeaderConfig {
            min_in_sync_replicas: settings.min_in_sync_replicas,
            replica_lag_ms_max: self.replica_lag_ms_max,
        }
    }

    /// Takes over changed topic settings.
    pub fn configure(&self, settings: TopicSettings) {
        let event = LeaderEvent::Configured(self.leader_config(&settings));
        let mut state = self.state.lock();
        if let Some(log) = &mut state.log {
            log.set_config(settings.log.clone());
        }
        self.settings.store(Arc::new(settings));
        self.step(state, event).wake();
    }

    /// Begins or goes on to lead. The epoch's start is noted in the log at once, even if nothing is ever appended in
    /// this epoch (KAFKA-7415).
    pub fn lead(&self, registration: Registration) -> Result<(), ReplicaError> {
        let now_ms = self.clock.monotonic_ms();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let log = state
            .log
            .as_mut()
            .ok_or(ReplicaError::NotLeaderOrFollower)?;
        if let Role::Leader(leader) = &state.role
            && leader.leader_epoch() >= registration.leader_epoch
        {
            if leader.leader_epoch() == registration.leader_epoch {
                self.step(guard, LeaderEvent::Registered(registration))
                    .wake();
            }
            return Ok(());
        }
        log.announce_cut(None);
        log.assign_epoch_start(registration.leader_epoch, log.log_end_offset())?;
        let start = LeaderStart {
            local: self.local,
            registration,
            config: self.leader_config(&self.settings.load()),
            log_start_offset: log.log_start_offset(),
            log_end_offset: log.log_end_offset(),
            high_watermark: log.high_watermark(),
        };
        let leader = Leader::start(now_ms, start, &mut state.actions);
        state.role = Role::Leader(leader);
        self.run_actions(&mut guard);
        // those who waited under the old leadership look again and are told
        let woken = guard.take_waiters();
        drop(guard);
        woken.wake();
        Ok(())
    }

    /// One step of the leader core, with its actions run; nothing for a follower.
    fn step(&self, mut state: MutexGuard<'_, State>, event: LeaderEvent) -> Woken {
        let before = state.visible();
        self.step_locked(&mut state, event);
        state.moved_since(before)
    }

    fn step_locked(&self, state: &mut State, event: LeaderEvent) {
        if let Role::Leader(leader) = &mut state.role {
            leader.on_event(self.clock.monotonic_ms(), event, &mut state.actions);
            self.run_actions(state);
        }
    }

    fn run_actions(&self, state: &mut State) {
        for action in state.actions.drain(..) {
            match action {
                LeaderAction::HighWatermark(high_watermark) => {
                    if let Some(log) = &mut state.log {
                        log.update_high_watermark(high_watermark);
                    }
                }
                LeaderAction::ProposeIsr {
                    isr,
                    leader_epoch,
                    partition_epoch,
                } => {
                    // without a receiver the broker is stopping
                    let _ = self.proposals.send(IsrProposal {
                        topic_partition: self.id.clone(),
                        isr,
                        leader_epoch,
                        partition_epoch,
                    });
                }
            }
        }
    }

    /// Any event from outside the partition: the answer to a proposal, a tick, a broker's eligibility.
    pub fn on_event(&self, event: LeaderEvent) {
        self.step(self.state.lock(), event).wake();
    }

    /// Appends validated batches. Answered to acks=all only when `acks_state` says so.
    pub fn append(
        &self,
        batches: &[u8],
        acks_all: bool,
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<Appended, ReplicaError> {
        self.append_in(None, batches, acks_all, origin, now_ms)
    }

    /// Appends a coordinator's batch, with acks=all, if this broker still leads in the epoch in which the coordinator
    /// read the log. Kafka: PartitionWriter.append, which the runtime fences by the epoch it loaded.
    pub fn append_as_coordinator(
        &self,
        batch: &[u8],
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<Appended, ReplicaError> {
        self.append_in(
            Some(leader_epoch),
            batch,
            true,
            AppendOrigin::Coordinator,
            now_ms,
        )
    }

    /// `only_in`: the epoch outside of which nothing is appended.
    fn append_in(
        &self,
        only_in: Option<LeaderEpoch>,
        batches: &[u8],
        acks_all: bool,
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<Appended, ReplicaError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Role::Leader(leader) = &state.role else {
            return Err(ReplicaError::NotLeaderOrFollower);
        };
        if only_in.is_some_and(|epoch| epoch != leader.leader_epoch()) {
            return Err(ReplicaError::NotLeaderOrFollower);
        }
        if acks_all && !leader.has_enough_in_sync_replicas() {
            return Err(ReplicaError::NotEnoughReplicas);
        }
        let leader_epoch = leader.leader_epoch();
        let before = state.visible();
        let log = state
            .log
            .as_mut()
            .ok_or(ReplicaError::NotLeaderOrFollower)?;
        let mut info = log.append_as_leader(batches, leader_epoch, origin, now_ms)?;
        if info.duplicate {
            // as Kafka tells it: the time that stands in the batch of then
            info.log_append_time_ms = info.max_timestamp;
        }
        let log_end_offset = log.log_end_offset();
        let must_flush = log.unflushed_records() >= log.config().flush_messages;
        if !info.duplicate {
            self.step_locked(state, LeaderEvent::LocalAppend { log_end_offset });
        }
        let woken = state.moved_since(before);
        drop(guard);
        woken.wake();
        Ok(Appended {
            info,
            leader_epoch,
            must_flush,
        })
    }

    /// Whether an append of `leader_epoch` is committed up to `required_offset`; a waiter is told when to look again.
    pub fn acks_state(
        &self,
        required_offset: Offset,
        leader_epoch: LeaderEpoch,
        waiter: Option<&Arc<Waiter>>,
    ) -> Result<AcksState, ReplicaError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let leader = self.leader(state)?;
        if leader.leader_epoch() != leader_epoch {
            return Err(ReplicaError::NotLeaderOrFollower);
        }
        let acks = leader.acks_state(required_offset);
        if let (AcksState::Pending, Some(waiter)) = (acks, waiter) {
            state.waiters.add(waiter);
        }
        Ok(acks)
    }

    fn leader<'s>(&self, state: &'s State) -> Result<&'s Leader, ReplicaError> {
        match &state.role {
            Role::Leader(leader) if state.log.is_some() => Ok(leader),
            Role::Leader(_) | Role::Follower(_) | Role::None => {
                Err(ReplicaError::NotLeaderOrFollower)
            }
        }
    }

    fn check_leader_epoch(state: &State, current: LeaderEpoch) -> Result<(), ReplicaError> {
        let known = match &state.role {
            Role::None => return Ok(()),
            Role::Leader(leader) => leader.leader_epoch(),
            Role::Follower(follower) => follower.leader_epoch,
        };
        if current == LeaderEpoch::UNKNOWN || current == known || !holds(Guard::LeaderEpoch) {
            Ok(())
        } else if current < known {
            Err(ReplicaError::FencedLeaderEpoch)
        } else {
            Err(ReplicaError::UnknownLeaderEpoch)
        }
    }

    /// Checks epoch and role, then gives the log.
    fn log_for(
        state: &mut State,
        current_leader_epoch: LeaderEpoch,
        leader_only: bool,
    ) -> Result<&mut Log, ReplicaError> {
        Self::check_leader_epoch(state, current_leader_epoch)?;
        let serves = match &state.role {
            Role::None => false,
            Role::Leader(_) => true,
            Role::Follower(_) => !leader_only,
        };
        match &mut state.log {
            Some(log) if serves => Ok(log),
            Some(_) | None => Err(ReplicaError::NotLeaderOrFollower),
        }
    }

    /// Where `leader_epoch` ends in this log (OffsetForLeaderEpoch).
    pub fn end_of_epoch(
        &self,
        current_leader_epoch: LeaderEpoch,
        leader_epoch: LeaderEpoch,
        leader_only: bool,
    ) -> Result<Option<EpochEnd>, ReplicaError> {
        let mut state = self.state.lock();
        let log = Self::log_for(&mut state, current_leader_epoch, leader_only)?;
        Ok(epoch_end(log, leader_epoch))
    }

    /// Runs `look` on the log and the leader's core, under the lock: for what is neither append nor fetch.
    pub(super) fn with_log<T>(
        &self,
        current_leader_epoch: LeaderEpoch,
        leader_only: bool,
        look: impl FnOnce(&mut Log, Option<&Leader>) -> Result<T, ReplicaError>,
    ) -> Result<T, ReplicaError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        Self::log_for(state, current_leader_epoch, leader_only)?;
        let leader = match &state.role {
            Role::Leader(leader) => Some(leader),
            Role::Follower(_) | Role::None => None,
        };
        match &mut state.log {
            Some(log) => look(log, leader),
            None => Err(ReplicaError::NotLeaderOrFollower),
        }
    }

    /// Runs `work` on the log whatever the role, for maintenance; `None` when it is closed.
    pub(super) fn maintain<T>(&self, work: impl FnOnce(&mut Log) -> T) -> Option<T> {
        self.state.lock().log.as_mut().map(work)
    }

    /// Moves the log start up to `offset` (-1: the high watermark) and gives what it is now on all replicas.
    pub fn delete_records(&self, offset: Offset) -> Result<DeletedRecords, ReplicaError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        self.leader(state)?;
        let log = state
            .log
            .as_mut()
            .ok_or(ReplicaError::NotLeaderOrFollower)?;
        let high_watermark = log.high_watermark();
        let offset = if offset == -1 { high_watermark } else { offset };
        if offset < 0 || offset > high_watermark {
            return Err(ReplicaError::OffsetOutOfRange(OffsetOutOfRange {
                fetch_offset: offset,
                log_start_offset: log.log_start_offset(),
                log_end_offset: high_watermark,
            }));
        }
        let moved = log.increment_log_start_offset(offset)?;
        let log_start_offset = log.log_start_offset();
        self.step_locked(state, LeaderEvent::LogStart { log_start_offset });
        let woken = state.waiters.take();
        drop(guard);
        woken.wake();
        Ok(DeletedRecords { offset, moved })
    }

    /// The least log start of all replicas.
    pub fn low_watermark(&self, waiter: Option<&Arc<Waiter>>) -> Result<Offset, ReplicaError> {
        let mut guard = self.state.lock();
        let low_watermark = self.leader(&guard)?.low_watermark();
        if let Some(waiter) = waiter {
            guard.waiters.add(waiter);
        }
        Ok(low_watermark)
    }

    /// Retention moved the log start: the core must know.
    pub(super) fn log_start_moved(&self) {
        let guard = self.state.lock();
        if let Some(log_start_offset) = guard.log.as_ref().map(Log::log_start_offset) {
            self.step(guard, LeaderEvent::LogStart { log_start_offset })
                .wake();
        }
    }

    pub fn log_start_offset(&self) -> Result<Offset, ReplicaError> {
        self.with_log(LeaderEpoch::UNKNOWN, false, |log, _| {
            Ok(log.log_start_offset())
        })
    }

    /// Whether the log holds nothing.
    pub fn is_empty(&self) -> bool {
        self.with_log(LeaderEpoch::UNKNOWN, false, |log, _| {
            Ok(log.log_start_offset() == log.log_end_offset())
        })
        .unwrap_or(false)
    }

    /// Whether this broker leads the partition in just this epoch.
    pub fn leads_in(&self, leader_epoch: LeaderEpoch) -> bool {
        matches!(&self.state.lock().role, Role::Leader(leader) if leader.leader_epoch() == leader_epoch)
    }

    pub fn is_leader(&self) -> bool {
        matches!(self.state.lock().role, Role::Leader(_))
    }

    /// Takes the log away, to close or delete it. Whoever waits is told that the partition is gone.
    pub(super) fn take_log(&self) -> Option<Log> {
        let mut guard = self.state.lock();
        let log = guard.log.take();
        guard.role = Role::None;
        let woken = guard.take_waiters().and(guard.flush_waiters.take());
        drop(guard);
        woken.wake();
        log
    }

    /// The folder of the log.
    pub fn dir(&self) -> Option<PathBuf> {
        let state = self.state.lock();
        state.log.as_ref().map(|log| log.dir().to_path_buf())
    }
}

/// The outcome of moving the log start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedRecords {
    pub offset: Offset,
    pub moved: bool,
}

fn epoch_end(log: &Log, leader_epoch: LeaderEpoch) -> Option<EpochEnd> {
    let (leader_epoch, end_offset) = log.end_offset_for_epoch(leader_epoch)?;
    Some(EpochEnd {
        leader_epoch,
        end_offset,
    })
}
