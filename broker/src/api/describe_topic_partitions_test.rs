use super::*;
use crate::api::test_image::{TestImage, viewpoint};
use kavka_protocol::messages::describe_topic_partitions_request as request;

fn image() -> MetadataImage {
    TestImage::new()
        .broker(1, "one", 9092)
        .topic("b", 2, 3)
        .topic("a", 1, 2)
        .topic("c", 3, 1)
        .image()
}

type Shown = Vec<(String, ErrorCode, Vec<i32>)>;
type Place = Option<(String, i32)>;

fn ask(topics: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> (Shown, Place) {
    let request = DescribeTopicPartitionsRequest {
        topics: topics
            .iter()
            .map(|name| request::TopicRequest {
                name: (*name).into(),
                ..Default::default()
            })
            .collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(topic_name, partition_index)| request::Cursor {
            topic_name: topic_name.into(),
            partition_index,
            ..Default::default()
        }),
        ..Default::default()
    };
    let response = answer(&image(), &viewpoint(1, None), 2000, &request);
    let topics = response
        .topics
        .iter()
        .map(|topic| {
            let indexes = topic
                .partitions
                .iter()
                .map(|partition| partition.partition_index)
                .collect();
            (
                topic.name.as_deref().unwrap_or("").to_owned(),
                ErrorCode::from(topic.error_code),
                indexes,
            )
        })
        .collect();
    (
        topics,
        response
            .next_cursor
            .map(|next| (next.topic_name.to_string(), next.partition_index)),
    )
}

fn ok(name: &str, partitions: &[i32]) -> (String, ErrorCode, Vec<i32>) {
    (name.to_owned(), ErrorCode::None, partitions.to_vec())
}

fn at(name: &str, partition: i32) -> Place {
    Some((name.to_owned(), partition))
}

#[test]
fn pages_follow_the_cursor() {
    let all = vec![ok("a", &[0, 1]), ok("b", &[0, 1, 2]), ok("c", &[0])];
    assert_eq!(ask(&[], 2000, None), (all, None));
    assert_eq!(ask(&[], 2, None), (vec![ok("a", &[0, 1])], at("b", 0)));
    assert_eq!(
        ask(&[], 3, None),
        (vec![ok("a", &[0, 1]), ok("b", &[0])], at("b", 1))
    );
    assert_eq!(
        ask(&[], 3, Some(("b", 1))),
        (vec![ok("b", &[1, 2]), ok("c", &[0])], None)
    );
    assert_eq!(
        ask(&[], 0, None),
        (vec![ok("a", &[0])], at("a", 1)),
        "at least one"
    );
    assert_eq!(
        ask(&["c", "b"], 2, None),
        (vec![ok("b", &[0, 1])], at("b", 2))
    );
    assert_eq!(
        ask(&["c", "b"], 9, Some(("b", 2))),
        (vec![ok("b", &[2]), ok("c", &[0])], None)
    );
    // A topic that has gone meanwhile is passed over.
    assert_eq!(ask(&[], 9, Some(("bb", 7))), (vec![ok("c", &[0])], None));
}

#[test]
fn missing_topics_are_told_when_they_were_asked_for() {
    let missing = (
        "none".to_owned(),
        ErrorCode::UnknownTopicOrPartition,
        vec![],
    );
    let invalid = (
        "bad name".to_owned(),
        ErrorCode::InvalidTopicException,
        vec![],
    );
    assert_eq!(
        ask(&["none", "bad name", "c"], 9, None),
        (vec![invalid, ok("c", &[0]), missing], None)
    );
}

#[test]
fn a_cursor_outside_of_the_request_is_refused() {
    for cursor in [("a", 0), ("c", -1)] {
        let (topics, next) = ask(&["c"], 9, Some(cursor));
        assert_eq!(
            topics,
            [("c".to_owned(), ErrorCode::InvalidRequest, vec![])]
        );
        assert_eq!(next, None);
    }
}

#[test]
fn walking_the_pages_shows_every_partition_once() {
    for limit in 1..8 {
        let mut seen = Vec::new();
        let mut cursor: Place = None;
        loop {
            let (topics, next) = ask(
                &[],
                limit,
                cursor
                    .as_ref()
                    .map(|(name, partition)| (&**name, *partition)),
            );
            for (name, _, partitions) in topics {
                seen.extend(
                    partitions
                        .into_iter()
                        .map(|partition| (name.clone(), partition)),
                );
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        let all = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)];
        assert_eq!(
            seen,
            all.map(|(name, partition)| (name.to_owned(), partition)),
            "{limit}"
        );
    }
}
