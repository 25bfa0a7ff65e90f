//! C2: the metadata is the fold of its log, and a snapshot with the tail behind it folds to the same.
//! Not here: how snapshots travel.
//! Pure. Source: KIP-630; MetadataImageTest and its like for each family of records.

use super::{Checked, MetadataStep, require};
use kavka_common::{LeaderEpoch, Offset};
use kavka_metadata::{MetadataImage, MetadataRecord};

/// Every so many offsets the image is written out and folded again: always would take most of a run's time.
const EVERY: Offset = 16;

pub fn step(step: &MetadataStep<'_>) -> Checked {
    let last_offset = step.entry.last_offset;
    if last_offset % EVERY != 0 || step.after.in_transaction() {
        return Ok(());
    }
    let records = step.after.to_records();
    check(
        Some(step.after),
        &records,
        last_offset,
        step.after.last_epoch,
    )
    .1
}

/// The image that a snapshot makes, and whether it is the log's.
pub fn check(
    folded: Option<&MetadataImage>,
    records: &[MetadataRecord],
    last_offset: Offset,
    last_epoch: LeaderEpoch,
) -> (MetadataImage, Checked) {
    let image = match MetadataImage::empty().apply(last_offset, last_epoch, records) {
        Ok((image, _)) => image,
        Err(error) => {
            let message = format!("a snapshot at {last_offset} does not replay: {error}");
            return (MetadataImage::empty(), Err(message));
        }
    };
    let same = require(folded.is_none_or(|folded| *folded == image), || {
        format!("the snapshot at {last_offset} and the log up to there differ")
    });
    (image, same)
}
