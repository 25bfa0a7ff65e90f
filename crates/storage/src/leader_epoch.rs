//! Which leader epoch began at which offset of one log.
//! Not here: the exchange that finds where two logs diverge (crates/replication).
//! Inside the log, under its owner's lock; the checkpoint file follows each change.
//! Kafka: LeaderEpochFileCache; KIP-101, KIP-279, KIP-320.

use crate::checkpoint::EpochStart;
use kavka_common::{LeaderEpoch, Offset};

/// Epochs in ascending order; epochs and start offsets both grow strictly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochCache {
    entries: Vec<EpochStart>,
}

impl LeaderEpochCache {
    /// Takes entries from a file: those that do not grow are dropped, as replaying them one by one would.
    pub fn from_entries(entries: impl IntoIterator<Item = EpochStart>) -> Self {
        let mut cache = LeaderEpochCache::default();
        for entry in entries {
            cache.assign(entry.epoch, entry.start_offset);
        }
        cache
    }

    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` starts at `start_offset`; true when that is news. Entries that do not fit before it make way:
    /// later or equal offsets, as a leader may be elected again and again without anything being appended; and higher
    /// epochs, because what is appended counts and what was noted before an earlier cut does not.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if let Some(last) = self.entries.last()
            && epoch == last.epoch
            && start_offset >= last.start_offset
        {
            return false;
        }
        let misfit =
            |entry: &EpochStart| entry.epoch >= epoch || entry.start_offset >= start_offset;
        while self.entries.last().is_some_and(misfit) {
            self.entries.pop();
        }
        self.entries.push(EpochStart {
            epoch,
            start_offset,
        });
        true
    }

    /// The epoch of the batch at `offset`.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let index = self
            .entries
            .partition_point(|entry| entry.start_offset <= offset);
        index.checked_sub(1).map(|index| self.entries[index].epoch)
    }

    /// The largest epoch that is not above `requested`, and where it ends. For an epoch below all known ones the start
    /// of the first one. `None`: nothing is known about it.
    pub fn end_offset_for(
        &self,
        requested: LeaderEpoch,
        log_end_offset: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        if requested == LeaderEpoch::UNKNOWN {
            return None;
        }
        let latest = self.entries.last()?;
        if requested == latest.epoch {
            return Some((requested, log_end_offset));
        }
        let higher = self
            .entries
            .partition_point(|entry| entry.epoch <= requested);
        let next = self.entries.get(higher)?;
        match higher.checked_sub(1) {
            // Below everything here: the log may begin at that offset, but belongs to the epoch asked for.
            None => Some((requested, next.start_offset)),
            Some(floor) => Some((self.entries[floor].epoch, next.start_offset)),
        }
    }

    /// Forgets what starts at or after `end_offset`; true when something did.
    pub fn truncate_from_end(&mut self, end_offset: Offset) -> bool {
        let keep = self
            .entries
            .partition_point(|entry| entry.start_offset < end_offset);
        let changed = keep < self.entries.len();
        self.entries.truncate(keep);
        changed
    }

    /// Forgets what ended before `start_offset`: the epoch that is current there now starts there. True on a change.
    pub fn truncate_from_start(&mut self, start_offset: Offset) -> bool {
        let after = self
            .entries
            .partition_point(|entry| entry.start_offset <= start_offset);
        let Some(current) = after.checked_sub(1) else {
            return false;
        };
        if current == 0 && self.entries[0].start_offset == start_offset {
            return false;
        }
        self.entries.drain(..current);
        self.entries[0].start_offset = start_offset;
        true
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(entries: &[(i32, i64)]) -> LeaderEpochCache {
        LeaderEpochCache::from_entries(entries.iter().map(|&(epoch, start_offset)| EpochStart {
            epoch: LeaderEpoch(epoch),
            start_offset,
        }))
    }

    #[test]
    fn end_offsets() {
        let c = cache(&[(2, 10), (4, 20), (7, 50)]);
        let ask = |epoch| {
            c.end_offset_for(LeaderEpoch(epoch), 60)
                .map(|(e, o)| (e.get(), o))
        };
        assert_eq!(ask(7), Some((7, 60)));
        assert_eq!(ask(8), None);
        assert_eq!(ask(6), Some((4, 50)));
        assert_eq!(ask(4), Some((4, 50)));
        assert_eq!(ask(3), Some((2, 20)));
        assert_eq!(ask(1), Some((1, 10)));
        assert_eq!(ask(-1), None);
        assert_eq!(
            LeaderEpochCache::default().end_offset_for(LeaderEpoch(0), 5),
            None
        );
    }

    #[test]
    fn elections_without_appends_leave_the_last_epoch() {
        let mut c = cache(&[(1, 5)]);
        assert!(c.assign(LeaderEpoch(2), 5));
        assert!(!c.assign(LeaderEpoch(2), 9));
        assert_eq!(c, cache(&[(2, 5)]));
        // A batch of an older epoch proves the newer entry wrong.
        assert!(c.assign(LeaderEpoch(1), 9));
        assert_eq!(c, cache(&[(1, 9)]));
    }

    #[test]
    fn truncation_from_both_ends() {
        let mut c = cache(&[(2, 10), (4, 20), (7, 50)]);
        assert!(!c.truncate_from_end(51));
        assert!(c.truncate_from_end(50));
        assert_eq!(c, cache(&[(2, 10), (4, 20)]));
        assert!(c.truncate_from_start(25));
        assert_eq!(c, cache(&[(4, 25)]));
        assert!(!c.truncate_from_start(25));
        assert_eq!(c.epoch_at(30), Some(LeaderEpoch(4)));
        assert_eq!(c.epoch_at(24), None);
    }

    proptest! {
        #[test]
        fn stays_monotone(ops in proptest::collection::vec((0u8..4, 0i32..20, 0i64..100), 0..60)) {
            let mut c = LeaderEpochCache::default();
            for (op, epoch, offset) in ops {
                match op {
                    0 | 1 => { c.assign(LeaderEpoch(epoch), offset); }
                    2 => { c.truncate_from_end(offset); prop_assert!(c.entries.iter().all(|e| e.start_offset < offset)); }
                    _ => { c.truncate_from_start(offset); prop_assert!(c.entries.len() <= 1 || c.entries[1].start_offset > offset); }
                }
                prop_assert!(c.entries.windows(2).all(|w| w[0].epoch < w[1].epoch && w[0].start_offset < w[1].start_offset));
            }
        }
    }
}
