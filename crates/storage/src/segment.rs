//! One segment: a log file from its base offset on, with its three indexes.
//! Not here: which segment a call concerns, when to roll (log.rs); what recovery concludes (recovery.rs).
//! Under the log owner's lock. Files are opened when first needed, so that opening a log costs one listing.
//! Kafka: LogSegment.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::index::{Index, OffsetPosition, TimestampOffset};
use crate::lazy_file::LazyFile;
use crate::names;
use crate::scan::{BatchAt, BatchScanner, HeaderScanner, Reading, ScanError};
use crate::txn_index::TxnIndex;
use crate::vfs::{File, OpenMode};
use kavka_common::Offset;
use kavka_records::{BatchHeader, NO_TIMESTAMP, RecordBatch};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Segment {
    base_offset: Offset,
    log: Arc<LazyFile>,
    size: u32,
    pub(crate) offset_index: Index<OffsetPosition>,
    pub(crate) time_index: Index<TimestampOffset>,
    pub(crate) txn_index: TxnIndex,
    bytes_since_index_entry: u32,
    /// The greatest timestamp and the last offset of its batch; `None`: not looked up yet.
    max_timestamp: Option<TimestampOffset>,
    /// Greatest timestamp of the first batch, by which `segment.ms` counts; the outer `None`: not looked up yet.
    first_timestamp: Option<Option<i64>>,
    created_ms: i64,
}

/// Lengths of the files that a listing found for one base offset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileLengths {
    pub(crate) log: Option<u64>,
    pub(crate) offset_index: Option<u64>,
    pub(crate) time_index: Option<u64>,
    pub(crate) txn_index: Option<u64>,
}

/// What a validating walk found.
#[derive(Debug)]
pub(crate) struct Walked {
    /// End of the last valid batch.
    pub(crate) end: u32,
    pub(crate) next_offset: Offset,
    /// Why the walk stopped before the end of the file.
    pub(crate) invalid: Option<String>,
    pub(crate) bytes_read: u64,
}

fn path_of(dir: &Path, base_offset: Offset, suffix: &str) -> PathBuf {
    dir.join(names::offset_file(base_offset, suffix))
}

impl Segment {
    /// Makes the files of a new segment, empty.
    pub(crate) fn create(
        disk: &Disk,
        dir: &Path,
        base_offset: Offset,
        now_ms: i64,
    ) -> Result<Self, StorageError> {
        let path = path_of(dir, base_offset, names::LOG);
        let offset_index = path_of(dir, base_offset, names::INDEX);
        let time_index = path_of(dir, base_offset, names::TIME_INDEX);
        let txn_index = path_of(dir, base_offset, names::TXN_INDEX);
        disk.open(&offset_index, OpenMode::CreateEmpty)?;
        disk.open(&time_index, OpenMode::CreateEmpty)?;
        disk.remove(&txn_index)?;
        let file = disk.open(&path, OpenMode::CreateEmpty)?;
        Ok(Segment {
            base_offset,
            log: LazyFile::opened_as(path, file),
            size: 0,
            offset_index: Index::create(offset_index, base_offset),
            time_index: Index::create(time_index, base_offset),
            txn_index: TxnIndex::new(txn_index, None),
            bytes_since_index_entry: 0,
            max_timestamp: Some(no_timestamp(base_offset)),
            first_timestamp: Some(None),
            created_ms: now_ms,
        })
    }

    /// A segment that a listing found. True beside it: an index is missing or cannot be whole, and must be rebuilt.
    pub(crate) fn found(
        dir: &Path,
        base_offset: Offset,
        lengths: FileLengths,
        now_ms: i64,
    ) -> Result<(Self, bool), StorageError> {
        let path = path_of(dir, base_offset, names::LOG);
        let size = lengths.log.unwrap_or(0);
        let size = u32::try_from(size)
            .ok()
            .filter(|size| i32::try_from(*size).is_ok())
            .ok_or_else(|| {
                StorageError::corrupt(
                    &path,
                    format!("{size} bytes are more than a segment can have"),
                )
            })?;
        let offset_path = path_of(dir, base_offset, names::INDEX);
        let time_path = path_of(dir, base_offset, names::TIME_INDEX);
        let offset_index = lengths
            .offset_index
            .and_then(|length| Index::sealed(offset_path.clone(), base_offset, length));
        let time_index = lengths
            .time_index
            .and_then(|length| Index::sealed(time_path.clone(), base_offset, length));
        let rebuild = size > 0 && (offset_index.is_none() || time_index.is_none());
        let segment = Segment {
            base_offset,
            log: LazyFile::new(path),
            size,
            offset_index: offset_index.unwrap_or_else(|| Index::create(offset_path, base_offset)),
            time_index: time_index.unwrap_or_else(|| Index::create(time_path, base_offset)),
            txn_index: TxnIndex::new(
                path_of(dir, base_offset, names::TXN_INDEX),
                lengths.txn_index,
            ),
            bytes_since_index_entry: 0,
            max_timestamp: None,
            first_timestamp: None,
            created_ms: now_ms,
        };
        Ok((segment, rebuild))
    }

    pub(crate) fn base_offset(&self) -> Offset {
        self.base_offset
    }

    pub(crate) fn path(&self) -> &Path {
        self.log.path()
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn created_ms(&self) -> i64 {
        self.created_ms
    }

    pub(crate) fn file(&self, disk: &Disk) -> Result<Arc<dyn File>, StorageError> {
        self.log.open(disk, OpenMode::Write).cloned()
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            base_offset: self.base_offset,
            size: self.size,
        }
    }

    /// The greatest timestamp and the last offset of its batch, unless only the time index in its file tells.
    pub(crate) fn known_max_timestamp(&self) -> Option<TimestampOffset> {
        self.max_timestamp
    }

    /// What is needed to look for batches outside the lock.
    pub(crate) fn log_file(&self) -> &Arc<LazyFile> {
        &self.log
    }

    /// Whether `offset` can be written relative to the base offset.
    pub(crate) fn takes_offset(&self, offset: Offset) -> bool {
        offset
            .checked_sub(self.base_offset)
            .is_some_and(|relative| (0..=i64::from(i32::MAX)).contains(&relative))
    }

    /// Appends the slices, which are the batches of `headers` one after the other.
    pub(crate) fn append(
        &mut self,
        disk: &Disk,
        slices: &mut [IoSlice<'_>],
        headers: &[BatchHeader],
        index_interval_bytes: u32,
    ) -> Result<(), StorageError> {
        let file = self.file(disk).map_err(|error| disk.lost(error))?;
        self.max_timestamp(disk)?;
        disk.write_all_vectored_at(self.log.path(), &*file, slices, u64::from(self.size))?;
        for header in headers {
            self.note(header, index_interval_bytes);
        }
        Ok(())
    }

    /// Counts a batch that is in the file right after the ones counted before.
    fn note(&mut self, header: &BatchHeader, index_interval_bytes: u32) {
        let last_offset = header.last_offset();
        let max_timestamp = self
            .max_timestamp
            .get_or_insert(no_timestamp(self.base_offset));
        if header.max_timestamp > max_timestamp.timestamp {
            *max_timestamp = TimestampOffset {
                timestamp: header.max_timestamp,
                offset: last_offset,
            };
        }
        if self.size == 0 {
            self.first_timestamp =
                Some((header.max_timestamp >= 0).then_some(header.max_timestamp));
        }
        if self.bytes_since_index_entry > index_interval_bytes {
            self.offset_index.push(OffsetPosition {
                offset: last_offset,
                position: self.size,
            });
            self.note_time();
            self.bytes_since_index_entry = 0;
        }
        let size = u32::try_from(header.size_bytes()).expect("a batch fits into a segment");
        self.size = self
            .size
            .checked_add(size)
            .expect("a segment rolls before it overflows");
        self.bytes_since_index_entry = self.bytes_since_index_entry.saturating_add(size);
    }

    /// Adds the greatest timestamp so far to the time index when it grew.
    fn note_time(&mut self) {
        let Some(max_timestamp) = self.max_timestamp else {
            return;
        };
        if max_timestamp.timestamp > self.last_resident_timestamp() {
            self.time_index.push(max_timestamp);
        }
    }

    fn last_resident_timestamp(&self) -> i64 {
        self.time_index
            .resident_last()
            .map_or(NO_TIMESTAMP, |entry| entry.timestamp)
    }

    /// The batch that holds `offset`, or the first one after it; `None` past the last batch.
    pub(crate) fn find(
        &mut self,
        disk: &Disk,
        offset: Offset,
        index_interval_bytes: u32,
    ) -> Result<Option<BatchAt>, StorageError> {
        match self.find_by_index(disk, offset) {
            Err(ScanError::Invalid { position, reason }) => {
                // Either the index or the log is not what was written. A walk over the whole file tells.
                tracing::warn!(path = %self.log.path().display(), position, "{reason}; rebuilding the indexes");
                self.rebuild(disk, index_interval_bytes)?;
                self.find_by_index(disk, offset)
                    .map_err(|error| error.into_storage(self.log.path()))
            }
            Err(ScanError::Storage(error)) => Err(error),
            Ok(found) => Ok(found),
        }
    }

    fn find_by_index(&mut self, disk: &Disk, offset: Offset) -> Result<Option<BatchAt>, ScanError> {
        let entry = self.offset_index.floor(disk, offset)?;
        find_from(disk, &self.log, self.place(), entry, offset, Reading::Waits)
    }

    /// Builds both sparse indexes anew from a log file in which every batch must be valid.
    pub(crate) fn rebuild(
        &mut self,
        disk: &Disk,
        index_interval_bytes: u32,
    ) -> Result<Walked, StorageError> {
        let walked = self.recover(
            disk,
            0,
            self.base_offset,
            index_interval_bytes,
            &mut |_, _| Ok(()),
        )?;
        match &walked.invalid {
            None => Ok(walked),
            Some(reason) => Err(StorageError::corrupt(
                self.log.path(),
                format!("invalid batch at position {}: {reason}", walked.end),
            )),
        }
    }

    /// Walks and checks every batch from `position` on, gives each to `visit`, and indexes it. The sparse indexes keep
    /// what stands before `position`. Nothing is cut: the caller decides on `Walked::invalid`.
    pub(crate) fn recover(
        &mut self,
        disk: &Disk,
        position: u32,
        offset_min: Offset,
        index_interval_bytes: u32,
        visit: &mut dyn FnMut(&BatchAt, &RecordBatch<'_>) -> Result<(), StorageError>,
    ) -> Result<Walked, StorageError> {
        let file = self.file(disk)?;
        let end = self.size;
        if position == 0 {
            self.offset_index.reset(disk)?;
            self.time_index.reset(disk)?;
            self.max_timestamp = Some(no_timestamp(self.base_offset));
        } else {
            self.offset_index.load(disk)?;
            self.time_index.load(disk)?;
            self.offset_index.truncate(disk, |entry| {
                entry.position < position && entry.offset < offset_min
            })?;
            self.time_index
                .truncate(disk, |entry| entry.offset < offset_min)?;
            self.max_timestamp = Some(self.walk_max_timestamp(disk, position)?);
        }
        self.size = position;
        self.bytes_since_index_entry = 0;
        let path = self.log.path().to_owned();
        let mut scanner = BatchScanner::new(&path, &*file, position, end, offset_min);
        let mut walked = Walked {
            end: position,
            next_offset: offset_min,
            invalid: None,
            bytes_read: 0,
        };
        let outcome = loop {
            match scanner.next() {
                Ok(Some((at, _))) if !self.takes_offset(at.header.last_offset()) => {
                    walked.invalid = Some(format!(
                        "offset {} is out of the segment's range",
                        at.header.last_offset()
                    ));
                    break Ok(());
                }
                Ok(Some((at, batch))) => {
                    if let Err(error) = visit(&at, &batch) {
                        break Err(error);
                    }
                    self.note(&at.header, index_interval_bytes);
                    walked.end = at.end_position();
                    walked.next_offset = at.header.next_offset();
                }
                Ok(None) => break Ok(()),
                Err(ScanError::Invalid { reason, .. }) => {
                    walked.invalid = Some(reason);
                    break Ok(());
                }
                Err(ScanError::Storage(error)) => break Err(error),
            }
        };
        walked.bytes_read = scanner.bytes_read;
        self.size = end;
        outcome?;
        self.note_time();
        self.offset_index.write_out(disk)?;
        self.time_index.write_out(disk)?;
        Ok(walked)
    }

    /// The greatest timestamp before `position`: by the time index, and the batches after its last entry.
    fn walk_max_timestamp(
        &mut self,
        disk: &Disk,
        position: u32,
    ) -> Result<TimestampOffset, StorageError> {
        let mut max = self
            .time_index
            .last(disk)?
            .unwrap_or(no_timestamp(self.base_offset));
        let from = self
            .offset_index
            .floor(disk, max.offset)?
            .map_or(0, |entry| entry.position);
        let file = self.file(disk)?;
        let mut scanner = HeaderScanner::new(
            self.log.path(),
            &*file,
            from.min(position),
            position,
            self.base_offset,
        );
        while let Some(batch) = scanner
            .next()
            .map_err(|error| error.into_storage(self.log.path()))?
        {
            if batch.header.max_timestamp > max.timestamp {
                max = TimestampOffset {
                    timestamp: batch.header.max_timestamp,
                    offset: batch.header.last_offset(),
                };
            }
        }
        Ok(max)
    }

    /// Forgets aborts at or after `offset`, which are found again in the batches; all of them when the file is corrupt
    /// and everything is read again.
    pub(crate) fn txn_index_cut(
        &mut self,
        disk: &Disk,
        offset: Offset,
    ) -> Result<(), StorageError> {
        if offset <= self.base_offset {
            return self.txn_index.reset(disk);
        }
        self.txn_index.load_valid(disk)?;
        self.txn_index.truncate(disk, offset)
    }

    /// Prepares a found segment for appending: indexes in memory, and the offset that follows its last batch.
    pub(crate) fn activate(
        &mut self,
        disk: &Disk,
        index_interval_bytes: u32,
    ) -> Result<Offset, StorageError> {
        self.offset_index.load(disk)?;
        self.time_index.load(disk)?;
        if self.size == 0 {
            self.offset_index.truncate(disk, |_| false)?;
            self.time_index.truncate(disk, |_| false)?;
            self.max_timestamp = Some(no_timestamp(self.base_offset));
            return Ok(self.base_offset);
        }
        match self.read_next_offset(disk) {
            Ok(next_offset) => Ok(next_offset),
            Err(ScanError::Invalid { .. }) => {
                Ok(self.rebuild(disk, index_interval_bytes)?.next_offset)
            }
            Err(ScanError::Storage(error)) => Err(error),
        }
    }

    fn read_next_offset(&mut self, disk: &Disk) -> Result<Offset, ScanError> {
        let last = self.offset_index.last(disk)?;
        let position = last.map_or(0, |entry| entry.position);
        let file = self.file(disk)?;
        let invalid = |reason: &str| ScanError::Invalid {
            position,
            reason: reason.to_owned(),
        };
        if position >= self.size {
            return Err(invalid("the index points behind the log"));
        }
        let mut max = self
            .time_index
            .last(disk)?
            .unwrap_or(no_timestamp(self.base_offset));
        let mut next_offset = self.base_offset;
        let mut first = true;
        let mut scanner = HeaderScanner::new(
            self.log.path(),
            &*file,
            position,
            self.size,
            self.base_offset,
        );
        while let Some(batch) = scanner.next()? {
            if first && last.is_some_and(|entry| entry.offset != batch.header.last_offset()) {
                return Err(invalid(
                    "the index entry does not fit the batch it points to",
                ));
            }
            first = false;
            next_offset = batch.header.next_offset();
            if batch.header.max_timestamp > max.timestamp {
                max = TimestampOffset {
                    timestamp: batch.header.max_timestamp,
                    offset: batch.header.last_offset(),
                };
            }
        }
        if max.offset >= next_offset {
            return Err(invalid("the time index points behind the log"));
        }
        self.max_timestamp = Some(max);
        Ok(next_offset)
    }

    /// The greatest timestamp with the last offset of its batch; timestamp -1 when no batch has one.
    pub(crate) fn max_timestamp(&mut self, disk: &Disk) -> Result<TimestampOffset, StorageError> {
        if let Some(max_timestamp) = self.max_timestamp {
            return Ok(max_timestamp);
        }
        let max_timestamp = self
            .time_index
            .last(disk)?
            .unwrap_or(no_timestamp(self.base_offset));
        self.max_timestamp = Some(max_timestamp);
        Ok(max_timestamp)
    }

    /// The timestamp from which `segment.ms` counts, when the first batch has one.
    pub(crate) fn first_timestamp(&mut self, disk: &Disk) -> Result<Option<i64>, StorageError> {
        if let Some(first_timestamp) = self.first_timestamp {
            return Ok(first_timestamp);
        }
        let file = self.file(disk)?;
        let mut scanner =
            HeaderScanner::new(self.log.path(), &*file, 0, self.size, self.base_offset);
        let first = scanner
            .next()
            .map_err(|error| error.into_storage(self.log.path()))?;
        let first_timestamp = first
            .map(|batch| batch.header.max_timestamp)
            .filter(|timestamp| *timestamp >= 0);
        self.first_timestamp = Some(first_timestamp);
        Ok(first_timestamp)
    }

    /// Cuts the file at `position`, where a batch starts, and everything that points to `offset` or behind it.
    pub(crate) fn truncate(
        &mut self,
        disk: &Disk,
        position: u32,
        offset: Offset,
    ) -> Result<(), StorageError> {
        self.offset_index.load(disk)?;
        self.time_index.load(disk)?;
        self.txn_index.truncate(disk, offset)?;
        self.offset_index
            .truncate(disk, |entry| entry.offset < offset)?;
        self.time_index
            .truncate(disk, |entry| entry.offset < offset)?;
        let file = self.file(disk)?;
        disk.set_len(self.log.path(), &*file, u64::from(position))?;
        self.size = position;
        self.bytes_since_index_entry = 0;
        self.max_timestamp = Some(self.walk_max_timestamp(disk, position)?);
        if position == 0 {
            self.first_timestamp = Some(None);
        }
        Ok(())
    }

    /// Completes the time index and writes out both indexes, not durably: before a roll, a flush, a close.
    pub(crate) fn write_out(&mut self, disk: &Disk, complete: bool) -> Result<(), StorageError> {
        if complete {
            self.note_time();
        }
        self.offset_index.write_out(disk)?;
        self.time_index.write_out(disk)
    }

    /// Leaves the indexes to their files. `write_out` came before.
    pub(crate) fn seal(&mut self, disk: &Disk) -> Result<(), StorageError> {
        self.offset_index.seal(disk)?;
        self.time_index.seal(disk)
    }

    /// The files to fsync. Files that were never opened by this process hold nothing of it.
    pub(crate) fn opened_files(&self) -> Vec<(PathBuf, Arc<dyn File>)> {
        let log = self
            .log
            .opened()
            .map(|file| (self.log.path().to_owned(), Arc::clone(file)));
        [
            log,
            self.offset_index.opened(),
            self.time_index.opened(),
            self.txn_index.opened(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The paths of all files the segment may have, the log first: without it the others are left-overs.
    pub(crate) fn paths(&self) -> [PathBuf; 4] {
        [
            self.log.path().to_owned(),
            self.offset_index.path().to_owned(),
            self.time_index.path().to_owned(),
            self.txn_index.path().to_owned(),
        ]
    }

    /// The folder was renamed.
    pub(crate) fn set_dir(&mut self, dir: &Path) {
        self.log = self.log.moved(path_of(dir, self.base_offset, names::LOG));
        self.offset_index
            .set_path(path_of(dir, self.base_offset, names::INDEX));
        self.time_index
            .set_path(path_of(dir, self.base_offset, names::TIME_INDEX));
        self.txn_index
            .set_path(path_of(dir, self.base_offset, names::TXN_INDEX));
    }
}

/// The part of a log file that is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) base_offset: Offset,
    pub(crate) size: u32,
}

/// The batch that holds `offset`, or the first one after it, looked for from an entry of the offset index.
pub(crate) fn find_from(
    disk: &Disk,
    log: &LazyFile,
    place: Place,
    entry: Option<OffsetPosition>,
    offset: Offset,
    reading: Reading,
) -> Result<Option<BatchAt>, ScanError> {
    let Place { base_offset, size } = place;
    let position = entry.map_or(0, |entry| entry.position);
    let invalid = |reason: &str| ScanError::Invalid {
        position,
        reason: reason.to_owned(),
    };
    if position > size || (entry.is_some() && position == size) {
        return Err(invalid("the index points behind the log"));
    }
    let file = reading.open(disk, log)?;
    let mut scanner =
        HeaderScanner::new(log.path(), &**file, position, size, base_offset).reading(reading);
    let mut first = true;
    while let Some(batch) = scanner.next()? {
        if first && entry.is_some_and(|entry| entry.offset != batch.header.last_offset()) {
            return Err(invalid(
                "the index entry does not fit the batch it points to",
            ));
        }
        first = false;
        if batch.header.last_offset() >= offset {
            return Ok(Some(batch));
        }
    }
    Ok(None)
}

pub(crate) fn no_timestamp(base_offset: Offset) -> TimestampOffset {
    TimestampOffset {
        timestamp: NO_TIMESTAMP,
        offset: base_offset,
    }
}
