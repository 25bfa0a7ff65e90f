//! Follower side of one partition: where to truncate, and how its high watermark follows the leader's.
//! Not here: fetching, the log.
//! Runs inside the partition's owner. Kafka: AbstractFetcherThread.getOffsetTruncationState; KIP-101, KIP-279, KIP-595.

use kavka_common::guards::{Guard, holds};
use kavka_common::{LeaderEpoch, NodeId, Offset};

/// The end of an epoch in somebody's log: the largest epoch not above the one asked for, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    pub leader_epoch: LeaderEpoch,
    pub end_offset: Offset,
}

/// What to do about a divergence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    pub to_offset: Offset,
    /// Otherwise the logs may still differ below: ask again with the epoch that is now last.
    pub complete: bool,
}

/// A follower of one leader in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    pub leader_id: NodeId,
    pub leader_epoch: LeaderEpoch,
    high_watermark: Offset,
}

impl Follower {
    pub fn start(leader_id: NodeId, leader_epoch: LeaderEpoch, high_watermark: Offset) -> Self {
        Follower {
            leader_id,
            leader_epoch,
            high_watermark,
        }
    }

    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The leader's answer carries its high watermark; ours never passes what we hold, nor goes back while we follow.
    pub fn fetched(
        &mut self,
        leader_high_watermark: Offset,
        log_start_offset: Offset,
        log_end_offset: Offset,
    ) -> Offset {
        let reachable = leader_high_watermark.clamp(log_start_offset, log_end_offset);
        self.high_watermark = self.high_watermark.max(reachable);
        self.high_watermark
    }

    /// The log was cut: nothing above its end is known to be committed here.
    pub fn truncated(&mut self, log_end_offset: Offset) {
        self.high_watermark = self.high_watermark.min(log_end_offset);
    }

    /// KIP-101: truncate to where the epochs part, not to the high watermark, which may lag after a leader change.
    /// `local_end_of_epoch` looks up our own log.
    pub fn truncation(
        &self,
        leader_end: Option<EpochEnd>,
        log_end_offset: Offset,
        local_end_of_epoch: impl FnOnce(LeaderEpoch) -> Option<EpochEnd>,
    ) -> Truncation {
        let complete = |to_offset| Truncation {
            to_offset,
            complete: true,
        };
        if !holds(Guard::TruncateByEpoch) {
            return complete(self.high_watermark.min(log_end_offset));
        }
        let Some(leader_end) = leader_end else {
            // the leader knows nothing of our epochs: only what is committed is common
            return complete(self.high_watermark.min(log_end_offset));
        };
        match local_end_of_epoch(leader_end.leader_epoch) {
            None => complete(leader_end.end_offset.min(log_end_offset)),
            Some(ours) if ours.leader_epoch != leader_end.leader_epoch => Truncation {
                to_offset: ours.end_offset.min(log_end_offset),
                complete: false,
            },
            Some(ours) => complete(
                ours.end_offset
                    .min(leader_end.end_offset)
                    .min(log_end_offset),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(epoch: i32, end_offset: Offset) -> Option<EpochEnd> {
        Some(EpochEnd {
            leader_epoch: LeaderEpoch(epoch),
            end_offset,
        })
    }

    #[test]
    fn truncates_where_the_epochs_part() {
        let follower = Follower::start(NodeId(1), LeaderEpoch(5), 10);
        let cut = |leader_end, ours: Option<EpochEnd>| {
            let t = follower.truncation(leader_end, 30, |_| ours);
            (t.to_offset, t.complete)
        };
        assert_eq!(cut(None, end(4, 20)), (10, true));
        assert_eq!(cut(end(4, 25), None), (25, true));
        assert_eq!(cut(end(4, 25), end(4, 28)), (25, true));
        assert_eq!(cut(end(4, 25), end(4, 22)), (22, true));
        assert_eq!(cut(end(4, 25), end(3, 18)), (18, false));
        assert_eq!(cut(end(4, 99), None), (30, true));
    }

    #[test]
    fn high_watermark_follows_but_never_leads_nor_regresses() {
        let mut follower = Follower::start(NodeId(1), LeaderEpoch(5), 10);
        assert_eq!(follower.fetched(50, 0, 30), 30);
        assert_eq!(follower.fetched(20, 0, 40), 30);
        assert_eq!(follower.fetched(-1, 0, 40), 30);
        assert_eq!(follower.fetched(35, 0, 40), 35);
    }
}
