//! One partition's log: its segments, offsets, producers and leader epochs.
//! Not here: appends, reads, truncation, retention, flush and opening, each in its file under log/; replication decisions.
//! No lock inside: the owner locks, and runs fsync (`FlushTicket`) and removals (`FileDeletions`) outside its lock.
//! Kafka: UnifiedLog, LocalLog, LogSegments.

use crate::checkpoint::write_epochs;
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::error::{FailureLatch, StorageError};
use crate::leader_epoch::LeaderEpochCache;
use crate::names;
use crate::producer_state::{ProducerEntry, ProducerStateManager, write_snapshot};
use crate::segment::Segment;
use crate::vfs::{Durability, Vfs};
use kavka_common::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod append;
mod epoch_file;
mod flush;
mod left_overs;
mod lookup;
mod open;
mod producers;
mod read;
mod recovery_report;
mod retention;
mod truncate;

use epoch_file::EpochFile;

pub use append::{AppendError, AppendInfo};
pub use flush::FlushTicket;
pub use lookup::{LookupError, PlannedRead, ReadLookup, TimestampLookup};
pub use open::OpenOptions;
pub use read::{OffsetOutOfRange, ReadError, ReadResult, TimestampedOffset};
pub use recovery_report::RecoveryReport;
pub use retention::FileDeletions;

/// One partition's log.
#[derive(Debug)]
pub struct Log {
    disk: Disk,
    dir: PathBuf,
    config: LogConfig,
    /// In order of base offsets, never empty; the last one is written to.
    segments: Vec<Segment>,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
    recovery_point: Offset,
    producers: ProducerStateManager,
    /// Offsets of the producer snapshots in the folder.
    snapshots: BTreeSet<Offset>,
    /// Snapshots that no fsync has reached.
    unsynced_snapshots: Vec<Offset>,
    epochs: LeaderEpochCache,
    /// The epoch file in the folder is not durable as it stands in memory.
    epochs_unsynced: bool,
    epoch_file: EpochFile,
    /// Counts what was made, renamed or removed in the folder, and how much of that an fsync has covered.
    dir_changes: u64,
    dir_changes_synced: u64,
    /// Counts truncations: a flush that began before one says nothing about what was appended after it.
    truncations: u64,
    /// Where a truncation that is about to be made will cut.
    announced_cut: Option<Offset>,
    /// What is renamed to `.deleted`, and when it may go.
    deletions: Vec<(i64, Vec<PathBuf>)>,
}

impl Log {
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Takes effect with the next append, roll or retention run.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// The latch of the log's directory.
    pub fn failure_latch(&self) -> &FailureLatch {
        &self.disk.latch
    }

    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.disk.vfs
    }

    pub fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    pub fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Everything below survives a power loss.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// Offsets that only the page cache holds.
    pub fn unflushed_records(&self) -> i64 {
        self.log_end_offset - self.recovery_point
    }

    pub fn size_bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| u64::from(segment.size()))
            .sum()
    }

    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    pub fn segment_base_offsets(&self) -> impl Iterator<Item = Offset> {
        self.segments.iter().map(Segment::base_offset)
    }

    /// Moves the high watermark, kept between the log's start and end. Gives the value taken.
    pub fn update_high_watermark(&mut self, high_watermark: Offset) -> Offset {
        self.high_watermark = high_watermark.clamp(self.log_start_offset, self.log_end_offset);
        self.producers.on_high_watermark(self.high_watermark);
        self.high_watermark
    }

    /// First offset that a read_committed consumer does not see: of the first undecided transaction, or the high
    /// watermark.
    pub fn last_stable_offset(&self) -> Offset {
        match self.producers.first_unstable_offset() {
            Some(offset) => offset.clamp(self.log_start_offset, self.high_watermark),
            None => self.high_watermark,
        }
    }

    /// The producers with their state, for DescribeProducers.
    pub fn active_producers(&mut self, now_ms: i64) -> Vec<ProducerEntry> {
        self.remove_expired_producers(now_ms);
        self.producers.producers().copied().collect()
    }

    /// Forgets producers after `producer.id.expiration.ms` of silence.
    pub fn remove_expired_producers(&mut self, now_ms: i64) {
        self.producers
            .remove_expired(now_ms, self.config.producer_id_expiration_ms);
    }

    pub fn producer_state(&self) -> &ProducerStateManager {
        &self.producers
    }

    pub fn has_ongoing_transaction(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
    ) -> bool {
        self.producers
            .has_ongoing_transaction(producer_id, producer_epoch)
    }

    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.latest().map(|entry| entry.epoch)
    }

    pub fn leader_epochs(&self) -> &LeaderEpochCache {
        &self.epochs
    }

    /// The largest epoch not above `epoch`, and where it ends (KIP-279).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.epochs.end_offset_for(epoch, self.log_end_offset)
    }

    /// Notes that `epoch` starts at `offset`: at once when this replica becomes leader, even before an append.
    pub fn assign_epoch_start(
        &mut self,
        epoch: LeaderEpoch,
        offset: Offset,
    ) -> Result<(), StorageError> {
        if self.epochs.assign(epoch, offset) {
            self.store_epochs()?;
        }
        Ok(())
    }

    /// Lets the epoch file follow, up to the page cache; the next flush makes it durable. Recovery reads the epochs of
    /// all batches after the recovery point again, so a loss costs no more than the start of an epoch without batches.
    fn store_epochs(&mut self) -> Result<(), StorageError> {
        self.epochs_unsynced = true;
        let path = self.dir.join(names::LEADER_EPOCH_CHECKPOINT);
        let (vfs, entries) = (&*self.disk.vfs, self.epochs.entries());
        let outcome = self
            .epoch_file
            .write(|| write_epochs(vfs, &path, entries, Durability::PageCache));
        self.disk
            .replaced(&path, outcome)
            .map_err(|error| self.disk.lost(error))
    }

    fn active(&mut self) -> &mut Segment {
        self.segments
            .last_mut()
            .expect("a log has at least one segment")
    }

    /// The segment that would hold `offset`.
    fn segment_at(&self, offset: Offset) -> Option<usize> {
        self.segments
            .partition_point(|segment| segment.base_offset() <= offset)
            .checked_sub(1)
    }

    /// Where the segment's offsets end.
    fn segment_end(&self, at: usize) -> Offset {
        match self.segments.get(at + 1) {
            Some(next) => next.base_offset(),
            None => self.log_end_offset,
        }
    }

    /// Starts a new segment at the log's end. Nothing happens when the active one is empty.
    pub fn roll(&mut self, now_ms: i64) -> Result<(), StorageError> {
        self.roll_at(self.log_end_offset, now_ms)
    }

    fn roll_at(&mut self, base_offset: Offset, now_ms: i64) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        self.try_roll_at(base_offset, now_ms)
            .map_err(|error| disk.lost(error))
    }

    fn try_roll_at(&mut self, base_offset: Offset, now_ms: i64) -> Result<(), StorageError> {
        assert!(base_offset >= self.log_end_offset);
        if self.active().base_offset() == base_offset {
            assert_eq!(self.active().size(), 0);
            return Ok(());
        }
        let disk = self.disk.clone();
        // All that can fail comes before anything changes in memory.
        self.active().write_out(&disk, true)?;
        self.producers.set_end_offset(base_offset);
        self.take_snapshot()?;
        let segment = Segment::create(&disk, &self.dir, base_offset, now_ms)?;
        self.active().seal(&disk)?;
        self.segments.push(segment);
        self.dir_changes += 1;
        // The gap that a follower may skip belongs to no batch.
        self.log_end_offset = base_offset;
        Ok(())
    }

    /// Writes the producers as they are at `end_offset`, unless that is on disk.
    fn take_snapshot(&mut self) -> Result<(), StorageError> {
        let offset = self.producers.end_offset();
        if self.snapshots.contains(&offset) {
            return Ok(());
        }
        let path = self.snapshot_path(offset);
        write_snapshot(&self.disk, &path, &self.producers)?;
        self.snapshots.insert(offset);
        self.unsynced_snapshots.push(offset);
        self.dir_changes += 1;
        Ok(())
    }

    fn snapshot_path(&self, offset: Offset) -> PathBuf {
        self.dir
            .join(names::offset_file(offset, names::PRODUCER_SNAPSHOT))
    }

    fn remove_snapshot(&mut self, offset: Offset) -> Result<(), StorageError> {
        self.snapshots.remove(&offset);
        self.unsynced_snapshots
            .retain(|unsynced| *unsynced != offset);
        self.disk.remove(&self.snapshot_path(offset))
    }

    /// Renames the log's folder, to delete it or to let a copy take its place; readers keep their open files.
    pub fn rename_dir(&mut self, name: &str) -> Result<(), StorageError> {
        let parent = self.dir.parent().unwrap_or(Path::new("."));
        let dir = parent.join(name);
        // a flush that is under way knows the old name, which may soon be another log's
        self.epoch_file = EpochFile::default();
        self.disk.rename(&self.dir, &dir)?;
        self.disk.sync_renamed(parent)?;
        self.dir = dir;
        for segment in &mut self.segments {
            segment.set_dir(&self.dir);
        }
        self.deletions.clear();
        Ok(())
    }

    /// Makes everything durable and leaves the files as Kafka does on a clean stop. Blocks on fsync: not for the
    /// lock of a log that is in use.
    pub fn close(mut self) -> Result<CheckpointOffsets, StorageError> {
        self.announced_cut = None;
        let disk = self.disk.clone();
        self.active().write_out(&disk, true)?;
        self.producers.set_end_offset(self.log_end_offset);
        self.take_snapshot()?;
        let ticket = self.begin_flush()?;
        ticket.run()?;
        self.complete_flush(ticket);
        Ok(self.checkpoint_offsets())
    }

    /// From now on `checkpoint_offsets` promises nothing from `offset` on, whatever is flushed meanwhile; until a
    /// truncation has been made, or `None` says that there will be none.
    pub fn announce_cut(&mut self, offset: Option<Offset>) {
        self.announced_cut = offset;
    }

    /// What the directory's checkpoints should say about the log as it is now.
    pub fn checkpoint_offsets(&self) -> CheckpointOffsets {
        let limit = self.announced_cut.unwrap_or(Offset::MAX);
        CheckpointOffsets {
            recovery_point: self.recovery_point.min(limit),
            log_start_offset: self.log_start_offset.min(limit),
            high_watermark: self.high_watermark,
        }
    }
}

/// What the directory's checkpoints say about a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointOffsets {
    pub recovery_point: Offset,
    pub log_start_offset: Offset,
    pub high_watermark: Offset,
}

#[cfg(test)]
#[path = "log/log_test.rs"]
mod tests;

#[cfg(test)]
#[path = "log/crash_test.rs"]
mod crash_tests;

#[cfg(test)]
#[path = "log/damage_test.rs"]
mod damage_tests;
