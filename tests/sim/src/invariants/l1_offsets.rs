//! L1: offsets in a log grow without overlap, and without gaps, since nothing here compacts; epochs do not go back.
//! Not here: what other replicas hold.
//! Pure. Source: the log's own contract; KIP-101 for the epochs.

use super::{Checked, require};
use crate::message::Address;
use crate::oracle::SeenBatch;
use kavka_broker::replica::PartitionView;

pub fn check(broker: Address, batches: &[SeenBatch], view: &PartitionView) -> Checked {
    // what was looked at before is as it was: only the end is new
    let fresh = &batches[batches.len().saturating_sub(8)..];
    for pair in fresh.windows(2) {
        require(pair[0].last_offset + 1 == pair[1].base_offset, || {
            format!("broker {broker}: batches do not follow each other: {pair:?}")
        })?;
        require(pair[0].leader_epoch <= pair[1].leader_epoch, || {
            format!("broker {broker}: epochs go back: {pair:?}")
        })?;
    }
    let end = batches
        .last()
        .map_or(view.log_start_offset, |last| last.last_offset + 1);
    require(end == view.log_end_offset, || {
        format!("broker {broker}: the log ends at {end}, and says {view:?}")
    })
}
