//! Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers, DescribeLogDirs, InitProducerId.
//! Not here: topics' life (admin).
//! Part of the duel. Each version of Produce leaves the same records on both sides. Kafka: the answers of 4.3.1.

use crate::Duel;
use crate::side::{self, Side};
use bytes::{Bytes, BytesMut};
use kavka_common::{ProducerEpoch, ProducerId, Uuid};
use kavka_protocol::Records;
use kavka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kavka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kavka_protocol::messages::describe_producers_request::TopicRequest;
use kavka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kavka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kavka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kavka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kavka_protocol::messages::{
    DeleteRecordsRequest, DescribeLogDirsRequest, DescribeProducersRequest, FetchRequest,
    InitProducerIdRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest,
};
use kavka_records::{BatchBuilder, BatchOptions, Compression};
use serde_json::Value;
use std::time::Duration;

/// Of all records: fixed, so that both logs are the same to the byte.
const TIMESTAMP_MS: i64 = 1_700_000_000_000;

pub async fn run(duel: &mut Duel) {
    produce(duel).await;
    idempotent(duel).await;
    fetch(duel).await;
    offsets(duel).await;
    deleting(duel).await;
    describing(duel).await;
}

fn batch(options: BatchOptions, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for (i, value) in (0..).zip(values) {
        builder
            .append(TIMESTAMP_MS + i, Some(b"key"), Some(value.as_bytes()), [])
            .expect("a small record fits");
    }
    builder.build().expect("a small batch").freeze()
}

fn plain(values: &[&str]) -> Bytes {
    batch(BatchOptions::default(), values)
}

fn damaged(change: impl Fn(&mut BytesMut)) -> Bytes {
    let mut bytes = BytesMut::from(&plain(&["one", "two"])[..]);
    change(&mut bytes);
    bytes.freeze()
}

fn produce_request(
    version: i16,
    side: &Side,
    topic: &str,
    partition: i32,
    acks: i16,
    records: Option<Bytes>,
) -> ProduceRequest {
    let by_id = version >= 13;
    ProduceRequest {
        acks,
        timeout_ms: 5_000,
        topic_data: vec![TopicProduceData {
            name: if by_id { "".into() } else { topic.into() },
            topic_id: if by_id {
                side.topic_ids
                    .get(topic)
                    .copied()
                    .unwrap_or(Uuid::from_bytes([9; 16]))
            } else {
                Uuid::ZERO
            },
            partition_data: vec![PartitionProduceData {
                index: partition,
                records: records.map(Records::from),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn produce(duel: &mut Duel) {
    for acks in [1, -1] {
        duel.each_version(&format!("acks {acks}"), |version, side| {
            Some(produce_request(
                version,
                side,
                "d1",
                0,
                acks,
                Some(plain(&["a", "b"])),
            ))
        })
        .await;
    }
    for compression in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        duel.each_version(&format!("{compression:?}"), |version, side| {
            let options = BatchOptions {
                compression,
                ..Default::default()
            };
            let records = batch(options, &["compressed", "compressed too"]);
            Some(produce_request(version, side, "d1", 1, -1, Some(records)))
        })
        .await;
    }
    let two_batches = {
        let mut both = BytesMut::from(&plain(&["x"])[..]);
        both.extend_from_slice(&plain(&["y"]));
        both.freeze()
    };
    let keyless_time = batch(
        BatchOptions {
            log_append_time_ms: Some(TIMESTAMP_MS),
            ..Default::default()
        },
        &["stamped"],
    );
    let control = batch(
        BatchOptions {
            control: true,
            producer_id: ProducerId(1),
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            ..Default::default()
        },
        &["x"],
    );
    let bad: Vec<(&str, &str, i32, i16, Option<Bytes>)> = vec![
        ("unknown topic", "nowhere", 0, 1, Some(plain(&["a"]))),
        ("unknown partition", "d1", 77, 1, Some(plain(&["a"]))),
        ("negative partition", "d1", -1, 1, Some(plain(&["a"]))),
        ("illegal acks", "d1", 0, 7, Some(plain(&["a"]))),
        ("no records", "d1", 0, 1, None),
        ("empty records", "d1", 0, 1, Some(Bytes::new())),
        ("two batches", "d1", 0, 1, Some(two_batches)),
        (
            "log append time from a client",
            "d1",
            0,
            1,
            Some(keyless_time),
        ),
        ("control batch from a client", "d1", 0, 1, Some(control)),
        (
            "wrong checksum",
            "d1",
            0,
            1,
            Some(damaged(|b| b[70] ^= 0xff)),
        ),
        ("wrong magic", "d1", 0, 1, Some(damaged(|b| b[16] = 9))),
        ("magic 1", "d1", 0, 1, Some(damaged(|b| b[16] = 1))),
        (
            "length too long",
            "d1",
            0,
            1,
            Some(damaged(|b| b[11] = 0xff)),
        ),
        (
            "length too short",
            "d1",
            0,
            1,
            Some(damaged(|b| b[11] = 10)),
        ),
        (
            "negative length",
            "d1",
            0,
            1,
            Some(damaged(|b| b[8] = 0xff)),
        ),
        (
            "cut off",
            "d1",
            0,
            1,
            Some(plain(&["one", "two"]).slice(..60)),
        ),
        ("count too high", "d1", 0, 1, Some(resealed(|b| b[60] = 3))),
        ("count too low", "d1", 0, 1, Some(resealed(|b| b[60] = 1))),
        (
            "count negative",
            "d1",
            0,
            1,
            Some(resealed(|b| b[57] = 0xff)),
        ),
        (
            "last offset delta wrong",
            "d1",
            0,
            1,
            Some(resealed(|b| b[26] = 9)),
        ),
        ("unknown codec", "d1", 0, 1, Some(resealed(|b| b[22] = 7))),
        (
            "payload is not gzip",
            "d1",
            0,
            1,
            Some(resealed(|b| b[22] = 1)),
        ),
        (
            "base offset not zero",
            "d2",
            0,
            1,
            Some(damaged(|b| b[7] = 5)),
        ),
        (
            "producer without sequence",
            "d1",
            0,
            1,
            Some(resealed(|b| b[50] = 5)),
        ),
        (
            "record length wrong",
            "d1",
            0,
            1,
            Some(resealed(|b| b[61] = 0x7e)),
        ),
    ];
    duel.patience(Duration::from_millis(1_500));
    for (what, topic, partition, acks, records) in bad {
        duel.each_version(what, |version, side| {
            Some(produce_request(
                version,
                side,
                topic,
                partition,
                acks,
                records.clone(),
            ))
        })
        .await;
    }
    duel.patience(side::PATIENCE);
    duel.each_version("a batch over the limit", |version, side| {
        let big = "x".repeat(1_100_000);
        Some(produce_request(
            version,
            side,
            "d1",
            0,
            1,
            Some(plain(&[&big])),
        ))
    })
    .await;
    duel.each_version("two partitions, one of them bad", |version, side| {
        let mut request = produce_request(version, side, "d1", 0, -1, Some(plain(&["a"])));
        let other = produce_request(version, side, "d1", 66, -1, Some(plain(&["a"])));
        request.topic_data[0]
            .partition_data
            .extend(other.topic_data[0].partition_data.clone());
        Some(request)
    })
    .await;
    duel.each_version("transactional id without a transaction", |version, side| {
        let mut request = produce_request(version, side, "d1", 0, -1, Some(plain(&["a"])));
        request.transactional_id = Some("t".into());
        Some(request)
    })
    .await;
    duel.each_version("transactional batch without an id", |version, side| {
        let batch = resealed(|bytes| bytes[ATTRIBUTES_AT + 1] |= TRANSACTIONAL);
        Some(produce_request(version, side, "d1", 0, -1, Some(batch)))
    })
    .await;
}

/// Of a batch (org.apache.kafka.common.record.DefaultRecordBatch).
const ATTRIBUTES_AT: usize = 21;
const TRANSACTIONAL: u8 = 0x10;

/// A change of the batch with the checksum made right again.
fn resealed(change: impl Fn(&mut BytesMut)) -> Bytes {
    let mut bytes = BytesMut::from(&plain(&["one", "two"])[..]);
    change(&mut bytes);
    kavka_records::patch_crc(&mut bytes);
    bytes.freeze()
}

async fn idempotent(duel: &mut Duel) {
    duel.each_version("idempotent producer", |_, _| {
        Some(InitProducerIdRequest {
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        })
    })
    .await;
    duel.each_version("empty transactional id", |_, _| {
        Some(InitProducerIdRequest {
            transactional_id: Some("".into()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        })
    })
    .await;
    let Some((theirs, ours)) = duel
        .one("a producer for the sequences", 4, |_, _| {
            Some(InitProducerIdRequest {
                transaction_timeout_ms: 60_000,
                ..Default::default()
            })
        })
        .await
    else {
        return;
    };
    duel.theirs
        .notes
        .insert("pid".into(), Value::from(theirs.producer_id));
    duel.ours
        .notes
        .insert("pid".into(), Value::from(ours.producer_id));
    for (what, sequence, epoch) in [
        ("first sequence", 0, 0),
        ("next sequence", 2, 0),
        ("retry of the first", 0, 0),
        ("retry of the second", 2, 0),
        ("gap", 9, 0),
        ("a newer epoch must begin at 0", 5, 1),
        ("a newer epoch", 0, 1),
        ("an older epoch", 4, 0),
        ("part of an old batch", 1, 1),
    ] {
        duel.one(what, 12, |version, side| {
            let options = BatchOptions {
                producer_id: ProducerId(side.number("pid")),
                producer_epoch: ProducerEpoch(epoch),
                base_sequence: sequence,
                ..Default::default()
            };
            let records = batch(options, &["i", "j"]);
            Some(produce_request(version, side, "d2", 0, -1, Some(records)))
        })
        .await;
    }
    duel.one("a producer nobody knows", 12, |version, side| {
        let options = BatchOptions {
            producer_id: ProducerId(987_654),
            producer_epoch: ProducerEpoch(3),
            base_sequence: 11,
            ..Default::default()
        };
        Some(produce_request(
            version,
            side,
            "d2",
            0,
            -1,
            Some(batch(options, &["u"])),
        ))
    })
    .await;
    duel.each_version("producers", |_, _| {
        let topic = |name: &str, partitions: Vec<i32>| TopicRequest {
            name: name.into(),
            partition_indexes: partitions,
            ..Default::default()
        };
        Some(DescribeProducersRequest {
            topics: vec![
                topic("d2", vec![0, 9]),
                topic("nowhere", vec![0]),
                topic("a b", vec![0]),
            ],
            ..Default::default()
        })
    })
    .await;
}

fn fetch_request(
    version: i16,
    side: &Side,
    topic: &str,
    partition: FetchPartition,
) -> FetchRequest {
    let by_id = version >= 13;
    FetchRequest {
        max_wait_ms: 100,
        min_bytes: 1,
        topics: vec![FetchTopic {
            topic: if by_id { "".into() } else { topic.into() },
            topic_id: if by_id {
                side.topic_ids
                    .get(topic)
                    .copied()
                    .unwrap_or(Uuid::from_bytes([9; 16]))
            } else {
                Uuid::ZERO
            },
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn from_offset(partition: i32, fetch_offset: i64) -> FetchPartition {
    FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 1_000_000,
        ..Default::default()
    }
}

async fn fetch(duel: &mut Duel) {
    for (what, topic, partition) in [
        ("from the start", "d1", from_offset(0, 0)),
        ("inside a batch", "d1", from_offset(0, 1)),
        ("compressed", "d1", from_offset(1, 0)),
        ("at the end", "d1", from_offset(2, 0)),
        ("beyond the end", "d1", from_offset(0, 99_999)),
        ("negative offset", "d1", from_offset(0, -5)),
        ("unknown topic", "nowhere", from_offset(0, 0)),
        ("unknown partition", "d1", from_offset(55, 0)),
        (
            "one byte",
            "d1",
            FetchPartition {
                partition_max_bytes: 1,
                ..from_offset(0, 0)
            },
        ),
    ] {
        duel.each_version(what, |version, side| {
            Some(fetch_request(version, side, topic, partition.clone()))
        })
        .await;
    }
    for (what, epoch) in [
        ("known epoch", 0),
        ("fenced epoch", -2),
        ("future epoch", 9),
    ] {
        duel.each_version(what, |version, side| {
            (version >= 9).then(|| {
                let partition = FetchPartition {
                    current_leader_epoch: epoch,
                    ..from_offset(0, 0)
                };
                fetch_request(version, side, "d1", partition)
            })
        })
        .await;
    }
    duel.each_version("read_committed", |version, side| {
        let mut request = fetch_request(version, side, "d2", from_offset(0, 0));
        request.isolation_level = 1;
        Some(request)
    })
    .await;
    duel.each_version("last fetched epoch", |version, side| {
        (version >= 12).then(|| {
            let partition = FetchPartition {
                last_fetched_epoch: 5,
                ..from_offset(0, 0)
            };
            fetch_request(version, side, "d1", partition)
        })
    })
    .await;
    duel.each_version("two topics, less than they hold", |version, side| {
        let mut request = fetch_request(version, side, "d1", from_offset(0, 0));
        let other = fetch_request(version, side, "d2", from_offset(0, 0));
        request.topics.extend(other.topics);
        request.max_bytes = 500;
        Some(request)
    })
    .await;
    sessions(duel).await;
}

async fn sessions(duel: &mut Duel) {
    for version in [7, 12, 13, 18] {
        let opened = duel
            .one("session: open", version, |version, side| {
                let mut request = fetch_request(version, side, "d1", from_offset(0, 0));
                request.session_epoch = 0;
                Some(request)
            })
            .await;
        let Some((theirs, ours)) = opened else {
            continue;
        };
        duel.theirs
            .notes
            .insert("session".into(), Value::from(theirs.session_id));
        duel.ours
            .notes
            .insert("session".into(), Value::from(ours.session_id));
        let step = |epoch: i32, change: fn(&mut FetchRequest)| {
            move |version: i16, side: &Side| {
                let mut request = fetch_request(version, side, "d1", from_offset(2, 0));
                request.session_id = i32::try_from(side.number("session")).unwrap_or(0);
                request.session_epoch = epoch;
                change(&mut request);
                Some(request)
            }
        };
        duel.one(
            "session: nothing new",
            version,
            step(1, |r| r.topics.clear()),
        )
        .await;
        duel.one("session: another partition", version, step(2, |_| {}))
            .await;
        duel.one(
            "session: forget",
            version,
            step(3, |r| {
                let topic = r.topics.remove(0);
                r.forgotten_topics_data = vec![ForgottenTopic {
                    topic: topic.topic,
                    topic_id: topic.topic_id,
                    partitions: vec![0],
                    ..Default::default()
                }];
            }),
        )
        .await;
        duel.one(
            "session: wrong epoch",
            version,
            step(9, |r| r.topics.clear()),
        )
        .await;
        duel.one("session: close", version, step(-1, |r| r.topics.clear()))
            .await;
        duel.one("session: gone", version, step(4, |r| r.topics.clear()))
            .await;
    }
}

async fn offsets(duel: &mut Duel) {
    for (what, topic, partition, timestamp) in [
        ("latest", "d1", 0, -1),
        ("earliest", "d1", 0, -2),
        ("max timestamp", "d1", 0, -3),
        ("earliest local", "d1", 0, -4),
        ("latest tiered", "d1", 0, -5),
        ("earliest pending upload", "d1", 0, -6),
        ("unknown special", "d1", 0, -9),
        ("by time", "d1", 0, TIMESTAMP_MS + 1),
        ("by an early time", "d1", 0, 5),
        ("by a late time", "d1", 0, TIMESTAMP_MS + 1_000_000),
        ("latest of an empty log", "d1", 2, -1),
        ("max timestamp of an empty log", "d1", 2, -3),
        ("by time in compressed batches", "d1", 1, TIMESTAMP_MS + 1),
        ("unknown topic", "nowhere", 0, -1),
        ("unknown partition", "d1", 66, -1),
    ] {
        for isolation_level in [0, 1] {
            duel.each_version(
                &format!("{what}, isolation {isolation_level}"),
                |version, _| {
                    (version >= 2 || isolation_level == 0).then(|| ListOffsetsRequest {
                        replica_id: -1,
                        isolation_level,
                        topics: vec![ListOffsetsTopic {
                            name: topic.into(),
                            partitions: vec![ListOffsetsPartition {
                                partition_index: partition,
                                timestamp,
                                ..Default::default()
                            }],
                            ..Default::default()
                        }],
                        ..Default::default()
                    })
                },
            )
            .await;
        }
    }
    for current_leader_epoch in [0, 7, -2] {
        duel.each_version(
            &format!("leader epoch {current_leader_epoch}"),
            |version, _| {
                (version >= 4).then(|| ListOffsetsRequest {
                    replica_id: -1,
                    topics: vec![ListOffsetsTopic {
                        name: "d1".into(),
                        partitions: vec![ListOffsetsPartition {
                            current_leader_epoch,
                            timestamp: -1,
                            ..Default::default()
                        }],
                        ..Default::default()
                    }],
                    ..Default::default()
                })
            },
        )
        .await;
    }
    duel.each_version("one partition twice", |_, _| {
        let latest = ListOffsetsPartition {
            timestamp: -1,
            ..Default::default()
        };
        Some(ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: "d1".into(),
                partitions: vec![latest.clone(), latest],
                ..Default::default()
            }],
            ..Default::default()
        })
    })
    .await;
    for (what, topic, partition, current, asked) in [
        ("epoch 0", "d1", 0, -1, 0),
        ("current epoch given", "d1", 0, 0, 0),
        ("future epoch", "d1", 0, -1, 7),
        ("epoch of the future", "d1", 0, 7, 0),
        ("fenced", "d1", 0, -2, 0),
        ("undefined epoch", "d1", 0, -1, -1),
        ("unknown topic", "nowhere", 0, -1, 0),
        ("unknown partition", "d1", 44, -1, 0),
    ] {
        duel.each_version(what, |_, _| {
            Some(OffsetForLeaderEpochRequest {
                replica_id: -2,
                topics: vec![OffsetForLeaderTopic {
                    topic: topic.into(),
                    partitions: vec![OffsetForLeaderPartition {
                        partition,
                        current_leader_epoch: current,
                        leader_epoch: asked,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            })
        })
        .await;
    }
}

async fn deleting(duel: &mut Duel) {
    for (what, topic, partition, offset) in [
        ("up to 3", "d1", 1, 3),
        ("below what is gone", "d1", 1, 1),
        ("beyond the end", "d1", 1, 99_999),
        ("negative", "d1", 1, -7),
        ("to the high watermark", "d1", 1, -1),
        ("unknown topic", "nowhere", 0, 0),
        ("unknown partition", "d1", 44, 0),
        ("internal topic", "__consumer_offsets", 0, 0),
    ] {
        duel.each_version(what, |_, _| {
            Some(DeleteRecordsRequest {
                topics: vec![DeleteRecordsTopic {
                    name: topic.into(),
                    partitions: vec![DeleteRecordsPartition {
                        partition_index: partition,
                        offset,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                timeout_ms: 5_000,
                ..Default::default()
            })
        })
        .await;
    }
    duel.each_version("below the log start", |version, side| {
        Some(fetch_request(version, side, "d1", from_offset(1, 0)))
    })
    .await;
}

async fn describing(duel: &mut Duel) {
    for (what, topics) in [
        ("one topic", Some(("d1", vec![0, 2]))),
        ("missing topic", Some(("nowhere", vec![0]))),
    ] {
        duel.each_version(what, |_, _| {
            Some(DescribeLogDirsRequest {
                topics: topics.as_ref().map(|(name, partitions)| {
                    vec![DescribableLogDirTopic {
                        topic: (*name).into(),
                        partitions: partitions.clone(),
                        ..Default::default()
                    }]
                }),
                ..Default::default()
            })
        })
        .await;
    }
}
