//! Which segments may go: by age, by size, below the log's start. Whole segments, the oldest first, only such as lie
//! below the high watermark. Not here: compaction; when retention runs (the owner's schedule).
//! Under the owner's lock: files are only renamed to `.deleted`. `FileDeletions::run` removes them on a blocking thread.
//! Kafka: UnifiedLog.{deleteOldSegments, maybeIncrementLogStartOffset}; KIP-107.

use super::{Log, OffsetOutOfRange, ReadError};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::names;
use crate::segment::Segment;
use kavka_common::Offset;
use std::path::PathBuf;

/// Files that are due to be removed.
#[derive(Debug)]
#[must_use = "the files stay until `run`"]
pub struct FileDeletions {
    disk: Disk,
    paths: Vec<PathBuf>,
}

impl FileDeletions {
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub fn run(&self) -> Result<(), StorageError> {
        for path in &self.paths {
            self.disk.remove(path)?;
        }
        Ok(())
    }
}

impl Log {
    /// Drops segments that retention no longer keeps. Gives their base offsets.
    pub fn delete_old_segments(
        &mut self,
        now_ms: i64,
        high_watermark: Offset,
    ) -> Result<Vec<Offset>, StorageError> {
        let high_watermark = high_watermark.min(self.log_end_offset);
        let mut deleted = self.delete_while(now_ms, high_watermark, |log, at| {
            Ok(log.segment_end(at) <= log.log_start_offset && at + 1 < log.segments.len())
        })?;
        if !self.config.cleanup_delete {
            return Ok(deleted);
        }
        let retention_ms = self.config.retention_ms;
        if retention_ms >= 0 {
            deleted.extend(self.delete_while(now_ms, high_watermark, |log, at| {
                Ok(now_ms.saturating_sub(log.segment_age_from(at)?) > retention_ms)
            })?);
        }
        if let Ok(retention_bytes) = u64::try_from(self.config.retention_bytes) {
            let mut excess = self.size_bytes().saturating_sub(retention_bytes);
            deleted.extend(self.delete_while(now_ms, high_watermark, |log, at| {
                let size = u64::from(log.segments[at].size());
                let breached = excess > 0 && excess >= size;
                excess = excess.saturating_sub(size);
                Ok(breached)
            })?);
        }
        Ok(deleted)
    }

    /// The time a segment is as old as: its greatest timestamp, or the last change of its file.
    fn segment_age_from(&mut self, at: usize) -> Result<i64, StorageError> {
        let segment = &mut self.segments[at];
        let max_timestamp = segment.max_timestamp(&self.disk)?.timestamp;
        if max_timestamp >= 0 {
            return Ok(max_timestamp);
        }
        let modified = self
            .disk
            .vfs
            .modified_ms(segment.path())
            .map_err(|error| StorageError::io("stat", segment.path(), error))?;
        Ok(modified.unwrap_or(segment.created_ms()))
    }

    /// Deletes from the oldest segment on while `breached` holds and the segment lies below the high watermark.
    fn delete_while(
        &mut self,
        now_ms: i64,
        high_watermark: Offset,
        mut breached: impl FnMut(&mut Log, usize) -> Result<bool, StorageError>,
    ) -> Result<Vec<Offset>, StorageError> {
        let mut count = 0;
        while count < self.segments.len() {
            let last = count + 1 == self.segments.len();
            let empty = self.segments[count].size() == 0;
            if self.segment_end(count) > high_watermark
                || (last && empty)
                || !breached(self, count)?
            {
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        if count == self.segments.len() {
            // A log always has a segment to append to.
            self.roll(now_ms)?;
        }
        let doomed: Vec<Segment> = self.segments.drain(..count).collect();
        let bases = doomed.iter().map(Segment::base_offset).collect();
        self.advance_log_start(self.segments[0].base_offset())?;
        let due_ms = now_ms.saturating_add(self.config.file_delete_delay_ms);
        for segment in doomed {
            self.remove_segment(&segment, due_ms)?;
        }
        Ok(bases)
    }

    /// Renames the files of a segment that is no longer in the list, and its producer snapshot.
    pub(super) fn remove_segment(
        &mut self,
        segment: &Segment,
        due_ms: i64,
    ) -> Result<(), StorageError> {
        let mut paths = segment.paths().to_vec();
        if self.snapshots.remove(&segment.base_offset()) {
            self.unsynced_snapshots
                .retain(|offset| *offset != segment.base_offset());
            paths.push(self.snapshot_path(segment.base_offset()));
        }
        let mut renamed = Vec::with_capacity(paths.len());
        for path in paths {
            if !self.disk.exists(&path)? {
                continue;
            }
            let mut target = path.as_os_str().to_owned();
            target.push(names::DELETED);
            let target = PathBuf::from(target);
            self.disk.rename(&path, &target)?;
            renamed.push(target);
        }
        self.dir_changes += 1;
        self.deletions.push((due_ms, renamed));
        Ok(())
    }

    /// The files whose delay is over; run the removal outside the owner's lock.
    pub fn due_deletions(&mut self, now_ms: i64) -> FileDeletions {
        let mut paths = Vec::new();
        self.deletions.retain_mut(|(due_ms, files)| {
            let due = *due_ms <= now_ms;
            if due {
                paths.append(files);
            }
            !due
        });
        FileDeletions {
            disk: self.disk.clone(),
            paths,
        }
    }

    /// When the next deletion is due.
    pub fn next_deletion_ms(&self) -> Option<i64> {
        self.deletions.iter().map(|(due_ms, _)| *due_ms).min()
    }

    /// Moves the log's start up, to at most the high watermark: DeleteRecords, or a follower after its leader. True when
    /// it moved. The owner writes the directory's `log-start-offset-checkpoint`.
    pub fn increment_log_start_offset(
        &mut self,
        log_start_offset: Offset,
    ) -> Result<bool, ReadError> {
        if log_start_offset > self.high_watermark {
            return Err(OffsetOutOfRange {
                fetch_offset: log_start_offset,
                log_start_offset: self.log_start_offset,
                log_end_offset: self.high_watermark,
            }
            .into());
        }
        if log_start_offset <= self.log_start_offset {
            return Ok(false);
        }
        self.advance_log_start(log_start_offset)?;
        Ok(true)
    }

    pub(super) fn advance_log_start(
        &mut self,
        log_start_offset: Offset,
    ) -> Result<(), StorageError> {
        if log_start_offset <= self.log_start_offset {
            return Ok(());
        }
        self.log_start_offset = log_start_offset;
        self.high_watermark = self.high_watermark.max(log_start_offset);
        assert!(self.high_watermark <= self.log_end_offset);
        self.producers.on_log_start(log_start_offset);
        if self.epochs.truncate_from_start(log_start_offset) {
            self.store_epochs()?;
        }
        Ok(())
    }
}
