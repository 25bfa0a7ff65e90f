//! Changes of one resource's settings, as records.
//! Not here: the requests (`requests`), the rules for values (`validate`).
//! Pure. Kafka: ConfigurationControlManager.incrementalAlterConfigResource, legacyAlterConfigResource; KIP-133, KIP-339, KIP-966.

use crate::api_error::ApiError;
use crate::configs::validate::{list_default, validate};
use crate::controller::Scope;
use kavka_config::dynamic::Overrides;
use kavka_metadata::{ConfigResource, ConfigResourceType, MetadataRecord};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{ClearElrRecord, ConfigRecord};

/// Values longer than this do not fit a record's string in all its readers.
const VALUE_BYTES_MAX: usize = 32767;
const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";
const CORDONED_LOG_DIRS: &str = "cordoned.log.dirs";

/// What to do with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `None` removes, as a legacy request says it.
    Set(Option<String>),
    Delete,
    Append(String),
    Subtract(String),
}

impl Operation {
    fn name(&self) -> &'static str {
        match self {
            Operation::Set(_) => "SET",
            Operation::Delete => "DELETE",
            Operation::Append(_) => "APPEND",
            Operation::Subtract(_) => "SUBTRACT",
        }
    }
}

/// Changes some keys and leaves the others.
pub fn incremental(
    scope: &Scope<'_>,
    resource: &ConfigResource,
    operations: &[(String, Operation)],
    is_new_resource: bool,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let current = scope.stored(resource);
    let mut altered = Vec::new();
    for (key, operation) in operations {
        let old = current.get(key).cloned();
        let new = match operation {
            Operation::Set(value) => value.clone(),
            Operation::Delete => None,
            Operation::Append(values) | Operation::Subtract(values) => {
                let Some(default) = list_default(scope, resource.resource_type, key) else {
                    return Err(ApiError::new(
                        ErrorCode::InvalidConfig,
                        format!(
                            "Can't {} to key {key} because its type is not LIST.",
                            operation.name()
                        ),
                    ));
                };
                Some(edit_list(
                    &old.clone().unwrap_or(default),
                    values,
                    matches!(operation, Operation::Append(_)),
                ))
            }
        };
        // KAFKA-14136: a broker reloads key stores from unchanged paths when it sees the record again.
        if old != new || resource.resource_type == ConfigResourceType::Broker {
            altered.push((key.clone(), new));
        }
    }
    finish(
        scope,
        resource,
        current,
        altered,
        Vec::new(),
        is_new_resource,
    )
}

/// Replaces all settings of a resource.
pub fn replace(
    scope: &Scope<'_>,
    resource: &ConfigResource,
    configs: &[(String, Option<String>)],
) -> Result<Vec<MetadataRecord>, ApiError> {
    let current = scope.stored(resource);
    let altered = configs
        .iter()
        .filter(|(key, value)| {
            current.get(key) != value.as_ref()
                || resource.resource_type == ConfigResourceType::Broker
        })
        .cloned()
        .collect();
    let removed = current
        .keys()
        .filter(|key| !configs.iter().any(|(given, _)| given == *key))
        .cloned()
        .collect();
    finish(scope, resource, current, altered, removed, false)
}

fn edit_list(old: &str, values: &str, append: bool) -> String {
    let mut items: Vec<&str> = old.split(',').filter(|item| !item.is_empty()).collect();
    for value in values.split(',') {
        if append {
            if !items.contains(&value) {
                items.push(value);
            }
        } else if let Some(place) = items.iter().position(|item| *item == value) {
            items.remove(place);
        }
    }
    items.join(",")
}

fn finish(
    scope: &Scope<'_>,
    resource: &ConfigResource,
    current: Overrides,
    altered: Vec<(String, Option<String>)>,
    removed: Vec<String>,
    is_new_resource: bool,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let mut all = current;
    for (key, value) in &altered {
        check_key(scope, resource, key, value.as_deref())?;
        match value {
            Some(value) => all.insert(key.clone(), value.clone()),
            None => all.remove(key),
        };
    }
    for key in &removed {
        check_key(scope, resource, key, None)?;
        all.remove(key);
    }
    validate(scope, resource, &all, is_new_resource)?;
    let changes = altered
        .into_iter()
        .chain(removed.into_iter().map(|key| (key, None)));
    let mut records = Vec::new();
    let mut min_insync_changed = false;
    for (key, value) in changes {
        min_insync_changed |= key == MIN_INSYNC_REPLICAS;
        records.push(MetadataRecord::Config(ConfigRecord {
            resource_type: resource.resource_type.id(),
            resource_name: (&*resource.name).into(),
            name: key.into(),
            value: value.map(Into::into),
            ..Default::default()
        }));
    }
    // Who is eligible was decided by the old minimum (KIP-966).
    if min_insync_changed && !is_new_resource && scope.image.features.is_elr_enabled() {
        let topic_name = match resource.resource_type {
            ConfigResourceType::Topic => Some(&*resource.name),
            ConfigResourceType::Broker => Some(""),
            _ => None,
        };
        records.extend(topic_name.map(|topic_name| {
            MetadataRecord::ClearElr(ClearElrRecord {
                topic_name: topic_name.into(),
                ..Default::default()
            })
        }));
    }
    Ok(records)
}

/// Rules that do not depend on the other keys.
fn check_key(
    scope: &Scope<'_>,
    resource: &ConfigResource,
    key: &str,
    value: Option<&str>,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidConfig, message));
    let is_broker = resource.resource_type == ConfigResourceType::Broker;
    if is_broker && key == MIN_INSYNC_REPLICAS && scope.image.features.is_elr_enabled() {
        if !resource.name.is_empty() {
            return refuse(
                "Broker-level min.insync.replicas cannot be altered while ELR is enabled.".into(),
            );
        }
        if value.is_none() {
            return refuse(
                "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.".into(),
            );
        }
    }
    let metadata_version = scope.image.features.metadata_version_or_minimum();
    if is_broker
        && key == CORDONED_LOG_DIRS
        && value.is_some()
        && !metadata_version.is_cordoned_directories_supported()
    {
        return refuse(
            "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
                .into(),
        );
    }
    if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
        return refuse(format!(
            "The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_edited_as_kafka_does() {
        for (old, values, append, new) in [
            ("", "a", true, "a"),
            ("delete", "compact", true, "delete,compact"),
            ("delete", "delete", true, "delete"),
            ("delete,compact", "delete", false, "compact"),
            ("delete", "compact", false, "delete"),
            ("a,,b", "c,d", true, "a,b,c,d"),
        ] {
            assert_eq!(edit_list(old, values, append), new);
        }
    }
}
