//! One member of the quorum: opens the folder, starts the engine, and is `MetadataQuorum` to the rest of the broker.
//! Not here: storage (metadata_log.rs, state_machine.rs), connections to the other members (peers.rs).
//! Opened by the composition root; two background tasks watch the engine. A dead engine ends the process.
//! Kafka: kafka.raft.KafkaRaftManager, org.apache.kafka.raft.KafkaRaftClient.

use super::entry_codec::{encode_records, membership_of};
use super::log_store::{LogStore, SharedState};
use super::metadata_log::{MetadataLog, MetadataLogError};
use super::peers::{self, PeerMessageError};
use super::state_machine::{CommittedState, StateMachine};
use super::types::{
    AppliedBatch, Entry, ProposedBatch, QuorumTypes, RaftNodeId, StoredMembership, Vote, VoterNode,
};
use super::vote_file::VoteFile;
use super::{
    Committed, MetadataQuorum, QuorumAppendError, QuorumLeader, QuorumReadError, QuorumStatus,
    ReplicaStatus, SnapshotId,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use kavka_common::{Clock, FileRegion, LeaderEpoch, NodeId, Offset};
use kavka_metadata::{MetadataImage, record_version};
use kavka_protocol::MetadataRecord;
use kavka_storage::vfs::{OpenMode, Vfs};
use kavka_storage::{LogConfig, ReadError, StorageError};
use openraft::entry::RaftEntry;
use openraft::error::{ClientWriteError, Fatal, RaftError};
use openraft::network::RaftNetworkFactory;
use openraft::{Raft, ServerState, SnapshotPolicy};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

/// What the quorum acts on; each field is Kafka's key of that name, or follows from several.
#[derive(Clone, Debug)]
pub struct QuorumSettings {
    pub node_id: NodeId,
    /// `<metadata.log.dir or first log.dir>/__cluster_metadata-0`.
    pub dir: PathBuf,
    /// The first members of a new quorum, from `controller.quorum.voters`, `server.N` lines, or this node alone.
    pub initial_voters: BTreeMap<NodeId, VoterNode>,
    /// `controller.quorum.election.timeout.ms`.
    pub election_timeout_ms: u64,
    /// `controller.quorum.fetch.timeout.ms`: a leader that hears nothing of a majority for so long does not act as one.
    pub fetch_timeout_ms: u64,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub bytes_between_snapshots: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0 never.
    pub snapshot_interval_ms: u64,
    /// `metadata.max.retention.bytes`; negative never.
    pub retention_bytes: i64,
    /// `metadata.log.segment.bytes`, `metadata.log.segment.ms`.
    pub log: LogConfig,
}

/// The quorum cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum QuorumOpenError {
    #[error(transparent)]
    Log(#[from] MetadataLogError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(
        "node {node_id} is not among the voters {voters:?}; correct node.id or controller.quorum.voters"
    )]
    NotAVoter { node_id: NodeId, voters: Vec<i32> },
    #[error("the quorum's settings are not usable: {0}")]
    Settings(String),
    #[error("the quorum does not start: {0}")]
    Engine(String),
}

/// A running member of the quorum.
pub struct QuorumNode {
    settings: QuorumSettings,
    vfs: Arc<dyn Vfs>,
    clock: Arc<dyn Clock>,
    log: Arc<MetadataLog>,
    state: Arc<CommittedState>,
    /// The engine; the other members' messages go to it.
    pub(super) raft: Raft<QuorumTypes>,
    leader: watch::Receiver<QuorumLeader>,
}

/// What to do when the engine has died: log has been written, nothing is left but to end the process.
pub type OnFatal = Box<dyn FnOnce(String) + Send>;

impl QuorumNode {
    /// Opens the folder, makes the first entries of a new quorum, and starts the engine. A quorum of one leads, and has
    /// its image, when this returns.
    pub async fn open<N: RaftNetworkFactory<QuorumTypes>>(
        settings: QuorumSettings,
        vfs: Arc<dyn Vfs>,
        clock: Arc<dyn Clock>,
        network: N,
        on_fatal: OnFatal,
    ) -> Result<Arc<QuorumNode>, QuorumOpenError> {
        vfs.create_dir_all(&settings.dir)
            .map_err(|error| StorageError::io("making", &settings.dir, error))?;
        let node_id = raft_id(settings.node_id)?;
        let shared = Arc::new(SharedState::default());
        let state = Arc::new(CommittedState::open(
            Arc::clone(&vfs),
            settings.dir.clone(),
            Arc::clone(&clock),
            Arc::clone(&shared),
        )?);
        let (log, membership_in_log) = MetadataLog::open(
            Arc::clone(&vfs),
            &settings.dir,
            settings.log.clone(),
            Arc::clone(&clock),
            state.snapshot_bounds(),
        )?;
        let log = Arc::new(log);
        if let Some(membership) = membership_in_log {
            *shared.membership.lock() = membership;
        }
        let vote_file = VoteFile::new(Arc::clone(&vfs), &settings.dir);
        let vote = vote_file.read()?;
        let store = LogStore::new(
            Arc::clone(&log),
            vote_file,
            vote,
            node_id,
            Arc::clone(&shared),
        );
        begin(&settings, node_id, &store, &log, &state, &shared)?;
        let alone = shared.membership.lock().voter_ids().eq([node_id]);
        let config = engine_config(&settings, alone)?;
        let raft = Raft::new(
            node_id,
            Arc::new(config),
            network,
            store,
            StateMachine(Arc::clone(&state)),
        )
        .await
        .map_err(|fatal| QuorumOpenError::Engine(fatal.to_string()))?;
        let metrics = raft.metrics();
        if alone && metrics.borrow().current_leader != Some(node_id) {
            // Nobody else can win, so there is nothing to wait for.
            let leading = raft.wait(Some(Duration::from_millis(
                settings.election_timeout_ms * 5,
            )));
            let fatal = |error: Fatal<RaftNodeId>| QuorumOpenError::Engine(error.to_string());
            if !leads(&raft, node_id).await {
                raft.trigger().elect().await.map_err(fatal)?;
            }
            leading
                .metrics(
                    |metrics| metrics.current_leader == Some(node_id),
                    "lead a quorum of one",
                )
                .await
                .map_err(|error| QuorumOpenError::Engine(error.to_string()))?;
        }
        let first = QuorumLeader::of(&raft.metrics().borrow(), settings.fetch_timeout_ms, alone);
        let (leader_sender, leader) = watch::channel(first);
        let node = Arc::new(QuorumNode {
            settings,
            vfs,
            clock,
            log,
            state,
            raft,
            leader,
        });
        tokio::spawn(watch_engine(Arc::clone(&node), leader_sender, on_fatal));
        tokio::spawn(keep_snapshots(Arc::downgrade(&node)));
        Ok(node)
    }

    fn not_leader(&self) -> QuorumAppendError {
        let leader = *self.leader.borrow();
        QuorumAppendError::NotLeader {
            leader: leader.leader_id,
            epoch: leader.epoch,
        }
    }

    fn encode(&self, records: &[MetadataRecord]) -> Result<ProposedBatch, QuorumAppendError> {
        let features = self.state.image().features;
        let values = records
            .iter()
            .map(|record| record.encode_value(record_version(record, &features)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| QuorumAppendError::Unwritable(error.to_string()))?;
        let batch = encode_records(&values, self.clock.wall_ms())
            .map_err(|error| QuorumAppendError::Unwritable(error.to_string()))?;
        Ok(ProposedBatch { batch })
    }
}

impl QuorumLeader {
    fn of(
        metrics: &openraft::RaftMetrics<RaftNodeId, VoterNode>,
        fetch_timeout_ms: u64,
        alone: bool,
    ) -> Self {
        let epoch = super::types::leader_epoch(metrics.current_term);
        // KAFKA-15489: a leader that is cut off from the majority must not act as one.
        let cut_off = !alone
            && metrics.state == ServerState::Leader
            && metrics
                .millis_since_quorum_ack
                .is_some_and(|silence| silence > fetch_timeout_ms);
        QuorumLeader {
            leader_id: metrics
                .current_leader
                .filter(|_| !cut_off)
                .map(|id| NodeId(super::entry_codec::wire_id(id))),
            epoch,
        }
    }
}

async fn leads(raft: &Raft<QuorumTypes>, node_id: RaftNodeId) -> bool {
    raft.with_raft_state(move |state| {
        state.vote_ref().committed && state.vote_ref().leader_id.voted_for == Some(node_id)
    })
    .await
    .unwrap_or(false)
}

fn raft_id(node_id: NodeId) -> Result<RaftNodeId, QuorumOpenError> {
    u64::try_from(node_id.0)
        .map_err(|_| QuorumOpenError::Settings(format!("node.id {node_id} is negative")))
}

/// Writes what the engine needs to find in an empty folder. Every member writes the same first entry, so that it does
/// not matter who comes first. A quorum of one also elects itself here: one vote and one fsync instead of an election.
fn begin(
    settings: &QuorumSettings,
    node_id: RaftNodeId,
    store: &LogStore,
    log: &MetadataLog,
    state: &CommittedState,
    shared: &SharedState,
) -> Result<(), QuorumOpenError> {
    let known = shared.membership.lock().voter_ids().next().is_some();
    let empty = log.bounds().last.is_none();
    if !known {
        let voters = settings
            .initial_voters
            .iter()
            .map(|(id, node)| Ok((raft_id(*id)?, node.clone())))
            .collect::<Result<BTreeMap<_, _>, QuorumOpenError>>()?;
        *shared.membership.lock() = membership_of(voters);
    }
    let membership = shared.membership.lock().clone();
    if !membership.voter_ids().any(|id| id == node_id) {
        return Err(QuorumOpenError::NotAVoter {
            node_id: settings.node_id,
            voters: membership
                .voter_ids()
                .map(super::entry_codec::wire_id)
                .collect(),
        });
    }
    if !empty {
        if !known {
            // A log of Kafka's with static voters: they are nowhere but in the configuration.
            state.set_initial_membership(StoredMembership::new(None, membership));
        }
        return Ok(());
    }
    let mut entries = vec![Entry::new_membership(
        super::entry_codec::log_id(LeaderEpoch::INITIAL, 0),
        membership.clone(),
    )];
    if membership.voter_ids().eq([node_id]) {
        store.write_vote(Vote::new_committed(1, node_id))?;
        entries.push(Entry::new_blank(super::entry_codec::log_id(
            LeaderEpoch(1),
            1,
        )));
    }
    store.append_now(entries)?;
    Ok(())
}

fn engine_config(
    settings: &QuorumSettings,
    alone: bool,
) -> Result<openraft::Config, QuorumOpenError> {
    // A follower of the engine waits for the upper bound, the leader's lease, and then for a random time between the
    // two before it campaigns. Half of Kafka's timeout for each part keeps the whole within that timeout.
    let timeout = settings.election_timeout_ms.max(100);
    openraft::Config {
        cluster_name: "metadata".into(),
        heartbeat_interval: if alone { timeout } else { timeout / 10 },
        election_timeout_min: if alone { timeout * 5 } else { timeout * 3 / 10 },
        election_timeout_max: if alone { timeout * 10 } else { timeout / 2 },
        install_snapshot_timeout: 10_000,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        ..openraft::Config::default()
    }
    .validate()
    .map_err(|error| QuorumOpenError::Settings(error.to_string()))
}

/// Follows the engine: who leads, and whether it is alive.
async fn watch_engine(
    node: Arc<QuorumNode>,
    leader: watch::Sender<QuorumLeader>,
    on_fatal: OnFatal,
) {
    let mut metrics = node.raft.metrics();
    let fetch_timeout_ms = node.settings.fetch_timeout_ms;
    drop(node);
    loop {
        let (now, dead) = {
            let metrics = metrics.borrow_and_update();
            let alone = metrics.membership_config.voter_ids().count() == 1;
            let now = QuorumLeader::of(&metrics, fetch_timeout_ms, alone);
            (now, metrics.running_state.clone().err())
        };
        if let Some(fatal) = dead {
            leader.send_replace(QuorumLeader {
                leader_id: None,
                epoch: now.epoch,
            });
            if matches!(fatal, Fatal::Stopped) {
                return;
            }
            error!(target: "kafka.server.KafkaRaftServer", "the metadata quorum has died: {fatal}");
            on_fatal(fatal.to_string());
            return;
        }
        leader.send_if_modified(|before| {
            let changed = *before != now;
            if changed {
                info!(target: "org.apache.kafka.raft.KafkaRaftClient", "leader of the metadata quorum: {:?} in epoch {}", now.leader_id.map(NodeId::get), now.epoch);
                *before = now;
            }
            changed
        });
        if metrics.changed().await.is_err() {
            // It ended without saying why: it panicked.
            error!(target: "kafka.server.KafkaRaftServer", "the metadata quorum has died: its task panicked");
            on_fatal("the engine's task panicked".into());
            return;
        }
    }
}

/// Makes snapshots when enough was committed, and deletes the log's prefix behind them.
async fn keep_snapshots(node: std::sync::Weak<QuorumNode>) {
    let Some(mut high_watermark) = node.upgrade().map(|node| node.state.high_watermark()) else {
        return;
    };
    let mut last_ms = match node.upgrade() {
        Some(node) => node.clock.monotonic_ms(),
        None => return,
    };
    loop {
        let interval_ms = match node.upgrade() {
            Some(node) => node.settings.snapshot_interval_ms,
            None => return,
        };
        let wait = if interval_ms == 0 {
            Duration::from_secs(3600)
        } else {
            Duration::from_millis(interval_ms)
        };
        // Woken by commits; by time only where an interval asks for a snapshot although little happened.
        let _ = tokio::time::timeout(wait, high_watermark.changed()).await;
        let Some(node) = node.upgrade() else {
            return;
        };
        let since = node.state.since_snapshot();
        let elapsed_ms = node.clock.monotonic_ms().saturating_sub(last_ms);
        let old = interval_ms > 0
            && u64::try_from(elapsed_ms).unwrap_or(0) >= interval_ms
            && since.records > 0;
        if since.in_transaction || !(since.bytes >= node.settings.bytes_between_snapshots || old) {
            continue;
        }
        last_ms = node.clock.monotonic_ms();
        if let Err(error) = node.snapshot().await {
            warn!("no snapshot of the metadata: {error}");
        }
    }
}

impl QuorumNode {
    /// Makes a snapshot now and waits for it. The log's prefix goes when the log is larger than its retention.
    pub async fn snapshot(&self) -> Result<Option<SnapshotId>, QuorumAppendError> {
        let stopped = |error: String| QuorumAppendError::Stopped(error);
        let applied = self.raft.metrics().borrow().last_applied;
        let before = self.raft.metrics().borrow().snapshot;
        if applied.is_none() || applied == before {
            return Ok(self.state.latest_snapshot());
        }
        self.raft
            .trigger()
            .snapshot()
            .await
            .map_err(|error| stopped(error.to_string()))?;
        self.raft
            .wait(Some(Duration::from_secs(60)))
            .metrics(|metrics| metrics.snapshot >= applied, "snapshot")
            .await
            .map_err(|error| stopped(error.to_string()))?;
        let latest = self.state.latest_snapshot();
        let over = u64::try_from(self.settings.retention_bytes)
            .is_ok_and(|retention| self.log.size_bytes() > retention);
        if let Some(applied) = applied.filter(|_| over) {
            self.raft
                .trigger()
                .purge_log(applied.index)
                .await
                .map_err(|error| stopped(error.to_string()))?;
        }
        Ok(latest)
    }
}

impl MetadataQuorum for QuorumNode {
    fn node_id(&self) -> NodeId {
        self.settings.node_id
    }

    fn append(
        &self,
        epoch: LeaderEpoch,
        base_offset: Offset,
        records: Vec<MetadataRecord>,
    ) -> BoxFuture<'static, Result<AppliedBatch, QuorumAppendError>> {
        let leader = *self.leader.borrow();
        if leader.leader_id != Some(self.settings.node_id) || leader.epoch != epoch {
            return futures::future::ready(Err(self.not_leader())).boxed();
        }
        let (_, log_end_offset) = self.log.offsets();
        if log_end_offset != base_offset {
            let error = QuorumAppendError::UnexpectedEnd {
                log_end_offset,
                expected: base_offset,
            };
            return futures::future::ready(Err(error)).boxed();
        }
        let proposed = match self.encode(&records) {
            Ok(proposed) => proposed,
            Err(error) => return futures::future::ready(Err(error)).boxed(),
        };
        let raft = self.raft.clone();
        async move {
            match raft.client_write(proposed).await {
                Ok(response) => {
                    let applied = response.data;
                    if applied.base_offset != base_offset {
                        error!(
                            "a metadata batch for offset {base_offset} was committed at {}",
                            applied.base_offset
                        );
                    }
                    Ok(applied)
                }
                Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                    Err(QuorumAppendError::NotLeader {
                        leader: forward
                            .leader_id
                            .map(|id| NodeId(super::entry_codec::wire_id(id))),
                        epoch,
                    })
                }
                Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                    Err(QuorumAppendError::Unwritable(error.to_string()))
                }
                Err(RaftError::Fatal(fatal)) => Err(QuorumAppendError::Stopped(fatal.to_string())),
            }
        }
        .boxed()
    }

    fn subscribe(&self) -> (MetadataImage, mpsc::UnboundedReceiver<Committed>) {
        self.state.subscribe()
    }

    fn image(&self) -> MetadataImage {
        self.state.image()
    }

    fn leader(&self) -> watch::Receiver<QuorumLeader> {
        self.leader.clone()
    }

    fn high_watermark(&self) -> watch::Receiver<Offset> {
        self.state.high_watermark()
    }

    fn log_offsets(&self) -> (Offset, Offset) {
        self.log.offsets()
    }

    fn read(
        &self,
        offset: Offset,
        bytes_max: usize,
    ) -> Result<Option<FileRegion>, QuorumReadError> {
        let end_offset = *self.state.high_watermark().borrow();
        let (log_start_offset, _) = self.log.offsets();
        if offset < log_start_offset || offset > end_offset {
            return Err(QuorumReadError::OutOfRange {
                offset,
                log_start_offset,
                end_offset,
            });
        }
        if offset == end_offset {
            return Ok(None);
        }
        self.log
            .read(offset, bytes_max, end_offset)
            .map_err(|error| match error {
                ReadError::OutOfRange { .. } => QuorumReadError::OutOfRange {
                    offset,
                    log_start_offset,
                    end_offset,
                },
                other => QuorumReadError::Failed(other.to_string()),
            })
    }

    fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.log.end_offset_for_epoch(epoch)
    }

    fn latest_snapshot(&self) -> Option<SnapshotId> {
        self.state.latest_snapshot()
    }

    fn snapshot_region(&self, id: SnapshotId) -> Option<FileRegion> {
        let file = self
            .vfs
            .open(&id.path(&self.settings.dir), OpenMode::Read)
            .ok()?;
        let length = usize::try_from(file.len().ok()?).ok()?;
        Some(FileRegion {
            source: file,
            position: 0,
            length,
        })
    }

    fn status(&self) -> QuorumStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let (_, log_end_offset) = self.log.offsets();
        let now_ms = self.clock.wall_ms();
        let end_of = |index: u64| {
            self.log
                .entry_meta(index)
                .map_or(-1, |meta| meta.last_offset + 1)
        };
        let voters = metrics
            .membership_config
            .voter_ids()
            .map(|id| {
                let me = id == metrics.id;
                let matched = metrics
                    .replication
                    .as_ref()
                    .and_then(|replication| replication.get(&id))
                    .and_then(|matched| matched.as_ref())
                    .map(|matched| end_of(matched.index));
                let log_end_offset = if me {
                    log_end_offset
                } else {
                    matched.unwrap_or(-1)
                };
                let seen_ms = if me || matched.is_some() { now_ms } else { -1 };
                ReplicaStatus {
                    replica_id: NodeId(super::entry_codec::wire_id(id)),
                    log_end_offset,
                    last_fetch_ms: seen_ms,
                    last_caught_up_ms: seen_ms,
                }
            })
            .collect();
        QuorumStatus {
            leader: *self.leader.borrow(),
            high_watermark: *self.state.high_watermark().borrow(),
            voters,
        }
    }

    fn voters(&self) -> BTreeMap<NodeId, VoterNode> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        membership
            .voter_ids()
            .map(|id| {
                let node = membership.get_node(&id).cloned().unwrap_or_default();
                (NodeId(super::entry_codec::wire_id(id)), node)
            })
            .collect()
    }

    fn peer_message(&self, data: Bytes) -> BoxFuture<'static, Result<Bytes, PeerMessageError>> {
        let raft = self.raft.clone();
        async move { peers::answer(&raft, data).await }.boxed()
    }

    fn shutdown(&self) -> BoxFuture<'static, ()> {
        let raft = self.raft.clone();
        let log = Arc::clone(&self.log);
        async move {
            let _ = raft.shutdown().await;
            let closed = tokio::task::spawn_blocking(move || log.flush()).await;
            if let Ok(Err(error)) = closed {
                error!("the metadata log cannot be flushed: {error}");
            }
        }
        .boxed()
    }
}
