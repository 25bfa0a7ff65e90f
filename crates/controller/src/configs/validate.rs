//! Whether a resource may have these settings, all of them taken together.
//! Not here: parsing of single values (crates/config).
//! Pure. Kafka: ControllerConfigurationValidator, LogConfig.validate, GroupConfig.validate, ClientMetricsConfigs.validate.

use crate::api_error::ApiError;
use crate::controller::Scope;
use kavka_common::NodeId;
use kavka_common::topic::validate_topic_name;
use kavka_config::definition::{Definition, find};
use kavka_config::dynamic::Overrides;
use kavka_config::generated::{broker, client_metrics, group, topic};
use kavka_config::{Kind, Value};
use kavka_metadata::{ConfigResource, ConfigResourceType};
use kavka_protocol::ErrorCode;

fn invalid_config(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidConfig, message)
}

fn invalid_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

/// Refuses what the resource may not have, and resources that do not exist.
pub fn validate(
    scope: &Scope<'_>,
    resource: &ConfigResource,
    all: &Overrides,
    is_new_resource: bool,
) -> Result<(), ApiError> {
    match resource.resource_type {
        ConfigResourceType::Topic => {
            if resource.name.is_empty() {
                return Err(invalid_request("Default topic resources are not allowed."));
            }
            validate_topic_name(&resource.name)
                .map_err(|bad| ApiError::new(ErrorCode::InvalidTopicException, bad.to_string()))?;
            kavka_config::topic::check_overrides(Some(scope.layers()), all)
                .map_err(|bad| invalid_config(bad.to_string()))?;
            if !is_new_resource && !scope.image.topics.contains(&resource.name) {
                return Err(ApiError::new(
                    ErrorCode::UnknownTopicOrPartition,
                    format!("The topic '{}' does not exist.", resource.name),
                ));
            }
        }
        ConfigResourceType::Broker => {
            if let Some(broker_id) = broker_id(&resource.name)?
                && scope.image.cluster.broker(broker_id).is_none()
                && scope.image.cluster.controllers.get(&broker_id).is_none()
            {
                return Err(ApiError::new(
                    ErrorCode::BrokerIdNotRegistered,
                    format!("No node with id {broker_id} found."),
                ));
            }
        }
        ConfigResourceType::ClientMetrics => validate_client_metrics(&resource.name, all)?,
        ConfigResourceType::Group => {
            if resource.name.is_empty() {
                return Err(invalid_request("Default group resources are not allowed."));
            }
            validate_group(scope, all)?;
        }
        ConfigResourceType::BrokerLogger | ConfigResourceType::Unknown => {
            return Err(invalid_request(format!(
                "Unknown resource type {}",
                resource.resource_type.name()
            )));
        }
    }
    Ok(())
}

/// `None` is the default of all brokers.
fn broker_id(name: &str) -> Result<Option<NodeId>, ApiError> {
    if name.is_empty() {
        return Ok(None);
    }
    let id: i32 = name
        .parse()
        .map_err(|_| invalid_request("Unable to parse broker name as a base 10 number."))?;
    if id < 0 {
        return Err(invalid_request("Invalid negative broker ID."));
    }
    Ok(Some(NodeId(id)))
}

fn validate_client_metrics(name: &str, all: &Overrides) -> Result<(), ApiError> {
    const INTERVAL: &str = "interval.ms";
    const MATCH_KEYS: [&str; 6] = [
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    ];
    if name.is_empty() {
        return Err(invalid_request("Subscription name can't be empty"));
    }
    for (key, value) in all {
        let Some(definition) = find(client_metrics::DEFINITIONS, key) else {
            return Err(invalid_config(format!(
                "Unknown client metrics configuration: {key}"
            )));
        };
        let parsed = definition
            .value(Some(value))
            .map_err(|bad| invalid_config(bad.to_string()))?;
        if key == INTERVAL
            && let Value::Int(interval_ms) = parsed
            && !(100..=3_600_000).contains(&interval_ms)
        {
            return Err(invalid_config(format!(
                "Invalid value {value} for {INTERVAL}, interval must be between 100 and 3600000 (1 hour)"
            )));
        }
        if key == "match" {
            for pattern in value.split(',').filter(|pattern| !pattern.is_empty()) {
                let known = pattern.split_once('=').is_some_and(|(key, pattern)| {
                    MATCH_KEYS.contains(&key.trim()) && !pattern.contains('=')
                });
                if !known {
                    return Err(invalid_config(format!(
                        "Illegal client matching pattern: {pattern}"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// The bounds that the broker's `group.…` settings put on a group's own: key, lower bound, upper bound.
const GROUP_BOUNDS: [(&str, Option<&str>, Option<&str>); 13] = {
    macro_rules! both {
        ($key:literal, $min:literal, $max:literal) => {
            ($key, Some($min), Some($max))
        };
    }
    [
        both!(
            "consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms"
        ),
        both!(
            "consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms"
        ),
        both!(
            "consumer.assignment.interval.ms",
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms"
        ),
        both!(
            "share.session.timeout.ms",
            "group.share.min.session.timeout.ms",
            "group.share.max.session.timeout.ms"
        ),
        both!(
            "share.heartbeat.interval.ms",
            "group.share.min.heartbeat.interval.ms",
            "group.share.max.heartbeat.interval.ms"
        ),
        both!(
            "share.assignment.interval.ms",
            "group.share.min.assignment.interval.ms",
            "group.share.max.assignment.interval.ms"
        ),
        both!(
            "share.record.lock.duration.ms",
            "group.share.min.record.lock.duration.ms",
            "group.share.max.record.lock.duration.ms"
        ),
        both!(
            "share.delivery.count.limit",
            "group.share.min.delivery.count.limit",
            "group.share.max.delivery.count.limit"
        ),
        both!(
            "share.partition.max.record.locks",
            "group.share.min.partition.max.record.locks",
            "group.share.max.partition.max.record.locks"
        ),
        both!(
            "streams.session.timeout.ms",
            "group.streams.min.session.timeout.ms",
            "group.streams.max.session.timeout.ms"
        ),
        both!(
            "streams.heartbeat.interval.ms",
            "group.streams.min.heartbeat.interval.ms",
            "group.streams.max.heartbeat.interval.ms"
        ),
        both!(
            "streams.assignment.interval.ms",
            "group.streams.min.assignment.interval.ms",
            "group.streams.max.assignment.interval.ms"
        ),
        (
            "streams.num.standby.replicas",
            None,
            Some("group.streams.max.standby.replicas"),
        ),
    ]
};

fn validate_group(scope: &Scope<'_>, all: &Overrides) -> Result<(), ApiError> {
    for (key, value) in all {
        let Some(definition) = find(group::DEFINITIONS, key) else {
            return Err(invalid_config(format!("Unknown group config name: {key}")));
        };
        let parsed = definition
            .value(Some(value))
            .map_err(|bad| invalid_config(bad.to_string()))?;
        let Some((_, min, max)) = GROUP_BOUNDS.iter().find(|(bounded, ..)| bounded == key) else {
            continue;
        };
        let Some(number) = number(&parsed) else {
            continue;
        };
        let bound = |name: &Option<&'static str>| {
            name.and_then(|name| Some((name, number_of(scope, name)?)))
        };
        if let Some((name, min)) = bound(min)
            && number < min
        {
            return Err(invalid_config(format!(
                "{key} must be greater than or equal to {name}"
            )));
        }
        if let Some((name, max)) = bound(max)
            && number > max
        {
            return Err(invalid_config(format!(
                "{key} must be less than or equal to {name}"
            )));
        }
    }
    for kind in ["consumer", "share", "streams"] {
        let effective = |key: &str| {
            let own = all
                .get(key)
                .and_then(|text| text.trim().parse::<i64>().ok());
            own.or_else(|| number_of(scope, &format!("group.{key}")))
        };
        let session = format!("{kind}.session.timeout.ms");
        let heartbeat = format!("{kind}.heartbeat.interval.ms");
        if let (Some(session_ms), Some(heartbeat_ms)) = (effective(&session), effective(&heartbeat))
            && session_ms <= heartbeat_ms
        {
            return Err(invalid_config(format!(
                "{session} must be greater than {heartbeat}"
            )));
        }
    }
    Ok(())
}

fn number(value: &Value) -> Option<i64> {
    value.to_text()?.parse().ok()
}

fn number_of(scope: &Scope<'_>, broker_key: &str) -> Option<i64> {
    find(broker::DEFINITIONS, broker_key)?;
    number(&scope.layers().value(broker_key))
}

/// The value that appending to and subtracting from a list starts at when it is not set; `None` for other kinds.
pub fn list_default(
    scope: &Scope<'_>,
    resource_type: ConfigResourceType,
    key: &str,
) -> Option<String> {
    let list =
        |table: &'static [Definition]| find(table, key).filter(|known| known.kind == Kind::List);
    let definition = match resource_type {
        ConfigResourceType::Topic => list(topic::DEFINITIONS)?,
        ConfigResourceType::Broker => list(broker::DEFINITIONS)?,
        ConfigResourceType::ClientMetrics => list(client_metrics::DEFINITIONS)?,
        ConfigResourceType::Group => list(group::DEFINITIONS)?,
        ConfigResourceType::BrokerLogger | ConfigResourceType::Unknown => return None,
    };
    let text = match resource_type {
        ConfigResourceType::Topic => scope
            .effective_topic_configs(&Overrides::new())
            .into_iter()
            .find(|config| config.name == key)
            .and_then(|config| config.value),
        _ => definition
            .value(None)
            .ok()
            .and_then(|value| value.to_text()),
    };
    Some(text.unwrap_or_default())
}
