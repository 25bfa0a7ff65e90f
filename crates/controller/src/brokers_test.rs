//! What brokers coming and going does to partitions; elections and reassignments.
use super::test_cluster::*;
use super::*;
use kavka_metadata::LeaderRecoveryState;
use kavka_metadata::topics::raw_ids;
use kavka_protocol::messages::*;

#[test]
fn a_silent_broker_is_fenced_and_leaders_move() {
    let mut cluster = TestCluster::with_brokers(2, "");
    cluster.create_assigned("t", &[&[1, 2]]);
    cluster.now_ms += 6_000;
    cluster.heartbeat(2, false, false);
    cluster.now_ms += 6_000;
    assert!(!cluster.tick().is_empty());
    let partition = cluster.partition("t", 0);
    assert_eq!(
        (partition.leader.get(), raw_ids(&partition.isr)),
        (2, vec![2])
    );
    assert!(cluster.image.cluster.broker(NodeId(1)).unwrap().fenced);
    // It comes back with its next heartbeat, and in sync only when the leader says so.
    cluster.heartbeat(1, false, false);
    assert!(!cluster.image.cluster.broker(NodeId(1)).unwrap().fenced);
    assert_eq!(cluster.alter_partition("t", 0, &[2, 1]), ErrorCode::None);
    assert_eq!(raw_ids(&cluster.partition("t", 0).isr), [2, 1]);
}

#[test]
fn a_known_death_fences_at_once() {
    let mut cluster = TestCluster::with_brokers(2, "");
    cluster.create_assigned("t", &[&[1, 2]]);
    let (moment, epoch) = (cluster.moment(), BrokerEpoch(cluster.broker_epoch(1)));
    let stale = cluster.controller.fence_broker(
        &cluster.image,
        &mut cluster.soft,
        &moment,
        NodeId(1),
        BrokerEpoch(0),
    );
    assert_eq!(stale, []);
    let records = cluster.controller.fence_broker(
        &cluster.image,
        &mut cluster.soft,
        &moment,
        NodeId(1),
        epoch,
    );
    cluster.replay(&records);
    assert_eq!(cluster.partition("t", 0).leader, NodeId(2));
}

#[test]
fn the_only_replica_stays_eligible() {
    let mut cluster = TestCluster::with_brokers(2, "");
    cluster.create_assigned("t", &[&[2]]);
    let epoch = cluster.partition("t", 0).leader_epoch;
    cluster.now_ms += 20_000;
    cluster.heartbeat(1, false, false);
    cluster.tick();
    let partition = cluster.partition("t", 0);
    // As a 4.3.1 cluster shows a partition whose only replica is down: Isr empty, Elr and LastKnownElr 2.
    assert_eq!(partition.leader, NodeId::NONE);
    assert_eq!(raw_ids(&partition.isr), Vec::<i32>::new());
    assert_eq!(raw_ids(&partition.elr), [2]);
    assert_eq!(raw_ids(&partition.last_known_elr), [2]);
    assert!(partition.leader_epoch > epoch);
    cluster.heartbeat(2, false, false);
    let partition = cluster.partition("t", 0);
    assert_eq!(partition.leader, NodeId(2));
    assert_eq!(raw_ids(&partition.isr), [2]);
    assert!(partition.elr.is_empty() && partition.last_known_elr.is_empty());
    assert_eq!(
        partition.leader_recovery_state,
        LeaderRecoveryState::Recovered
    );
}

#[test]
fn an_unclean_restart_of_the_only_replica_elects_the_last_leader_again() {
    let mut cluster = TestCluster::with_brokers(1, "");
    cluster.create_assigned("t", &[&[1]]);
    cluster.now_ms += 20_000;
    cluster.tick();
    assert_eq!(cluster.register(1, 50, -1), ErrorCode::None);
    let partition = cluster.partition("t", 0);
    assert!(
        partition.elr.is_empty(),
        "an unclean broker is not eligible"
    );
    cluster.heartbeat(1, false, false);
    let partition = cluster.partition("t", 0);
    assert_eq!(partition.leader, NodeId(1));
    assert_eq!(
        partition.leader_recovery_state,
        LeaderRecoveryState::Recovering
    );
}

#[test]
fn a_clean_restart_loses_nothing() {
    let mut cluster = TestCluster::with_brokers(1, "");
    cluster.create_assigned("t", &[&[1]]);
    let epoch = cluster.broker_epoch(1);
    assert!(
        cluster.heartbeat(1, false, true).is_fenced || !cluster.image.cluster.is_active(NodeId(1))
    );
    for _ in 0..3 {
        cluster.heartbeat(1, false, true);
    }
    assert_eq!(cluster.register(1, 51, epoch), ErrorCode::None);
    cluster.heartbeat(1, false, false);
    let partition = cluster.partition("t", 0);
    assert_eq!(partition.leader, NodeId(1));
    assert_eq!(
        partition.leader_recovery_state,
        LeaderRecoveryState::Recovered
    );
}

#[test]
fn controlled_shutdown_moves_leaders_first() {
    let mut cluster = TestCluster::with_brokers(2, "");
    cluster.create_assigned("t", &[&[1, 2]]);
    let asked = cluster.heartbeat(1, false, true);
    assert!(!asked.should_shut_down);
    assert_eq!(cluster.partition("t", 0).leader, NodeId(2));
    assert!(
        cluster
            .image
            .cluster
            .broker(NodeId(1))
            .unwrap()
            .in_controlled_shutdown
    );
    assert!(
        !cluster.heartbeat(1, false, true).should_shut_down,
        "broker 2 has not read of it yet"
    );
    cluster.heartbeat(2, false, false);
    assert!(cluster.heartbeat(1, false, true).should_shut_down);
    assert!(cluster.image.cluster.broker(NodeId(1)).unwrap().fenced);
}

#[test]
fn registrations_are_checked() {
    let mut cluster = TestCluster::with_brokers(2, "");
    let epoch = cluster.broker_epoch(1);
    assert_eq!(
        cluster.register(1, 77, -1),
        ErrorCode::DuplicateBrokerRegistration
    );
    assert_eq!(
        cluster.register(1, 1, -1),
        ErrorCode::None,
        "the same incarnation may amend"
    );
    assert_eq!(cluster.broker_epoch(1), epoch);
    cluster.now_ms += 10_000;
    let offset = cluster.image.last_offset;
    assert_eq!(
        cluster.register(1, 77, -1),
        ErrorCode::None,
        "its session has lapsed"
    );
    assert!(cluster.broker_epoch(1) > offset);
    let request = BrokerHeartbeatRequest {
        broker_id: 1,
        broker_epoch: epoch,
        ..Default::default()
    };
    match cluster
        .handle(2, AnyRequest::BrokerHeartbeat(request))
        .response
    {
        AnyResponse::BrokerHeartbeat(response) => {
            assert_eq!(response.error_code, ErrorCode::StaleBrokerEpoch.code());
        }
        other => panic!("{other:?}"),
    }
    let wrong = BrokerRegistrationRequest {
        cluster_id: "other".into(),
        ..Default::default()
    };
    match cluster
        .handle(4, AnyRequest::BrokerRegistration(wrong))
        .response
    {
        AnyResponse::BrokerRegistration(response) => {
            assert_eq!(response.error_code, ErrorCode::InconsistentClusterId.code());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn alter_partition_checks_epochs_and_members() {
    let mut cluster = TestCluster::with_brokers(3, "");
    cluster.create_assigned("t", &[&[1, 2]]);
    assert_eq!(cluster.alter_partition("t", 0, &[1]), ErrorCode::None);
    assert_eq!(
        cluster.alter_partition("t", 0, &[2]),
        ErrorCode::InvalidRequest,
        "without the leader"
    );
    assert_eq!(
        cluster.alter_partition("t", 0, &[1, 3]),
        ErrorCode::InvalidRequest,
        "not a replica"
    );
    assert_eq!(
        cluster.alter_partition("t", 0, &[1, 1]),
        ErrorCode::InvalidRequest
    );
    assert_eq!(
        cluster.alter_partition("t", 0, &[]),
        ErrorCode::InvalidRequest
    );
    cluster.heartbeat(2, true, false);
    assert_eq!(
        cluster.alter_partition("t", 0, &[1, 2]),
        ErrorCode::IneligibleReplica,
        "fenced (KAFKA-13916)"
    );
    cluster.heartbeat(2, false, false);
    // KAFKA-15221: the leader speaks of an earlier incarnation of broker 2.
    let registration = cluster.partition("t", 0);
    let of = |leader_epoch: i32, partition_epoch: i32, member_epoch: i64, cluster: &TestCluster| {
        AlterPartitionRequest {
            broker_id: 1,
            broker_epoch: cluster.broker_epoch(1),
            topics: vec![alter_partition_request::TopicData {
                topic_id: cluster.image.topics.id_of("t").unwrap(),
                partitions: vec![alter_partition_request::PartitionData {
                    partition_index: 0,
                    leader_epoch,
                    partition_epoch,
                    new_isr_with_epochs: vec![
                        alter_partition_request::BrokerState {
                            broker_id: 1,
                            ..Default::default()
                        },
                        alter_partition_request::BrokerState {
                            broker_id: 2,
                            broker_epoch: member_epoch,
                            ..Default::default()
                        },
                    ],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
    };
    let (leader_epoch, partition_epoch) = (
        registration.leader_epoch.get(),
        registration.partition_epoch.get(),
    );
    for (leader_epoch, partition_epoch, member_epoch, expected) in [
        (
            leader_epoch,
            partition_epoch,
            0,
            ErrorCode::IneligibleReplica,
        ),
        (
            leader_epoch + 1,
            partition_epoch,
            -1,
            ErrorCode::NotController,
        ),
        (
            leader_epoch,
            partition_epoch + 1,
            -1,
            ErrorCode::NotController,
        ),
        (
            leader_epoch - 1,
            partition_epoch,
            -1,
            ErrorCode::FencedLeaderEpoch,
        ),
        (
            leader_epoch,
            partition_epoch - 1,
            -1,
            ErrorCode::InvalidUpdateVersion,
        ),
        (leader_epoch, partition_epoch, -1, ErrorCode::None),
    ] {
        let request = of(leader_epoch, partition_epoch, member_epoch, &cluster);
        match cluster
            .handle(3, AnyRequest::AlterPartition(request))
            .response
        {
            AnyResponse::AlterPartition(response) => {
                assert_eq!(
                    ErrorCode::from(response.topics[0].partitions[0].error_code),
                    expected
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

fn reassign(
    cluster: &mut TestCluster,
    topic: &str,
    replicas: Option<&[i32]>,
) -> (ErrorCode, Option<String>) {
    let request = AlterPartitionReassignmentsRequest {
        topics: vec![alter_partition_reassignments_request::ReassignableTopic {
            name: topic.into(),
            partitions: vec![
                alter_partition_reassignments_request::ReassignablePartition {
                    partition_index: 0,
                    replicas: replicas.map(<[i32]>::to_vec),
                    ..Default::default()
                },
            ],
            ..Default::default()
        }],
        ..Default::default()
    };
    match cluster
        .handle(1, AnyRequest::AlterPartitionReassignments(request))
        .response
    {
        AnyResponse::AlterPartitionReassignments(response) => {
            let result = &response.responses[0].partitions[0];
            (
                ErrorCode::from(result.error_code),
                result.error_message.as_ref().map(ToString::to_string),
            )
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reassignment_ends_when_the_new_replicas_are_in_sync() {
    let mut cluster = TestCluster::with_brokers(4, "");
    cluster.create_assigned("t", &[&[1, 2]]);
    assert_eq!(
        reassign(&mut cluster, "t", None).0,
        ErrorCode::NoReassignmentInProgress
    );
    assert_eq!(
        reassign(&mut cluster, "t", Some(&[3, 4])),
        (ErrorCode::None, None)
    );
    let partition = cluster.partition("t", 0);
    assert_eq!(raw_ids(&partition.replicas), [3, 4, 1, 2]);
    assert_eq!(raw_ids(&partition.adding_replicas), [3, 4]);
    assert_eq!(raw_ids(&partition.removing_replicas), [1, 2]);
    assert_eq!(cluster.alter_partition("t", 0, &[1, 2, 3]), ErrorCode::None);
    assert!(cluster.partition("t", 0).is_reassigning());
    // The leader itself leaves: it learns that from the metadata.
    assert_eq!(
        cluster.alter_partition("t", 0, &[1, 2, 3, 4]),
        ErrorCode::NewLeaderElected
    );
    let partition = cluster.partition("t", 0);
    assert!(!partition.is_reassigning());
    assert_eq!(raw_ids(&partition.replicas), [3, 4]);
    assert_eq!(raw_ids(&partition.isr), [3, 4]);
    assert_eq!(partition.leader, NodeId(3));
}

#[test]
fn a_reassignment_can_be_cancelled() {
    let mut cluster = TestCluster::with_brokers(3, "");
    cluster.create_assigned("t", &[&[1, 2]]);
    reassign(&mut cluster, "t", Some(&[3, 1]));
    assert_eq!(reassign(&mut cluster, "t", None), (ErrorCode::None, None));
    let partition = cluster.partition("t", 0);
    assert!(!partition.is_reassigning());
    let mut replicas = raw_ids(&partition.replicas);
    replicas.sort_unstable();
    assert_eq!(replicas, [1, 2]);
}

#[test]
fn preferred_leaders_come_back() {
    let mut cluster = TestCluster::with_brokers(2, "");
    cluster.create_assigned("t", &[&[1, 2]]);
    cluster.heartbeat(1, true, false);
    cluster.heartbeat(1, false, false);
    assert_eq!(cluster.partition("t", 0).leader, NodeId(2));
    let elect = |cluster: &mut TestCluster| {
        let request = ElectLeadersRequest {
            topic_partitions: Some(vec![elect_leaders_request::TopicPartitions {
                topic: "t".into(),
                partitions: vec![0],
                ..Default::default()
            }]),
            ..Default::default()
        };
        match cluster
            .handle(2, AnyRequest::ElectLeaders(request))
            .response
        {
            AnyResponse::ElectLeaders(response) => {
                ErrorCode::from(response.replica_election_results[0].partition_result[0].error_code)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(elect(&mut cluster), ErrorCode::PreferredLeaderNotAvailable);
    cluster.alter_partition("t", 0, &[2, 1]);
    assert_eq!(elect(&mut cluster), ErrorCode::None);
    assert_eq!(cluster.partition("t", 0).leader, NodeId(1));
    assert_eq!(elect(&mut cluster), ErrorCode::ElectionNotNeeded);
}
