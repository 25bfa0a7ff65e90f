//! The fold of the committed entries: image, membership, and who wants to hear of them; snapshots of it.
//! Not here: deciding (broker/src/controller), acting on metadata (broker/src/metadata).
//! `apply` runs in the engine's state machine task; readers take the image from `CommittedState` at any time.
//! openraft: RaftStateMachine. Kafka: MetadataLoader, RaftSnapshotWriter; KIP-630.

use super::entry_codec::{EngineTag, decode_records, log_id, stored_membership};
use super::log_store::{SharedState, any_error};
use super::snapshot_file::{self, SnapshotContent, SnapshotId};
use super::types::{
    AppliedBatch, EngineStorageError, Entry, Payload, QuorumTypes, RaftLogIdOf, StoredMembership,
    leader_epoch,
};
use super::{Committed, CommittedBatch, SnapshotInstalled};
use kavka_common::{Clock, LeaderEpoch, Offset};
use kavka_metadata::MetadataImage;
use kavka_records::BatchHeader;
use kavka_storage::StorageError;
use kavka_storage::vfs::Vfs;
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{OptionalSend, RaftSnapshotBuilder, SnapshotMeta, StorageIOError};
use parking_lot::Mutex;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{mpsc, watch};

/// Most snapshots that are kept: the latest, and the one before it for observers that are reading it.
const SNAPSHOTS_KEPT: usize = 2;

struct Folded {
    image: MetadataImage,
    applied: Option<RaftLogIdOf>,
    membership: StoredMembership,
    /// Offset behind the last applied entry.
    end_offset: Offset,
    last_epoch: LeaderEpoch,
    last_append_ms: i64,
    bytes_since_snapshot: u64,
    records_since_snapshot: u64,
    latest_snapshot: Option<SnapshotId>,
    snapshot_meta: Option<SnapshotMeta<u64, super::types::VoterNode>>,
    subscribers: Vec<mpsc::UnboundedSender<Committed>>,
}

/// What is committed, shared between the engine and its readers.
pub struct CommittedState {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    shared: Arc<SharedState>,
    folded: Mutex<Folded>,
    high_watermark: watch::Sender<Offset>,
}

/// How much was committed since the last snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinceSnapshot {
    pub bytes: u64,
    pub records: u64,
    pub in_transaction: bool,
}

impl CommittedState {
    /// Loads the latest snapshot of the folder. A damaged one is skipped if an older one is whole.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        clock: Arc<dyn Clock>,
        shared: Arc<SharedState>,
    ) -> Result<Self, StorageError> {
        let state = CommittedState {
            folded: Mutex::new(Folded {
                image: MetadataImage::empty(),
                applied: None,
                membership: StoredMembership::default(),
                end_offset: 0,
                last_epoch: LeaderEpoch(0),
                last_append_ms: -1,
                bytes_since_snapshot: 0,
                records_since_snapshot: 0,
                latest_snapshot: None,
                snapshot_meta: None,
                subscribers: Vec::new(),
            }),
            high_watermark: watch::Sender::new(0),
            vfs,
            dir,
            clock,
            shared,
        };
        let mut damaged = None;
        for id in snapshot_file::list(&*state.vfs, &state.dir)?
            .into_iter()
            .rev()
        {
            let bytes = snapshot_file::read(&*state.vfs, &id.path(&state.dir))?;
            match snapshot_file::decode(&bytes) {
                Ok(content) => {
                    state.load(id, content)?;
                    return Ok(state);
                }
                Err(error) => {
                    tracing::error!("snapshot {id} is skipped: {error}");
                    damaged = Some(StorageError::corrupt(
                        &id.path(&state.dir),
                        error.to_string(),
                    ));
                }
            }
        }
        match damaged {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }

    /// Replaces the state by a snapshot's.
    fn load(&self, id: SnapshotId, content: SnapshotContent) -> Result<(), StorageError> {
        let corrupt = |reason: String| StorageError::corrupt(&id.path(&self.dir), reason);
        let (mut image, _) = MetadataImage::empty()
            .apply(id.end_offset - 1, id.epoch, &content.records)
            .map_err(|error| corrupt(error.to_string()))?;
        if let Some(level) = content.kraft_version {
            image = image.with_kraft_version(level);
        }
        let tag = content.voters;
        // A snapshot of Kafka's has no index: its last offset stands for it, see MetadataLog::open.
        let last = match tag.as_ref().and_then(|tag| tag.last_log_id) {
            Some(last) => Some(last),
            None => u64::try_from(id.end_offset - 1)
                .ok()
                .map(|index| log_id(id.epoch, index)),
        };
        let membership = tag.as_ref().map(stored_membership).unwrap_or_default();
        *self.shared.membership.lock() = membership.membership().clone();
        self.shared
            .snapshot
            .send_replace(last.map(|last| (last, id.end_offset)));
        let mut folded = self.folded.lock();
        folded.image = image;
        folded.applied = last;
        folded.membership = membership.clone();
        folded.end_offset = id.end_offset;
        folded.last_epoch = id.epoch;
        folded.last_append_ms = content.last_contained_log_timestamp;
        folded.bytes_since_snapshot = 0;
        folded.records_since_snapshot = 0;
        if last.is_some() {
            folded.latest_snapshot = Some(id);
            folded.snapshot_meta = Some(SnapshotMeta {
                last_log_id: last,
                last_membership: membership,
                snapshot_id: id.to_string(),
            });
        }
        drop(folded);
        self.high_watermark.send_replace(id.end_offset);
        Ok(())
    }

    /// Last entry and end of the snapshot that was loaded.
    pub fn snapshot_bounds(&self) -> Option<(RaftLogIdOf, Offset)> {
        *self.shared.snapshot.borrow()
    }

    pub fn shared(&self) -> Arc<SharedState> {
        Arc::clone(&self.shared)
    }

    pub fn latest_snapshot(&self) -> Option<SnapshotId> {
        self.folded.lock().latest_snapshot
    }

    /// All that is committed as far as this node knows.
    pub fn image(&self) -> MetadataImage {
        self.folded.lock().image.clone()
    }

    /// Offset behind the last committed batch, and its epoch.
    pub fn end(&self) -> (Offset, LeaderEpoch) {
        let folded = self.folded.lock();
        (folded.end_offset, folded.last_epoch)
    }

    pub fn membership(&self) -> StoredMembership {
        self.folded.lock().membership.clone()
    }

    /// Used when neither log nor snapshot know the voters.
    pub fn set_initial_membership(&self, membership: StoredMembership) {
        *self.shared.membership.lock() = membership.membership().clone();
        self.folded.lock().membership = membership;
    }

    pub fn high_watermark(&self) -> watch::Receiver<Offset> {
        self.high_watermark.subscribe()
    }

    pub fn since_snapshot(&self) -> SinceSnapshot {
        let folded = self.folded.lock();
        SinceSnapshot {
            bytes: folded.bytes_since_snapshot,
            records: folded.records_since_snapshot,
            in_transaction: folded.image.in_transaction(),
        }
    }

    /// The image now, and everything that is committed after it.
    pub fn subscribe(&self) -> (MetadataImage, mpsc::UnboundedReceiver<Committed>) {
        // Bounded by what is committed while a publisher is busy; records are shared, not copied.
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut folded = self.folded.lock();
        folded.subscribers.push(sender);
        (folded.image.clone(), receiver)
    }

    fn apply_entry(&self, entry: Entry) -> Result<AppliedBatch, StorageError> {
        let mut folded = self.folded.lock();
        let corrupt = |reason: String| StorageError::corrupt(&self.dir, reason);
        let epoch = leader_epoch(entry.term());
        // Only an entry that never saw the log is without a batch.
        let header = (!entry.batch.is_empty())
            .then(|| BatchHeader::parse(&entry.batch))
            .transpose()
            .map_err(|error| corrupt(error.to_string()))?;
        let (base_offset, last_offset) = match &header {
            Some(header) => (header.base_offset, header.last_offset()),
            None => (folded.end_offset, folded.end_offset),
        };
        if let Payload::Membership(membership) = &entry.payload {
            folded.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
            folded.image = folded
                .image
                .clone()
                .with_kraft_version(super::entry_codec::KRAFT_VERSION);
        }
        let records = match entry.payload {
            Payload::Records => decode_records(&entry.batch)
                .map_err(|error| corrupt(format!("offset {base_offset}: {error}")))?,
            Payload::Blank | Payload::Membership(_) => Vec::new(),
        };
        let (image, delta) = folded
            .image
            .apply(last_offset, epoch, &records)
            .map_err(|error| corrupt(format!("offset {base_offset}: {error}")))?;
        folded.image = image;
        folded.applied = Some(entry.log_id);
        folded.end_offset = last_offset + 1;
        folded.last_epoch = epoch;
        if let Some(header) = &header {
            folded.last_append_ms = header.max_timestamp;
            folded.bytes_since_snapshot += u64::try_from(header.size_bytes()).unwrap_or(u64::MAX);
        }
        folded.records_since_snapshot += u64::try_from(records.len()).unwrap_or(u64::MAX);
        if !folded.subscribers.is_empty() {
            let committed = Committed::Batch(Arc::new(CommittedBatch {
                base_offset,
                last_offset,
                epoch,
                append_ms: folded.last_append_ms,
                records,
                image: folded.image.clone(),
                delta,
            }));
            folded
                .subscribers
                .retain(|subscriber| subscriber.send(committed.clone()).is_ok());
        }
        drop(folded);
        self.high_watermark.send_replace(last_offset + 1);
        Ok(AppliedBatch {
            base_offset,
            last_offset,
        })
    }

    /// Deletes all but the latest snapshots. The one of a freshly formatted directory stays.
    fn remove_old_snapshots(&self) -> Result<(), StorageError> {
        let mut found = snapshot_file::list(&*self.vfs, &self.dir)?;
        found.retain(|id| id.end_offset > 0);
        let surplus = found.len().saturating_sub(SNAPSHOTS_KEPT);
        for id in found.into_iter().take(surplus) {
            snapshot_file::remove(&*self.vfs, &self.dir, id)?;
        }
        Ok(())
    }

    fn current_snapshot(&self) -> Result<Option<Snapshot<QuorumTypes>>, StorageError> {
        let (id, meta) = {
            let folded = self.folded.lock();
            match (folded.latest_snapshot, folded.snapshot_meta.clone()) {
                (Some(id), Some(meta)) => (id, meta),
                _ => return Ok(None),
            }
        };
        let bytes = snapshot_file::read(&*self.vfs, &id.path(&self.dir))?;
        Ok(Some(Snapshot {
            meta,
            snapshot: Box::new(Cursor::new(bytes)),
        }))
    }
}

/// The engine's handle.
#[derive(Clone)]
pub struct StateMachine(pub Arc<CommittedState>);

impl RaftStateMachine<QuorumTypes> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<RaftLogIdOf>, StoredMembership), EngineStorageError> {
        let folded = self.0.folded.lock();
        Ok((folded.applied, folded.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<AppliedBatch>, EngineStorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut applied = Vec::new();
        for entry in entries {
            let log_id = entry.log_id;
            let batch = self
                .0
                .apply_entry(entry)
                .map_err(|error| StorageIOError::apply(log_id, any_error(&error)))?;
            applied.push(batch);
        }
        Ok(applied)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let folded = self.0.folded.lock();
        SnapshotBuilder {
            state: Arc::clone(&self.0),
            id: SnapshotId {
                end_offset: folded.end_offset,
                epoch: folded.last_epoch,
            },
            applied: folded.applied,
            membership: folded.membership.clone(),
            image: folded.image.clone(),
            last_append_ms: folded.last_append_ms,
        }
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<Cursor<Vec<u8>>>, EngineStorageError> {
        self.0.shared.receiving.store(true, Ordering::SeqCst);
        Ok(Box::new(Cursor::new(Vec::new())))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, super::types::VoterNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), EngineStorageError> {
        let failed = |error: StorageError| {
            StorageIOError::write_snapshot(Some(meta.signature()), any_error(&error))
        };
        let unreadable = |reason: String| {
            failed(StorageError::corrupt(
                &self.0.dir,
                format!("snapshot from the leader: {reason}"),
            ))
        };
        let id = SnapshotId::parse(&format!("{}.checkpoint", meta.snapshot_id))
            .ok_or_else(|| unreadable(format!("it is named {}", meta.snapshot_id)))?;
        let bytes = snapshot.into_inner();
        let content =
            snapshot_file::decode(&bytes).map_err(|error| unreadable(error.to_string()))?;
        let state = Arc::clone(&self.0);
        let written = tokio::task::spawn_blocking(move || {
            snapshot_file::write(&*state.vfs, &state.dir, id, &bytes)?;
            state.load(id, content)?;
            state.remove_old_snapshots()
        })
        .await;
        match written {
            Ok(result) => result.map_err(failed)?,
            Err(panicked) => {
                return Err(StorageIOError::write_snapshot(
                    Some(meta.signature()),
                    any_error(&panicked),
                )
                .into());
            }
        }
        self.0.shared.receiving.store(false, Ordering::SeqCst);
        let mut folded = self.0.folded.lock();
        let installed = Committed::Snapshot(Arc::new(SnapshotInstalled {
            image: folded.image.clone(),
        }));
        folded
            .subscribers
            .retain(|subscriber| subscriber.send(installed.clone()).is_ok());
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<QuorumTypes>>, EngineStorageError> {
        self.0
            .current_snapshot()
            .map_err(|error| StorageIOError::read_snapshot(None, any_error(&error)).into())
    }
}

/// Writes the snapshot of one moment while the state machine goes on.
pub struct SnapshotBuilder {
    state: Arc<CommittedState>,
    id: SnapshotId,
    applied: Option<RaftLogIdOf>,
    membership: StoredMembership,
    image: MetadataImage,
    last_append_ms: i64,
}

impl SnapshotBuilder {
    fn build(&self) -> Result<Vec<u8>, StorageError> {
        let state = &self.state;
        let corrupt = |reason: String| StorageError::corrupt(&state.dir, reason);
        if self.image.in_transaction() {
            return Err(corrupt(
                "a snapshot inside a metadata transaction would lose its records".into(),
            ));
        }
        let tag = EngineTag {
            membership: self.membership.membership().clone(),
            membership_log_id: *self.membership.log_id(),
            last_log_id: self.applied,
        };
        let bytes = snapshot_file::encode(
            self.id,
            &tag,
            &self.image,
            self.last_append_ms,
            state.clock.wall_ms(),
        )
        .map_err(|error| corrupt(error.to_string()))?;
        snapshot_file::write(&*state.vfs, &state.dir, self.id, &bytes)?;
        Ok(bytes)
    }
}

impl RaftSnapshotBuilder<QuorumTypes> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<QuorumTypes>, EngineStorageError> {
        let builder = SnapshotBuilder {
            state: Arc::clone(&self.state),
            id: self.id,
            applied: self.applied,
            membership: self.membership.clone(),
            image: self.image.clone(),
            last_append_ms: self.last_append_ms,
        };
        let built = tokio::task::spawn_blocking(move || {
            let bytes = builder.build()?;
            builder.state.remove_old_snapshots()?;
            Ok::<_, StorageError>(bytes)
        })
        .await;
        let bytes = match built {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => {
                return Err(StorageIOError::write_snapshot(None, any_error(&error)).into());
            }
            Err(panicked) => {
                return Err(StorageIOError::write_snapshot(None, any_error(&panicked)).into());
            }
        };
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: self.id.to_string(),
        };
        let mut folded = self.state.folded.lock();
        folded.latest_snapshot = Some(self.id);
        folded.snapshot_meta = Some(meta.clone());
        folded.bytes_since_snapshot = 0;
        folded.records_since_snapshot = 0;
        drop(folded);
        let bounds = self.applied.map(|last| (last, self.id.end_offset));
        self.state.shared.snapshot.send_replace(bounds);
        Ok(Snapshot {
            meta,
            snapshot: Box::new(Cursor::new(bytes)),
        })
    }
}
