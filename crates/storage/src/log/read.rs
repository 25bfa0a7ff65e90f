//! Reading: by offset as a region of a file, by timestamp, and the aborted transactions of a range.
//! Not here: the bytes on their way (the region is sent by `sendfile`), delayed fetches, sessions.
//! Hot path: an index lookup, then a walk over headers of at most `index.interval.bytes`. Under the owner's lock, and so
//! for those who have none to share; others plan under it and look up outside (lookup.rs).
//! Kafka: UnifiedLog.{read, fetchOffsetByTimestamp, collectAbortedTransactions}; KIP-79, KIP-98, KIP-734.

use super::Log;
use super::lookup::{LookupError, PlannedRead};
use crate::error::StorageError;
use crate::scan::{BatchAt, HeaderScanner};
use crate::txn_index::AbortedTxn;
use kavka_common::{FileRegion, LeaderEpoch, Offset};
use kavka_records::RecordBatch;

/// Most bytes a batch may decode to when a record is looked for by its timestamp.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// What a read found.
#[derive(Clone, Debug)]
pub struct ReadResult {
    /// Whole batches, the last of which may be cut by `max_bytes`; `None` when there is nothing below the bound, or
    /// the first batch does not fit.
    pub region: Option<FileRegion>,
    /// Base offset of the first batch of the region: not above the offset asked for.
    pub first_offset: Offset,
    /// No offset of the region reaches this one; near enough to bound a search for aborted transactions.
    pub upper_bound_offset: Offset,
    pub log_start_offset: Offset,
    pub log_end_offset: Offset,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
}

/// The log does not hold the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Received request for offset {fetch_offset}, but we only have log segments in the range {log_start_offset} to {log_end_offset}."
)]
pub struct OffsetOutOfRange {
    pub fetch_offset: Offset,
    pub log_start_offset: Offset,
    pub log_end_offset: Offset,
}

/// Why a read fails.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    OutOfRange(#[from] OffsetOutOfRange),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    pub timestamp: i64,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
}

impl Log {
    /// Reads from the batch that holds `fetch_offset`, below `max_offset_exclusive`. `min_one_batch`: the first batch is
    /// given whole even when it is larger than `max_bytes`, so that a reader gets on.
    pub fn read(
        &mut self,
        fetch_offset: Offset,
        max_bytes: usize,
        max_offset_exclusive: Offset,
        min_one_batch: bool,
    ) -> Result<ReadResult, ReadError> {
        let planned =
            self.plan_read(fetch_offset, max_bytes, max_offset_exclusive, min_one_batch)?;
        let mut result = match planned {
            PlannedRead::Nothing(result) => return Ok(result),
            PlannedRead::Lookup(lookup) => match lookup.run(true) {
                Ok(result) => return Ok(result),
                // In a later segment, or with an index that must be repaired.
                Err(LookupError::Again | LookupError::Cold) => lookup.planned().clone(),
            },
        };
        let Some((at, first)) = self.find(fetch_offset)? else {
            return Ok(result);
        };
        let disk = self.disk.clone();
        let index_interval_bytes = self.config.index_interval_bytes;
        let segment_end = self.segment_end(at);
        let segment = &mut self.segments[at];
        let end = if max_offset_exclusive >= segment_end {
            segment.size()
        } else {
            match segment.find(&disk, max_offset_exclusive, index_interval_bytes)? {
                Some(batch) => batch.position,
                None => segment.size(),
            }
        };
        if first.position >= end {
            return Ok(result);
        }
        result.first_offset = first.header.base_offset;
        let first_size = first.header.size_bytes();
        if first_size > max_bytes && !min_one_batch {
            return Ok(result);
        }
        let available = (end - first.position) as usize;
        let length = available.min(max_bytes.max(first_size));
        let bound = max_offset_exclusive.min(segment_end);
        result.upper_bound_offset = if length == available {
            bound
        } else {
            let reached = u64::from(first.position) + length as u64;
            segment
                .offset_index
                .first_reached(&disk, |entry| u64::from(entry.position) >= reached)?
                .map_or(bound, |entry| bound.min(entry.offset + 1))
        };
        result.region = Some(FileRegion {
            source: segment.file(&disk)?,
            position: u64::from(first.position),
            length,
        });
        Ok(result)
    }

    /// The segment and the batch that hold `offset`, or the first batch after it.
    pub(super) fn find(
        &mut self,
        offset: Offset,
    ) -> Result<Option<(usize, BatchAt)>, StorageError> {
        let disk = self.disk.clone();
        let from = self.segment_at(offset).unwrap_or(0);
        for at in from..self.segments.len() {
            let found = self.segments[at].find(&disk, offset, self.config.index_interval_bytes)?;
            if let Some(batch) = found {
                return Ok(Some((at, batch)));
            }
        }
        Ok(None)
    }

    /// Aborted transactions that overlap the offsets from `from` to below `to`, in the order of their markers.
    pub fn aborted_transactions(
        &mut self,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<AbortedTxn>, StorageError> {
        let disk = self.disk.clone();
        let mut found = Vec::new();
        let first = self.segment_at(from).unwrap_or(0);
        for segment in &mut self.segments[first..] {
            for txn in segment.txn_index.entries(&disk)?.iter() {
                if txn.last_offset >= from && txn.first_offset < to {
                    found.push(*txn);
                }
                // Once that abort had ended, everything below its last stable offset was decided: later markers are
                // of transactions that began at or after it.
                if txn.last_stable_offset >= to {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// The first record whose timestamp is `timestamp` or later, below `max_offset_exclusive`.
    pub fn offset_for_timestamp(
        &mut self,
        timestamp: i64,
        max_offset_exclusive: Offset,
    ) -> Result<Option<TimestampedOffset>, StorageError> {
        if let Ok(found) = self.plan_timestamp(timestamp, max_offset_exclusive).run() {
            return Ok(found);
        }
        let disk = self.disk.clone();
        let log_start_offset = self.log_start_offset;
        for segment in &mut self.segments {
            if segment.max_timestamp(&disk)?.timestamp < timestamp {
                continue;
            }
            let hint = segment.time_index.floor(&disk, timestamp)?;
            let from = hint.map_or(0, |entry| entry.offset).max(log_start_offset);
            let Some(start) = segment.find(&disk, from, self.config.index_interval_bytes)? else {
                continue;
            };
            let file = segment.file(&disk)?;
            let path = segment.path();
            let mut scanner = HeaderScanner::new(
                path,
                &*file,
                start.position,
                segment.size(),
                segment.base_offset(),
            );
            while let Some(batch) = scanner.next().map_err(|error| error.into_storage(path))? {
                if batch.header.base_offset >= max_offset_exclusive {
                    return Ok(None);
                }
                if batch.header.max_timestamp < timestamp {
                    continue;
                }
                let found = find_record(&disk, path, &*file, &batch, |at, offset| {
                    at >= timestamp && offset >= log_start_offset
                })?;
                if found.is_some() {
                    return Ok(found.filter(|found| found.offset < max_offset_exclusive));
                }
            }
        }
        Ok(None)
    }

    /// The record with the greatest timestamp; the first one of several. `None` in a log without timestamps.
    pub fn max_timestamp_offset(&mut self) -> Result<Option<TimestampedOffset>, StorageError> {
        if let Ok(found) = self.plan_max_timestamp().run() {
            return Ok(found);
        }
        let disk = self.disk.clone();
        let mut greatest: Option<(usize, crate::index::TimestampOffset)> = None;
        for (at, segment) in self.segments.iter_mut().enumerate() {
            let candidate = segment.max_timestamp(&disk)?;
            if candidate.timestamp >= 0
                && greatest.is_none_or(|(_, best)| candidate.timestamp > best.timestamp)
            {
                greatest = Some((at, candidate));
            }
        }
        let Some((at, max)) = greatest else {
            return Ok(None);
        };
        let segment = &mut self.segments[at];
        let Some(batch) = segment.find(&disk, max.offset, self.config.index_interval_bytes)? else {
            return Ok(None);
        };
        let file = segment.file(&disk)?;
        find_record(&disk, segment.path(), &*file, &batch, |timestamp, _| {
            timestamp >= max.timestamp
        })
    }
}

/// The first record of a batch for which `wanted(timestamp, offset)` holds.
pub(super) fn find_record(
    disk: &crate::disk::Disk,
    path: &std::path::Path,
    file: &dyn crate::vfs::File,
    at: &BatchAt,
    wanted: impl Fn(i64, Offset) -> bool,
) -> Result<Option<TimestampedOffset>, StorageError> {
    let mut bytes = vec![0; at.header.size_bytes()];
    disk.read_exact_at(path, file, &mut bytes, u64::from(at.position))?;
    let corrupt = |error: kavka_records::BatchError| {
        StorageError::corrupt(path, format!("batch at position {}: {error}", at.position))
    };
    let batch = RecordBatch::parse(&bytes).map_err(corrupt)?;
    for record in batch.records(DECOMPRESSED_BYTES_MAX).map_err(corrupt)? {
        let record = record.map_err(corrupt)?;
        if wanted(record.timestamp, record.offset) {
            return Ok(Some(TimestampedOffset {
                timestamp: record.timestamp,
                offset: record.offset,
                leader_epoch: at.header.partition_leader_epoch,
            }));
        }
    }
    Ok(None)
}
