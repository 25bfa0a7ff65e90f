//! AlterPartition: a leader proposes a new in-sync set.
//! Not here: how a leader comes to propose it (crates/replication).
//! Pure. Kafka: ReplicationControlManager.alterPartition; KIP-497, KIP-704, KIP-841, KIP-903.

use crate::api_error::ApiError;
use crate::controller::Scope;
use crate::replication::partition_change::PartitionChange;
use kavka_common::guards::{Guard, holds};
use kavka_common::{BrokerEpoch, NodeId};
use kavka_metadata::topics::{NO_LEADER_CHANGE, node_ids, raw_ids};
use kavka_metadata::{LeaderRecoveryState, MetadataRecord, PartitionRegistration};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};
use kavka_protocol::messages::{
    alter_partition_request as request, alter_partition_response as response,
};
use std::collections::BTreeSet;

/// One proposed member of the set; versions before 3 do not say the broker epoch.
struct Member {
    broker_id: NodeId,
    broker_epoch: BrokerEpoch,
}

pub fn handle(
    scope: &Scope<'_>,
    request: &AlterPartitionRequest,
) -> (Vec<MetadataRecord>, AlterPartitionResponse) {
    let mut records = Vec::new();
    let mut answer = AlterPartitionResponse::default();
    let broker_id = NodeId(request.broker_id);
    if let Err(refused) = scope.check_broker_epoch(broker_id, BrokerEpoch(request.broker_epoch)) {
        answer.error_code = refused.error.code();
        return (records, answer);
    }
    let mut seen = BTreeSet::new();
    for topic in &request.topics {
        let mut topic_answer = response::TopicData {
            topic_id: topic.topic_id,
            ..Default::default()
        };
        for partition in &topic.partitions {
            // A partition named twice would be decided on the same old state twice.
            let result = if seen.insert((topic.topic_id, partition.partition_index)) {
                alter(scope, broker_id, topic.topic_id, partition)
            } else {
                Err(ApiError::of(ErrorCode::InvalidRequest))
            };
            topic_answer.partitions.push(match result {
                Ok((record, after)) => {
                    records.extend(record);
                    response::PartitionData {
                        partition_index: partition.partition_index,
                        error_code: ErrorCode::None.code(),
                        leader_id: after.leader.get(),
                        leader_epoch: after.leader_epoch.get(),
                        isr: raw_ids(&after.isr),
                        leader_recovery_state: after.leader_recovery_state.value(),
                        partition_epoch: after.partition_epoch.get(),
                        ..Default::default()
                    }
                }
                Err(refused) => {
                    // The one refusal that comes with a record: the change ended a reassignment and took the
                    // leadership away from the asker, who must learn of it from the metadata.
                    if refused.error == ErrorCode::NewLeaderElected {
                        records.extend(moved_record(scope, broker_id, topic.topic_id, partition));
                    }
                    response::PartitionData {
                        partition_index: partition.partition_index,
                        error_code: refused.error.code(),
                        ..Default::default()
                    }
                }
            });
        }
        answer.topics.push(topic_answer);
    }
    (records, answer)
}

type Altered = (Option<MetadataRecord>, PartitionRegistration);

fn alter(
    scope: &Scope<'_>,
    broker_id: NodeId,
    topic_id: kavka_common::Uuid,
    proposal: &request::PartitionData,
) -> Result<Altered, ApiError> {
    let topic = scope
        .image
        .topics
        .get(&topic_id)
        .ok_or_else(|| ApiError::of(ErrorCode::UnknownTopicId))?;
    let current = topic
        .partition(proposal.partition_index)
        .ok_or_else(|| ApiError::of(ErrorCode::UnknownTopicOrPartition))?;
    let members = members(proposal);
    let recovery = validate(scope, broker_id, current, proposal, &members)?;
    let record = PartitionChange::new(
        scope,
        &topic.name,
        topic_id,
        proposal.partition_index,
        current,
    )
    .election_of_topic()
    .isr(members.iter().map(|member| member.broker_id).collect())
    .recovery(recovery)
    .build();
    let Some(MetadataRecord::PartitionChange(change)) = record else {
        return Ok((None, current.clone()));
    };
    if change.leader != broker_id.get() && change.leader != NO_LEADER_CHANGE {
        return Err(ApiError::of(ErrorCode::NewLeaderElected));
    }
    let after = current
        .merge(&change)
        .map_err(|_| ApiError::of(ErrorCode::UnknownServerError))?;
    Ok((Some(MetadataRecord::PartitionChange(change)), after))
}

/// The record behind NEW_LEADER_ELECTED; the proposal has been validated.
fn moved_record(
    scope: &Scope<'_>,
    broker_id: NodeId,
    topic_id: kavka_common::Uuid,
    proposal: &request::PartitionData,
) -> Option<MetadataRecord> {
    let topic = scope.image.topics.get(&topic_id)?;
    let current = topic.partition(proposal.partition_index)?;
    let members = members(proposal);
    let recovery = validate(scope, broker_id, current, proposal, &members).ok()?;
    PartitionChange::new(
        scope,
        &topic.name,
        topic_id,
        proposal.partition_index,
        current,
    )
    .election_of_topic()
    .isr(members.iter().map(|member| member.broker_id).collect())
    .recovery(recovery)
    .build()
}

fn members(proposal: &request::PartitionData) -> Vec<Member> {
    if proposal.new_isr_with_epochs.is_empty() {
        node_ids(&proposal.new_isr)
            .into_iter()
            .map(|broker_id| Member {
                broker_id,
                broker_epoch: BrokerEpoch::UNKNOWN,
            })
            .collect()
    } else {
        proposal
            .new_isr_with_epochs
            .iter()
            .map(|state| Member {
                broker_id: NodeId(state.broker_id),
                broker_epoch: BrokerEpoch(state.broker_epoch),
            })
            .collect()
    }
}

fn validate(
    scope: &Scope<'_>,
    broker_id: NodeId,
    current: &PartitionRegistration,
    proposal: &request::PartitionData,
    members: &[Member],
) -> Result<LeaderRecoveryState, ApiError> {
    let refuse = |error| Err(ApiError::of(error));
    // A leader that knows more than this controller talks to a deposed one: it must look for the new (KAFKA-14154).
    if proposal.leader_epoch > current.leader_epoch.get()
        || proposal.partition_epoch > current.partition_epoch.get()
    {
        return refuse(ErrorCode::NotController);
    }
    if proposal.leader_epoch < current.leader_epoch.get() && holds(Guard::LeaderEpoch) {
        return refuse(ErrorCode::FencedLeaderEpoch);
    }
    if broker_id != current.leader {
        return refuse(ErrorCode::InvalidRequest);
    }
    if proposal.partition_epoch < current.partition_epoch.get() {
        return refuse(ErrorCode::InvalidUpdateVersion);
    }
    let unique: BTreeSet<NodeId> = members.iter().map(|member| member.broker_id).collect();
    let all_replicas = members
        .iter()
        .all(|member| current.replicas.contains(&member.broker_id));
    if members.is_empty()
        || unique.len() != members.len()
        || !all_replicas
        || !unique.contains(&current.leader)
    {
        return refuse(ErrorCode::InvalidRequest);
    }
    let recovery = LeaderRecoveryState::from_value(proposal.leader_recovery_state)
        .ok_or_else(|| ApiError::of(ErrorCode::InvalidRequest))?;
    if recovery == LeaderRecoveryState::Recovering
        && (members.len() > 1 || current.leader_recovery_state == LeaderRecoveryState::Recovered)
    {
        return refuse(ErrorCode::InvalidRequest);
    }
    // KIP-841, KIP-903: neither fenced nor leaving nor an earlier incarnation of the same broker (KAFKA-15221).
    let eligible = members.iter().all(|member| {
        scope
            .image
            .cluster
            .broker(member.broker_id)
            .is_some_and(|broker| {
                (broker.is_active() || !holds(Guard::Fencing))
                    && (member.broker_epoch == BrokerEpoch::UNKNOWN
                        || member.broker_epoch == broker.broker_epoch
                        || !holds(Guard::BrokerEpoch))
            })
    });
    if eligible {
        Ok(recovery)
    } else {
        refuse(ErrorCode::IneligibleReplica)
    }
}
