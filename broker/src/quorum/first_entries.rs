//! What a new quorum's folder is given before the engine starts, and what an old one says of its members.
//! Not here: reading the folder (metadata_log.rs, state_machine.rs).
//! Runs once, while the node is opened. Every write is durable before the engine sees it.
//! Kafka: KafkaRaftClient.initialize, VoterSet.fromMap; the 0-0.checkpoint of kafka-storage format (KIP-853).

use super::entry_codec::{log_id, membership_of, wire_id};
use super::log_store::{LogStore, SharedState};
use super::metadata_log::MetadataLog;
use super::quorum_node::{QuorumOpenError, QuorumSettings};
use super::state_machine::CommittedState;
use super::types::{Entry, RaftNodeId, StoredMembership, Vote};
use kavka_common::{LeaderEpoch, NodeId};
use openraft::entry::RaftEntry;
use std::collections::BTreeMap;
use tracing::warn;

pub(super) fn raft_id(node_id: NodeId) -> Result<RaftNodeId, QuorumOpenError> {
    u64::try_from(node_id.0)
        .map_err(|_| QuorumOpenError::Settings(format!("node.id {node_id} is negative")))
}

/// Writes what the engine needs to find in an empty folder. Every member writes the same first entry, so that it does
/// not matter who comes first. A quorum of one also elects itself here: one vote and one fsync instead of an election.
pub(super) fn write(
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
        if known || settings.initial_voters.is_empty() {
            // It was removed, or not added yet: it copies the log when the leader sends it, and does not vote.
            warn!(target: "org.apache.kafka.raft.KafkaRaftClient", "node {} is not a voter of the metadata quorum; kafka-metadata-quorum.sh add-controller makes it one", settings.node_id);
            return Ok(());
        }
        return Err(QuorumOpenError::NotAVoter {
            node_id: settings.node_id,
            voters: membership.voter_ids().map(wire_id).collect(),
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
        log_id(LeaderEpoch::INITIAL, 0),
        membership.clone(),
    )];
    if membership.voter_ids().eq([node_id]) {
        store.write_vote(Vote::new_committed(1, node_id))?;
        entries.push(Entry::new_blank(log_id(LeaderEpoch(1), 1)));
    }
    store.append_now(entries)?;
    Ok(())
}
