//! Group fsync: what to make durable is collected under the owner's lock, the fsync runs outside it.
//! Not here: when to flush (the owner: `flush.messages`, `flush.ms`, acks of the metadata quorum).
//! `begin_flush` and `complete_flush` under the owner's lock, `FlushTicket::run` on a thread that may block, one ticket
//! of a log at a time.
//! Kafka: UnifiedLog.flush; KAFKA-15046 (no fsync under the log lock), KAFKA-16541 (none forgotten either).

use super::Log;
use super::epoch_file::EpochCopy;
use crate::checkpoint::{EpochStart, write_epochs};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::names;
use crate::vfs::{Durability, File, OpenMode};
use kavka_common::Offset;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What has to reach the disk for the log to be durable up to `offset`.
#[derive(Debug)]
#[must_use = "nothing is durable before `run` and `complete_flush`"]
pub struct FlushTicket {
    disk: Disk,
    dir: PathBuf,
    files: Vec<(PathBuf, Arc<dyn File>)>,
    snapshots: Vec<(Offset, PathBuf)>,
    epochs: Option<(EpochCopy, Vec<EpochStart>)>,
    sync_dir: bool,
    dir_changes: u64,
    offset: Offset,
    truncations: u64,
}

impl FlushTicket {
    /// Everything below this offset is durable after `run`.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// fsyncs. An error has latched the directory as failed.
    pub fn run(&self) -> Result<(), StorageError> {
        for (path, file) in &self.files {
            self.disk.sync(path, &**file)?;
        }
        for (_, path) in &self.snapshots {
            match self.disk.vfs.open(path, OpenMode::Write) {
                Ok(file) => self.disk.sync(path, &*file)?,
                // Removed since, with its segment or by a truncation.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(StorageError::io("open", path, error)),
            }
        }
        if let Some((copy, epochs)) = &self.epochs {
            let path = self.dir.join(names::LEADER_EPOCH_CHECKPOINT);
            let outcome =
                copy.write(|| write_epochs(&*self.disk.vfs, &path, epochs, Durability::Synced));
            self.disk.replaced(&path, outcome)?;
        }
        if self.sync_dir {
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}

impl Log {
    /// Collects what to fsync. Writes the index entries that are only in memory, up to the page cache.
    pub fn begin_flush(&mut self) -> Result<FlushTicket, StorageError> {
        self.disk.latch.check()?;
        let disk = self.disk.clone();
        let from = self.segment_at(self.recovery_point).unwrap_or(0);
        let mut files = Vec::new();
        let sync_dir = self.dir_changes_synced < self.dir_changes;
        if sync_dir || self.recovery_point < self.log_end_offset {
            for segment in &mut self.segments[from..] {
                segment.write_out(&disk, false)?;
                files.extend(segment.opened_files());
            }
        }
        let snapshots = self.unsynced_snapshots.iter();
        Ok(FlushTicket {
            disk,
            dir: self.dir.clone(),
            files,
            snapshots: snapshots
                .map(|offset| (*offset, self.snapshot_path(*offset)))
                .collect(),
            epochs: self
                .epochs_unsynced
                .then(|| (self.epoch_file.copy(), self.epochs.entries().to_vec())),
            sync_dir,
            dir_changes: self.dir_changes,
            offset: self.log_end_offset,
            truncations: self.truncations,
        })
    }

    /// Takes note of a failed `run`. Files that are not found while the folder has its name were taken from under the
    /// log: the directory has failed.
    pub fn note_failed_flush(&self, ticket: &FlushTicket, error: &StorageError) {
        if ticket.dir == self.dir {
            let _ = self.disk.lost(error.clone());
        }
    }

    /// Takes note of a successful `run`: advances the recovery point.
    pub fn complete_flush(&mut self, ticket: FlushTicket) {
        if ticket.truncations == self.truncations {
            self.recovery_point = self.recovery_point.max(ticket.offset);
        }
        assert!(self.recovery_point <= self.log_end_offset);
        self.unsynced_snapshots.retain(|unsynced| {
            ticket
                .snapshots
                .iter()
                .all(|(synced, _)| synced != unsynced)
        });
        if ticket
            .epochs
            .is_some_and(|(copy, _)| self.epoch_file.is_current(&copy))
        {
            self.epochs_unsynced = false;
        }
        self.dir_changes_synced = self.dir_changes_synced.max(ticket.dir_changes);
    }
}

#[cfg(test)]
#[path = "flush_test.rs"]
mod flush_test;
