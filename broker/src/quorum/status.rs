//! The quorum as DescribeQuorum shows it, from the engine's metrics.
//! Not here: observers (observers.rs).
//! Any task.
//! Kafka: LeaderState.describeQuorum; KIP-836.

use super::entry_codec::wire_id;
use super::quorum_node::QuorumNode;
use super::types::{QuorumTypes, VoterNode};
use super::{QuorumStatus, ReplicaStatus};
use kavka_common::{NodeId, Uuid};
use openraft::Raft;
use std::collections::BTreeMap;

/// The quorum at this moment. Only the leader knows how far the others are.
pub(super) fn of(node: &QuorumNode) -> QuorumStatus {
    let metrics = node.raft.metrics();
    let metrics = metrics.borrow();
    let (_, log_end_offset) = node.log.offsets();
    let now_ms = node.clock.wall_ms();
    let end_of = |index: u64| {
        node.log
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
            let directory_id = metrics
                .membership_config
                .membership()
                .get_node(&id)
                .and_then(|node| node.directory_id.parse().ok());
            ReplicaStatus {
                replica_id: NodeId(wire_id(id)),
                directory_id: directory_id.unwrap_or(Uuid::ZERO),
                log_end_offset,
                last_fetch_ms: seen_ms,
                last_caught_up_ms: seen_ms,
            }
        })
        .collect();
    QuorumStatus {
        leader: *node.leader.borrow(),
        high_watermark: *node.state.high_watermark().borrow(),
        voters,
    }
}

/// The members that vote, with their addresses.
pub(super) fn voters(raft: &Raft<QuorumTypes>) -> BTreeMap<NodeId, VoterNode> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    let membership = metrics.membership_config.membership();
    membership
        .voter_ids()
        .map(|id| {
            let node = membership.get_node(&id).cloned().unwrap_or_default();
            (NodeId(wire_id(id)), node)
        })
        .collect()
}
