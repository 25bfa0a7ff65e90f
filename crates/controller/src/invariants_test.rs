//! Whatever is asked, the controller's records keep the cluster sound.
use super::test_cluster::*;
use super::*;
use kavka_protocol::messages::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Action {
    Start {
        broker: i32,
        clean: bool,
    },
    Heartbeat {
        broker: i32,
        want_fence: bool,
        want_shut_down: bool,
    },
    Die {
        broker: i32,
    },
    Unregister {
        broker: i32,
    },
    Create {
        topic: u8,
        partitions: i32,
        factor: i16,
    },
    Delete {
        topic: u8,
    },
    AddPartitions {
        topic: u8,
        count: i32,
    },
    AlterIsr {
        topic: u8,
        partition: i32,
        isr: BTreeSet<i32>,
    },
    Reassign {
        topic: u8,
        replicas: Option<BTreeSet<i32>>,
    },
    Elect {
        topic: u8,
        unclean: bool,
    },
    MinIsr {
        topic: u8,
        value: u8,
    },
    Unclean {
        topic: u8,
        enabled: bool,
    },
    Wait {
        ms: i64,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let brokers = || prop::collection::btree_set(1..5i32, 1..4);
    prop_oneof![
        4 => (1..5i32, any::<bool>()).prop_map(|(broker, clean)| Action::Start { broker, clean }),
        6 => (1..5i32, prop::bool::weighted(0.1), prop::bool::weighted(0.15)).prop_map(
            |(broker, want_fence, want_shut_down)| Action::Heartbeat { broker, want_fence, want_shut_down }
        ),
        2 => (1..5i32).prop_map(|broker| Action::Die { broker }),
        1 => (1..5i32).prop_map(|broker| Action::Unregister { broker }),
        4 => (0..3u8, 1..4i32, 1..4i16)
            .prop_map(|(topic, partitions, factor)| Action::Create { topic, partitions, factor }),
        1 => (0..3u8).prop_map(|topic| Action::Delete { topic }),
        1 => (0..3u8, 1..6i32).prop_map(|(topic, count)| Action::AddPartitions { topic, count }),
        6 => (0..3u8, 0..4i32, brokers())
            .prop_map(|(topic, partition, isr)| Action::AlterIsr { topic, partition, isr }),
        2 => (0..3u8, prop::option::weighted(0.8, brokers()))
            .prop_map(|(topic, replicas)| Action::Reassign { topic, replicas }),
        2 => (0..3u8, any::<bool>()).prop_map(|(topic, unclean)| Action::Elect { topic, unclean }),
        1 => (0..3u8, 1..4u8).prop_map(|(topic, value)| Action::MinIsr { topic, value }),
        1 => (0..3u8, any::<bool>()).prop_map(|(topic, enabled)| Action::Unclean { topic, enabled }),
        2 => (0..12_000i64).prop_map(|ms| Action::Wait { ms }),
    ]
}

fn name(topic: u8) -> String {
    format!("t{topic}")
}

struct Run {
    cluster: TestCluster,
    incarnation: u8,
    ids_ever: BTreeSet<Uuid>,
    epochs_ever: BTreeSet<i64>,
}

impl Run {
    fn act(&mut self, action: &Action) {
        let cluster = &mut self.cluster;
        match action {
            Action::Start { broker, clean } => {
                let previous = if *clean {
                    cluster.broker_epoch(*broker)
                } else {
                    -1
                };
                self.incarnation += 1;
                let epoch_before = cluster.broker_epoch(*broker);
                if cluster.register(*broker, self.incarnation, previous) == ErrorCode::None {
                    let epoch = cluster.broker_epoch(*broker);
                    assert!(
                        epoch > epoch_before,
                        "C5: a new incarnation has a higher epoch"
                    );
                    assert!(
                        self.epochs_ever.insert(epoch),
                        "C5: a broker epoch is used once"
                    );
                }
            }
            Action::Heartbeat {
                broker,
                want_fence,
                want_shut_down,
            } => {
                if cluster.broker_epoch(*broker) >= 0 {
                    cluster.heartbeat(*broker, *want_fence, *want_shut_down);
                }
            }
            Action::Die { broker } => {
                let moment = cluster.moment();
                let epoch = BrokerEpoch(cluster.broker_epoch(*broker));
                let records = cluster.controller.fence_broker(
                    &cluster.image,
                    &mut cluster.soft,
                    &moment,
                    NodeId(*broker),
                    epoch,
                );
                cluster.replay(&records);
            }
            Action::Unregister { broker } => {
                let request = UnregisterBrokerRequest {
                    broker_id: *broker,
                    ..Default::default()
                };
                cluster.handle(0, AnyRequest::UnregisterBroker(request));
            }
            Action::Create {
                topic,
                partitions,
                factor,
            } => {
                if cluster.create(&name(*topic), *partitions, *factor) == ErrorCode::None {
                    let id = cluster.image.topics.id_of(&name(*topic)).unwrap();
                    assert!(self.ids_ever.insert(id), "C8: a topic id is used once");
                }
            }
            Action::Delete { topic } => {
                let request = DeleteTopicsRequest {
                    topic_names: vec![name(*topic).into()],
                    ..Default::default()
                };
                cluster.handle(5, AnyRequest::DeleteTopics(request));
            }
            Action::AddPartitions { topic, count } => {
                let request = CreatePartitionsRequest {
                    topics: vec![create_partitions_request::CreatePartitionsTopic {
                        name: name(*topic).into(),
                        count: *count,
                        assignments: None,
                        ..Default::default()
                    }],
                    ..Default::default()
                };
                cluster.handle(3, AnyRequest::CreatePartitions(request));
            }
            Action::AlterIsr {
                topic,
                partition,
                isr,
            } => {
                if cluster
                    .image
                    .topics
                    .partition(&name(*topic), *partition)
                    .is_some()
                {
                    let isr: Vec<i32> = isr.iter().copied().collect();
                    cluster.alter_partition(&name(*topic), *partition, &isr);
                }
            }
            Action::Reassign { topic, replicas } => {
                let request = AlterPartitionReassignmentsRequest {
                    topics: vec![alter_partition_reassignments_request::ReassignableTopic {
                        name: name(*topic).into(),
                        partitions: vec![
                            alter_partition_reassignments_request::ReassignablePartition {
                                partition_index: 0,
                                replicas: replicas
                                    .as_ref()
                                    .map(|replicas| replicas.iter().copied().collect()),
                                ..Default::default()
                            },
                        ],
                        ..Default::default()
                    }],
                    ..Default::default()
                };
                cluster.handle(1, AnyRequest::AlterPartitionReassignments(request));
            }
            Action::Elect { topic, unclean } => {
                let request = ElectLeadersRequest {
                    election_type: i8::from(*unclean),
                    topic_partitions: Some(vec![elect_leaders_request::TopicPartitions {
                        topic: name(*topic).into(),
                        partitions: vec![0, 1],
                        ..Default::default()
                    }]),
                    ..Default::default()
                };
                cluster.handle(2, AnyRequest::ElectLeaders(request));
            }
            Action::MinIsr { topic, value } => {
                let resource = ConfigResource::topic(name(*topic));
                cluster.alter_config(
                    &resource,
                    "min.insync.replicas",
                    0,
                    Some(&value.to_string()),
                );
            }
            Action::Unclean { topic, enabled } => {
                let resource = ConfigResource::topic(name(*topic));
                let value = enabled.to_string();
                cluster.alter_config(&resource, "unclean.leader.election.enable", 0, Some(&value));
            }
            Action::Wait { ms } => {
                cluster.now_ms += ms;
                // A tick that has nothing to do says so; a broker that is fenced is not found again.
                for _ in 0..8 {
                    if cluster.tick().is_empty() {
                        return;
                    }
                }
                panic!("ticks never come to rest");
            }
        }
    }
}

fn check(before: &MetadataImage, after: &MetadataImage) {
    for topic in after.topics.iter() {
        let old_topic = before.topics.get(&topic.id);
        let expected: Vec<i32> = (0..i32::try_from(topic.partitions.size()).unwrap()).collect();
        assert_eq!(
            topic.partitions.keys().copied().collect::<Vec<_>>(),
            expected
        );
        for (index, partition) in &topic.partitions {
            let context = format!("{}-{index}: {partition:?}", topic.name);
            let unique = |ids: &[NodeId]| ids.iter().collect::<BTreeSet<_>>().len() == ids.len();
            assert!(
                unique(&partition.replicas) && unique(&partition.isr) && unique(&partition.elr),
                "{context}"
            );
            assert!(!partition.replicas.is_empty(), "{context}");
            assert_eq!(
                partition.directories.len(),
                partition.replicas.len(),
                "{context}"
            );
            for id in &partition.isr {
                assert!(
                    partition.replicas.contains(id),
                    "in sync but no replica {context}"
                );
                // C3 (KIP-841): fenced brokers and those that leave are not in sync.
                assert!(
                    after.cluster.is_active(*id),
                    "in sync but not active {context}"
                );
                assert!(
                    !partition.elr.contains(id),
                    "C3: ELR and ISR overlap {context}"
                );
            }
            if partition.has_leader() {
                assert!(
                    partition.isr.contains(&partition.leader),
                    "C3: leader not in ISR {context}"
                );
            }
            assert!(
                partition.has_leader() || partition.isr.is_empty(),
                "in sync replicas but no leader {context}"
            );
            for id in partition
                .adding_replicas
                .iter()
                .chain(&partition.removing_replicas)
            {
                assert!(partition.replicas.contains(id), "{context}");
            }
            let Some(old) = old_topic.and_then(|old| old.partition(*index)) else {
                continue;
            };
            // C4: epochs only grow, and every change shows in them.
            assert!(partition.leader_epoch >= old.leader_epoch, "{context}");
            assert!(
                partition.partition_epoch >= old.partition_epoch,
                "{context}"
            );
            if partition.leader != old.leader {
                assert!(partition.leader_epoch > old.leader_epoch, "{context}");
            }
            let without_elr = |partition: &kavka_metadata::PartitionRegistration| {
                let mut partition = partition.clone();
                partition.elr.clear();
                partition.last_known_elr.clear();
                partition
            };
            if without_elr(partition) != without_elr(old) {
                assert!(partition.partition_epoch > old.partition_epoch, "{context}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_cluster_stays_sound(actions in prop::collection::vec(action(), 1..80)) {
        let mut run = Run {
            cluster: TestCluster::with_brokers(3, ""),
            incarnation: 100,
            ids_ever: BTreeSet::new(),
            epochs_ever: BTreeSet::new(),
        };
        let mut leaders: BTreeMap<(Uuid, i32, i32), NodeId> = BTreeMap::new();
        for action in &actions {
            let before = run.cluster.image.clone();
            run.act(action);
            check(&before, &run.cluster.image);
            // One leader per leader epoch.
            for topic in run.cluster.image.topics.iter() {
                for (index, partition) in &topic.partitions {
                    let key = (topic.id, *index, partition.leader_epoch.get());
                    let known = leaders.entry(key).or_insert(partition.leader);
                    prop_assert_eq!(*known, partition.leader);
                }
            }
        }
    }
}
