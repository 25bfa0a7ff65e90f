//! The group coordinator on a real partition in a temporary folder.
//! Not here: the rules of groups (crates/coordinator).
//! Test only. Kafka: GroupCoordinatorServiceTest, CoordinatorRuntimeTest.

use super::*;
use crate::replica::ReplicaSettings;
use kavka_common::{LeaderEpoch, ManualClock, NodeId, Uuid};
use kavka_config::{Layers, Properties};
use kavka_coordinator::group::Caller;
use kavka_metadata::MetadataRecord;
use kavka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kavka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kavka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kavka_protocol::messages::{
    JoinGroupRequest, OffsetCommitRequest, PartitionRecord, RemoveTopicRecord, TopicRecord,
};
use kavka_storage::LogDirs;
use kavka_storage::testing::SimVfs;
use kavka_storage::vfs::{RealVfs, Vfs};
use std::path::Path;
use std::time::Duration;

struct Broker {
    replicas: Arc<ReplicaManager>,
    groups: Arc<GroupCoordinator>,
    image: MetadataImage,
}

const OFFSETS: Uuid = Uuid::from_bytes([3; 16]);
const T: Uuid = Uuid::from_bytes([4; 16]);

impl Broker {
    /// Publishes records, to the replicas alone or to all.
    async fn publish(&mut self, records: &[MetadataRecord], to_groups: bool) {
        let (image, delta) = self
            .image
            .apply(self.image.last_offset + 5, LeaderEpoch(1), records)
            .unwrap();
        let changes = self.replicas.apply(&delta, &image).await;
        if to_groups {
            self.groups.follow(&delta, &changes);
        }
        self.image = image;
    }

    /// An election of `__consumer_offsets-0`.
    fn elected(leader: i32, leader_epoch: i32) -> MetadataRecord {
        MetadataRecord::Partition(PartitionRecord {
            leader,
            leader_epoch,
            ..partition(OFFSETS, &[1, 2], leader_epoch)
        })
    }
}

fn topic(name: &str, topic_id: Uuid) -> MetadataRecord {
    MetadataRecord::Topic(TopicRecord {
        name: name.into(),
        topic_id,
        ..Default::default()
    })
}

fn partition(topic_id: Uuid, isr: &[i32], partition_epoch: i32) -> PartitionRecord {
    PartitionRecord {
        topic_id,
        partition_id: 0,
        replicas: isr.to_vec(),
        isr: isr.to_vec(),
        leader: 1,
        leader_epoch: 0,
        partition_epoch,
        directories: isr.iter().map(|_| Uuid::DIR_UNASSIGNED).collect(),
        ..Default::default()
    }
}

/// A broker that leads the only partition of `__consumer_offsets`, with the given in-sync replicas.
async fn start(dir: &Path, isr: &[i32]) -> Broker {
    start_with(dir, isr, 50, true).await
}

async fn start_with(dir: &Path, isr: &[i32], commit_timeout_ms: i64, has_t: bool) -> Broker {
    start_on(Arc::new(RealVfs), dir, isr, commit_timeout_ms, has_t).await
}

async fn start_on(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    isr: &[i32],
    commit_timeout_ms: i64,
    has_t: bool,
) -> Broker {
    let text = b"process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:0,CONTROLLER://:0\ncontroller.quorum.voters=1@localhost:9093\n";
    let config = BrokerConfig::from_properties(&Properties::parse(text).unwrap()).unwrap();
    let (dirs, failed) = LogDirs::open(&vfs, &[dir.to_owned()]);
    assert!(failed.is_empty(), "{failed:?}");
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_700_000_000_000));
    let settings = GroupSettings {
        offsets_commit_timeout_ms: commit_timeout_ms,
        ..GroupSettings::of(&config)
    };
    let replicas = ReplicaManager::new(
        NodeId(1),
        ReplicaSettings::from_config(&config),
        Layers::of_file(Arc::new(config)),
        Arc::new(dirs),
        clock,
    );
    replicas.recover().await;
    let groups = GroupCoordinator::new(settings, Arc::clone(&replicas));
    let mut broker = Broker {
        replicas,
        groups,
        image: MetadataImage::default(),
    };
    let mut records = vec![
        topic(GROUP_METADATA_TOPIC, OFFSETS),
        MetadataRecord::Partition(partition(OFFSETS, isr, 0)),
    ];
    if has_t {
        records.push(topic("t", T));
        records.push(MetadataRecord::Partition(partition(T, &[1], 0)));
    }
    broker.publish(&records, true).await;
    broker
}

/// What a client stores for the topic `t`.
fn commit_request(offset: i64) -> GroupRequest {
    commit_of(T, offset)
}

fn commit_of(topic_id: Uuid, offset: i64) -> GroupRequest {
    GroupRequest::OffsetCommit(OffsetCommitRequest {
        group_id: "g".into(),
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            topic_id,
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    })
}

fn code_of(response: Result<GroupResponse, ErrorCode>) -> ErrorCode {
    match response {
        Ok(GroupResponse::OffsetCommit(response)) => {
            ErrorCode::from(response.topics[0].partitions[0].error_code)
        }
        Ok(other) => panic!("{other:?}"),
        Err(code) => code,
    }
}

async fn commit(groups: &GroupCoordinator, offset: i64) -> ErrorCode {
    code_of(groups.submit("g", commit_request(offset)).await)
}

fn fetched(groups: &GroupCoordinator) -> Result<Option<i64>, ErrorCode> {
    let request = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: None,
        ..Default::default()
    };
    let group = groups
        .host("g")?
        .read(|shard| shard.fetch_offsets(&request))?;
    Ok(group
        .topics
        .first()
        .map(|topic| topic.partitions[0].committed_offset))
}

/// Until the shard is loaded.
async fn loaded(groups: &GroupCoordinator) -> Option<i64> {
    for _ in 0..500 {
        match fetched(groups) {
            Err(ErrorCode::CoordinatorLoadInProgress) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            result => return result.unwrap(),
        }
    }
    panic!("the shard is still loading");
}

#[tokio::test]
async fn what_is_committed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[1]).await;
    assert_eq!(fetched(&broker.groups), Ok(None));
    for offset in [5, 6, 42] {
        assert_eq!(commit(&broker.groups, offset).await, ErrorCode::None);
    }
    assert_eq!(fetched(&broker.groups), Ok(Some(42)));
    broker.groups.stop();
    assert_eq!(commit(&broker.groups, 43).await, ErrorCode::NotCoordinator);
    broker.replicas.shutdown(None).await;
    drop(broker);

    let broker = start(dir.path(), &[1]).await;
    assert_eq!(loaded(&broker.groups).await, Some(42));
    assert_eq!(commit(&broker.groups, 44).await, ErrorCode::None);
}

#[tokio::test]
async fn a_commit_that_the_followers_do_not_get_is_not_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[1, 2]).await;
    assert_eq!(
        commit(&broker.groups, 7).await,
        ErrorCode::CoordinatorNotAvailable
    );
}

#[tokio::test]
async fn a_full_disk_does_not_end_the_coordinator() {
    let disk = SimVfs::new();
    let dir = Path::new("/data");
    disk.create_dir_all(dir).unwrap();
    let broker = start_on(Arc::new(disk.clone()), dir, &[1], 50, true).await;
    assert_eq!(commit(&broker.groups, 1).await, ErrorCode::None);
    disk.set_capacity(disk.used_bytes());
    assert_eq!(
        commit(&broker.groups, 2).await,
        ErrorCode::CoordinatorNotAvailable
    );
    assert_eq!(fetched(&broker.groups), Ok(Some(1)));
    disk.set_capacity(usize::MAX);
    assert_eq!(commit(&broker.groups, 3).await, ErrorCode::None);
    assert_eq!(fetched(&broker.groups), Ok(Some(3)));
}

#[tokio::test]
async fn a_topic_made_again_under_the_name_starts_afresh() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start(dir.path(), &[1]).await;
    assert_eq!(commit(&broker.groups, 42).await, ErrorCode::None);
    let again = Uuid::from_bytes([5; 16]);
    let records = [
        MetadataRecord::RemoveTopic(RemoveTopicRecord {
            topic_id: T,
            ..Default::default()
        }),
        topic("t", again),
        MetadataRecord::Partition(partition(again, &[1], 0)),
    ];
    broker.publish(&records, true).await;
    assert_eq!(fetched(&broker.groups), Ok(None));
    let stored = broker.groups.submit("g", commit_of(again, 7)).await;
    assert_eq!(code_of(stored), ErrorCode::None);
    assert_eq!(fetched(&broker.groups), Ok(Some(7)));
}

#[tokio::test]
async fn a_topic_that_was_deleted_while_nobody_coordinated_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[1]).await;
    assert_eq!(commit(&broker.groups, 42).await, ErrorCode::None);
    broker.groups.stop();
    broker.replicas.shutdown(None).await;
    drop(broker);

    // The metadata is not read to its end yet: the topic may come with the rest of it.
    let broker = start_with(dir.path(), &[1], 50, false).await;
    assert_eq!(loaded(&broker.groups).await, Some(42));
    broker.groups.metadata_is_current();
    assert_eq!(fetched(&broker.groups), Ok(None));
    broker.groups.stop();
    broker.replicas.shutdown(None).await;
}

#[tokio::test]
async fn a_leadership_that_comes_back_is_loaded_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start(dir.path(), &[1]).await;
    assert_eq!(commit(&broker.groups, 5).await, ErrorCode::None);
    broker.publish(&[Broker::elected(2, 1)], true).await;
    assert_eq!(commit(&broker.groups, 6).await, ErrorCode::NotCoordinator);
    broker.publish(&[Broker::elected(1, 2)], true).await;
    assert_eq!(loaded(&broker.groups).await, Some(5));
    let epoch = |broker: &Broker| broker.groups.host("g").unwrap().leader_epoch();
    assert_eq!(epoch(&broker), LeaderEpoch(2));
    // Elected again with nobody in between, and then told of an epoch that is over.
    broker.publish(&[Broker::elected(1, 3)], true).await;
    assert_eq!(epoch(&broker), LeaderEpoch(3));
    assert_eq!(loaded(&broker.groups).await, Some(5));
}

#[tokio::test]
async fn nothing_is_written_under_another_leadership() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start(dir.path(), &[1]).await;
    assert_eq!(commit(&broker.groups, 5).await, ErrorCode::None);
    // The replicas know of the next epoch, the coordinator does not yet.
    broker.publish(&[Broker::elected(1, 1)], false).await;
    let partition = broker.replicas.partition(GROUP_METADATA_TOPIC, 0).unwrap();
    let end = |partition: &Partition| {
        partition
            .end_of_epoch(LeaderEpoch::UNKNOWN, LeaderEpoch(1), true)
            .unwrap()
    };
    let before = end(&partition);
    assert_eq!(commit(&broker.groups, 6).await, ErrorCode::NotCoordinator);
    assert_eq!(end(&partition), before);
    assert_eq!(fetched(&broker.groups), Err(ErrorCode::NotCoordinator));
}

#[tokio::test]
async fn who_waits_for_a_write_is_told_when_the_leadership_moves() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start_with(dir.path(), &[1, 2], 600_000, true).await;
    let waiting = broker.groups.submit("g", commit_request(7));
    broker.publish(&[Broker::elected(2, 1)], true).await;
    assert_eq!(code_of(waiting.await), ErrorCode::NotCoordinator);
}

#[tokio::test]
async fn a_leadership_that_is_lost_under_a_write_ends_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start_with(dir.path(), &[1, 2], 600_000, true).await;
    let waiting = broker.groups.submit("g", commit_request(7));
    // The coordinator is not told: the log tells it.
    broker.publish(&[Broker::elected(2, 1)], false).await;
    assert_eq!(code_of(waiting.await), ErrorCode::NotCoordinator);
    assert_eq!(fetched(&broker.groups), Err(ErrorCode::NotCoordinator));
}

#[tokio::test]
async fn a_stop_answers_members_that_wait_and_lasts() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = start(dir.path(), &[1]).await;
    let join = GroupRequest::Join {
        request: JoinGroupRequest {
            group_id: "g".into(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".into(),
                ..Default::default()
            }],
            ..Default::default()
        },
        caller: Caller {
            client_id: "c".into(),
            client_host: "/127.0.0.1".into(),
        },
        require_known_member_id: false,
        supports_skipping_assignment: true,
        new_member_uuid: "u".into(),
    };
    // The first rebalance waits for more members.
    let waiting = broker.groups.submit("g", join);
    broker.groups.stop();
    match waiting.await {
        Ok(GroupResponse::Join(response)) => {
            assert_eq!(
                ErrorCode::from(response.error_code),
                ErrorCode::NotCoordinator
            );
        }
        other => panic!("{other:?}"),
    }
    broker.publish(&[Broker::elected(1, 1)], true).await;
    assert_eq!(commit(&broker.groups, 1).await, ErrorCode::NotCoordinator);
}
