//! Logs that cannot be served: what is told, what stays in the checkpoints, and that no other topic gets their records.
//! Not here: what makes a log unfit to be opened (crates/storage). Run by `cargo test`.
//! Each broker has a folder of its own; the clock stands still.
//! Kafka: LogManagerTest, ReplicaManagerTest (offline partitions); KAFKA-16234.

use super::replica_test::{Broker, PARAMS, batch, offsets_of, read_at, topic, topic_id};
use super::spoilt_vfs::SpoiltVfs;
use super::*;
use kavka_common::TopicPartition;
use kavka_metadata::MetadataRecord;
use kavka_protocol::messages::RemoveTopicRecord;
use kavka_storage::checkpoint::read_offsets;
use kavka_storage::vfs::{OpenMode, RealVfs, Vfs, read_file};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn folders(dir: &Path, suffix: &str) -> usize {
    let entries = RealVfs.list(dir).unwrap();
    entries.iter().filter(|e| e.name.ends_with(suffix)).count()
}

fn checkpointed(dir: &Path, name: &str) -> Option<i64> {
    let offsets = read_offsets(&RealVfs, &dir.join(name)).unwrap();
    offsets.get(&TopicPartition::new("t", 0)).copied()
}

async fn values(broker: &Broker) -> Vec<(i64, String)> {
    let results = fetch(&PARAMS, &[read_at(&broker.partition(), 0)]).await;
    offsets_of(results[0].as_ref().unwrap())
}

#[tokio::test]
async fn a_topic_does_not_get_the_records_of_another_whose_folder_is_stuck() {
    let dir = tempfile::tempdir().unwrap();
    {
        let broker = Broker::with_topic(dir.path()).await;
        broker.produce(batch(&["old"])).unwrap();
        broker.replicas.shutdown(None).await;
    }
    let vfs = Arc::new(SpoiltVfs::default());
    vfs.stuck.store(true, Ordering::Relaxed);
    {
        // deleted and made anew while the broker was away
        let mut broker = Broker::start_on(vfs.clone(), dir.path()).await;
        broker.apply(&topic("t", topic_id(8), &[1], &[1])).await;
        let offline = broker.replicas.partition("t", 0).unwrap_err();
        assert!(offline.to_string().contains("stuck"), "{offline}");
        broker.replicas.shutdown(None).await;
    }
    assert_eq!(
        checkpointed(dir.path(), "recovery-point-offset-checkpoint"),
        Some(1)
    );
    vfs.stuck.store(false, Ordering::Relaxed);
    let mut broker = Broker::start_on(vfs, dir.path()).await;
    assert!(broker.replicas.dirs().dirs[0].was_clean_shutdown());
    broker.apply(&topic("t", topic_id(8), &[1], &[1])).await;
    assert_eq!(folders(dir.path(), "-stray"), 1);
    assert!(broker.partition().is_empty());
}

#[tokio::test]
async fn a_topic_does_not_get_the_records_of_one_that_could_not_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = Arc::new(SpoiltVfs::default());
    let mut broker = Broker::start_on(vfs.clone(), dir.path()).await;
    broker.apply(&topic("t", topic_id(7), &[1], &[1])).await;
    broker.produce(batch(&["old"])).unwrap();
    vfs.stuck.store(true, Ordering::Relaxed);
    let removal = MetadataRecord::RemoveTopic(RemoveTopicRecord {
        topic_id: topic_id(7),
        ..Default::default()
    });
    broker.apply(std::slice::from_ref(&removal)).await;
    broker.apply(&topic("t", topic_id(8), &[1], &[1])).await;
    assert!(broker.replicas.partition("t", 0).is_err());
    vfs.stuck.store(false, Ordering::Relaxed);
    let removal = MetadataRecord::RemoveTopic(RemoveTopicRecord {
        topic_id: topic_id(8),
        ..Default::default()
    });
    broker.apply(std::slice::from_ref(&removal)).await;
    broker.apply(&topic("t", topic_id(9), &[1], &[1])).await;
    assert!(broker.partition().is_empty());
    broker.produce(batch(&["new"])).unwrap();
    assert_eq!(values(&broker).await, [(0, "new".into())]);
}

#[tokio::test]
async fn a_log_that_does_not_open_keeps_its_lines_and_is_told_until_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    {
        let broker = Broker::with_topic(dir.path()).await;
        broker.produce(batch(&["a", "b", "c"])).unwrap();
        let target = vec![(Ok(broker.partition()), 2)];
        broker.replicas.delete_records(target, 1000).await;
        broker.replicas.shutdown(None).await;
    }
    let path = dir.path().join("t-0/00000000000000000000.log");
    let content = read_file(&RealVfs, &path, 1 << 20).unwrap();
    RealVfs.open(&path, OpenMode::CreateEmpty).unwrap();
    for checkpoint_meanwhile in [true, false] {
        let broker = Broker::with_topic(dir.path()).await;
        let offline = broker.replicas.partition("t", 0).unwrap_err().to_string();
        for part in ["00000000000000000000.log", "offset 0", "offset 3"] {
            assert!(offline.contains(part), "{offline}");
        }
        if checkpoint_meanwhile {
            broker.replicas.checkpoint_recovery_points();
            broker.replicas.checkpoint_log_starts();
            broker.replicas.checkpoint_high_watermarks();
        }
        for (name, offset) in [
            ("recovery-point-offset-checkpoint", 3),
            ("log-start-offset-checkpoint", 2),
            ("replication-offset-checkpoint", 3),
        ] {
            assert_eq!(checkpointed(dir.path(), name), Some(offset), "{name}");
        }
        broker.replicas.shutdown(None).await;
        assert_eq!(
            checkpointed(dir.path(), "log-start-offset-checkpoint"),
            Some(2)
        );
    }
    // nor does a crash make it pass for a shorter log
    drop(Broker::with_topic(dir.path()).await);
    let broker = Broker::with_topic(dir.path()).await;
    assert!(!broker.replicas.dirs().dirs[0].was_clean_shutdown());
    assert!(broker.replicas.partition("t", 0).is_err());
    broker.replicas.shutdown(None).await;
    drop(broker);
    RealVfs
        .open(&path, OpenMode::CreateEmpty)
        .unwrap()
        .write_all_at(&content, 0)
        .unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    let results = fetch(&PARAMS, &[read_at(&broker.partition(), 2)]).await;
    let read = results[0].as_ref().unwrap();
    assert_eq!(read.log_start_offset, 2);
    assert_eq!(offsets_of(read).last().unwrap(), &(2, "c".to_owned()));
}

#[tokio::test]
async fn a_log_that_does_not_open_is_set_aside_for_a_topic_of_the_same_name() {
    let dir = tempfile::tempdir().unwrap();
    {
        let broker = Broker::with_topic(dir.path()).await;
        broker.produce(batch(&["old"])).unwrap();
        broker.replicas.shutdown(None).await;
    }
    let path = dir.path().join("t-0/00000000000000000000.log");
    RealVfs.open(&path, OpenMode::CreateEmpty).unwrap();
    let mut broker = Broker::start_on(Arc::new(RealVfs), dir.path()).await;
    broker.apply(&topic("t", topic_id(8), &[1], &[1])).await;
    assert_eq!(folders(dir.path(), "-stray"), 1);
    broker.produce(batch(&["new"])).unwrap();
    assert_eq!(values(&broker).await, [(0, "new".into())]);
}
