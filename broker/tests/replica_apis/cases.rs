//! Requests about records, in the order in which they are sent.
//! Not here: the client that sends them (client.rs), where they are sent to (a test: our handlers; an example: Apache Kafka, to record its answers).
//! One thread. Kafka: KafkaApis.

use bytes::{Bytes, BytesMut};
use kavka_common::{ProducerEpoch, ProducerId, Uuid};
use kavka_protocol::messages::*;
use kavka_protocol::{AnyRequest, AnyResponse, Records};
use kavka_records::{BatchBuilder, BatchOptions, Compression, RecordBatch, patch_max_timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

// With its path, because an example takes this file in, too.
#[path = "client.rs"]
mod client;

pub use client::Client;

/// Timestamp of all records; the topics keep records for ever.
pub const THEN: i64 = 1_700_000_000_000;

/// Keys and values.
type Settings = &'static [(&'static str, &'static str)];

/// The topics that must be there, empty, with these settings.
pub const TOPICS: &[(&str, i32, Settings)] = &[
    ("plain", 1, &[("retention.ms", "-1")]),
    ("two", 2, &[("retention.ms", "-1")]),
    ("compacted", 1, &[("cleanup.policy", "compact")]),
    (
        "stamped",
        1,
        &[
            ("retention.ms", "-1"),
            ("message.timestamp.type", "LogAppendTime"),
        ],
    ),
    (
        "small",
        1,
        &[("retention.ms", "-1"), ("max.message.bytes", "150")],
    ),
    (
        "packed",
        1,
        &[("retention.ms", "-1"), ("compression.type", "gzip")],
    ),
];

/// Sends all cases; `answered` gets name, version and masked answer of each as it comes.
pub fn run(
    client: &mut Client,
    topic_ids: &BTreeMap<String, Uuid>,
    answered: &mut dyn FnMut(Value),
) {
    let mut context = Context {
        topic_ids,
        session_id: 0,
        answered,
        client,
    };
    produce_cases(&mut context);
    fetch_cases(&mut context);
    session_cases(&mut context);
    list_offsets_cases(&mut context);
    epoch_cases(&mut context);
    producer_cases(&mut context);
    delete_cases(&mut context);
}

struct Context<'a> {
    topic_ids: &'a BTreeMap<String, Uuid>,
    session_id: i32,
    answered: &'a mut dyn FnMut(Value),
    client: &'a mut Client,
}

impl Context<'_> {
    fn id(&self, topic: &str) -> Uuid {
        self.topic_ids
            .get(topic)
            .copied()
            .unwrap_or(Uuid::from_bytes([99; 16]))
    }

    fn case(&mut self, name: &str, version: i16, request: impl Into<AnyRequest>) {
        let request = request.into();
        let response = self.client.call_any(version, &request);
        if let AnyResponse::Fetch(fetch) = &response
            && fetch.session_id != 0
        {
            self.session_id = fetch.session_id;
        }
        let mut answer = response.to_json(version);
        self.mask(&mut answer);
        (self.answered)(
            json!({"case": name, "api": request.api_key().name(), "version": version, "answer": answer}),
        );
    }

    /// Puts words in the place of what differs from run to run: ids, times, sizes of disks, texts.
    fn mask(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let word = match key.as_str() {
                        "topicId" => self
                            .topic_ids
                            .iter()
                            .find(|(_, id)| value == &json!(id.to_string()))
                            .map(|(topic, _)| format!("id of {topic}")),
                        "sessionId" if value != &json!(0) => Some("session".into()),
                        "logAppendTimeMs" if value != &json!(-1) => Some("now".into()),
                        "producerId"
                            if value.as_i64().is_some_and(|id| (0..7777).contains(&id)) =>
                        {
                            Some("fresh".into())
                        }
                        "errorMessage" | "batchIndexErrorMessage" if !value.is_null() => {
                            Some("text".into())
                        }
                        "totalBytes" | "usableBytes" if value != &json!(-1) => Some("space".into()),
                        "logDir" => Some("dir".into()),
                        "records" => records_shown(value),
                        _ => None,
                    };
                    match word {
                        Some(word) => *value = json!(word),
                        None => self.mask(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(item)),
            _ => {}
        }
    }

    fn produce(&mut self, name: &str, version: i16, topic: &str, records: Option<Bytes>) {
        let request = self.produce_request(version, topic, 0, -1, records);
        self.case(name, version, AnyRequest::Produce(request));
    }

    fn produce_request(
        &self,
        version: i16,
        topic: &str,
        index: i32,
        acks: i16,
        records: Option<Bytes>,
    ) -> ProduceRequest {
        let mut request = produce_request(topic, records);
        request.acks = acks;
        let data = &mut request.topic_data[0];
        data.partition_data[0].index = index;
        if version >= 13 {
            data.topic_id = self.id(topic);
            data.name = "".into();
        }
        request
    }
}

/// For partition 0 of a topic, by name, with acks=all.
pub fn produce_request(topic: &str, records: Option<Bytes>) -> ProduceRequest {
    ProduceRequest {
        acks: -1,
        timeout_ms: 5000,
        topic_data: vec![produce_request::TopicProduceData {
            name: topic.into(),
            partition_data: vec![produce_request::PartitionProduceData {
                records: records.map(Records::Bytes),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Offsets, epochs and sizes of the batches, and their CRC where no clock went into it.
fn records_shown(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let bytes = base64_decode(text);
    let mut shown = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let Ok(batch) = RecordBatch::parse(rest) else {
            shown.push(format!("{} bytes of a batch", rest.len()));
            break;
        };
        batch.verify_crc().unwrap();
        let header = batch.header();
        let crc = match header.compression() {
            Compression::None if header.max_timestamp < THEN + 1_000_000 => header.crc.to_string(),
            _ => "any".into(),
        };
        shown.push(format!(
            "{}+{} epoch {} attributes {} crc {crc}",
            header.base_offset,
            header.last_offset_delta,
            header.partition_leader_epoch,
            header.attributes.0
        ));
        rest = &rest[batch.bytes().len()..];
    }
    Some(shown.join("; "))
}

fn base64_decode(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for c in text.bytes().filter(|c| *c != b'=') {
        bits = bits << 6 | ALPHABET.iter().position(|a| *a == c).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

fn batch_of(options: BatchOptions, keys: &[Option<&str>]) -> BytesMut {
    let mut builder = BatchBuilder::new(options);
    for (n, key) in (0i64..).zip(keys) {
        builder
            .append(THEN + n, key.map(str::as_bytes), Some(b"value"), [])
            .unwrap();
    }
    builder.build().unwrap()
}

pub fn good() -> Bytes {
    batch_of(BatchOptions::default(), &[Some("k")]).freeze()
}

fn compressed(compression: Compression) -> Bytes {
    let options = BatchOptions {
        compression,
        ..BatchOptions::default()
    };
    batch_of(options, &[Some("a"), Some("b"), Some("c")]).freeze()
}

fn sequenced(epoch: i16, base_sequence: i32) -> Bytes {
    let options = BatchOptions {
        producer_id: ProducerId(7777),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence,
        ..BatchOptions::default()
    };
    batch_of(options, &[Some("k")]).freeze()
}

/// A batch of two records with some bytes of its header replaced, and a CRC that fits.
fn patched(at: usize, bytes: &[u8]) -> Bytes {
    let mut batch = batch_of(BatchOptions::default(), &[Some("a"), Some("b")]);
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    patch_max_timestamp(&mut batch, THEN + 1);
    batch.freeze()
}

fn produce_cases(c: &mut Context<'_>) {
    for version in 3..=13 {
        c.produce("one record", version, "plain", Some(good()));
    }
    c.produce("unknown topic", 12, "absent", Some(good()));
    c.produce("unknown topic id", 13, "absent", Some(good()));
    for (name, index, acks) in [
        ("unknown partition", 5, 1),
        ("negative partition", -1, 1),
        ("acks 2", 0, 2),
        ("acks -2", 0, -2),
        ("acks 1", 0, 1),
    ] {
        let request = c.produce_request(12, "plain", index, acks, Some(good()));
        c.case(name, 12, AnyRequest::Produce(request));
    }
    let mut corrupt = BytesMut::from(&good()[..]);
    *corrupt.last_mut().unwrap() ^= 1;
    let mut old = BytesMut::from(&good()[..]);
    old[16] = 1;
    let mut long = BytesMut::from(&good()[..]);
    long[8..12].copy_from_slice(&1_000_000i32.to_be_bytes());
    let mut negative = BytesMut::from(&good()[..]);
    negative[8..12].copy_from_slice(&(-1i32).to_be_bytes());
    for (name, bytes) in [
        ("empty records", Some(Bytes::new())),
        (
            "two batches",
            Some([&good()[..], &good()[..]].concat().into()),
        ),
        ("a cut batch", Some(good().slice(..70))),
        ("less than a header", Some(good().slice(..20))),
        ("a length past the end", Some(long.freeze())),
        ("a flipped byte", Some(corrupt.freeze())),
        ("base offset 5", Some(patched(0, &5i64.to_be_bytes()))),
        ("control", Some(patched(21, &0x20i16.to_be_bytes()))),
        (
            "stamped by the client",
            Some(patched(21, &8i16.to_be_bytes())),
        ),
        ("no records", Some(patched(57, &0i32.to_be_bytes()))),
        (
            "fewer records than offsets",
            Some(patched(57, &1i32.to_be_bytes())),
        ),
        (
            "more offsets than records",
            Some(patched(23, &2i32.to_be_bytes())),
        ),
        (
            "a negative last offset delta",
            Some(patched(23, &(-1i32).to_be_bytes())),
        ),
        (
            "a producer without sequence",
            Some(patched(43, &9i64.to_be_bytes())),
        ),
        (
            "garbage that claims to be gzip",
            Some(patched(21, &1i16.to_be_bytes())),
        ),
        (
            "garbage that claims to be zstd",
            Some(patched(21, &4i16.to_be_bytes())),
        ),
    ] {
        c.produce(name, 12, "plain", bytes);
    }
    let mut more = batch_of(BatchOptions::default(), &[None, None]);
    more[23..27].copy_from_slice(&2i32.to_be_bytes());
    more[57..61].copy_from_slice(&3i32.to_be_bytes());
    patch_max_timestamp(&mut more, THEN + 1);
    c.produce(
        "one record fewer than declared",
        12,
        "plain",
        Some(more.freeze()),
    );
    c.produce("old magic", 12, "plain", Some(old.freeze()));
    c.produce("negative length", 12, "plain", Some(negative.freeze()));
    for compression in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        c.produce(
            compression.name(),
            12,
            "plain",
            Some(compressed(compression)),
        );
    }
    c.produce(
        "zstd before version 7",
        6,
        "plain",
        Some(compressed(Compression::Zstd)),
    );
    let two = batch_of(BatchOptions::default(), &[Some("k"), None, None]).freeze();
    c.produce(
        "no key in a compacted topic",
        12,
        "compacted",
        Some(two.clone()),
    );
    c.produce("no key, before record errors", 7, "compacted", Some(two));
    c.produce("a key in a compacted topic", 12, "compacted", Some(good()));
    let large = batch_of(BatchOptions::default(), &["k"; 20].map(Some)).freeze();
    c.produce("too large", 12, "small", Some(large));
    c.produce("append time", 12, "stamped", Some(good()));
    c.produce("packed by the broker", 12, "packed", Some(good()));
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(i64::MAX / 2, None, Some(b"x"), []).unwrap();
    c.produce(
        "from the far future",
        12,
        "plain",
        Some(builder.build().unwrap().freeze()),
    );
    for (name, epoch, sequence) in [
        ("first of a producer", 0, 0),
        ("next of a producer", 0, 1),
        ("the first again", 0, 0),
        ("a gap", 0, 5),
        ("next after the gap", 0, 2),
        ("a new epoch not from 0", 1, 3),
        ("a new epoch", 1, 0),
        ("the old epoch", 0, 3),
    ] {
        c.produce(name, 12, "two", Some(sequenced(epoch, sequence)));
    }
}

fn fetch_of(
    c: &Context<'_>,
    version: i16,
    topic: &str,
    change: impl Fn(&mut fetch_request::FetchPartition),
) -> FetchRequest {
    let mut partition = fetch_request::FetchPartition {
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    change(&mut partition);
    let mut topic_data = fetch_request::FetchTopic {
        partitions: vec![partition],
        ..Default::default()
    };
    if version >= 13 {
        topic_data.topic_id = c.id(topic);
    } else {
        topic_data.topic = topic.into();
    }
    FetchRequest {
        min_bytes: 1,
        topics: vec![topic_data],
        ..Default::default()
    }
}

fn fetch_cases(c: &mut Context<'_>) {
    type Change = fn(&mut fetch_request::FetchPartition);
    for version in 4..=18 {
        let request = fetch_of(c, version, "plain", |_| {});
        c.case("from the start", version, AnyRequest::Fetch(request));
    }
    let cases: &[(&str, &str, Change)] = &[
        ("unknown topic", "absent", |_| {}),
        ("unknown partition", "plain", |p| p.partition = 3),
        ("past the end", "plain", |p| p.fetch_offset = 1000),
        ("a negative offset", "plain", |p| p.fetch_offset = -5),
        ("at the end", "compacted", |p| p.fetch_offset = 1),
        ("inside a batch", "plain", |p| p.fetch_offset = 13),
        ("a later leader epoch", "plain", |p| {
            p.current_leader_epoch = 4
        }),
        ("the leader epoch", "plain", |p| p.current_leader_epoch = 0),
        ("a last epoch nobody knows", "plain", |p| {
            p.last_fetched_epoch = 3
        }),
        ("a last epoch that ended earlier", "plain", |p| {
            p.last_fetched_epoch = 0;
            p.fetch_offset = 1000;
        }),
        ("the last epoch", "plain", |p| p.last_fetched_epoch = 0),
        ("one byte gives one batch", "plain", |p| {
            p.partition_max_bytes = 1
        }),
        ("no bytes", "plain", |p| p.partition_max_bytes = 0),
        ("stamped", "stamped", |_| {}),
        ("packed", "packed", |_| {}),
        ("idempotent", "two", |_| {}),
    ];
    for (name, topic, change) in cases {
        for version in [12, 17] {
            let request = fetch_of(c, version, topic, change);
            c.case(name, version, AnyRequest::Fetch(request));
        }
    }
    let committed = FetchRequest {
        isolation_level: 1,
        ..fetch_of(c, 12, "compacted", |_| {})
    };
    c.case("read committed", 12, AnyRequest::Fetch(committed.clone()));
    let mut at_end = committed;
    at_end.topics[0].partitions[0].fetch_offset = 1;
    c.case("read committed at the end", 12, AnyRequest::Fetch(at_end));
    let mut several = fetch_of(c, 12, "plain", |p| p.fetch_offset = 10);
    several
        .topics
        .extend(fetch_of(c, 12, "stamped", |_| {}).topics);
    several
        .topics
        .extend(fetch_of(c, 12, "absent", |_| {}).topics);
    several.max_bytes = 10;
    c.case("a budget for one", 12, AnyRequest::Fetch(several.clone()));
    several.max_bytes = 0;
    c.case("a budget of nothing", 12, AnyRequest::Fetch(several));
    c.case("nothing", 12, AnyRequest::Fetch(FetchRequest::default()));
    let replica = FetchRequest {
        replica_id: 5,
        ..fetch_of(c, 12, "plain", |_| {})
    };
    c.case("a replica that is none", 12, AnyRequest::Fetch(replica));
}

fn session_cases(c: &mut Context<'_>) {
    let with = |c: &Context<'_>, epoch, request: FetchRequest| FetchRequest {
        session_id: c.session_id,
        session_epoch: epoch,
        ..request
    };
    let none = || FetchRequest {
        min_bytes: 0,
        ..Default::default()
    };
    c.session_id = 0;
    let mut opening = fetch_of(c, 12, "plain", |p| p.fetch_offset = 14);
    opening
        .topics
        .extend(fetch_of(c, 12, "compacted", |_| {}).topics);
    opening
        .topics
        .extend(fetch_of(c, 12, "absent", |_| {}).topics);
    let request = with(c, 0, opening);
    c.case("session: open", 12, AnyRequest::Fetch(request));
    let request = with(c, 1, fetch_of(c, 12, "compacted", |p| p.fetch_offset = 1));
    c.case("session: move one", 12, AnyRequest::Fetch(request));
    let request = with(c, 2, none());
    c.case(
        "session: nothing new but errors",
        12,
        AnyRequest::Fetch(request),
    );
    c.produce("session: produce", 12, "compacted", Some(good()));
    let mut forget = with(c, 3, none());
    forget.forgotten_topics_data = vec![fetch_request::ForgottenTopic {
        topic: "absent".into(),
        partitions: vec![0],
        ..Default::default()
    }];
    c.case(
        "session: new data, one forgotten",
        12,
        AnyRequest::Fetch(forget),
    );
    let request = with(c, 9, none());
    c.case("session: a wrong epoch", 12, AnyRequest::Fetch(request));
    let request = with(c, 4, none());
    c.case("session: ids for names", 13, AnyRequest::Fetch(request));
    let request = FetchRequest {
        session_id: 1,
        session_epoch: 1,
        ..none()
    };
    c.case("session: unknown", 12, AnyRequest::Fetch(request));
    let request = with(c, -1, fetch_of(c, 12, "plain", |p| p.fetch_offset = 14));
    c.case("session: close", 12, AnyRequest::Fetch(request));
    let request = with(c, 4, none());
    c.case("session: closed", 12, AnyRequest::Fetch(request));
}

fn list_of(topic: &str, timestamp: i64) -> ListOffsetsRequest {
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![list_offsets_request::ListOffsetsTopic {
            name: topic.into(),
            partitions: vec![list_offsets_request::ListOffsetsPartition {
                timestamp,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn list_offsets_cases(c: &mut Context<'_>) {
    for version in 1..=11 {
        for timestamp in [-1, -2, -3, -4, -5, -6, -7, 0, THEN, THEN + 1, THEN + 1000] {
            let name = format!("timestamp {timestamp}");
            c.case(
                &name,
                version,
                AnyRequest::ListOffsets(list_of("plain", timestamp)),
            );
        }
    }
    let mut request = list_of("plain", -1);
    request.isolation_level = 1;
    c.case("read committed", 7, AnyRequest::ListOffsets(request));
    c.case(
        "unknown topic",
        7,
        AnyRequest::ListOffsets(list_of("absent", -1)),
    );
    c.case(
        "no records, latest",
        7,
        AnyRequest::ListOffsets(list_of("small", -1)),
    );
    c.case(
        "no records, by time",
        7,
        AnyRequest::ListOffsets(list_of("small", 0)),
    );
    c.case(
        "no records, greatest time",
        7,
        AnyRequest::ListOffsets(list_of("small", -3)),
    );
    let mut request = list_of("plain", -1);
    request.topics[0].partitions[0].current_leader_epoch = 7;
    c.case("a later leader epoch", 7, AnyRequest::ListOffsets(request));
    let mut request = list_of("plain", -1);
    let again = request.topics[0].partitions[0].clone();
    request.topics[0].partitions.push(again);
    c.case("a partition twice", 7, AnyRequest::ListOffsets(request));
    for replica_id in [-2, 5] {
        let mut request = list_of("plain", -1);
        request.replica_id = replica_id;
        c.case(
            &format!("replica {replica_id}"),
            7,
            AnyRequest::ListOffsets(request),
        );
    }
}

fn epoch_cases(c: &mut Context<'_>) {
    for version in 2..=4 {
        for (topic, leader_epoch, current) in [
            ("plain", 0, -1),
            ("plain", 0, 0),
            ("plain", 3, -1),
            ("plain", -1, -1),
            ("plain", 0, 2),
            ("small", 0, -1),
            ("absent", 0, -1),
        ] {
            let request = OffsetForLeaderEpochRequest {
                replica_id: -1,
                topics: vec![offset_for_leader_epoch_request::OffsetForLeaderTopic {
                    topic: topic.into(),
                    partitions: vec![offset_for_leader_epoch_request::OffsetForLeaderPartition {
                        current_leader_epoch: current,
                        leader_epoch,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let name = format!("epoch {leader_epoch} of {topic}, current {current}");
            c.case(&name, version, AnyRequest::OffsetForLeaderEpoch(request));
        }
    }
}

fn producer_cases(c: &mut Context<'_>) {
    let request = DescribeProducersRequest {
        topics: ["two", "small", "absent"]
            .map(|topic| describe_producers_request::TopicRequest {
                name: topic.into(),
                partition_indexes: vec![0, 1],
                ..Default::default()
            })
            .into(),
        ..Default::default()
    };
    c.case("producers", 0, AnyRequest::DescribeProducers(request));
    for version in 1..=5 {
        let request = DescribeLogDirsRequest {
            topics: Some(vec![describe_log_dirs_request::DescribableLogDirTopic {
                topic: "two".into(),
                partitions: vec![0, 1, 9],
                ..Default::default()
            }]),
            ..Default::default()
        };
        c.case("one topic", version, AnyRequest::DescribeLogDirs(request));
    }
    for version in 0..=5 {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        c.case(
            "idempotent",
            version,
            AnyRequest::InitProducerId(request.clone()),
        );
        let empty = InitProducerIdRequest {
            transactional_id: Some("".into()),
            ..request.clone()
        };
        c.case(
            "an empty transactional id",
            version,
            AnyRequest::InitProducerId(empty),
        );
        if version >= 3 {
            let again = InitProducerIdRequest {
                producer_id: 7777,
                producer_epoch: 0,
                ..request.clone()
            };
            c.case("again", version, AnyRequest::InitProducerId(again));
            let half = InitProducerIdRequest {
                producer_id: 7777,
                ..request
            };
            c.case(
                "an id without epoch",
                version,
                AnyRequest::InitProducerId(half),
            );
        }
    }
}

fn delete_cases(c: &mut Context<'_>) {
    for version in 0..=2 {
        for (topic, offset) in [
            ("plain", 1),
            ("plain", 1000),
            ("plain", -2),
            ("plain", 1),
            ("compacted", 1),
            ("absent", 1),
            ("__consumer_offsets", 1),
            ("stamped", -1),
        ] {
            let request = DeleteRecordsRequest {
                timeout_ms: 5000,
                topics: vec![delete_records_request::DeleteRecordsTopic {
                    name: topic.into(),
                    partitions: vec![delete_records_request::DeleteRecordsPartition {
                        offset,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            c.case(
                &format!("{topic} to {offset}"),
                version,
                AnyRequest::DeleteRecords(request),
            );
        }
    }
    let request = fetch_of(c, 12, "plain", |_| {});
    c.case("below the log start", 12, AnyRequest::Fetch(request));
    let request = fetch_of(c, 12, "plain", |p| p.fetch_offset = 13);
    c.case("above the log start", 12, AnyRequest::Fetch(request));
    c.case(
        "the log start",
        7,
        AnyRequest::ListOffsets(list_of("plain", -2)),
    );
    c.produce("after the deletion", 12, "stamped", Some(good()));
}
