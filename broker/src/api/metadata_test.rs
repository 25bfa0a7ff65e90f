use super::*;
use crate::api::test_image::{TestImage, topic_id, viewpoint};
use kavka_protocol::messages::metadata_request::MetadataRequestTopic;
use kavka_protocol::{Encoder, Message};

fn image() -> MetadataImage {
    TestImage::new()
        .broker(1, "one", 9092)
        .broker(2, "two", 9092)
        .fenced(2)
        .topic("a", 1, 2)
        .topic("__consumer_offsets", 2, 1)
        .image()
}

fn ask(version: i16, request: &MetadataRequest) -> MetadataResponse {
    let response = answer(
        &image(),
        &viewpoint(1, Some(("one", 9092))),
        "id",
        version,
        request,
        &CreationErrors::new(),
    );
    // Whatever is answered, the version asked for can carry it.
    response.encode(&mut Encoder::new(), version).unwrap();
    response
}

fn topics(names: &[&str]) -> MetadataRequest {
    MetadataRequest {
        topics: Some(
            names
                .iter()
                .map(|name| MetadataRequestTopic {
                    name: Some((*name).into()),
                    ..Default::default()
                })
                .collect(),
        ),
        ..Default::default()
    }
}

fn shown(response: &MetadataResponse) -> Vec<(String, ErrorCode, usize)> {
    response
        .topics
        .iter()
        .map(|topic| {
            let name = topic.name.as_deref().unwrap_or("null").to_owned();
            (
                name,
                ErrorCode::from(topic.error_code),
                topic.partitions.len(),
            )
        })
        .collect()
}

#[test]
fn an_empty_list_asks_for_all_only_in_version_0() {
    let nothing = MetadataRequest {
        topics: Some(Vec::new()),
        ..Default::default()
    };
    let all = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    assert_eq!(ask(0, &nothing).topics.len(), 2);
    for version in 1..=13 {
        assert_eq!(ask(version, &nothing).topics.len(), 0, "{version}");
        assert_eq!(ask(version, &all).topics.len(), 2, "{version}");
    }
}

#[test]
fn every_version_shows_brokers_and_topics() {
    for version in 0..=13 {
        let response = ask(version, &topics(&["a", "none", "bad name", "a"]));
        assert_eq!(
            shown(&response),
            [
                ("a".to_owned(), ErrorCode::None, 2),
                ("none".to_owned(), ErrorCode::UnknownTopicOrPartition, 0),
                ("bad name".to_owned(), ErrorCode::InvalidTopicException, 0),
            ]
        );
        let brokers: Vec<i32> = response
            .brokers
            .iter()
            .map(|broker| broker.node_id)
            .collect();
        assert_eq!(brokers, [1], "fenced brokers do not serve");
        assert_eq!(response.controller_id, 1);
        assert_eq!(response.topics[0].topic_id, topic_id(1));
        assert_eq!(response.topics[0].partitions[0].leader_epoch, 5);
    }
    assert!(ask(9, &topics(&["__consumer_offsets"])).topics[0].is_internal);
}

#[test]
fn topics_can_be_asked_for_by_id_from_version_12() {
    let by_id = |ids: &[u8]| MetadataRequest {
        topics: Some(
            ids.iter()
                .map(|id| MetadataRequestTopic {
                    topic_id: topic_id(*id),
                    name: None,
                    ..Default::default()
                })
                .collect(),
        ),
        ..Default::default()
    };
    for version in 12..=13 {
        assert_eq!(
            shown(&ask(version, &by_id(&[1, 9]))),
            [
                ("a".to_owned(), ErrorCode::None, 2),
                ("null".to_owned(), ErrorCode::UnknownTopicId, 0)
            ]
        );
    }
    for version in 10..=11 {
        assert_eq!(
            shown(&ask(version, &by_id(&[1]))),
            [(String::new(), ErrorCode::InvalidRequest, 0)]
        );
    }
}

#[test]
fn operations_are_shown_when_asked_for() {
    let request = MetadataRequest {
        include_cluster_authorized_operations: true,
        include_topic_authorized_operations: true,
        ..topics(&["a"])
    };
    let plain = ask(9, &topics(&["a"]));
    assert_eq!(plain.cluster_authorized_operations, i32::MIN);
    assert_eq!(plain.topics[0].topic_authorized_operations, i32::MIN);
    let told = ask(9, &request);
    assert_eq!(told.cluster_authorized_operations, CLUSTER_OPERATIONS);
    assert_eq!(told.topics[0].topic_authorized_operations, TOPIC_OPERATIONS);
    assert_eq!(
        ask(
            11,
            &MetadataRequest {
                include_cluster_authorized_operations: false,
                ..request
            }
        )
        .cluster_authorized_operations,
        i32::MIN
    );
}

#[test]
fn why_a_topic_was_not_created_is_told() {
    let errors = CreationErrors::from([("none".to_owned(), ErrorCode::InvalidReplicationFactor)]);
    let response = answer(
        &image(),
        &viewpoint(1, None),
        "id",
        12,
        &topics(&["none"]),
        &errors,
    );
    assert_eq!(
        shown(&response),
        [("none".to_owned(), ErrorCode::InvalidReplicationFactor, 0)]
    );
}
