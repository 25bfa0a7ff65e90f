//! L2: after a crash at any byte the log is a prefix of what was appended, and has at least what was fsynced. When the
//! process dies and the machine does not, it has everything.
//! Not here: what a lost tail means to others (r8_nothing_lost).
//! Pure. Source: LogLoader, KAFKA-3919, KAFKA-10101.

use super::{Checked, require};
use crate::message::Address;
use crate::oracle::{Expected, SeenBatch};
use kavka_broker::replica::PartitionView;

pub fn check(
    broker: Address,
    expected: &Expected,
    recovered: &[SeenBatch],
    view: &PartitionView,
) -> Checked {
    let Expected {
        batches,
        at_least,
        everything,
        unseen,
    } = expected;
    let whole = *unseen && recovered.starts_with(batches);
    require(whole || batches.starts_with(recovered), || {
        let at = batches
            .iter()
            .zip(recovered)
            .position(|(old, new)| old != new)
            .unwrap_or(batches.len());
        format!(
            "broker {broker}: recovered {} batches that are no prefix of the {} before, from number {at} on: {:?} and {:?}",
            recovered.len(),
            batches.len(),
            batches.get(at),
            recovered.get(at)
        )
    })?;
    // a truncation may have been under way
    require(*unseen || view.log_end_offset >= *at_least, || {
        format!("broker {broker}: fsynced to {at_least}, recovered {view:?}")
    })?;
    require(
        whole || !everything || recovered.len() == batches.len(),
        || {
            format!(
                "broker {broker}: only the process died, and {} batches of {} are left",
                recovered.len(),
                batches.len()
            )
        },
    )
}
