//! FindCoordinator: which broker leads the partition that a group belongs to; that nobody coordinates transactional ids
//! and share partitions yet.
//! Not here: the coordinators, creating their topics (auto_create.rs).
//! Answers from the image; waits only for a topic that it has created.
//! Kafka: KafkaApis.handleFindCoordinatorRequest; KIP-98, KIP-699, KIP-932.

use crate::api::RequestContext;
use crate::api::cluster_view::{BrokerNode, Viewpoint};
use crate::api::metadata::MetadataApi;
use crate::coordinator::partition_for;
use crate::network::Pending;
use kavka_common::NodeId;
use kavka_common::topic::GROUP_METADATA_TOPIC;
use kavka_metadata::MetadataImage;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::find_coordinator_response::Coordinator;
use kavka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

/// From this version on a request names several keys.
const BATCHED_FROM: i16 = 4;
/// librdkafka asks in versions up to this one.
const LIBRDKAFKA_MAX: i16 = 2;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

pub fn handle(
    api: &MetadataApi,
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> Pending {
    let topic = GROUP_METADATA_TOPIC;
    if request.key_type != GROUP || api.cache.image().topics.contains(topic) {
        let response = answer_from(api, &context, &request);
        return context.ready(&response);
    }
    let api = api.clone();
    let asked = context.clone();
    context.later(async move {
        // Whether it came into being shows in the image.
        let _ = api.auto_create.create(&[topic.to_owned()]).await;
        answer_from(&api, &asked, &request)
    })
}

fn answer_from(
    api: &MetadataApi,
    context: &RequestContext,
    request: &FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let viewpoint = Viewpoint::new(&api.config, context);
    answer(&api.cache.image(), &viewpoint, context.api_version, request)
}

/// Why nobody coordinates keys of this type: the code with which clients give up at once, and a text.
fn refusal(api_version: i16, key_type: i8) -> Option<(ErrorCode, &'static str)> {
    match key_type {
        GROUP => None,
        TRANSACTION => {
            // A code that a client may retry (COORDINATOR_NOT_AVAILABLE) keeps it waiting until it times out. Of the
            // others, librdkafka gives up at this one alone, and says the text with it; Java's producer says the text
            // with all codes but this one.
            let code = if api_version <= LIBRDKAFKA_MAX {
                ErrorCode::TransactionalIdAuthorizationFailed
            } else {
                ErrorCode::UnsupportedVersion
            };
            Some((
                code,
                "This broker does not serve transactions yet: no transactional.id can be used. Idempotent producers can.",
            ))
        }
        SHARE => Some((
            ErrorCode::InvalidRequest,
            "This broker does not serve share groups yet.",
        )),
        _ => Some((
            ErrorCode::InvalidRequest,
            ErrorCode::InvalidRequest.message(),
        )),
    }
}

/// The answer from an image.
pub fn answer(
    image: &MetadataImage,
    viewpoint: &Viewpoint,
    api_version: i16,
    request: &FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let find = |key: &str| match refusal(api_version, request.key_type) {
        None => find(image, viewpoint, key).map_err(|error| (error, error.message())),
        Some(refusal) => Err(refusal),
    };
    let or_nobody = |found: Result<BrokerNode, (ErrorCode, &'static str)>| match found {
        Ok(node) => (ErrorCode::None, None, node),
        Err((error, text)) => (error, Some(text), nobody()),
    };
    if api_version < BATCHED_FROM {
        let (error, text, node) = or_nobody(find(&request.key));
        return FindCoordinatorResponse {
            error_code: error.code(),
            // As Java prints the constant.
            error_message: Some(text.unwrap_or("NONE").into()),
            node_id: node.broker_id.get(),
            host: node.host.into(),
            port: node.port,
            ..Default::default()
        };
    }
    FindCoordinatorResponse {
        coordinators: request
            .coordinator_keys
            .iter()
            .map(|key| {
                let (error, text, node) = or_nobody(find(key));
                Coordinator {
                    key: key.clone(),
                    node_id: node.broker_id.get(),
                    host: node.host.into(),
                    port: node.port,
                    error_code: error.code(),
                    error_message: Some(text.unwrap_or_default().into()),
                    ..Default::default()
                }
            })
            .collect(),
        ..Default::default()
    }
}

fn nobody() -> BrokerNode {
    BrokerNode {
        broker_id: NodeId::NONE,
        host: String::new(),
        port: -1,
        rack: None,
        is_fenced: false,
    }
}

/// The broker that leads the group's partition.
fn find(image: &MetadataImage, viewpoint: &Viewpoint, key: &str) -> Result<BrokerNode, ErrorCode> {
    image
        .topics
        .by_name(GROUP_METADATA_TOPIC)
        .and_then(|topic| {
            let partitions = i32::try_from(topic.partitions.size()).ok()?;
            let partition = topic.partition(partition_for(key, partitions))?;
            let broker = image
                .cluster
                .broker(partition.leader)
                .filter(|broker| !broker.fenced)?;
            viewpoint.node(broker)
        })
        .ok_or(ErrorCode::CoordinatorNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_image::{TestImage, viewpoint};
    use kavka_protocol::{Encoder, Message};

    fn ask(version: i16, key_type: i8, key: &str) -> (ErrorCode, i32, String, i32) {
        let image = TestImage::new()
            .broker(1, "one", 9092)
            .topic(GROUP_METADATA_TOPIC, 1, 5)
            .image();
        let request = FindCoordinatorRequest {
            key: key.into(),
            key_type,
            coordinator_keys: vec![key.into()],
            ..Default::default()
        };
        let response = answer(
            &image,
            &viewpoint(1, Some(("one", 9092))),
            version,
            &request,
        );
        response.encode(&mut Encoder::new(), version).unwrap();
        match response.coordinators.first() {
            Some(found) => (
                ErrorCode::from(found.error_code),
                found.node_id,
                found.host.to_string(),
                found.port,
            ),
            None => (
                ErrorCode::from(response.error_code),
                response.node_id,
                response.host.to_string(),
                response.port,
            ),
        }
    }

    #[test]
    fn every_version_finds_the_leader() {
        for version in 0..=6 {
            assert_eq!(
                ask(version, 0, "g"),
                (ErrorCode::None, 1, "one".into(), 9092)
            );
        }
    }

    #[test]
    fn what_cannot_be_found_is_nobody() {
        for (version, key_type, key, error) in [
            (2, 1, "t", ErrorCode::TransactionalIdAuthorizationFailed),
            (3, 1, "t", ErrorCode::UnsupportedVersion),
            (6, 1, "t", ErrorCode::UnsupportedVersion),
            (6, 3, "t", ErrorCode::InvalidRequest),
            (5, 2, "g:id:0", ErrorCode::InvalidRequest),
            (6, 2, "g:id:0", ErrorCode::InvalidRequest),
        ] {
            assert_eq!(ask(version, key_type, key), (error, -1, String::new(), -1));
        }
    }

    #[test]
    fn who_asks_for_what_is_not_served_is_told_why() {
        for version in 1..=6 {
            let (code, text) = refusal(version, TRANSACTION).unwrap();
            // Clients try again as long as they are told that nobody is available.
            assert_ne!(code, ErrorCode::CoordinatorNotAvailable);
            assert!(text.contains("transactions"), "{text}");
        }
    }
}
