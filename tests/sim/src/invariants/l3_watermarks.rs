//! L3: log start ≤ last stable offset ≤ high watermark ≤ log end; under one leadership the high watermark of its leader
//! never goes back.
//! Not here: what clients see of it (the consumers check that ListOffsets does not go back, KIP-207).
//! Pure. Source: UnifiedLog; KAFKA-3978, KAFKA-16452.

use super::{Checked, require};
use crate::message::Address;
use kavka_broker::replica::{PartitionView, ViewedRole};

pub fn check(broker: Address, before: Option<&PartitionView>, view: &PartitionView) -> Checked {
    require(
        view.log_start_offset <= view.last_stable_offset
            && view.last_stable_offset <= view.high_watermark
            && view.high_watermark <= view.log_end_offset,
        || format!("broker {broker}: offsets out of order: {view:?}"),
    )?;
    let Some(before) = before else { return Ok(()) };
    let same_leadership = match (&before.role, &view.role) {
        (
            ViewedRole::Leader {
                registration: old, ..
            },
            ViewedRole::Leader {
                registration: new, ..
            },
        ) => old.leader_epoch == new.leader_epoch,
        _ => false,
    };
    require(
        !same_leadership || before.high_watermark <= view.high_watermark,
        || format!("broker {broker}: the high watermark goes back: {before:?} then {view:?}"),
    )
}
