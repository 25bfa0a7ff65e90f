//! Opening the metadata log: what the files hold is checked against what was durable when they were last written.
//! Not here: reading and writing afterwards. The storage checks what lies behind the recovery point and cuts a torn tail
//! there; what lies below it was durable, so a batch that is damaged or missing there is refused, not cut: the quorum may
//! have agreed on it. Runs once, before the engine. Kafka: KafkaMetadataLog.apply, which checks and cuts everything.

use super::{
    EntryMeta, IndexFile, Inner, MetadataLog, MetadataLogError, RecoveryPointFile,
    RecoveryPointState,
};
use crate::quorum::entry_codec::decode_control;
use crate::quorum::types::{Membership, RaftLogIdOf, term};
use kavka_common::{Clock, Offset};
use kavka_records::batches;
use kavka_storage::vfs::Vfs;
use kavka_storage::{Log, LogConfig, OpenOptions, StorageError};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

impl MetadataLog {
    /// Opens the folder, or makes it. `snapshot` is the latest one: its last entry and its end. Gives the last
    /// membership that the log holds.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        config: LogConfig,
        clock: Arc<dyn Clock>,
        snapshot: Option<(RaftLogIdOf, Offset)>,
    ) -> Result<(Self, Option<Membership>), MetadataLogError> {
        let index_file = IndexFile::new(Arc::clone(&vfs), dir);
        let anchor = index_file.read()?;
        let recovery_point_file = RecoveryPointFile::new(Arc::clone(&vfs), dir);
        let point = recovery_point_file.read()?;
        let damaged = |reason: String| MetadataLogError::Damaged {
            dir: dir.display().to_string(),
            reason,
            point,
        };
        let opened = Log::open(
            Arc::clone(&vfs),
            dir,
            config,
            OpenOptions {
                log_start_offset: anchor.map_or(0, |anchor| anchor.base_offset),
                recovery_point: point.offset,
                ..OpenOptions::new(clock.wall_ms())
            },
        );
        let (log, report) = opened.map_err(|error| match error {
            StorageError::BitRot { .. } => damaged(error.to_string()),
            other => other.into(),
        })?;
        let metadata_log = MetadataLog {
            dir: dir.to_owned(),
            clock,
            index_file,
            recovery_point: Mutex::new(RecoveryPointState {
                file: recovery_point_file,
                written: point,
                bytes_since: 0,
            }),
            inner: Mutex::new(Inner {
                log,
                entries: BTreeMap::new(),
                purged: anchor.and_then(|anchor| anchor.purged),
            }),
        };
        let (log_start_offset, log_end_offset) = metadata_log.offsets();
        let covered = snapshot.map_or(0, |(_, end_offset)| end_offset);
        if report.ends_before_recovery_point && covered < point.offset {
            return Err(damaged(format!(
                "the log in {} ends at offset {log_end_offset}",
                dir.display()
            )));
        }
        if let Some((last, end_offset)) = snapshot
            && log_end_offset < end_offset
        {
            // The snapshot came from the leader and the crash came before the log was cut to it.
            metadata_log.reset(last, end_offset)?;
            return Ok((metadata_log, None));
        }
        if log_start_offset > covered {
            // KAFKA-14240: records between the snapshot and the log would be missing.
            return Err(StorageError::corrupt(
                dir,
                format!(
                    "the log starts at offset {log_start_offset} and no snapshot covers what came before; restore the .checkpoint file or rebuild this node"
                ),
            )
            .into());
        }
        let first_index = match anchor {
            Some(anchor) => anchor.index,
            // A log that Kafka wrote and cut: any number will do, as long as it stays the same.
            None => u64::try_from(log_start_offset).unwrap_or(0),
        };
        let membership = metadata_log
            .scan(first_index, log_start_offset, log_end_offset)
            .map_err(|error| match error {
                // Behind the recovery point the storage has checked every batch a moment ago.
                MetadataLogError::Codec { .. } | MetadataLogError::Unreadable(_) => {
                    damaged(error.to_string())
                }
                other => other,
            })?;
        let found = metadata_log.inner.lock().point_at(point.offset);
        let same_log = log_start_offset >= point.offset || found.epoch == point.epoch;
        if !same_log {
            return Err(damaged(format!(
                "the log in {} holds a batch of epoch {} before offset {}",
                dir.display(),
                found.epoch,
                point.offset
            )));
        }
        if log_start_offset < log_end_offset {
            // What a killed process wrote is still in the page cache only; from here on the engine answers for it.
            metadata_log.flush()?;
        }
        Ok((metadata_log, membership))
    }

    /// Finds the batches behind the log start, and checks each.
    fn scan(
        &self,
        first_index: u64,
        log_start_offset: Offset,
        log_end_offset: Offset,
    ) -> Result<Option<Membership>, MetadataLogError> {
        let mut membership = None;
        let mut entries = BTreeMap::new();
        let mut index = first_index;
        let mut offset = log_start_offset;
        while offset < log_end_offset {
            let chunk = self.read_chunk(offset, log_end_offset)?;
            for batch in batches(&chunk) {
                let at = offset;
                let codec = |source| MetadataLogError::Codec {
                    dir: self.dir.display().to_string(),
                    offset: at,
                    source,
                };
                let batch = batch.map_err(|error| codec(error.into()))?;
                batch.verify_crc().map_err(|error| codec(error.into()))?;
                let header = *batch.header();
                if header.is_control() {
                    let voters = decode_control(&batch).map_err(codec)?.voters;
                    membership = voters.map(|tag| tag.membership).or(membership);
                }
                entries.insert(
                    index,
                    EntryMeta {
                        term: term(header.partition_leader_epoch),
                        base_offset: header.base_offset,
                        last_offset: header.last_offset(),
                    },
                );
                index += 1;
                offset = header.next_offset();
            }
        }
        self.inner.lock().entries = entries;
        Ok(membership)
    }
}
