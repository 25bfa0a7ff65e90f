//! R4: the leader's maximal ISR contains whatever ISR and ELR the controller has, while that ISR is large enough to commit.
//! Not here: leaders of an earlier epoch, whose commits nobody counts on.
//! Pure. Source: kip_966_properties.tla, ReplicationQuorumSuperset; KIP-497.

use super::{Checked, require};
use crate::message::Address;
use kavka_common::NodeId;
use kavka_metadata::PartitionRegistration;
use kavka_replication::Registration;

pub fn check(
    broker: Address,
    registration: &Registration,
    maximal_isr: &[NodeId],
    registered: &PartitionRegistration,
    min_isr: usize,
) -> Checked {
    let current = registered.leader == NodeId(broker)
        && registered.leader_epoch == registration.leader_epoch
        && registered.isr.len() >= min_isr.min(registered.replicas.len());
    let quorum = registered.isr.iter().chain(&registered.elr);
    let missing: Vec<&NodeId> = quorum.filter(|id| !maximal_isr.contains(id)).collect();
    require(!current || missing.is_empty(), || {
        format!(
            "broker {broker} commits with {maximal_isr:?}, without {missing:?} of {registered:?}"
        )
    })
}
