use super::*;
use crate::builder::{BatchBuilder, BatchOptions};
use crate::header::patch_crc;
use crate::record::HeaderRef;
use kavka_common::{ProducerEpoch, ProducerId};
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000_000;

fn tp() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn rules(topic_partition: &TopicPartition) -> ProduceRules<'_> {
    ProduceRules {
        topic_partition,
        compression: TopicCompression::Producer,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        compact: false,
        max_message_bytes: 1_048_588,
        now_ms: NOW,
    }
}

fn batch(options: BatchOptions, keys: &[Option<&str>]) -> BytesMut {
    let mut builder = BatchBuilder::new(options);
    for (n, key) in (0i64..).zip(keys) {
        let header = HeaderRef {
            key: b"h",
            value: None,
        };
        builder
            .append(
                NOW + n,
                key.map(str::as_bytes),
                Some(b"value"),
                [header, header],
            )
            .unwrap();
    }
    builder.build().unwrap()
}

fn kind(bytes: &[u8], rules: &ProduceRules<'_>) -> InvalidBatchKind {
    validate_produce(bytes, rules).unwrap_err().kind
}

#[test]
fn good_batches_of_every_compression_stay_as_they_are() {
    let tp = tp();
    for compression in Compression::ALL {
        let bytes = batch(
            BatchOptions {
                compression,
                ..BatchOptions::default()
            },
            &[Some("a"), None, Some("c")],
        );
        let valid = validate_produce(&bytes, &rules(&tp)).unwrap();
        assert_eq!(valid.max_timestamp(), NOW + 2);
        assert!(matches!(valid.into_stored(&bytes), Cow::Borrowed(same) if same == &bytes[..]));
    }
}

#[test]
fn framing_errors_have_their_kinds() {
    let tp = tp();
    let rules = rules(&tp);
    let good = batch(BatchOptions::default(), &[None]);
    let mut old = good.clone();
    old[16] = 1;
    for bytes in [
        &[][..],
        &[&good[..], &good[..]].concat(),
        &good[..good.len() - 1],
        &old,
    ] {
        assert_eq!(kind(bytes, &rules), InvalidBatchKind::NotOneBatch);
    }
    // nothing that Kafka ever wrote, and a length that not even the oldest record has
    let mut unknown = good.clone();
    unknown[16] = 9;
    let mut short = good.clone();
    short[11] = 10;
    for bytes in [&unknown, &short] {
        assert_eq!(kind(bytes, &rules), InvalidBatchKind::Unreadable);
    }
    let mut corrupt = good.clone();
    let last = corrupt.len() - 1;
    corrupt[last] ^= 1;
    assert_eq!(kind(&corrupt, &rules), InvalidBatchKind::CorruptMessage);
    let small = ProduceRules {
        max_message_bytes: good.len() - 1,
        ..rules
    };
    assert_eq!(kind(&good, &small), InvalidBatchKind::MessageTooLarge);
}

#[test]
fn header_lies_are_refused() {
    let tp = tp();
    let rules = rules(&tp);
    let good = batch(BatchOptions::default(), &[None, None]);
    let patched = |at: usize, bytes: &[u8]| {
        let mut b = good.clone();
        b[at..at + bytes.len()].copy_from_slice(bytes);
        patch_crc(&mut b);
        b
    };
    for (what, bytes) in [
        ("base offset", patched(0, &5i64.to_be_bytes())),
        ("last offset delta", patched(23, &2i32.to_be_bytes())),
        (
            "negative last offset delta",
            patched(23, &(-1i32).to_be_bytes()),
        ),
        ("no records", patched(57, &0i32.to_be_bytes())),
        ("control", patched(21, &0x20i16.to_be_bytes())),
        ("delete horizon", patched(21, &0x40i16.to_be_bytes())),
        (
            "producer without sequence",
            patched(43, &9i64.to_be_bytes()),
        ),
    ] {
        assert_eq!(
            kind(&bytes, &rules),
            InvalidBatchKind::InvalidRecord,
            "{what}"
        );
    }
    // both counts agree with each other but not with the records
    for count in [1i32, 3, i32::MAX] {
        let mut b = good.clone();
        b[57..61].copy_from_slice(&count.to_be_bytes());
        b[23..27].copy_from_slice(&(count - 1).to_be_bytes());
        patch_crc(&mut b);
        assert_eq!(kind(&b, &rules), InvalidBatchKind::InvalidRecord, "{count}");
    }
    let claimed = patched(21, &8i16.to_be_bytes());
    let stored = validate_produce(&claimed, &rules)
        .unwrap()
        .into_stored(&claimed)
        .into_owned();
    let stored = RecordBatch::parse(&stored).unwrap();
    stored.verify_crc().unwrap();
    assert_eq!(stored.header().timestamp_type(), TimestampType::CreateTime);
    assert_eq!(
        kind(&patched(21, &7i16.to_be_bytes()), &rules),
        InvalidBatchKind::UnsupportedCompressionType
    );
    let idempotent = batch(
        BatchOptions {
            producer_id: ProducerId(4),
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            ..BatchOptions::default()
        },
        &[None],
    );
    assert!(validate_produce(&idempotent, &rules).is_ok());
}

#[test]
fn record_errors_name_their_records() {
    let tp = tp();
    let compact = ProduceRules {
        compact: true,
        ..rules(&tp)
    };
    let bytes = batch(BatchOptions::default(), &[Some("k"), None, Some("k")]);
    let invalid = validate_produce(&bytes, &compact).unwrap_err();
    assert_eq!(invalid.kind, InvalidBatchKind::InvalidRecord);
    assert_eq!(
        invalid.record_errors,
        [RecordError {
            batch_index: 1,
            message: "Compacted topic cannot accept message without key in topic partition t-0."
                .into()
        }]
    );
    let early = ProduceRules {
        now_ms: NOW - 3_600_000,
        ..rules(&tp)
    };
    let invalid = validate_produce(&bytes, &early).unwrap_err();
    assert_eq!(invalid.kind, InvalidBatchKind::InvalidTimestamp);
    let indexes: Vec<i32> = invalid
        .record_errors
        .iter()
        .map(|e| e.batch_index)
        .collect();
    assert_eq!(indexes, [1, 2]);
    let late = ProduceRules {
        timestamp_before_max_ms: 10,
        now_ms: NOW + 12,
        ..rules(&tp)
    };
    let invalid = validate_produce(&bytes, &late).unwrap_err();
    assert_eq!(invalid.record_errors.len(), 2);
    // the broker's own time is not measured against the record's
    let log_append = ProduceRules {
        timestamp_type: TimestampType::LogAppendTime,
        ..early
    };
    assert!(validate_produce(&bytes, &log_append).is_ok());
}

#[test]
fn log_append_time_is_left_to_the_log() {
    let tp = tp();
    let rules = ProduceRules {
        timestamp_type: TimestampType::LogAppendTime,
        now_ms: NOW + 99,
        ..rules(&tp)
    };
    let mut bytes = batch(BatchOptions::default(), &[None, None]);
    let valid = validate_produce(&bytes, &rules).unwrap();
    assert_eq!(valid.max_timestamp(), NOW + 99);
    assert!(matches!(valid.into_stored(&bytes), Cow::Borrowed(_)));
    crate::header::patch_timestamps_log_append(&mut bytes, NOW + 99);
    let batch = RecordBatch::parse(&bytes).unwrap();
    batch.verify_crc().unwrap();
    for record in batch.records(1 << 20).unwrap() {
        assert_eq!(record.unwrap().timestamp, NOW + 99);
    }
}

#[test]
fn compression_types_of_topics() {
    let level = |_| CompressionLevel(Some(7));
    assert_eq!(
        TopicCompression::from_config("producer", level),
        Some(TopicCompression::Producer)
    );
    assert_eq!(
        TopicCompression::from_config("uncompressed", level),
        Some(TopicCompression::Fixed(
            Compression::None,
            CompressionLevel(Some(7))
        ))
    );
    assert_eq!(
        TopicCompression::from_config("zstd", level),
        Some(TopicCompression::Fixed(
            Compression::Zstd,
            CompressionLevel(Some(7))
        ))
    );
    assert_eq!(TopicCompression::from_config("none", level), None);
}

#[test]
fn a_wrong_max_timestamp_is_mended() {
    let tp = tp();
    let mut bytes = batch(BatchOptions::default(), &[None, None]);
    crate::header::patch_max_timestamp(&mut bytes, NOW + 1_000_000);
    let valid = validate_produce(&bytes, &rules(&tp)).unwrap();
    let stored = valid.into_stored(&bytes);
    let batch = RecordBatch::parse(&stored).unwrap();
    batch.verify_crc().unwrap();
    assert_eq!(batch.header().max_timestamp, NOW + 1);
}

#[test]
fn the_topics_compression_wins() {
    let tp = tp();
    for from in Compression::ALL {
        for to in Compression::ALL {
            let rules = ProduceRules {
                compression: TopicCompression::Fixed(to, CompressionLevel::DEFAULT),
                ..rules(&tp)
            };
            let options = BatchOptions {
                compression: from,
                ..BatchOptions::default()
            };
            let bytes = batch(options, &[Some("a"), Some("b")]);
            let before: Vec<_> = records(&bytes);
            let valid = validate_produce(&bytes, &rules).unwrap();
            let stored = valid.into_stored(&bytes);
            assert_eq!(matches!(stored, Cow::Borrowed(_)), from == to);
            let batch = RecordBatch::parse(&stored).unwrap();
            batch.verify_crc().unwrap();
            assert_eq!(batch.header().compression(), to);
            assert_eq!(records(&stored), before);
        }
    }
}

fn records(bytes: &[u8]) -> Vec<crate::record::Record> {
    RecordBatch::parse(bytes)
        .unwrap()
        .records(1 << 24)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn bombs_are_refused_without_being_held() {
    let tp = tp();
    let rules = rules(&tp);
    let zeros = vec![0u8; 64 << 20];
    for compression in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let mut builder = BatchBuilder::new(BatchOptions {
            compression,
            ..BatchOptions::default()
        });
        builder.append(NOW, None, Some(&zeros), []).unwrap();
        let bytes = builder.build().unwrap();
        assert!(bytes.len() < rules.max_message_bytes);
        assert_eq!(
            kind(&bytes, &rules),
            InvalidBatchKind::MessageTooLarge,
            "{compression:?}"
        );
    }
}

proptest! {
    /// One flipped byte behind the CRC field never passes, and nothing panics even where the CRC is made to fit.
    #[test]
    fn flipped_bytes(at in 0usize..200, with in 1u8.., mend: bool, compression in 0u8..5) {
        let tp = tp();
        let rules = rules(&tp);
        let options = BatchOptions { compression: Compression::from_id(compression).unwrap(), ..BatchOptions::default() };
        let mut bytes = batch(options, &[Some("a"), None, Some("c"), Some("d")]);
        let at = at % bytes.len();
        bytes[at] ^= with;
        if mend {
            patch_crc(&mut bytes);
            let _ = validate_produce(&bytes, &rules);
            if let Ok(batch) = RecordBatch::parse(&bytes)
                && let Ok(records) = batch.records(1 << 20) {
                let _ = records.count();
            }
        } else if at > 16 {
            prop_assert!(validate_produce(&bytes, &rules).is_err());
        }
    }

    #[test]
    fn garbage_records_do_not_panic(records: Vec<u8>, count in 0i32..10, compression in 0u8..5) {
        let tp = tp();
        let compression = Compression::from_id(compression).unwrap();
        for stored in [records.clone(), compress(compression, CompressionLevel::DEFAULT, &records).unwrap()] {
            let mut header = BatchHeader::new(compression, crate::Attributes::default(), stored.len()).unwrap();
            header.records_count = count;
            header.last_offset_delta = count - 1;
            let bytes = assemble(&header, &stored);
            let valid = validate_produce(&bytes, &rules(&tp));
            // the streaming check and the record iterators agree on what is well formed
            if valid.is_ok() {
                let batch = RecordBatch::parse(&bytes).unwrap();
                for record in batch.payload(1 << 20).unwrap().records() {
                    record.unwrap();
                }
            }
        }
    }
}
