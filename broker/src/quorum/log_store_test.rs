//! The engine's own suite for stores, run on ours, and what it cannot know: the files.

use super::log_store::{LogStore, SharedState};
use super::metadata_log::MetadataLog;
use super::state_machine::{CommittedState, StateMachine};
use super::types::{
    EngineStorageError, Entry, ProposedBatch, QuorumTypes, RaftLogIdOf, Vote, VoterNode,
};
use super::vote_file::VoteFile;
use super::{entry_codec, types};
use bytes::Bytes;
use kavka_common::{LeaderEpoch, SystemClock};
use kavka_storage::LogConfig;
use kavka_storage::testing::{Loss, SimVfs};
use kavka_storage::vfs::{RealVfs, Vfs};
use openraft::entry::{FromAppData, RaftEntry};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftLogStorageExt};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{OptionalSend, RaftLogId, RaftLogReader};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn open(dir: &Path) -> (Arc<MetadataLog>, LogStore, StateMachine) {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let clock = Arc::new(SystemClock::new());
    let shared = Arc::new(SharedState::default());
    let state = CommittedState::open(
        Arc::clone(&vfs),
        dir.to_owned(),
        clock.clone(),
        Arc::clone(&shared),
    )
    .unwrap();
    let (log, membership) = MetadataLog::open(
        Arc::clone(&vfs),
        dir,
        LogConfig::default(),
        clock,
        state.snapshot_bounds(),
    )
    .unwrap();
    if let Some(membership) = membership {
        *shared.membership.lock() = membership;
    }
    let log = Arc::new(log);
    let vote_file = VoteFile::new(vfs, dir);
    let vote = vote_file.read().unwrap();
    let store = LogStore::new(Arc::clone(&log), vote_file, vote, 0, shared);
    (log, store, StateMachine(Arc::new(state)))
}

/// The store with a snapshot for every purge: the suite purges without one, the engine never does.
#[derive(Clone)]
struct Snapshotted {
    store: LogStore,
    log: Arc<MetadataLog>,
    shared: Arc<SharedState>,
}

impl RaftLogReader<QuorumTypes> for Snapshotted {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, EngineStorageError>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        self.store.try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, EngineStorageError> {
        self.store.limited_get_log_entries(start, end).await
    }
}

impl RaftLogStorage<QuorumTypes> for Snapshotted {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<QuorumTypes>, EngineStorageError> {
        self.store.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.store.get_log_reader().await
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), EngineStorageError> {
        self.store.save_vote(vote).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, EngineStorageError> {
        self.store.read_vote().await
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
        self.store.append(entries, callback).await
    }

    async fn truncate(&mut self, from: RaftLogIdOf) -> Result<(), EngineStorageError> {
        self.store.truncate(from).await
    }

    async fn purge(&mut self, upto: RaftLogIdOf) -> Result<(), EngineStorageError> {
        let (_, end_offset) = self.log.offsets();
        self.shared.snapshot.send_replace(Some((upto, end_offset)));
        self.store.purge(upto).await
    }
}

struct Builder;

impl StoreBuilder<QuorumTypes, Snapshotted, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Snapshotted, StateMachine), EngineStorageError> {
        let dir = tempfile::tempdir().unwrap();
        let (log, store, state) = open(dir.path());
        let shared = state.0.shared();
        Ok((dir, Snapshotted { store, log, shared }, state))
    }
}

#[test]
fn the_engines_suite_passes() {
    Suite::test_all(Builder).unwrap();
}

fn records_entry(epoch: i32, index: u64, records: usize) -> Entry {
    let no_op =
        kavka_protocol::MetadataRecord::NoOp(kavka_protocol::messages::NoOpRecord::default());
    let value = no_op.encode_value(0).unwrap();
    let values: Vec<Bytes> = vec![value; records];
    let batch = entry_codec::encode_records(&values, 7).unwrap();
    let mut entry = Entry::from_app_data(ProposedBatch { batch });
    entry.set_log_id(&entry_codec::log_id(LeaderEpoch(epoch), index));
    entry
}

#[tokio::test]
async fn indexes_and_offsets_are_found_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let voters = BTreeMap::from([(0, VoterNode::new("CONTROLLER", "localhost", 9093))]);
    {
        let (_, mut store, _) = open(dir.path());
        let membership = entry_codec::membership_of(voters.clone());
        let log_id = entry_codec::log_id(LeaderEpoch(0), 0);
        store
            .blocking_append([
                Entry::new_membership(log_id, membership),
                Entry::new_blank(entry_codec::log_id(LeaderEpoch(1), 1)),
                records_entry(1, 2, 3),
                records_entry(2, 3, 1),
            ])
            .await
            .unwrap();
    }
    {
        let (log, mut store, _) = open(dir.path());
        // Two control records for the voters, one for the leader change, then three and one.
        assert_eq!(log.offsets(), (0, 7));
        let entries = store.try_get_log_entries(0..9).await.unwrap();
        let terms: Vec<u64> = entries.iter().map(Entry::term).collect();
        assert_eq!(terms, [0, 1, 1, 2]);
        let types::Payload::Membership(membership) = &entries[0].payload else {
            panic!("the first entry is not the membership");
        };
        assert_eq!(membership.get_node(&0), voters.get(&0));
        assert_eq!(entries[1].payload, types::Payload::Blank);
        store
            .purge(entry_codec::log_id(LeaderEpoch(1), 1))
            .await
            .unwrap();
    }
    let (log, mut store, _) = open_with_snapshot_missing(dir.path());
    assert_eq!(log.offsets(), (3, 7));
    let bounds = log.bounds();
    assert_eq!(
        bounds.last_purged,
        Some(entry_codec::log_id(LeaderEpoch(1), 1))
    );
    assert_eq!(bounds.last, Some(entry_codec::log_id(LeaderEpoch(2), 3)));
    store
        .truncate(entry_codec::log_id(LeaderEpoch(2), 3))
        .await
        .unwrap();
    assert_eq!(log.offsets(), (3, 6));
}

/// A process is killed between write and fsync, the next one starts on what the page cache holds, the power fails.
#[test]
fn what_the_log_is_opened_with_survives_a_power_loss() {
    let dir = Path::new("/data/__cluster_metadata-0");
    let open = |disk: &SimVfs| {
        let clock = Arc::new(SystemClock::new());
        MetadataLog::open(
            Arc::new(disk.clone()),
            dir,
            LogConfig::default(),
            clock,
            None,
        )
        .unwrap()
        .0
    };
    let disk = SimVfs::new();
    disk.create_dir_all(dir).unwrap();
    let killed = open(&disk);
    killed
        .append(
            vec![records_entry(1, 0, 3)],
            None,
            false,
            &types::Membership::default(),
        )
        .unwrap();
    drop(killed);
    assert_eq!(open(&disk).offsets(), (0, 3));
    assert_eq!(open(&disk.after_crash(Loss::Unsynced)).offsets(), (0, 3));
}

/// As `open`, but told of a snapshot that ends where the log starts.
fn open_with_snapshot_missing(dir: &Path) -> (Arc<MetadataLog>, LogStore, ()) {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let snapshot = (entry_codec::log_id(LeaderEpoch(1), 1), 3);
    let (log, _) = MetadataLog::open(
        Arc::clone(&vfs),
        dir,
        LogConfig::default(),
        Arc::new(SystemClock::new()),
        Some(snapshot),
    )
    .unwrap();
    let log = Arc::new(log);
    let vote_file = VoteFile::new(vfs, dir);
    let store = LogStore::new(
        Arc::clone(&log),
        vote_file,
        None,
        0,
        Arc::new(SharedState::default()),
    );
    (log, store, ())
}

#[test]
fn a_log_whose_beginning_is_lost_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (_, store, _) = open(dir.path());
        store
            .append_now(vec![records_entry(1, 0, 1), records_entry(1, 1, 1)])
            .unwrap();
    }
    {
        let (log, _, _) = open(dir.path());
        log.purge(entry_codec::log_id(LeaderEpoch(1), 0), None)
            .unwrap();
    }
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let clock = Arc::new(SystemClock::new());
    let error = MetadataLog::open(vfs, dir.path(), LogConfig::default(), clock, None)
        .err()
        .unwrap();
    assert!(error.to_string().contains("no snapshot covers"), "{error}");
}
