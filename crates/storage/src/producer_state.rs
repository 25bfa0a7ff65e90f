//! What one log knows about its producers: the last five batches of each, open and aborted transactions.
//! Not here: the batches themselves; verification with the transaction coordinator (broker).
//! Inside the log, under its owner's lock. A batch is checked first and noted after its write: a rejected append
//! leaves no trace. Kafka: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry; KIP-98, KIP-360, KIP-890.

use crate::error::StorageError;
use crate::txn_index::AbortedTxn;
use kavka_common::guards::{Guard, holds};
use kavka_common::{Offset, ProducerEpoch, ProducerId};
use kavka_records::{BatchHeader, ControlRecordType, EndTxnMarker, NO_SEQUENCE, NO_TIMESTAMP};
use std::collections::BTreeMap;

mod snapshot;
pub(crate) use snapshot::{read_snapshot, write_snapshot};

/// Batches remembered per producer: clients have at most five in flight (max.in.flight.requests.per.connection).
const BATCHES_KEPT: usize = 5;

/// Who appends, which decides how strictly sequences and epochs are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A produce request: epoch and sequence must fit.
    Client,
    /// A coordinator's own records and markers: only epochs are checked.
    Coordinator,
    /// The leader of the metadata quorum.
    RaftLeader,
    /// Already accepted by the leader: nothing is refused.
    Replication,
}

/// A batch that a producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    pub last_sequence: i32,
    pub last_offset: Offset,
    pub offset_delta: i32,
    pub timestamp: i64,
}

impl ProducerBatch {
    pub fn first_sequence(&self) -> i32 {
        kavka_records::header::decrement_sequence(self.last_sequence, self.offset_delta)
    }

    pub fn first_offset(&self) -> Offset {
        self.last_offset - i64::from(self.offset_delta)
    }
}

/// The state of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerEntry {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// Of the transaction coordinator that wrote the last marker; -1 before the first one.
    pub coordinator_epoch: i32,
    pub last_timestamp: i64,
    pub current_txn_first_offset: Option<Offset>,
    batches: [Option<ProducerBatch>; BATCHES_KEPT],
}

impl ProducerEntry {
    fn empty(producer_id: ProducerId) -> Self {
        ProducerEntry {
            producer_id,
            producer_epoch: ProducerEpoch::NONE,
            coordinator_epoch: -1,
            last_timestamp: NO_TIMESTAMP,
            current_txn_first_offset: None,
            batches: [None; BATCHES_KEPT],
        }
    }

    /// The remembered batches, the oldest first.
    pub fn batches(&self) -> impl Iterator<Item = &ProducerBatch> {
        self.batches.iter().flatten()
    }

    pub fn last_batch(&self) -> Option<&ProducerBatch> {
        self.batches().last()
    }

    pub fn last_sequence(&self) -> i32 {
        self.last_batch()
            .map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    fn add(&mut self, batch: ProducerBatch) {
        match self.batches.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(batch),
            None => {
                self.batches.rotate_left(1);
                self.batches[BATCHES_KEPT - 1] = Some(batch);
            }
        }
    }

    fn set_epoch(&mut self, producer_epoch: ProducerEpoch) {
        if self.producer_epoch != producer_epoch {
            self.producer_epoch = producer_epoch;
            self.batches = [None; BATCHES_KEPT];
        }
    }

    fn find_duplicate(&self, header: &BatchHeader) -> Option<&ProducerBatch> {
        if header.producer_epoch != self.producer_epoch {
            return None;
        }
        self.batches().find(|batch| {
            batch.first_sequence() == header.base_sequence
                && batch.last_sequence == header.last_sequence()
        })
    }
}

/// Why a producer's batch is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    #[error(
        "Out of order sequence number for producer {producer_id} at offset {offset}: {first_sequence} (incoming seq. number), {last_sequence} (current end sequence number)"
    )]
    OutOfOrderSequence {
        producer_id: ProducerId,
        offset: Offset,
        first_sequence: i32,
        last_sequence: i32,
    },
    #[error(
        "Epoch of producer {producer_id} at offset {offset} is {epoch}, which is smaller than the last seen epoch {current}"
    )]
    InvalidProducerEpoch {
        producer_id: ProducerId,
        offset: Offset,
        epoch: ProducerEpoch,
        current: ProducerEpoch,
    },
    #[error(
        "Invalid coordinator epoch for producerId {producer_id} at offset {offset}: {epoch} (zombie), {current} (current)"
    )]
    TransactionCoordinatorFenced {
        producer_id: ProducerId,
        offset: Offset,
        epoch: i32,
        current: i32,
    },
    #[error("Expected transactional write from producer {producer_id} at offset {offset}")]
    InvalidTxnState {
        producer_id: ProducerId,
        offset: Offset,
    },
}

/// A transaction that ended with a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompletedTxn {
    pub(crate) producer_id: ProducerId,
    pub(crate) first_offset: Offset,
    /// Of the marker.
    pub(crate) last_offset: Offset,
    pub(crate) aborted: bool,
}

/// What an append will change once its bytes are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    entries: Vec<ProducerEntry>,
    completed: Vec<CompletedTxn>,
}

impl Pending {
    /// Lets the open transactions follow: those that began, then those that ended. Gives the aborted ones.
    fn advance<'a>(
        &self,
        ongoing: &mut BTreeMap<Offset, ProducerId>,
        current: impl Fn(ProducerId) -> Option<&'a ProducerEntry>,
    ) -> Vec<AbortedTxn> {
        for entry in &self.entries {
            let before =
                current(entry.producer_id).and_then(|before| before.current_txn_first_offset);
            if let Some(first_offset) = entry.current_txn_first_offset
                && before != Some(first_offset)
            {
                ongoing.insert(first_offset, entry.producer_id);
            }
        }
        let mut aborted = Vec::new();
        for txn in &self.completed {
            if txn.aborted {
                // Once this transaction is over, readers get as far as the next open one.
                let next = ongoing
                    .iter()
                    .find(|(_, producer_id)| **producer_id != txn.producer_id);
                aborted.push(AbortedTxn {
                    producer_id: txn.producer_id,
                    first_offset: txn.first_offset,
                    last_offset: txn.last_offset,
                    last_stable_offset: next
                        .map_or(txn.last_offset + 1, |(first_offset, _)| *first_offset),
                });
            }
            ongoing.remove(&txn.first_offset);
        }
        aborted
    }
}

/// The producers of one log.
#[derive(Clone, Debug, Default)]
pub struct ProducerStateManager {
    producers: BTreeMap<ProducerIdKey, ProducerEntry>,
    /// Open transactions by their first offset.
    ongoing: BTreeMap<Offset, ProducerId>,
    /// Ended transactions whose marker is not below the high watermark yet: first offset → offset of the marker.
    unreplicated: BTreeMap<Offset, Offset>,
    /// Everything below is reflected here.
    end_offset: Offset,
}

type ProducerIdKey = i64;

impl ProducerStateManager {
    pub(crate) fn new(end_offset: Offset) -> Self {
        ProducerStateManager {
            end_offset,
            ..Default::default()
        }
    }

    pub fn end_offset(&self) -> Offset {
        self.end_offset
    }

    pub(crate) fn set_end_offset(&mut self, end_offset: Offset) {
        self.end_offset = end_offset;
    }

    pub fn producers(&self) -> impl Iterator<Item = &ProducerEntry> {
        self.producers.values()
    }

    pub fn producer(&self, producer_id: ProducerId) -> Option<&ProducerEntry> {
        self.producers.get(&producer_id.get())
    }

    /// Whether the producer has an open transaction in this log under that epoch.
    pub fn has_ongoing_transaction(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
    ) -> bool {
        self.producer(producer_id).is_some_and(|entry| {
            entry.producer_epoch == producer_epoch && entry.current_txn_first_offset.is_some()
        })
    }

    /// The earlier batch that `header` repeats.
    pub(crate) fn find_duplicate(&self, header: &BatchHeader) -> Option<&ProducerBatch> {
        self.producer(header.producer_id)?.find_duplicate(header)
    }

    /// Checks a batch and notes in `pending` what it will change. `marker`: of a control batch that ends a transaction.
    pub(crate) fn check(
        &self,
        pending: &mut Pending,
        header: &BatchHeader,
        marker: Option<EndTxnMarker>,
        origin: AppendOrigin,
    ) -> Result<(), ProducerError> {
        let producer_id = header.producer_id;
        let current = self.producer(producer_id).copied();
        let at = pending
            .entries
            .iter()
            .position(|entry| entry.producer_id == producer_id);
        let mut entry = match at {
            Some(at) => pending.entries[at],
            None => current.unwrap_or(ProducerEntry::empty(producer_id)),
        };
        if header.is_control() {
            let Some(marker) = marker else {
                return Ok(());
            };
            check_epoch(&entry, header, origin)?;
            if marker.coordinator_epoch < entry.coordinator_epoch
                && origin != AppendOrigin::Replication
            {
                return Err(ProducerError::TransactionCoordinatorFenced {
                    producer_id,
                    offset: header.base_offset,
                    epoch: marker.coordinator_epoch,
                    current: entry.coordinator_epoch,
                });
            }
            if let Some(first_offset) = entry.current_txn_first_offset {
                pending.completed.push(CompletedTxn {
                    producer_id,
                    first_offset,
                    last_offset: header.base_offset,
                    aborted: marker.control_type == ControlRecordType::Abort,
                });
            }
            entry.set_epoch(header.producer_epoch);
            entry.current_txn_first_offset = None;
            entry.coordinator_epoch = marker.coordinator_epoch;
            entry.last_timestamp = header.max_timestamp;
        } else {
            check_epoch(&entry, header, origin)?;
            if origin == AppendOrigin::Client && holds(Guard::Dedup) {
                check_sequence(&entry, current.as_ref(), header)?;
            }
            entry.set_epoch(header.producer_epoch);
            entry.add(ProducerBatch {
                last_sequence: header.last_sequence(),
                last_offset: header.last_offset(),
                offset_delta: header.last_offset_delta,
                timestamp: header.max_timestamp,
            });
            entry.last_timestamp = header.max_timestamp;
            match (entry.current_txn_first_offset, header.is_transactional()) {
                (Some(_), false) if origin != AppendOrigin::Replication => {
                    return Err(ProducerError::InvalidTxnState {
                        producer_id,
                        offset: header.base_offset,
                    });
                }
                (None, true) => entry.current_txn_first_offset = Some(header.base_offset),
                (Some(_), _) | (None, false) => {}
            }
        }
        match at {
            Some(at) => pending.entries[at] = entry,
            None => pending.entries.push(entry),
        }
        Ok(())
    }

    /// The transactions that an append will abort, for the transaction index.
    pub(crate) fn aborted_by(&self, pending: &Pending) -> Vec<AbortedTxn> {
        if pending.completed.iter().all(|txn| !txn.aborted) {
            return Vec::new();
        }
        let mut ongoing = self.ongoing.clone();
        pending.advance(&mut ongoing, |producer_id| self.producer(producer_id))
    }

    /// Takes over what an append changed, now that its bytes are in the log up to `end_offset`. Gives the aborted
    /// transactions that ended in it.
    pub(crate) fn apply(&mut self, pending: Pending, end_offset: Offset) -> Vec<AbortedTxn> {
        let producers = &self.producers;
        let aborted = pending.advance(&mut self.ongoing, |producer_id| {
            producers.get(&producer_id.get())
        });
        for entry in &pending.entries {
            self.producers.insert(entry.producer_id.get(), *entry);
        }
        for txn in &pending.completed {
            self.unreplicated.insert(txn.first_offset, txn.last_offset);
        }
        self.end_offset = end_offset;
        aborted
    }

    /// Markers below the high watermark hold the last stable offset no longer.
    pub(crate) fn on_high_watermark(&mut self, high_watermark: Offset) {
        self.unreplicated
            .retain(|_, last_offset| *last_offset >= high_watermark);
    }

    /// The first offset that is not decided: of an open transaction, or of one whose marker is not replicated.
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let ongoing = self.ongoing.first_key_value().map(|(first, _)| *first);
        let unreplicated = self.unreplicated.first_key_value().map(|(first, _)| *first);
        match (ongoing, unreplicated) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Forgets producers that were silent for `expiration_ms` and have no open transaction.
    pub(crate) fn remove_expired(&mut self, now_ms: i64, expiration_ms: i64) {
        self.producers
            .retain(|_, entry| !is_expired(entry, now_ms, expiration_ms));
    }

    /// Transactions that began below the log's start are over for readers.
    pub(crate) fn on_log_start(&mut self, log_start_offset: Offset) {
        self.unreplicated
            .retain(|_, last_offset| *last_offset >= log_start_offset);
        if self.end_offset < log_start_offset {
            self.end_offset = log_start_offset;
        }
    }

    /// Takes the entries of a snapshot.
    pub(crate) fn from_snapshot(
        entries: impl IntoIterator<Item = ProducerEntry>,
        end_offset: Offset,
        now_ms: i64,
        expiration_ms: i64,
    ) -> Self {
        let mut state = ProducerStateManager::new(end_offset);
        for entry in entries {
            if is_expired(&entry, now_ms, expiration_ms) {
                continue;
            }
            if let Some(first_offset) = entry.current_txn_first_offset {
                state.ongoing.insert(first_offset, entry.producer_id);
            }
            state.producers.insert(entry.producer_id.get(), entry);
        }
        state
    }
}

fn is_expired(entry: &ProducerEntry, now_ms: i64, expiration_ms: i64) -> bool {
    entry.current_txn_first_offset.is_none()
        && now_ms.saturating_sub(entry.last_timestamp) >= expiration_ms
}

fn check_epoch(
    entry: &ProducerEntry,
    header: &BatchHeader,
    origin: AppendOrigin,
) -> Result<(), ProducerError> {
    if header.producer_epoch < entry.producer_epoch && origin != AppendOrigin::Replication {
        return Err(ProducerError::InvalidProducerEpoch {
            producer_id: header.producer_id,
            offset: header.base_offset,
            epoch: header.producer_epoch,
            current: entry.producer_epoch,
        });
    }
    Ok(())
}

/// `entry` holds what the append changed so far, `current` what the log holds.
fn check_sequence(
    entry: &ProducerEntry,
    current: Option<&ProducerEntry>,
    header: &BatchHeader,
) -> Result<(), ProducerError> {
    let refuse = |last_sequence| {
        Err(ProducerError::OutOfOrderSequence {
            producer_id: header.producer_id,
            offset: header.base_offset,
            first_sequence: header.base_sequence,
            last_sequence,
        })
    };
    if header.producer_epoch != entry.producer_epoch {
        // A new epoch starts at 0; a producer that is not known may start anywhere.
        if header.base_sequence != 0 && entry.producer_epoch != ProducerEpoch::NONE {
            return refuse(entry.last_sequence());
        }
        return Ok(());
    }
    let last_sequence = entry.last_sequence();
    // KIP-360: a producer whose batches were all deleted goes on where it was.
    let known = current.is_some_and(|current| current.producer_epoch != ProducerEpoch::NONE)
        || entry.last_batch().is_some();
    let follows = i64::from(header.base_sequence) == i64::from(last_sequence) + 1
        || (header.base_sequence == 0 && last_sequence == i32::MAX);
    if known && !follows {
        return refuse(last_sequence);
    }
    Ok(())
}

/// Reads the marker of a control batch; `None` for other control records and for a batch that compaction emptied.
pub(crate) fn end_txn_marker(
    batch: &kavka_records::RecordBatch<'_>,
) -> Result<Option<EndTxnMarker>, kavka_records::BatchError> {
    if !batch.header().is_control() || !batch.header().has_producer_id() {
        return Ok(None);
    }
    let mut records = batch.records(batch.bytes().len().max(1024))?;
    let Some(record) = records.next() else {
        return Ok(None);
    };
    let record = record?;
    let (Some(key), Some(value)) = (&record.key, &record.value) else {
        return Err(kavka_records::BatchError::Malformed(
            "control record lacks its key or value",
        ));
    };
    EndTxnMarker::parse(key, value).map(Some)
}

/// A result of file work on snapshots.
pub(crate) type SnapshotResult<T> = Result<T, StorageError>;

#[cfg(test)]
#[path = "producer_state_test.rs"]
mod tests;
