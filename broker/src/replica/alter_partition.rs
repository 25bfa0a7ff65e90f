//! Has the ISRs that leaders here propose registered by the controller.
//! Not here: what to propose and what an answer means (kavka_replication::Leader), the way to the controller.
//! One task, one request at a time; what is proposed meanwhile goes into the next.
//! Kafka: DefaultAlterPartitionManager, Partition.handleAlterPartitionError; KIP-497, KIP-841, KIP-903.

use crate::controller::ControllerChannel;
use crate::replica::manager::ReplicaManager;
use crate::replica::partition::{IsrAnswer, IsrProposal};
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicIdPartition, Uuid};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use kavka_protocol::messages::alter_partition_response as response;
use kavka_protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, info, warn};

const LOGGER: &str = "kafka.server.DefaultAlterPartitionManager";
/// Pause before what failed is tried again.
const RETRY: Duration = Duration::from_millis(50);

pub type Proposals = BTreeMap<TopicIdPartition, IsrProposal>;
pub type Answered = Vec<(IsrProposal, IsrAnswer)>;

/// The task; ends when the replica manager is gone, or is aborted.
pub async fn run(
    replicas: Arc<ReplicaManager>,
    channel: Arc<ControllerChannel>,
    broker_epoch: watch::Receiver<BrokerEpoch>,
) {
    let Some(mut proposed) = replicas.take_isr_proposals() else {
        return;
    };
    while let Some(first) = proposed.recv().await {
        let mut proposals = Proposals::from([(first.topic_partition.clone(), first)]);
        while let Ok(next) = proposed.try_recv() {
            proposals.insert(next.topic_partition.clone(), next);
        }
        let broker_epoch = *broker_epoch.borrow();
        let request = request(replicas.local(), broker_epoch, &proposals);
        let answers = match channel.call(request).await {
            Ok(response) => answers(&response),
            Err(e) => Err(e.to_string()),
        };
        let answers = answers.unwrap_or_else(|reason| {
            warn!(target: LOGGER, "{} changes of in-sync sets are not registered yet: {reason}", proposals.len());
            BTreeMap::new()
        });
        let (settled, open) = settle(proposals, &answers);
        deliver(&replicas, settled);
        if !open.is_empty() {
            sleep(RETRY).await;
            deliver(&replicas, open);
        }
    }
}

/// What became of each proposal: what is settled, and what may be registered or not. The latter is proposed again, after
/// a pause, until metadata settles it.
fn settle(proposals: Proposals, answers: &Answers) -> (Answered, Answered) {
    proposals
        .into_values()
        .map(|proposal| {
            let id = &proposal.topic_partition;
            let key = (id.topic_id, id.topic_partition.partition);
            let answer = answers.get(&key).cloned().unwrap_or(IsrAnswer::Unknown);
            (proposal, answer)
        })
        .partition(|(_, answer)| !matches!(answer, IsrAnswer::Unknown | IsrAnswer::Rejected))
}

/// As `settle`, from what the controller answered, or did not.
pub fn settle_response(
    proposals: Proposals,
    response: Option<&AlterPartitionResponse>,
) -> (Answered, Answered) {
    let answers = response.and_then(|response| answers(response).ok());
    settle(proposals, &answers.unwrap_or_default())
}

/// Tells the partitions what became of their proposals.
pub fn deliver(replicas: &ReplicaManager, answered: Answered) {
    for (proposal, answer) in answered {
        let id = &proposal.topic_partition;
        let tp = &id.topic_partition;
        let members: Vec<i32> = proposal.isr.iter().map(|(id, _)| id.get()).collect();
        match &answer {
            IsrAnswer::Accepted {
                isr,
                partition_epoch,
                ..
            } => {
                info!(target: "kafka.cluster.Partition", "[Partition {tp} broker={}] ISR updated to {isr:?} and version updated to {partition_epoch}", replicas.local());
            }
            IsrAnswer::Rejected | IsrAnswer::Superseded | IsrAnswer::Unknown => {
                debug!(target: LOGGER, "ISR {members:?} of {tp}: {answer:?}");
            }
        }
        if let Ok(partition) = replicas.partition(&tp.topic, tp.partition)
            && partition.topic_id() == id.topic_id
        {
            partition.isr_answered(&proposal, answer);
        }
    }
}

/// The request for these proposals.
pub fn request(
    local: NodeId,
    broker_epoch: BrokerEpoch,
    proposals: &Proposals,
) -> AlterPartitionRequest {
    let mut topics: Vec<TopicData> = Vec::new();
    for (id, proposal) in proposals {
        // sorted by topic id
        if topics.last().map(|topic| topic.topic_id) != Some(id.topic_id) {
            topics.push(TopicData {
                topic_id: id.topic_id,
                ..Default::default()
            });
        }
        let members = proposal.isr.iter().map(|(member, epoch)| BrokerState {
            broker_id: member.get(),
            broker_epoch: if *member == local {
                broker_epoch.get()
            } else {
                epoch.get()
            },
            ..Default::default()
        });
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(PartitionData {
                partition_index: id.topic_partition.partition,
                leader_epoch: proposal.leader_epoch.get(),
                new_isr_with_epochs: members.collect(),
                partition_epoch: proposal.partition_epoch.get(),
                ..Default::default()
            });
        }
    }
    AlterPartitionRequest {
        broker_id: local.get(),
        broker_epoch: broker_epoch.get(),
        topics,
        ..Default::default()
    }
}

type Answers = BTreeMap<(Uuid, i32), IsrAnswer>;

fn answers(response: &AlterPartitionResponse) -> Result<Answers, String> {
    match ErrorCode::from(response.error_code) {
        ErrorCode::None => {}
        code => return Err(format!("the controller answers {}", code.name())),
    }
    let partitions = response.topics.iter().flat_map(|topic| {
        topic
            .partitions
            .iter()
            .map(|p| ((topic.topic_id, p.partition_index), answer(p)))
    });
    Ok(partitions.collect())
}

fn answer(partition: &response::PartitionData) -> IsrAnswer {
    match ErrorCode::from(partition.error_code) {
        ErrorCode::None => IsrAnswer::Accepted {
            isr: partition.isr.iter().copied().map(NodeId).collect(),
            leader_epoch: LeaderEpoch(partition.leader_epoch),
            partition_epoch: PartitionEpoch(partition.partition_epoch),
        },
        // the controller vouches for the partition epoch, and that no controller has applied this or ever will
        ErrorCode::IneligibleReplica | ErrorCode::OperationNotAttempted => IsrAnswer::Rejected,
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::InvalidUpdateVersion
        | ErrorCode::InvalidRequest
        | ErrorCode::NewLeaderElected => IsrAnswer::Superseded,
        _ => IsrAnswer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_common::TopicPartition;

    fn proposal(topic: u8, partition: i32) -> IsrProposal {
        IsrProposal {
            topic_partition: TopicIdPartition {
                topic_id: Uuid::from_bytes([topic; 16]),
                topic_partition: TopicPartition::new("t", partition),
            },
            isr: vec![
                (NodeId(1), BrokerEpoch::UNKNOWN),
                (NodeId(2), BrokerEpoch(9)),
            ],
            leader_epoch: LeaderEpoch(3),
            partition_epoch: PartitionEpoch(4),
        }
    }

    #[test]
    fn proposals_of_one_topic_share_its_entry() {
        let proposals = [proposal(1, 0), proposal(2, 0), proposal(1, 1)]
            .into_iter()
            .map(|proposal| (proposal.topic_partition.clone(), proposal))
            .collect();
        let request = request(NodeId(1), BrokerEpoch(7), &proposals);
        let topics: Vec<usize> = request.topics.iter().map(|t| t.partitions.len()).collect();
        assert_eq!(topics, [2, 1]);
        let members = &request.topics[0].partitions[0].new_isr_with_epochs;
        let epochs: Vec<i64> = members.iter().map(|member| member.broker_epoch).collect();
        assert_eq!(epochs, [7, 9], "the own epoch is the broker's");
    }

    #[test]
    fn only_what_cannot_have_been_applied_is_rejected() {
        let of = |code: ErrorCode| {
            answer(&response::PartitionData {
                error_code: code.code(),
                ..Default::default()
            })
        };
        assert_eq!(of(ErrorCode::IneligibleReplica), IsrAnswer::Rejected);
        assert_eq!(of(ErrorCode::FencedLeaderEpoch), IsrAnswer::Superseded);
        assert_eq!(of(ErrorCode::InvalidUpdateVersion), IsrAnswer::Superseded);
        assert_eq!(of(ErrorCode::NotController), IsrAnswer::Unknown);
        let refused = AlterPartitionResponse {
            error_code: ErrorCode::StaleBrokerEpoch.code(),
            ..Default::default()
        };
        assert!(answers(&refused).is_err());
    }
}
