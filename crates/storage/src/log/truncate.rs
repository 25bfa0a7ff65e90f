//! Cutting the log's end: a follower that diverged, a quorum member whose entries were not agreed.
//! Not here: to which offset (crates/replication, the quorum).
//! Under the owner's lock, and durable on return: the one place that fsyncs there. An old tail that came back after a
//! power loss would pass for agreed records. Kafka: UnifiedLog.{truncateTo, truncateFullyAndStartAt}; KIP-101.

use super::Log;
use crate::error::StorageError;
use crate::segment::Segment;
use kavka_common::Offset;

/// Truncated files hold nothing that anybody may want back.
const AT_ONCE: i64 = i64::MIN;

impl Log {
    /// Cuts everything from `offset` on. True when the log was longer. The owner writes the directory's
    /// `recovery-point-offset-checkpoint` before it appends again: a recovery point above the cut would let recovery
    /// trust what it should check.
    pub fn truncate_to(&mut self, offset: Offset, now_ms: i64) -> Result<bool, StorageError> {
        assert!(offset >= 0);
        if offset >= self.log_end_offset {
            // KAFKA-9633: epochs above the end go even when the log is shorter already.
            if self.epochs.truncate_from_end(offset) {
                self.store_epochs()?;
            }
            return Ok(false);
        }
        if offset < self.log_start_offset || offset < self.segments[0].base_offset() {
            self.truncate_fully_and_start_at(offset, now_ms)?;
            return Ok(true);
        }
        self.truncations += 1;
        let disk = self.disk.clone();
        let at = self
            .segment_at(offset)
            .expect("checked against the first segment");
        let cut = self.segments[at].find(&disk, offset, self.config.index_interval_bytes)?;
        let position = cut.map_or_else(|| self.segments[at].size(), |batch| batch.position);
        // Where there are no descriptors left this fails before anything has changed.
        disk.sync_dir(&self.dir)?;
        if let Err(error) = self.cut_segment(at, position, offset, now_ms) {
            return Err(self.half_done("truncate", &error));
        }
        self.store_epochs()?;
        Ok(true)
    }

    /// Removes the segments behind that one, and cuts it.
    fn cut_segment(
        &mut self,
        at: usize,
        position: u32,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        while self.segments.len() > at + 1 {
            let segment = self.segments.pop().expect("longer than one");
            self.remove_segment(&segment, AT_ONCE)?;
        }
        // A later segment that came back behind a shortened one would be a hole below the recovery point.
        disk.sync_dir(&self.dir)?;
        self.active().truncate(&disk, position, offset)?;
        self.log_end_offset = offset;
        self.recovery_point = self.recovery_point.min(offset);
        self.high_watermark = self.high_watermark.min(offset);
        self.epochs.truncate_from_end(offset);
        self.reload_producers(now_ms)?;
        for (path, file) in self.active().opened_files() {
            disk.sync(&path, &*file)?;
        }
        disk.sync_dir(&self.dir)?;
        self.dir_changes_synced = self.dir_changes;
        Ok(())
    }

    /// Neither the old log nor the new one is whole.
    fn half_done(&self, action: &'static str, error: &StorageError) -> StorageError {
        let reason = std::io::Error::other(error.to_string());
        self.disk.latch.fail(action, &self.dir, &reason)
    }

    /// Drops everything and goes on at `offset`: a follower whose whole log lies outside its leader's.
    pub fn truncate_fully_and_start_at(
        &mut self,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        self.truncations += 1;
        let disk = self.disk.clone();
        // Where there are no descriptors left this fails before anything has changed.
        disk.sync_dir(&self.dir)?;
        if let Err(error) = self.replace_segments(offset, now_ms) {
            return Err(self.half_done("replace the segments of", &error));
        }
        self.log_start_offset = offset;
        self.log_end_offset = offset;
        self.high_watermark = offset;
        self.recovery_point = offset;
        self.producers = crate::producer_state::ProducerStateManager::new(offset);
        self.epochs.clear();
        disk.sync_dir(&self.dir)
            .map_err(|error| self.half_done("replace the segments of", &error))?;
        self.dir_changes_synced = self.dir_changes;
        self.store_epochs()
    }

    fn replace_segments(&mut self, offset: Offset, now_ms: i64) -> Result<(), StorageError> {
        let old = std::mem::take(&mut self.segments);
        let outcome = (|| {
            // From the end: what a crash leaves is a prefix.
            for segment in old.iter().rev() {
                self.remove_segment(segment, AT_ONCE)?;
            }
            for snapshot in self.snapshots.clone() {
                self.remove_snapshot(snapshot)?;
            }
            Segment::create(&self.disk, &self.dir, offset, now_ms)
        })();
        match outcome {
            Ok(segment) => self.segments.push(segment),
            Err(error) => {
                self.segments = old;
                return Err(error);
            }
        }
        Ok(())
    }
}
