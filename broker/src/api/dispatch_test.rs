//! The way of a frame: versions, refusals, ApiVersions in versions of the future.

use super::*;
use crate::api::api_versions::Features;
use crate::network::ListenerInfo;
use kavka_common::ManualClock;
use kavka_config::SecurityProtocol;
use kavka_protocol::Segment;
use kavka_protocol::messages::{
    ApiVersionsResponse, MetadataRequest, MetadataResponse, ResponseHeader,
};
use std::net::Ipv4Addr;

fn table(kind: ListenerKind) -> ApiTable {
    let rows = vec![
        Row::now(
            BROKER,
            Authorization::None,
            |context, request: MetadataRequest| {
                assert_eq!(context.api_key, ApiKey::Metadata);
                assert_eq!(&*context.client_id, "me");
                MetadataResponse {
                    controller_id: i32::try_from(request.topics.map_or(0, |t| t.len())).unwrap(),
                    ..Default::default()
                }
            },
        )
        .narrowed(1..=12),
    ];
    ApiTable::new(
        kind,
        rows,
        ApiVersionsAnswer::new(Features::default),
        Arc::new(ManualClock::default()),
    )
}

fn connection(kind: ListenerKind) -> Arc<ConnectionInfo> {
    let address = (Ipv4Addr::LOCALHOST, 9092).into();
    Arc::new(ConnectionInfo {
        id: 1,
        peer: address,
        local: address,
        listener: Arc::new(ListenerInfo {
            name: "PLAINTEXT".into(),
            security_protocol: SecurityProtocol::Plaintext,
            kind,
            host: String::new(),
            address,
        }),
    })
}

fn frame_of<R: Request>(version: i16, request: &R) -> Bytes {
    let segments = frame::encode_request(version, 7, Some("me".into()), request).unwrap();
    flat(segments).slice(frame::LENGTH_BYTES..)
}

fn flat(segments: Vec<Segment>) -> Bytes {
    segments
        .into_iter()
        .flat_map(|s| match s {
            Segment::Bytes(bytes) => bytes,
            Segment::File(region) => region.read().unwrap().into(),
        })
        .collect::<Vec<u8>>()
        .into()
}

fn body<R: Message>(pending: Pending, key: ApiKey, version: i16) -> R {
    let Pending::Ready(Reply::Send(segments)) = pending else {
        panic!("{pending:?}");
    };
    let mut bytes = flat(segments);
    let length = bytes.get_i32();
    assert_eq!(usize::try_from(length).unwrap(), bytes.len());
    let header = ResponseHeader::decode(&mut bytes, key.response_header_version(version)).unwrap();
    assert_eq!(header.correlation_id, 7);
    R::decode_exact(&bytes, version).unwrap()
}

fn closes(pending: &Pending) -> bool {
    matches!(pending, Pending::Ready(Reply::Close))
}

#[test]
fn a_request_finds_its_handler() {
    let table = table(ListenerKind::Broker);
    let connection = connection(ListenerKind::Broker);
    let request = MetadataRequest {
        topics: Some(vec![Default::default(); 3]),
        ..Default::default()
    };
    for version in 1..=9 {
        let pending = table.dispatch(&connection, frame_of(version, &request));
        let response: MetadataResponse = body(pending, ApiKey::Metadata, version);
        assert_eq!(response.controller_id, 3);
    }
}

#[test]
fn what_the_row_does_not_serve_closes_the_connection() {
    let table = table(ListenerKind::Broker);
    let connection = connection(ListenerKind::Broker);
    // Versions that the schema has and the row does not.
    for version in [0, 13] {
        let frame = frame_of(version, &MetadataRequest::default());
        assert!(closes(&table.dispatch(&connection, frame)), "{version}");
    }
    let unserved = frame_of(3, &kavka_protocol::messages::ProduceRequest::default());
    let bad: [&[u8]; 5] = [
        &unserved,
        // No such key.
        &[0x7f, 0xff, 0, 0, 0, 0, 0, 7, 0xff, 0xff],
        // No whole header.
        &[0, 3, 0, 1, 0, 0],
        // A client id that is longer than the frame.
        &[0, 3, 0, 1, 0, 0, 0, 7, 0x7f, 0xff],
        // More topics than bytes.
        &[0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
    ];
    for frame in bad {
        let pending = table.dispatch(&connection, Bytes::copy_from_slice(frame));
        assert!(closes(&pending), "{frame:?}");
    }
}

#[test]
fn a_controller_listener_has_its_own_rows() {
    let table = table(ListenerKind::Controller);
    assert_eq!(table.served(), [(ApiKey::ApiVersions, 0..=4)]);
    let frame = frame_of(1, &MetadataRequest::default());
    assert!(closes(
        &table.dispatch(&connection(ListenerKind::Controller), frame)
    ));
}

#[test]
fn api_versions_answers_every_version() {
    let table = table(ListenerKind::Broker);
    let connection = connection(ListenerKind::Broker);
    let request = ApiVersionsRequest {
        client_software_name: "kavka".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    for version in 0..=4 {
        let request = if version < 3 {
            ApiVersionsRequest::default()
        } else {
            request.clone()
        };
        let pending = table.dispatch(&connection, frame_of(version, &request));
        let response: ApiVersionsResponse = body(pending, ApiKey::ApiVersions, version);
        let shown: Vec<_> = response
            .api_keys
            .iter()
            .map(|k| (k.api_key, k.min_version, k.max_version))
            .collect();
        assert_eq!(
            (response.error_code, shown),
            (0, vec![(3, 1, 12), (18, 0, 4)])
        );
    }
}

#[test]
fn an_api_versions_request_of_the_future_gets_a_version_0_body() {
    let table = table(ListenerKind::Broker);
    // Its header and body are of no known form behind the correlation id.
    for version in [5_i16, 99, -1] {
        let mut frame = vec![0, 18];
        frame.extend(version.to_be_bytes());
        frame.extend([0, 0, 0, 7, 0x7f, 0xff, 0xff]);
        let pending = table.dispatch(&connection(ListenerKind::Broker), frame.into());
        let response: ApiVersionsResponse = body(pending, ApiKey::ApiVersions, 0);
        assert_eq!(response.error_code, 35);
        assert_eq!(response.api_keys.len(), 1);
    }
}

#[test]
#[should_panic(expected = "two rows for Metadata")]
fn an_api_has_one_row_on_a_listener() {
    let row = || {
        Row::now(BOTH, Authorization::None, |_, _: MetadataRequest| {
            MetadataResponse::default()
        })
    };
    ApiTable::new(
        ListenerKind::Broker,
        vec![row(), row()],
        ApiVersionsAnswer::new(Features::default),
        Arc::new(ManualClock::default()),
    );
}
