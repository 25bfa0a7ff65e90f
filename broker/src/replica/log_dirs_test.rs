//! Several log directories: where new logs go, and what becomes of the replicas of one that fails.
//! Not here: what a failure does to one log (crates/storage). Run by `cargo test`.
//! Each broker has folders of its own; the clock stands still.
//! Kafka: LogManagerTest, ReplicaManagerTest; KIP-112, KIP-858, KAFKA-16234.

#![allow(clippy::disallowed_methods)] // folders that come and go under the broker

use super::replica_test::{Broker, batch, dir_id, topic, topic_id};
use super::*;
use kavka_common::{TopicPartition, Uuid};
use kavka_metadata::MetadataRecord;
use kavka_storage::names;
use kavka_storage::vfs::RealVfs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A topic of one replica, registered in this directory.
fn topic_in(name: &str, n: u8, directory: Uuid, partition_epoch: i32) -> Vec<MetadataRecord> {
    let mut records = topic(name, topic_id(n), &[1], &[1]);
    let MetadataRecord::Partition(partition) = &mut records[1] else {
        unreachable!("a topic's second record is its partition");
    };
    partition.directories = vec![directory];
    partition.partition_epoch = partition_epoch;
    records
}

fn two_dirs(root: &Path) -> Vec<PathBuf> {
    vec![root.join("a"), root.join("b")]
}

async fn start(dirs: &[PathBuf]) -> Broker {
    Broker::start_in(Arc::new(RealVfs), dirs).await
}

#[tokio::test]
async fn a_new_log_goes_where_it_is_assigned_or_where_there_are_fewest() {
    let root = tempfile::tempdir().unwrap();
    let dirs = two_dirs(root.path());
    let mut broker = start(&dirs).await;
    broker.apply(&topic_in("t", 1, dir_id(1), 0)).await;
    broker.apply(&topic_in("u", 2, dir_id(1), 0)).await;
    for (n, name) in [(3, "v"), (4, "w")] {
        broker
            .apply(&topic_in(name, n, Uuid::DIR_UNASSIGNED, 0))
            .await;
    }
    for (dir, name) in [(1, "t-0"), (1, "u-0"), (0, "v-0"), (0, "w-0")] {
        assert!(dirs[dir].join(name).is_dir(), "{name} in {dir}");
    }
}

#[tokio::test]
async fn a_failed_directory_takes_only_its_partitions_offline() {
    let root = tempfile::tempdir().unwrap();
    let dirs = two_dirs(root.path());
    let mut broker = start(&dirs).await;
    broker.apply(&topic_in("t", 1, dir_id(0), 0)).await;
    broker.apply(&topic_in("u", 2, dir_id(1), 0)).await;
    let tasks = broker.replicas.start_maintenance();
    let mut failed = broker.replicas.failed_dirs();
    let latch = broker.replicas.dirs().dirs[1].latch();
    latch.fail("write", &dirs[1], &std::io::Error::other("gone"));
    // nobody asks: the failure itself sets it off
    let known = failed.wait_for(|failed| !failed.is_empty()).await.unwrap();
    assert_eq!(known.get(&dirs[1]), Some(&Some(dir_id(1))));
    drop(known);
    broker.produce(batch(&["a"])).unwrap();
    let error = broker.replicas.partition("u", 0).unwrap_err();
    assert!(matches!(error, ReplicaError::Storage(_)), "{error}");
    // a change of its registration does not bring it back, nor elsewhere
    broker.apply(&topic_in("u", 2, dir_id(1), 5)[1..]).await;
    broker.replicas.partition("u", 0).unwrap_err();
    assert!(!dirs[0].join("u-0").exists());
    // a new topic goes to the directory that is left
    broker
        .apply(&topic_in("v", 3, Uuid::DIR_UNASSIGNED, 0))
        .await;
    assert!(dirs[0].join("v-0").is_dir());
    let described = broker.replicas.describe_log_dirs();
    let offline: Vec<bool> = described.iter().map(|dir| dir.is_offline).collect();
    assert_eq!(offline, [false, true]);
    broker.replicas.shutdown(None).await;
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn what_a_stop_left_of_deleted_logs_is_removed_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let dirs = two_dirs(root.path());
    let left = dirs[1].join(names::delete_folder(
        &TopicPartition::new("t", 0),
        topic_id(9),
    ));
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("00000000000000000000.log"), "x").unwrap();
    let _broker = start(&dirs).await;
    let gone = async {
        while left.exists() {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, gone).await.unwrap();
}

#[tokio::test]
async fn after_a_start_without_its_directory_a_replica_is_not_made_empty_in_another() {
    let root = tempfile::tempdir().unwrap();
    let dirs = two_dirs(root.path());
    {
        let mut broker = start(&dirs).await;
        broker.apply(&topic_in("t", 1, dir_id(1), 0)).await;
        broker.produce(batch(&["a"])).unwrap();
        broker.replicas.shutdown(None).await;
    }
    let away = root.path().join("away");
    std::fs::rename(&dirs[1], &away).unwrap();
    // what stands in its place is no directory
    std::fs::write(&dirs[1], "").unwrap();
    {
        let mut broker = start(&dirs).await;
        assert_eq!(broker.replicas.dirs().unopened, [dirs[1].clone()]);
        broker.apply(&topic_in("t", 1, dir_id(1), 5)).await;
        let error = broker.replicas.partition("t", 0).unwrap_err();
        assert!(matches!(error, ReplicaError::LogDirOffline(_)), "{error}");
        assert!(!dirs[0].join("t-0").exists());
        assert!(broker.replicas.describe_log_dirs()[1].is_offline);
        broker.replicas.shutdown(None).await;
    }
    std::fs::remove_file(&dirs[1]).unwrap();
    std::fs::rename(&away, &dirs[1]).unwrap();
    let mut broker = start(&dirs).await;
    broker.apply(&topic_in("t", 1, dir_id(1), 6)).await;
    assert_eq!(broker.partition().view().unwrap().log_end_offset, 1);
}
