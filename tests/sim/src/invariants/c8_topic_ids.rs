//! C8: the id of a topic is never used again.
//! Not here: names, which are.
//! Pure. Source: KIP-516.

use super::{Checked, require};
use crate::quorum::Entry;
use kavka_common::Uuid;
use kavka_metadata::MetadataRecord;
use std::collections::BTreeSet;

pub fn check(known: &mut BTreeSet<Uuid>, entry: &Entry) -> Checked {
    for record in &entry.records {
        if let MetadataRecord::Topic(topic) = record {
            require(known.insert(topic.topic_id), || {
                format!(
                    "topic id {} is used again for {}",
                    topic.topic_id, topic.name
                )
            })?;
        }
    }
    Ok(())
}
