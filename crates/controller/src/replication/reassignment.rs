//! AlterPartitionReassignments and ListPartitionReassignments: moving replicas between brokers.
//! Not here: the end of a reassignment (`partition_change` finds it when the new replicas are in sync).
//! Pure. Kafka: ReplicationControlManager.alterPartitionReassignments, PartitionReassignmentReplicas, PartitionReassignmentRevert; KIP-455, KIP-860.

use crate::api_error::ApiError;
use crate::controller::Scope;
use crate::replication::partition_change::PartitionChange;
use crate::topics::assignment::validate_manual_assignment;
use kavka_common::NodeId;
use kavka_metadata::topics::{node_ids, raw_ids};
use kavka_metadata::{MetadataRecord, PartitionRegistration, TopicImage};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kavka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kavka_protocol::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kavka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};
use std::collections::BTreeSet;

pub fn alter(
    scope: &Scope<'_>,
    request: &AlterPartitionReassignmentsRequest,
) -> (Vec<MetadataRecord>, AlterPartitionReassignmentsResponse) {
    let mut records = Vec::new();
    let mut answer = AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        error_message: None,
        ..Default::default()
    };
    let mut seen = BTreeSet::new();
    for topic in &request.topics {
        let partitions = topic
            .partitions
            .iter()
            .map(|target| {
                let result = if seen.insert((topic.name.clone(), target.partition_index)) {
                    alter_one(
                        scope,
                        &topic.name,
                        target,
                        request.allow_replication_factor_change,
                    )
                } else {
                    Err(ApiError::of(ErrorCode::InvalidRequest))
                };
                let (error, message) = match result {
                    Ok(record) => {
                        records.extend(record);
                        (ErrorCode::None, None)
                    }
                    Err(refused) => (refused.error, refused.message),
                };
                ReassignablePartitionResponse {
                    partition_index: target.partition_index,
                    error_code: error.code(),
                    error_message: message.map(Into::into),
                    ..Default::default()
                }
            })
            .collect();
        answer.responses.push(ReassignableTopicResponse {
            name: topic.name.clone(),
            partitions,
            ..Default::default()
        });
    }
    (records, answer)
}

fn alter_one(
    scope: &Scope<'_>,
    topic: &str,
    target: &ReassignablePartition,
    allow_replication_factor_change: bool,
) -> Result<Option<MetadataRecord>, ApiError> {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let image =
        scope.image.topics.by_name(topic).ok_or_else(|| {
            ApiError::new(unknown, format!("Unable to find a topic named {topic}."))
        })?;
    let partition = target.partition_index;
    let registration = image.partition(partition).ok_or_else(|| {
        ApiError::new(
            unknown,
            format!("Unable to find partition {topic}:{partition}."),
        )
    })?;
    match &target.replicas {
        None => cancel(scope, image, partition, registration),
        Some(replicas) => {
            let replicas = node_ids(replicas);
            if !allow_replication_factor_change {
                let factor = original_replicas(registration).len();
                if replicas.len() != factor {
                    return Err(ApiError::new(
                        ErrorCode::InvalidReplicationFactor,
                        format!(
                            "The replication factor is changed from {factor} to {}",
                            replicas.len()
                        ),
                    ));
                }
            }
            change(scope, image, partition, registration, &replicas)
        }
    }
}

/// The assignment as it was before the reassignment in progress, if there is one.
fn original_replicas(registration: &PartitionRegistration) -> Vec<NodeId> {
    registration
        .replicas
        .iter()
        .copied()
        .filter(|id| !registration.adding_replicas.contains(id))
        .collect()
}

fn cancel(
    scope: &Scope<'_>,
    topic: &TopicImage,
    partition: i32,
    registration: &PartitionRegistration,
) -> Result<Option<MetadataRecord>, ApiError> {
    if !registration.is_reassigning() {
        return Err(ApiError::of(ErrorCode::NoReassignmentInProgress));
    }
    let replicas = original_replicas(registration);
    let mut isr: Vec<NodeId> = registration
        .isr
        .iter()
        .copied()
        .filter(|id| !registration.adding_replicas.contains(id))
        .collect();
    if isr.is_empty() {
        // Only added replicas are in sync: going back loses what they alone have.
        if !scope.is_unclean_election_enabled(&topic.name) {
            return Err(ApiError::new(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "Unable to revert partition assignment for {}:{partition} because it would require an unclean leader election.",
                    topic.name
                ),
            ));
        }
        // Whoever serves is elected uncleanly below; without ELR somebody must be named, serving or not.
        if !scope.image.features.is_elr_enabled() {
            isr.extend(replicas.first());
        }
    }
    Ok(
        PartitionChange::new(scope, &topic.name, topic.id, partition, registration)
            .election_of_topic()
            .isr(isr)
            .replicas(replicas)
            .removing(Vec::new())
            .adding(Vec::new())
            .build(),
    )
}

fn change(
    scope: &Scope<'_>,
    topic: &TopicImage,
    partition: i32,
    registration: &PartitionRegistration,
    target: &[NodeId],
) -> Result<Option<MetadataRecord>, ApiError> {
    validate_manual_assignment(scope, target, None)?;
    // The reassignment in progress, if any, is replaced: what it was adding counts as replicas to remove.
    let current = &registration.replicas;
    let mut removing: Vec<NodeId> = current
        .iter()
        .copied()
        .filter(|id| !target.contains(id))
        .collect();
    removing.sort_unstable();
    let before = original_replicas(registration);
    let mut adding: Vec<NodeId> = target
        .iter()
        .copied()
        .filter(|id| !before.contains(id))
        .collect();
    adding.sort_unstable();
    let mut replicas = target.to_vec();
    replicas.extend(&removing);
    Ok(
        PartitionChange::new(scope, &topic.name, topic.id, partition, registration)
            .replicas(replicas)
            .removing(removing)
            .adding(adding)
            .build(),
    )
}

pub fn list(
    scope: &Scope<'_>,
    request: &ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let ongoing = |topic: &TopicImage,
                   partitions: &mut dyn Iterator<Item = i32>|
     -> Option<OngoingTopicReassignment> {
        let partitions: Vec<OngoingPartitionReassignment> = partitions
            .filter_map(|partition| {
                let registration = topic
                    .partition(partition)
                    .filter(|found| found.is_reassigning())?;
                Some(OngoingPartitionReassignment {
                    partition_index: partition,
                    replicas: raw_ids(&registration.replicas),
                    adding_replicas: raw_ids(&registration.adding_replicas),
                    removing_replicas: raw_ids(&registration.removing_replicas),
                    ..Default::default()
                })
            })
            .collect();
        (!partitions.is_empty()).then(|| OngoingTopicReassignment {
            name: (&*topic.name).into(),
            partitions,
            ..Default::default()
        })
    };
    let topics = match &request.topics {
        None => scope
            .image
            .topics
            .iter()
            .filter_map(|topic| ongoing(topic, &mut topic.partitions.keys().copied()))
            .collect(),
        Some(asked) => asked
            .iter()
            .filter_map(|asked| {
                let topic = scope.image.topics.by_name(&asked.name)?;
                ongoing(topic, &mut asked.partition_indexes.iter().copied())
            })
            .collect(),
    };
    ListPartitionReassignmentsResponse {
        topics,
        error_message: None,
        ..Default::default()
    }
}
