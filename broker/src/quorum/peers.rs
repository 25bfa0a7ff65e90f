//! The members of the quorum talk to each other: votes, entries, snapshots, over their controller listeners.
//! Not here: what the engine makes of a message, who may call (the Envelope row asks for ClusterAction).
//! One connection per replication stream, owned by the engine's task for that member; served in connection tasks.
//! The one private message of this project, because the engine's protocol is not Kafka's: it travels as the payload of
//! Kafka's Envelope under an API key that Kafka has not given out, so that any other server refuses it in its own words.
//! openraft: RaftNetwork. Kafka: Vote, BeginQuorumEpoch, Fetch and FetchSnapshot between voters (KIP-595).

use super::entry_codec::{decode_entry, wire_id};
use super::log_store::any_error;
use super::types::{Entry, Membership, QuorumTypes, RaftLogIdOf, RaftNodeId, Vote, VoterNode};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection};
use kavka_common::NodeId;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::EnvelopeRequest;
use kavka_records::batches;
use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{Raft, SnapshotMeta};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

const LOGGER: &str = "org.apache.kafka.raft.KafkaRaftClient";
/// Reserved for the members of the quorum; Kafka counts its keys up from 0.
pub const PEER_API_KEY: i16 = 0x4b76;
const PEER_API_VERSION: i16 = 1;
/// A connection attempt to a member that does not answer must not outlast an election.
const CONNECT_TIMEOUT_MS: u64 = 500;
/// Pauses before a member that was not reached is tried again.
const BACKOFF: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// Who a member is to the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub cluster_id: String,
    /// A node id, as on the wire.
    pub node_id: i32,
    /// In its text form; empty where it is not known.
    pub directory_id: String,
}

/// What stands in front of the raw bytes of a message.
#[derive(Debug, Serialize, Deserialize)]
struct PeerMessage {
    from: Member,
    /// Whom the sender believes to reach; none for `Hello`.
    to: Option<(i32, String)>,
    request: PeerRequest,
}

#[derive(Debug, Serialize, Deserialize)]
enum PeerRequest {
    /// Asks whoever listens who it is. Answered to everybody.
    Hello,
    Append {
        vote: Vote,
        prev_log_id: Option<RaftLogIdOf>,
        leader_commit: Option<RaftLogIdOf>,
        /// Of the first batch that follows.
        first_index: u64,
    },
    Vote(VoteRequest<RaftNodeId>),
    Snapshot {
        vote: Vote,
        meta: SnapshotMeta<RaftNodeId, VoterNode>,
        offset: u64,
        done: bool,
    },
}

/// A message that is not one of ours.
#[derive(Debug, thiserror::Error)]
pub enum PeerMessageError {
    #[error("not a message between members of the quorum")]
    NotOurs,
    #[error("version {0} of the members' messages is not known")]
    Version(i16),
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("node {from} is of cluster {theirs}, node {to} of cluster {ours}")]
    OtherCluster {
        from: i32,
        theirs: String,
        to: i32,
        ours: String,
    },
    #[error("this is node {ours}, and node {asked} was wanted")]
    OtherNode { asked: i32, ours: i32 },
    /// KIP-853: a node whose log was lost, or another one under the same id, must not vote for what it does not have.
    #[error(
        "node {node_id} has directory {found}, and the voter has directory {expected}; if its disk was replaced, remove the voter and add it again"
    )]
    OtherDirectory {
        node_id: i32,
        found: String,
        expected: String,
    },
    #[error("entry {index}: {source}")]
    Entry {
        index: u64,
        source: super::entry_codec::CodecError,
    },
}

impl PeerMessageError {
    pub fn error_code(&self) -> ErrorCode {
        match self {
            PeerMessageError::OtherCluster { .. } => ErrorCode::InconsistentClusterId,
            PeerMessageError::OtherNode { .. } | PeerMessageError::OtherDirectory { .. } => {
                ErrorCode::InvalidVoterKey
            }
            PeerMessageError::NotOurs
            | PeerMessageError::Version(_)
            | PeerMessageError::Json(_)
            | PeerMessageError::Entry { .. } => ErrorCode::InvalidRequest,
        }
    }
}

/// Whether a message is for this member, and from one of its quorum.
fn check(own: &Member, known: &Membership, message: &PeerMessage) -> Result<(), PeerMessageError> {
    let from = &message.from;
    if from.cluster_id != own.cluster_id {
        return Err(PeerMessageError::OtherCluster {
            from: from.node_id,
            theirs: from.cluster_id.clone(),
            to: own.node_id,
            ours: own.cluster_id.clone(),
        });
    }
    if let Some((asked, directory_id)) = &message.to {
        if *asked != own.node_id {
            return Err(PeerMessageError::OtherNode {
                asked: *asked,
                ours: own.node_id,
            });
        }
        same_directory(own.node_id, &own.directory_id, directory_id)?;
    }
    let sender = u64::try_from(from.node_id)
        .ok()
        .and_then(|id| known.get_node(&id));
    match sender {
        Some(node) => same_directory(from.node_id, &from.directory_id, &node.directory_id),
        None => Ok(()),
    }
}

fn same_directory(node_id: i32, found: &str, expected: &str) -> Result<(), PeerMessageError> {
    if found.is_empty() || expected.is_empty() || found == expected {
        return Ok(());
    }
    Err(PeerMessageError::OtherDirectory {
        node_id,
        found: found.to_owned(),
        expected: expected.to_owned(),
    })
}

fn encode(message: &PeerMessage, raw: &[&[u8]]) -> Bytes {
    let header = serde_json::to_vec(message).expect("numbers and names serialise");
    let mut out =
        BytesMut::with_capacity(8 + header.len() + raw.iter().map(|b| b.len()).sum::<usize>());
    out.put_i16(PEER_API_KEY);
    out.put_i16(PEER_API_VERSION);
    out.put_u32(u32::try_from(header.len()).expect("a header is small"));
    out.put_slice(&header);
    for bytes in raw {
        out.put_slice(bytes);
    }
    out.freeze()
}

fn decode(mut bytes: Bytes) -> Result<(PeerMessage, Bytes), PeerMessageError> {
    if bytes.len() < 8 || bytes.get_i16() != PEER_API_KEY {
        return Err(PeerMessageError::NotOurs);
    }
    let version = bytes.get_i16();
    if version != PEER_API_VERSION {
        return Err(PeerMessageError::Version(version));
    }
    let length = usize::try_from(bytes.get_u32()).map_err(|_| PeerMessageError::NotOurs)?;
    if length > bytes.len() {
        return Err(PeerMessageError::NotOurs);
    }
    let header = bytes.split_to(length);
    Ok((serde_json::from_slice(&header)?, bytes))
}

fn decode_entries(first_index: u64, raw: &Bytes) -> Result<Vec<Entry>, PeerMessageError> {
    let mut entries = Vec::new();
    for (index, batch) in (first_index..).zip(batches(raw)) {
        let wrong = |source| PeerMessageError::Entry { index, source };
        let batch = batch.map_err(|error| wrong(error.into()))?;
        let (_, entry) = decode_entry(index, raw.slice_ref(batch.bytes())).map_err(wrong)?;
        entries.push(entry);
    }
    Ok(entries)
}

/// Whether an Envelope is a message between members, and not a client's request that a broker forwards.
pub fn is_peer_message(data: &Bytes) -> bool {
    data.first_chunk::<2>() == Some(&PEER_API_KEY.to_be_bytes())
}

/// Answers another member.
pub(super) async fn answer(
    raft: &Raft<QuorumTypes>,
    own: &Member,
    data: Bytes,
) -> Result<Bytes, PeerMessageError> {
    let (message, raw) = decode(data)?;
    if !matches!(message.request, PeerRequest::Hello) {
        let metrics = raft.metrics();
        check(
            own,
            metrics.borrow().membership_config.membership(),
            &message,
        )?;
    }
    let answer = match message.request {
        PeerRequest::Hello => serde_json::to_vec(own)?,
        PeerRequest::Append {
            vote,
            prev_log_id,
            leader_commit,
            first_index,
        } => {
            let request = AppendEntriesRequest {
                vote,
                prev_log_id,
                entries: decode_entries(first_index, &raw)?,
                leader_commit,
            };
            serde_json::to_vec(&raft.append_entries(request).await)?
        }
        PeerRequest::Vote(request) => serde_json::to_vec(&raft.vote(request).await)?,
        PeerRequest::Snapshot {
            vote,
            meta,
            offset,
            done,
        } => {
            let request = InstallSnapshotRequest {
                vote,
                meta,
                offset,
                data: raw.to_vec(),
                done,
            };
            serde_json::to_vec(&raft.install_snapshot(request).await)?
        }
    };
    Ok(answer.into())
}

/// Asks who listens at an address.
pub async fn hello(
    own: &Member,
    address: &BrokerAddress,
    timeout: Duration,
) -> Result<Member, String> {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let config = ClientConfig {
        client_id: format!("quorum-{}", own.node_id),
        connect_timeout_ms: timeout_ms,
        request_timeout_ms: timeout_ms,
        ..ClientConfig::default()
    };
    let exchange = async {
        let words = |error: ClientError| error.to_string();
        let mut connection = Connection::connect(address, &config).await.map_err(words)?;
        let message = PeerMessage {
            from: own.clone(),
            to: None,
            request: PeerRequest::Hello,
        };
        let envelope = EnvelopeRequest {
            request_data: encode(&message, &[]),
            ..Default::default()
        };
        let response = connection.call(&envelope).await.map_err(words)?;
        match ErrorCode::from(response.error_code) {
            ErrorCode::None => {
                let data = response.response_data.unwrap_or_default();
                serde_json::from_slice(&data).map_err(|error| error.to_string())
            }
            error => Err(error.name().to_owned()),
        }
    };
    // A listener that is bound but not served yet accepts and says nothing.
    match tokio::time::timeout(timeout, exchange).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer".to_owned()),
    }
}

/// Makes connections to the other members.
#[derive(Clone, Debug)]
pub struct Peers {
    own: Arc<Member>,
    /// Where members are by the configuration, which goes before what the log says.
    addresses: Arc<BTreeMap<NodeId, VoterNode>>,
}

impl Peers {
    pub fn new(own: Member, addresses: BTreeMap<NodeId, VoterNode>) -> Self {
        Peers {
            own: Arc::new(own),
            addresses: Arc::new(addresses),
        }
    }
}

impl RaftNetworkFactory<QuorumTypes> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: RaftNodeId, node: &VoterNode) -> Peer {
        let target = NodeId(wire_id(target));
        let mut node = node.clone();
        if let Some(configured) = self.addresses.get(&target) {
            node.endpoints.clone_from(&configured.endpoints);
        }
        Peer {
            target,
            node,
            own: Arc::clone(&self.own),
            connection: None,
            unreachable: false,
        }
    }
}

/// Another member.
pub struct Peer {
    target: NodeId,
    node: VoterNode,
    own: Arc<Member>,
    connection: Option<Connection>,
    /// Said already that it does not answer, or not as it should.
    unreachable: bool,
}

type PeerError<E> = RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId, E>>;

impl Peer {
    async fn exchange<T, E>(
        &mut self,
        request: PeerRequest,
        raw: &[&[u8]],
        option: &RPCOption,
    ) -> Result<T, PeerError<E>>
    where
        T: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let unreachable = |error: &ClientError| RPCError::Unreachable(Unreachable::new(error));
        let target = u64::try_from(self.target.get()).unwrap_or_default();
        // Taken out for the time of the call: the engine drops a call that takes too long, and with it a connection on
        // which the answer may still arrive.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.connect(option).await {
                Ok(connection) => connection,
                Err(error) => {
                    if !self.unreachable {
                        self.unreachable = true;
                        warn!(target: LOGGER, "node {} does not answer: {error}", self.target);
                    }
                    return Err(error);
                }
            },
        };
        let message = PeerMessage {
            from: Member::clone(&self.own),
            to: Some((self.target.get(), self.node.directory_id.clone())),
            request,
        };
        let envelope = EnvelopeRequest {
            request_data: encode(&message, raw),
            ..Default::default()
        };
        let response = connection
            .call(&envelope)
            .await
            .map_err(|error| unreachable(&error))?;
        self.connection = Some(connection);
        let refused = |text: String| {
            let error = io::Error::other(text);
            RPCError::Network(NetworkError::new(&error))
        };
        if response.error_code != 0 {
            let code = ErrorCode::from(response.error_code);
            let why =
                String::from_utf8_lossy(response.response_data.as_deref().unwrap_or_default())
                    .into_owned();
            let text = format!("node {} answers {}: {why}", self.target, code.name());
            if !self.unreachable {
                self.unreachable = true;
                warn!(target: LOGGER, "{text}");
            }
            return Err(refused(text));
        }
        if self.unreachable {
            self.unreachable = false;
            info!(target: LOGGER, "node {} answers again", self.target);
        }
        let data = response.response_data.unwrap_or_default();
        let answer: Result<T, RaftError<RaftNodeId, E>> =
            serde_json::from_slice(&data).map_err(|error| refused(error.to_string()))?;
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(target, error)))
    }

    async fn connect<E: std::error::Error>(
        &self,
        option: &RPCOption,
    ) -> Result<Connection, PeerError<E>> {
        let Some(endpoint) = self.node.endpoints.first() else {
            let error =
                io::Error::other(format!("the address of node {} is not known", self.target));
            return Err(RPCError::Unreachable(Unreachable::new(&error)));
        };
        let ttl_ms = u64::try_from(option.hard_ttl().as_millis()).unwrap_or(u64::MAX);
        let config = ClientConfig {
            client_id: format!("quorum-{}", self.own.node_id),
            connect_timeout_ms: CONNECT_TIMEOUT_MS,
            request_timeout_ms: ttl_ms.max(CONNECT_TIMEOUT_MS),
            ..ClientConfig::default()
        };
        let address = BrokerAddress::new(endpoint.host.clone(), endpoint.port);
        Connection::connect(&address, &config)
            .await
            .map_err(|error| RPCError::Unreachable(Unreachable::from(any_error(&error))))
    }
}

impl RaftNetwork<QuorumTypes> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<QuorumTypes>,
        option: RPCOption,
    ) -> Result<
        AppendEntriesResponse<RaftNodeId>,
        RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId>>,
    > {
        let header = PeerRequest::Append {
            vote: request.vote,
            prev_log_id: request.prev_log_id,
            leader_commit: request.leader_commit,
            first_index: request.entries.first().map_or(0, Entry::index),
        };
        let raw: Vec<&[u8]> = request
            .entries
            .iter()
            .map(|entry| &entry.batch[..])
            .collect();
        self.exchange(header, &raw, &option).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<QuorumTypes>,
        option: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<RaftNodeId>,
        RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId, InstallSnapshotError>>,
    > {
        let header = PeerRequest::Snapshot {
            vote: request.vote,
            meta: request.meta,
            offset: request.offset,
            done: request.done,
        };
        self.exchange(header, &[&request.data], &option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<RaftNodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<RaftNodeId>, RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId>>>
    {
        self.exchange(PeerRequest::Vote(request), &[], &option)
            .await
    }

    fn backoff(&self) -> Backoff {
        let last = BACKOFF[BACKOFF.len() - 1];
        Backoff::new(BACKOFF.into_iter().chain(std::iter::repeat(last)))
    }
}
