//! What the engine asks of a log, answered by `MetadataLog` and the vote file.
//! Not here: formats, offsets.
//! Called by the engine's task one call at a time, and by its replication tasks for reading. A vote is durable before
//! `save_vote` returns, entries before the callback is called; the fsync runs on the blocking pool.
//! openraft: RaftLogStorage, RaftLogReader. Kafka: ReplicatedLog, QuorumStateStore.

use super::metadata_log::{MetadataLog, MetadataLogError};
use super::types::{
    EngineStorageError, Entry, Membership, QuorumTypes, RaftLogIdOf, RaftNodeId, Vote,
};
use super::vote_file::VoteFile;
use kavka_common::Offset;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{AnyError, OptionalSend, RaftLogReader, StorageIOError};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Bytes that one round of replication carries at most.
const REPLICATION_BYTES_MAX: usize = 1 << 20;

/// What log store and state machine know of each other.
#[derive(Debug, Default)]
pub struct SharedState {
    /// Voters, for the LeaderChange record. The effective membership, committed or not.
    pub membership: Mutex<Membership>,
    /// The latest durable snapshot: its last entry and where it ends.
    pub snapshot: watch::Sender<Option<(RaftLogIdOf, Offset)>>,
    /// A snapshot is on its way from the leader.
    pub receiving: AtomicBool,
}

/// How long the log waits for a snapshot to be written before it gives up what the snapshot replaces.
const SNAPSHOT_WRITTEN_WITHIN: Duration = Duration::from_secs(120);

/// The engine's log.
#[derive(Clone)]
pub struct LogStore {
    log: Arc<MetadataLog>,
    vote_file: VoteFile,
    vote: Arc<Mutex<Option<Vote>>>,
    node_id: RaftNodeId,
    shared: Arc<SharedState>,
}

impl LogStore {
    pub fn new(
        log: Arc<MetadataLog>,
        vote_file: VoteFile,
        vote: Option<Vote>,
        node_id: RaftNodeId,
        shared: Arc<SharedState>,
    ) -> Self {
        LogStore {
            log,
            vote_file,
            vote: Arc::new(Mutex::new(vote)),
            node_id,
            shared,
        }
    }

    /// Appends and fsyncs before it returns; for the first entries of a cluster, before the engine runs.
    pub fn append_now(&self, entries: Vec<Entry>) -> Result<(), MetadataLogError> {
        self.append_entries(entries)?;
        self.log.flush()
    }

    /// Writes a vote before the engine runs.
    pub fn write_vote(&self, vote: Vote) -> Result<(), MetadataLogError> {
        self.vote_file.write(&vote)?;
        *self.vote.lock() = Some(vote);
        Ok(())
    }

    fn append_entries(&self, entries: Vec<Entry>) -> Result<(), MetadataLogError> {
        let leader = self.vote.lock().and_then(|vote| {
            vote.leader_id
                .voted_for
                .filter(|_| vote.committed)
                .map(|id| (vote.leader_id.term, id))
        });
        for entry in &entries {
            if let super::types::Payload::Membership(membership) = &entry.payload {
                *self.shared.membership.lock() = membership.clone();
            }
        }
        let voters = self.shared.membership.lock().clone();
        let proposed = leader.is_some_and(|(_, id)| id == self.node_id);
        self.log.append(entries, leader, proposed, &voters)
    }
}

impl RaftLogReader<QuorumTypes> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, EngineStorageError> {
        let (start, end) = bounds(&range);
        self.log
            .entries(start, end, usize::MAX)
            .map_err(|error| StorageIOError::read_logs(any_error(&error)).into())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, EngineStorageError> {
        self.log
            .entries(start, end, REPLICATION_BYTES_MAX)
            .map_err(|error| StorageIOError::read_logs(any_error(&error)).into())
    }
}

impl RaftLogStorage<QuorumTypes> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<QuorumTypes>, EngineStorageError> {
        let bounds = self.log.bounds();
        Ok(LogState {
            last_purged_log_id: bounds.last_purged,
            last_log_id: bounds.last,
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), EngineStorageError> {
        let file = self.vote_file.clone();
        let new = *vote;
        let written = tokio::task::spawn_blocking(move || file.write(&new)).await;
        flatten(written).map_err(StorageIOError::write_vote)?;
        *self.vote.lock() = Some(new);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, EngineStorageError> {
        Ok(*self.vote.lock())
    }

    /// With this node as the only voter, all that is in its log is committed: nobody else could have another log.
    /// In a larger quorum the commit point is learnt from the next leader.
    async fn read_committed(&mut self) -> Result<Option<RaftLogIdOf>, EngineStorageError> {
        let membership = self.shared.membership.lock();
        let alone =
            membership.get_joint_config().len() == 1 && membership.voter_ids().eq([self.node_id]);
        Ok(self.log.bounds().last.filter(|_| alone))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<QuorumTypes>,
    ) -> Result<(), EngineStorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.append_entries(entries.into_iter().collect())
            .map_err(|error| StorageIOError::write_logs(any_error(&error)))?;
        let ticket = self
            .log
            .begin_flush()
            .map_err(|error| StorageIOError::write_logs(any_error(&error)))?;
        let log = Arc::clone(&self.log);
        tokio::task::spawn_blocking(move || {
            let flushed = ticket
                .run()
                .map_err(MetadataLogError::from)
                .and_then(|()| log.complete_flush(ticket))
                .map_err(io::Error::other);
            callback.log_io_completed(flushed);
        });
        Ok(())
    }

    async fn truncate(&mut self, from: RaftLogIdOf) -> Result<(), EngineStorageError> {
        let log = Arc::clone(&self.log);
        let done = tokio::task::spawn_blocking(move || log.truncate(from)).await;
        flatten(done).map_err(StorageIOError::write_logs)?;
        Ok(())
    }

    async fn purge(&mut self, upto: RaftLogIdOf) -> Result<(), EngineStorageError> {
        if self.shared.receiving.load(Ordering::SeqCst) {
            // The engine asks for this while the snapshot is still being written. Without this wait a crash would leave
            // neither the entries nor the snapshot.
            let mut snapshot = self.shared.snapshot.subscribe();
            let written =
                snapshot.wait_for(|snapshot| snapshot.is_some_and(|(last, _)| last >= upto));
            match tokio::time::timeout(SNAPSHOT_WRITTEN_WITHIN, written).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => {
                    let error = io::Error::other(format!(
                        "the snapshot that replaces the log up to {upto} was not written"
                    ));
                    return Err(StorageIOError::write_logs(any_error(&error)).into());
                }
            }
        }
        let log = Arc::clone(&self.log);
        let end_offset = self
            .shared
            .snapshot
            .borrow()
            .filter(|(last, _)| *last == upto)
            .map(|(_, end_offset)| end_offset);
        let done = tokio::task::spawn_blocking(move || log.purge(upto, end_offset)).await;
        flatten(done).map_err(StorageIOError::write_logs)?;
        Ok(())
    }
}

fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    (start, end)
}

/// The engine keeps an error only as text.
pub fn any_error(error: &(impl std::error::Error + 'static)) -> AnyError {
    AnyError::new(error)
}

/// A panic on the blocking pool is as bad as an error of the disk.
fn flatten<T, E>(joined: Result<Result<T, E>, tokio::task::JoinError>) -> Result<T, AnyError>
where
    E: std::error::Error + 'static,
{
    match joined {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(any_error(&error)),
        Err(error) => Err(any_error(&error)),
    }
}
