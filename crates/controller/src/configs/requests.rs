//! AlterConfigs and IncrementalAlterConfigs.
//! Not here: what only the addressed broker can judge (broker/src/api).
//! Pure. Kafka: ControllerApis.handle{Legacy,Incremental}AlterConfigs, ConfigAdminManager.preprocess; KIP-133, KIP-339.

use crate::api_error::ApiError;
use crate::configs::alter::{self, Operation};
use crate::controller::Scope;
use kavka_metadata::{ConfigResource, ConfigResourceType, MetadataRecord};
use kavka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use kavka_protocol::messages::{alter_configs_response, incremental_alter_configs_response};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::{BTreeMap, BTreeSet};

pub fn incremental(
    scope: &Scope<'_>,
    request: &IncrementalAlterConfigsRequest,
) -> (Vec<MetadataRecord>, IncrementalAlterConfigsResponse) {
    let mut records = Vec::new();
    let mut answer = IncrementalAlterConfigsResponse::default();
    let asked = request
        .resources
        .iter()
        .map(|resource| (resource.resource_type, &resource.resource_name));
    let count = count(asked);
    let mut answered = BTreeSet::new();
    for resource in &request.resources {
        let key = (resource.resource_type, &resource.resource_name);
        if !answered.insert(key) {
            continue;
        }
        let result = resource_of(key, &count).and_then(|target| {
            check_duplicates(resource.configs.iter().map(|config| &config.name))?;
            let mut operations = Vec::with_capacity(resource.configs.len());
            let mut without_value = Vec::new();
            for config in &resource.configs {
                let name = config.name.to_string();
                let value = config.value.as_ref().map(ToString::to_string);
                let operation = match (config.config_operation, value) {
                    (0, Some(value)) => Operation::Set(Some(value)),
                    (1, _) => Operation::Delete,
                    (2, Some(value)) => Operation::Append(value),
                    (3, Some(value)) => Operation::Subtract(value),
                    (0 | 2 | 3, None) => {
                        without_value.push(name);
                        continue;
                    }
                    (unknown, _) => {
                        return Err(ApiError::new(
                            ErrorCode::InvalidRequest,
                            format!("Unknown operations type {unknown}"),
                        ));
                    }
                };
                operations.push((name, operation));
            }
            if !without_value.is_empty() {
                return Err(ApiError::new(
                    ErrorCode::InvalidRequest,
                    format!(
                        "Null value not supported for : {}",
                        without_value.join(", ")
                    ),
                ));
            }
            alter::incremental(scope, &target, &operations, false)
        });
        let (error, message) = split(result, &mut records);
        answer.responses.push(
            incremental_alter_configs_response::AlterConfigsResourceResponse {
                error_code: error.code(),
                error_message: message,
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            },
        );
    }
    if request.validate_only {
        records.clear();
    }
    (records, answer)
}

pub fn legacy(
    scope: &Scope<'_>,
    request: &AlterConfigsRequest,
) -> (Vec<MetadataRecord>, AlterConfigsResponse) {
    let mut records = Vec::new();
    let mut answer = AlterConfigsResponse::default();
    let asked = request
        .resources
        .iter()
        .map(|resource| (resource.resource_type, &resource.resource_name));
    let count = count(asked);
    let mut answered = BTreeSet::new();
    for resource in &request.resources {
        let key = (resource.resource_type, &resource.resource_name);
        if !answered.insert(key) {
            continue;
        }
        let result = resource_of(key, &count).and_then(|target| {
            check_duplicates(resource.configs.iter().map(|config| &config.name))?;
            let without_value: Vec<&str> = resource
                .configs
                .iter()
                .filter(|config| config.value.is_none())
                .map(|config| &*config.name)
                .collect();
            if !without_value.is_empty() {
                return Err(ApiError::new(
                    ErrorCode::InvalidRequest,
                    format!(
                        "Null value not supported for : {}",
                        without_value.join(", ")
                    ),
                ));
            }
            let configs: Vec<(String, Option<String>)> = resource
                .configs
                .iter()
                .map(|config| {
                    (
                        config.name.to_string(),
                        config.value.as_ref().map(ToString::to_string),
                    )
                })
                .collect();
            alter::replace(scope, &target, &configs)
        });
        let (error, message) = split(result, &mut records);
        answer
            .responses
            .push(alter_configs_response::AlterConfigsResourceResponse {
                error_code: error.code(),
                error_message: message,
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            });
    }
    if request.validate_only {
        records.clear();
    }
    (records, answer)
}

type Key<'a> = (i8, &'a StrBytes);

fn count<'a>(asked: impl Iterator<Item = Key<'a>>) -> BTreeMap<Key<'a>, usize> {
    let mut count = BTreeMap::new();
    for key in asked {
        *count.entry(key).or_default() += 1;
    }
    count
}

fn resource_of(key: Key<'_>, count: &BTreeMap<Key<'_>, usize>) -> Result<ConfigResource, ApiError> {
    let (id, name) = key;
    let resource_type = ConfigResourceType::from_id(id);
    if resource_type == ConfigResourceType::Unknown {
        return Err(ApiError::new(
            ErrorCode::UnsupportedVersion,
            format!("Unknown resource type {id}."),
        ));
    }
    if count[&key] > 1 {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "Duplicate resource.",
        ));
    }
    if resource_type == ConfigResourceType::BrokerLogger {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "Unexpected resource type BROKER_LOGGER.",
        ));
    }
    Ok(ConfigResource::new(resource_type, &**name))
}

fn check_duplicates<'a>(mut names: impl Iterator<Item = &'a StrBytes>) -> Result<(), ApiError> {
    let mut seen = BTreeSet::new();
    if names.all(|name| seen.insert(name)) {
        Ok(())
    } else {
        Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "Error due to duplicate config keys",
        ))
    }
}

fn split(
    result: Result<Vec<MetadataRecord>, ApiError>,
    records: &mut Vec<MetadataRecord>,
) -> (ErrorCode, Option<StrBytes>) {
    match result {
        Ok(new_records) => {
            records.extend(new_records);
            (ErrorCode::None, None)
        }
        Err(refused) => (refused.error, refused.message.map(Into::into)),
    }
}
