//! The primitive encodings, tagged fields, segments, frames and envelopes, by properties and by fixed bytes.
//! Not here: bytes of whole messages (`golden.rs`), damaged ones (`hostile.rs`).
//! Pure. Kafka: ByteUtilsTest, RequestHeaderTest, SendBuilderTest, MetadataRecordSerdeTest, ControlRecordUtilsTest.

use bytes::Bytes;
use kavka_common::{FileRegion, RegionSource};
use kavka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kavka_protocol::messages::{
    ApiVersionsRequest, EndTxnMarker, FetchRequest, FetchResponse, GroupMetadataKey,
    GroupRecordKey, GroupRecordValue, KRaftVersionRecord, LeaderChangeMessage, MetadataRequest,
    NoOpRecord, OffsetCommitKey, OffsetCommitValue, ProduceRequest, TopicRecord,
};
use kavka_protocol::record_frame::ControlRecord;
use kavka_protocol::wire::{Reader, Wire};
use kavka_protocol::{
    AnyRequest, ApiKey, EncodeFault, Encoder, ErrorCode, Fault, Message, MetadataRecord,
    RawTaggedField, Records, Segment, StrBytes, frame,
};
use proptest::prelude::*;
use std::io;
use std::sync::Arc;

fn reader(bytes: &[u8], flexible: bool) -> Reader {
    Reader::new(Bytes::copy_from_slice(bytes), 0, flexible)
}

fn written(write: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut out = Encoder::new();
    write(&mut out);
    out.into_bytes().expect("flat")
}

proptest! {
    // Failing cases are printed; there is no folder for them beside an integration test.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn varints_round_trip_in_the_fewest_bytes(value: u32) {
        let bytes = written(|out| out.put_unsigned_varint(value));
        let bits = 32 - value.leading_zeros();
        prop_assert_eq!(bytes.len() as u32, bits.div_ceil(7).max(1));
        let mut r = Reader::new(bytes, 0, true);
        prop_assert_eq!(r.unsigned_varint(), Ok(value));
        prop_assert_eq!(r.remaining(), 0);
    }

    #[test]
    fn any_bytes_are_a_varint_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..8)) {
        let _ = reader(&bytes, true).unsigned_varint();
    }

    #[test]
    fn strings_round_trip(text in ".{0,80}", version in 11i16..=13) {
        let request = FetchRequest { rack_id: StrBytes::from(text.as_str()), ..Default::default() };
        let bytes = request.encode_to_bytes(version).expect("encodes");
        let back = FetchRequest::decode_exact(&bytes, version).expect("decodes");
        prop_assert_eq!(back.rack_id, text.as_str());
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), flexible: bool) {
        let _ = Vec::<StrBytes>::read(&mut reader(&bytes, flexible));
        let _ = Vec::<i64>::read(&mut reader(&bytes, flexible));
        let _ = Option::<Bytes>::read(&mut reader(&bytes, flexible));
        let _ = MetadataRecord::decode_value(&mut Bytes::from(bytes.clone()));
        let _ = GroupRecordKey::decode(&mut Bytes::from(bytes.clone()));
        for record_type in 0..24 {
            let _ = GroupRecordValue::decode(record_type, &mut Bytes::from(bytes.clone()));
        }
        for record_type in 0..8u8 {
            let _ = ControlRecord::decode(&Bytes::from(vec![0, 0, 0, record_type]), &Bytes::from(bytes.clone()));
        }
    }

    #[test]
    fn unknown_tags_survive(tags in proptest::collection::btree_map(2u32..100_000, proptest::collection::vec(any::<u8>(), 0..20), 0..5)) {
        let unknown: Vec<RawTaggedField> =
            tags.into_iter().map(|(tag, data)| RawTaggedField { tag, data: Bytes::from(data) }).collect();
        let request = FetchRequest {
            cluster_id: Some(StrBytes::from("c")),
            unknown_tagged_fields: unknown,
            ..Default::default()
        };
        let bytes = request.encode_to_bytes(12).expect("encodes");
        prop_assert_eq!(FetchRequest::decode_exact(&bytes, 12).expect("decodes"), request);
    }
}

#[test]
fn varints_beyond_32_bits_are_refused() {
    for bytes in [
        &[0xff, 0xff, 0xff, 0xff, 0x1f][..],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ] {
        let error = reader(bytes, true).unsigned_varint().unwrap_err();
        assert_eq!(error.fault, Fault::InvalidVarint);
    }
    let mut longest = reader(&[0xff, 0xff, 0xff, 0xff, 0x0f], true);
    assert_eq!(longest.unsigned_varint(), Ok(u32::MAX));
    let error = reader(&[0x80], true).unsigned_varint().unwrap_err();
    assert_eq!(
        error.fault,
        Fault::Truncated {
            needed: 1,
            remaining: 0
        }
    );
}

#[test]
fn strings_are_bounded() {
    let cases: [(&[u8], bool, Fault); 6] = [
        (&[0xff, 0xff], false, Fault::UnexpectedNull),
        (&[0], true, Fault::UnexpectedNull),
        (&[0xff, 0xfe], false, Fault::InvalidLength(-2)),
        (
            &[0, 3, b'a'],
            false,
            Fault::Truncated {
                needed: 3,
                remaining: 1,
            },
        ),
        (&[0x81, 0x80, 0x02], true, Fault::InvalidLength(32768)),
        (&[0, 1, 0xff], false, Fault::NotUtf8),
    ];
    for (bytes, flexible, fault) in cases {
        let error = StrBytes::read(&mut reader(bytes, flexible)).unwrap_err();
        assert_eq!(error.fault, fault, "{bytes:?}");
    }
    let long = FetchRequest {
        rack_id: StrBytes::from("x".repeat(32768)),
        ..Default::default()
    };
    for version in [11, 12] {
        let error = long.encode_to_bytes(version).unwrap_err();
        assert_eq!(error.fault, EncodeFault::TooLong(32768));
        assert_eq!(error.field, "FetchRequest.RackId");
    }
}

#[test]
fn counts_are_compared_with_what_is_left() {
    let claims = |bytes: &[u8], flexible| Vec::<i64>::read(&mut reader(bytes, flexible));
    let error = claims(&[0x7f, 0xff, 0xff, 0xff, 0, 0], false).unwrap_err();
    assert_eq!(
        error.fault,
        Fault::CountTooLarge {
            count: 0x7fff_ffff,
            remaining: 2
        }
    );
    let error = claims(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0], true).unwrap_err();
    assert!(matches!(
        error.fault,
        Fault::CountTooLarge { remaining: 2, .. }
    ));
    assert_eq!(
        claims(&[0xff, 0xff, 0xff, 0xfe], false).unwrap_err().fault,
        Fault::InvalidLength(-2)
    );
    let tags = &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    let error = reader(tags, true).no_tags(&mut Vec::new()).unwrap_err();
    assert!(matches!(error.fault, Fault::CountTooLarge { .. }));
}

#[test]
fn errors_name_message_and_field() {
    let bytes = Bytes::from_static(&[0, 0, 0, 1, 0, 9, b'a']);
    let error = MetadataRequest::decode_exact(&bytes, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read MetadataRequest at MetadataRequestTopic.Name: needs 9 bytes, 1 are left"
    );
    let error = MetadataRequest::decode_exact(&bytes, 99).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read MetadataRequest: no version 99"
    );
    let error = MetadataRequest::decode_exact(&Bytes::from_static(&[0, 0, 0, 0, 7]), 0);
    assert_eq!(error.unwrap_err().fault, Fault::TrailingBytes(1));
}

#[test]
fn tags_ascend_and_fill_their_size() {
    let read = |bytes: &[u8]| {
        let mut unknown = Vec::new();
        reader(bytes, true)
            .tags(&mut unknown, |r, tag| match tag {
                1 => i16::read(r).map(|_| true),
                _ => Ok(false),
            })
            .map(|()| unknown)
            .map_err(|e| e.fault)
    };
    let raw = |tag, data: &'static [u8]| RawTaggedField {
        tag,
        data: Bytes::from_static(data),
    };
    assert_eq!(read(&[0]), Ok(vec![]));
    assert_eq!(
        read(&[3, 0, 1, 9, 1, 2, 0, 0, 5, 0]),
        Ok(vec![raw(0, &[9]), raw(5, &[])])
    );
    let order = |tag, previous| Err(Fault::TagOrder { tag, previous });
    assert_eq!(read(&[2, 1, 2, 0, 0, 1, 2, 0, 0]), order(1, 1));
    assert_eq!(read(&[2, 5, 0, 3, 0]), order(3, 5));
    assert_eq!(
        read(&[1, 1, 3, 0, 0, 0]),
        Err(Fault::TagSize { tag: 1, unread: 1 })
    );
    assert_eq!(
        read(&[1, 1, 1, 0, 0, 0]),
        Err(Fault::Truncated {
            needed: 2,
            remaining: 1
        })
    );
    assert_eq!(
        read(&[1, 9, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        Err(Fault::Truncated {
            needed: u32::MAX as usize,
            remaining: 0
        })
    );
}

#[test]
fn fields_that_a_version_lacks_are_dropped_or_refused() {
    let ignorable = FetchRequest {
        session_id: 7,
        ..Default::default()
    };
    assert_eq!(
        ignorable.encode_to_bytes(4),
        FetchRequest::default().encode_to_bytes(4)
    );
    let needed = MetadataRequest {
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let error = needed.encode_to_bytes(0).unwrap_err();
    assert_eq!(error.fault, EncodeFault::FieldNotInVersion);
    assert_eq!(error.field, "MetadataRequest.AllowAutoTopicCreation");
    // Null topics mean all topics from version 1 on; version 0 has no null.
    let all = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    assert!(all.encode_to_bytes(1).is_ok());
    assert_eq!(
        all.encode_to_bytes(0).unwrap_err().fault,
        EncodeFault::UnexpectedNull
    );
    let tagged = FetchRequest {
        unknown_tagged_fields: vec![RawTaggedField {
            tag: 99,
            data: Bytes::new(),
        }],
        ..Default::default()
    };
    assert_eq!(
        tagged.encode_to_bytes(11).unwrap_err().fault,
        EncodeFault::FieldNotInVersion
    );
}

#[derive(Debug)]
struct Memory(Vec<u8>);

impl RegionSource for Memory {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        let start = usize::try_from(position).map_err(io::Error::other)?;
        let bytes = self.0.get(start..start + buf.len());
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn raw_fd(&self) -> Option<i32> {
        None
    }
}

fn fetch_response(records: Option<Records>) -> FetchResponse {
    let partition = PartitionData {
        records,
        // A tagged field and, after the records, tags: the length of what follows must be right.
        preferred_read_replica: 3,
        diverging_epoch: kavka_protocol::messages::fetch_response::EpochEndOffset {
            epoch: 5,
            ..Default::default()
        },
        ..Default::default()
    };
    FetchResponse {
        responses: vec![FetchableTopicResponse {
            partitions: vec![partition.clone(), partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn records_leave_as_they_are() {
    let content: Vec<u8> = (0..20_000u32).map(|n| n as u8).collect();
    let shared = Bytes::from(content.clone());
    let region = FileRegion {
        source: Arc::new(Memory(content.clone())),
        position: 100,
        length: 15_000,
    };
    let flat = |range: std::ops::Range<usize>| Records::Bytes(shared.slice(range));
    let cases = [
        (Records::from(shared.clone()), flat(0..20_000)),
        (Records::from(region.clone()), flat(100..15_100)),
        (
            Records::Segments(vec![
                Segment::Bytes(shared.slice(0..100)),
                Segment::File(region.clone()),
                Segment::Bytes(shared.slice(15_100..20_000)),
            ]),
            flat(0..20_000),
        ),
        (Records::Segments(vec![]), flat(0..0)),
    ];
    for version in FetchResponse::VALID_VERSIONS.filter(|v| *v >= 12) {
        for (records, same_flat) in &cases {
            let response = fetch_response(Some(records.clone()));
            let expected = fetch_response(Some(same_flat.clone()));
            let segments = frame::encode_response(ApiKey::Fetch, version, 9, &response);
            let segments = segments.expect("encodes");
            assert!(segments.iter().all(|segment| !segment.is_empty()));
            let mut wire = Vec::new();
            for segment in &segments {
                match segment {
                    Segment::Bytes(bytes) => wire.extend_from_slice(bytes),
                    Segment::File(region) => wire.extend(region.read().expect("in memory")),
                }
            }
            let length = frame::decode_length(*wire.first_chunk().expect("length"), usize::MAX);
            assert_eq!(length, Ok(wire.len() - frame::LENGTH_BYTES));
            let mut body = Bytes::from(wire).split_off(frame::LENGTH_BYTES);
            let header = frame::decode_response_header(ApiKey::Fetch, version, &mut body);
            assert_eq!(header.expect("header").correlation_id, 9);
            let back = FetchResponse::decode_exact(&body, version).expect("decodes");
            assert_eq!(
                back.encode_to_bytes(version),
                expected.encode_to_bytes(version)
            );
            assert_eq!(
                response.encode_to_bytes(version),
                back.encode_to_bytes(version)
            );
        }
    }
    // Large bytes are not copied: the segment is the very memory that was given.
    let segments = frame::encode_response(
        ApiKey::Fetch,
        12,
        9,
        &fetch_response(Some(shared.clone().into())),
    );
    let is_shared =
        |segment: &Segment| matches!(segment, Segment::Bytes(b) if b.as_ptr() == shared.as_ptr());
    assert_eq!(
        segments
            .expect("encodes")
            .iter()
            .filter(|s| is_shared(s))
            .count(),
        2
    );
}

#[test]
fn decoding_shares_the_frame() {
    let records = Bytes::from(vec![7; 10_000]);
    let request = ProduceRequest {
        topic_data: vec![
            kavka_protocol::messages::produce_request::TopicProduceData {
                name: "t".into(),
                partition_data: vec![
                    kavka_protocol::messages::produce_request::PartitionProduceData {
                        index: 0,
                        records: Some(records.into()),
                        ..Default::default()
                    },
                ],
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    let bytes = request.encode_to_bytes(9).expect("encodes");
    let within = bytes.as_ptr_range();
    let back = ProduceRequest::decode_exact(&bytes, 9).expect("decodes");
    let topic = &back.topic_data[0];
    assert!(within.contains(&topic.name.as_bytes().as_ptr()));
    assert!(!within.contains(&topic.name.detached().as_bytes().as_ptr()));
    let records = topic.partition_data[0]
        .records
        .as_ref()
        .and_then(Records::as_bytes);
    assert!(within.contains(&records.expect("records").as_ptr()));
}

#[test]
fn request_frames_round_trip() {
    let request = ApiVersionsRequest {
        client_software_name: "kavka".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    for version in ApiVersionsRequest::VALID_VERSIONS {
        let segments =
            frame::encode_request(version, 77, Some("me".into()), &request).expect("encodes");
        let [Segment::Bytes(bytes)] = segments.as_slice() else {
            panic!("one segment");
        };
        let mut rest = bytes.slice(frame::LENGTH_BYTES..);
        let (api_key, found, header) = frame::decode_request_header(&mut rest).expect("header");
        assert_eq!((api_key, found), (ApiKey::ApiVersions, version));
        assert_eq!(header.correlation_id, 77);
        assert_eq!(header.client_id, Some("me".into()));
        let any = AnyRequest::decode(api_key, version, &mut rest).expect("body");
        assert!(rest.is_empty());
        assert_eq!(any.api_key(), ApiKey::ApiVersions);
    }
    // The header of a version of the future is still understood (KIP-511).
    let mut future = Bytes::from_static(&[0, 18, 0, 99, 0, 0, 0, 5, 0, 1, b'x', 0, 1, 2, 3]);
    let (api_key, version, header) = frame::decode_request_header(&mut future).expect("header");
    assert_eq!(
        (api_key, version, header.correlation_id),
        (ApiKey::ApiVersions, 99, 5)
    );
    assert_eq!(future.len(), 3);
}

#[test]
fn frame_lengths_are_bounded() {
    // F26: negative, HTTP ("GET ") and TLS hello on a plain port.
    for length in [-1, i32::MAX, 1_195_725_856, 369_295_616] {
        let read = frame::decode_length(length.to_be_bytes(), 100 << 20);
        assert_eq!(
            read.unwrap_err().fault,
            Fault::InvalidLength(i64::from(length))
        );
    }
    assert_eq!(frame::decode_length([0; 4], 10), Ok(0));
    assert_eq!(frame::decode_length([0, 0, 0, 10], 10), Ok(10));
    let error = frame::decode_request_header(&mut Bytes::from_static(&[0, 18, 0]));
    assert!(matches!(error.unwrap_err().fault, Fault::Truncated { .. }));
    let error = frame::decode_request_header(&mut Bytes::from_static(&[3, 231, 0, 0]));
    assert_eq!(error.unwrap_err().fault, Fault::UnknownApiKey(999));
}

#[test]
fn metadata_records_have_kafkas_frame() {
    let record = MetadataRecord::from(NoOpRecord::default());
    let value = record.encode_value(0).expect("encodes");
    assert_eq!(&value[..], [1, 20, 0, 0]);
    assert_eq!(MetadataRecord::decode_value(&mut value.clone()), Ok(record));
    let topic = MetadataRecord::from(TopicRecord {
        name: "t".into(),
        ..Default::default()
    });
    let value = topic.encode_value(0).expect("encodes");
    assert_eq!(&value[..5], [1, 2, 0, 2, b't']);
    assert_eq!(
        MetadataRecord::decode_value_with_version(&mut value.clone()),
        Ok((topic, 0))
    );
    let fault = |bytes: &'static [u8]| {
        let read = MetadataRecord::decode_value(&mut Bytes::from_static(bytes));
        read.unwrap_err().fault
    };
    assert_eq!(fault(&[2, 20, 0, 0]), Fault::UnknownFrameVersion(2));
    assert_eq!(fault(&[1, 99, 0, 0]), Fault::UnknownRecordType(99));
    assert_eq!(fault(&[1, 20, 1, 0]), Fault::UnsupportedVersion(1));
    assert_eq!(fault(&[1, 20, 0, 0, 0]), Fault::TrailingBytes(1));
}

#[test]
fn control_records_round_trip() {
    let marker = EndTxnMarker {
        coordinator_epoch: 7,
    };
    let commit = ControlRecord::Commit(marker);
    let (key, value) = commit.encode().expect("encodes");
    assert_eq!(
        (&key[..], &value[..]),
        (&[0, 0, 0, 1][..], &[0, 0, 0, 0, 0, 7][..])
    );
    let change = LeaderChangeMessage {
        version: 1,
        leader_id: 3,
        ..Default::default()
    };
    let records = [
        commit,
        ControlRecord::LeaderChange(change),
        ControlRecord::KRaftVersion(KRaftVersionRecord {
            kraft_version: 1,
            ..Default::default()
        }),
    ];
    for record in records {
        let (key, value) = record.encode().expect("encodes");
        assert_eq!(ControlRecord::decode(&key, &value), Ok(record));
    }
    let unknown = ControlRecord::decode(
        &Bytes::from_static(&[0, 0, 0, 9]),
        &Bytes::from_static(&[0, 0]),
    );
    assert_eq!(unknown.unwrap_err().fault, Fault::UnknownRecordType(9));
}

#[test]
fn coordinator_records_have_type_and_version_in_front() {
    let key = GroupRecordKey::from(GroupMetadataKey { group: "g".into() });
    let bytes = key.encode().expect("encodes");
    assert_eq!(&bytes[..], [0, 2, 0, 1, b'g']);
    assert_eq!(GroupRecordKey::decode(&mut bytes.clone()), Ok(key));
    let key = GroupRecordKey::from(OffsetCommitKey {
        group: "g".into(),
        topic: "t".into(),
        partition: 1,
    });
    assert_eq!(key.record_type(), 1);
    let value = GroupRecordValue::from(OffsetCommitValue {
        offset: 12,
        ..Default::default()
    });
    for version in OffsetCommitValue::VALID_VERSIONS {
        let bytes = match value.encode(version) {
            Ok(bytes) => bytes,
            Err(e) => panic!("{e}"),
        };
        assert_eq!(bytes[..2], version.to_be_bytes());
        let read = GroupRecordValue::decode_with_version(1, &mut bytes.clone());
        assert_eq!(read.expect("decodes").1, version);
    }
}

#[test]
fn tables_are_kafkas() {
    assert_eq!(ApiKey::try_from(1), Ok(ApiKey::Fetch));
    assert_eq!(ApiKey::Fetch.versions(), Some(4..=18));
    assert_eq!(ApiKey::LeaderAndIsr.versions(), None);
    assert_eq!(ApiKey::InitProducerId.versions(), Some(0..=5));
    assert_eq!(ApiKey::InitProducerId.versions_with_unstable(), Some(0..=6));
    assert_eq!(ApiKey::ApiVersions.response_header_version(4), 0);
    assert_eq!(ApiKey::ApiVersions.request_header_version(3), 2);
    assert_eq!(ApiKey::Fetch.response_header_version(12), 1);
    assert!(ApiKey::Vote.on_controller() && !ApiKey::Vote.on_broker());
    assert_eq!(ErrorCode::from(3), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(ErrorCode::from(31_000), ErrorCode::UnknownServerError);
    assert_eq!(ErrorCode::UnknownServerError.code(), -1);
    assert!(ErrorCode::NotLeaderOrFollower.is_retriable());
    assert_eq!(
        ErrorCode::NotLeaderOrFollower.name(),
        "NOT_LEADER_OR_FOLLOWER"
    );
    let class = "org.apache.kafka.common.errors.NotLeaderOrFollowerException";
    assert_eq!(ErrorCode::NotLeaderOrFollower.exception(), Some(class));
    for key in ApiKey::ALL {
        assert_eq!(ApiKey::try_from(key.code()), Ok(key));
        assert_eq!(
            AnyRequest::default_of(key).is_some(),
            key.versions().is_some()
        );
        // The table and the schemas agree on where compact encodings start.
        macro_rules! agree {
            ($m:ident) => {
                if kavka_protocol::messages::$m::NAME.strip_suffix("Request") == Some(key.name()) {
                    type M = kavka_protocol::messages::$m;
                    assert_eq!(M::FLEXIBLE_FROM, key.info().flexible_request_from, "{key}");
                    assert_eq!(
                        Some(M::VALID_VERSIONS),
                        key.versions_with_unstable(),
                        "{key}"
                    );
                }
            };
        }
        kavka_protocol::for_each_message!(agree);
    }
}
