//! How much of what the controller has decided goes into one batch of the metadata log.
//! Not here: deciding, proposing (shell.rs).
//! Pure.
//! Kafka: QuorumController.appendRecords, MAX_RECORDS_PER_BATCH.

use kavka_common::Offset;

/// Records that one batch collects before the rest waits for the next.
const BATCH_RECORDS_MAX: usize = 10_000;

/// Where a batch of `records` that begins at `base_offset` is cut, and how many of the requests that end at `ends` it
/// answers: behind the first request that fills it, so that a request's records stay together. `None` if all of it goes.
pub fn split_point(base_offset: Offset, ends: &[Offset], records: usize) -> Option<(usize, usize)> {
    ends.iter()
        .enumerate()
        .map(|(at, end)| {
            let taken = usize::try_from(end - base_offset).expect("requests end behind the base");
            (taken, at + 1)
        })
        .find(|(taken, _)| *taken >= BATCH_RECORDS_MAX)
        .filter(|(taken, _)| *taken < records)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Offset = 10_000;

    #[test]
    fn a_full_batch_is_cut_behind_a_request_even_when_a_tick_decided_something_before_it() {
        // five records of a tick, then requests of 9,996 and of 3 records, then two of a tick
        let ends = [100 + 5 + MAX - 4, 100 + 5 + MAX - 1];
        assert_eq!(
            split_point(100, &ends, 10_006),
            Some((10_001, 1)),
            "the first request's last record goes with its answer"
        );
    }

    #[test]
    fn what_fits_goes_in_one_batch() {
        assert_eq!(split_point(100, &[101, 110], 12), None);
        assert_eq!(split_point(100, &[], 20_000), None, "ticks alone");
        assert_eq!(split_point(100, &[100 + MAX], 10_000), None);
    }

    #[test]
    fn a_read_behind_the_cut_waits_for_the_next_batch() {
        let ends = [100 + MAX, 100 + MAX, 100 + MAX + 7];
        assert_eq!(split_point(100, &ends, 10_007), Some((10_000, 1)));
    }
}
