//! OffsetFetch: committed offsets of one or several groups.
//! Not here: how they are stored (crates/coordinator).
//! Runs in the connection's task; looks at the groups' shards.
//! Kafka: KafkaApis.handleOffsetFetchRequest; KIP-709, KIP-848 (topic ids).

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use kavka_metadata::MetadataImage;
use kavka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kavka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kavka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse};
use kavka_protocol::{ErrorCode, StrBytes};

const GROUPS_SINCE: i16 = 8;
const TOPIC_IDS_SINCE: i16 = 10;
/// From this version on a failure is said once, at the top; before, at each partition.
const TOP_LEVEL_ERROR_SINCE: i16 = 2;

pub fn handle(
    groups: &GroupCoordinator,
    context: &RequestContext,
    request: &OffsetFetchRequest,
) -> OffsetFetchResponse {
    let image = groups.image();
    let version = context.api_version;
    if version >= GROUPS_SINCE {
        let by_id = version >= TOPIC_IDS_SINCE;
        return OffsetFetchResponse {
            groups: request
                .groups
                .iter()
                .map(|group| fetch(groups, &image, group, by_id))
                .collect(),
            ..Default::default()
        };
    }
    let one = OffsetFetchRequestGroup {
        group_id: request.group_id.clone(),
        topics: request.topics.as_ref().map(|topics| {
            topics
                .iter()
                .map(|topic| OffsetFetchRequestTopics {
                    name: topic.name.clone(),
                    partition_indexes: topic.partition_indexes.clone(),
                    ..Default::default()
                })
                .collect()
        }),
        ..Default::default()
    };
    let answer = fetch(groups, &image, &one, false);
    let failed = answer.error_code;
    let mut topics = answer.topics;
    if failed != ErrorCode::None.code() && version < TOP_LEVEL_ERROR_SINCE {
        topics = at_each_partition(&one, failed);
    }
    OffsetFetchResponse {
        error_code: failed,
        topics: topics.into_iter().map(single_group_topic).collect(),
        ..Default::default()
    }
}

fn fetch(
    groups: &GroupCoordinator,
    image: &MetadataImage,
    group: &OffsetFetchRequestGroup,
    by_id: bool,
) -> OffsetFetchResponseGroup {
    let failed = |code: ErrorCode| OffsetFetchResponseGroup {
        group_id: group.group_id.clone(),
        error_code: code.code(),
        ..Default::default()
    };
    let host = match groups.host(&group.group_id) {
        Ok(host) => host,
        Err(code) => return failed(code),
    };
    let mut asked = group.clone();
    let mut unknown = Vec::new();
    if by_id && let Some(topics) = &mut asked.topics {
        topics.retain_mut(|topic| match image.topics.name_of(&topic.topic_id) {
            Some(name) => {
                topic.name = StrBytes::from(&**name);
                true
            }
            None => {
                unknown.push(without_offsets(topic, ErrorCode::UnknownTopicId.code()));
                false
            }
        });
    }
    match host.read(|shard| shard.fetch_offsets(&asked)) {
        Ok(mut answer) => {
            if by_id && group.topics.is_none() {
                // Offsets of a topic that is gone cannot be named by an id that still means something.
                answer
                    .topics
                    .retain_mut(|topic| match image.topics.id_of(&topic.name) {
                        Some(id) => {
                            topic.topic_id = id;
                            true
                        }
                        None => false,
                    });
            }
            answer.topics.extend(unknown);
            answer
        }
        Err(code) => failed(code),
    }
}

fn without_offsets(topic: &OffsetFetchRequestTopics, code: i16) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partition_indexes
            .iter()
            .map(|partition| OffsetFetchResponsePartitions {
                partition_index: *partition,
                committed_offset: -1,
                metadata: Some(StrBytes::default()),
                error_code: code,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn at_each_partition(group: &OffsetFetchRequestGroup, code: i16) -> Vec<OffsetFetchResponseTopics> {
    let topics = group.topics.iter().flatten();
    topics.map(|topic| without_offsets(topic, code)).collect()
}

fn single_group_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| OffsetFetchResponsePartition {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata,
                error_code: partition.error_code,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}
