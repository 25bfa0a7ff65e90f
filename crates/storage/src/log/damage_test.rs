//! Damage that somebody or something did to the files of a log: each is repaired from what is left, or refused loudly.
//! Not here: what a crash leaves (crash_test.rs). Run by `cargo test`. Kafka: LogLoaderTest; faults F36, F38, F39, F40.

use super::*;
use crate::producer_state::AppendOrigin;
use crate::testing::batches::{batch, marker, producer_batch, txn_batch};
use crate::vfs::{OpenMode, RealVfs, read_file, replace_file};
use kavka_records::batches;

const NOW_MS: i64 = 1_000_000;

struct Fixture {
    dir: tempfile::TempDir,
    end: Offset,
    last_base: Offset,
}

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 2000,
        index_interval_bytes: 200,
        segment_index_bytes: 4096,
        producer_id_expiration_ms: i64::MAX,
        ..LogConfig::default()
    }
}

impl Fixture {
    /// A cleanly closed log of several segments, with a producer, an open and an aborted transaction, two epochs.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions::new(NOW_MS);
        let (mut log, _) = Log::open(
            Arc::new(RealVfs),
            &dir.path().join("t-0"),
            config(),
            options,
        )
        .unwrap();
        for at in 0..60 {
            let epoch = LeaderEpoch(at / 30);
            let mut append = |bytes: &[u8], origin| {
                log.append_as_leader(bytes, epoch, origin, NOW_MS).unwrap();
            };
            append(&batch(2, 1000 + i64::from(at), 30), AppendOrigin::Client);
            append(&producer_batch(1, 0, at, 1, 1000), AppendOrigin::Client);
            if at == 3 {
                append(&txn_batch(2, 0, 0, 1, 1000), AppendOrigin::Client);
                append(&marker(2, 0, 0, false, 1000), AppendOrigin::Coordinator);
                append(&txn_batch(3, 0, 0, 1, 1000), AppendOrigin::Client);
            }
        }
        assert!(log.segment_count() > 3);
        let last_base = log.segment_base_offsets().last().unwrap();
        let end = log.log_end_offset();
        log.close().unwrap();
        Fixture {
            dir,
            end,
            last_base,
        }
    }

    fn path(&self, base_offset: Offset, suffix: &str) -> PathBuf {
        self.dir
            .path()
            .join("t-0")
            .join(names::offset_file(base_offset, suffix))
    }

    fn named(&self, name: &str) -> PathBuf {
        self.dir.path().join("t-0").join(name)
    }

    fn content(&self, base_offset: Offset, suffix: &str) -> Vec<u8> {
        read_file(&RealVfs, &self.path(base_offset, suffix), 1 << 20).unwrap()
    }

    fn flip(&self, path: &Path, at: usize) {
        let mut content = read_file(&RealVfs, path, 1 << 20).unwrap();
        content[at] ^= 0x40;
        replace_file(&RealVfs, path, &content, Durability::PageCache).unwrap();
    }

    fn add(&self, path: &Path, bytes: &[u8]) {
        let file = RealVfs.open(path, OpenMode::CreateOrWrite).unwrap();
        let length = file.len().unwrap();
        file.write_all_at(bytes, length).unwrap();
    }

    fn open(
        &self,
        recovery_point: Offset,
        clean_shutdown: bool,
    ) -> Result<(Log, RecoveryReport), StorageError> {
        let options = OpenOptions {
            recovery_point,
            clean_shutdown,
            ..OpenOptions::new(NOW_MS)
        };
        Log::open(
            Arc::new(RealVfs),
            &self.dir.path().join("t-0"),
            config(),
            options,
        )
    }

    /// Opens, and reads all of it offset by offset.
    fn open_whole(&self, recovery_point: Offset, clean_shutdown: bool) -> (Log, RecoveryReport) {
        let (mut log, report) = self.open(recovery_point, clean_shutdown).unwrap();
        assert_eq!(log.log_end_offset(), self.end);
        for offset in 0..self.end {
            let region = log
                .read(offset, 100, self.end, true)
                .unwrap()
                .region
                .unwrap();
            let bytes = region.read().unwrap();
            let first = batches(&bytes).next().unwrap().unwrap();
            assert!((first.header().base_offset..first.header().next_offset()).contains(&offset));
        }
        assert_eq!(
            log.producer_state()
                .producer(ProducerId(1))
                .unwrap()
                .last_sequence(),
            59
        );
        assert!(log.has_ongoing_transaction(ProducerId(3), ProducerEpoch(0)));
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch(1)));
        (log, report)
    }
}

#[test]
fn lost_indexes_are_built_anew_as_they_were() {
    for clean in [true, false] {
        for suffixes in [
            &[names::INDEX][..],
            &[names::TIME_INDEX],
            &[names::INDEX, names::TIME_INDEX],
        ] {
            for last in [false, true] {
                let f = Fixture::new();
                let base = if last { f.last_base } else { 0 };
                let before: Vec<_> = suffixes
                    .iter()
                    .map(|suffix| f.content(base, suffix))
                    .collect();
                for suffix in suffixes {
                    RealVfs.remove_file(&f.path(base, suffix)).unwrap();
                }
                let (log, _) = f.open_whole(f.end, clean);
                log.close().unwrap();
                let after: Vec<_> = suffixes
                    .iter()
                    .map(|suffix| f.content(base, suffix))
                    .collect();
                assert_eq!(before, after, "{suffixes:?} clean {clean} last {last}");
            }
        }
    }
}

#[test]
fn flipped_index_bits_never_mislead() {
    let f = Fixture::new();
    for base in [0, f.last_base] {
        for suffix in [names::INDEX, names::TIME_INDEX] {
            let path = f.path(base, suffix);
            let content = f.content(base, suffix);
            assert!(content.len() >= 24, "{suffix}");
            for at in 0..content.len() {
                f.flip(&path, at);
                let (log, _) = f.open_whole(f.end, at % 2 == 0);
                drop(log);
                replace_file(&RealVfs, &path, &content, Durability::PageCache).unwrap();
            }
        }
    }
}

#[test]
fn what_follows_the_last_valid_batch_is_cut() {
    let torn = batch(2, 5, 100);
    let mut bad_crc = batch(2, 5, 100);
    bad_crc[80] ^= 1;
    for garbage in [
        &[0u8; 500][..],
        &[0xff; 3],
        b"garbage that is longer than a header of sixty-one bytes, by far",
        &torn[..90],
        &bad_crc,
    ] {
        let f = Fixture::new();
        f.add(&f.path(f.last_base, names::LOG), garbage);
        let (log, report) = f.open_whole(f.end, false);
        assert_eq!(report.bytes_cut, garbage.len() as u64, "{report:?}");
        assert!(report.cut_reason.is_some());
        drop(log);
        let (_, report) = f.open_whole(f.end, false);
        assert_eq!(report.bytes_cut, 0, "cut for good");
    }
}

#[test]
fn garbage_behind_a_cleanly_closed_log_is_cut() {
    let torn = batch(2, 5, 100);
    for garbage in [&[0u8; 500][..], &[0xff; 3], &torn[..90]] {
        for lost_index in [false, true] {
            let f = Fixture::new();
            let path = f.path(f.last_base, names::LOG);
            f.add(&path, garbage);
            if lost_index {
                RealVfs
                    .remove_file(&f.path(f.last_base, names::INDEX))
                    .unwrap();
            }
            // Without a recovery point nobody can tell garbage from a damaged record.
            assert!(matches!(f.open(0, true), Err(StorageError::Corrupt { .. })));
            let (log, report) = f.open_whole(f.end, true);
            assert_eq!(report.bytes_cut, garbage.len() as u64, "{report:?}");
            log.close().unwrap();
            let (_, report) = f.open_whole(f.end, true);
            assert_eq!(report, RecoveryReport::default(), "cut for good");
        }
    }
}

#[test]
fn a_damaged_last_batch_of_a_cleanly_closed_log_is_bit_rot() {
    let f = Fixture::new();
    let log_path = f.path(f.last_base, names::LOG);
    let before = f.content(f.last_base, names::LOG);
    let mut last = 0;
    let mut at = 0;
    for batch in batches(&before) {
        last = at;
        at += batch.unwrap().bytes().len();
    }
    f.flip(&log_path, last + 16);
    let error = f.open(f.end, true).unwrap_err();
    assert!(matches!(error, StorageError::BitRot { .. }), "{error}");
    assert_eq!(f.content(f.last_base, names::LOG).len(), before.len());
}

#[test]
fn a_log_whose_end_is_gone_is_refused_by_name_and_offsets() {
    for clean in [true, false] {
        for remove in [true, false] {
            let f = Fixture::new();
            let path = f.path(f.last_base, names::LOG);
            let content = f.content(f.last_base, names::LOG);
            if remove {
                RealVfs.remove_file(&path).unwrap();
            } else {
                RealVfs.open(&path, OpenMode::CreateEmpty).unwrap();
            }
            let open = || {
                let options = OpenOptions {
                    recovery_point: f.end,
                    high_watermark: f.end,
                    clean_shutdown: clean,
                    ..OpenOptions::new(NOW_MS)
                };
                Log::open(Arc::new(RealVfs), &f.named(""), config(), options)
            };
            let error = open().unwrap_err();
            let StorageError::TailMissing {
                log_end_offset,
                durable_to,
                ..
            } = &error
            else {
                panic!("{error}");
            };
            assert_eq!((*log_end_offset, *durable_to), (f.last_base, f.end));
            let text = error.to_string();
            assert!(text.contains(".log ends at offset"), "{text}");
            assert!(text.contains("move the folder away"), "{text}");
            // A second start tells the same, and with the file back all is well.
            assert!(open().is_err());
            replace_file(&RealVfs, &path, &content, Durability::PageCache).unwrap();
            f.open_whole(f.end, clean);
        }
    }
}

#[test]
fn a_truncation_that_a_crash_interrupted_is_no_missing_tail() {
    let f = Fixture::new();
    RealVfs
        .open(&f.path(f.last_base, names::LOG), OpenMode::CreateEmpty)
        .unwrap();
    let options = OpenOptions {
        recovery_point: f.end,
        high_watermark: f.last_base,
        ..OpenOptions::new(NOW_MS)
    };
    let (log, report) = Log::open(Arc::new(RealVfs), &f.named(""), config(), options).unwrap();
    assert_eq!(log.log_end_offset(), f.last_base);
    assert!(report.ends_before_recovery_point);
}

#[test]
fn a_directory_that_was_moved_away_fails_at_the_next_roll() {
    let f = Fixture::new();
    let (mut log, _) = f.open(f.end, true).unwrap();
    let elsewhere = f.dir.path().join("elsewhere");
    RealVfs.rename(&f.named(""), &elsewhere).unwrap();
    let error = log.roll(NOW_MS).unwrap_err();
    assert!(matches!(error, StorageError::Poisoned { .. }), "{error}");
    assert!(log.failure_latch().is_failed());
}

#[test]
fn a_folder_that_was_removed_fails_a_flush_but_one_that_is_being_deleted_does_not() {
    for deleted in [true, false] {
        let f = Fixture::new();
        let (mut log, _) = f.open(f.end, true).unwrap();
        log.append_as_leader(
            &batch(1, 1000, 10),
            LeaderEpoch(1),
            AppendOrigin::Client,
            NOW_MS,
        )
        .unwrap();
        log.roll(NOW_MS).unwrap();
        let ticket = log.begin_flush().unwrap();
        if deleted {
            log.rename_dir("t-0.x-delete").unwrap();
        } else {
            RealVfs
                .rename(&f.named(""), &f.dir.path().join("elsewhere"))
                .unwrap();
        }
        let error = ticket.run().unwrap_err();
        log.note_failed_flush(&ticket, &error);
        assert_eq!(log.failure_latch().is_failed(), !deleted, "{error}");
    }
}

#[test]
fn a_bad_batch_behind_the_recovery_point_cuts_all_that_follows() {
    let f = Fixture::new();
    f.flip(&f.path(0, names::LOG), 1000);
    let (log, report) = f.open(0, false).unwrap();
    assert!(log.log_end_offset() > 0 && log.log_end_offset() < f.end);
    assert_eq!(log.segment_count(), 1);
    assert!(
        report.segments_removed >= 3 && report.bytes_cut > 0,
        "{report:?}"
    );
    assert!(
        log.leader_epochs()
            .entries()
            .iter()
            .all(|entry| entry.start_offset <= log.log_end_offset())
    );
    let last = log
        .producer_state()
        .producer(ProducerId(1))
        .unwrap()
        .last_batch()
        .unwrap()
        .last_offset;
    assert!(last < log.log_end_offset());
}

#[test]
fn bit_rot_below_the_recovery_point_is_reported() {
    // In a part that is walked: between the last index entry and the recovery point.
    let f = Fixture::new();
    let log_path = f.path(f.last_base, names::LOG);
    let length = f.content(f.last_base, names::LOG).len();
    let header_of_last = {
        let bytes = f.content(f.last_base, names::LOG);
        let mut at = 0;
        let mut last = 0;
        for batch in batches(&bytes) {
            last = at;
            at += batch.unwrap().bytes().len();
        }
        assert_eq!(at, length);
        last
    };
    f.flip(&log_path, header_of_last + 16);
    let error = f.open(f.end, false).unwrap_err();
    assert!(matches!(error, StorageError::BitRot { .. }), "{error}");
    assert!(error.to_string().contains("bit rot in"), "{error}");
    assert_eq!(
        f.content(f.last_base, names::LOG).len(),
        length,
        "nothing was cut"
    );
    // A partly lost file below the recovery point.
    let f = Fixture::new();
    let file = RealVfs
        .open(&f.path(f.last_base, names::LOG), OpenMode::Write)
        .unwrap();
    file.set_len(file.len().unwrap() - 5).unwrap();
    assert!(matches!(
        f.open(f.end, false),
        Err(StorageError::BitRot { .. })
    ));
    // While an index is built anew, every batch is checked.
    let f = Fixture::new();
    RealVfs.remove_file(&f.path(0, names::INDEX)).unwrap();
    f.flip(&f.path(0, names::LOG), 1000);
    assert!(matches!(
        f.open(f.end, false),
        Err(StorageError::BitRot { .. })
    ));
}

#[test]
fn lost_snapshots_and_epochs_are_built_anew() {
    for clean in [true, false] {
        let f = Fixture::new();
        for entry in RealVfs.list(&f.named("")).unwrap() {
            if entry.name.ends_with(names::PRODUCER_SNAPSHOT) {
                f.flip(&f.named(&entry.name), entry.length as usize - 1);
            }
        }
        replace_file(
            &RealVfs,
            &f.named(names::LEADER_EPOCH_CHECKPOINT),
            b"",
            Durability::PageCache,
        )
        .unwrap();
        let (log, report) = f.open_whole(f.end, clean);
        assert!(
            report.epochs_rebuilt && report.snapshots_removed > 0,
            "{report:?}"
        );
        let starts: Vec<i32> = log
            .leader_epochs()
            .entries()
            .iter()
            .map(|entry| entry.epoch.get())
            .collect();
        assert_eq!(starts, [0, 1]);
    }
}

#[test]
fn a_damaged_transaction_index_is_found() {
    let f = Fixture::new();
    let path = f.path(0, names::TXN_INDEX);
    f.add(&path, b"x");
    // Below the recovery point it cannot be repaired without reading the segment: reads say so.
    let (mut log, _) = f.open(f.end, true).unwrap();
    assert!(matches!(
        log.aborted_transactions(0, f.end),
        Err(StorageError::Corrupt { .. })
    ));
    drop(log);
    // With everything read again it is built anew; lost altogether, too.
    for remove in [false, true] {
        if remove {
            RealVfs.remove_file(&path).unwrap();
        }
        let (mut log, _) = f.open(0, false).unwrap();
        let aborted = log.aborted_transactions(0, f.end).unwrap();
        assert_eq!(
            aborted
                .iter()
                .map(|txn| txn.producer_id)
                .collect::<Vec<_>>(),
            [ProducerId(2)]
        );
    }
}

#[test]
fn left_overs_of_deletion_and_compaction_are_finished() {
    let f = Fixture::new();
    let second = {
        let (log, _) = f.open(f.end, true).unwrap();
        let second = log.segment_base_offsets().nth(1).unwrap();
        log.close().unwrap();
        second
    };
    let first = f.content(0, names::LOG);
    f.add(&f.named("00000000000000000000.log.deleted"), b"old");
    f.add(&f.named("leader-epoch-checkpoint.tmp"), b"half");
    f.add(&f.named("00000000000000009999.index"), b"12345678");
    // A compacted first segment that was about to replace the original.
    f.add(&f.named("00000000000000000000.log.swap"), &first);
    // Another one that was not complete.
    f.add(&f.path(second, ".log.cleaned"), b"half");
    f.add(&f.path(second, ".log.swap"), b"half");
    let (log, report) = f.open_whole(f.end, true);
    assert!(report.left_overs_removed >= 6, "{report:?}");
    assert_eq!(f.content(0, names::LOG), first);
    log.close().unwrap();
    let entries = RealVfs.list(&f.named("")).unwrap();
    let odd: Vec<_> = entries
        .iter()
        .filter(|entry| {
            ["deleted", "cleaned", "swap", "tmp"]
                .iter()
                .any(|suffix| entry.name.ends_with(suffix))
        })
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
    assert!(
        !RealVfs
            .exists(&f.named("00000000000000009999.index"))
            .unwrap()
    );
}

#[test]
fn a_log_that_ends_before_its_start_begins_anew() {
    let f = Fixture::new();
    let options = OpenOptions {
        log_start_offset: f.end + 50,
        recovery_point: f.end,
        clean_shutdown: true,
        ..OpenOptions::new(NOW_MS)
    };
    let (log, _) = Log::open(Arc::new(RealVfs), &f.named(""), config(), options).unwrap();
    assert_eq!(
        (log.log_start_offset(), log.log_end_offset()),
        (f.end + 50, f.end + 50)
    );
}
