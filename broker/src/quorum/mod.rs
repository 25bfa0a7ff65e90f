//! The metadata quorum: the replicated log of metadata records, behind one trait, so that the consensus engine
//! (openraft) can be replaced without touching log, brokers or tools.
//! Not here: what the records mean (crates/metadata), who decides them (broker/src/controller).
//! The engine has its own tasks; everything given out is shared and may be used from any task.
//! Kafka: org.apache.kafka.raft.{RaftClient, KafkaRaftClient}; KIP-500, KIP-595, KIP-630, KIP-853.

mod engine;
pub mod entry_codec;
mod first_entries;
pub mod index_file;
pub mod log_store;
mod membership;
pub mod metadata_log;
pub mod no_peers;
pub mod observers;
pub mod peers;
pub mod quorum_node;
pub mod recovery_point_file;
pub mod snapshot_file;
mod snapshots;
pub mod state_machine;
mod status;
pub mod types;
pub mod vote_file;

#[cfg(test)]
mod log_store_test;
#[cfg(test)]
mod metadata_log_test;
#[cfg(test)]
mod peers_test;
#[cfg(test)]
mod quorum_node_test;

pub use membership::{VoterChange, VoterChangeError};
pub use observers::Observers;
pub use peers::{Member, PeerMessageError, Peers, hello, is_peer_message};
pub use quorum_node::{OnFatal, QuorumNode, QuorumOpenError, QuorumSettings};
pub use snapshot_file::SnapshotId;
pub use types::{AppliedBatch, VoterEndpoint, VoterNode};

use bytes::Bytes;
use futures::future::BoxFuture;
use kavka_common::{FileRegion, LeaderEpoch, NodeId, Offset, Uuid};
use kavka_metadata::{MetadataDelta, MetadataImage};
use kavka_protocol::MetadataRecord;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Who leads the quorum, as far as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumLeader {
    pub leader_id: Option<NodeId>,
    pub epoch: LeaderEpoch,
}

/// A batch that can no longer be lost, with the image that it makes.
#[derive(Clone, Debug)]
pub struct CommittedBatch {
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub epoch: LeaderEpoch,
    pub append_ms: i64,
    /// Empty for a control batch.
    pub records: Vec<MetadataRecord>,
    pub image: MetadataImage,
    pub delta: MetadataDelta,
}

/// The node jumped to a snapshot, because the leader no longer has the records that are missing.
#[derive(Clone, Debug)]
pub struct SnapshotInstalled {
    pub image: MetadataImage,
}

/// What a subscriber is told, in order.
#[derive(Clone, Debug)]
pub enum Committed {
    Batch(Arc<CommittedBatch>),
    Snapshot(Arc<SnapshotInstalled>),
}

/// Why a batch was not committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuorumAppendError {
    /// This node does not lead, or not in that epoch any more. The batch may still be committed by the next leader
    /// if it was already replicated.
    #[error("not the leader of the metadata quorum; it is {leader:?} in epoch {epoch}")]
    NotLeader {
        leader: Option<NodeId>,
        epoch: LeaderEpoch,
    },
    /// The log ends elsewhere than the caller believes.
    #[error("the metadata log ends at {log_end_offset}, not at {expected}")]
    UnexpectedEnd {
        log_end_offset: Offset,
        expected: Offset,
    },
    /// Another leader wrote in between. The batch was decided on what is no longer the log's end, so it was written
    /// without effect.
    #[error(
        "a batch for offset {expected} of the metadata log came to offset {base_offset}, where it has no effect"
    )]
    Misplaced {
        base_offset: Offset,
        expected: Offset,
    },
    /// A record cannot be written.
    #[error("{0}")]
    Unwritable(String),
    /// The engine has stopped.
    #[error("the metadata quorum has stopped: {0}")]
    Stopped(String),
}

/// Replication state of a member or an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    pub replica_id: NodeId,
    /// Zero where it is not known.
    pub directory_id: Uuid,
    /// -1 when it is not known.
    pub log_end_offset: Offset,
    pub last_fetch_ms: i64,
    pub last_caught_up_ms: i64,
}

/// The quorum as DescribeQuorum shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStatus {
    pub leader: QuorumLeader,
    pub high_watermark: Offset,
    pub voters: Vec<ReplicaStatus>,
}

/// Why the committed log cannot be read at an offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuorumReadError {
    /// The offset lies before the log, or behind it.
    #[error("offset {offset} is not in {log_start_offset}..={end_offset}")]
    OutOfRange {
        offset: Offset,
        log_start_offset: Offset,
        end_offset: Offset,
    },
    #[error("{0}")]
    Failed(String),
}

/// The replicated log of metadata records.
pub trait MetadataQuorum: Send + Sync + 'static {
    fn node_id(&self) -> NodeId;

    /// Appends one batch as the leader of `epoch`, with the first record at `base_offset`; done when it is committed and
    /// in the image. One batch at a time: the next one may be appended when this one is answered.
    fn append(
        &self,
        epoch: LeaderEpoch,
        base_offset: Offset,
        records: Vec<MetadataRecord>,
    ) -> BoxFuture<'static, Result<AppliedBatch, QuorumAppendError>>;

    /// The image as it is, and everything that is committed after it.
    fn subscribe(&self) -> (MetadataImage, mpsc::UnboundedReceiver<Committed>);

    fn image(&self) -> MetadataImage;

    fn leader(&self) -> watch::Receiver<QuorumLeader>;

    /// Offset behind the last committed batch.
    fn high_watermark(&self) -> watch::Receiver<Offset>;

    /// Log start offset and log end offset.
    fn log_offsets(&self) -> (Offset, Offset);

    /// Committed batches from `offset` on as a region of a log file; none when there are no more.
    fn read(&self, offset: Offset, bytes_max: usize)
    -> Result<Option<FileRegion>, QuorumReadError>;

    /// The largest epoch not above `epoch`, and where it ends.
    fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)>;

    fn latest_snapshot(&self) -> Option<SnapshotId>;

    /// A snapshot's file as a region of its whole length; none when there is no such snapshot.
    fn snapshot_region(&self, id: SnapshotId) -> Option<FileRegion>;

    fn status(&self) -> QuorumStatus;

    /// The members with their addresses.
    fn voters(&self) -> BTreeMap<NodeId, VoterNode>;

    /// Adds, removes or moves a voter, as the leader; done when the change is committed. `timeout` is for a new voter to
    /// answer and to catch up.
    fn change_voters(
        &self,
        change: VoterChange,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<(), VoterChangeError>>;

    /// Answers a message of another member, which came as the payload of an Envelope.
    fn peer_message(&self, data: Bytes) -> BoxFuture<'static, Result<Bytes, PeerMessageError>>;

    /// Stops the engine and closes the log.
    fn shutdown(&self) -> BoxFuture<'static, ()>;
}
