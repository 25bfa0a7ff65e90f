//! The in-sync set that this leader wants registered, and what the controller said to it.
//! Not here: when to propose what (kavka_replication::Leader), the request (replica/alter_partition.rs).
//! Under the partition's lock. Kafka: Partition.{submitAlterPartition, handleAlterPartitionUpdate}; KIP-497.

use super::{Partition, Role};
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicIdPartition};
use kavka_replication::{AlterPartitionOutcome, LeaderEvent, Registration};

/// An ISR that a leader wants registered. At most one per partition is under way, so the channel needs no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrProposal {
    pub topic_partition: TopicIdPartition,
    pub isr: Vec<(NodeId, BrokerEpoch)>,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: PartitionEpoch,
}

/// The controller's answer to a proposal; see [`AlterPartitionOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsrAnswer {
    Accepted {
        isr: Vec<NodeId>,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
    },
    Rejected,
    Superseded,
    Unknown,
}

impl Partition {
    /// Takes over what the controller said to `proposal`.
    pub fn isr_answered(&self, proposal: &IsrProposal, answer: IsrAnswer) {
        let state = self.state.lock();
        let Role::Leader(leader) = &state.role else {
            return;
        };
        let outcome = match answer {
            IsrAnswer::Accepted {
                isr,
                leader_epoch,
                partition_epoch,
            } => AlterPartitionOutcome::Accepted(Registration {
                // the answer does not tell them; a reassignment that ended with it comes with the metadata
                replicas: leader.registration().replicas.clone(),
                isr,
                leader_epoch,
                partition_epoch,
            }),
            IsrAnswer::Rejected => AlterPartitionOutcome::Rejected,
            IsrAnswer::Superseded => AlterPartitionOutcome::Superseded,
            IsrAnswer::Unknown => AlterPartitionOutcome::Unknown,
        };
        let event = LeaderEvent::AlterPartition {
            leader_epoch: proposal.leader_epoch,
            partition_epoch: proposal.partition_epoch,
            outcome,
        };
        self.step(state, event).wake();
    }
}
