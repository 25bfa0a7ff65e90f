//! Reading one partition of a fetch: what is asked, what is given, and where logs part.
//! Not here: several partitions under one budget, waiting (replica/fetch.rs).
//! Hot path. Under the partition's lock: an index lookup gives a region of a file, no record is read.
//! Kafka: Partition.{fetchRecords, readRecords}; KIP-320, KIP-392, KIP-595.

use super::{Partition, Role, epoch_end};
use crate::replica::error::ReplicaError;
use crate::replica::purgatory::Waiter;
use kavka_common::{BrokerEpoch, FileRegion, LeaderEpoch, NodeId, Offset};
use kavka_replication::{EpochEnd, LeaderEvent};
use kavka_storage::{AbortedTxn, Log};
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

impl Partition {
    /// Reads one partition of a fetch. A replica's fetch acknowledges what lies before its offset.
    pub fn read(
        &self,
        request: &ReadRequest,
        waiter: Option<&Arc<Waiter>>,
    ) -> Result<PartitionRead, ReplicaError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if let Some(waiter) = waiter {
            state.waiters.add(waiter);
        }
        let leader_only = request.leader_only || request.replica.is_some();
        if let (Some(replica), Role::Leader(leader)) = (request.replica, &state.role) {
            // not assigned here, or an earlier incarnation of a broker that has fetched since (KIP-903)
            let known = leader.replica(replica.replica_id);
            if known.is_none_or(|known| known.is_outdated(replica.broker_epoch)) {
                return Err(ReplicaError::NotLeaderOrFollower);
            }
        }
        let log = Self::log_for(state, request.current_leader_epoch, leader_only)?;
        if let Some(diverging) = diverging_epoch(log, request)? {
            return Ok(PartitionRead {
                region: None,
                high_watermark: log.high_watermark(),
                last_stable_offset: log.last_stable_offset(),
                log_start_offset: log.log_start_offset(),
                aborted: None,
                diverging: Some(diverging),
            });
        }
        let max_offset_exclusive = match request.isolation {
            FetchIsolation::LogEnd => log.log_end_offset(),
            FetchIsolation::HighWatermark => log.high_watermark(),
            FetchIsolation::TxnCommitted => log.last_stable_offset(),
        };
        // one look at the log gives the bytes and the offsets told with them (KAFKA-9807)
        let found = log.read(
            request.fetch_offset,
            request.max_bytes,
            max_offset_exclusive,
            request.min_one_batch,
        )?;
        let aborted = match (request.isolation, &found.region) {
            (FetchIsolation::TxnCommitted, Some(_)) => {
                Some(log.aborted_transactions(request.fetch_offset, found.upper_bound_offset)?)
            }
            (FetchIsolation::TxnCommitted, None) => Some(Vec::new()),
            (FetchIsolation::LogEnd | FetchIsolation::HighWatermark, _) => None,
        };
        let mut read = PartitionRead {
            region: found.region,
            high_watermark: found.high_watermark,
            last_stable_offset: found.last_stable_offset,
            log_start_offset: found.log_start_offset,
            aborted,
            diverging: None,
        };
        if let Some(replica) = request.replica {
            let event = LeaderEvent::FollowerFetch {
                replica_id: replica.replica_id,
                broker_epoch: replica.broker_epoch,
                fetch_offset: request.fetch_offset,
                log_start_offset: request.log_start_offset,
            };
            let before = read.high_watermark;
            self.step_locked(state, event);
            if let Some(log) = &state.log {
                read.high_watermark = log.high_watermark();
            }
            if read.high_watermark != before {
                let woken = state.waiters.take();
                drop(guard);
                woken.wake();
            }
        }
        Ok(read)
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
