//! FindCoordinator: which broker leads the partition that a group, a transactional id or a share partition belongs to.
//! Not here: the coordinators, creating their topics (auto_create.rs).
//! Answers from the image; waits only for a topic that it has created.
//! Kafka: KafkaApis.handleFindCoordinatorRequest; KIP-98, KIP-699, KIP-932.

use crate::api::RequestContext;
use crate::api::cluster_view::{BrokerNode, Viewpoint};
use crate::api::metadata::MetadataApi;
use crate::coordinator::partition_for;
use crate::network::Pending;
use kavka_common::NodeId;
use kavka_common::topic::{GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC};
use kavka_metadata::MetadataImage;
use kavka_protocol::messages::find_coordinator_response::Coordinator;
use kavka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kavka_protocol::{ErrorCode, StrBytes};

/// From this version on a request names several keys.
const BATCHED_FROM: i16 = 4;
/// The first version that knows share partitions.
const SHARE_FROM: i16 = 6;

pub fn handle(
    api: &MetadataApi,
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> Pending {
    let topic = match topic_of(context.api_version, request.key_type) {
        Some(topic) if !api.cache.image().topics.contains(topic) => topic,
        Some(_) | None => {
            let response = answer_from(api, &context, &request);
            return context.ready(&response);
        }
    };
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

/// The topic whose partitions coordinate keys of this type.
fn topic_of(api_version: i16, key_type: i8) -> Option<&'static str> {
    match key_type {
        0 => Some(GROUP_METADATA_TOPIC),
        1 => Some(TRANSACTION_STATE_TOPIC),
        2 if api_version >= SHARE_FROM => Some(SHARE_GROUP_STATE_TOPIC),
        _ => None,
    }
}

/// The answer from an image.
pub fn answer(
    image: &MetadataImage,
    viewpoint: &Viewpoint,
    api_version: i16,
    request: &FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let find = |key: &str| {
        find(
            image,
            viewpoint,
            topic_of(api_version, request.key_type),
            request.key_type,
            key,
        )
    };
    if api_version < BATCHED_FROM {
        let (error, node) = find(&request.key);
        return FindCoordinatorResponse {
            error_code: error.code(),
            error_message: Some(message_of(error)),
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
                let (error, node) = find(key);
                Coordinator {
                    key: key.clone(),
                    node_id: node.broker_id.get(),
                    host: node.host.into(),
                    port: node.port,
                    error_code: error.code(),
                    error_message: match error {
                        ErrorCode::None => Some(StrBytes::default()),
                        error => Some(message_of(error)),
                    },
                    ..Default::default()
                }
            })
            .collect(),
        ..Default::default()
    }
}

fn message_of(error: ErrorCode) -> StrBytes {
    match error {
        // As Java prints the constant.
        ErrorCode::None => "NONE".into(),
        error => error.message().into(),
    }
}

fn find(
    image: &MetadataImage,
    viewpoint: &Viewpoint,
    topic: Option<&str>,
    key_type: i8,
    key: &str,
) -> (ErrorCode, BrokerNode) {
    let nobody = |error| {
        let node = BrokerNode {
            broker_id: NodeId::NONE,
            host: String::new(),
            port: -1,
            rack: None,
            is_fenced: false,
        };
        (error, node)
    };
    const SHARE: i8 = 2;
    // A share partition is named `group:topic id:partition`.
    let is_whole =
        key_type != SHARE || key.rsplitn(3, ':').filter(|part| !part.is_empty()).count() == 3;
    let Some(topic) = topic.filter(|_| is_whole) else {
        return nobody(ErrorCode::InvalidRequest);
    };
    let leader = image.topics.by_name(topic).and_then(|topic| {
        let partitions = i32::try_from(topic.partitions.size()).ok()?;
        let partition = topic.partition(partition_for(key, partitions))?;
        let broker = image
            .cluster
            .broker(partition.leader)
            .filter(|broker| !broker.fenced)?;
        viewpoint.node(broker)
    });
    match leader {
        Some(node) => (ErrorCode::None, node),
        None => nobody(ErrorCode::CoordinatorNotAvailable),
    }
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
            (6, 1, "t", ErrorCode::CoordinatorNotAvailable),
            (6, 3, "t", ErrorCode::InvalidRequest),
            (5, 2, "g:id:0", ErrorCode::InvalidRequest),
            (6, 2, "g", ErrorCode::InvalidRequest),
            (6, 2, "g:id:0", ErrorCode::CoordinatorNotAvailable),
        ] {
            assert_eq!(ask(version, key_type, key), (error, -1, String::new(), -1));
        }
    }
}
