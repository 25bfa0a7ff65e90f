//! CreatePartitions.
//! Not here: who may (broker).
//! Pure. Kafka: ReplicationControlManager.createPartitions, ControllerApis.createPartitions; KIP-195.

use crate::api_error::ApiError;
use crate::controller::Scope;
use crate::random::Random;
use crate::replication::placement::place;
use crate::topics::assignment::{new_partition, validate_manual_assignment};
use crate::topics::create::PARTITIONS_PER_REQUEST_MAX;
use kavka_metadata::MetadataRecord;
use kavka_metadata::topics::node_ids;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kavka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kavka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use std::collections::{BTreeMap, BTreeSet};

pub fn handle(
    scope: &Scope<'_>,
    random: &mut Random,
    request: &CreatePartitionsRequest,
) -> (Vec<MetadataRecord>, CreatePartitionsResponse) {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *count.entry(&topic.name).or_default() += 1;
    }
    let mut records = Vec::new();
    let mut answer = CreatePartitionsResponse::default();
    let mut answered = BTreeSet::new();
    for topic in &request.topics {
        if !answered.insert(&*topic.name) {
            continue;
        }
        let result = if count[&*topic.name] > 1 {
            Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "Duplicate topic name.",
            ))
        } else {
            create(scope, random, topic)
        };
        let (error, message) = match result {
            Ok(new_records) => {
                records.extend(new_records);
                (ErrorCode::None, None)
            }
            Err(refused) => (refused.error, refused.message),
        };
        answer.results.push(CreatePartitionsTopicResult {
            name: topic.name.clone(),
            error_code: error.code(),
            error_message: message.map(Into::into),
            ..Default::default()
        });
    }
    if request.validate_only {
        records.clear();
    }
    (records, answer)
}

fn create(
    scope: &Scope<'_>,
    random: &mut Random,
    topic: &CreatePartitionsTopic,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let image = scope
        .image
        .topics
        .by_name(&topic.name)
        .ok_or_else(|| ApiError::of(ErrorCode::UnknownTopicOrPartition))?;
    let present = image.partitions.size();
    let wanted = usize::try_from(topic.count).unwrap_or(0);
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidPartitions, message));
    if wanted == present {
        return invalid(format!("Topic already has {present} partition(s)."));
    }
    if wanted < present {
        return invalid(format!(
            "The topic {} currently has {present} partition(s); {} would not be an increase.",
            topic.name, topic.count
        ));
    }
    let additional = wanted - present;
    if additional > PARTITIONS_PER_REQUEST_MAX {
        return Err(ApiError::new(
            ErrorCode::PolicyViolation,
            "Excessively large number of partitions per request.",
        ));
    }
    let factor = image
        .partition(0)
        .map_or(0, |partition| partition.replicas.len());
    let replicas = match &topic.assignments {
        Some(assignments) => {
            if assignments.len() != additional {
                return Err(ApiError::new(
                    ErrorCode::InvalidReplicaAssignment,
                    format!(
                        "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                        assignments.len()
                    ),
                ));
            }
            let mut all = Vec::with_capacity(additional);
            for assignment in assignments {
                let replicas = node_ids(&assignment.broker_ids);
                validate_manual_assignment(scope, &replicas, Some(factor))?;
                all.push(replicas);
            }
            all
        }
        None => {
            let factor = i16::try_from(factor).unwrap_or(i16::MAX);
            place(&scope.usable_brokers(), additional, factor, random).map_err(|why| {
                ApiError::new(ErrorCode::InvalidReplicationFactor, why.to_string())
            })?
        }
    };
    let metadata_version = scope.image.features.metadata_version_or_minimum();
    let is_manual = topic.assignments.is_some();
    replicas
        .into_iter()
        .zip(i32::try_from(present).unwrap_or(i32::MAX)..)
        .map(|(replicas, index)| {
            let partition = new_partition(scope, replicas).ok_or_else(|| {
                if is_manual {
                    ApiError::new(
                        ErrorCode::InvalidReplicaAssignment,
                        format!(
                            "All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled shutdown."
                        ),
                    )
                } else {
                    ApiError::new(
                        ErrorCode::InvalidReplicationFactor,
                        format!(
                            "Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in controlled shutdown."
                        ),
                    )
                }
            })?;
            Ok(MetadataRecord::Partition(partition.to_record(image.id, index, metadata_version)))
        })
        .collect()
}
