//! C4: leader epochs and partition epochs only grow, and each change of a leader or of a registration shows in them.
//! Not here: who may use which epoch (r7_stale_epochs).
//! Pure. Source: KIP-101, KIP-497; KAFKA-14496 and its like.

use super::{Checked, MetadataStep, require};

pub fn check(step: &MetadataStep<'_>) -> Checked {
    for (topic_id, partitions) in &step.delta.partitions {
        for partition in partitions {
            let of = |image: &kavka_metadata::MetadataImage| {
                image.topics.get(topic_id)?.partition(*partition).cloned()
            };
            let (Some(before), Some(after)) = (of(step.before), of(step.after)) else {
                continue;
            };
            require(
                after.leader_epoch >= before.leader_epoch
                    && after.partition_epoch > before.partition_epoch,
                || format!("epochs do not grow: {before:?} becomes {after:?}"),
            )?;
            require(
                after.leader == before.leader || after.leader_epoch > before.leader_epoch,
                || format!("another leader in the same epoch: {before:?} becomes {after:?}"),
            )?;
        }
    }
    Ok(())
}
