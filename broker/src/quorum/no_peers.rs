//! The connections of a quorum of one: there are none.
//! Not here: real connections (peers.rs).
//! The engine never calls it. openraft: RaftNetworkFactory.

use super::types::{QuorumTypes, RaftNodeId, VoterNode};
use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use std::io;

/// Makes connections that fail.
#[derive(Clone, Copy, Debug)]
pub struct NoPeers;

fn unreachable<E: std::error::Error>() -> RPCError<RaftNodeId, VoterNode, E> {
    let error = io::Error::from(io::ErrorKind::NotConnected);
    RPCError::Unreachable(Unreachable::new(&error))
}

impl RaftNetworkFactory<QuorumTypes> for NoPeers {
    type Network = NoPeers;

    async fn new_client(&mut self, _target: RaftNodeId, _node: &VoterNode) -> NoPeers {
        NoPeers
    }
}

impl RaftNetwork<QuorumTypes> for NoPeers {
    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<QuorumTypes>,
        _option: RPCOption,
    ) -> Result<
        AppendEntriesResponse<RaftNodeId>,
        RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId>>,
    > {
        Err(unreachable())
    }

    async fn install_snapshot(
        &mut self,
        _request: InstallSnapshotRequest<QuorumTypes>,
        _option: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<RaftNodeId>,
        RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId, InstallSnapshotError>>,
    > {
        Err(unreachable())
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<RaftNodeId>,
        _option: RPCOption,
    ) -> Result<VoteResponse<RaftNodeId>, RPCError<RaftNodeId, VoterNode, RaftError<RaftNodeId>>>
    {
        Err(unreachable())
    }
}
