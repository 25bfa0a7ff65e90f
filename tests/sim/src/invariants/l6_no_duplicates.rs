//! L6: what an idempotent producer sends is committed once, whatever is retried or delivered twice.
//! Not here: producers without ids, which may repeat themselves.
//! Pure. Source: KIP-98, KIP-360; redpanda #3039.

use super::{Checked, require};
use crate::producer::is_idempotent;
use kavka_common::Offset;
use std::collections::BTreeMap;

pub fn check(known: &BTreeMap<u64, Offset>, fresh: &[(Offset, u64)]) -> Checked {
    for (offset, value) in fresh.iter().filter(|(_, value)| is_idempotent(*value)) {
        require(
            known.get(value).is_none_or(|earlier| earlier == offset),
            || {
                format!(
                    "value {value} lies at {:?} and at {offset}",
                    known.get(value)
                )
            },
        )?;
    }
    Ok(())
}
