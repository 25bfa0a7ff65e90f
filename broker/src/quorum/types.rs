//! The types that the consensus engine is instantiated with: node ids, voters, log entries.
//! Not here: how entries look on disk (entry_codec.rs), storing them (log_store.rs).
//! Plain data. The engine is openraft; nothing outside this folder names its types.
//! Kafka: org.apache.kafka.raft.{ReplicaKey, VoterSet}, Batch; KIP-595, KIP-853.

use bytes::Bytes;
use kavka_common::{LeaderEpoch, Offset};
use openraft::entry::{FromAppData, RaftEntry, RaftPayload};
use openraft::{LogId, RaftLogId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Cursor;

/// Node id as the engine counts it. Kafka's ids are never negative, so the two convert without loss.
pub type RaftNodeId = u64;
pub type RaftLogIdOf = LogId<RaftNodeId>;
pub type Membership = openraft::Membership<RaftNodeId, VoterNode>;
pub type StoredMembership = openraft::StoredMembership<RaftNodeId, VoterNode>;
pub type Vote = openraft::Vote<RaftNodeId>;
pub type EngineStorageError = openraft::StorageError<RaftNodeId>;

openraft::declare_raft_types!(
    /// One raft entry is one batch of the metadata log.
    pub QuorumTypes:
        D = ProposedBatch,
        R = AppliedBatch,
        NodeId = RaftNodeId,
        Node = VoterNode,
        Entry = Entry,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = openraft::TokioRuntime,
);

/// Where a member of the quorum is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterNode {
    /// Kafka's directory id in its text form; empty while it is not known.
    pub directory_id: String,
    pub endpoints: Vec<VoterEndpoint>,
}

/// A controller listener of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterEndpoint {
    pub name: String,
    pub host: String,
    pub port: u16,
}

impl VoterNode {
    pub fn new(listener: &str, host: &str, port: u16) -> Self {
        VoterNode {
            directory_id: String::new(),
            endpoints: vec![VoterEndpoint {
                name: listener.to_owned(),
                host: host.to_owned(),
                port,
            }],
        }
    }
}

/// A batch of metadata records on its way into the log: base offset and leader epoch are not assigned yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedBatch {
    #[serde(with = "batch_bytes")]
    pub batch: Bytes,
}

/// Where an entry ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedBatch {
    pub base_offset: Offset,
    pub last_offset: Offset,
}

/// What an entry means to the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// The first entry of a leader: a LeaderChange control batch.
    Blank,
    /// Metadata records, or control records that the engine need not know.
    Records,
    /// A KRaftVoters control batch.
    Membership(Membership),
}

/// An entry of the engine's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub log_id: RaftLogIdOf,
    pub payload: Payload,
    /// The batch. Empty for a blank or membership entry that the engine has just made: the store writes it.
    #[serde(with = "batch_bytes")]
    pub batch: Bytes,
}

impl Entry {
    pub fn term(&self) -> u64 {
        self.log_id.leader_id.term
    }

    pub fn index(&self) -> u64 {
        self.log_id.index
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.payload {
            Payload::Blank => "leader change",
            Payload::Records => "records",
            Payload::Membership(_) => "voters",
        };
        write!(f, "{}:{what}", self.log_id)
    }
}

impl FromAppData<ProposedBatch> for Entry {
    fn from_app_data(proposed: ProposedBatch) -> Self {
        Entry {
            log_id: RaftLogIdOf::default(),
            payload: Payload::Records,
            batch: proposed.batch,
        }
    }
}

impl RaftLogId<RaftNodeId> for Entry {
    fn get_log_id(&self) -> &RaftLogIdOf {
        &self.log_id
    }

    fn set_log_id(&mut self, log_id: &RaftLogIdOf) {
        self.log_id = *log_id;
    }
}

impl RaftPayload<RaftNodeId, VoterNode> for Entry {
    fn is_blank(&self) -> bool {
        matches!(self.payload, Payload::Blank)
    }

    fn get_membership(&self) -> Option<&Membership> {
        match &self.payload {
            Payload::Membership(membership) => Some(membership),
            Payload::Blank | Payload::Records => None,
        }
    }
}

impl RaftEntry<RaftNodeId, VoterNode> for Entry {
    fn new_blank(log_id: RaftLogIdOf) -> Self {
        Entry {
            log_id,
            payload: Payload::Blank,
            batch: Bytes::new(),
        }
    }

    fn new_membership(log_id: RaftLogIdOf, membership: Membership) -> Self {
        Entry {
            log_id,
            payload: Payload::Membership(membership),
            batch: Bytes::new(),
        }
    }
}

/// The engine's term as Kafka's leader epoch. Terms grow by one per election and never reach the bound.
pub fn leader_epoch(term: u64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(term).expect("fewer than 2^31 elections"))
}

/// Kafka's leader epoch as the engine's term; batches without an epoch belong to term 0.
pub fn term(epoch: LeaderEpoch) -> u64 {
    u64::try_from(epoch.0).unwrap_or(0)
}

mod batch_bytes {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        bytes[..].serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        Vec::<u8>::deserialize(from).map(Bytes::from)
    }
}
