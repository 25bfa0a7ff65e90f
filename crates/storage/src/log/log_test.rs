//! A log through its calls, on real files: offsets, rolls, reads, truncation, retention, transactions, reopening.
//! Not here: crashes (crash_test.rs). Run by `cargo test`. Kafka: UnifiedLogTest, LocalLogTest, LogSegmentTest.

use super::*;
use crate::producer_state::{AppendOrigin, ProducerError};
use crate::testing::batches::{batch, marker, placed_batch, producer_batch, txn_batch};
use crate::vfs::RealVfs;
use kavka_records::{TimestampType, batches};

const NOW_MS: i64 = 1_000_000;

struct Fixture {
    dir: tempfile::TempDir,
    log: Option<Log>,
    config: LogConfig,
}

fn small() -> LogConfig {
    LogConfig {
        segment_bytes: 1000,
        index_interval_bytes: 150,
        segment_index_bytes: 4096,
        retention_ms: -1,
        ..LogConfig::default()
    }
}

impl Fixture {
    fn new(config: LogConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut fixture = Fixture {
            dir,
            log: None,
            config,
        };
        fixture.open(OpenOptions::new(NOW_MS));
        fixture
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("t-0")
    }

    fn open(&mut self, options: OpenOptions) -> RecoveryReport {
        self.log = None;
        let (log, report) = Log::open(
            Arc::new(RealVfs),
            &self.path(),
            self.config.clone(),
            options,
        )
        .unwrap();
        self.log = Some(log);
        report
    }

    /// Closes and opens as after a clean stop.
    fn bounce(&mut self) -> RecoveryReport {
        let closed = self.log.take().unwrap().close().unwrap();
        self.open(OpenOptions {
            recovery_point: closed.recovery_point,
            log_start_offset: closed.log_start_offset,
            clean_shutdown: true,
            ..OpenOptions::new(NOW_MS)
        })
    }

    fn log(&mut self) -> &mut Log {
        self.log.as_mut().unwrap()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<AppendInfo, AppendError> {
        self.log()
            .append_as_leader(bytes, LeaderEpoch(0), AppendOrigin::Client, NOW_MS)
    }

    fn append_many(&mut self, count: usize) {
        for at in 0..count {
            self.append(&batch(1 + at % 3, 1000 + at as i64, 50))
                .unwrap();
        }
    }

    fn names(&self) -> Vec<String> {
        let entries = RealVfs.list(&self.path()).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    /// Base offsets of the batches that a reader sees from `offset` on.
    fn read_bases(&mut self, offset: Offset, max_offset: Offset) -> Vec<Offset> {
        let mut bases = Vec::new();
        let mut next = offset;
        loop {
            let result = self.log().read(next, 300, max_offset, true).unwrap();
            let Some(region) = result.region else {
                return bases;
            };
            let bytes = region.read().unwrap();
            for batch in batches(&bytes).map_while(Result::ok) {
                bases.push(batch.header().base_offset);
                next = batch.header().next_offset();
                assert!(next <= max_offset);
                assert!(next <= result.upper_bound_offset);
            }
        }
    }
}

#[test]
fn appends_get_offsets_and_are_read_back() {
    let mut f = Fixture::new(small());
    let info = f.append(&batch(3, 77, 10)).unwrap();
    assert_eq!(
        (info.first_offset, info.last_offset, info.max_timestamp),
        (0, 2, 77)
    );
    assert!(info.leader_epoch_changed);
    let info = f.append(&batch(2, 78, 10)).unwrap();
    assert_eq!((info.first_offset, info.last_offset), (3, 4));
    assert_eq!(f.log().log_end_offset(), 5);
    // An offset inside a batch gives that batch.
    let result = f.log().read(4, 1 << 20, 5, true).unwrap();
    assert_eq!(result.first_offset, 3);
    let bytes = result.region.unwrap().read().unwrap();
    let batch = kavka_records::RecordBatch::parse(&bytes).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().base_offset, 3);
    assert_eq!(batch.header().partition_leader_epoch, LeaderEpoch(0));
    assert!(f.log().read(5, 100, 5, true).unwrap().region.is_none());
    assert!(matches!(
        f.log().read(6, 100, 6, true),
        Err(ReadError::OutOfRange(_))
    ));
    assert!(matches!(
        f.log().read(-1, 100, 6, true),
        Err(ReadError::OutOfRange(_))
    ));
}

#[test]
fn reads_are_bounded_by_offset_and_size() {
    let mut f = Fixture::new(small());
    f.append_many(30);
    let end = f.log().log_end_offset();
    let all = f.read_bases(0, end);
    assert_eq!(all.len(), 30);
    for offset in 0..end {
        for bound in [offset, offset + 1, offset + 5, end] {
            let bases = f.read_bases(offset, bound.min(end));
            let expected: Vec<Offset> = (0..all.len())
                .filter(|at| {
                    let next = all.get(at + 1).copied().unwrap_or(end);
                    next > offset && next <= bound
                })
                .map(|at| all[at])
                .collect();
            assert_eq!(bases, expected, "from {offset} below {bound}");
        }
    }
    assert!(f.log().read(0, 10, end, false).unwrap().region.is_none());
    assert!(f.log().read(0, 10, end, true).unwrap().region.is_some());
}

#[test]
fn segments_roll_by_size_age_and_index() {
    let mut f = Fixture::new(small());
    f.append_many(30);
    assert!(f.log().segment_count() > 3);
    let names = f.names();
    let second = f.log().segment_base_offsets().nth(1).unwrap();
    for suffix in [".log", ".index", ".timeindex", ".snapshot"] {
        assert!(
            names.contains(&names::offset_file(second, suffix)),
            "{suffix} in {names:?}"
        );
    }

    let mut f = Fixture::new(LogConfig {
        segment_ms: 100,
        ..small()
    });
    f.append(&batch(1, 1000, 10)).unwrap();
    f.append(&batch(1, 1100, 10)).unwrap();
    assert_eq!(f.log().segment_count(), 1);
    f.append(&batch(1, 1101, 10)).unwrap();
    assert_eq!(f.log().segment_count(), 2);

    let mut f = Fixture::new(LogConfig {
        segment_index_bytes: 36,
        index_interval_bytes: 0,
        ..small()
    });
    f.append_many(7);
    assert_eq!(f.log().segment_count(), 3);
}

#[test]
fn a_batch_larger_than_a_segment_is_refused() {
    let mut f = Fixture::new(small());
    let error = f.append(&batch(1, 1, 2000)).unwrap_err();
    assert!(
        matches!(error, AppendError::BatchTooLarge { .. }),
        "{error}"
    );
    assert_eq!(f.log().log_end_offset(), 0);
    assert!(matches!(
        f.append(b"no batch"),
        Err(AppendError::InvalidBatch(_))
    ));
}

#[test]
fn relative_offsets_never_overflow() {
    let mut f = Fixture::new(small());
    let far = i64::from(i32::MAX) + 10;
    f.log()
        .append_as_follower(&placed_batch(0, 1, 1, 5), LeaderEpoch(1), NOW_MS)
        .unwrap();
    f.log()
        .append_as_follower(&placed_batch(far, 1, 1, 5), LeaderEpoch(1), NOW_MS)
        .unwrap();
    assert_eq!(f.log().segment_base_offsets().collect::<Vec<_>>(), [0, far]);
    assert_eq!(f.read_bases(0, far + 1), [0, far]);
    assert_eq!(f.read_bases(1, far + 1), [far]);
}

#[test]
fn followers_take_offsets_as_given() {
    let mut f = Fixture::new(small());
    let mut bytes = placed_batch(10, 2, 2, 5);
    bytes.extend(placed_batch(20, 3, 1, 5));
    let whole = bytes.len();
    bytes.extend(&placed_batch(21, 3, 1, 5)[..70]);
    let info = f
        .log()
        .append_as_follower(&bytes, LeaderEpoch(3), NOW_MS)
        .unwrap();
    assert_eq!(
        (info.first_offset, info.last_offset, info.size_bytes),
        (10, 20, whole)
    );
    let epochs: Vec<_> = f.log().leader_epochs().entries().to_vec();
    assert_eq!(
        epochs
            .iter()
            .map(|e| (e.epoch.get(), e.start_offset))
            .collect::<Vec<_>>(),
        [(2, 10), (3, 20)]
    );
    let again = f
        .log()
        .append_as_follower(&placed_batch(20, 3, 1, 5), LeaderEpoch(3), NOW_MS);
    assert!(matches!(again, Err(AppendError::UnexpectedOffset { .. })));
    let newer = f
        .log()
        .append_as_follower(&placed_batch(21, 4, 1, 5), LeaderEpoch(3), NOW_MS)
        .unwrap();
    assert_eq!(
        newer.size_bytes, 0,
        "of an epoch that the fetch was not made for"
    );
    let mut torn = placed_batch(21, 3, 1, 5);
    torn[65] ^= 1;
    assert!(
        f.log()
            .append_as_follower(&torn, LeaderEpoch(3), NOW_MS)
            .is_err()
    );
    assert_eq!(f.log().log_end_offset(), 21);
}

#[test]
fn the_broker_stamps_when_told() {
    let mut f = Fixture::new(LogConfig {
        message_timestamp_type: TimestampType::LogAppendTime,
        ..small()
    });
    let info = f.append(&batch(2, 5, 10)).unwrap();
    assert_eq!(
        (info.max_timestamp, info.log_append_time_ms),
        (NOW_MS, NOW_MS)
    );
    let bytes = f
        .log()
        .read(0, 1000, 2, true)
        .unwrap()
        .region
        .unwrap()
        .read()
        .unwrap();
    let batch = kavka_records::RecordBatch::parse(&bytes).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(
        batch.header().timestamp_type(),
        TimestampType::LogAppendTime
    );
    assert_eq!(
        batch
            .records(1000)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .timestamp,
        NOW_MS
    );
}

#[test]
fn duplicates_get_their_first_offsets_and_refusals_change_nothing() {
    let mut f = Fixture::new(small());
    let first = f.append(&producer_batch(9, 0, 0, 2, 50)).unwrap();
    f.append(&producer_batch(9, 0, 2, 1, 51)).unwrap();
    let again = f.append(&producer_batch(9, 0, 0, 2, 50)).unwrap();
    assert!(again.duplicate);
    assert_eq!(
        (again.first_offset, again.last_offset),
        (first.first_offset, first.last_offset)
    );
    let error = f.append(&producer_batch(9, 0, 7, 1, 52)).unwrap_err();
    assert!(matches!(
        error,
        AppendError::Producer(ProducerError::OutOfOrderSequence { .. })
    ));
    assert_eq!(f.log().log_end_offset(), 3);
    f.append(&producer_batch(9, 0, 3, 1, 52)).unwrap();
    // The last batch is recognised after a restart too.
    f.config.producer_id_expiration_ms = NOW_MS;
    f.bounce();
    assert!(f.append(&producer_batch(9, 0, 3, 1, 52)).unwrap().duplicate);
}

#[test]
fn timestamps_are_found() {
    let mut f = Fixture::new(small());
    for at in 0..40i64 {
        // Not monotone: every fifth batch is late.
        let timestamp = if at % 5 == 0 {
            1000 + at * 10 - 35
        } else {
            1000 + at * 10
        };
        f.append(&batch(1, timestamp, 50)).unwrap();
    }
    let timestamps: Vec<i64> = (0..40)
        .map(|at| {
            if at % 5 == 0 {
                1000 + at * 10 - 35
            } else {
                1000 + at * 10
            }
        })
        .collect();
    for _ in 0..2 {
        for target in 900..1450 {
            let expected = timestamps.iter().position(|timestamp| *timestamp >= target);
            let found = f.log().offset_for_timestamp(target, 40).unwrap();
            assert_eq!(
                found.map(|found| found.offset),
                expected.map(|at| at as i64),
                "{target}"
            );
        }
        assert_eq!(
            f.log().offset_for_timestamp(1390, 39).unwrap(),
            None,
            "above the bound"
        );
        assert_eq!(f.log().max_timestamp_offset().unwrap().unwrap().offset, 39);
        f.bounce();
    }
}

#[test]
fn truncation_cuts_segments_producers_and_epochs() {
    let mut f = Fixture::new(small());
    for at in 0..20 {
        f.log()
            .append_as_leader(
                &producer_batch(1, 0, at, 1, 50),
                LeaderEpoch(at / 4),
                AppendOrigin::Client,
                NOW_MS,
            )
            .unwrap();
    }
    f.log().update_high_watermark(15);
    assert!(f.log().segment_count() > 1);
    assert!(!f.log().truncate_to(20, NOW_MS).unwrap());
    assert!(f.log().truncate_to(6, NOW_MS).unwrap());
    assert_eq!(f.log().log_end_offset(), 6);
    assert_eq!(f.log().high_watermark(), 6);
    assert_eq!(f.log().latest_epoch(), Some(LeaderEpoch(1)));
    assert_eq!(
        f.log()
            .producer_state()
            .producer(ProducerId(1))
            .unwrap()
            .last_sequence(),
        5
    );
    assert_eq!(f.read_bases(0, 6), [0, 1, 2, 3, 4, 5]);
    let info = f.append(&producer_batch(1, 0, 6, 1, 50)).unwrap();
    assert_eq!(info.first_offset, 6);
    f.log().due_deletions(NOW_MS).run().unwrap();
    assert!(!f.names().iter().any(|name| name.ends_with(".deleted")));
    let end = f.log().log_end_offset();
    f.bounce();
    assert_eq!(f.log().log_end_offset(), end);
    f.log().truncate_fully_and_start_at(100, NOW_MS).unwrap();
    assert_eq!(
        (f.log().log_start_offset(), f.log().log_end_offset()),
        (100, 100)
    );
    assert_eq!(f.append(&batch(1, 1, 1)).unwrap().first_offset, 100);
}

#[test]
fn retention_takes_whole_segments_below_the_high_watermark() {
    let mut f = Fixture::new(LogConfig {
        retention_bytes: 1500,
        file_delete_delay_ms: 10,
        ..small()
    });
    f.append_many(40);
    let size = f.log().size_bytes();
    assert!(
        f.log().delete_old_segments(NOW_MS, 0).unwrap().is_empty(),
        "nothing is replicated"
    );
    let end = f.log().log_end_offset();
    f.log().update_high_watermark(end);
    let deleted = f.log().delete_old_segments(NOW_MS, end).unwrap();
    assert!(!deleted.is_empty());
    let left = f.log().size_bytes();
    assert!(left >= 1500 && left < size, "{left} of {size}");
    let start = f.log().log_start_offset();
    assert_eq!(start, f.log().segment_base_offsets().next().unwrap());
    assert!(
        f.names()
            .iter()
            .any(|name| name == "00000000000000000000.log.deleted")
    );
    assert!(f.log().due_deletions(NOW_MS + 9).is_empty());
    assert_eq!(f.log().next_deletion_ms(), Some(NOW_MS + 10));
    f.log().due_deletions(NOW_MS + 10).run().unwrap();
    assert!(!f.names().iter().any(|name| name.ends_with(".deleted")));
    assert!(matches!(
        f.log().read(start - 1, 100, end, true),
        Err(ReadError::OutOfRange(_))
    ));

    f.config.retention_ms = 500;
    let config = f.config.clone();
    f.log().set_config(config);
    f.log().delete_old_segments(NOW_MS, end).unwrap();
    assert_eq!(
        f.log().log_start_offset(),
        end,
        "everything is too old; an empty segment is left"
    );
    assert_eq!(f.log().segment_count(), 1);
    f.bounce();
    assert_eq!(
        (f.log().log_start_offset(), f.log().log_end_offset()),
        (end, end)
    );
}

#[test]
fn the_log_start_moves_up_to_the_high_watermark() {
    let mut f = Fixture::new(small());
    f.append_many(30);
    let end = f.log().log_end_offset();
    assert!(matches!(
        f.log().increment_log_start_offset(5),
        Err(ReadError::OutOfRange(_))
    ));
    f.log().update_high_watermark(end);
    assert!(f.log().increment_log_start_offset(20).unwrap());
    assert!(!f.log().increment_log_start_offset(10).unwrap());
    assert!(matches!(
        f.log().read(19, 100, end, true),
        Err(ReadError::OutOfRange(_))
    ));
    assert_eq!(f.log().leader_epochs().entries()[0].start_offset, 20);
    f.log().delete_old_segments(NOW_MS, end).unwrap();
    assert_eq!(f.log().log_start_offset(), 20);
    assert!(f.log().segment_base_offsets().next().unwrap() <= 20);
    assert!(f.log().segment_base_offsets().nth(1).unwrap() > 20);
}

#[test]
fn aborted_transactions_are_listed_and_survive() {
    let mut f = Fixture::new(small());
    f.append(&txn_batch(1, 0, 0, 2, 10)).unwrap();
    f.append(&txn_batch(2, 0, 0, 1, 10)).unwrap();
    f.log()
        .append_as_leader(
            &marker(1, 0, 0, false, 11),
            LeaderEpoch(0),
            AppendOrigin::Coordinator,
            NOW_MS,
        )
        .unwrap();
    let end = f.log().log_end_offset();
    assert_eq!(f.log().last_stable_offset(), 0);
    f.log().update_high_watermark(end);
    assert_eq!(f.log().last_stable_offset(), 2);
    let aborted = f.log().aborted_transactions(0, end).unwrap();
    assert_eq!(aborted.len(), 1);
    assert_eq!(
        (
            aborted[0].first_offset,
            aborted[0].last_offset,
            aborted[0].last_stable_offset
        ),
        (0, 3, 2)
    );
    assert!(
        f.log()
            .aborted_transactions(4, end + 10)
            .unwrap()
            .is_empty()
    );
    f.bounce();
    assert_eq!(f.log().aborted_transactions(0, end).unwrap(), aborted);
    let high_watermark = f.log().update_high_watermark(end);
    assert_eq!(high_watermark, end);
    assert_eq!(
        f.log().last_stable_offset(),
        2,
        "the open transaction survives a restart"
    );
    assert!(
        f.log()
            .has_ongoing_transaction(ProducerId(2), ProducerEpoch(0))
    );
}

#[test]
fn a_clean_start_reads_next_to_nothing() {
    let mut f = Fixture::new(LogConfig {
        segment_bytes: 100_000,
        index_interval_bytes: 4096,
        ..small()
    });
    f.append_many(5000);
    let (end, size) = (f.log().log_end_offset(), f.log().size_bytes());
    let report = f.bounce();
    assert_eq!(
        (f.log().log_end_offset(), f.log().size_bytes()),
        (end, size)
    );
    assert_eq!(report, RecoveryReport::default());
    let closed = f.bounce();
    assert_eq!(closed, RecoveryReport::default());
}

#[test]
fn only_what_lies_behind_the_recovery_point_is_checked() {
    let mut f = Fixture::new(LogConfig {
        segment_bytes: 20_000,
        ..small()
    });
    f.append_many(900);
    let ticket = f.log().begin_flush().unwrap();
    ticket.run().unwrap();
    f.log().complete_flush(ticket);
    let recovery_point = f.log().recovery_point();
    assert_eq!(recovery_point, f.log().log_end_offset());
    let size = f.log().size_bytes();
    f.append_many(50);
    let (end, behind) = (f.log().log_end_offset(), f.log().size_bytes() - size);
    let report = f.open(OpenOptions {
        recovery_point,
        ..OpenOptions::new(NOW_MS)
    });
    assert_eq!(f.log().log_end_offset(), end);
    assert!(
        report.bytes_checked >= behind && report.bytes_checked < behind + 10_000,
        "{report:?}"
    );
    assert!(report.segments_checked <= 2, "{report:?}");
    assert_eq!(report.bytes_cut, 0);
    let all = f.open(OpenOptions::new(NOW_MS));
    assert!(all.bytes_checked >= size, "{all:?}");
    assert_eq!(f.log().log_end_offset(), end);
}

#[test]
fn a_renamed_log_is_still_read() {
    let mut f = Fixture::new(small());
    f.append_many(30);
    f.bounce();
    let end = f.log().log_end_offset();
    f.log().rename_dir("t-0.x-delete").unwrap();
    assert_eq!(f.read_bases(0, end).len(), 30);
    assert!(!RealVfs.exists(&f.path()).unwrap());
}
