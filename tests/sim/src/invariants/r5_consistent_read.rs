//! R5: what a consumer has read at an offset never changes, and only what is committed is read.
//! Not here: order and gaps (consumer.rs fetches in order).
//! Pure. Source: kip_966_properties.tla, ConsistentRead; Jepsen's inconsistent-offsets.

use super::{Checked, require};
use crate::oracle::Truth;
use kavka_common::Offset;

pub fn check(truth: &Truth, offset: Offset, value: u64) -> Checked {
    let committed = truth.by_offset.get(&offset);
    require(committed == Some(&value), || {
        format!("a consumer read {value} at {offset}; committed there is {committed:?}")
    })
}
