//! DescribeTopicPartitions: topics page by page, with eligible leader replicas.
//! Not here: endpoints (cluster_view.rs).
//! Answers at once from the image.
//! Kafka: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse; KIP-966.

use crate::api::RequestContext;
use crate::api::cluster_view::{TOPIC_OPERATIONS, Viewpoint};
use crate::metadata::MetadataCache;
use kavka_common::Uuid;
use kavka_common::topic::{is_internal, validate_topic_name};
use kavka_config::BrokerConfig;
use kavka_metadata::topics::raw_ids;
use kavka_metadata::{MetadataImage, TopicImage};
use kavka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kavka_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeSet;

pub fn handle(
    cache: &MetadataCache,
    config: &BrokerConfig,
    context: &RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let viewpoint = Viewpoint::new(config, context);
    let limit = config.int("max.request.partition.size.limit");
    answer(&cache.image(), &viewpoint, limit, &request)
}

/// The answer from an image. `limit` bounds what one response may hold.
pub fn answer(
    image: &MetadataImage,
    viewpoint: &Viewpoint,
    limit: i32,
    request: &DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let cursor_topic = request
        .cursor
        .as_ref()
        .map_or("", |cursor| &*cursor.topic_name);
    let cursor_partition = request
        .cursor
        .as_ref()
        .map_or(0, |cursor| cursor.partition_index);
    let asked: BTreeSet<&StrBytes> = request.topics.iter().map(|topic| &topic.name).collect();
    let is_bad_cursor = request.cursor.is_some()
        && (cursor_partition < 0
            || (!asked.is_empty() && !asked.iter().any(|name| &***name == cursor_topic)));
    if is_bad_cursor {
        return refuse_all(&asked);
    }
    let wants_all = asked.is_empty();
    let names: Vec<StrBytes> = if wants_all {
        image
            .topics
            .iter_from(cursor_topic)
            .map(|topic| (&*topic.name).into())
            .collect()
    } else {
        asked
            .into_iter()
            .filter(|name| &***name >= cursor_topic)
            .cloned()
            .collect()
    };
    let most = limit.min(request.response_partition_limit).max(1);
    let mut remaining = usize::try_from(most).unwrap_or(1);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        if remaining == 0 {
            response.next_cursor = Some(cursor(name, 0));
            break;
        }
        let Some(topic) = image.topics.by_name(&name) else {
            if !wants_all {
                response.topics.push(missing(name));
            }
            continue;
        };
        let first = if &*name == cursor_topic {
            cursor_partition
        } else {
            0
        };
        let partitions = partitions(image, viewpoint, topic, first, remaining);
        remaining -= partitions.len();
        let next = first.saturating_add(i32::try_from(partitions.len()).unwrap_or(i32::MAX));
        let has_more = topic.partitions.range(next..).next().is_some();
        response.topics.push(DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::None.code(),
            name: Some(name.clone()),
            topic_id: topic.id,
            is_internal: is_internal(&topic.name),
            partitions,
            topic_authorized_operations: TOPIC_OPERATIONS,
            ..Default::default()
        });
        if has_more {
            response.next_cursor = Some(cursor(name, next));
            break;
        }
    }
    response
}

fn cursor(topic_name: StrBytes, partition_index: i32) -> Cursor {
    Cursor {
        topic_name,
        partition_index,
        ..Default::default()
    }
}

/// The response has no error of its own: each topic carries it.
fn refuse_all(asked: &BTreeSet<&StrBytes>) -> DescribeTopicPartitionsResponse {
    DescribeTopicPartitionsResponse {
        topics: asked
            .iter()
            .map(|name| DescribeTopicPartitionsResponseTopic {
                error_code: ErrorCode::InvalidRequest.code(),
                name: Some((*name).clone()),
                is_internal: false,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn missing(name: StrBytes) -> DescribeTopicPartitionsResponseTopic {
    let error = match validate_topic_name(&name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        is_internal: is_internal(&name),
        name: Some(name),
        topic_id: Uuid::ZERO,
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..Default::default()
    }
}

fn partitions(
    image: &MetadataImage,
    viewpoint: &Viewpoint,
    topic: &TopicImage,
    first: i32,
    most: usize,
) -> Vec<DescribeTopicPartitionsResponsePartition> {
    topic
        .partitions
        .range(first..)
        .take(most)
        .map(|(index, partition)| {
            let view = viewpoint.partition(image, partition, false, true);
            DescribeTopicPartitionsResponsePartition {
                error_code: view.error.code(),
                partition_index: *index,
                leader_id: view.leader_id,
                leader_epoch: partition.leader_epoch.get(),
                replica_nodes: view.replicas,
                isr_nodes: view.isr,
                eligible_leader_replicas: Some(raw_ids(&partition.elr)),
                last_known_elr: Some(raw_ids(&partition.last_known_elr)),
                offline_replicas: view.offline_replicas,
                ..Default::default()
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "describe_topic_partitions_test.rs"]
mod describe_topic_partitions_test;
