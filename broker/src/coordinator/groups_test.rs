//! The group coordinator on a real partition in a temporary folder.
//! Not here: the rules of groups (crates/coordinator).
//! Test only. Kafka: GroupCoordinatorServiceTest, CoordinatorRuntimeTest.

use super::*;
use crate::replica::ReplicaSettings;
use kavka_common::{LeaderEpoch, ManualClock, NodeId, Uuid};
use kavka_config::{Layers, Properties};
use kavka_metadata::MetadataRecord;
use kavka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kavka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kavka_protocol::messages::{OffsetCommitRequest, PartitionRecord, TopicRecord};
use kavka_storage::LogDirs;
use kavka_storage::vfs::{RealVfs, Vfs};
use std::path::Path;
use std::time::Duration;

struct Broker {
    replicas: Arc<ReplicaManager>,
    groups: Arc<GroupCoordinator>,
}

/// A broker that leads the only partition of `__consumer_offsets`, with the given in-sync replicas.
async fn start(dir: &Path, isr: &[i32]) -> Broker {
    let text = b"process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:0,CONTROLLER://:0\ncontroller.quorum.voters=1@localhost:9093\noffsets.commit.timeout.ms=50\n";
    let config = BrokerConfig::from_properties(&Properties::parse(text).unwrap()).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let (dirs, failed) = LogDirs::open(&vfs, &[dir.to_owned()]);
    assert!(failed.is_empty(), "{failed:?}");
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(1_700_000_000_000));
    let settings = GroupSettings::of(&config);
    let replicas = ReplicaManager::new(
        NodeId(1),
        ReplicaSettings::from_config(&config),
        Layers::of_file(Arc::new(config)),
        Arc::new(dirs),
        clock,
    );
    replicas.recover().await;
    let groups = GroupCoordinator::new(settings, Arc::clone(&replicas));
    let topic_id = Uuid::from_bytes([3; 16]);
    let records = [
        MetadataRecord::Topic(TopicRecord {
            name: GROUP_METADATA_TOPIC.into(),
            topic_id,
            ..Default::default()
        }),
        MetadataRecord::Partition(PartitionRecord {
            topic_id,
            partition_id: 0,
            replicas: isr.to_vec(),
            isr: isr.to_vec(),
            leader: 1,
            leader_epoch: 0,
            partition_epoch: 0,
            directories: isr.iter().map(|_| Uuid::DIR_UNASSIGNED).collect(),
            ..Default::default()
        }),
    ];
    let (image, delta) = MetadataImage::default()
        .apply(2, LeaderEpoch(1), &records)
        .unwrap();
    let changes = replicas.apply(&delta, &image).await;
    groups.follow(&changes);
    Broker { replicas, groups }
}

async fn commit(groups: &GroupCoordinator, offset: i64) -> ErrorCode {
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    match groups
        .submit("g", GroupRequest::OffsetCommit(request))
        .await
    {
        Ok(GroupResponse::OffsetCommit(response)) => {
            ErrorCode::from(response.topics[0].partitions[0].error_code)
        }
        Ok(other) => panic!("{other:?}"),
        Err(code) => code,
    }
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
