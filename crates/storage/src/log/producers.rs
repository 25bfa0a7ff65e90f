//! Bringing the producers to the log's end: from a snapshot, then by the batches behind it.
//! Not here: what a batch changes (producer_state.rs); when it is done (open.rs, truncate.rs).
//! Under the owner's lock, or before there is an owner. Only headers are read, and control batches.
//! Kafka: ProducerStateManager.truncateAndReload, UnifiedLog.rebuildProducerState.

use super::{Log, RecoveryReport};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::producer_state::{
    AppendOrigin, Pending, ProducerStateManager, end_txn_marker, read_snapshot,
};
use crate::scan::{BatchAt, HeaderScanner, ScanError};
use kavka_records::RecordBatch;
use std::path::Path;

impl Log {
    /// Brings the producers to the log's end, from the newest snapshot that is not above it.
    pub(super) fn reload_producers(&mut self, now_ms: i64) -> Result<(), StorageError> {
        self.reload_producers_reporting(now_ms, &mut RecoveryReport::default())
    }

    pub(super) fn reload_producers_reporting(
        &mut self,
        now_ms: i64,
        report: &mut RecoveryReport,
    ) -> Result<(), StorageError> {
        for snapshot in self.snapshots.split_off(&(self.log_end_offset + 1)) {
            self.unsynced_snapshots.retain(|offset| *offset != snapshot);
            self.disk.remove(&self.snapshot_path(snapshot))?;
            report.snapshots_removed += 1;
        }
        let start = self.segments[0].base_offset();
        self.producers = ProducerStateManager::new(start);
        while let Some(&offset) = self.snapshots.last() {
            if offset < start {
                break;
            }
            match read_snapshot(&self.disk, &self.snapshot_path(offset)) {
                Ok(entries) => {
                    self.producers = ProducerStateManager::from_snapshot(
                        entries,
                        offset,
                        now_ms,
                        self.config.producer_id_expiration_ms,
                    );
                    break;
                }
                Err(StorageError::Corrupt { path, reason }) => {
                    tracing::warn!(path = %path.display(), "producer snapshot removed: {reason}");
                    self.remove_snapshot(offset)?;
                    report.snapshots_removed += 1;
                }
                Err(error) => return Err(error),
            }
        }
        self.replay_producers(report)?;
        self.producers
            .remove_expired(now_ms, self.config.producer_id_expiration_ms);
        Ok(())
    }

    /// Walks the headers from where the producers stand to the log's end.
    fn replay_producers(&mut self, report: &mut RecoveryReport) -> Result<(), StorageError> {
        let disk = self.disk.clone();
        let from = self.producers.end_offset();
        let index_interval_bytes = self.config.index_interval_bytes;
        let first = self.segment_at(from).unwrap_or(0);
        for at in first..self.segments.len() {
            if from >= self.log_end_offset || self.segments[at].base_offset() >= self.log_end_offset
            {
                break;
            }
            let segment = &mut self.segments[at];
            let start = if from <= segment.base_offset() {
                0
            } else {
                match segment.find(&disk, from, index_interval_bytes)? {
                    Some(batch) => batch.position,
                    None => continue,
                }
            };
            let file = segment.file(&disk)?;
            let path = segment.path();
            let mut scanner =
                HeaderScanner::new(path, &*file, start, segment.size(), segment.base_offset());
            // What lies behind the log's end may be torn, and is not looked at.
            while self.producers.end_offset() < self.log_end_offset {
                let batch = match scanner.next() {
                    Ok(Some(batch)) => batch,
                    Ok(None) => break,
                    Err(ScanError::Invalid { position, reason }) => {
                        return Err(StorageError::BitRot {
                            path: path.to_owned(),
                            position: u64::from(position),
                            offset: self.producers.end_offset(),
                            recovery_point: self.log_end_offset,
                            reason,
                        });
                    }
                    Err(ScanError::Storage(error)) => return Err(error),
                };
                if batch.header.has_producer_id() {
                    let bytes = read_control(&disk, path, &*file, &batch)?;
                    replay_header(&mut self.producers, &batch, bytes.as_deref());
                }
                self.producers.set_end_offset(batch.header.next_offset());
            }
            report.bytes_walked += scanner.bytes_read;
        }
        self.producers
            .set_end_offset(self.log_end_offset.max(self.producers.end_offset()));
        Ok(())
    }
}

/// The bytes of a control batch, which tell how a transaction ended.
fn read_control(
    disk: &Disk,
    path: &Path,
    file: &dyn crate::vfs::File,
    batch: &BatchAt,
) -> Result<Option<Vec<u8>>, StorageError> {
    if !batch.header.is_control() {
        return Ok(None);
    }
    let mut bytes = vec![0; batch.header.size_bytes()];
    disk.read_exact_at(path, file, &mut bytes, u64::from(batch.position))?;
    Ok(Some(bytes))
}

/// Lets the producers follow a batch of which only control batches need their bytes.
fn replay_header(producers: &mut ProducerStateManager, batch: &BatchAt, control: Option<&[u8]>) {
    let marker = control
        .and_then(|bytes| RecordBatch::parse(bytes).ok())
        .and_then(|control| end_txn_marker(&control).ok().flatten());
    let mut pending = Pending::default();
    producers
        .check(
            &mut pending,
            &batch.header,
            marker,
            AppendOrigin::Replication,
        )
        .expect("replication refuses nothing");
    producers.apply(pending, batch.header.next_offset());
}

/// Lets the producers follow a batch; gives the transactions that it aborts.
pub(super) fn replay(
    producers: &mut ProducerStateManager,
    batch: &BatchAt,
    bytes: &RecordBatch<'_>,
) -> Vec<crate::txn_index::AbortedTxn> {
    let mut pending = Pending::default();
    if batch.header.has_producer_id() {
        let marker = end_txn_marker(bytes).ok().flatten();
        producers
            .check(
                &mut pending,
                &batch.header,
                marker,
                AppendOrigin::Replication,
            )
            .expect("replication refuses nothing");
    }
    producers.apply(pending, batch.header.next_offset())
}
