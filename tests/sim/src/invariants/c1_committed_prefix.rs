//! C1: what a node takes as committed metadata is a prefix of what is committed anywhere.
//! Not here: what the records say.
//! Pure. Source: kip_966_properties.tla, BrokerMetadataIsPrefixOfController; Raft's State Machine Safety.

use super::{Checked, require};
use crate::message::Address;
use crate::quorum::Entry;
use kavka_common::Offset;

pub fn check(node: Address, known: &Entry, taken: &Entry) -> Checked {
    require(known == taken, || {
        format!(
            "node {node} takes as committed at offset {} what term {} wrote; elsewhere that of term {} is",
            taken.base_offset, taken.term, known.term
        )
    })
}

pub fn continues(node: Address, last_offset: Offset, taken: &Entry) -> Checked {
    require(taken.base_offset == last_offset + 1, || {
        format!(
            "node {node} takes an entry at {} as committed behind {last_offset}",
            taken.base_offset
        )
    })
}
