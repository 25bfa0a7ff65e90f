//! What a start makes of a follower's log that was cut, when the process is killed then.
//! Not here: where to cut (kavka_replication), one log's truncation and its crashes (crates/storage).
//! Kafka: ReplicaFetcherThreadTest, LogManagerTest.

use super::follow_test::{EPOCH, follower, leaders_log, led_by};
use super::replica_test::{Broker, topic, topic_id};
use kavka_common::{LeaderEpoch, TopicIdPartition};
use kavka_replication::{ActionKind, EpochEnd, FetcherAction};
use std::path::Path;
use std::sync::Arc;

fn action(kind: ActionKind) -> FetcherAction {
    FetcherAction {
        partition: TopicIdPartition {
            topic_id: topic_id(7),
            topic_partition: kavka_common::TopicPartition::new("t", 0),
        },
        leader_epoch: EPOCH,
        kind,
    }
}

/// The same follower in a new process, after a kill.
async fn killed_and_started(dir: &Path, broker: Broker) -> Broker {
    drop(broker);
    let mut broker = Broker::start(dir).await;
    let mut records = topic("t", topic_id(7), &[1, 2], &[1, 2]);
    records.push(led_by(2));
    broker.apply(&records).await;
    broker
}

fn recovery_point(broker: &Broker) -> i64 {
    let dir = &broker.replicas.dirs().dirs[0];
    let path = dir.path().join("recovery-point-offset-checkpoint");
    let written = kavka_storage::checkpoint::read_offsets(&**dir.vfs(), &path).unwrap();
    written[&kavka_common::TopicPartition::new("t", 0)]
}

/// An unclean election: the new leader's log ends before ours began.
#[tokio::test]
async fn a_log_that_was_cut_below_its_start_keeps_what_is_appended_then() {
    let dir = tempfile::tempdir().unwrap();
    let broker = follower(dir.path()).await;
    let partition = broker.partition();
    let log = leaders_log(&["a", "b", "c"]).await;
    partition.append_as_follower(EPOCH, 0, &log, 3, 3).unwrap();
    assert_eq!(partition.view().unwrap().log_start_offset, 3);
    broker.replicas.checkpoint_log_starts();

    let work = [(action(ActionKind::TruncateTo(0)), Arc::clone(&partition))];
    let cut = broker.replicas.cut(&work).remove(0).unwrap();
    assert_eq!(cut.position.fetch_offset, 0);
    let first = &log[..log.len() / 3];
    partition.append_as_follower(EPOCH, 0, first, 1, 0).unwrap();
    drop(partition);

    let broker = killed_and_started(dir.path(), broker).await;
    let view = broker.partition().view().unwrap();
    assert_eq!((view.log_start_offset, view.log_end_offset), (0, 1));
}

#[tokio::test]
async fn the_recovery_point_is_lowered_before_the_log_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let broker = follower(dir.path()).await;
    let partition = broker.partition();
    let log = leaders_log(&["a", "b", "c"]).await;
    partition.append_as_follower(EPOCH, 0, &log, 3, 0).unwrap();
    partition.flush_blocking().unwrap();
    broker.replicas.checkpoint_recovery_points();
    assert_eq!(recovery_point(&broker), 3);

    let kind = ActionKind::Truncate(EpochEnd {
        leader_epoch: LeaderEpoch(0),
        end_offset: 1,
    });
    let announced = partition.announce_cut(EPOCH, &kind).unwrap();
    assert!(announced.below_recovery_point && !announced.below_log_start);
    // whatever is flushed and written down meanwhile
    partition.flush_blocking().unwrap();
    broker.replicas.checkpoint_recovery_points();
    assert_eq!(recovery_point(&broker), 1);

    let work = [(action(kind), Arc::clone(&partition))];
    let cut = broker.replicas.cut(&work).remove(0).unwrap();
    assert_eq!((cut.position.fetch_offset, recovery_point(&broker)), (1, 1));
    let rest = &log[log.len() / 3..];
    partition.append_as_follower(EPOCH, 1, rest, 3, 0).unwrap();
    partition.flush_blocking().unwrap();
    broker.replicas.checkpoint_recovery_points();
    assert_eq!(recovery_point(&broker), 3);
}
