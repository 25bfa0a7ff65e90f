//! The log of `__cluster_metadata-0` with the raft index of each of its batches.
//! Not here: what the engine wants of it (log_store.rs), snapshots (snapshot_file.rs), who may read it (observers.rs).
//! One mutex, never held across an await, nor while fsyncing except to cut the log; the engine's task writes, anyone reads.
//! Kafka: kafka.raft.KafkaMetadataLog (org.apache.kafka.raft.internals in 4.x); KIP-595, KIP-630.

use super::entry_codec::{CodecError, decode_entry, encode_entry, encode_no_op, log_id};
use super::index_file::{IndexAnchor, IndexFile};
use super::recovery_point_file::{RecoveryPoint, RecoveryPointFile};
use super::types::{Entry, Membership, RaftLogIdOf, RaftNodeId, leader_epoch};
use bytes::{Bytes, BytesMut};
use kavka_common::{Clock, FileRegion, LeaderEpoch, Offset};
use kavka_records::{BatchError, RecordBatch, batches, patch_header};
use kavka_storage::{FlushTicket, Log, ReadError, StorageError};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod open;

/// How much is read at once while the log is scanned or copied out.
const READ_CHUNK_BYTES: usize = 1 << 20;
/// The recovery point is written when so much more is durable: what lies behind it is checked at the next start, and
/// after a crash is cut at the first batch that is not whole.
const RECOVERY_POINT_INTERVAL_BYTES: u64 = 1 << 16;

/// The metadata log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MetadataLogError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{dir}: batch at offset {offset}: {source}")]
    Codec {
        dir: String,
        offset: Offset,
        source: CodecError,
    },
    #[error(
        "entry {index} belongs at offset {expected}, but its batch says {found}: the logs of this quorum differ"
    )]
    Diverged {
        index: u64,
        expected: Offset,
        found: Offset,
    },
    #[error("the metadata log is not readable at offset {0}")]
    Unreadable(Offset),
    /// Records that were durable are gone or damaged. Cutting the log there could take back what the quorum agreed on.
    #[error(
        "{reason}, but this node had made the metadata log durable up to offset {} (epoch {}). {}",
        point.offset,
        point.epoch,
        remedy(dir)
    )]
    Damaged {
        dir: String,
        reason: String,
        point: RecoveryPoint,
    },
    #[error("nothing says where the metadata log goes on behind entry {0}: no snapshot ends there")]
    NoSnapshot(RaftLogIdOf),
    #[error("the metadata log refuses a batch: {0}")]
    Append(String),
}

fn remedy(dir: &str) -> String {
    format!(
        "Bring the files of {dir} back from a copy; or, if a majority of the other controllers has its log, move that folder away and start again: this node then copies the log from them"
    )
}

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryMeta {
    pub term: u64,
    pub base_offset: Offset,
    pub last_offset: Offset,
}

/// Where the log ends or begins, in the engine's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBounds {
    pub last_purged: Option<RaftLogIdOf>,
    pub last: Option<RaftLogIdOf>,
}

struct Inner {
    log: Log,
    entries: BTreeMap<u64, EntryMeta>,
    purged: Option<RaftLogIdOf>,
}

impl Inner {
    /// The recovery point of a log that is durable up to `offset`.
    fn point_at(&self, offset: Offset) -> RecoveryPoint {
        let before = self
            .entries
            .values()
            .rev()
            .find(|meta| meta.last_offset < offset)
            .map(|meta| meta.term)
            .or(self.purged.map(|purged| purged.leader_id.term));
        RecoveryPoint {
            offset,
            epoch: leader_epoch(before.unwrap_or(0)),
        }
    }
}

/// The metadata log.
pub struct MetadataLog {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    index_file: IndexFile,
    recovery_point: Mutex<RecoveryPointState>,
    inner: Mutex<Inner>,
}

/// Its lock comes before that of the log, and is held while the file is written.
struct RecoveryPointState {
    file: RecoveryPointFile,
    written: RecoveryPoint,
    /// Bytes of batches appended since it was written.
    bytes_since: u64,
}

impl MetadataLog {
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Log start offset and log end offset.
    pub fn offsets(&self) -> (Offset, Offset) {
        let inner = self.inner.lock();
        (inner.log.log_start_offset(), inner.log.log_end_offset())
    }

    pub fn size_bytes(&self) -> u64 {
        self.inner.lock().log.size_bytes()
    }

    pub fn bounds(&self) -> LogBounds {
        let inner = self.inner.lock();
        let last = inner
            .entries
            .last_key_value()
            .map(|(index, meta)| log_id(leader_epoch(meta.term), *index))
            .or(inner.purged);
        LogBounds {
            last_purged: inner.purged,
            last,
        }
    }

    /// Where the entry with this index lies.
    pub fn entry_meta(&self, index: u64) -> Option<EntryMeta> {
        self.inner.lock().entries.get(&index).copied()
    }

    /// The entry that ends right before `end_offset`.
    pub fn entry_before(&self, end_offset: Offset) -> Option<(u64, EntryMeta)> {
        let inner = self.inner.lock();
        inner
            .entries
            .iter()
            .rev()
            .find(|(_, meta)| meta.last_offset < end_offset)
            .map(|(index, meta)| (*index, *meta))
            .filter(|(_, meta)| meta.last_offset + 1 == end_offset)
    }

    /// Appends entries behind the last one. They are readable on return; durable once the ticket has run. `leader` is the
    /// leader with its term; `proposed`: that is this node, and the entries are new.
    pub fn append(
        &self,
        entries: Vec<Entry>,
        leader: Option<(u64, RaftNodeId)>,
        proposed: bool,
        voters: &Membership,
    ) -> Result<(), MetadataLogError> {
        let now_ms = self.clock.wall_ms();
        let mut bytes = 0;
        let mut inner = self.inner.lock();
        for entry in entries {
            let base_offset = inner.log.log_end_offset();
            if inner.entries.is_empty() && inner.purged.is_none() && entry.index() != 0 {
                self.index_file.write(&IndexAnchor {
                    index: entry.index(),
                    base_offset,
                    purged: None,
                })?;
            }
            let codec = |source| MetadataLogError::Codec {
                dir: self.dir.display().to_string(),
                offset: base_offset,
                source,
            };
            let entry_leader = leader
                .filter(|(leader_term, _)| *leader_term == entry.term())
                .map(|(_, id)| id);
            let mut batch = encode_entry(&entry, entry_leader, voters, now_ms).map_err(codec)?;
            let mut header = *RecordBatch::parse(&batch)
                .map_err(|error| codec(error.into()))?
                .header();
            let epoch = leader_epoch(entry.term());
            let stamped =
                header.partition_leader_epoch != LeaderEpoch::UNKNOWN && !entry.batch.is_empty();
            let fits = header.base_offset == base_offset && header.partition_leader_epoch == epoch;
            if stamped && !fits {
                if !proposed {
                    return Err(MetadataLogError::Diverged {
                        index: entry.index(),
                        expected: base_offset,
                        found: header.base_offset,
                    });
                }
                // Decided on a log that another leader has gone on with since: it must not take effect. Whoever
                // proposed it sees by the offset that it did not.
                batch = encode_no_op(now_ms).map_err(codec)?;
                header = *RecordBatch::parse(&batch)
                    .map_err(|error| codec(error.into()))?
                    .header();
            }
            patch_header(&mut batch, base_offset, epoch);
            let last_offset = base_offset + i64::from(header.last_offset_delta);
            bytes += u64::try_from(batch.len()).unwrap_or(u64::MAX);
            append_batch(&mut inner.log, batch, epoch, now_ms)?;
            inner.entries.insert(
                entry.index(),
                EntryMeta {
                    term: entry.term(),
                    base_offset,
                    last_offset,
                },
            );
        }
        drop(inner);
        self.recovery_point.lock().bytes_since += bytes;
        Ok(())
    }

    /// What has to be fsynced for all that was appended so far.
    pub fn begin_flush(&self) -> Result<FlushTicket, MetadataLogError> {
        Ok(self.inner.lock().log.begin_flush()?)
    }

    /// Takes note that a ticket has run; on the blocking pool.
    pub fn complete_flush(&self, ticket: FlushTicket) -> Result<(), MetadataLogError> {
        self.inner.lock().log.complete_flush(ticket);
        if self.recovery_point.lock().bytes_since >= RECOVERY_POINT_INTERVAL_BYTES {
            self.write_recovery_point()?;
        }
        Ok(())
    }

    /// Remembers how far the log is durable.
    pub fn write_recovery_point(&self) -> Result<(), MetadataLogError> {
        let mut state = self.recovery_point.lock();
        let point = {
            let inner = self.inner.lock();
            inner.point_at(inner.log.recovery_point())
        };
        state.bytes_since = 0;
        if point != state.written {
            state.file.write(point)?;
            state.written = point;
        }
        Ok(())
    }

    /// Gives up what lies behind `offset`, before it is cut: a start after a crash in between must not miss it.
    fn lower_recovery_point(
        state: &mut RecoveryPointState,
        point: RecoveryPoint,
    ) -> Result<(), MetadataLogError> {
        if point.offset < state.written.offset {
            state.file.write(point)?;
            state.written = point;
        }
        Ok(())
    }

    /// The entries of `start..end` that exist, at most `bytes_max` bytes of them but at least one.
    pub fn entries(
        &self,
        start: u64,
        end: u64,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, MetadataLogError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let metas: Vec<(u64, EntryMeta)> = {
            let inner = self.inner.lock();
            inner
                .entries
                .range(start..end)
                .map(|(index, meta)| (*index, *meta))
                .collect()
        };
        let (Some((_, first)), Some((_, last))) = (metas.first(), metas.last()) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::with_capacity(metas.len());
        let mut metas = metas.iter().peekable();
        let mut offset = first.base_offset;
        let mut bytes_read = 0;
        while offset <= last.last_offset && (found.is_empty() || bytes_read < bytes_max) {
            let chunk = self.read_chunk(offset, last.last_offset + 1)?;
            bytes_read += chunk.len();
            for batch in batches(&chunk) {
                let at = offset;
                let codec = |source| MetadataLogError::Codec {
                    dir: self.dir.display().to_string(),
                    offset: at,
                    source,
                };
                let batch = batch.map_err(|error| codec(error.into()))?;
                offset = batch.header().next_offset();
                let Some((index, meta)) = metas.peek() else {
                    break;
                };
                if batch.header().base_offset != meta.base_offset {
                    continue;
                }
                let bytes = chunk.slice_ref(batch.bytes());
                let (_, entry) = decode_entry(*index, bytes).map_err(codec)?;
                found.push(entry);
                metas.next();
            }
        }
        Ok(found)
    }

    /// Reads whole batches from `offset`, below `end_offset`.
    fn read_chunk(&self, offset: Offset, end_offset: Offset) -> Result<Bytes, MetadataLogError> {
        let region = self
            .read(offset, READ_CHUNK_BYTES, end_offset)
            .map_err(|_| MetadataLogError::Unreadable(offset))?
            .ok_or(MetadataLogError::Unreadable(offset))?;
        let bytes = region
            .read()
            .map_err(|error| StorageError::io("reading", &self.dir, error))?;
        let mut whole = 0;
        for batch in batches(&bytes) {
            match batch {
                Ok(batch) => whole += batch.bytes().len(),
                Err(BatchError::Truncated { .. }) => break,
                Err(error) => {
                    return Err(MetadataLogError::Codec {
                        dir: self.dir.display().to_string(),
                        offset,
                        source: error.into(),
                    });
                }
            }
        }
        if whole == 0 {
            return Err(MetadataLogError::Unreadable(offset));
        }
        Ok(Bytes::from(bytes).slice(..whole))
    }

    /// A region of the log for an observer: none when there is nothing from `offset` on.
    pub fn read(
        &self,
        offset: Offset,
        bytes_max: usize,
        end_offset: Offset,
    ) -> Result<Option<FileRegion>, ReadError> {
        let mut inner = self.inner.lock();
        Ok(inner.log.read(offset, bytes_max, end_offset, true)?.region)
    }

    /// The end of an epoch, for an observer that may have diverged.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.inner.lock().log.end_offset_for_epoch(epoch)
    }

    /// Drops the entry and all behind it; on the blocking pool.
    pub fn truncate(&self, from: RaftLogIdOf) -> Result<(), MetadataLogError> {
        let mut recovery_point = self.recovery_point.lock();
        let point = {
            let inner = self.inner.lock();
            let first = inner.entries.range(from.index..).next();
            first.map(|(_, meta)| inner.point_at(meta.base_offset))
        };
        if let Some(point) = point {
            Self::lower_recovery_point(&mut recovery_point, point)?;
        }
        let mut inner = self.inner.lock();
        let removed = inner.entries.split_off(&from.index);
        if let Some((_, meta)) = removed.first_key_value() {
            inner
                .log
                .truncate_to(meta.base_offset, self.clock.wall_ms())?;
        }
        Ok(())
    }

    /// Drops the entry and all before it. `end_offset` is where a snapshot with that last entry ends, if there is one:
    /// only with that can the log go on behind an entry that it does not have.
    pub fn purge(
        &self,
        upto: RaftLogIdOf,
        end_offset: Option<Offset>,
    ) -> Result<(), MetadataLogError> {
        let (behind, end_in_log) = {
            let inner = self.inner.lock();
            let end_in_log = inner
                .entries
                .get(&upto.index)
                .filter(|meta| meta.term == upto.leader_id.term)
                .map(|meta| meta.last_offset + 1);
            let last = inner
                .entries
                .last_key_value()
                .map(|(index, meta)| log_id(leader_epoch(meta.term), *index));
            let behind = if last.is_none_or(|last| last <= upto) {
                None
            } else {
                inner
                    .entries
                    .range(upto.index + 1..)
                    .next()
                    .map(|(index, meta)| (*index, meta.base_offset))
            };
            (behind, end_in_log)
        };
        let Some((index, base_offset)) = behind else {
            let end_offset = end_in_log
                .or(end_offset)
                .ok_or(MetadataLogError::NoSnapshot(upto))?;
            return self.reset(upto, end_offset);
        };
        // First the way to count, then the loss of what was counted from.
        self.index_file.write(&IndexAnchor {
            index,
            base_offset,
            purged: Some(upto),
        })?;
        let now_ms = self.clock.wall_ms();
        let mut inner = self.inner.lock();
        inner.entries = inner.entries.split_off(&index);
        inner.purged = Some(upto);
        let high_watermark = inner.log.high_watermark().max(base_offset);
        inner.log.update_high_watermark(high_watermark);
        inner
            .log
            .increment_log_start_offset(base_offset)
            .map_err(|error| MetadataLogError::Append(error.to_string()))?;
        inner.log.delete_old_segments(now_ms, base_offset)?;
        let due = inner.log.due_deletions(now_ms);
        drop(inner);
        Ok(due.run()?)
    }

    /// Empties the log, which goes on at `end_offset` behind the entry `last`.
    fn reset(&self, last: RaftLogIdOf, end_offset: Offset) -> Result<(), MetadataLogError> {
        let mut recovery_point = self.recovery_point.lock();
        let point = RecoveryPoint {
            offset: end_offset,
            epoch: leader_epoch(last.leader_id.term),
        };
        Self::lower_recovery_point(&mut recovery_point, point)?;
        self.index_file.write(&IndexAnchor {
            index: last.index + 1,
            base_offset: end_offset,
            purged: Some(last),
        })?;
        let mut inner = self.inner.lock();
        inner
            .log
            .truncate_fully_and_start_at(end_offset, self.clock.wall_ms())?;
        inner.entries.clear();
        inner.purged = Some(last);
        Ok(())
    }

    /// Makes everything durable before the process ends.
    pub fn flush(&self) -> Result<(), MetadataLogError> {
        let ticket = self.begin_flush()?;
        ticket.run()?;
        self.complete_flush(ticket)?;
        self.write_recovery_point()
    }
}

fn append_batch(
    log: &mut Log,
    batch: BytesMut,
    epoch: LeaderEpoch,
    now_ms: i64,
) -> Result<(), MetadataLogError> {
    log.append_as_follower(&batch, epoch, now_ms)
        .map(|_| ())
        .map_err(|error| MetadataLogError::Append(error.to_string()))
}
