//! R8: a record that was acknowledged with acks=all is committed, where it was said to be; and what is committed is there in
//! the end, as long as no more than min.insync.replicas - 1 brokers have lost what they had not fsynced.
//! Not here: unclean elections (off).
//! Pure. Source: kip_966_properties.tla, NoCommittedRecordLostGlobally; Jepsen's lost-write.

use super::{Checked, require};
use crate::oracle::{Replica, Truth};
use kavka_common::Offset;

/// When a producer is told.
pub fn acknowledged(truth: &Truth, base_offset: Offset, values: &[u64]) -> Checked {
    for (offset, value) in (base_offset..).zip(values) {
        let committed = truth.by_offset.get(&offset);
        require(committed == Some(value), || {
            format!("value {value} is acknowledged at {offset}; committed there is {committed:?}")
        })?;
    }
    Ok(())
}

/// When the healed cluster has come to rest: a replica of the ISR holds what is committed, byte for byte.
pub fn at_rest(broker: i32, truth: &Truth, replica: &Replica) -> Checked {
    require(
        replica.batches == truth.batches && replica.view.high_watermark == truth.end,
        || {
            format!(
                "broker {broker} holds {} batches up to {:?}; committed are {} up to {}",
                replica.batches.len(),
                replica.view,
                truth.batches.len(),
                truth.end
            )
        },
    )
}
