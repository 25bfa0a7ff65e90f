//! Changes of the voters: one is added, removed, or tells where it listens and on which directory it is.
//! Not here: who may ask, and in which words it is answered (controller/voters.rs); choosing voters.
//! Runs in the task of who asks, one change at a time; each step is an entry of the log, committed before the next. A new
//! voter first copies the log without a vote, so that its vote never makes the quorum wait for it.
//! openraft: Raft::change_membership. Kafka: AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler; KIP-853.

use super::entry_codec::wire_id;
use super::peers::hello;
use super::quorum_node::QuorumNode;
use super::types::{Membership, QuorumTypes, RaftNodeId, VoterNode};
use super::{MetadataQuorum, QuorumLeader};
use kavka_client::BrokerAddress;
use kavka_common::NodeId;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, Raft};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

const LOGGER: &str = "org.apache.kafka.raft.KafkaRaftClient";
/// A node that is added must say who it is within this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(3);

/// What changes. A directory id is in its text form; empty where it is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoterChange {
    Add {
        node_id: NodeId,
        node: VoterNode,
    },
    Remove {
        node_id: NodeId,
        directory_id: String,
    },
    /// A voter's listeners; and its directory, where that was not known.
    Update {
        node_id: NodeId,
        node: VoterNode,
    },
}

/// Why the voters stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VoterChangeError {
    #[error("not the leader of the metadata quorum; it is {:?}", .0.leader_id)]
    NotLeader(QuorumLeader),
    /// Kafka's words.
    #[error("The voter id for {0} is already part of the set of voters {1}.")]
    Duplicate(String, String),
    /// Kafka's words.
    #[error("Cannot remove voter {0} from the set of voters {1}")]
    NotFound(String, String),
    #[error("{0}")]
    Invalid(String),
    /// Another change is going on, or the new voter is not there yet.
    #[error("{0}")]
    TimedOut(String),
    #[error("the metadata quorum has stopped: {0}")]
    Stopped(String),
}

type EngineError = RaftError<RaftNodeId, ClientWriteError<RaftNodeId, VoterNode>>;

impl QuorumNode {
    pub(super) fn change(
        &self,
        change: VoterChange,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), VoterChangeError>> + Send + 'static {
        let step = Step {
            raft: self.raft.clone(),
            proposing: Arc::clone(&self.proposing),
            leader: *self.leader.borrow(),
        };
        let changing = Arc::clone(&self.changing);
        let own = self.settings.member();
        let leads = step.leader.leader_id == Some(self.node_id());
        async move {
            if !leads {
                return Err(VoterChangeError::NotLeader(step.leader));
            }
            let Ok(_alone) = changing.try_lock_owned() else {
                return Err(VoterChangeError::TimedOut(
                    "Request timed out waiting for leader to handle previous voter change request."
                        .to_owned(),
                ));
            };
            match change {
                VoterChange::Add { node_id, node } => {
                    let id = raft_id(node_id)?;
                    step.check_new(id, &node)?;
                    let found = match node.endpoints.first() {
                        None => {
                            return Err(VoterChangeError::Invalid(
                                "Add voter request didn't include the default listener".to_owned(),
                            ));
                        }
                        Some(endpoint) => {
                            let address = BrokerAddress::new(endpoint.host.clone(), endpoint.port);
                            let answer = hello(&own, &address, HELLO_TIMEOUT.min(timeout)).await;
                            answer.map_err(|reason| {
                                VoterChangeError::TimedOut(format!(
                                    "the new voter does not answer at {address}: {reason}"
                                ))
                            })?
                        }
                    };
                    if found.cluster_id != own.cluster_id
                        || found.node_id != node_id.get()
                        || found.directory_id != node.directory_id
                    {
                        return Err(VoterChangeError::Invalid(format!(
                            "voter {} of cluster {} was to be added, but where it is said to listen is {} of cluster {}",
                            key(id, &node.directory_id),
                            own.cluster_id,
                            key(
                                u64::try_from(found.node_id).unwrap_or(0),
                                &found.directory_id
                            ),
                            found.cluster_id
                        )));
                    }
                    step.add(id, node, timeout).await
                }
                VoterChange::Remove {
                    node_id,
                    directory_id,
                } => step.remove(raft_id(node_id)?, &directory_id).await,
                VoterChange::Update { node_id, node } => step.update(raft_id(node_id)?, node).await,
            }
        }
    }
}

fn raft_id(node_id: NodeId) -> Result<RaftNodeId, VoterChangeError> {
    u64::try_from(node_id.get())
        .map_err(|_| VoterChangeError::Invalid(format!("node id {node_id} is negative")))
}

/// Kafka's ReplicaKey as text.
fn key(id: RaftNodeId, directory_id: &str) -> String {
    let directory_id = if directory_id.is_empty() {
        "<undefined>"
    } else {
        directory_id
    };
    format!("ReplicaKey(id={id}, directoryId={directory_id})")
}

fn keys(membership: &Membership) -> String {
    let voters: BTreeSet<RaftNodeId> = membership.voter_ids().collect();
    let keys: Vec<String> = voters
        .iter()
        .map(|id| key(*id, directory_of(membership, *id)))
        .collect();
    format!("[{}]", keys.join(", "))
}

fn directory_of(membership: &Membership, id: RaftNodeId) -> &str {
    membership
        .get_node(&id)
        .map_or("", |node| node.directory_id.as_str())
}

/// One change on its way.
struct Step {
    raft: Raft<QuorumTypes>,
    proposing: Arc<tokio::sync::Mutex<()>>,
    leader: QuorumLeader,
}

impl Step {
    fn membership(&self) -> Membership {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        metrics.membership_config.membership().clone()
    }

    fn check_new(&self, id: RaftNodeId, node: &VoterNode) -> Result<(), VoterChangeError> {
        let membership = self.membership();
        if membership.voter_ids().any(|voter| voter == id) {
            return Err(VoterChangeError::Duplicate(
                key(id, &node.directory_id),
                keys(&membership),
            ));
        }
        Ok(())
    }

    /// Proposes, while nothing else does.
    async fn propose(
        &self,
        changes: ChangeMembers<RaftNodeId, VoterNode>,
        retain: bool,
    ) -> Result<(), VoterChangeError> {
        let _alone = self.proposing.lock().await;
        match self.raft.change_membership(changes, retain).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.refusal(error)),
        }
    }

    fn refusal(&self, error: EngineError) -> VoterChangeError {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
                VoterChangeError::NotLeader(QuorumLeader {
                    leader_id: forward.leader_id.map(|id| NodeId(wire_id(id))),
                    epoch: self.leader.epoch,
                })
            }
            RaftError::APIError(ClientWriteError::ChangeMembershipError(
                error @ ChangeMembershipError::InProgress(_),
            )) => VoterChangeError::TimedOut(error.to_string()),
            RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => {
                VoterChangeError::Invalid(error.to_string())
            }
            RaftError::Fatal(fatal) => VoterChangeError::Stopped(fatal.to_string()),
        }
    }

    async fn add(
        &self,
        id: RaftNodeId,
        node: VoterNode,
        timeout: Duration,
    ) -> Result<(), VoterChangeError> {
        let named = key(id, &node.directory_id);
        info!(target: LOGGER, "adding voter {named}: it copies the log first");
        self.propose(ChangeMembers::SetNodes(BTreeMap::from([(id, node)])), true)
            .await?;
        let goal = self.raft.metrics().borrow().last_log_index;
        let caught_up = self
            .raft
            .wait(Some(timeout))
            .metrics(
                |metrics| {
                    let matched = metrics
                        .replication
                        .as_ref()
                        .and_then(|replication| *replication.get(&id)?);
                    matched.map(|matched| matched.index) >= goal
                },
                "the new voter has the log",
            )
            .await;
        if caught_up.is_err() {
            self.propose(ChangeMembers::RemoveNodes(BTreeSet::from([id])), false)
                .await?;
            return Err(VoterChangeError::TimedOut(format!(
                "Aborted add voter operation for {named} since it is lagging behind: it has not copied the log within {} ms",
                timeout.as_millis()
            )));
        }
        self.propose(ChangeMembers::AddVoterIds(BTreeSet::from([id])), true)
            .await?;
        info!(target: LOGGER, "voter {named} is added");
        Ok(())
    }

    async fn remove(&self, id: RaftNodeId, directory_id: &str) -> Result<(), VoterChangeError> {
        let membership = self.membership();
        let voters: BTreeSet<RaftNodeId> = membership.voter_ids().collect();
        let known = voters.contains(&id) && directory_of(&membership, id) == directory_id;
        if !known || voters.len() == 1 {
            return Err(VoterChangeError::NotFound(
                key(id, directory_id),
                keys(&membership),
            ));
        }
        self.propose(ChangeMembers::RemoveVoters(BTreeSet::from([id])), false)
            .await?;
        info!(target: LOGGER, "voter {} is removed", key(id, directory_id));
        Ok(())
    }

    async fn update(&self, id: RaftNodeId, node: VoterNode) -> Result<(), VoterChangeError> {
        let membership = self.membership();
        let known = directory_of(&membership, id);
        let same = known.is_empty() || known == node.directory_id;
        if !same || !membership.voter_ids().any(|voter| voter == id) {
            return Err(VoterChangeError::NotFound(
                key(id, &node.directory_id),
                keys(&membership),
            ));
        }
        if membership.get_node(&id) == Some(&node) {
            return Ok(());
        }
        self.propose(ChangeMembers::SetNodes(BTreeMap::from([(id, node)])), true)
            .await
    }
}
