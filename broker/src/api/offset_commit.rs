//! OffsetCommit. Not here: who may commit and how it is stored (crates/coordinator).
//! Submitted in the order of arrival in the connection's task; topics that do not exist are answered here.
//! Kafka: KafkaApis.handleOffsetCommitRequest; KIP-848 (topic ids).

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use crate::network::Pending;
use kavka_coordinator::group::{GroupRequest, GroupResponse};
use kavka_metadata::MetadataImage;
use kavka_protocol::messages::offset_commit_request::OffsetCommitRequestTopic;
use kavka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kavka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use kavka_protocol::{ErrorCode, StrBytes};
use std::sync::Arc;

/// From this version on topics are named by id.
const TOPIC_IDS_SINCE: i16 = 10;
/// Clients of older versions take a group that is not there for one of another generation (KIP-848).
const GROUP_NOT_FOUND_SINCE: i16 = 9;

pub fn handle(
    groups: &Arc<GroupCoordinator>,
    context: RequestContext,
    mut request: OffsetCommitRequest,
) -> Pending {
    let image = groups.image();
    let by_id = context.api_version >= TOPIC_IDS_SINCE;
    let asked = std::mem::take(&mut request.topics);
    // What the answer looks like, in the order of the request; known topics are filled in from the coordinator.
    let mut answers: Vec<OffsetCommitResponseTopic> = Vec::with_capacity(asked.len());
    for mut topic in asked {
        let known = resolve(&image, &mut topic, by_id);
        answers.push(refused(&topic, known.err().unwrap_or(ErrorCode::None)));
        if known.is_ok() {
            let partitions = std::mem::take(&mut topic.partitions);
            topic.partitions = partitions
                .into_iter()
                .zip(&mut answers.last_mut().expect("just pushed").partitions)
                .filter_map(|(partition, answer)| {
                    if exists(&image, &topic.name, partition.partition_index) {
                        return Some(partition);
                    }
                    answer.error_code = ErrorCode::UnknownTopicOrPartition.code();
                    None
                })
                .collect();
            if !topic.partitions.is_empty() {
                request.topics.push(topic);
            }
        }
    }
    if request.topics.is_empty() {
        return context.ready(&OffsetCommitResponse {
            topics: answers,
            ..Default::default()
        });
    }
    let group_not_found = if context.api_version >= GROUP_NOT_FOUND_SINCE {
        ErrorCode::GroupIdNotFound
    } else {
        ErrorCode::IllegalGeneration
    };
    let group_id = request.group_id.clone();
    let answer = groups.submit(&group_id, GroupRequest::OffsetCommit(request));
    context.later(async move {
        match answer.await {
            Ok(GroupResponse::OffsetCommit(response)) => {
                fill(&mut answers, response, group_not_found);
            }
            Ok(_) => fail(&mut answers, ErrorCode::UnknownServerError),
            Err(code) => fail(&mut answers, code),
        }
        OffsetCommitResponse {
            topics: answers,
            ..Default::default()
        }
    })
}

/// Completes name and id; the error that a topic without one of them gets.
fn resolve(
    image: &MetadataImage,
    topic: &mut OffsetCommitRequestTopic,
    by_id: bool,
) -> Result<(), ErrorCode> {
    if by_id {
        let name = image
            .topics
            .name_of(&topic.topic_id)
            .ok_or(ErrorCode::UnknownTopicId)?;
        topic.name = StrBytes::from(&**name);
    } else {
        topic.topic_id = image
            .topics
            .id_of(&topic.name)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    }
    Ok(())
}

fn exists(image: &MetadataImage, topic: &str, partition: i32) -> bool {
    image.topics.partition(topic, partition).is_some()
}

fn refused(topic: &OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic {
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// Puts the coordinator's answers where nothing else was said.
fn fill(
    answers: &mut [OffsetCommitResponseTopic],
    response: OffsetCommitResponse,
    group_not_found: ErrorCode,
) {
    let mut given = response.topics.into_iter();
    for topic in answers {
        let open = |p: &&mut OffsetCommitResponsePartition| p.error_code == ErrorCode::None.code();
        let mut slots = topic.partitions.iter_mut().filter(open).peekable();
        if slots.peek().is_none() {
            continue;
        }
        let Some(from) = given.next() else { return };
        for (slot, partition) in slots.zip(from.partitions) {
            slot.error_code = match ErrorCode::from(partition.error_code) {
                ErrorCode::GroupIdNotFound => group_not_found.code(),
                _ => partition.error_code,
            };
        }
    }
}

fn fail(answers: &mut [OffsetCommitResponseTopic], code: ErrorCode) {
    for partition in answers.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if partition.error_code == ErrorCode::None.code() {
            partition.error_code = code.code();
        }
    }
}
