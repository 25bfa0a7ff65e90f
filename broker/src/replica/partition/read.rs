//! Reading one partition of a fetch: what is asked, what is given, and where logs part.
//! Not here: several partitions under one budget, waiting (replica/fetch.rs).
//! Hot path. Under the partition's lock it is decided what may be read; files are searched outside it, so that a slow
//! disk stalls no producer. No record is read.
//! Kafka: Partition.{fetchRecords, readRecords}; KIP-320, KIP-392, KIP-595.

use super::{Partition, Role, epoch_end};
use crate::replica::error::ReplicaError;
use crate::replica::purgatory::Waiter;
use kavka_common::{BrokerEpoch, FileRegion, LeaderEpoch, NodeId, Offset};
use kavka_replication::{EpochEnd, LeaderEvent};
use kavka_storage::{AbortedTxn, Log, LookupError, PlannedRead, ReadLookup, ReadResult};
use std::sync::Arc;

/// How far a read may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchIsolation {
    /// Replicas see everything.
    LogEnd,
    /// read_uncommitted.
    HighWatermark,
    /// read_committed.
    TxnCommitted,
}

/// A replica that fetches, as it presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchingReplica {
    pub replica_id: NodeId,
    pub broker_epoch: BrokerEpoch,
}

/// What is read from one partition.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    pub fetch_offset: Offset,
    pub max_bytes: usize,
    /// The first batch is given even if it is larger than `max_bytes`.
    pub min_one_batch: bool,
    pub isolation: FetchIsolation,
    pub current_leader_epoch: LeaderEpoch,
    pub last_fetched_epoch: LeaderEpoch,
    /// Of the fetching replica's log.
    pub log_start_offset: Offset,
    pub replica: Option<FetchingReplica>,
    /// Older consumers may read from the leader only (KIP-392).
    pub leader_only: bool,
}

/// What a read gave.
#[derive(Clone, Debug)]
pub struct PartitionRead {
    pub region: Option<FileRegion>,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start_offset: Offset,
    /// For read_committed only.
    pub aborted: Option<Vec<AbortedTxn>>,
    /// The reader's log parts from ours here; nothing was read.
    pub diverging: Option<EpochEnd>,
}

impl PartitionRead {
    pub fn records_bytes(&self) -> usize {
        self.region.as_ref().map_or(0, |region| region.length)
    }
}

/// What is left of a read once the partition's lock is released.
#[derive(Debug)]
pub struct PendingRead {
    request: ReadRequest,
    lookup: ReadLookup,
    truncations: u64,
    high_watermark: Offset,
}

/// What a look at the partition gave.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack of one read; boxing would cost the hot path an allocation"
)]
pub enum BegunRead {
    /// There is nothing to look for in files.
    Done(PartitionRead),
    Pending(PendingRead),
}

impl Partition {
    /// Reads one partition of a fetch, and waits for the disk if it must. A replica's fetch acknowledges what lies
    /// before its offset.
    pub fn read(
        &self,
        request: &ReadRequest,
        waiter: Option<&Arc<Waiter>>,
    ) -> Result<PartitionRead, ReplicaError> {
        match self.begin_read(request, waiter)? {
            BegunRead::Done(read) => Ok(read),
            BegunRead::Pending(pending) => self.finish_read_waiting(&pending),
        }
    }

    /// What a read without reading gives: the offsets, for a reader that is sent elsewhere.
    pub fn offsets(
        &self,
        current_leader_epoch: LeaderEpoch,
    ) -> Result<PartitionRead, ReplicaError> {
        self.with_log(current_leader_epoch, false, |log, _| {
            Ok(PartitionRead {
                region: None,
                high_watermark: log.high_watermark(),
                last_stable_offset: log.last_stable_offset(),
                log_start_offset: log.log_start_offset(),
                aborted: None,
                diverging: None,
            })
        })
    }

    /// Decides under the lock what a read may see. What is left is to find it in the files: `finish_read`.
    ///
    /// A look with a waiter repeats one without: it acknowledges nothing. An old request that is still parked would set
    /// back what a newer one of the same replica has told.
    pub fn begin_read(
        &self,
        request: &ReadRequest,
        waiter: Option<&Arc<Waiter>>,
    ) -> Result<BegunRead, ReplicaError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if let Some(waiter) = waiter {
            match request.isolation {
                FetchIsolation::LogEnd => state.append_waiters.add(waiter),
                FetchIsolation::HighWatermark | FetchIsolation::TxnCommitted => {
                    state.waiters.add(waiter);
                }
            }
        }
        let leader_only = request.leader_only || request.replica.is_some();
        if let (Some(replica), Role::Leader(leader)) = (request.replica, &state.role) {
            // not assigned here, or an earlier incarnation of a broker that has fetched since (KIP-903)
            let known = leader.replica(replica.replica_id);
            if known.is_none_or(|known| known.is_outdated(replica.broker_epoch)) {
                return Err(ReplicaError::NotLeaderOrFollower);
            }
        }
        let held_back = self.is_held_back(request.replica, &state.role);
        let log = Self::log_for(state, request.current_leader_epoch, leader_only)?;
        if let Some(diverging) = diverging_epoch(log, request)? {
            return Ok(BegunRead::Done(PartitionRead {
                region: None,
                high_watermark: log.high_watermark(),
                last_stable_offset: log.last_stable_offset(),
                log_start_offset: log.log_start_offset(),
                aborted: None,
                diverging: Some(diverging),
            }));
        }
        // one look at the log gives what may be read and the offsets told with it (KAFKA-9807)
        let planned = log.plan_read(
            request.fetch_offset,
            if held_back { 0 } else { request.max_bytes },
            max_offset_exclusive(log, request.isolation),
            request.min_one_batch && !held_back,
        )?;
        let truncations = log.truncations();
        let mut high_watermark = log.high_watermark();
        if let (Some(replica), None) = (request.replica, waiter) {
            let event = LeaderEvent::FollowerFetch {
                replica_id: replica.replica_id,
                broker_epoch: replica.broker_epoch,
                fetch_offset: request.fetch_offset,
                log_start_offset: request.log_start_offset,
            };
            let before = state.visible();
            self.step_locked(state, event);
            if let Some(log) = &state.log {
                high_watermark = log.high_watermark();
            }
            // acks=all waits for the high watermark, DeleteRecords for the log starts of all replicas
            let woken = state.moved_since(before);
            drop(guard);
            woken.wake();
        }
        Ok(match planned {
            PlannedRead::Nothing(found) => {
                let aborted = match request.isolation {
                    FetchIsolation::TxnCommitted => Some(Vec::new()),
                    FetchIsolation::LogEnd | FetchIsolation::HighWatermark => None,
                };
                BegunRead::Done(partition_read(found, high_watermark, aborted))
            }
            PlannedRead::Lookup(lookup) => BegunRead::Pending(PendingRead {
                request: *request,
                lookup,
                truncations,
                high_watermark,
            }),
        })
    }

    /// Finds in the page cache what was begun; `None` when the disk must be waited for: `finish_read_waiting` on a
    /// thread that may block.
    pub fn finish_read(
        &self,
        pending: &PendingRead,
    ) -> Result<Option<PartitionRead>, ReplicaError> {
        match pending.lookup.run(false) {
            Ok(found) => self.finish_found(pending, found).map(Some),
            Err(LookupError::Cold | LookupError::Again) => Ok(None),
        }
    }

    /// Finds what was begun.
    pub fn finish_read_waiting(
        &self,
        pending: &PendingRead,
    ) -> Result<PartitionRead, ReplicaError> {
        match pending.lookup.run(true) {
            Ok(found) => self.finish_found(pending, found),
            Err(LookupError::Cold | LookupError::Again) => self.read_locked(pending),
        }
    }

    fn finish_found(
        &self,
        pending: &PendingRead,
        found: ReadResult,
    ) -> Result<PartitionRead, ReplicaError> {
        if pending.request.isolation != FetchIsolation::TxnCommitted {
            return Ok(partition_read(found, pending.high_watermark, None));
        }
        if found.region.is_none() {
            return Ok(partition_read(
                found,
                pending.high_watermark,
                Some(Vec::new()),
            ));
        }
        let mut guard = self.state.lock();
        let log = guard
            .log
            .as_mut()
            .ok_or(ReplicaError::NotLeaderOrFollower)?;
        if log.truncations() != pending.truncations {
            drop(guard);
            return self.read_locked(pending);
        }
        let from = pending.request.fetch_offset;
        let aborted = log.aborted_transactions(from, found.upper_bound_offset)?;
        drop(guard);
        Ok(partition_read(found, pending.high_watermark, Some(aborted)))
    }

    /// The whole read under the lock: the log has moved on since the first look, or needs repair.
    fn read_locked(&self, pending: &PendingRead) -> Result<PartitionRead, ReplicaError> {
        let request = &pending.request;
        let leader_only = request.leader_only || request.replica.is_some();
        let mut guard = self.state.lock();
        let log = Self::log_for(&mut guard, request.current_leader_epoch, leader_only)?;
        let found = log.read(
            request.fetch_offset,
            request.max_bytes,
            max_offset_exclusive(log, request.isolation),
            request.min_one_batch,
        )?;
        let aborted = match (request.isolation, &found.region) {
            (FetchIsolation::TxnCommitted, Some(_)) => {
                Some(log.aborted_transactions(request.fetch_offset, found.upper_bound_offset)?)
            }
            (FetchIsolation::TxnCommitted, None) => Some(Vec::new()),
            (FetchIsolation::LogEnd | FetchIsolation::HighWatermark, _) => None,
        };
        let high_watermark = found.high_watermark;
        Ok(partition_read(found, high_watermark, aborted))
    }
}

fn max_offset_exclusive(log: &Log, isolation: FetchIsolation) -> Offset {
    match isolation {
        FetchIsolation::LogEnd => log.log_end_offset(),
        FetchIsolation::HighWatermark => log.high_watermark(),
        FetchIsolation::TxnCommitted => log.last_stable_offset(),
    }
}

fn partition_read(
    found: ReadResult,
    high_watermark: Offset,
    aborted: Option<Vec<AbortedTxn>>,
) -> PartitionRead {
    PartitionRead {
        region: found.region,
        high_watermark,
        last_stable_offset: found.last_stable_offset,
        log_start_offset: found.log_start_offset,
        aborted,
        diverging: None,
    }
}

/// KIP-595: a reader that tells the epoch of its last record learns at once where its log parts from ours.
fn diverging_epoch(log: &Log, request: &ReadRequest) -> Result<Option<EpochEnd>, ReplicaError> {
    if request.last_fetched_epoch == LeaderEpoch::UNKNOWN {
        return Ok(None);
    }
    let end = epoch_end(log, request.last_fetched_epoch).ok_or(ReplicaError::EpochOutOfRange)?;
    let parts =
        end.leader_epoch < request.last_fetched_epoch || end.end_offset < request.fetch_offset;
    Ok(parts.then_some(end))
}
