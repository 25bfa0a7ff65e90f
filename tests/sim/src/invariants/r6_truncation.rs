//! R6: truncation takes away what diverged, and nothing of what is committed.
//! Not here: what a crash takes away (l2_recovery).
//! Pure. Source: Kip101.tla, Kip279.tla; KAFKA-7897, KAFKA-7959 (truncations far too deep).

use super::{Checked, require};
use crate::message::Address;
use crate::oracle::{SeenBatch, Truth};
use kavka_broker::replica::PartitionView;

pub fn check(
    broker: Address,
    truth: &Truth,
    removed: &[SeenBatch],
    view: &PartitionView,
) -> Checked {
    let committed = removed.iter().find(|batch| {
        let at = truth
            .batches
            .partition_point(|known| known.last_offset < batch.last_offset);
        truth.batches.get(at) == Some(batch)
    });
    require(committed.is_none(), || {
        format!("broker {broker} cut off {committed:?}, which is committed, and is now {view:?}")
    })
}
