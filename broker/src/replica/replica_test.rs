use super::*;
use kavka_common::{
    Clock, LeaderEpoch, ManualClock, NodeId, Offset, ProducerEpoch, ProducerId, Uuid,
};
use kavka_config::{BrokerConfig, Layers, Properties};
use kavka_metadata::{MetadataImage, MetadataRecord};
use kavka_protocol::messages::{
    ConfigRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord,
};
use kavka_records::{BatchBuilder, BatchOptions, RecordBatch, batches};
use kavka_replication::{AlterPartitionOutcome, LeaderEvent, Registration};
use kavka_storage::vfs::{RealVfs, Vfs};
use kavka_storage::{AppendOrigin, LogDirs, MetaProperties};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const NOW: i64 = 1_700_000_000_000;

pub(super) fn topic_id(n: u8) -> Uuid {
    Uuid::from_bytes([n; 16])
}

pub(super) fn dir_id(at: usize) -> Uuid {
    Uuid::from_bytes([u8::try_from(at + 100).unwrap(); 16])
}

pub(super) struct Broker {
    pub(super) replicas: Arc<ReplicaManager>,
    image: MetadataImage,
    clock: Arc<ManualClock>,
}

impl Broker {
    pub(super) async fn start(dir: &Path) -> Broker {
        Broker::start_on(Arc::new(RealVfs), dir).await
    }

    pub(super) async fn start_on(vfs: Arc<dyn Vfs>, dir: &Path) -> Broker {
        Broker::start_in(vfs, &[dir.to_owned()]).await
    }

    /// On several directories, the n-th of which has the id `dir_id(n)`.
    pub(super) async fn start_in(vfs: Arc<dyn Vfs>, paths: &[PathBuf]) -> Broker {
        let text = b"process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:0,CONTROLLER://:0\ncontroller.quorum.voters=1@localhost:9093\n";
        let config = BrokerConfig::from_properties(&Properties::parse(text).unwrap()).unwrap();
        let (mut dirs, _) = LogDirs::open(&vfs, paths);
        for dir in &mut dirs.dirs {
            let at = paths.iter().position(|path| path == dir.path()).unwrap();
            let meta = MetaProperties {
                version: 1,
                cluster_id: Some("c".into()),
                node_id: Some(NodeId(1)),
                directory_id: Some(dir_id(at)),
            };
            dir.set_meta(meta, NOW).unwrap();
        }
        let clock = Arc::new(ManualClock::at(NOW));
        let replicas = ReplicaManager::new(
            NodeId(1),
            ReplicaSettings::from_config(&config),
            Layers::of_file(Arc::new(config)),
            Arc::new(dirs),
            Arc::clone(&clock) as Arc<dyn Clock>,
        );
        replicas.recover().await;
        Broker {
            replicas,
            image: MetadataImage::default(),
            clock,
        }
    }

    pub(super) async fn apply(&mut self, records: &[MetadataRecord]) {
        let offset = self.image.last_offset + records.len() as i64;
        let (image, delta) = self.image.apply(offset, LeaderEpoch(1), records).unwrap();
        self.replicas.apply(&delta, &image).await;
        self.image = image;
    }

    pub(super) async fn with_topic(dir: &Path) -> Broker {
        let mut broker = Broker::start(dir).await;
        broker.apply(&topic("t", topic_id(7), &[1], &[1])).await;
        broker
    }

    pub(super) fn partition(&self) -> Arc<Partition> {
        self.replicas.partition("t", 0).unwrap()
    }

    pub(super) fn produce(&self, batch: Vec<u8>) -> Result<Appended, ReplicaError> {
        self.replicas
            .append_produced(&self.partition(), &batch.into(), Acks::All, true)
    }
}

pub(super) fn topic(name: &str, id: Uuid, replicas: &[i32], isr: &[i32]) -> Vec<MetadataRecord> {
    vec![
        MetadataRecord::Topic(TopicRecord {
            name: name.into(),
            topic_id: id,
            ..Default::default()
        }),
        MetadataRecord::Partition(PartitionRecord {
            partition_id: 0,
            topic_id: id,
            replicas: replicas.to_vec(),
            isr: isr.to_vec(),
            leader: 1,
            leader_epoch: 0,
            partition_epoch: 0,
            directories: replicas.iter().map(|_| Uuid::DIR_UNASSIGNED).collect(),
            ..Default::default()
        }),
    ]
}

pub(super) fn batch(values: &[&str]) -> Vec<u8> {
    sequenced(values, ProducerId::NONE, -1)
}

fn sequenced(values: &[&str], producer_id: ProducerId, base_sequence: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id,
        producer_epoch: if base_sequence < 0 {
            ProducerEpoch::NONE
        } else {
            ProducerEpoch(0)
        },
        base_sequence,
        ..BatchOptions::default()
    });
    for value in values {
        builder
            .append(NOW, None, Some(value.as_bytes()), [])
            .unwrap();
    }
    builder.build().unwrap().to_vec()
}

pub(super) fn read_at(partition: &Arc<Partition>, fetch_offset: Offset) -> FetchPartition {
    FetchPartition {
        partition: Ok(Arc::clone(partition)),
        fetch_offset,
        log_start_offset: -1,
        current_leader_epoch: LeaderEpoch::UNKNOWN,
        last_fetched_epoch: LeaderEpoch::UNKNOWN,
        max_bytes: 1 << 20,
    }
}

pub(super) const PARAMS: FetchParams = FetchParams {
    replica: None,
    isolation: FetchIsolation::HighWatermark,
    leader_only: true,
    min_bytes: 1,
    max_bytes: 1 << 20,
    max_wait_ms: 0,
};

pub(super) fn offsets_of(read: &PartitionRead) -> Vec<(Offset, String)> {
    let bytes = read
        .region
        .as_ref()
        .map(|r| r.read().unwrap())
        .unwrap_or_default();
    batches(&bytes)
        .flat_map(|batch| batch.unwrap().records(1 << 20).unwrap())
        .map(|record| {
            let record = record.unwrap();
            let value = record.value.unwrap().to_vec();
            (record.offset, String::from_utf8(value).unwrap())
        })
        .collect()
}

#[tokio::test]
async fn appends_are_committed_at_once_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    let partition = broker.partition();
    let first = broker.produce(batch(&["a", "b"])).unwrap();
    let second = broker.produce(batch(&["c"])).unwrap();
    assert_eq!((first.info.first_offset, second.info.first_offset), (0, 2));
    assert_eq!(first.leader_epoch, LeaderEpoch(0));
    let results = fetch(&PARAMS, &[read_at(&partition, 0)]).await;
    let read = results[0].as_ref().unwrap();
    assert_eq!((read.high_watermark, read.log_start_offset), (3, 0));
    let expected = [(0, "a".into()), (1, "b".into()), (2, "c".into())];
    assert_eq!(offsets_of(read), expected);
    // an offset inside a batch gives that batch
    let results = fetch(&PARAMS, &[read_at(&partition, 1)]).await;
    assert_eq!(offsets_of(results[0].as_ref().unwrap()), expected);
    // and one past the end is refused
    let results = fetch(&PARAMS, &[read_at(&partition, 4)]).await;
    assert!(matches!(results[0], Err(ReplicaError::OffsetOutOfRange(_))));
}

#[tokio::test]
async fn a_resent_batch_gets_the_offset_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    let of = |sequence| sequenced(&["x"], ProducerId(5), sequence);
    for sequence in 0..5 {
        let appended = broker.produce(of(sequence)).unwrap();
        assert_eq!(appended.info.first_offset, i64::from(sequence));
    }
    for sequence in 0..5 {
        let again = broker.produce(of(sequence)).unwrap();
        assert!(again.info.duplicate);
        assert_eq!(again.info.first_offset, i64::from(sequence));
    }
    assert!(matches!(
        broker.produce(of(7)),
        Err(ReplicaError::Append(_))
    ));
    // the refused batch moved nothing
    assert_eq!(broker.produce(of(5)).unwrap().info.first_offset, 5);
}

#[tokio::test]
async fn a_waiting_fetch_is_woken_by_an_append() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    let partition = broker.partition();
    let params = FetchParams {
        max_wait_ms: 600_000,
        ..PARAMS
    };
    let fetches = [read_at(&partition, 0)];
    let waiting = tokio::spawn(async move { fetch(&params, &fetches).await });
    tokio::task::yield_now().await;
    broker.produce(batch(&["late"])).unwrap();
    let results = tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .expect("the append wakes the fetch")
        .unwrap();
    assert_eq!(
        offsets_of(results[0].as_ref().unwrap()),
        [(0, "late".into())]
    );
}

#[tokio::test]
async fn a_fetch_without_data_ends_at_its_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    let params = FetchParams {
        max_wait_ms: 50,
        ..PARAMS
    };
    let started = tokio::time::Instant::now();
    let results = fetch(&params, &[read_at(&broker.partition(), 0)]).await;
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert_eq!(results[0].as_ref().unwrap().records_bytes(), 0);
}

#[tokio::test]
async fn the_byte_budget_is_shared_but_the_first_batch_always_fits() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with_topic(dir.path()).await;
    broker.apply(&topic("u", topic_id(8), &[1], &[1])).await;
    let u = broker.replicas.partition("u", 0).unwrap();
    broker.produce(batch(&["first"])).unwrap();
    let bytes = batch(&["second"]).into();
    broker
        .replicas
        .append_produced(&u, &bytes, Acks::Leader, true)
        .unwrap();
    let params = FetchParams {
        max_bytes: 10,
        ..PARAMS
    };
    let fetches = [read_at(&broker.partition(), 0), read_at(&u, 0)];
    let results = fetch(&params, &fetches).await;
    assert_eq!(
        offsets_of(results[0].as_ref().unwrap()),
        [(0, "first".into())]
    );
    assert_eq!(results[1].as_ref().unwrap().records_bytes(), 0);
}

#[tokio::test]
async fn acks_all_waits_for_the_follower_and_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(dir.path()).await;
    broker
        .apply(&topic("t", topic_id(7), &[1, 2], &[1, 2]))
        .await;
    let partition = broker.partition();
    let appended = broker.produce(batch(&["a", "b"])).unwrap();
    let in_doubt = [InDoubt {
        partition: Arc::clone(&partition),
        required_offset: appended.info.last_offset + 1,
        leader_epoch: appended.leader_epoch,
        must_flush: appended.must_flush,
    }];
    let results = acknowledged(&in_doubt, Acks::All, 50).await;
    assert!(matches!(results[0], Err(ReplicaError::RequestTimedOut)));
    // consumers do not see it yet
    let results = fetch(&PARAMS, &[read_at(&partition, 0)]).await;
    assert_eq!(results[0].as_ref().unwrap().records_bytes(), 0);
    let waiting = tokio::spawn(async move { acknowledged(&in_doubt, Acks::All, 600_000).await });
    tokio::task::yield_now().await;
    let follower = FetchParams {
        replica: Some(FetchingReplica {
            replica_id: NodeId(2),
            broker_epoch: kavka_common::BrokerEpoch(3),
        }),
        isolation: FetchIsolation::LogEnd,
        ..PARAMS
    };
    let results = fetch(&follower, &[read_at(&partition, 0)]).await;
    assert_eq!(offsets_of(results[0].as_ref().unwrap()).len(), 2);
    // its next fetch is its acknowledgement
    let results = fetch(&follower, &[read_at(&partition, 2)]).await;
    assert_eq!(results[0].as_ref().unwrap().high_watermark, 2);
    assert!(matches!(waiting.await.unwrap()[0], Ok(())));
}

#[tokio::test]
async fn a_shrunk_isr_is_proposed_and_then_commits() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(dir.path()).await;
    broker
        .apply(&topic("t", topic_id(7), &[1, 2], &[1, 2]))
        .await;
    let partition = broker.partition();
    let appended = broker.produce(batch(&["a"])).unwrap();
    let mut proposals = broker.replicas.take_isr_proposals().unwrap();
    broker.clock.advance(30_001);
    broker.replicas.tick_leaders();
    let proposal = proposals.try_recv().unwrap();
    assert_eq!(proposal.isr.len(), 1);
    assert_eq!(proposal.topic_partition.topic_id, topic_id(7));
    partition.on_event(LeaderEvent::AlterPartition {
        leader_epoch: proposal.leader_epoch,
        partition_epoch: proposal.partition_epoch,
        outcome: AlterPartitionOutcome::Accepted(Registration {
            replicas: vec![NodeId(1), NodeId(2)],
            isr: vec![NodeId(1)],
            leader_epoch: appended.leader_epoch,
            partition_epoch: kavka_common::PartitionEpoch(1),
        }),
    });
    let results = fetch(&PARAMS, &[read_at(&partition, 0)]).await;
    assert_eq!(results[0].as_ref().unwrap().high_watermark, 1);
}

#[tokio::test]
async fn names_ids_and_epochs_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with_topic(dir.path()).await;
    broker
        .apply(&[MetadataRecord::PartitionChange(PartitionChangeRecord {
            partition_id: 0,
            topic_id: topic_id(7),
            leader: 1,
            ..Default::default()
        })])
        .await;
    let replicas = &broker.replicas;
    assert!(replicas.partition_by_id(topic_id(7), 0).is_ok());
    assert!(matches!(
        replicas.partition_by_id(topic_id(9), 0),
        Err(ReplicaError::UnknownTopicId)
    ));
    assert!(matches!(
        replicas.partition("t", 1),
        Err(ReplicaError::UnknownTopicOrPartition)
    ));
    let partition = broker.partition();
    let at_epoch = |epoch| FetchPartition {
        current_leader_epoch: LeaderEpoch(epoch),
        ..read_at(&partition, 0)
    };
    let results = fetch(&PARAMS, &[at_epoch(0), at_epoch(1), at_epoch(2)]).await;
    assert!(matches!(results[0], Err(ReplicaError::FencedLeaderEpoch)));
    assert!(results[1].is_ok());
    assert!(matches!(results[2], Err(ReplicaError::UnknownLeaderEpoch)));
    // a reader from an epoch that ended before its offset is told where
    broker.produce(batch(&["a"])).unwrap();
    let diverging = FetchPartition {
        last_fetched_epoch: LeaderEpoch(0),
        ..read_at(&partition, 5)
    };
    let results = fetch(&PARAMS, &[diverging]).await;
    let end = results[0].as_ref().unwrap().diverging.unwrap();
    assert_eq!((end.leader_epoch, end.end_offset), (LeaderEpoch(0), 0));
    assert_eq!(
        partition
            .end_of_epoch(LeaderEpoch::UNKNOWN, LeaderEpoch(1), true)
            .unwrap()
            .map(|end| end.end_offset),
        Some(1)
    );
}

#[tokio::test]
async fn offsets_are_found_by_time_and_by_special_timestamps() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    broker.produce(batch(&["a", "b"])).unwrap();
    let partition = broker.partition();
    let find = |timestamp, version| {
        OffsetSpec::from_wire(timestamp, version).and_then(|spec| {
            find_offset(
                &partition,
                spec,
                FetchIsolation::HighWatermark,
                LeaderEpoch::UNKNOWN,
                true,
            )
        })
    };
    let found = |timestamp| {
        let found = find(timestamp, 11).unwrap();
        (found.timestamp, found.offset, found.leader_epoch.get())
    };
    assert_eq!(found(-1), (-1, 2, 0));
    assert_eq!(found(-2), (-1, 0, 0));
    assert_eq!(found(-3), (NOW, 0, 0));
    assert_eq!(found(-4), (-1, 0, 0));
    assert_eq!(found(-5), (-1, -1, -1));
    assert_eq!(found(-6), (-1, -1, -1));
    assert_eq!(found(NOW - 1), (NOW, 0, 0));
    assert_eq!(found(NOW + 1), (-1, -1, -1));
    assert!(matches!(find(-3, 6), Err(ReplicaError::UnsupportedVersion)));
    assert!(matches!(
        find(-6, 10),
        Err(ReplicaError::UnsupportedVersion)
    ));
}

#[tokio::test]
async fn deleted_records_stay_deleted_over_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    {
        let broker = Broker::with_topic(dir.path()).await;
        broker.produce(batch(&["a", "b", "c"])).unwrap();
        let partition = broker.partition();
        let delete = |offset| {
            let target = vec![(Ok(Arc::clone(&partition)), offset)];
            let replicas = Arc::clone(&broker.replicas);
            async move { replicas.delete_records(target, 1000).await.remove(0) }
        };
        assert_eq!(delete(2).await.unwrap(), 2);
        assert!(matches!(
            delete(4).await,
            Err(ReplicaError::OffsetOutOfRange(_))
        ));
        assert_eq!(delete(1).await.unwrap(), 2);
    }
    let broker = Broker::with_topic(dir.path()).await;
    let results = fetch(&PARAMS, &[read_at(&broker.partition(), 1)]).await;
    assert!(matches!(results[0], Err(ReplicaError::OffsetOutOfRange(_))));
    let results = fetch(&PARAMS, &[read_at(&broker.partition(), 2)]).await;
    assert_eq!(results[0].as_ref().unwrap().log_start_offset, 2);
}

#[tokio::test]
async fn a_clean_stop_is_found_clean_and_a_crash_is_recovered() {
    let dir = tempfile::tempdir().unwrap();
    {
        let broker = Broker::with_topic(dir.path()).await;
        broker.produce(batch(&["a"])).unwrap();
        broker.replicas.shutdown(None).await;
        assert!(matches!(
            broker.replicas.partition("t", 0),
            Err(ReplicaError::NotLeaderOrFollower)
        ));
    }
    {
        let broker = Broker::with_topic(dir.path()).await;
        assert!(broker.replicas.dirs().dirs[0].was_clean_shutdown());
        broker.produce(batch(&["b"])).unwrap();
        broker.replicas.checkpoint_high_watermarks();
    }
    let broker = Broker::with_topic(dir.path()).await;
    assert!(!broker.replicas.dirs().dirs[0].was_clean_shutdown());
    let results = fetch(&PARAMS, &[read_at(&broker.partition(), 0)]).await;
    let read = results[0].as_ref().unwrap();
    assert_eq!(offsets_of(read), [(0, "a".into()), (1, "b".into())]);
}

#[tokio::test]
async fn topics_go_and_come_back_empty_under_another_id() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with_topic(dir.path()).await;
    broker.produce(batch(&["a"])).unwrap();
    let old = broker.partition();
    let remove = MetadataRecord::RemoveTopic(RemoveTopicRecord {
        topic_id: topic_id(7),
        ..Default::default()
    });
    broker.apply(&[remove]).await;
    assert!(matches!(
        broker.replicas.partition("t", 0),
        Err(ReplicaError::UnknownTopicOrPartition)
    ));
    let results = fetch(&PARAMS, &[read_at(&old, 0)]).await;
    assert!(matches!(results[0], Err(ReplicaError::NotLeaderOrFollower)));
    broker.apply(&topic("t", topic_id(9), &[1], &[1])).await;
    let appended = broker.produce(batch(&["b"])).unwrap();
    assert_eq!(appended.info.first_offset, 0);
    broker.replicas.shutdown(None).await;
    drop(broker);
    // a third topic of that name was made while the broker was away: the log of the second is set aside
    let mut broker = Broker::start(dir.path()).await;
    broker.apply(&topic("t", topic_id(11), &[1], &[1])).await;
    assert_eq!(broker.produce(batch(&["c"])).unwrap().info.first_offset, 0);
    let names: Vec<String> = RealVfs
        .list(dir.path())
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(
        names.iter().filter(|name| name.ends_with("-stray")).count(),
        1,
        "{names:?}"
    );
}

#[tokio::test]
async fn a_topic_made_anew_keeps_its_records_over_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    {
        let mut broker = Broker::with_topic(dir.path()).await;
        broker.produce(batch(&["a", "b", "c"])).unwrap();
        // the checkpoint says that the log starts at 3
        let target = vec![(Ok(broker.partition()), 3)];
        let deleted = broker.replicas.delete_records(target, 1000).await.remove(0);
        assert_eq!(deleted.unwrap(), 3);
        let remove = MetadataRecord::RemoveTopic(RemoveTopicRecord {
            topic_id: topic_id(7),
            ..Default::default()
        });
        broker.apply(&[remove]).await;
        broker.apply(&topic("t", topic_id(9), &[1], &[1])).await;
        broker.produce(batch(&["new"])).unwrap();
    }
    let mut broker = Broker::start(dir.path()).await;
    broker.apply(&topic("t", topic_id(9), &[1], &[1])).await;
    let results = fetch(&PARAMS, &[read_at(&broker.partition(), 0)]).await;
    assert_eq!(
        offsets_of(results[0].as_ref().unwrap()),
        [(0, "new".into())]
    );
}

#[tokio::test]
async fn logs_without_topic_are_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    {
        let broker = Broker::with_topic(dir.path()).await;
        broker.replicas.shutdown(None).await;
    }
    let mut broker = Broker::start(dir.path()).await;
    broker.apply(&topic("u", topic_id(8), &[1], &[1])).await;
    broker.replicas.set_strays_aside().await;
    assert!(!dir.path().join("t-0").exists());
    assert!(dir.path().join("u-0").exists());
}

#[tokio::test]
async fn settings_of_topics_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with_topic(dir.path()).await;
    let set = |name: &str, value: &str| {
        MetadataRecord::Config(ConfigRecord {
            resource_type: 2,
            resource_name: "t".into(),
            name: name.into(),
            value: Some(value.into()),
            ..Default::default()
        })
    };
    broker
        .apply(&[
            set("max.message.bytes", "80"),
            set("message.timestamp.type", "LogAppendTime"),
            set("flush.messages", "1"),
            set("compression.type", "gzip"),
        ])
        .await;
    let long = "x".repeat(200);
    assert!(matches!(
        broker.produce(batch(&[&long])),
        Err(ReplicaError::InvalidBatch(_))
    ));
    broker.clock.advance(5);
    broker.apply(&[set("max.message.bytes", "1000")]).await;
    let appended = broker.produce(batch(&[&long])).unwrap();
    assert_eq!(appended.info.log_append_time_ms, NOW + 5);
    assert!(appended.must_flush);
    let partition = broker.partition();
    partition.flush_to(1).await.unwrap();
    let results = fetch(&PARAMS, &[read_at(&partition, 0)]).await;
    let bytes = results[0]
        .as_ref()
        .unwrap()
        .region
        .as_ref()
        .unwrap()
        .read()
        .unwrap();
    let stored = RecordBatch::parse(&bytes).unwrap();
    stored.verify_crc().unwrap();
    assert_eq!(stored.header().compression().name(), "gzip");
    assert_eq!(stored.header().max_timestamp, NOW + 5);
}

#[tokio::test]
async fn directories_are_described() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    broker.produce(batch(&["a"])).unwrap();
    let described = broker.replicas.describe_log_dirs();
    assert_eq!(described.len(), 1);
    assert_eq!(described[0].path, dir.path());
    assert!(described[0].total_bytes >= described[0].usable_bytes);
    assert_eq!(
        described[0].replicas[0].size_bytes,
        batch(&["a"]).len() as u64
    );
}

#[tokio::test]
async fn coordinators_append_control_batches_and_read_committed_waits_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: ProducerId(5),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        transactional: true,
        ..BatchOptions::default()
    });
    builder.append(NOW, None, Some(b"a"), []).unwrap();
    broker.produce(builder.build().unwrap().to_vec()).unwrap();
    let partition = broker.partition();
    let committed = FetchParams {
        isolation: FetchIsolation::TxnCommitted,
        ..PARAMS
    };
    let results = fetch(&committed, &[read_at(&partition, 0)]).await;
    let read = results[0].as_ref().unwrap();
    assert_eq!((read.records_bytes(), read.last_stable_offset), (0, 0));
    let marker = BatchBuilder::end_txn_marker(
        BatchOptions {
            producer_id: ProducerId(5),
            producer_epoch: ProducerEpoch(0),
            ..BatchOptions::default()
        },
        NOW,
        kavka_records::EndTxnMarker {
            control_type: kavka_records::ControlRecordType::Abort,
            coordinator_epoch: 1,
        },
    )
    .unwrap();
    partition
        .append(&marker, true, AppendOrigin::Coordinator, NOW)
        .unwrap();
    let results = fetch(&committed, &[read_at(&partition, 0)]).await;
    let read = results[0].as_ref().unwrap();
    assert_eq!(read.last_stable_offset, 2);
    let aborted = read.aborted.as_ref().unwrap();
    assert_eq!((aborted.len(), aborted[0].first_offset), (1, 0));
}

#[tokio::test]
async fn a_failed_directory_takes_its_partitions_offline() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with_topic(dir.path()).await;
    let partition = broker.partition();
    let waiting = {
        let replicas = Arc::clone(&broker.replicas);
        tokio::spawn(async move { replicas.all_dirs_failed().await })
    };
    let latch = broker.replicas.dirs().dirs[0].latch().clone();
    latch.fail(
        "write",
        dir.path(),
        &std::io::Error::other("the disk is gone"),
    );
    assert!(matches!(
        broker.produce(batch(&["a"])),
        Err(ReplicaError::Storage(_))
    ));
    broker.replicas.retire_failed_dirs();
    assert!(matches!(
        broker.replicas.partition("t", 0),
        Err(ReplicaError::Storage(_))
    ));
    let results = fetch(&PARAMS, &[read_at(&partition, 0)]).await;
    assert!(matches!(results[0], Err(ReplicaError::NotLeaderOrFollower)));
    waiting.await.unwrap();
}

#[tokio::test]
async fn many_new_partitions_are_made_side_by_side_and_all_serve() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(dir.path()).await;
    let mut records = topic("t", topic_id(7), &[1], &[1]);
    for partition_id in 1..50 {
        let MetadataRecord::Partition(mut record) = records[1].clone() else {
            unreachable!("a topic's second record is its first partition");
        };
        record.partition_id = partition_id;
        records.push(MetadataRecord::Partition(record));
    }
    broker.apply(&records).await;
    for partition_id in 0..50 {
        let partition = broker.replicas.partition("t", partition_id).unwrap();
        assert!(partition.is_leader());
    }
    broker.replicas.shutdown(None).await;
    drop(broker);
    let broker = Broker::start(dir.path()).await;
    assert!(broker.replicas.dirs().dirs[0].was_clean_shutdown());
    assert_eq!(broker.replicas.dirs().dirs[0].logs().len(), 50);
}
