//! R3: every running member of ISR and ELR, any of which may be elected, has all that is committed.
//! Not here: members that are down (a crash that loses data takes them out of both when they register again).
//! Pure. Source: kip_966_properties.tla, LeaderCandidateCompleteness.

use super::{Checked, require};
use crate::message::Address;
use kavka_common::Offset;
use kavka_metadata::PartitionRegistration;

/// `log_end_offset`: none while the replica has not been seen since its broker started.
pub fn check(
    broker: Address,
    log_end_offset: Option<Offset>,
    committed_end: Offset,
    registration: &PartitionRegistration,
) -> Checked {
    require(
        log_end_offset.is_none_or(|end| end >= committed_end),
        || {
            format!(
                "broker {broker} ends at {log_end_offset:?}, committed is up to {committed_end}, and it may lead: {registration:?}"
            )
        },
    )
}
