//! The members of the quorum talk to each other: votes, entries, snapshots, over their controller listeners.
//! Not here: what the engine makes of a message, who may call (the Envelope row asks for ClusterAction).
//! One connection per replication stream, owned by the engine's task for that member; served in connection tasks.
//! The one private message of this project, because the engine's protocol is not Kafka's: it travels as the payload of
//! Kafka's Envelope under an API key that Kafka has not given out, so that any other server refuses it in its own words.
//! openraft: RaftNetwork. Kafka: Vote, BeginQuorumEpoch, Fetch and FetchSnapshot between voters (KIP-595).

use super::entry_codec::decode_entry;
use super::log_store::any_error;
use super::types::{Entry, QuorumTypes, RaftLogIdOf, RaftNodeId, Vote, VoterNode};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection};
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
use std::io;
use std::time::Duration;
use tracing::{info, warn};

const LOGGER: &str = "org.apache.kafka.raft.KafkaRaftClient";
/// Reserved for the members of the quorum; Kafka counts its keys up from 0.
pub const PEER_API_KEY: i16 = 0x4b76;
const PEER_API_VERSION: i16 = 0;
/// A connection attempt to a member that does not answer must not outlast an election.
const CONNECT_TIMEOUT_MS: u64 = 500;
/// Pauses before a member that was not reached is tried again.
const BACKOFF: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// What stands in front of the raw bytes of a message.
#[derive(Debug, Serialize, Deserialize)]
enum PeerRequest {
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
    #[error("entry {index}: {source}")]
    Entry {
        index: u64,
        source: super::entry_codec::CodecError,
    },
}

fn encode(request: &PeerRequest, raw: &[&[u8]]) -> Bytes {
    let header = serde_json::to_vec(request).expect("numbers and names serialise");
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

fn decode(mut bytes: Bytes) -> Result<(PeerRequest, Bytes), PeerMessageError> {
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
    data: Bytes,
) -> Result<Bytes, PeerMessageError> {
    let (request, raw) = decode(data)?;
    let answer = match request {
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

/// Makes connections to the other members.
#[derive(Clone, Debug)]
pub struct Peers {
    client_id: String,
}

impl Peers {
    pub fn new(node_id: kavka_common::NodeId) -> Self {
        Peers {
            client_id: format!("quorum-{node_id}"),
        }
    }
}

impl RaftNetworkFactory<QuorumTypes> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: RaftNodeId, node: &VoterNode) -> Peer {
        Peer {
            target,
            node: node.clone(),
            client_id: self.client_id.clone(),
            connection: None,
            unreachable: false,
        }
    }
}

/// Another member.
pub struct Peer {
    target: RaftNodeId,
    node: VoterNode,
    client_id: String,
    connection: Option<Connection>,
    /// Said already that it does not answer.
    unreachable: bool,
}

type PeerError<E> = RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId, E>>;

impl Peer {
    async fn exchange<T, E>(
        &mut self,
        request: &PeerRequest,
        raw: &[&[u8]],
        option: &RPCOption,
    ) -> Result<T, PeerError<E>>
    where
        T: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let unreachable = |error: &ClientError| RPCError::Unreachable(Unreachable::new(error));
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
        let envelope = EnvelopeRequest {
            request_data: encode(request, raw),
            ..Default::default()
        };
        let response = connection
            .call(&envelope)
            .await
            .map_err(|error| unreachable(&error))?;
        self.connection = Some(connection);
        if self.unreachable {
            self.unreachable = false;
            info!(target: LOGGER, "node {} answers again", self.target);
        }
        let refused = |text: String| {
            let error = io::Error::other(text);
            RPCError::Network(NetworkError::new(&error))
        };
        if response.error_code != 0 {
            let code = ErrorCode::from(response.error_code);
            return Err(refused(format!(
                "node {} answers {}",
                self.target,
                code.name()
            )));
        }
        let data = response.response_data.unwrap_or_default();
        let answer: Result<T, RaftError<RaftNodeId, E>> =
            serde_json::from_slice(&data).map_err(|error| refused(error.to_string()))?;
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.target, error)))
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
            client_id: self.client_id.clone(),
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
        self.exchange(&header, &raw, &option).await
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
        self.exchange(&header, &[&request.data], &option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<RaftNodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<RaftNodeId>, RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId>>>
    {
        self.exchange(&PeerRequest::Vote(request), &[], &option)
            .await
    }

    fn backoff(&self) -> Backoff {
        let last = BACKOFF[BACKOFF.len() - 1];
        Backoff::new(BACKOFF.into_iter().chain(std::iter::repeat(last)))
    }
}
