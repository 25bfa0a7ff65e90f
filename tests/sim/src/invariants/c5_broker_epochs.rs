//! C5: a broker's epoch is the offset of its registration's record, and is given to one incarnation only.
//! Not here: when a second registration is let in (the sessions are soft state of the controller).
//! Pure. Source: KIP-631, KIP-903.

use super::{Checked, require};
use crate::quorum::Entry;
use kavka_common::NodeId;
use kavka_metadata::{MetadataImage, MetadataRecord};
use std::collections::BTreeSet;

pub fn check(known: &mut BTreeSet<i64>, before: &MetadataImage, entry: &Entry) -> Checked {
    for (offset, record) in (entry.base_offset..).zip(&entry.records) {
        let MetadataRecord::RegisterBroker(record) = record else {
            continue;
        };
        let again = before
            .cluster
            .broker(NodeId(record.broker_id))
            .is_some_and(|broker| broker.incarnation_id == record.incarnation_id);
        if again || known.contains(&record.broker_epoch) && record.broker_epoch != offset {
            // the same incarnation asked again: it keeps its epoch, which this very batch may have given
            require(known.contains(&record.broker_epoch), || {
                format!("a repeated registration brings a new epoch: {record:?}")
            })?;
            continue;
        }
        require(record.broker_epoch == offset, || {
            format!("registered at {offset} under another epoch: {record:?}")
        })?;
        require(known.insert(record.broker_epoch), || {
            format!("an epoch is given twice: {record:?}")
        })?;
    }
    Ok(())
}
