//! Following: appending what the leader gave, cutting what it does not have, taking over its offsets.
//! Not here: fetching (replica/fetcher), where to cut (kavka_replication::Follower).
//! Under the partition's lock. Each step names the leader epoch in which it was decided: in a later one it does nothing
//! (KAFKA-7786). Truncation fsyncs, so it runs on the blocking pool. Kafka: ReplicaFetcherThread.{processPartitionData,
//! truncate, truncateFullyAndStartAt}; KIP-101, KIP-595.

use super::{Partition, Role, State, epoch_end};
use crate::replica::error::ReplicaError;
use kavka_common::{LeaderEpoch, NodeId, Offset};
use kavka_records::{BatchError, batches};
use kavka_replication::{ActionKind, EpochEnd, FetchPosition, Follower, Outcome};
use kavka_storage::{AppendError, AppendInfo, Log, StorageError};

/// Where the log is after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub position: FetchPosition,
    /// `flush.messages` is reached: what was appended is acknowledged, by the next fetch, when it is durable.
    pub must_flush: bool,
}

/// What the directory's checkpoints promise beyond a cut that is to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncedCut {
    pub below_recovery_point: bool,
    pub below_log_start: bool,
}

/// Where the log is after a truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub position: FetchPosition,
    /// Something went.
    pub shorter: bool,
}

impl Partition {
    /// Begins or goes on to follow; `leader_id` may be none. True when the log was cut: the directory's recovery points
    /// must be written before it is fetched for.
    pub fn follow(
        &self,
        leader_id: NodeId,
        leader_epoch: LeaderEpoch,
    ) -> Result<bool, ReplicaError> {
        let now_ms = self.clock.wall_ms();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(log) = &mut state.log else {
            return Ok(false);
        };
        let known = match &state.role {
            Role::None => LeaderEpoch::UNKNOWN,
            Role::Leader(leader) => leader.leader_epoch(),
            Role::Follower(follower) => follower.leader_epoch,
        };
        if leader_epoch < known {
            return Ok(false);
        }
        if leader_epoch > known {
            // what an earlier epoch decided will not be done
            log.announce_cut(None);
        }
        let mut shorter = false;
        if log.latest_epoch().is_none() && log.log_end_offset() > log.high_watermark() {
            // without epochs nobody can tell where the logs part: only what is committed is sure to be common
            shorter = log.truncate_to(log.high_watermark(), now_ms)?;
        }
        state.role = Role::Follower(Follower::start(
            leader_id,
            leader_epoch,
            log.high_watermark(),
        ));
        let woken = state.take_waiters();
        drop(guard);
        woken.wake();
        Ok(shorter)
    }

    /// Whom this replica follows, and from where it fetches; `None` when it leads, or nobody does.
    pub fn following(&self) -> Option<(NodeId, FetchPosition)> {
        let state = self.state.lock();
        let (log, follower) = match (&state.log, &state.role) {
            (Some(log), Role::Follower(follower)) if follower.leader_id.get() >= 0 => {
                (log, follower)
            }
            _ => return None,
        };
        Some((follower.leader_id, position(log, follower.leader_epoch)))
    }

    /// Appends what was fetched from `fetch_offset` on, whole batches with a good CRC that continue the log, and takes
    /// over the leader's high watermark and log start as far as the local log reaches.
    pub fn append_as_follower(
        &self,
        leader_epoch: LeaderEpoch,
        fetch_offset: Offset,
        records: &[u8],
        high_watermark: Offset,
        log_start_offset: Offset,
    ) -> Result<Followed, ReplicaError> {
        let now_ms = self.clock.wall_ms();
        let mut guard = self.state.lock();
        let before = guard.visible();
        let state = &mut *guard;
        let (log, follower) = follower_of(state, leader_epoch)?;
        if log.log_end_offset() != fetch_offset {
            return Err(AppendError::UnexpectedOffset {
                first_offset: fetch_offset,
                log_end_offset: log.log_end_offset(),
            }
            .into());
        }
        if !records.is_empty() {
            append(log, records, leader_epoch, now_ms)?;
        }
        let high_watermark =
            follower.fetched(high_watermark, log.log_start_offset(), log.log_end_offset());
        let high_watermark = log.update_high_watermark(high_watermark);
        let log_start_offset = log_start_offset.min(high_watermark);
        if log_start_offset > log.log_start_offset() {
            log.increment_log_start_offset(log_start_offset)?;
        }
        let followed = Followed {
            position: position(log, leader_epoch),
            must_flush: must_flush(log) && !records.is_empty(),
        };
        // readers of this replica wait for the high watermark
        let woken = guard.moved_since(before);
        drop(guard);
        woken.wake();
        Ok(followed)
    }

    /// Whether more than `flush.messages` is not durable: an append or a flush has failed half-way.
    pub fn is_flush_overdue(&self) -> bool {
        self.state.lock().log.as_ref().is_some_and(must_flush)
    }

    /// Says that one of the truncations below comes next, so that checkpoints promise nothing beyond it from now on.
    pub fn announce_cut(
        &self,
        leader_epoch: LeaderEpoch,
        kind: &ActionKind,
    ) -> Result<AnnouncedCut, ReplicaError> {
        let mut guard = self.state.lock();
        let (log, follower) = follower_of(&mut guard, leader_epoch)?;
        let offset = match kind {
            ActionKind::Truncate(leader_end) => diverging_offset(log, follower, *leader_end),
            ActionKind::TruncateTo(offset) => *offset,
            // everything goes, from the end on
            ActionKind::StartAt(_) => log.log_start_offset(),
            ActionKind::Append { .. } | ActionKind::LookUpRange => {
                return Ok(AnnouncedCut::default());
            }
        };
        log.announce_cut(Some(offset));
        Ok(AnnouncedCut {
            below_recovery_point: offset < log.recovery_point(),
            below_log_start: offset < log.log_start_offset(),
        })
    }

    /// Cuts the log where it parts from the leader's.
    pub fn truncate_diverging(
        &self,
        leader_epoch: LeaderEpoch,
        leader_end: EpochEnd,
    ) -> Result<Cut, ReplicaError> {
        self.cut(leader_epoch, |log, follower, now_ms| {
            log.truncate_to(diverging_offset(log, follower, leader_end), now_ms)
        })
    }

    /// Cuts the log at `offset`.
    pub fn truncate_to(
        &self,
        leader_epoch: LeaderEpoch,
        offset: Offset,
    ) -> Result<Cut, ReplicaError> {
        self.cut(leader_epoch, |log, _, now_ms| {
            log.truncate_to(offset, now_ms)
        })
    }

    /// Drops the log and goes on at `offset`, where the leader's log begins.
    pub fn start_at(&self, leader_epoch: LeaderEpoch, offset: Offset) -> Result<Cut, ReplicaError> {
        self.cut(leader_epoch, |log, _, now_ms| {
            log.truncate_fully_and_start_at(offset, now_ms)?;
            Ok(true)
        })
    }

    /// What a failed step of following in that epoch means: done for when the role has changed, which metadata tells
    /// here too, or when the directory has failed; else it is tried again. Running out of room or of descriptors passes.
    pub fn after_failure(&self, leader_epoch: LeaderEpoch, error: &ReplicaError) -> Outcome {
        let mut guard = self.state.lock();
        let Ok((log, _)) = follower_of(&mut guard, leader_epoch) else {
            return Outcome::GivenUp;
        };
        match error {
            ReplicaError::NotLeaderOrFollower | ReplicaError::FencedLeaderEpoch => Outcome::GivenUp,
            _ if log.failure_latch().is_failed() => Outcome::GivenUp,
            _ => Outcome::Again(Some(position(log, leader_epoch))),
        }
    }

    fn cut(
        &self,
        leader_epoch: LeaderEpoch,
        cut: impl FnOnce(&mut Log, &Follower, i64) -> Result<bool, StorageError>,
    ) -> Result<Cut, ReplicaError> {
        let now_ms = self.clock.wall_ms();
        let mut guard = self.state.lock();
        let (log, follower) = follower_of(&mut guard, leader_epoch)?;
        let (end_before, high_watermark) = (log.log_end_offset(), log.high_watermark());
        let shorter = cut(log, follower, now_ms)?;
        log.announce_cut(None);
        follower.truncated(log.log_end_offset());
        if shorter {
            let tp = &self.id.topic_partition;
            tracing::info!(target: "kafka.log.UnifiedLog", "[UnifiedLog partition={tp}] Truncated from {end_before} to {} in leader epoch {leader_epoch}", log.log_end_offset());
            if log.log_end_offset() < high_watermark {
                tracing::warn!(target: "kafka.server.ReplicaFetcherThread", "Truncating {tp} to offset {} below high watermark {high_watermark}", log.log_end_offset());
            }
        }
        let cut = Cut {
            position: position(log, leader_epoch),
            shorter,
        };
        let woken = guard.take_waiters();
        drop(guard);
        woken.wake();
        Ok(cut)
    }
}

/// Log and core, if this replica still follows in that epoch.
fn follower_of(
    state: &mut State,
    leader_epoch: LeaderEpoch,
) -> Result<(&mut Log, &mut Follower), ReplicaError> {
    match (&mut state.log, &mut state.role) {
        (Some(log), Role::Follower(follower)) if follower.leader_epoch == leader_epoch => {
            Ok((log, follower))
        }
        (Some(_), Role::Follower(_)) => Err(ReplicaError::FencedLeaderEpoch),
        _ => Err(ReplicaError::NotLeaderOrFollower),
    }
}

/// Where the log parts from the leader's.
fn diverging_offset(log: &Log, follower: &Follower, leader_end: EpochEnd) -> Offset {
    let local_end_of_epoch = |leader_epoch| epoch_end(log, leader_epoch);
    let truncation =
        follower.truncation(Some(leader_end), log.log_end_offset(), local_end_of_epoch);
    truncation.to_offset
}

/// `flush.messages` is reached.
fn must_flush(log: &Log) -> bool {
    log.unflushed_records() >= log.config().flush_messages
}

fn position(log: &Log, leader_epoch: LeaderEpoch) -> FetchPosition {
    FetchPosition {
        leader_epoch,
        fetch_offset: log.log_end_offset(),
        last_fetched_epoch: log.latest_epoch().unwrap_or(LeaderEpoch::UNKNOWN),
        log_start_offset: log.log_start_offset(),
    }
}

fn append(
    log: &mut Log,
    records: &[u8],
    leader_epoch: LeaderEpoch,
    now_ms: i64,
) -> Result<AppendInfo, ReplicaError> {
    let mut appended = log.append_as_follower(records, leader_epoch, now_ms);
    if matches!(appended, Err(AppendError::BatchTooLarge { .. })) {
        // the leader's segments may be larger than ours: what does not fit together fits one by one
        for batch in batches(records) {
            let batch = match batch {
                Err(BatchError::Truncated { .. }) => break,
                other => other.map_err(AppendError::from)?,
            };
            appended = log.append_as_follower(batch.bytes(), leader_epoch, now_ms);
            if appended.is_err() {
                break;
            }
        }
    }
    Ok(appended?)
}
