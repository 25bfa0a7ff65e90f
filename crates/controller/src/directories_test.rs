//! Log directories as the controller keeps them: who lies where, and what a failed directory takes along.
use super::test_cluster::*;
use super::*;
use kavka_metadata::topics::raw_ids;
use kavka_protocol::messages::assign_replicas_to_dirs_request::{
    DirectoryData, PartitionData, TopicData,
};
use kavka_protocol::messages::*;

const A: Uuid = Uuid::from_bytes([21; 16]);
const B: Uuid = Uuid::from_bytes([22; 16]);

/// Brokers 1, with the directories A and B, and 2, and a topic with two partitions led by broker 1.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::new("");
    assert_eq!(cluster.register_on(1, 1, -1, vec![A, B]), ErrorCode::None);
    cluster.heartbeat(1, false, false);
    assert_eq!(cluster.start_broker(2, 2), ErrorCode::None);
    cluster.create_assigned("t", &[&[1, 2], &[1, 2]]);
    cluster
}

fn assign(cluster: &mut TestCluster, partition: i32, directory: Uuid) -> ErrorCode {
    let request = AssignReplicasToDirsRequest {
        broker_id: 1,
        broker_epoch: cluster.broker_epoch(1),
        directories: vec![DirectoryData {
            id: directory,
            topics: vec![TopicData {
                topic_id: cluster.image.topics.id_of("t").unwrap(),
                partitions: vec![PartitionData {
                    partition_index: partition,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    match cluster
        .handle(0, AnyRequest::AssignReplicasToDirs(request))
        .response
    {
        AnyResponse::AssignReplicasToDirs(response) => match response.directories.first() {
            Some(directory) => ErrorCode::from(directory.topics[0].partitions[0].error_code),
            None => ErrorCode::from(response.error_code),
        },
        other => panic!("{other:?}"),
    }
}

fn report_offline(cluster: &mut TestCluster, directory: Uuid) {
    let request = BrokerHeartbeatRequest {
        broker_id: 1,
        broker_epoch: cluster.broker_epoch(1),
        current_metadata_offset: cluster.image.last_offset,
        offline_log_dirs: vec![directory],
        ..Default::default()
    };
    cluster.handle(1, AnyRequest::BrokerHeartbeat(request));
}

fn leader_and_isr(cluster: &TestCluster, partition: i32) -> (i32, Vec<i32>) {
    let partition = cluster.partition("t", partition);
    (partition.leader.get(), raw_ids(&partition.isr))
}

#[test]
fn a_failed_directory_moves_the_leaders_of_its_partitions_alone() {
    let mut cluster = cluster();
    let unassigned = Some(Uuid::DIR_UNASSIGNED);
    assert_eq!(
        cluster.partition("t", 0).directory(NodeId(1)),
        unassigned,
        "the broker chooses"
    );
    assert_eq!(assign(&mut cluster, 0, A), ErrorCode::None);
    assert_eq!(assign(&mut cluster, 1, B), ErrorCode::None);
    assert_eq!(cluster.partition("t", 0).directory(NodeId(1)), Some(A));
    report_offline(&mut cluster, B);
    assert_eq!(leader_and_isr(&cluster, 0), (1, vec![1, 2]));
    assert_eq!(leader_and_isr(&cluster, 1), (2, vec![2]));
    let broker = cluster.image.cluster.broker(NodeId(1)).unwrap();
    assert_eq!(
        (broker.directories.clone(), broker.fenced),
        (vec![A], false)
    );
    // told again, nothing more happens
    let epoch = cluster.partition("t", 1).partition_epoch;
    report_offline(&mut cluster, B);
    assert_eq!(cluster.partition("t", 1).partition_epoch, epoch);
}

#[test]
fn a_replica_that_turns_out_to_lie_in_a_failed_directory_leads_no_more() {
    let mut cluster = cluster();
    report_offline(&mut cluster, B);
    assert_eq!(leader_and_isr(&cluster, 1), (1, vec![1, 2]));
    assert_eq!(assign(&mut cluster, 1, B), ErrorCode::None);
    assert_eq!(leader_and_isr(&cluster, 1), (2, vec![2]));
    // the same of a log that alone is damaged
    assert_eq!(assign(&mut cluster, 0, Uuid::DIR_LOST), ErrorCode::None);
    assert_eq!(leader_and_isr(&cluster, 0), (2, vec![2]));
    // and it may come back
    assert_eq!(assign(&mut cluster, 0, A), ErrorCode::None);
    assert_eq!(cluster.alter_partition("t", 0, &[2, 1]), ErrorCode::None);
}

#[test]
fn the_last_replica_leads_again_when_its_log_is_found() {
    let mut cluster = cluster();
    assert_eq!(assign(&mut cluster, 0, B), ErrorCode::None);
    assert_eq!(cluster.alter_partition("t", 0, &[1]), ErrorCode::None);
    report_offline(&mut cluster, B);
    assert_eq!(leader_and_isr(&cluster, 0).0, -1, "2 lacks records");
    assert_eq!(assign(&mut cluster, 0, A), ErrorCode::None);
    assert_eq!(leader_and_isr(&cluster, 0), (1, vec![1]));
}
