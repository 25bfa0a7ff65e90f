//! What a restart makes of damaged files, and of entries that do not fit.

use super::entry_codec::{encode_records, log_id};
use super::metadata_log::{MetadataLog, MetadataLogError};
use super::types::{Entry, Membership, ProposedBatch, RaftLogIdOf};
use bytes::{Bytes, BytesMut};
use kavka_common::{LeaderEpoch, Offset, SystemClock};
use kavka_protocol::MetadataRecord;
use kavka_protocol::messages::NoOpRecord;
use kavka_records::patch_header;
use kavka_storage::LogConfig;
use kavka_storage::vfs::{Durability, RealVfs, read_file, replace_file};
use openraft::RaftLogId;
use openraft::entry::FromAppData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn open_with(
    dir: &Path,
    snapshot: Option<(RaftLogIdOf, Offset)>,
) -> Result<MetadataLog, MetadataLogError> {
    MetadataLog::open(
        Arc::new(RealVfs),
        dir,
        LogConfig::default(),
        Arc::new(SystemClock::new()),
        snapshot,
    )
    .map(|(log, _)| log)
}

fn open(dir: &Path) -> Result<MetadataLog, MetadataLogError> {
    open_with(dir, None)
}

fn batch(records: usize) -> BytesMut {
    let value = MetadataRecord::NoOp(NoOpRecord::default())
        .encode_value(0)
        .unwrap();
    let values: Vec<Bytes> = vec![value; records];
    BytesMut::from(&encode_records(&values, 7).unwrap()[..])
}

fn entry(epoch: i32, index: u64, batch: BytesMut) -> Entry {
    let mut entry = Entry::from_app_data(ProposedBatch {
        batch: batch.freeze(),
    });
    entry.set_log_id(&log_id(LeaderEpoch(epoch), index));
    entry
}

fn append(log: &MetadataLog, epoch: i32, index: u64, records: usize) {
    append_stamped(log, entry(epoch, index, batch(records)), false).unwrap();
}

fn append_stamped(log: &MetadataLog, entry: Entry, proposed: bool) -> Result<(), MetadataLogError> {
    let leader = proposed.then(|| (entry.term(), 1));
    log.append(vec![entry], leader, proposed, &Membership::default())
}

/// Three batches of epochs 1, 1 and 2, of 3, 2 and 4 records, stopped cleanly.
fn stopped(dir: &Path) {
    let log = open(dir).unwrap();
    append(&log, 1, 0, 3);
    append(&log, 1, 1, 2);
    append(&log, 2, 2, 4);
    log.flush().unwrap();
}

fn segment(dir: &Path) -> PathBuf {
    dir.join("00000000000000000000.log")
}

fn content(dir: &Path) -> Vec<u8> {
    read_file(&RealVfs, &segment(dir), 1 << 20).unwrap()
}

fn overwrite(dir: &Path, content: &[u8]) {
    replace_file(&RealVfs, &segment(dir), content, Durability::PageCache).unwrap();
}

#[track_caller]
fn refused(dir: &Path) -> String {
    let before = content(dir);
    let error = open(dir).err().expect("the log is refused");
    assert!(matches!(error, MetadataLogError::Damaged { .. }), "{error}");
    assert_eq!(content(dir), before, "nothing is cut");
    error.to_string()
}

#[test]
fn a_log_that_lost_its_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path());
    let whole = content(dir.path());
    // At a batch boundary, where nothing looks wrong with the file itself: Kafka would go on from there.
    let two_batches = 2 * 12
        + whole[8..12]
            .iter()
            .fold(0, |n, byte| n * 256 + usize::from(*byte))
        + {
            let at = 12
                + whole[8..12]
                    .iter()
                    .fold(0, |n, byte| n * 256 + usize::from(*byte));
            whole[at + 8..at + 12]
                .iter()
                .fold(0, |n, byte| n * 256 + usize::from(*byte))
        };
    overwrite(dir.path(), &whole[..two_batches]);
    let said = refused(dir.path());
    for words in [
        "ends at offset 5",
        "durable up to offset 9 (epoch 2)",
        "from a copy",
    ] {
        assert!(said.contains(words), "{words:?} is missing in: {said}");
    }
    // In the middle of a batch.
    overwrite(dir.path(), &whole[..whole.len() - 5]);
    refused(dir.path());
    overwrite(dir.path(), &whole);
    assert_eq!(open(dir.path()).unwrap().offsets(), (0, 9));
}

#[test]
fn a_bad_batch_that_was_durable_is_bit_rot() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path());
    let whole = content(dir.path());
    for at in [30, whole.len() / 2, whole.len() - 3] {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        overwrite(dir.path(), &bad);
        refused(dir.path());
    }
}

#[test]
fn a_torn_tail_behind_the_recovery_point_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path());
    let log = open(dir.path()).unwrap();
    append(&log, 2, 3, 5);
    drop(log);
    let torn = content(dir.path());
    overwrite(dir.path(), &torn[..torn.len() - 5]);
    let log = open(dir.path()).unwrap();
    assert_eq!(log.offsets(), (0, 9));
    append(&log, 3, 3, 1);
    assert_eq!(log.offsets(), (0, 10));
}

#[test]
fn another_log_in_the_same_place_is_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    stopped(dir.path());
    {
        let log = open(other.path()).unwrap();
        append(&log, 7, 0, 9);
        log.flush().unwrap();
    }
    overwrite(dir.path(), &content(other.path()));
    let said = refused(dir.path());
    assert!(
        said.contains("a batch of epoch 7 before offset 9"),
        "{said}"
    );
}

#[test]
fn cutting_the_log_lowers_what_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path());
    let log = open(dir.path()).unwrap();
    log.truncate(log_id(LeaderEpoch(2), 2)).unwrap();
    // Killed before anything else was written.
    drop(log);
    assert_eq!(open(dir.path()).unwrap().offsets(), (0, 5));
}

#[test]
fn a_log_goes_on_behind_a_snapshot_only_where_that_ends() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path());
    let log = open(dir.path()).unwrap();
    let behind = log_id(LeaderEpoch(4), 20);
    assert!(matches!(
        log.purge(behind, None),
        Err(MetadataLogError::NoSnapshot(_))
    ));
    assert_eq!(log.offsets(), (0, 9));
    log.purge(behind, Some(70)).unwrap();
    assert_eq!(log.offsets(), (70, 70));
    append(&log, 4, 21, 2);
    log.flush().unwrap();
    drop(log);
    let log = open_with(dir.path(), Some((behind, 70))).unwrap();
    assert_eq!(log.offsets(), (70, 72));
    assert_eq!(log.bounds().last, Some(log_id(LeaderEpoch(4), 21)));
}

#[test]
fn purging_all_of_a_log_keeps_its_end() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path());
    let log = open(dir.path()).unwrap();
    log.purge(log_id(LeaderEpoch(2), 2), None).unwrap();
    assert_eq!(log.offsets(), (9, 9));
}

#[test]
fn a_batch_that_was_decided_for_another_place_has_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    stopped(dir.path());
    let log = open(dir.path()).unwrap();
    let stamped = |offset: Offset, epoch: i32, index: u64, term: i32| {
        let mut batch = batch(6);
        patch_header(&mut batch, offset, LeaderEpoch(epoch));
        entry(term, index, batch)
    };
    append_stamped(&log, stamped(9, 3, 3, 3), true).unwrap();
    assert_eq!(log.offsets().1, 15, "it fits");
    append_stamped(&log, stamped(14, 3, 4, 3), true).unwrap();
    assert_eq!(
        log.offsets().1,
        16,
        "another offset: one record without effect"
    );
    append_stamped(&log, stamped(16, 3, 5, 4), true).unwrap();
    assert_eq!(log.offsets().1, 17, "another epoch");
    // From a leader it is a sign that the logs differ.
    assert!(matches!(
        append_stamped(&log, stamped(14, 4, 6, 4), false),
        Err(MetadataLogError::Diverged { .. })
    ));
    log.flush().unwrap();
    drop(log);
    assert_eq!(open(dir.path()).unwrap().offsets().1, 17);
}
