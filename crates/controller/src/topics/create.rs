//! CreateTopics.
//! Not here: who may create (broker), automatic creation (broker/src/api/auto_create.rs).
//! Pure. Kafka: ReplicationControlManager.createTopics, ControllerApis.createTopics; KIP-4, KIP-464, KIP-525.

use crate::api_error::ApiError;
use crate::configs::alter::{self, Operation};
use crate::controller::Scope;
use crate::random::Random;
use crate::replication::placement::place;
use crate::topics::assignment::{new_partition, validate_manual_assignment};
use kavka_common::topic::{CLUSTER_METADATA_TOPIC, topic_names_collide, validate_topic_name};
use kavka_metadata::topics::node_ids;
use kavka_metadata::{ConfigResource, MetadataRecord, PartitionRegistration};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::create_topics_request::CreatableTopic;
use kavka_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kavka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse, TopicRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Most partitions that one request may add, so that one append stays of bounded size.
pub const PARTITIONS_PER_REQUEST_MAX: usize = 10_000;

pub fn handle(
    scope: &Scope<'_>,
    random: &mut Random,
    request: &CreateTopicsRequest,
) -> (Vec<MetadataRecord>, CreateTopicsResponse) {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *count.entry(&topic.name).or_default() += 1;
    }
    let mut records = Vec::new();
    let mut partitions = 0;
    let mut answer = CreateTopicsResponse::default();
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
        } else if &*topic.name == CLUSTER_METADATA_TOPIC {
            Err(ApiError::new(
                ErrorCode::InvalidRequest,
                format!("Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."),
            ))
        } else {
            create(scope, random, topic, &mut partitions)
        };
        answer.topics.push(match result {
            Ok((new_records, created)) => {
                records.extend(new_records);
                created
            }
            Err(refused) => CreatableTopicResult {
                name: topic.name.clone(),
                error_code: refused.error.code(),
                error_message: refused.message.map(Into::into),
                ..Default::default()
            },
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
    topic: &CreatableTopic,
    partitions_so_far: &mut usize,
) -> Result<(Vec<MetadataRecord>, CreatableTopicResult), ApiError> {
    check_name(scope, &topic.name)?;
    let config_records = config_records(scope, topic)?;
    let partitions = assign(scope, random, topic)?;
    *partitions_so_far += partitions.len();
    if *partitions_so_far > PARTITIONS_PER_REQUEST_MAX {
        return Err(ApiError::new(
            ErrorCode::PolicyViolation,
            "Excessively large number of partitions per request.",
        ));
    }
    let topic_id = random.uuid();
    let metadata_version = scope.image.features.metadata_version_or_minimum();
    let mut records = vec![MetadataRecord::Topic(TopicRecord {
        name: topic.name.clone(),
        topic_id,
        ..Default::default()
    })];
    let overrides: BTreeMap<String, String> = topic
        .configs
        .iter()
        .filter_map(|config| Some((config.name.to_string(), config.value.as_ref()?.to_string())))
        .collect();
    let result = CreatableTopicResult {
        name: topic.name.clone(),
        topic_id,
        error_message: None,
        num_partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
        replication_factor: i16::try_from(partitions[0].replicas.len()).unwrap_or(i16::MAX),
        configs: Some(
            scope
                .effective_topic_configs(&overrides)
                .into_iter()
                .map(|config| CreatableTopicConfigs {
                    name: config.name.into(),
                    value: if config.is_sensitive {
                        None
                    } else {
                        config.value.map(Into::into)
                    },
                    read_only: false,
                    config_source: config.source.wire_id(),
                    is_sensitive: config.is_sensitive,
                    ..Default::default()
                })
                .collect(),
        ),
        ..Default::default()
    };
    // Settings come before the partitions: a broker that makes the logs knows them already.
    records.extend(config_records);
    records.extend(partitions.into_iter().zip(0..).map(|(partition, index)| {
        MetadataRecord::Partition(partition.to_record(topic_id, index, metadata_version))
    }));
    Ok((records, result))
}

fn check_name(scope: &Scope<'_>, topic: &str) -> Result<(), ApiError> {
    validate_topic_name(topic)
        .map_err(|bad| ApiError::new(ErrorCode::InvalidTopicException, bad.to_string()))?;
    if scope.image.topics.contains(topic) {
        return Err(ApiError::new(
            ErrorCode::TopicAlreadyExists,
            format!("Topic '{topic}' already exists."),
        ));
    }
    if topic.contains(['.', '_'])
        && let Some(other) = scope
            .image
            .topics
            .iter()
            .find(|other| topic_names_collide(&other.name, topic))
    {
        return Err(ApiError::new(
            ErrorCode::InvalidTopicException,
            format!(
                "Topic '{topic}' collides with existing topic: {}",
                other.name
            ),
        ));
    }
    Ok(())
}

fn config_records(
    scope: &Scope<'_>,
    topic: &CreatableTopic,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let without_value: Vec<&str> = topic
        .configs
        .iter()
        .filter(|config| config.value.is_none())
        .map(|config| &*config.name)
        .collect();
    if !without_value.is_empty() {
        return Err(ApiError::new(
            ErrorCode::InvalidConfig,
            format!(
                "Null value not supported for topic configs: {}",
                without_value.join(",")
            ),
        ));
    }
    if topic.configs.is_empty() {
        return Ok(Vec::new());
    }
    let operations: Vec<(String, Operation)> = topic
        .configs
        .iter()
        .map(|config| {
            (
                config.name.to_string(),
                Operation::Set(config.value.as_ref().map(|value| value.to_string())),
            )
        })
        .collect();
    alter::incremental(
        scope,
        &ConfigResource::topic(&*topic.name),
        &operations,
        true,
    )
}

/// Registrations of the partitions in the order of their indexes, at least one.
fn assign(
    scope: &Scope<'_>,
    random: &mut Random,
    topic: &CreatableTopic,
) -> Result<Vec<PartitionRegistration>, ApiError> {
    if !topic.assignments.is_empty() {
        return assign_manually(scope, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        return Err(ApiError::new(
            ErrorCode::InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ));
    }
    let partitions = match topic.num_partitions {
        -1 => scope.config.num_partitions,
        given => given,
    };
    let partitions = usize::try_from(partitions)
        .ok()
        .filter(|partitions| *partitions > 0)
        .ok_or_else(|| {
            ApiError::new(
                ErrorCode::InvalidPartitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        })?;
    if partitions > PARTITIONS_PER_REQUEST_MAX {
        return Err(ApiError::new(
            ErrorCode::PolicyViolation,
            "Excessively large number of partitions per request.",
        ));
    }
    let factor = match topic.replication_factor {
        -1 => scope.config.default_replication_factor,
        given => given,
    };
    let impossible = |why: String| {
        ApiError::new(
            ErrorCode::InvalidReplicationFactor,
            format!("Unable to replicate the partition {factor} time(s): {why}"),
        )
    };
    place(&scope.usable_brokers(), partitions, factor, random)
        .map_err(|why| impossible(why.to_string()))?
        .into_iter()
        .map(|replicas| {
            new_partition(scope, replicas).ok_or_else(|| {
                impossible("All brokers are currently fenced or in controlled shutdown.".into())
            })
        })
        .collect()
}

fn assign_manually(
    scope: &Scope<'_>,
    topic: &CreatableTopic,
) -> Result<Vec<PartitionRegistration>, ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    if topic.replication_factor != -1 {
        return invalid(
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        );
    }
    if topic.num_partitions != -1 {
        return invalid(
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        );
    }
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    let mut partitions = BTreeMap::new();
    let mut factor = None;
    for assignment in &topic.assignments {
        let index = assignment.partition_index;
        if partitions.contains_key(&index) {
            return refuse(format!(
                "Found multiple manual partition assignments for partition {index}"
            ));
        }
        let replicas = node_ids(&assignment.broker_ids);
        validate_manual_assignment(scope, &replicas, factor)?;
        factor = Some(replicas.len());
        let Some(partition) = new_partition(scope, replicas) else {
            return refuse(format!(
                "All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled shutdown."
            ));
        };
        partitions.insert(index, partition);
    }
    if partitions
        .keys()
        .zip(0..)
        .any(|(index, expected)| *index != expected)
    {
        return refuse("partitions should be a consecutive 0-based integer sequence".into());
    }
    Ok(partitions.into_values().collect())
}
