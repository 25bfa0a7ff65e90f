use super::*;
use crate::features::{ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, MetadataVersion};
use crate::record_version;
use kavka_protocol::messages::*;
use proptest::prelude::*;

/// A step that becomes records which fit the image at hand; what does not fit becomes none.
#[derive(Clone, Debug)]
enum Step {
    RegisterBroker {
        id: i32,
        rack: bool,
        directories: u8,
    },
    ChangeBroker {
        id: i32,
        fenced: i8,
        shutdown: i8,
    },
    UnregisterBroker {
        id: i32,
    },
    RegisterController {
        id: i32,
    },
    CreateTopic {
        name: u8,
        partitions: i32,
        replicas: Vec<i32>,
    },
    ChangePartition {
        name: u8,
        partition: i32,
        leader: i32,
        isr: Option<Vec<i32>>,
        elr: Option<Vec<i32>>,
    },
    RemoveTopic {
        name: u8,
    },
    ClearElr {
        name: Option<u8>,
    },
    Config {
        resource_type: u8,
        name: u8,
        key: u8,
        value: Option<u8>,
    },
    Feature {
        level: i16,
    },
    ProducerIds {
        more: i64,
    },
    Quota {
        user: Option<u8>,
        key: u8,
        value: Option<u16>,
    },
    Acl {
        id: u8,
    },
    RemoveAcl {
        id: u8,
    },
    Scram {
        user: u8,
        remove: bool,
    },
    Token {
        id: u8,
    },
    NoOp,
    /// The next records come in a metadata transaction; the flag tells whether it ends well.
    Transaction {
        name: u8,
        commit: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let ids = || prop::collection::vec(0..4i32, 0..4);
    prop_oneof![
        (0..4i32, any::<bool>(), 0..3u8).prop_map(|(id, rack, directories)| Step::RegisterBroker {
            id,
            rack,
            directories
        }),
        (0..4i32, -1..=1i8, 0..=1i8).prop_map(|(id, fenced, shutdown)| Step::ChangeBroker {
            id,
            fenced,
            shutdown
        }),
        (0..4i32).prop_map(|id| Step::UnregisterBroker { id }),
        (0..4i32).prop_map(|id| Step::RegisterController { id }),
        (0..6u8, 1..4i32, prop::collection::vec(0..4i32, 1..4)).prop_map(
            |(name, partitions, replicas)| Step::CreateTopic {
                name,
                partitions,
                replicas
            }
        ),
        (
            0..6u8,
            0..4i32,
            -2..4i32,
            prop::option::of(ids()),
            prop::option::of(ids())
        )
            .prop_map(
                |(name, partition, leader, isr, elr)| Step::ChangePartition {
                    name,
                    partition,
                    leader,
                    isr,
                    elr
                }
            ),
        (0..6u8).prop_map(|name| Step::RemoveTopic { name }),
        prop::option::of(0..6u8).prop_map(|name| Step::ClearElr { name }),
        (0..4u8, 0..3u8, 0..3u8, prop::option::of(any::<u8>())).prop_map(
            |(resource_type, name, key, value)| Step::Config {
                resource_type,
                name,
                key,
                value
            }
        ),
        (0..2i16).prop_map(|level| Step::Feature { level }),
        (1..2000i64).prop_map(|more| Step::ProducerIds { more }),
        (
            prop::option::of(0..3u8),
            0..2u8,
            prop::option::of(any::<u16>())
        )
            .prop_map(|(user, key, value)| Step::Quota { user, key, value }),
        (0..4u8).prop_map(|id| Step::Acl { id }),
        (0..4u8).prop_map(|id| Step::RemoveAcl { id }),
        (0..3u8, any::<bool>()).prop_map(|(user, remove)| Step::Scram { user, remove }),
        (0..3u8).prop_map(|id| Step::Token { id }),
        Just(Step::NoOp),
        (6..9u8, any::<bool>()).prop_map(|(name, commit)| Step::Transaction { name, commit }),
    ]
}

fn uuid(number: u8) -> Uuid {
    Uuid::from_bytes([number + 16; 16])
}

fn topic_name(name: u8) -> String {
    format!("topic-{name}")
}

fn create_topic(name: u8, offset: i64, partitions: i32, replicas: &[i32]) -> Vec<MetadataRecord> {
    // A name that comes back gets another id.
    let mut bytes = [name + 1; 16];
    bytes[8..].copy_from_slice(&offset.to_be_bytes());
    let topic_id = Uuid::from_bytes(bytes);
    let mut records = vec![MetadataRecord::Topic(TopicRecord {
        name: topic_name(name).into(),
        topic_id,
        ..Default::default()
    })];
    records.extend((0..partitions).map(|partition_id| {
        MetadataRecord::Partition(PartitionRecord {
            partition_id,
            topic_id,
            replicas: replicas.to_vec(),
            isr: replicas.to_vec(),
            leader: replicas[0],
            leader_epoch: 0,
            partition_epoch: 0,
            directories: vec![uuid(9); replicas.len()],
            ..Default::default()
        })
    }));
    records
}

fn records_of(step: &Step, image: &MetadataImage) -> Vec<MetadataRecord> {
    let offset = image.last_offset + 1;
    let one = |record| vec![record];
    match step {
        Step::RegisterBroker {
            id,
            rack,
            directories,
        } => one(MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: *id,
            broker_epoch: offset,
            incarnation_id: uuid(*directories),
            rack: rack.then(|| "rack".into()),
            end_points: vec![register_broker_record::BrokerEndpoint {
                name: "PLAINTEXT".into(),
                host: "host".into(),
                port: 9092,
                ..Default::default()
            }],
            log_dirs: (0..*directories).map(uuid).collect(),
            ..Default::default()
        })),
        Step::ChangeBroker {
            id,
            fenced,
            shutdown,
        } => {
            let Some(broker) = image.cluster.broker(NodeId(*id)) else {
                return Vec::new();
            };
            one(MetadataRecord::BrokerRegistrationChange(
                BrokerRegistrationChangeRecord {
                    broker_id: *id,
                    broker_epoch: broker.broker_epoch.get(),
                    fenced: *fenced,
                    in_controlled_shutdown: *shutdown,
                    ..Default::default()
                },
            ))
        }
        Step::UnregisterBroker { id } => {
            let Some(broker) = image.cluster.broker(NodeId(*id)) else {
                return Vec::new();
            };
            one(MetadataRecord::UnregisterBroker(UnregisterBrokerRecord {
                broker_id: *id,
                broker_epoch: broker.broker_epoch.get(),
                ..Default::default()
            }))
        }
        Step::RegisterController { id } => one(MetadataRecord::RegisterController(
            RegisterControllerRecord {
                controller_id: *id,
                incarnation_id: uuid(1),
                ..Default::default()
            },
        )),
        Step::CreateTopic {
            name,
            partitions,
            replicas,
        } => {
            if image.topics.contains(&topic_name(*name)) {
                return Vec::new();
            }
            create_topic(*name, offset, *partitions, replicas)
        }
        Step::ChangePartition {
            name,
            partition,
            leader,
            isr,
            elr,
        } => {
            let Some(topic) = image.topics.by_name(&topic_name(*name)) else {
                return Vec::new();
            };
            if topic.partition(*partition).is_none() {
                return Vec::new();
            }
            one(MetadataRecord::PartitionChange(PartitionChangeRecord {
                partition_id: *partition,
                topic_id: topic.id,
                leader: *leader,
                isr: isr.clone(),
                eligible_leader_replicas: elr.clone(),
                ..Default::default()
            }))
        }
        Step::RemoveTopic { name } => {
            let Some(topic_id) = image.topics.id_of(&topic_name(*name)) else {
                return Vec::new();
            };
            one(MetadataRecord::RemoveTopic(RemoveTopicRecord {
                topic_id,
                ..Default::default()
            }))
        }
        Step::ClearElr { name } => {
            let topic = name.map(topic_name).unwrap_or_default();
            if !topic.is_empty() && !image.topics.contains(&topic) {
                return Vec::new();
            }
            one(MetadataRecord::ClearElr(ClearElrRecord {
                topic_name: topic.into(),
                ..Default::default()
            }))
        }
        Step::Config {
            resource_type,
            name,
            key,
            value,
        } => one(MetadataRecord::Config(ConfigRecord {
            resource_type: [2, 4, 16, 32][usize::from(*resource_type)],
            resource_name: topic_name(*name).into(),
            name: format!("key-{key}").into(),
            value: value.map(|value| value.to_string().into()),
            ..Default::default()
        })),
        Step::Feature { level } => one(MetadataRecord::FeatureLevel(FeatureLevelRecord {
            name: ELIGIBLE_LEADER_REPLICAS_VERSION.into(),
            feature_level: *level,
            ..Default::default()
        })),
        Step::ProducerIds { more } => one(MetadataRecord::ProducerIds(ProducerIdsRecord {
            next_producer_id: image.next_producer_id + more,
            ..Default::default()
        })),
        Step::Quota { user, key, value } => one(MetadataRecord::ClientQuota(ClientQuotaRecord {
            entity: vec![client_quota_record::EntityData {
                entity_type: "user".into(),
                entity_name: user.map(|user| user.to_string().into()),
                ..Default::default()
            }],
            key: key.to_string().into(),
            value: value.map_or(0.0, f64::from),
            remove: value.is_none(),
            ..Default::default()
        })),
        Step::Acl { id } => one(MetadataRecord::AccessControlEntry(
            AccessControlEntryRecord {
                id: uuid(*id),
                resource_name: "x".into(),
                ..Default::default()
            },
        )),
        Step::RemoveAcl { id } => {
            if !image.acls.by_id.contains_key(&uuid(*id)) {
                return Vec::new();
            }
            one(MetadataRecord::RemoveAccessControlEntry(
                RemoveAccessControlEntryRecord {
                    id: uuid(*id),
                    ..Default::default()
                },
            ))
        }
        Step::Scram { user, remove } => one(if *remove {
            MetadataRecord::RemoveUserScramCredential(RemoveUserScramCredentialRecord {
                name: user.to_string().into(),
                mechanism: 1,
                ..Default::default()
            })
        } else {
            MetadataRecord::UserScramCredential(UserScramCredentialRecord {
                name: user.to_string().into(),
                mechanism: 1,
                iterations: 4096,
                salt: vec![*user].into(),
                ..Default::default()
            })
        }),
        Step::Token { id } => one(MetadataRecord::DelegationToken(DelegationTokenRecord {
            token_id: id.to_string().into(),
            owner: "User:a".into(),
            renewers: vec!["User:b".into()],
            ..Default::default()
        })),
        Step::NoOp => one(MetadataRecord::NoOp(NoOpRecord::default())),
        Step::Transaction { name, commit } => {
            if image.topics.contains(&topic_name(*name)) {
                return Vec::new();
            }
            let mut records = one(MetadataRecord::BeginTransaction(
                BeginTransactionRecord::default(),
            ));
            records.extend(create_topic(*name, offset, 1, &[1]));
            records.push(if *commit {
                MetadataRecord::EndTransaction(EndTransactionRecord::default())
            } else {
                MetadataRecord::AbortTransaction(AbortTransactionRecord::default())
            });
            records
        }
    }
}

/// The batches of a log and the image at its end.
fn run(steps: &[Step]) -> (Vec<Vec<MetadataRecord>>, MetadataImage) {
    let mut image = MetadataImage::empty();
    let mut log = vec![crate::bootstrap::activation_records(
        crate::bootstrap::format_records(MetadataVersion::LATEST_PRODUCTION),
        1,
    )];
    image = fold(&image, &log[0]);
    for step in steps {
        let records = records_of(step, &image);
        if !records.is_empty() {
            image = fold(&image, &records);
            log.push(records);
        }
    }
    (log, image)
}

fn fold(image: &MetadataImage, records: &[MetadataRecord]) -> MetadataImage {
    let last_offset = image.last_offset + i64::try_from(records.len()).unwrap();
    image.apply(last_offset, LeaderEpoch(1), records).unwrap().0
}

/// Through the bytes that the log would hold.
fn through_bytes(records: &[MetadataRecord], image: &MetadataImage) -> Vec<MetadataRecord> {
    records
        .iter()
        .map(|record| {
            let mut bytes = record
                .encode_value(record_version(record, &image.features))
                .unwrap();
            MetadataRecord::decode_value(&mut bytes).unwrap()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// C2: state = fold(log) = fold(snapshot + tail), whatever the batches.
    #[test]
    fn an_image_is_the_fold_of_its_log(steps in prop::collection::vec(step(), 0..60), cut: prop::sample::Index) {
        let (log, image) = run(&steps);
        let cut = cut.index(log.len() + 1);
        let at_cut = log[..cut].iter().fold(MetadataImage::empty(), |image, records| fold(&image, records));

        let snapshot = through_bytes(&at_cut.to_records(), &at_cut);
        let (mut restored, _) = MetadataImage::empty()
            .apply(at_cut.last_offset, at_cut.last_epoch, &snapshot)
            .unwrap();
        prop_assert_eq!(&restored, &at_cut);

        for records in &log[cut..] {
            let read = through_bytes(records, &image);
            restored = fold(&restored, &read);
        }
        prop_assert_eq!(&restored, &image);

        let all: Vec<MetadataRecord> = log.concat();
        let at_once = fold(&MetadataImage::empty(), &all);
        prop_assert_eq!(at_once, image);
    }

    /// A delta names all that differs, and only keys that records touched.
    #[test]
    fn a_delta_names_what_differs(steps in prop::collection::vec(step(), 1..40), cut: prop::sample::Index) {
        let (log, after) = run(&steps);
        let cut = cut.index(log.len());
        let before = log[..cut].iter().fold(MetadataImage::empty(), |image, records| fold(&image, records));
        let tail: Vec<MetadataRecord> = log[cut..].concat();
        let (_, by_records) = before.apply(after.last_offset, after.last_epoch, &tail).unwrap();
        let by_images = MetadataDelta::between(&before, &after);
        prop_assert!(by_images.brokers.is_subset(&by_records.brokers));
        prop_assert!(by_images.configs.is_subset(&by_records.configs));
        prop_assert!(by_images.topics_created.is_subset(&by_records.topics_created));
        prop_assert_eq!(&by_images.topics_deleted, &by_records.topics_deleted);
        for (topic_id, partitions) in &by_images.partitions {
            prop_assert!(partitions.is_subset(&by_records.partitions[topic_id]));
        }
        for id in 0..4 {
            let changes = by_records.local_changes(NodeId(id), &after);
            for change in changes.leaders.iter().chain(&changes.followers) {
                prop_assert!(change.new.replicas.contains(&NodeId(id)));
            }
            prop_assert!(changes.leaders.iter().all(|change| change.new.leader == NodeId(id)));
        }
    }

    /// C4: leader and partition epochs only grow while a partition lives.
    #[test]
    fn epochs_grow(steps in prop::collection::vec(step(), 0..60)) {
        let mut image = MetadataImage::empty();
        for step in &steps {
            let next = fold(&image, &records_of(step, &image));
            for topic in image.topics.iter() {
                let Some(later) = next.topics.get(&topic.id) else { continue };
                for (partition, old) in &topic.partitions {
                    let new = later.partition(*partition).unwrap();
                    prop_assert!(new.leader_epoch >= old.leader_epoch);
                    prop_assert!(new.partition_epoch >= old.partition_epoch);
                    prop_assert!(new.leader == old.leader || new.leader_epoch > old.leader_epoch);
                }
            }
            image = next;
        }
    }
}

#[test]
fn a_new_cluster_starts_with_kafkas_records() {
    let records = crate::bootstrap::activation_records(
        crate::bootstrap::format_records(MetadataVersion::LATEST_PRODUCTION),
        1,
    );
    let shown: Vec<String> = records
        .iter()
        .map(|record| match record {
            MetadataRecord::BeginTransaction(begin) => {
                format!("begin {}", begin.name.as_deref().unwrap_or(""))
            }
            MetadataRecord::FeatureLevel(feature) => {
                format!("{}={}", feature.name, feature.feature_level)
            }
            MetadataRecord::Config(config) => {
                format!(
                    "{}:{}={}",
                    config.resource_type,
                    config.name,
                    config.value.as_deref().unwrap_or("")
                )
            }
            MetadataRecord::EndTransaction(_) => "end".into(),
            other => format!("{other:?}"),
        })
        .collect();
    // Read with kafka-dump-log from a freshly formatted and started Apache Kafka 4.3.1.
    assert_eq!(
        shown,
        [
            "begin Bootstrap records",
            "metadata.version=30",
            "eligible.leader.replicas.version=1",
            "group.version=1",
            "share.version=1",
            "streams.version=1",
            "transaction.version=2",
            "4:min.insync.replicas=1",
            "end",
        ]
    );
    let image = fold(&MetadataImage::empty(), &records);
    assert_eq!(image.features.level(METADATA_VERSION), 30);
    assert!(image.features.is_elr_enabled());
}

#[test]
fn an_open_transaction_does_not_count_yet() {
    let begin = [MetadataRecord::BeginTransaction(
        BeginTransactionRecord::default(),
    )];
    let image = fold(&MetadataImage::empty(), &begin);
    let image = fold(&image, &create_topic(1, 1, 1, &[1]));
    assert!(image.in_transaction());
    assert!(image.topics.is_empty());
    let committed = fold(
        &image,
        &[MetadataRecord::EndTransaction(
            EndTransactionRecord::default(),
        )],
    );
    assert_eq!(committed.topics.len(), 1);
    let aborted = fold(
        &image,
        &[MetadataRecord::AbortTransaction(
            AbortTransactionRecord::default(),
        )],
    );
    assert!(aborted.topics.is_empty());
    assert!(!aborted.in_transaction());
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let topic = create_topic(1, 1, 1, &[1]);
    let image = fold(&MetadataImage::empty(), &topic);
    let unknown = Uuid::from_bytes([99; 16]);
    for (record, error) in [
        (topic[0].clone(), "topic topic-1 with id"),
        (
            MetadataRecord::RemoveTopic(RemoveTopicRecord {
                topic_id: unknown,
                ..Default::default()
            }),
            "there is no topic with id",
        ),
        (
            MetadataRecord::UnregisterBroker(UnregisterBrokerRecord {
                broker_id: 7,
                ..Default::default()
            }),
            "broker 7 is not registered",
        ),
        (
            MetadataRecord::EndTransaction(EndTransactionRecord::default()),
            "ends that has not begun",
        ),
    ] {
        let refused = image
            .apply(9, LeaderEpoch(1), &[record])
            .unwrap_err()
            .to_string();
        assert!(refused.contains(error), "{refused}");
    }
}
