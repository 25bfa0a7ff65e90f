//! Elections of leaders that somebody asks for.
//! Not here: the elections that the controller holds by itself.
//! Runs on the caller's task. Kafka: Admin.electLeaders; KIP-460.

use super::{ItemResult, outcome};
use crate::{ClientError, Cluster};
use kavka_common::TopicPartition;
use kavka_protocol::messages::ElectLeadersRequest;
use kavka_protocol::messages::elect_leaders_request::TopicPartitions;
use std::collections::BTreeMap;

/// Who may become the leader; the numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionType {
    /// The first replica of the list, if it is in sync.
    Preferred = 0,
    /// Any living replica, for partitions without a leader: records may be lost.
    Unclean = 1,
}

impl ElectionType {
    /// Java's name of it.
    pub fn name(self) -> &'static str {
        match self {
            ElectionType::Preferred => "PREFERRED",
            ElectionType::Unclean => "UNCLEAN",
        }
    }
}

/// Elects leaders of the given partitions; each has an outcome of its own. `None`: of all partitions, of which the
/// answer leaves out those that need no election.
pub async fn elect_leaders(
    cluster: &mut Cluster,
    election_type: ElectionType,
    partitions: Option<&[TopicPartition]>,
) -> Result<Vec<(TopicPartition, ItemResult<()>)>, ClientError> {
    let request = ElectLeadersRequest {
        election_type: election_type as i8,
        topic_partitions: partitions.map(|partitions| {
            by_topic(partitions)
                .into_iter()
                .map(|(topic, partitions)| TopicPartitions {
                    topic: topic.into(),
                    partitions,
                    ..Default::default()
                })
                .collect()
        }),
        timeout_ms: cluster.server_timeout_ms(),
        ..Default::default()
    };
    let mut answer = cluster
        .retrying("electLeaders", async |cluster| {
            let answer = cluster.call_controller("electLeaders", &request).await?;
            outcome(answer.error_code, None)?;
            Ok(answer)
        })
        .await?;
    Ok(std::mem::take(&mut answer.replica_election_results)
        .into_iter()
        .flat_map(|topic| {
            let name = topic.topic.to_string();
            topic.partition_result.into_iter().map(move |partition| {
                (
                    TopicPartition::new(name.as_str(), partition.partition_id),
                    outcome(partition.error_code, partition.error_message.as_ref()),
                )
            })
        })
        .collect())
}

/// Partitions of each topic, topics and partitions in the order in which they were first named.
pub(super) fn by_topic(partitions: &[TopicPartition]) -> Vec<(&str, Vec<i32>)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut topics: Vec<(&str, Vec<i32>)> = Vec::new();
    for partition in partitions {
        let place = *places.entry(&partition.topic).or_insert_with(|| {
            topics.push((&partition.topic, Vec::new()));
            topics.len() - 1
        });
        topics[place].1.push(partition.partition);
    }
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_go_by_topic() {
        let all = [("b", 1), ("a", 0), ("b", 0)].map(|(t, p)| TopicPartition::new(t, p));
        assert_eq!(by_topic(&all), [("b", vec![1, 0]), ("a", vec![0])]);
    }
}
