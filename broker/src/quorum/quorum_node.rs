//! One member of the quorum: opens the folder, starts the engine, and is `MetadataQuorum` to the rest of the broker.
//! Not here: storage (metadata_log.rs, state_machine.rs), connections to the other members (peers.rs).
//! Opened by the composition root; two background tasks watch the engine. A dead engine ends the process.
//! Kafka: kafka.raft.KafkaRaftManager, org.apache.kafka.raft.KafkaRaftClient.

use super::entry_codec::encode_records;
use super::log_store::{LogStore, SharedState};
use super::membership::{VoterChange, VoterChangeError};
use super::metadata_log::{MetadataLog, MetadataLogError};
use super::peers::{self, Member, PeerMessageError};
use super::state_machine::{CommittedState, StateMachine};
use super::types::{AppliedBatch, ProposedBatch, QuorumTypes, RaftNodeId, VoterNode, term};
use super::vote_file::VoteFile;
use super::{
    Committed, MetadataQuorum, QuorumAppendError, QuorumLeader, QuorumReadError, QuorumStatus,
    SnapshotId, engine, first_entries, snapshots, status,
};
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use kavka_common::{Clock, FileRegion, LeaderEpoch, NodeId, Offset};
use kavka_metadata::{MetadataImage, record_version};
use kavka_protocol::MetadataRecord;
use kavka_records::patch_header;
use kavka_storage::vfs::{OpenMode, Vfs};
use kavka_storage::{LogConfig, ReadError, StorageError};
use openraft::Raft;
use openraft::error::{ClientWriteError, Fatal, RaftError};
use openraft::network::RaftNetworkFactory;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::{error, warn};

/// What the quorum acts on; each field is Kafka's key of that name, or follows from several.
#[derive(Clone, Debug)]
pub struct QuorumSettings {
    pub node_id: NodeId,
    pub cluster_id: String,
    /// Of the directory that holds the metadata log, in its text form; empty where it is not known.
    pub directory_id: String,
    /// `<metadata.log.dir or first log.dir>/__cluster_metadata-0`.
    pub dir: PathBuf,
    /// The first members of a new quorum, from `controller.quorum.voters`, `server.N` lines, or this node alone. Empty:
    /// this node waits until the members of a quorum add it.
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

impl QuorumSettings {
    /// Who this node is to the other members.
    pub fn member(&self) -> Member {
        Member {
            cluster_id: self.cluster_id.clone(),
            node_id: self.node_id.get(),
            directory_id: self.directory_id.clone(),
        }
    }
}

/// A running member of the quorum.
pub struct QuorumNode {
    pub settings: QuorumSettings,
    vfs: Arc<dyn Vfs>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) log: Arc<MetadataLog>,
    pub(super) state: Arc<CommittedState>,
    /// Held while something is proposed, so that nothing comes between looking at the log's end and proposing.
    pub(super) proposing: Arc<tokio::sync::Mutex<()>>,
    /// Held while the voters change: one change at a time.
    pub(super) changing: Arc<tokio::sync::Mutex<()>>,
    /// The last refusal of another member's message that was logged.
    refused: Arc<Mutex<String>>,
    /// The engine; the other members' messages go to it.
    pub(super) raft: Raft<QuorumTypes>,
    pub(super) leader: watch::Receiver<QuorumLeader>,
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
        let node_id = first_entries::raft_id(settings.node_id)?;
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
        first_entries::write(&settings, node_id, &store, &log, &state, &shared)?;
        let alone = shared.membership.lock().voter_ids().eq([node_id]);
        let config = engine::config(&settings)?;
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
            if !engine::leads(&raft, node_id).await {
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
            proposing: Arc::default(),
            changing: Arc::default(),
            refused: Arc::default(),
            raft,
            leader,
        });
        tokio::spawn(engine::watch(Arc::clone(&node), leader_sender, on_fatal));
        tokio::spawn(snapshots::keep(Arc::downgrade(&node)));
        Ok(node)
    }

    fn not_leader(&self) -> QuorumAppendError {
        let leader = *self.leader.borrow();
        QuorumAppendError::NotLeader {
            leader: leader.leader_id,
            epoch: leader.epoch,
        }
    }

    /// The batch names the place that it was decided for: see `MetadataLog::append`.
    fn encode(
        &self,
        epoch: LeaderEpoch,
        base_offset: Offset,
        records: &[MetadataRecord],
    ) -> Result<ProposedBatch, QuorumAppendError> {
        let features = self.state.image().features;
        let values = records
            .iter()
            .map(|record| record.encode_value(record_version(record, &features)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| QuorumAppendError::Unwritable(error.to_string()))?;
        let batch = encode_records(&values, self.clock.wall_ms())
            .map_err(|error| QuorumAppendError::Unwritable(error.to_string()))?;
        let mut batch = BytesMut::from(&batch[..]);
        patch_header(&mut batch, base_offset, epoch);
        Ok(ProposedBatch {
            batch: batch.freeze(),
        })
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
        let proposed = match self.encode(epoch, base_offset, &records) {
            Ok(proposed) => proposed,
            Err(error) => return futures::future::ready(Err(error)).boxed(),
        };
        let raft = self.raft.clone();
        let log = Arc::clone(&self.log);
        let proposing = Arc::clone(&self.proposing);
        async move {
            let _alone = proposing.lock_owned().await;
            let (_, log_end_offset) = log.offsets();
            if log_end_offset != base_offset {
                return Err(QuorumAppendError::UnexpectedEnd {
                    log_end_offset,
                    expected: base_offset,
                });
            }
            match raft.client_write(proposed).await {
                Ok(response) => {
                    let applied = response.data;
                    let in_epoch = response.log_id.leader_id.term == term(epoch);
                    if !in_epoch || applied.base_offset != base_offset {
                        return Err(QuorumAppendError::Misplaced {
                            base_offset: applied.base_offset,
                            expected: base_offset,
                        });
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
        status::of(self)
    }

    fn voters(&self) -> BTreeMap<NodeId, VoterNode> {
        let mut voters = status::voters(&self.raft);
        for (id, node) in &mut voters {
            // The configuration knows where a member is now; the log, where it was once.
            if let Some(configured) = self.settings.initial_voters.get(id) {
                node.endpoints.clone_from(&configured.endpoints);
            }
        }
        voters
    }

    fn change_voters(
        &self,
        change: VoterChange,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<(), VoterChangeError>> {
        self.change(change, timeout).boxed()
    }

    fn peer_message(&self, data: Bytes) -> BoxFuture<'static, Result<Bytes, PeerMessageError>> {
        let raft = self.raft.clone();
        let own = self.settings.member();
        let refused = Arc::clone(&self.refused);
        async move {
            let answer = peers::answer(&raft, &own, data).await;
            if let Err(error) = &answer {
                // The same comes with every heartbeat.
                let text = error.to_string();
                let mut refused = refused.lock();
                if *refused != text {
                    warn!(target: "org.apache.kafka.raft.KafkaRaftClient", "a message of the quorum is refused: {text}");
                    *refused = text;
                }
            }
            answer
        }
        .boxed()
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
