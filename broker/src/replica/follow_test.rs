//! A replica that follows: what it takes, what it cuts, and what it refuses.
//! Not here: fetching over a network (tests/e2e/replication.rs), where to cut (kavka_replication).
//! Kafka: ReplicaFetcherThreadTest, PartitionTest; KIP-101, KIP-595.

use super::replica_test::{Broker, PARAMS, batch, offsets_of, read_at, topic, topic_id};
use super::*;
use kavka_common::{LeaderEpoch, NodeId};
use kavka_metadata::MetadataRecord;
use kavka_protocol::messages::{ConfigRecord, PartitionChangeRecord};
use kavka_replication::{EpochEnd, LeaderEvent, Outcome};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EPOCH: LeaderEpoch = LeaderEpoch(1);

pub(super) fn led_by(broker_id: i32) -> MetadataRecord {
    MetadataRecord::PartitionChange(PartitionChangeRecord {
        partition_id: 0,
        topic_id: topic_id(7),
        leader: broker_id,
        ..Default::default()
    })
}

/// Broker 1, which led in epoch 0 and follows broker 2 in epoch 1.
pub(super) async fn follower(dir: &Path) -> Broker {
    let mut broker = Broker::start(dir).await;
    broker
        .apply(&topic("t", topic_id(7), &[1, 2], &[1, 2]))
        .await;
    broker.apply(&[led_by(2)]).await;
    broker
}

/// The bytes of a leader's log that holds one batch for each of `values`.
pub(super) async fn leaders_log(values: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let leader = Broker::with_topic(dir.path()).await;
    for value in values {
        leader.produce(batch(&[value])).unwrap();
    }
    let params = FetchParams {
        max_bytes: 4 << 20,
        ..PARAMS
    };
    let asked = FetchPartition {
        max_bytes: params.max_bytes,
        ..read_at(&leader.partition(), 0)
    };
    let results = fetch(&params, &[asked]).await;
    let region = results[0].as_ref().unwrap().region.clone().unwrap();
    region.read().unwrap().to_vec()
}

#[tokio::test]
async fn a_follower_takes_whole_batches_and_the_leaders_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let broker = follower(dir.path()).await;
    let partition = broker.partition();
    let (leader_id, position) = partition.following().unwrap();
    assert_eq!((leader_id, position.leader_epoch), (NodeId(2), EPOCH));
    assert_eq!(position.fetch_offset, 0);
    let log = leaders_log(&["a", "b", "c"]).await;
    let whole = log.len();

    // a consumer that reads from this replica waits for what is committed
    let reading = {
        let params = FetchParams {
            max_wait_ms: 30_000,
            leader_only: false,
            ..PARAMS
        };
        let asked = read_at(&partition, 0);
        tokio::spawn(async move { fetch(&params, &[asked]).await })
    };
    tokio::task::yield_now().await;
    // the last batch is not whole
    let followed = partition
        .append_as_follower(EPOCH, 0, &log[..whole - 3], 0, 0)
        .unwrap();
    assert_eq!(followed.position.fetch_offset, 2);
    assert_eq!(followed.position.last_fetched_epoch, LeaderEpoch(0));
    let rest = &log[whole - whole / 3..];
    let followed = partition.append_as_follower(EPOCH, 2, rest, 9, 0).unwrap();
    assert_eq!(followed.position.fetch_offset, 3);
    let view = partition.view().unwrap();
    assert_eq!(view.high_watermark, 3, "not above the own end");
    let read = tokio::time::timeout(Duration::from_secs(30), reading).await;
    let results = read.unwrap().unwrap();
    assert_eq!(offsets_of(results[0].as_ref().unwrap()).len(), 3);

    // without records only the offsets move; the log start as far as the high watermark
    let followed = partition.append_as_follower(EPOCH, 3, &[], 3, 2).unwrap();
    assert_eq!(followed.position.log_start_offset, 2);
    let refused = fetch(&PARAMS, &[read_at(&partition, 2)]).await;
    assert!(matches!(refused[0], Err(ReplicaError::NotLeaderOrFollower)));
}

#[tokio::test]
async fn what_was_decided_for_another_epoch_or_place_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = follower(dir.path()).await;
    let partition = broker.partition();
    let log = leaders_log(&["a", "b"]).await;
    let untouched = partition.view();
    let fenced = partition.append_as_follower(LeaderEpoch(0), 0, &log, 2, 0);
    assert!(matches!(fenced, Err(ReplicaError::FencedLeaderEpoch)));
    let elsewhere = partition.append_as_follower(EPOCH, 1, &log, 2, 0);
    assert!(matches!(elsewhere, Err(ReplicaError::Append(_))));
    let mut damaged = log.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let refused = partition.append_as_follower(EPOCH, 0, &damaged, 2, 0);
    assert!(matches!(refused, Err(ReplicaError::Append(_))));
    let cut = partition.truncate_to(LeaderEpoch(0), 0);
    assert!(matches!(cut, Err(ReplicaError::FencedLeaderEpoch)));
    assert_eq!(partition.view(), untouched);

    broker.apply(&[led_by(1)]).await;
    assert_eq!(partition.following(), None);
    let leading = partition.append_as_follower(EPOCH, 0, &log, 2, 0);
    assert!(matches!(leading, Err(ReplicaError::NotLeaderOrFollower)));
    let leading = partition.start_at(EPOCH, 5);
    assert!(matches!(leading, Err(ReplicaError::NotLeaderOrFollower)));
}

#[tokio::test]
async fn a_follower_cuts_where_the_logs_part() {
    let dir = tempfile::tempdir().unwrap();
    let broker = follower(dir.path()).await;
    let partition = broker.partition();
    let log = leaders_log(&["a", "b", "c"]).await;
    partition.append_as_follower(EPOCH, 0, &log, 1, 0).unwrap();
    let end = |end_offset| EpochEnd {
        leader_epoch: LeaderEpoch(0),
        end_offset,
    };
    let cut = partition.truncate_diverging(EPOCH, end(7)).unwrap();
    assert!(!cut.shorter);
    let cut = partition.truncate_diverging(EPOCH, end(2)).unwrap();
    assert!(cut.shorter);
    assert_eq!(cut.position.fetch_offset, 2);
    // elected without having been in sync: what was committed here is gone there
    let cut = partition.truncate_to(EPOCH, 0).unwrap();
    assert_eq!(cut.position.fetch_offset, 0);
    assert_eq!(cut.position.last_fetched_epoch, LeaderEpoch::UNKNOWN);
    assert_eq!(partition.view().unwrap().high_watermark, 0);
    partition.append_as_follower(EPOCH, 0, &log, 3, 0).unwrap();
    assert_eq!(partition.view().unwrap().high_watermark, 3);

    let cut = partition.start_at(EPOCH, 10).unwrap();
    assert_eq!(cut.position.fetch_offset, 10);
    assert_eq!(cut.position.log_start_offset, 10);
    let view = partition.view().unwrap();
    assert_eq!((view.log_start_offset, view.high_watermark), (10, 10));
    // and it can lead from there
    let appended = Arc::clone(&partition).append_as_follower(EPOCH, 10, &[], 12, 0);
    assert_eq!(appended.unwrap().position.fetch_offset, 10);
}

/// What broker 2 says as it fetches from `fetch_offset`, with a log that begins at `log_start_offset`.
async fn fetched_by_2(partition: &Arc<Partition>, fetch_offset: i64, log_start_offset: i64) {
    let params = FetchParams {
        replica: Some(FetchingReplica {
            replica_id: NodeId(2),
            broker_epoch: kavka_common::BrokerEpoch(5),
        }),
        isolation: FetchIsolation::LogEnd,
        ..PARAMS
    };
    let asked = FetchPartition {
        log_start_offset,
        ..read_at(partition, fetch_offset)
    };
    let results = fetch(&params, &[asked]).await;
    assert!(results[0].is_ok(), "{:?}", results[0]);
}

#[tokio::test]
async fn deleted_records_wait_for_the_followers_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(dir.path()).await;
    broker
        .apply(&topic("t", topic_id(7), &[1, 2], &[1, 2]))
        .await;
    let partition = broker.partition();
    partition.on_event(eligible(true));
    broker.produce(batch(&["a", "b"])).unwrap();
    fetched_by_2(&partition, 2, 0).await;
    let deleting = {
        let replicas = Arc::clone(&broker.replicas);
        let targets = vec![(Ok(Arc::clone(&partition)), 1)];
        tokio::spawn(async move { replicas.delete_records(targets, 30_000).await })
    };
    fetched_by_2(&partition, 2, 0).await;
    while partition.view().unwrap().log_start_offset == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!deleting.is_finished());
    fetched_by_2(&partition, 2, 1).await;
    let results = tokio::time::timeout(Duration::from_secs(30), deleting).await;
    assert!(matches!(results.unwrap().unwrap()[0], Ok(1)));

    // nobody waits for a broker that is not there
    let replicas = Arc::clone(&broker.replicas);
    let targets = vec![(Ok(Arc::clone(&partition)), 2)];
    let deleting = tokio::spawn(async move { replicas.delete_records(targets, 30_000).await });
    while partition.view().unwrap().log_start_offset == 1 {
        tokio::task::yield_now().await;
    }
    partition.on_event(eligible(false));
    let results = tokio::time::timeout(Duration::from_secs(30), deleting).await;
    assert!(matches!(results.unwrap().unwrap()[0], Ok(2)));
}

fn eligible(eligible: bool) -> LeaderEvent {
    LeaderEvent::Eligibility {
        replica_id: NodeId(2),
        eligible,
        broker_epoch: kavka_common::BrokerEpoch(5),
    }
}

/// The leader's segments were larger than this topic's are now: what does not fit into one together fits one by one.
#[tokio::test]
async fn an_answer_larger_than_a_segment_is_taken_batch_by_batch() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = follower(dir.path()).await;
    let large = "x".repeat(300_000);
    let log = leaders_log(&[large.as_str(); 4]).await;
    broker
        .apply(&[MetadataRecord::Config(ConfigRecord {
            resource_type: 2,
            resource_name: "t".into(),
            name: "segment.bytes".into(),
            value: Some("1048576".into()),
            ..Default::default()
        })])
        .await;
    let partition = broker.partition();
    assert_eq!(partition.settings().log.segment_bytes, 1 << 20);
    assert!(log.len() > 1 << 20);
    let followed = partition.append_as_follower(EPOCH, 0, &log, 4, 0).unwrap();
    assert_eq!(followed.position.fetch_offset, 4);
    assert_eq!(partition.view().unwrap().high_watermark, 4);
}

/// An old request that is still parked says nothing about where its replica is by now.
#[tokio::test]
async fn a_parked_request_acknowledges_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(dir.path()).await;
    broker
        .apply(&topic("t", topic_id(7), &[1, 2], &[1, 2]))
        .await;
    let partition = broker.partition();
    partition.on_event(eligible(true));
    broker.produce(batch(&["a", "b"])).unwrap();
    let parked = {
        let params = FetchParams {
            replica: Some(FetchingReplica {
                replica_id: NodeId(2),
                broker_epoch: kavka_common::BrokerEpoch(5),
            }),
            isolation: FetchIsolation::LogEnd,
            min_bytes: 1 << 20,
            max_wait_ms: 30_000,
            ..PARAMS
        };
        let asked = FetchPartition {
            log_start_offset: 0,
            ..read_at(&partition, 0)
        };
        tokio::spawn(async move { fetch(&params, &[asked]).await })
    };
    let followers_end = || {
        let followers = partition.followers_holding(0).unwrap();
        followers.first().map(|follower| follower.log_end_offset)
    };
    while followers_end() != Some(0) {
        tokio::task::yield_now().await;
    }
    fetched_by_2(&partition, 2, 0).await;
    assert_eq!(followers_end(), Some(2));
    // the parked one looks again
    broker.produce(batch(&["c"])).unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!parked.is_finished());
    assert_eq!(followers_end(), Some(2));
    parked.abort();
}

#[tokio::test]
async fn what_passes_is_tried_again_from_where_the_log_is() {
    let dir = tempfile::tempdir().unwrap();
    let broker = follower(dir.path()).await;
    let partition = broker.partition();
    let log = leaders_log(&["a", "b"]).await;
    partition.append_as_follower(EPOCH, 0, &log, 2, 0).unwrap();
    let no_descriptor = ReplicaError::Storage(kavka_storage::StorageError::io(
        "open",
        dir.path(),
        std::io::Error::other("too many open files"),
    ));
    let Outcome::Again(Some(position)) = partition.after_failure(EPOCH, &no_descriptor) else {
        panic!("it passes");
    };
    assert_eq!((position.leader_epoch, position.fetch_offset), (EPOCH, 2));
    let later = partition.after_failure(LeaderEpoch(0), &no_descriptor);
    assert_eq!(later, Outcome::GivenUp);
    let latch = broker.replicas.dirs().dirs[0].latch().clone();
    latch.fail("write", dir.path(), &std::io::Error::other("gone"));
    let failed = partition.after_failure(EPOCH, &no_descriptor);
    assert_eq!(failed, Outcome::GivenUp);
}
