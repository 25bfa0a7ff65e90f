//! Flushes that run beside what their log's owner does meanwhile.
//! Not here: crashes (crash_test.rs). Run by `cargo test`. Kafka: LogLoaderTest and UnifiedLogTest about flushes.

use super::*;
use crate::checkpoint::read_epochs;
use crate::config::LogConfig;
use crate::log::OpenOptions;
use crate::testing::SimVfs;
use crate::vfs::Vfs;
use kavka_common::LeaderEpoch;
use std::path::Path;

fn open(vfs: &SimVfs) -> Log {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = OpenOptions::new(0);
    let (log, _) = Log::open(vfs, Path::new("/data/t-0"), LogConfig::default(), options).unwrap();
    log
}

fn epochs(vfs: &SimVfs) -> Vec<i32> {
    let path = Path::new("/data/t-0").join(names::LEADER_EPOCH_CHECKPOINT);
    let entries = read_epochs(vfs, &path).unwrap().unwrap_or_default();
    entries.iter().map(|entry| entry.epoch.get()).collect()
}

#[test]
fn an_old_flush_does_not_put_back_old_epochs() {
    let vfs = SimVfs::new();
    let mut log = open(&vfs);
    log.assign_epoch_start(LeaderEpoch(1), 0).unwrap();
    let old = log.begin_flush().unwrap();
    log.assign_epoch_start(LeaderEpoch(2), 0).unwrap();
    let written = epochs(&vfs);
    old.run().unwrap();
    assert_eq!(epochs(&vfs), written);
    log.complete_flush(old);
    // and does not count as a flush of the new ones
    let new = log.begin_flush().unwrap();
    assert!(new.epochs.is_some());
    new.run().unwrap();
    log.complete_flush(new);
    assert!(log.begin_flush().unwrap().epochs.is_none());
    assert_eq!(epochs(&vfs), written);
}

#[test]
fn a_flush_of_a_deleted_topic_leaves_the_new_one_of_its_name_alone() {
    let vfs = SimVfs::new();
    let mut log = open(&vfs);
    log.assign_epoch_start(LeaderEpoch(7), 0).unwrap();
    let old = log.begin_flush().unwrap();
    log.rename_dir("t-0.1234-delete").unwrap();
    let _new = open(&vfs);
    let _ = old.run();
    assert_eq!(epochs(&vfs), []);

    // closed, and then renamed by the directory
    let vfs = SimVfs::new();
    let mut log = open(&vfs);
    log.assign_epoch_start(LeaderEpoch(7), 0).unwrap();
    let old = log.begin_flush().unwrap();
    log.close().unwrap();
    vfs.rename(Path::new("/data/t-0"), Path::new("/data/t-0.1234-delete"))
        .unwrap();
    let _new = open(&vfs);
    let _ = old.run();
    assert_eq!(epochs(&vfs), []);
}
