//! R2: a replica that begins to lead holds everything that is committed.
//! Not here: those who could have been elected (r3_candidate_completeness).
//! Pure. Source: kip_966_properties.tla, LeaderCompleteness. Unclean elections are off in the simulation.

use super::{Checked, require};
use crate::message::Address;
use crate::oracle::{SeenBatch, Truth};
use kavka_replication::Registration;

pub fn check(
    broker: Address,
    truth: &Truth,
    batches: &[SeenBatch],
    registration: &Registration,
) -> Checked {
    let committed = &truth.batches[..];
    require(batches.starts_with(committed), || {
        let at = committed
            .iter()
            .zip(batches)
            .position(|(known, held)| known != held)
            .unwrap_or(batches.len());
        format!(
            "broker {broker} leads in epoch {} and lacks what is committed from {:?} on; it holds {:?} there",
            registration.leader_epoch,
            committed.get(at),
            batches.get(at)
        )
    })
}
