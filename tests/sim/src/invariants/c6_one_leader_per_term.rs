//! C6: a term of the metadata quorum has one leader; votes survive crashes.
//! Not here: the log (c1_committed_prefix).
//! Pure. Source: Raft's Election Safety; KIP-595. Membership changes of the quorum are not simulated.

use super::{Checked, require};
use crate::message::Address;
use std::collections::BTreeMap;

pub fn check(leaders: &mut BTreeMap<u64, Address>, term: u64, id: Address) -> Checked {
    let known = *leaders.entry(term).or_insert(id);
    require(known == id, || {
        format!("controllers {known} and {id} both lead in term {term}")
    })
}
