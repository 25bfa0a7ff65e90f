//! Batches that Kafka's own classes wrote (golden/Golden.java): we read the same records and write the same bytes.
//! Not here: batches in whole produce requests (crates/protocol has those goldens).
//! Pure. Kafka: MemoryRecordsBuilder.

use bytes::Bytes;
use kavka_common::{LeaderEpoch, ProducerEpoch, ProducerId};
use kavka_records::{
    BatchBuilder, BatchOptions, Compression, ControlRecordType, EndTxnMarker, Header, HeaderRef,
    Record, RecordBatch, TimestampType,
};

const NOW: i64 = 1_700_000_000_000;

struct Golden {
    name: &'static str,
    bytes: Vec<u8>,
    records: Vec<Record>,
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap())
        .collect()
}

fn nullable(text: &str) -> Option<Bytes> {
    (text != "-").then(|| Bytes::from(unhex(text)))
}

fn goldens() -> Vec<Golden> {
    let record = |text: &str| {
        let fields: Vec<&str> = text.split(',').collect();
        Record {
            offset: fields[0].parse().unwrap(),
            timestamp: fields[1].parse().unwrap(),
            key: nullable(fields[2]),
            value: nullable(fields[3]),
            headers: fields[4]
                .split(';')
                .filter(|h| !h.is_empty())
                .map(|h| {
                    let (key, value) = h.split_once('=').unwrap();
                    Header {
                        key: unhex(key).into(),
                        value: nullable(value),
                    }
                })
                .collect(),
        }
    };
    include_str!("golden/batches.tsv")
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&'static str> = line.split('\t').collect();
            Golden {
                name: fields[0],
                bytes: unhex(fields[1]),
                records: fields[2].split(' ').map(record).collect(),
            }
        })
        .collect()
}

#[test]
fn reads_what_java_wrote() {
    let goldens = goldens();
    assert_eq!(goldens.len(), 12);
    for golden in goldens {
        let batch = RecordBatch::parse(&golden.bytes).unwrap();
        assert_eq!(batch.bytes().len(), golden.bytes.len(), "{}", golden.name);
        batch.verify_crc().unwrap();
        let records: Vec<Record> = batch
            .records(1 << 20)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(records, golden.records, "{}", golden.name);
        let header = batch.header();
        assert_eq!(header.producer_id, ProducerId(77));
        assert_eq!(header.producer_epoch, ProducerEpoch(3));
        if golden.name.starts_with("marker") {
            assert!(header.is_control());
            assert!(header.is_transactional());
            continue;
        }
        // 43 records on from 2147483640: the numbers wrap
        assert_eq!(header.last_sequence(), 34, "{}", golden.name);
        assert_eq!(
            golden.name.split('-').next().unwrap(),
            header.compression().name()
        );
        assert_eq!(
            header.is_transactional(),
            header.timestamp_type() == TimestampType::CreateTime
        );
        assert_eq!(header.next_offset(), 1043);
    }
}

#[test]
fn writes_what_java_wrote() {
    for golden in goldens() {
        let theirs = RecordBatch::parse(&golden.bytes).unwrap();
        let log_append = theirs.header().timestamp_type() == TimestampType::LogAppendTime;
        let options = BatchOptions {
            base_offset: 1000,
            partition_leader_epoch: LeaderEpoch(9),
            compression: theirs.header().compression(),
            producer_id: ProducerId(77),
            producer_epoch: ProducerEpoch(3),
            base_sequence: 2_147_483_640,
            transactional: !log_append,
            log_append_time_ms: log_append.then_some(NOW + 1234),
            ..BatchOptions::default()
        };
        let ours = if let Some(kind) = golden.name.strip_prefix("marker-") {
            let marker = EndTxnMarker {
                control_type: if kind == "abort" {
                    ControlRecordType::Abort
                } else {
                    ControlRecordType::Commit
                },
                coordinator_epoch: 12,
            };
            let options = BatchOptions {
                base_offset: 50,
                partition_leader_epoch: LeaderEpoch(4),
                base_sequence: -1,
                ..options
            };
            BatchBuilder::end_txn_marker(options, NOW, marker).unwrap()
        } else {
            let mut builder = BatchBuilder::new(options);
            let create_time = goldens().swap_remove(0).records;
            for (record, created) in golden.records.iter().zip(&create_time) {
                let headers = record.headers.iter().map(|h| HeaderRef {
                    key: &h.key,
                    value: h.value.as_deref(),
                });
                builder
                    .append(
                        created.timestamp,
                        record.key.as_deref(),
                        record.value.as_deref(),
                        headers,
                    )
                    .unwrap();
            }
            builder.build().unwrap()
        };
        if theirs.header().compression() == Compression::None {
            assert_eq!(&ours[..], &golden.bytes[..], "{}", golden.name);
        } else {
            // codecs differ in their output; the decoded records must not
            let ours = RecordBatch::parse(&ours).unwrap();
            assert_eq!(
                ours.payload(1 << 20).unwrap().bytes(),
                theirs.payload(1 << 20).unwrap().bytes(),
                "{}",
                golden.name
            );
        }
    }
}
