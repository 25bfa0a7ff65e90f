//! Appending: checks that change nothing, one write, then the bookkeeping that cannot fail.
//! Not here: what a client may send (kavka_records::validate: CRC, framing, sizes), purgatory, replication.
//! Hot path: one vectored write per append; headers are patched in a copy, payload bytes are not touched or copied.
//! Kafka: UnifiedLog.append; KIP-98, KIP-101.

use super::Log;
use crate::error::StorageError;
use crate::producer_state::{AppendOrigin, Pending, ProducerError, end_txn_marker};
use crate::txn_index::AbortedTxn;
use kavka_common::guards::{Guard, holds};
use kavka_common::{LeaderEpoch, Offset};
use kavka_records::{
    BATCH_OVERHEAD_BYTES, BatchError, BatchHeader, NO_TIMESTAMP, RecordBatch, TimestampType,
    batches,
};
use std::io::IoSlice;

/// Where an append went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    pub first_offset: Offset,
    pub last_offset: Offset,
    pub max_timestamp: i64,
    /// Last offset of the batch with the greatest timestamp.
    pub offset_of_max_timestamp: Offset,
    /// -1 unless the broker stamped the records.
    pub log_append_time_ms: i64,
    /// Nothing was written: the producer had sent this batch before, and these are the offsets it got then.
    pub duplicate: bool,
    pub log_start_offset: Offset,
    pub size_bytes: usize,
    /// The epoch of this append is new to the log.
    pub leader_epoch_changed: bool,
}

/// Why an append is refused. The log is as it was before.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    #[error("invalid record batch: {0}")]
    InvalidBatch(#[from] BatchError),
    #[error(
        "The record batch size in the append is {size_bytes} bytes which exceeds the maximum configured segment size of {segment_bytes} bytes."
    )]
    BatchTooLarge {
        size_bytes: usize,
        segment_bytes: u32,
    },
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// A follower was given batches that do not continue its log.
    #[error(
        "Unexpected offset in append. First offset {first_offset} is less than the next offset {log_end_offset}"
    )]
    UnexpectedOffset {
        first_offset: Offset,
        log_end_offset: Offset,
    },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

const ATTRIBUTES_AT: usize = 21;

impl Log {
    /// Appends batches at the log's end and gives them their offsets. The caller has validated them. Several batches
    /// are taken or refused together.
    pub fn append_as_leader(
        &mut self,
        bytes: &[u8],
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<AppendInfo, AppendError> {
        let mut parsed = Vec::with_capacity(1);
        let mut patched = Vec::with_capacity(1);
        let mut next_offset = self.log_end_offset;
        for batch in batches(bytes) {
            let batch = batch?;
            if batch.header().last_offset_delta < 0 {
                return Err(BatchError::Malformed("negative last offset delta").into());
            }
            let mut header = *batch
                .bytes()
                .first_chunk::<BATCH_OVERHEAD_BYTES>()
                .expect("a parsed batch has a header");
            kavka_records::patch_header(&mut header, next_offset, leader_epoch);
            if self.config.message_timestamp_type == TimestampType::LogAppendTime {
                stamp(&mut header, &batch.bytes()[BATCH_OVERHEAD_BYTES..], now_ms);
            }
            next_offset = BatchHeader::parse(&header)?.next_offset();
            patched.push(header);
            parsed.push(batch);
        }
        let headers: Vec<BatchHeader> = patched
            .iter()
            .map(|header| BatchHeader::parse(header))
            .collect::<Result<_, _>>()?;
        if origin == AppendOrigin::Client
            && holds(Guard::Dedup)
            && let Some(info) = self.find_duplicate(&headers)
        {
            return Ok(info);
        }
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(2 * parsed.len());
        for (header, batch) in patched.iter().zip(&parsed) {
            slices.push(IoSlice::new(header));
            slices.push(IoSlice::new(&batch.bytes()[BATCH_OVERHEAD_BYTES..]));
        }
        let mut info = self.append(&headers, &parsed, slices, origin, now_ms)?;
        if self.config.message_timestamp_type == TimestampType::LogAppendTime {
            info.log_append_time_ms = now_ms;
        }
        Ok(info)
    }

    /// Appends batches that the leader gave offsets and epochs. An incomplete batch at the end of `bytes` is left out,
    /// and so is everything from an epoch above `leader_epoch`, which was fetched from a leader that is gone.
    pub fn append_as_follower(
        &mut self,
        bytes: &[u8],
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<AppendInfo, AppendError> {
        let mut parsed = Vec::with_capacity(4);
        let mut headers: Vec<BatchHeader> = Vec::with_capacity(4);
        let mut next_offset = self.log_end_offset;
        for batch in batches(bytes) {
            let batch = match batch {
                Err(BatchError::Truncated { .. }) => break,
                other => other?,
            };
            let header = *batch.header();
            if header.partition_leader_epoch > leader_epoch {
                break;
            }
            batch.verify_crc()?;
            if header.last_offset_delta < 0 {
                return Err(BatchError::Malformed("negative last offset delta").into());
            }
            if header.base_offset < next_offset {
                return Err(AppendError::UnexpectedOffset {
                    first_offset: header.base_offset,
                    log_end_offset: next_offset,
                });
            }
            let first_offset = headers
                .first()
                .map_or(header.base_offset, |first| first.base_offset);
            if header.last_offset() - first_offset > i64::from(i32::MAX) {
                // Compaction left a gap that no segment can span: the rest comes with the next fetch.
                break;
            }
            next_offset = header.next_offset();
            headers.push(header);
            parsed.push(batch);
        }
        let length: usize = headers.iter().map(BatchHeader::size_bytes).sum();
        let slices = vec![IoSlice::new(&bytes[..length])];
        self.append(&headers, &parsed, slices, AppendOrigin::Replication, now_ms)
    }

    fn find_duplicate(&self, headers: &[BatchHeader]) -> Option<AppendInfo> {
        headers
            .iter()
            .filter(|header| header.has_producer_id())
            .find_map(|header| {
                let earlier = self.producers.find_duplicate(header)?;
                Some(AppendInfo {
                    first_offset: earlier.first_offset(),
                    last_offset: earlier.last_offset,
                    max_timestamp: earlier.timestamp,
                    offset_of_max_timestamp: earlier.last_offset,
                    log_append_time_ms: match self.config.message_timestamp_type {
                        TimestampType::LogAppendTime => earlier.timestamp,
                        TimestampType::CreateTime => NO_TIMESTAMP,
                    },
                    duplicate: true,
                    log_start_offset: self.log_start_offset,
                    size_bytes: 0,
                    leader_epoch_changed: false,
                })
            })
    }

    fn append(
        &mut self,
        headers: &[BatchHeader],
        parsed: &[RecordBatch<'_>],
        mut slices: Vec<IoSlice<'_>>,
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<AppendInfo, AppendError> {
        self.disk.latch.check()?;
        let size_bytes: usize = headers.iter().map(BatchHeader::size_bytes).sum();
        let mut info = AppendInfo {
            first_offset: headers
                .first()
                .map_or(self.log_end_offset, |header| header.base_offset),
            last_offset: headers
                .last()
                .map_or(self.log_end_offset - 1, BatchHeader::last_offset),
            max_timestamp: NO_TIMESTAMP,
            offset_of_max_timestamp: -1,
            log_append_time_ms: NO_TIMESTAMP,
            duplicate: false,
            log_start_offset: self.log_start_offset,
            size_bytes,
            leader_epoch_changed: false,
        };
        if headers.is_empty() {
            return Ok(info);
        }
        if size_bytes > self.config.segment_bytes as usize {
            return Err(AppendError::BatchTooLarge {
                size_bytes,
                segment_bytes: self.config.segment_bytes,
            });
        }
        if info.last_offset - info.first_offset > i64::from(i32::MAX) {
            return Err(BatchError::Malformed(
                "offsets of one append span more than a segment can hold",
            )
            .into());
        }
        let mut pending = Pending::default();
        for (header, batch) in headers.iter().zip(parsed) {
            if header.max_timestamp > info.max_timestamp {
                info.max_timestamp = header.max_timestamp;
                info.offset_of_max_timestamp = header.last_offset();
            }
            if header.has_producer_id() {
                let marker = end_txn_marker(batch)?;
                self.producers.check(&mut pending, header, marker, origin)?;
            }
        }
        let disk = self.disk.clone();
        self.maybe_roll(&info, size_bytes, now_ms)
            .map_err(|error| disk.lost(error))?;
        // Before the batches: without these entries readers would see the aborted records.
        let aborted = self.producers.aborted_by(&pending);
        self.index_aborted(&aborted, info.first_offset)?;
        let index_interval_bytes = self.config.index_interval_bytes;
        let written = self
            .active()
            .append(&disk, &mut slices, headers, index_interval_bytes);
        if let Err(error) = written {
            if !aborted.is_empty() {
                self.active().txn_index.truncate(&disk, info.first_offset)?;
            }
            return Err(error.into());
        }

        // The bytes are in the log: from here on the bookkeeping follows, whatever happens.
        self.log_end_offset = info.last_offset + 1;
        self.producers.apply(pending, self.log_end_offset);
        for header in headers {
            if header.partition_leader_epoch.get() >= 0
                && self
                    .epochs
                    .assign(header.partition_leader_epoch, header.base_offset)
            {
                info.leader_epoch_changed = true;
            }
        }
        if info.leader_epoch_changed
            && let Err(error) = self.store_epochs()
        {
            // Recovery finds the epochs in the batches; the next flush tries again, and fails the directory if it must.
            tracing::warn!(dir = %self.dir.display(), "leader epochs not stored: {error}");
        }
        Ok(info)
    }

    /// Writes the entries of transactions that the append aborts; all or none.
    fn index_aborted(
        &mut self,
        aborted: &[AbortedTxn],
        first_offset: Offset,
    ) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        for txn in aborted {
            if let Err(error) = self.active().txn_index.append(&disk, *txn) {
                self.active().txn_index.truncate(&disk, first_offset)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Starts a new segment when the batches do not belong into the active one any more.
    fn maybe_roll(
        &mut self,
        info: &AppendInfo,
        size_bytes: usize,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        let LogLimits {
            segment_bytes,
            index_entries_max,
            time_index_entries_max,
            roll_after_ms,
        } = self.limits();
        let active = self.active();
        let size = active.size() as usize;
        let waited_ms = match active.first_timestamp(&disk)? {
            // A segment's age is that of its records, where they tell one; recovery and replication keep it so.
            Some(first) if info.max_timestamp >= 0 => info.max_timestamp.saturating_sub(first),
            Some(_) | None => now_ms.saturating_sub(active.created_ms()),
        };
        let full = size + size_bytes > segment_bytes
            || active.offset_index.len() >= index_entries_max
            || active.time_index.len() >= time_index_entries_max;
        if (size > 0 && (full || waited_ms > roll_after_ms))
            || !active.takes_offset(info.last_offset)
        {
            // Without a gap between segments recovery can tell that the end of one is missing; a gap goes inside the new
            // segment, unless its offsets would not fit.
            let fits = info.last_offset - self.log_end_offset <= i64::from(i32::MAX);
            let base_offset = if fits {
                self.log_end_offset
            } else {
                info.first_offset
            };
            self.roll_at(base_offset, now_ms)?;
        }
        Ok(())
    }

    fn limits(&self) -> LogLimits {
        // Jitter spreads the rolls of logs that were created together; any stable number below the limit will do.
        let seed = self
            .segments
            .last()
            .map_or(0, crate::segment::Segment::base_offset);
        let jitter_ms = match self.config.segment_jitter_ms {
            max if max > 0 => {
                let name = self.dir.as_os_str().as_encoded_bytes();
                let hash = name.iter().fold(seed as u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
                });
                (hash % max as u64) as i64
            }
            _ => 0,
        };
        let index_bytes = self.config.segment_index_bytes as usize;
        LogLimits {
            segment_bytes: self.config.segment_bytes as usize,
            index_entries_max: (index_bytes / 8).max(1),
            // One place is left for the entry that a roll adds.
            time_index_entries_max: (index_bytes / 12).saturating_sub(1).max(1),
            roll_after_ms: self.config.segment_ms.saturating_sub(jitter_ms),
        }
    }
}

struct LogLimits {
    segment_bytes: usize,
    index_entries_max: usize,
    time_index_entries_max: usize,
    roll_after_ms: i64,
}

/// Stamps a header with the broker's time: type bit, greatest timestamp, and the CRC over header and records.
fn stamp(header: &mut [u8; BATCH_OVERHEAD_BYTES], records: &[u8], now_ms: i64) {
    const LOG_APPEND_TIME_BIT: u8 = 0x08;
    const MAX_TIMESTAMP_AT: usize = 35;
    const CRC_AT: usize = 17;
    header[ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME_BIT;
    header[MAX_TIMESTAMP_AT..][..8].copy_from_slice(&now_ms.to_be_bytes());
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&header[ATTRIBUTES_AT..]);
    digest.update(records);
    let crc = digest.finalize() as u32;
    header[CRC_AT..][..4].copy_from_slice(&crc.to_be_bytes());
}
