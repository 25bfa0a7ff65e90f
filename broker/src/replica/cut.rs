//! Cutting the logs of followers: what the checkpoints promise is lowered first.
//! Not here: where to cut (kavka_replication::Follower), one log's cut (partition/follow.rs).
//! On a thread that may block; the fetcher that decided the cuts appends nothing meanwhile.
//! Kafka: ReplicaFetcherThread.{truncate, truncateFullyAndStartAt}, LogManager.truncateTo.

use super::error::ReplicaError;
use super::manager::ReplicaManager;
use super::partition::{AnnouncedCut, Cut, Partition};
use kavka_replication::{ActionKind, FetcherAction};
use std::sync::Arc;

impl ReplicaManager {
    /// Makes the truncations among a fetcher's actions. Before anything is cut it stands in the checkpoints that less is
    /// durable, and that a log may begin earlier: whatever is appended later, by a leader too, is checked by the next
    /// start, and a log that ends below its old start does not begin anew there.
    pub fn cut(&self, work: &[(FetcherAction, Arc<Partition>)]) -> Vec<Result<Cut, ReplicaError>> {
        let mut lower = AnnouncedCut::default();
        for (action, partition) in work {
            // one that is refused is refused again below
            if let Ok(announced) = partition.announce_cut(action.leader_epoch, &action.kind) {
                lower.below_recovery_point |= announced.below_recovery_point;
                lower.below_log_start |= announced.below_log_start;
            }
        }
        if lower.below_recovery_point {
            self.checkpoint_recovery_points();
        }
        if lower.below_log_start {
            self.checkpoint_log_starts();
        }
        work.iter()
            .map(|(action, partition)| cut_one(partition, action))
            .collect()
    }
}

fn cut_one(partition: &Partition, action: &FetcherAction) -> Result<Cut, ReplicaError> {
    match action.kind {
        ActionKind::Truncate(leader_end) => {
            partition.truncate_diverging(action.leader_epoch, leader_end)
        }
        ActionKind::TruncateTo(offset) => partition.truncate_to(action.leader_epoch, offset),
        ActionKind::StartAt(offset) => partition.start_at(action.leader_epoch, offset),
        ActionKind::Append { .. } | ActionKind::LookUpRange => {
            unreachable!("only truncations are collected")
        }
    }
}
