//! R1: any two replicas are equal below the lower of their high watermarks.
//! Not here: what is above.
//! Pure; compares each replica with what is committed, which comes to the same. Source: kip_966_properties.tla, LogMatching
//! (there and in Kip320.tla: StrongIsr); KAFKA-6361, KAFKA-1211.

use super::{Checked, require};
use crate::message::Address;
use crate::oracle::{SeenBatch, Truth};
use kavka_common::Offset;

pub fn check(
    broker: Address,
    truth: &Truth,
    batches: &[SeenBatch],
    compared: Offset,
    high_watermark: Offset,
) -> Checked {
    require(high_watermark <= truth.end, || {
        format!(
            "broker {broker} believes in a high watermark of {high_watermark}; no leader ever had one above {}",
            truth.end
        )
    })?;
    let until = compared.max(0);
    let from = batches.partition_point(|batch| batch.last_offset < until);
    for batch in &batches[from..] {
        if batch.last_offset >= high_watermark {
            break;
        }
        let at = truth
            .batches
            .partition_point(|known| known.last_offset < batch.last_offset);
        require(truth.batches.get(at) == Some(batch), || {
            format!(
                "broker {broker} holds {batch:?} below its high watermark {high_watermark}; committed is {:?}",
                truth.batches.get(at)
            )
        })?;
    }
    Ok(())
}
