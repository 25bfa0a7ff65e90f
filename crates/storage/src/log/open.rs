//! Opening a log: left-overs of a crash, recovery behind the recovery point, producers and epochs that fit the rest.
//! Not here: which partitions a directory holds (log_dir.rs). Kafka's order of steps, with two differences: inside the
//! segment of the recovery point only what lies behind it is checked, and a bad batch below it is bit rot, not a torn tail.
//! One thread per log, before anybody else uses it. Repeating it after a crash in its middle gives the same result.
//! Kafka: LogLoader, LogSegment.recover, ProducerStateManager.truncateAndReload.

use super::Log;
use super::epoch_file::EpochFile;
use super::left_overs::{Listing, list};
use super::producers::replay;
use super::recovery_report::RecoveryReport;
use crate::checkpoint::{EpochStart, read_epochs};
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::error::{FailureLatch, StorageError};
use crate::leader_epoch::LeaderEpochCache;
use crate::names;
use crate::producer_state::ProducerStateManager;
use crate::scan::{HeaderScanner, ScanError};
use crate::segment::{FileLengths, Segment};
use crate::vfs::Vfs;
use kavka_common::Offset;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What is known about a log before it is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// From `recovery-point-offset-checkpoint`; 0 when it does not name the log.
    pub recovery_point: Offset,
    /// From `log-start-offset-checkpoint`; 0 when it does not name the log.
    pub log_start_offset: Offset,
    /// From `replication-offset-checkpoint`; 0 when it does not name the log. Committed: no truncation goes below it.
    pub high_watermark: Offset,
    /// The directory's clean-shutdown marker was there: nothing needs to be checked.
    pub clean_shutdown: bool,
    pub now_ms: i64,
    /// Shared by the logs of a directory; a fresh one is made for the log's parent without it.
    pub latch: Option<FailureLatch>,
}

impl OpenOptions {
    /// For a new log, or one about which no checkpoint says anything.
    pub fn new(now_ms: i64) -> Self {
        OpenOptions {
            recovery_point: 0,
            log_start_offset: 0,
            high_watermark: 0,
            clean_shutdown: false,
            now_ms,
            latch: None,
        }
    }
}

impl Log {
    /// Opens the log in `dir`, which is made when absent.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        config: LogConfig,
        options: OpenOptions,
    ) -> Result<(Log, RecoveryReport), StorageError> {
        let latch = options
            .latch
            .clone()
            .unwrap_or_else(|| FailureLatch::new(dir.parent().unwrap_or(Path::new("."))));
        let disk = Disk { vfs, latch };
        disk.latch.check()?;
        let mut report = RecoveryReport::default();
        if !disk.exists(dir)? {
            disk.vfs
                .create_dir_all(dir)
                .map_err(|error| disk.refused("make folder", dir, &error))?;
            if let Some(parent) = dir.parent() {
                disk.sync_dir(parent)?;
            }
        }
        let Listing {
            segments,
            snapshots,
        } = list(&disk, dir, &mut report)?;
        let mut log = Log {
            disk,
            dir: dir.to_owned(),
            config,
            segments: Vec::with_capacity(segments.len().max(1)),
            log_start_offset: options.log_start_offset,
            log_end_offset: 0,
            high_watermark: 0,
            recovery_point: options.recovery_point,
            producers: ProducerStateManager::default(),
            snapshots,
            unsynced_snapshots: Vec::new(),
            epochs: LeaderEpochCache::default(),
            epochs_unsynced: false,
            dir_changes: u64::from(report.left_overs_removed > 0),
            dir_changes_synced: 0,
            truncations: 0,
            announced_cut: None,
            epoch_file: EpochFile::default(),
            deletions: Vec::new(),
        };
        let tail_index_lost = log.load_segments(segments, &options, &mut report)?;
        let stored_epochs = log.load_epochs(&options, &mut report)?;
        log.recover(tail_index_lost, &options, &mut report)?;
        log.settle_start(&options)?;
        log.settle_epochs(stored_epochs)?;
        if !options.clean_shutdown && log.size_bytes() > 0 {
            // A process that was killed left these to its next flush: the first one of this process makes up for it.
            log.dir_changes += 1;
            log.epochs_unsynced = true;
        }
        log.recovery_point = options.recovery_point.clamp(0, log.log_end_offset);
        log.high_watermark = log.log_start_offset;
        assert!(log.log_start_offset <= log.log_end_offset);
        Ok((log, report))
    }

    /// Makes the segments of what was found. True: the last one's indexes are lost, and its walk is left to `recover`.
    fn load_segments(
        &mut self,
        found: BTreeMap<Offset, FileLengths>,
        options: &OpenOptions,
        report: &mut RecoveryReport,
    ) -> Result<bool, StorageError> {
        let disk = self.disk.clone();
        let bases: Vec<Offset> = found.keys().copied().collect();
        let mut tail_index_lost = false;
        for (at, (base_offset, lengths)) in found.into_iter().enumerate() {
            let (mut segment, rebuild) =
                Segment::found(&self.dir, base_offset, lengths, options.now_ms)?;
            let durable = bases
                .get(at + 1)
                .is_some_and(|next| *next <= options.recovery_point);
            if rebuild && options.clean_shutdown && at + 1 == bases.len() {
                // Its walk also tells where the log ends.
                tail_index_lost = true;
            } else if rebuild && (options.clean_shutdown || durable) {
                // An index is gone while the log was complete: the batches must all be there.
                let walked = segment
                    .rebuild(&disk, self.config.index_interval_bytes)
                    .map_err(|error| self.bit_rot(&error, base_offset, options))?;
                report.indexes_rebuilt += 1;
                report.bytes_checked += walked.bytes_read;
                // No flush will come by here again: it lies below the recovery point.
                for (path, file) in segment.opened_files() {
                    disk.sync(&path, &*file)?;
                }
                disk.sync_dir(&self.dir)?;
            } else if rebuild {
                // Recovery comes here, and starts at the segment's beginning when it finds no entry.
                segment.offset_index.reset(&disk)?;
            }
            self.segments.push(segment);
        }
        if self.segments.is_empty() {
            let start = options.log_start_offset.max(0);
            self.segments
                .push(Segment::create(&disk, &self.dir, start, options.now_ms)?);
            self.dir_changes += 1;
        }
        Ok(tail_index_lost)
    }

    /// A corrupt segment below the recovery point; other errors stay what they are.
    fn bit_rot(&self, error: &StorageError, offset: Offset, options: &OpenOptions) -> StorageError {
        match error {
            StorageError::Corrupt { path, reason } => StorageError::BitRot {
                path: path.clone(),
                position: 0,
                offset,
                recovery_point: options.recovery_point,
                reason: reason.clone(),
            },
            other => other.clone(),
        }
    }

    /// Checks what lies behind the recovery point, and brings the producers up to the log's end.
    fn recover(
        &mut self,
        tail_index_lost: bool,
        options: &OpenOptions,
        report: &mut RecoveryReport,
    ) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        let index_interval_bytes = self.config.index_interval_bytes;
        if options.clean_shutdown {
            self.log_end_offset = self.clean_end(tail_index_lost, options, report)?;
            self.check_tail(options.recovery_point)?;
            // Nothing above the end can describe this log.
            return self.reload_producers_reporting(options.now_ms, report);
        }
        // The segment of the recovery point, then everything behind it.
        let first = self.segment_at(options.recovery_point).unwrap_or(0);
        let (mut position, mut next_offset) = self.recovery_start(first, options, report)?;
        self.log_end_offset = next_offset;
        for snapshot in self.snapshots.split_off(&(next_offset + 1)) {
            // Written after the last flush: the batches it counts may be gone.
            self.disk.remove(&self.snapshot_path(snapshot))?;
            report.snapshots_removed += 1;
        }
        self.reload_producers_reporting(options.now_ms, report)?;
        let mut at = first;
        while at < self.segments.len() {
            let base_offset = self.segments[at].base_offset();
            if at > first {
                position = 0;
                if let Some(why) = self.misfit(at, next_offset) {
                    if next_offset < options.recovery_point {
                        let segment = &self.segments[at - 1];
                        return Err(StorageError::BitRot {
                            path: segment.path().to_owned(),
                            position: u64::from(segment.size()),
                            offset: next_offset,
                            recovery_point: options.recovery_point,
                            reason: why.to_owned(),
                        });
                    }
                    let left = self.segments[at..]
                        .iter()
                        .map(|segment| u64::from(segment.size()));
                    report.bytes_cut += left.sum::<u64>();
                    report.cut_reason.get_or_insert(why.to_owned());
                    self.remove_from(at, why, report)?;
                    break;
                }
                next_offset = base_offset;
                self.producers.set_end_offset(base_offset);
                self.take_snapshot()?;
            }
            let outcome = self.check_segment(at, position, next_offset)?;
            report.segments_checked += 1;
            report.bytes_checked += outcome.bytes_read;
            next_offset = outcome.next_offset;
            self.log_end_offset = next_offset;
            if let Some(reason) = outcome.invalid {
                let segment = &mut self.segments[at];
                report.bytes_cut += u64::from(segment.size() - outcome.end);
                tracing::warn!(path = %segment.path().display(), position = outcome.end, "{reason}; the log is cut here");
                segment.truncate(&disk, outcome.end, next_offset)?;
                report.cut_reason.get_or_insert(reason);
                self.remove_from(at + 1, "it lies behind an invalid batch", report)?;
                break;
            }
            at += 1;
        }
        let last = self.segments.len() - 1;
        for segment in &mut self.segments[first..last] {
            segment.seal(&disk)?;
        }
        self.log_end_offset = self
            .active()
            .activate(&disk, index_interval_bytes)?
            .max(next_offset);
        self.producers.set_end_offset(self.log_end_offset);
        report.ends_before_recovery_point = self.log_end_offset < options.recovery_point;
        // A truncation that a crash interrupted leaves a recovery point above the end, but never cuts what is committed.
        self.check_tail(options.recovery_point.min(options.high_watermark))
    }

    /// Refuses a log whose end is gone.
    fn check_tail(&self, durable_to: Offset) -> Result<(), StorageError> {
        let last = self.segments.last().expect("a log has a segment");
        if self.log_end_offset >= durable_to {
            return Ok(());
        }
        Err(StorageError::TailMissing {
            path: last.path().to_owned(),
            log_end_offset: self.log_end_offset,
            durable_to,
        })
    }

    /// Where a log ends that was closed cleanly. Bytes behind the recovery point that are no batch were never part of
    /// it and are cut; below it they are bit rot. Kafka does not start with either.
    fn clean_end(
        &mut self,
        tail_index_lost: bool,
        options: &OpenOptions,
        report: &mut RecoveryReport,
    ) -> Result<Offset, StorageError> {
        let disk = self.disk.clone();
        let index_interval_bytes = self.config.index_interval_bytes;
        let damaged = match self.active().activate(&disk, index_interval_bytes) {
            Ok(next_offset) if !tail_index_lost => return Ok(next_offset),
            Ok(_) => None,
            Err(error @ StorageError::Corrupt { .. }) => Some(error),
            Err(error) => return Err(error),
        };
        let segment = self.active();
        let base_offset = segment.base_offset();
        let walked =
            segment.recover(&disk, 0, base_offset, index_interval_bytes, &mut |_, _| {
                Ok(())
            })?;
        report.bytes_checked += walked.bytes_read;
        report.indexes_rebuilt += 1;
        if let Some(reason) = walked.invalid {
            if walked.next_offset < options.recovery_point {
                return Err(StorageError::BitRot {
                    path: segment.path().to_owned(),
                    position: u64::from(walked.end),
                    offset: walked.next_offset,
                    recovery_point: options.recovery_point,
                    reason,
                });
            }
            if options.recovery_point == 0 {
                // Nothing says how far the log was whole, and this may be its first record.
                return Err(damaged.unwrap_or_else(|| {
                    StorageError::corrupt(
                        segment.path(),
                        format!("invalid batch at position {}: {reason}", walked.end),
                    )
                }));
            }
            tracing::warn!(path = %segment.path().display(), position = walked.end, "{reason}; the log was closed before it, and is cut here");
            report.bytes_cut += u64::from(segment.size() - walked.end);
            report.cut_reason = Some(reason);
            segment.truncate(&disk, walked.end, walked.next_offset)?;
        }
        for (path, file) in segment.opened_files() {
            disk.sync(&path, &*file)?;
        }
        disk.sync_dir(&self.dir)?;
        Ok(walked.next_offset)
    }

    /// Why segment `at` does not continue one that ends at `end`. Behind the recovery point segments follow each other
    /// without a gap: compaction, which makes gaps, does not come there. A gap is a tail that never reached the disk.
    fn misfit(&self, at: usize, end: Offset) -> Option<&'static str> {
        let base_offset = self.segments[at].base_offset();
        if base_offset < end {
            return Some("its offsets overlap the segment before");
        }
        // Only an offset that the segment before cannot hold starts a segment behind a gap.
        let far = !self.segments[at - 1].takes_offset(base_offset);
        (base_offset > end && !far).then_some("the end of the segment before it is missing")
    }

    /// Where checking begins in segment `at`: the batch that holds the recovery point. Everything before was durable.
    fn recovery_start(
        &mut self,
        at: usize,
        options: &OpenOptions,
        report: &mut RecoveryReport,
    ) -> Result<(u32, Offset), StorageError> {
        let disk = self.disk.clone();
        let segment = &mut self.segments[at];
        let recovery_point = options.recovery_point;
        if recovery_point <= segment.base_offset() {
            return Ok((0, segment.base_offset()));
        }
        // Index entries behind the recovery point may be anything.
        segment.offset_index.load(&disk)?;
        segment
            .offset_index
            .truncate(&disk, |entry| entry.offset < recovery_point)?;
        let mut entry = segment.offset_index.last(&disk)?;
        let file = segment.file(&disk)?;
        let path = segment.path().to_owned();
        if let Some(last) = entry {
            let mut probe = HeaderScanner::new(
                &path,
                &*file,
                last.position.min(segment.size()),
                segment.size(),
                0,
            );
            let fits = matches!(probe.next(), Ok(Some(batch)) if batch.header.last_offset() == last.offset);
            if !fits {
                entry = None;
                report.indexes_rebuilt += 1;
            }
        }
        let from = entry.map_or(0, |entry| entry.position);
        let mut next_offset = segment.base_offset();
        let mut scanner =
            HeaderScanner::new(&path, &*file, from, segment.size(), segment.base_offset());
        let start = loop {
            let position = scanner.position();
            match scanner.next() {
                Ok(Some(batch)) if batch.header.last_offset() >= recovery_point => {
                    break (position, batch.header.base_offset.min(recovery_point));
                }
                Ok(Some(batch)) => next_offset = batch.header.next_offset(),
                Ok(None) => break (position, next_offset),
                // The batch that begins at the recovery point may be torn; one below it was whole once.
                Err(ScanError::Invalid { position, reason }) if next_offset < recovery_point => {
                    return Err(StorageError::BitRot {
                        path,
                        position: u64::from(position),
                        offset: next_offset,
                        recovery_point,
                        reason,
                    });
                }
                Err(ScanError::Invalid { .. }) => break (position, next_offset),
                Err(ScanError::Storage(error)) => return Err(error),
            }
        };
        report.bytes_walked += scanner.bytes_read;
        if entry.is_none() && start.0 > 0 {
            // The index does not reach the recovery point: build all of it.
            let outcome = self.check_segment_below(at, start, options)?;
            report.bytes_checked += outcome;
        }
        Ok(start)
    }

    /// Builds the indexes of the part of a segment that lies before `start`, where every batch must be valid.
    fn check_segment_below(
        &mut self,
        at: usize,
        start: (u32, Offset),
        options: &OpenOptions,
    ) -> Result<u64, StorageError> {
        let disk = self.disk.clone();
        let base_offset = self.segments[at].base_offset();
        let index_interval_bytes = self.config.index_interval_bytes;
        let walked = self.segments[at].recover(
            &disk,
            0,
            base_offset,
            index_interval_bytes,
            &mut |_, _| Ok(()),
        )?;
        if let Some(reason) = walked.invalid
            && walked.end < start.0
        {
            return Err(StorageError::BitRot {
                path: self.segments[at].path().to_owned(),
                position: u64::from(walked.end),
                offset: walked.next_offset,
                recovery_point: options.recovery_point,
                reason,
            });
        }
        Ok(walked.bytes_read)
    }

    /// Checks a segment from `position` on, and lets producers and epochs follow its batches.
    fn check_segment(
        &mut self,
        at: usize,
        position: u32,
        next_offset: Offset,
    ) -> Result<crate::segment::Walked, StorageError> {
        let disk = self.disk.clone();
        let index_interval_bytes = self.config.index_interval_bytes;
        let Log {
            segments,
            producers,
            epochs,
            ..
        } = self;
        let mut aborted = Vec::new();
        segments[at].txn_index_cut(&disk, next_offset)?;
        let walked = segments[at].recover(
            &disk,
            position,
            next_offset,
            index_interval_bytes,
            &mut |batch, bytes| {
                if batch.header.partition_leader_epoch.get() >= 0 {
                    epochs.assign(
                        batch.header.partition_leader_epoch,
                        batch.header.base_offset,
                    );
                }
                aborted.extend(replay(producers, batch, bytes));
                Ok(())
            },
        )?;
        for txn in aborted {
            segments[at].txn_index.append(&disk, txn)?;
        }
        Ok(walked)
    }

    fn remove_from(
        &mut self,
        at: usize,
        why: &str,
        report: &mut RecoveryReport,
    ) -> Result<(), StorageError> {
        while self.segments.len() > at {
            let segment = self.segments.pop().expect("longer than `at`");
            tracing::warn!(path = %segment.path().display(), "removed: {why}");
            for path in segment.paths() {
                self.disk.remove(&path)?;
            }
            if self.snapshots.contains(&segment.base_offset())
                && segment.base_offset() > self.log_end_offset
            {
                self.remove_snapshot(segment.base_offset())?;
            }
            report.segments_removed += 1;
            self.dir_changes += 1;
        }
        Ok(())
    }

    /// A log that ends before its start begins anew there.
    fn settle_start(&mut self, options: &OpenOptions) -> Result<(), StorageError> {
        if self.log_end_offset < options.log_start_offset {
            tracing::warn!(dir = %self.dir.display(), end = self.log_end_offset, start = options.log_start_offset, "the log ends before its start and begins anew there");
            return self.truncate_fully_and_start_at(options.log_start_offset, options.now_ms);
        }
        self.log_start_offset = options.log_start_offset.max(self.segments[0].base_offset());
        Ok(())
    }

    /// Takes the epochs of the file that recovery will not find in batches. Gives what the file said.
    fn load_epochs(
        &mut self,
        options: &OpenOptions,
        report: &mut RecoveryReport,
    ) -> Result<Vec<EpochStart>, StorageError> {
        let path = self.dir.join(names::LEADER_EPOCH_CHECKPOINT);
        let stored = match read_epochs(&*self.disk.vfs, &path) {
            Ok(Some(stored)) => stored,
            // Not there: a new log, or one from before epochs were kept. With batches in it, they tell.
            Ok(None) | Err(StorageError::Corrupt { .. }) => {
                self.rebuild_epochs(options, report)?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        self.epochs = LeaderEpochCache::from_entries(stored.iter().copied());
        if !options.clean_shutdown {
            self.epochs.truncate_from_end(options.recovery_point.max(0));
        }
        Ok(stored)
    }

    fn rebuild_epochs(
        &mut self,
        options: &OpenOptions,
        report: &mut RecoveryReport,
    ) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        self.epochs.clear();
        for at in 0..self.segments.len() {
            let segment = &mut self.segments[at];
            if segment.size() == 0 {
                continue;
            }
            report.epochs_rebuilt = true;
            let file = segment.file(&disk)?;
            let mut scanner = HeaderScanner::new(
                segment.path(),
                &*file,
                0,
                segment.size(),
                segment.base_offset(),
            );
            // An invalid batch ends the walk: recovery decides what it means.
            while let Ok(Some(batch)) = scanner.next() {
                if !options.clean_shutdown && batch.header.base_offset >= options.recovery_point {
                    break;
                }
                if batch.header.partition_leader_epoch.get() >= 0 {
                    self.epochs.assign(
                        batch.header.partition_leader_epoch,
                        batch.header.base_offset,
                    );
                }
            }
            report.bytes_walked += scanner.bytes_read;
        }
        self.epochs_unsynced = true;
        Ok(())
    }

    /// Cuts the epochs to the log, adds one that began at the log's end without a batch, and lets the file follow.
    fn settle_epochs(&mut self, stored: Vec<EpochStart>) -> Result<(), StorageError> {
        self.epochs.truncate_from_end(self.log_end_offset + 1);
        self.epochs.truncate_from_start(self.log_start_offset);
        if let Some(last) = stored.last()
            && last.start_offset == self.log_end_offset
            && self.latest_epoch().is_none_or(|latest| latest < last.epoch)
        {
            self.epochs.assign(last.epoch, last.start_offset);
        }
        if self.epochs.entries() != stored || self.epochs_unsynced {
            self.store_epochs()?;
        }
        Ok(())
    }
}
