//! Looking batches up outside the lock of the log's owner: a cheap look at the log under it says where to search.
//! Not here: what is decided under the lock (offsets, epochs); repair of an index that does not fit (read.rs).
//! Hot path: planning copies a few handles and searches the index of the written segment, which is in memory; `run`
//! reads files and may be told not to wait for the disk. Kafka: UnifiedLog.read, LocalLog.read (outside the log's lock).

use super::Log;
use super::read::{OffsetOutOfRange, ReadError, ReadResult, TimestampedOffset, find_record};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::index::{Floor, OffsetPosition, SealedIndex, TimestampOffset};
use crate::lazy_file::LazyFile;
use crate::scan::{BatchAt, HeaderScanner, Reading, ScanError};
use crate::segment::{Place, Segment, find_from, no_timestamp};
use kavka_common::{FileRegion, Offset};
use std::io;
use std::sync::Arc;

/// Why a lookup outside the lock gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The disk would have to be waited for: run it again on a thread that may block.
    Cold,
    /// The log moved on meanwhile, or does not look as it should: read it under the lock, which repairs and reports.
    Again,
}

impl From<StorageError> for LookupError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock => {
                LookupError::Cold
            }
            _ => LookupError::Again,
        }
    }
}

impl From<ScanError> for LookupError {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Storage(error) => error.into(),
            ScanError::Invalid { .. } => LookupError::Again,
        }
    }
}

/// What a look at the log under the lock gave.
#[derive(Debug)]
pub enum PlannedRead {
    /// Nothing to look for: the offset lies at or above the bound.
    Nothing(ReadResult),
    Lookup(ReadLookup),
}

/// Where to look for the batches of a read.
#[derive(Debug)]
pub struct ReadLookup {
    disk: Disk,
    log: Arc<LazyFile>,
    place: Place,
    fetch_offset: Offset,
    first: Floor<OffsetPosition>,
    /// The bound, where it lies inside the segment.
    end: Option<(Offset, Floor<OffsetPosition>)>,
    /// Where the read ends in offsets, at the latest.
    bound: Offset,
    upper: Upper,
    max_bytes: usize,
    min_one_batch: bool,
    /// The offsets of the log when it was planned.
    result: ReadResult,
}

/// Which offset the bytes of a read do not reach.
#[derive(Debug)]
enum Upper {
    Known(Offset),
    InFile(SealedIndex<OffsetPosition>),
}

impl Log {
    /// The part of `read` that needs the log; the rest is in the lookup.
    pub fn plan_read(
        &self,
        fetch_offset: Offset,
        max_bytes: usize,
        max_offset_exclusive: Offset,
        min_one_batch: bool,
    ) -> Result<PlannedRead, ReadError> {
        let result = ReadResult {
            region: None,
            first_offset: fetch_offset,
            upper_bound_offset: fetch_offset,
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset,
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset(),
        };
        if fetch_offset < self.log_start_offset || fetch_offset > self.log_end_offset {
            return Err(OffsetOutOfRange {
                fetch_offset,
                log_start_offset: self.log_start_offset,
                log_end_offset: self.log_end_offset,
            }
            .into());
        }
        if fetch_offset >= max_offset_exclusive {
            return Ok(PlannedRead::Nothing(result));
        }
        let at = self.segment_at(fetch_offset).unwrap_or(0);
        let segment = &self.segments[at];
        let segment_end = self.segment_end(at);
        let bound = max_offset_exclusive.min(segment_end);
        let index = &segment.offset_index;
        Ok(PlannedRead::Lookup(ReadLookup {
            disk: self.disk.clone(),
            log: Arc::clone(segment.log_file()),
            place: segment.place(),
            fetch_offset,
            first: index.floor_later(fetch_offset),
            end: (max_offset_exclusive < segment_end).then(|| {
                (
                    max_offset_exclusive,
                    index.floor_later(max_offset_exclusive),
                )
            }),
            bound,
            upper: match index.sealed_part() {
                Some(sealed) => Upper::InFile(sealed),
                // The first batch starts before the next entry's; a read ends at most `max_bytes` behind that.
                None => Upper::Known(
                    index
                        .resident_after(fetch_offset)
                        .and_then(|next| {
                            let reached = u64::from(next.position) + max_bytes as u64;
                            index.resident_reached(|entry| u64::from(entry.position) >= reached)
                        })
                        .map_or(bound, |entry| bound.min(entry.offset + 1)),
                ),
            },
            max_bytes,
            min_one_batch,
            result,
        }))
    }

    /// Counts truncations: what was planned before one must not be used after it.
    pub fn truncations(&self) -> u64 {
        self.truncations
    }
}

impl ReadLookup {
    /// The offsets of the log when this was planned; no region.
    pub fn planned(&self) -> &ReadResult {
        &self.result
    }

    pub fn fetch_offset(&self) -> Offset {
        self.fetch_offset
    }

    /// Finds the region. `may_wait`: on a thread that may block.
    pub fn run(&self, may_wait: bool) -> Result<ReadResult, LookupError> {
        let reading = reading(may_wait);
        let disk = &self.disk;
        let entry = self.first.find(disk, self.fetch_offset, reading)?;
        let Some(first) = self.find(entry, self.fetch_offset, reading)? else {
            // It lies in a later segment.
            return Err(LookupError::Again);
        };
        let end = match &self.end {
            None => self.place.size,
            Some((offset, floor)) => {
                let entry = floor.find(disk, *offset, reading)?;
                self.find(entry, *offset, reading)?
                    .map_or(self.place.size, |batch| batch.position)
            }
        };
        let mut result = self.result.clone();
        if first.position >= end {
            return Ok(result);
        }
        result.first_offset = first.header.base_offset;
        let first_size = first.header.size_bytes();
        if first_size > self.max_bytes && !self.min_one_batch {
            return Ok(result);
        }
        let available = (end - first.position) as usize;
        let length = available.min(self.max_bytes.max(first_size));
        result.upper_bound_offset = if length == available || first_size > self.max_bytes {
            self.bound
        } else {
            match &self.upper {
                Upper::Known(offset) => *offset,
                Upper::InFile(index) => {
                    let reached = u64::from(first.position) + length as u64;
                    index
                        .first_reached(disk, reading, |entry| u64::from(entry.position) >= reached)?
                        .map_or(self.bound, |entry| self.bound.min(entry.offset + 1))
                }
            }
        };
        let source = reading.open(disk, &self.log)?;
        result.region = Some(FileRegion {
            source: Arc::clone(source) as Arc<dyn kavka_common::RegionSource>,
            position: u64::from(first.position),
            length,
        });
        Ok(result)
    }

    fn find(
        &self,
        entry: Option<OffsetPosition>,
        offset: Offset,
        reading: Reading,
    ) -> Result<Option<BatchAt>, ScanError> {
        find_from(&self.disk, &self.log, self.place, entry, offset, reading)
    }
}

fn reading(may_wait: bool) -> Reading {
    match may_wait {
        true => Reading::Waits,
        false => Reading::CachedOnly,
    }
}

/// Which record a lookup by time wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// The first one of this time or later, below the offset.
    From {
        timestamp: i64,
        max_offset_exclusive: Offset,
    },
    /// The first one with the greatest timestamp.
    Greatest,
}

/// Where to look for a record by its timestamp.
#[derive(Debug)]
pub struct TimestampLookup {
    disk: Disk,
    wanted: Wanted,
    log_start_offset: Offset,
    /// Those that may hold it, in order.
    segments: Vec<TimedSegment>,
}

#[derive(Debug)]
struct TimedSegment {
    log: Arc<LazyFile>,
    place: Place,
    /// `None`: the last entry of the time index tells.
    max: Option<TimestampOffset>,
    time: Floor<TimestampOffset>,
    /// For the offset that `time` gives.
    offsets: Floor<OffsetPosition>,
}

impl Log {
    /// The part of `offset_for_timestamp` that needs the log.
    pub fn plan_timestamp(&self, timestamp: i64, max_offset_exclusive: Offset) -> TimestampLookup {
        self.plan_by_time(
            timestamp,
            Wanted::From {
                timestamp,
                max_offset_exclusive,
            },
        )
    }

    /// The part of `max_timestamp_offset` that needs the log.
    pub fn plan_max_timestamp(&self) -> TimestampLookup {
        self.plan_by_time(i64::MAX, Wanted::Greatest)
    }

    fn plan_by_time(&self, timestamp: i64, wanted: Wanted) -> TimestampLookup {
        let least = match wanted {
            Wanted::From { timestamp, .. } => timestamp,
            Wanted::Greatest => 0,
        };
        let may_hold = |segment: &&Segment| {
            segment
                .known_max_timestamp()
                .is_none_or(|max| max.timestamp >= least)
        };
        let segments = self.segments.iter().filter(may_hold).map(|segment| {
            let max = segment.known_max_timestamp();
            let time = segment.time_index.floor_later(timestamp);
            let offsets = match (&time, wanted, max) {
                (_, Wanted::Greatest, Some(max)) => segment.offset_index.floor_later(max.offset),
                (Floor::Known(hint), _, _) => {
                    let from = hint.map_or(0, |hint| hint.offset);
                    segment.offset_index.floor_later(match wanted {
                        Wanted::From { .. } => from.max(self.log_start_offset),
                        Wanted::Greatest => from,
                    })
                }
                (Floor::InFile(_), _, _) => match segment.offset_index.sealed_part() {
                    Some(sealed) => Floor::InFile(sealed),
                    None => Floor::Known(None),
                },
            };
            TimedSegment {
                log: Arc::clone(segment.log_file()),
                place: segment.place(),
                max,
                time,
                offsets,
            }
        });
        TimestampLookup {
            segments: segments.collect(),
            disk: self.disk.clone(),
            wanted,
            log_start_offset: self.log_start_offset,
        }
    }
}

impl TimestampLookup {
    /// Finds the record, on a thread that may block.
    pub fn run(&self) -> Result<Option<TimestampedOffset>, LookupError> {
        match self.wanted {
            Wanted::From {
                timestamp,
                max_offset_exclusive,
            } => self.first_from(timestamp, max_offset_exclusive),
            Wanted::Greatest => self.greatest(),
        }
    }

    fn first_from(
        &self,
        timestamp: i64,
        max_offset_exclusive: Offset,
    ) -> Result<Option<TimestampedOffset>, LookupError> {
        let disk = &self.disk;
        for segment in &self.segments {
            if segment.max(disk)?.timestamp < timestamp {
                continue;
            }
            let hint = segment.time.find(disk, timestamp, Reading::Waits)?;
            let from = hint.map_or(0, |entry| entry.offset);
            let from = from.max(self.log_start_offset);
            let Some(start) = segment.find(disk, from)? else {
                continue;
            };
            let file = Reading::Waits.open(disk, &segment.log)?;
            let path = segment.log.path();
            let Place { base_offset, size } = segment.place;
            let mut scanner = HeaderScanner::new(path, &**file, start.position, size, base_offset);
            while let Some(batch) = scanner.next()? {
                if batch.header.base_offset >= max_offset_exclusive {
                    return Ok(None);
                }
                if batch.header.max_timestamp < timestamp {
                    continue;
                }
                let found = find_record(disk, path, &**file, &batch, |at, offset| {
                    at >= timestamp && offset >= self.log_start_offset
                })?;
                if found.is_some() {
                    return Ok(found.filter(|found| found.offset < max_offset_exclusive));
                }
            }
        }
        Ok(None)
    }

    fn greatest(&self) -> Result<Option<TimestampedOffset>, LookupError> {
        let disk = &self.disk;
        let mut greatest: Option<(&TimedSegment, TimestampOffset)> = None;
        for segment in &self.segments {
            let max = segment.max(disk)?;
            if max.timestamp >= 0 && greatest.is_none_or(|(_, best)| max.timestamp > best.timestamp)
            {
                greatest = Some((segment, max));
            }
        }
        let Some((segment, max)) = greatest else {
            return Ok(None);
        };
        let Some(batch) = segment.find(disk, max.offset)? else {
            return Ok(None);
        };
        let file = Reading::Waits.open(disk, &segment.log)?;
        Ok(find_record(
            disk,
            segment.log.path(),
            &**file,
            &batch,
            |timestamp, _| timestamp >= max.timestamp,
        )?)
    }
}

impl TimedSegment {
    fn max(&self, disk: &Disk) -> Result<TimestampOffset, StorageError> {
        let last = match (self.max, &self.time) {
            (Some(max), _) => return Ok(max),
            (None, Floor::InFile(index)) => index.last(disk, Reading::Waits)?,
            // All of the index was in memory, and nothing in it.
            (None, Floor::Known(entry)) => *entry,
        };
        Ok(last.unwrap_or(no_timestamp(self.place.base_offset)))
    }

    fn find(&self, disk: &Disk, offset: Offset) -> Result<Option<BatchAt>, ScanError> {
        let entry = self.offsets.find(disk, offset, Reading::Waits)?;
        find_from(disk, &self.log, self.place, entry, offset, Reading::Waits)
    }
}
