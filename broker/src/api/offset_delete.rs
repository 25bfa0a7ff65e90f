//! OffsetDelete. Not here: the group's rules (crates/coordinator).
//! Submitted in the order of arrival in the connection's task.
//! Kafka: KafkaApis.handleOffsetDeleteRequest.

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use crate::network::Pending;
use kavka_coordinator::group::{GroupRequest, GroupResponse};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kavka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use std::sync::Arc;

pub fn handle(
    groups: &Arc<GroupCoordinator>,
    context: RequestContext,
    mut request: OffsetDeleteRequest,
) -> Pending {
    let image = groups.image();
    // Topics that do not exist are answered here; the coordinator sees the rest.
    let mut answers = Vec::new();
    for topic in &request.topics {
        let partitions = topic
            .partitions
            .iter()
            .map(|partition| {
                let index = partition.partition_index;
                let known = image.topics.partition(&topic.name, index).is_some();
                OffsetDeleteResponsePartition {
                    partition_index: index,
                    error_code: if known {
                        ErrorCode::None.code()
                    } else {
                        ErrorCode::UnknownTopicOrPartition.code()
                    },
                    ..Default::default()
                }
            })
            .collect();
        answers.push(OffsetDeleteResponseTopic {
            name: topic.name.clone(),
            partitions,
            ..Default::default()
        });
    }
    for topic in &mut request.topics {
        let name = topic.name.clone();
        topic
            .partitions
            .retain(|p| image.topics.partition(&name, p.partition_index).is_some());
    }
    request.topics.retain(|topic| !topic.partitions.is_empty());
    let group_id = request.group_id.clone();
    let answer = groups.submit(&group_id, GroupRequest::OffsetDelete(request));
    context.later(async move {
        let code = match answer.await {
            Ok(GroupResponse::OffsetDelete(response))
                if response.error_code == ErrorCode::None.code() =>
            {
                merge(&mut answers, &response);
                return OffsetDeleteResponse {
                    topics: answers,
                    ..Default::default()
                };
            }
            Ok(GroupResponse::OffsetDelete(response)) => response.error_code,
            Ok(_) => ErrorCode::UnknownServerError.code(),
            Err(code) => code.code(),
        };
        OffsetDeleteResponse {
            error_code: code,
            ..Default::default()
        }
    })
}

fn merge(answers: &mut [OffsetDeleteResponseTopic], response: &OffsetDeleteResponse) {
    for from in &response.topics {
        let Some(topic) = answers.iter_mut().find(|topic| topic.name == from.name) else {
            continue;
        };
        for given in &from.partitions {
            for slot in &mut topic.partitions {
                if slot.partition_index == given.partition_index {
                    slot.error_code = given.error_code;
                }
            }
        }
    }
}
