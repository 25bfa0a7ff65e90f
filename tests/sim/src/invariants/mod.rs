//! The properties that must hold in every state of the simulated cluster, one file each.
//! Not here: what is known of the cluster (oracle.rs), when each is looked at.
//! Pure functions. Sources: the TLA+ specification of KIP-966 (Vanlightly/kafka-tlaplus, kip_966_properties.tla), of KIP-101 and
//! KIP-320 (hachikuji/kafka-specification), Raft (Ongaro, Ousterhout), and the named KIPs and bugs.

pub mod c1_committed_prefix;
pub mod c2_fold;
pub mod c3_membership;
pub mod c4_epochs_grow;
pub mod c5_broker_epochs;
pub mod c6_one_leader_per_term;
pub mod c7_retried_requests;
pub mod c8_topic_ids;
pub mod l1_offsets;
pub mod l2_recovery;
pub mod l3_watermarks;
pub mod l6_no_duplicates;
pub mod r1_log_matching;
pub mod r2_leader_completeness;
pub mod r3_candidate_completeness;
pub mod r4_quorum_superset;
pub mod r5_consistent_read;
pub mod r6_truncation;
pub mod r7_stale_epochs;
pub mod r8_nothing_lost;
pub mod r9_one_fetcher;

use crate::quorum::Entry;
use kavka_metadata::{MetadataDelta, MetadataImage};

pub type Checked = Result<(), String>;

/// One committed entry: the metadata before and after it.
pub struct MetadataStep<'a> {
    pub before: &'a MetadataImage,
    pub after: &'a MetadataImage,
    pub delta: &'a MetadataDelta,
    pub entry: &'a Entry,
    pub min_isr: usize,
}

pub struct MetadataCheck {
    pub name: &'static str,
    pub run: fn(&MetadataStep<'_>) -> Checked,
}

/// What is looked at after each committed entry.
pub const METADATA: &[MetadataCheck] = &[
    MetadataCheck {
        name: "C2",
        run: c2_fold::step,
    },
    MetadataCheck {
        name: "C3",
        run: c3_membership::check,
    },
    MetadataCheck {
        name: "C4",
        run: c4_epochs_grow::check,
    },
];

/// A violation unless `condition` holds.
pub fn require(condition: bool, message: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { Err(message()) }
}
