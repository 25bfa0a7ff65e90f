//! Log directories on real files: lock, marker, checkpoints, folders, choice.
//! Not here: their logs. Run by `cargo test`. Kafka: LogManagerTest.

use super::*;
use crate::vfs::RealVfs;
use kavka_common::Uuid;

fn vfs() -> Arc<dyn Vfs> {
    Arc::new(RealVfs)
}

#[test]
fn a_directory_has_one_owner() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let dir = LogDir::open(vfs(), &path).unwrap();
    let error = LogDir::open(vfs(), &path).unwrap_err();
    assert!(matches!(error, LogDirError::Locked(_)));
    assert!(
        error
            .to_string()
            .starts_with("Failed to acquire lock on file .lock in")
    );
    drop(dir);
    LogDir::open(vfs(), &path).unwrap();
}

#[test]
fn the_clean_marker_counts_once() {
    let root = tempfile::tempdir().unwrap();
    let dir = LogDir::open(vfs(), root.path()).unwrap();
    assert!(!dir.was_clean_shutdown());
    dir.mark_clean_shutdown(Some(BrokerEpoch(17))).unwrap();
    drop(dir);
    let dir = LogDir::open(vfs(), root.path()).unwrap();
    assert!(dir.was_clean_shutdown());
    assert_eq!(dir.previous_broker_epoch(), Some(BrokerEpoch(17)));
    drop(dir);
    let dir = LogDir::open(vfs(), root.path()).unwrap();
    assert!(!dir.was_clean_shutdown());
    let error = io::Error::other("disk gone");
    dir.latch().fail("write", root.path(), &error);
    assert!(dir.mark_clean_shutdown(None).is_err());
    assert!(
        !RealVfs
            .exists(&root.path().join(names::CLEAN_SHUTDOWN))
            .unwrap()
    );
}

#[test]
fn broker_epochs_of_markers() {
    assert_eq!(
        parse_broker_epoch(b"{\"version\":0,\"brokerEpoch\":5}"),
        Some(BrokerEpoch(5))
    );
    assert_eq!(
        parse_broker_epoch(b"{\"brokerEpoch\" : 12 ,\"version\":0}"),
        Some(BrokerEpoch(12))
    );
    for none in [
        &b""[..],
        b"{\"version\":0,\"brokerEpoch\":-1}",
        b"{}",
        b"\"brokerEpoch\":",
    ] {
        assert_eq!(parse_broker_epoch(none), None);
    }
}

#[test]
fn checkpoints_tell_how_to_open_a_log() {
    let root = tempfile::tempdir().unwrap();
    let dir = LogDir::open(vfs(), root.path()).unwrap();
    let tp = TopicPartition::new("t", 3);
    let folders = [
        "t-3".to_owned(),
        names::delete_folder(&tp, Uuid::METADATA_TOPIC),
        names::future_folder(&tp, Uuid::METADATA_TOPIC),
        names::stray_folder(&tp, Uuid::METADATA_TOPIC),
        "lost+found".to_owned(),
    ];
    for folder in &folders {
        RealVfs.create_dir_all(&root.path().join(folder)).unwrap();
    }
    dir.write_recovery_points([(&tp, 40)]).unwrap();
    dir.write_log_starts([(&tp, 10)]).unwrap();
    dir.write_high_watermarks([(&tp, 30)]).unwrap();
    drop(dir);
    let mut dir = LogDir::open(vfs(), root.path()).unwrap();
    let options = dir.open_options(&tp, 5);
    assert_eq!((options.recovery_point, options.log_start_offset), (40, 10));
    assert_eq!(dir.checkpointed_high_watermark(&tp), Some(30));
    assert_eq!(dir.logs(), [tp]);
    assert_eq!(dir.future_logs().len(), 1);
    assert_eq!(dir.stray_folders().len(), 1);
    assert_eq!(dir.remove_deleted_folders().unwrap(), 1);
    assert!(!RealVfs.exists(&root.path().join(&folders[1])).unwrap());
}

#[test]
fn new_logs_go_where_fewest_are() {
    let root = tempfile::tempdir().unwrap();
    let paths = [
        root.path().join("a"),
        root.path().join("b"),
        root.path().join("c"),
    ];
    let (dirs, failed) = LogDirs::open(&vfs(), &paths);
    assert!(failed.is_empty());
    let counts = |dir: &LogDir| if dir.path().ends_with("a") { 2 } else { 1 };
    assert!(
        dirs.choose_for_new_log(counts)
            .unwrap()
            .path()
            .ends_with("b")
    );
    dirs.dirs[1]
        .latch()
        .fail("write", &paths[1], &io::Error::other("x"));
    assert!(
        dirs.choose_for_new_log(counts)
            .unwrap()
            .path()
            .ends_with("c")
    );
}
