//! The engine beside its data: its settings, who leads as it sees it, and whether it is alive.
//! Not here: opening it (quorum_node.rs), its log and state machine.
//! `watch` is a task that ends with the engine; a dead engine ends the process.
//! openraft: Config, RaftMetrics. Kafka: QuorumState, KafkaRaftClient.poll.

use super::QuorumLeader;
use super::entry_codec::wire_id;
use super::quorum_node::{OnFatal, QuorumNode, QuorumOpenError, QuorumSettings};
use super::types::{QuorumTypes, RaftNodeId, VoterNode, leader_epoch};
use kavka_common::NodeId;
use openraft::error::Fatal;
use openraft::{Raft, ServerState, SnapshotPolicy};
use std::sync::Arc;
use tokio::sync::watch;
use tracing::{error, info};

impl QuorumLeader {
    pub(super) fn of(
        metrics: &openraft::RaftMetrics<RaftNodeId, VoterNode>,
        fetch_timeout_ms: u64,
        alone: bool,
    ) -> Self {
        let epoch = leader_epoch(metrics.current_term);
        // KAFKA-15489: a leader that is cut off from the majority must not act as one.
        let cut_off = !alone
            && metrics.state == ServerState::Leader
            && metrics
                .millis_since_quorum_ack
                .is_some_and(|silence| silence > fetch_timeout_ms);
        // A leader that was removed from the voters still finds its old vote when it starts again.
        let leads = |id: RaftNodeId| id != metrics.id || metrics.state == ServerState::Leader;
        QuorumLeader {
            leader_id: metrics
                .current_leader
                .filter(|id| !cut_off && leads(*id))
                .map(|id| NodeId(wire_id(id))),
            epoch,
        }
    }
}

/// Whether this node leads, by its own state.
pub(super) async fn leads(raft: &Raft<QuorumTypes>, node_id: RaftNodeId) -> bool {
    raft.with_raft_state(move |state| {
        state.vote_ref().committed && state.vote_ref().leader_id.voted_for == Some(node_id)
    })
    .await
    .unwrap_or(false)
}

/// A quorum of one has these timers, too: members may be added to it.
pub(super) fn config(settings: &QuorumSettings) -> Result<openraft::Config, QuorumOpenError> {
    // A follower of the engine waits for the upper bound, the leader's lease, and then for a random time between the
    // two before it campaigns. Half of Kafka's timeout for each part keeps the whole within that timeout.
    let timeout = settings.election_timeout_ms.max(100);
    openraft::Config {
        cluster_name: "metadata".into(),
        heartbeat_interval: timeout / 10,
        election_timeout_min: timeout * 3 / 10,
        election_timeout_max: timeout / 2,
        install_snapshot_timeout: 10_000,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        ..openraft::Config::default()
    }
    .validate()
    .map_err(|error| QuorumOpenError::Settings(error.to_string()))
}

/// Follows the engine: who leads, and whether it is alive.
pub(super) async fn watch(
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
