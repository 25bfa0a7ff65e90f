//! Descriptions of topics: by DescribeTopicPartitions in pages, from older brokers and by id through Metadata.
//! Not here: settings of topics (configs).
//! Runs on the caller's task. Kafka: Admin.describeTopics; KIP-966, KIP-516.

use super::{ItemResult, outcome};
use crate::{ClientError, Cluster};
use kavka_common::{NodeId, Uuid};
use kavka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kavka_protocol::messages::describe_topic_partitions_response::DescribeTopicPartitionsResponseTopic;
use kavka_protocol::messages::metadata_request::MetadataRequestTopic;
use kavka_protocol::messages::metadata_response::MetadataResponseTopic;
use kavka_protocol::messages::{DescribeTopicPartitionsRequest, MetadataRequest};
use kavka_protocol::{ApiKey, ErrorCode};

/// Java's default of `partitionSizeLimitPerResponse`.
pub const PARTITIONS_PER_RESPONSE: i32 = 2000;

/// One partition as the brokers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionDescription {
    pub partition: i32,
    pub leader: Option<i32>,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    /// Eligible leader replicas; `None` from brokers that do not tell.
    pub elr: Option<Vec<i32>>,
    pub last_known_elr: Option<Vec<i32>>,
}

/// A topic with its partitions, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicDescription {
    pub name: String,
    pub topic_id: Uuid,
    pub is_internal: bool,
    pub partitions: Vec<PartitionDescription>,
}

fn leader(id: i32) -> Option<i32> {
    (NodeId(id) != NodeId::NONE).then_some(id)
}

/// Describes topics by name; each has an outcome of its own, in the order of `names`.
pub async fn by_name(
    cluster: &mut Cluster,
    names: &[String],
    partitions_per_response: i32,
) -> Result<Vec<(String, ItemResult<TopicDescription>)>, ClientError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    match in_pages(cluster, names, partitions_per_response).await {
        Err(ClientError::UnsupportedApi {
            api: ApiKey::DescribeTopicPartitions,
        }) => by_metadata(cluster, names).await,
        result => result,
    }
}

async fn in_pages(
    cluster: &mut Cluster,
    names: &[String],
    partitions_per_response: i32,
) -> Result<Vec<(String, ItemResult<TopicDescription>)>, ClientError> {
    // The broker pages in the order of names, and so must we, to continue where it stopped.
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    sorted.dedup();
    let mut found: Vec<(String, ItemResult<TopicDescription>)> = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let from = cursor.as_ref().map(|cursor| cursor.topic_name.to_string());
        let request = DescribeTopicPartitionsRequest {
            topics: sorted
                .iter()
                .filter(|name| {
                    from.as_ref()
                        .is_none_or(|from| name.as_str() >= from.as_str())
                })
                .map(|name| TopicRequest {
                    name: name.as_str().into(),
                    ..Default::default()
                })
                .collect(),
            response_partition_limit: partitions_per_response,
            cursor: cursor.take(),
            ..Default::default()
        };
        let answer = cluster
            .call_any("describeTopicPartitions", &request)
            .await?;
        for topic in answer.topics {
            add_page(&mut found, topic);
        }
        match answer.next_cursor {
            None => break,
            Some(next) => {
                let next = Cursor {
                    topic_name: next.topic_name,
                    partition_index: next.partition_index,
                    ..Default::default()
                };
                if request.cursor.is_none()
                    && from.as_deref() == Some(&*next.topic_name)
                    && next.partition_index == 0
                {
                    return Err(ClientError::Config(
                        "the broker's pages of partitions do not advance".into(),
                    ));
                }
                cursor = Some(next);
            }
        }
    }
    Ok(in_order(names, found))
}

/// A topic may be cut at a page's end and go on with the next one.
fn add_page(
    found: &mut Vec<(String, ItemResult<TopicDescription>)>,
    topic: DescribeTopicPartitionsResponseTopic,
) {
    let name = topic.name.map(|name| name.to_string()).unwrap_or_default();
    let partitions = topic
        .partitions
        .into_iter()
        .map(|partition| PartitionDescription {
            partition: partition.partition_index,
            leader: leader(partition.leader_id),
            replicas: partition.replica_nodes,
            isr: partition.isr_nodes,
            elr: Some(partition.eligible_leader_replicas.unwrap_or_default()),
            last_known_elr: Some(partition.last_known_elr.unwrap_or_default()),
        });
    if let Some((_, Ok(known))) = found.iter_mut().find(|(known, _)| *known == name) {
        known.partitions.extend(partitions);
        return;
    }
    let description = outcome(topic.error_code, None).map(|()| TopicDescription {
        name: name.clone(),
        topic_id: topic.topic_id,
        is_internal: topic.is_internal,
        partitions: partitions.collect(),
    });
    found.push((name, description));
}

fn in_order(
    names: &[String],
    mut found: Vec<(String, ItemResult<TopicDescription>)>,
) -> Vec<(String, ItemResult<TopicDescription>)> {
    names
        .iter()
        .map(|name| {
            let at = found.iter().position(|(known, _)| known == name);
            match at.map(|at| found.swap_remove(at)) {
                Some((name, Ok(mut topic))) => {
                    topic.partitions.sort_by_key(|p| p.partition);
                    (name, Ok(topic))
                }
                Some(failed) => failed,
                None => (name.clone(), Err(unknown_topic())),
            }
        })
        .collect()
}

fn unknown_topic() -> ClientError {
    ClientError::Refused {
        code: ErrorCode::UnknownTopicOrPartition,
        message: None,
    }
}

async fn by_metadata(
    cluster: &mut Cluster,
    names: &[String],
) -> Result<Vec<(String, ItemResult<TopicDescription>)>, ClientError> {
    let names_borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
    let answer = cluster
        .metadata("describeTopics", Some(&names_borrowed))
        .await?;
    let found = answer
        .topics
        .into_iter()
        .map(|topic| {
            let name = topic.name.as_ref().map(|name| name.to_string());
            (name.unwrap_or_default(), description(topic))
        })
        .collect();
    Ok(in_order(names, found))
}

/// Describes topics by id; each has an outcome of its own.
pub async fn by_id(
    cluster: &mut Cluster,
    ids: &[Uuid],
) -> Result<Vec<(Uuid, ItemResult<TopicDescription>)>, ClientError> {
    let request = MetadataRequest {
        topics: Some(
            ids.iter()
                .map(|id| MetadataRequestTopic {
                    topic_id: *id,
                    name: None,
                    ..Default::default()
                })
                .collect(),
        ),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let answer = cluster.call_any("describeTopics", &request).await?;
    Ok(answer
        .topics
        .into_iter()
        .map(|topic| (topic.topic_id, description(topic)))
        .collect())
}

fn description(topic: MetadataResponseTopic) -> ItemResult<TopicDescription> {
    outcome(topic.error_code, None)?;
    let mut partitions: Vec<PartitionDescription> = topic
        .partitions
        .into_iter()
        .map(|partition| PartitionDescription {
            partition: partition.partition_index,
            leader: leader(partition.leader_id),
            replicas: partition.replica_nodes,
            isr: partition.isr_nodes,
            elr: None,
            last_known_elr: None,
        })
        .collect();
    partitions.sort_by_key(|p| p.partition);
    Ok(TopicDescription {
        name: topic.name.map(|name| name.to_string()).unwrap_or_default(),
        topic_id: topic.topic_id,
        is_internal: topic.is_internal,
        partitions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_protocol::messages::describe_topic_partitions_response::DescribeTopicPartitionsResponsePartition;

    fn page(name: &str, partitions: &[i32]) -> DescribeTopicPartitionsResponseTopic {
        DescribeTopicPartitionsResponseTopic {
            name: Some(name.into()),
            partitions: partitions
                .iter()
                .map(|index| DescribeTopicPartitionsResponsePartition {
                    partition_index: *index,
                    leader_id: index % 2 - 1,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_topic_cut_by_pages_is_put_together() {
        let mut found = Vec::new();
        add_page(&mut found, page("a", &[0]));
        add_page(&mut found, page("b", &[1, 0]));
        add_page(&mut found, page("b", &[2]));
        let names = ["b", "missing", "a"].map(str::to_owned);
        let topics = in_order(&names, found);
        let b = topics[0].1.as_ref().unwrap();
        assert_eq!(
            b.partitions.iter().map(|p| p.partition).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(
            (b.partitions[0].leader, b.partitions[1].leader),
            (None, Some(0))
        );
        assert_eq!(
            topics[1].1.as_ref().unwrap_err().code(),
            Some(ErrorCode::UnknownTopicOrPartition)
        );
        assert_eq!(topics[2].0, "a");
    }
}
