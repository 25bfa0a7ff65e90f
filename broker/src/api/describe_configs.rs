//! DescribeConfigs: settings of topics, brokers, groups and client metrics, with their sources.
//! Not here: where a value comes from (crates/config).
//! Answers at once from the image.
//! Kafka: kafka.server.ConfigHelper; KIP-133, KIP-226, KIP-569.

use crate::api::RequestContext;
use crate::api::settings::layers;
use crate::metadata::MetadataCache;
use kavka_common::topic::validate_topic_name;
use kavka_config::source::{
    describe_broker, describe_broker_defaults, describe_client_metrics, describe_group,
    describe_topic,
};
use kavka_config::{BrokerConfig, Described};
use kavka_metadata::{ConfigResource, ConfigResourceType, MetadataImage};
use kavka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kavka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kavka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kavka_protocol::{ErrorCode, StrBytes};
use std::sync::Arc;

pub fn handle(
    cache: &MetadataCache,
    config: &Arc<BrokerConfig>,
    _context: &RequestContext,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    answer(&cache.image(), config, &request)
}

/// The answer from an image.
pub fn answer(
    image: &MetadataImage,
    config: &Arc<BrokerConfig>,
    request: &DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let results = request
        .resources
        .iter()
        .map(|resource| {
            let mut result = DescribeConfigsResult {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            };
            match describe(image, config, resource) {
                Ok(all) => {
                    let keys = resource.configuration_keys.as_deref().unwrap_or_default();
                    result.configs = all
                        .into_iter()
                        .filter(|one| keys.is_empty() || keys.iter().any(|key| **key == *one.name))
                        .map(|one| shown(one, request.include_synonyms))
                        .collect();
                }
                Err((error, message)) => {
                    result.error_code = error.code();
                    result.error_message = message;
                }
            }
            result
        })
        .collect();
    DescribeConfigsResponse {
        results,
        ..Default::default()
    }
}

type Refusal = (ErrorCode, Option<StrBytes>);

fn invalid(message: impl Into<String>) -> Refusal {
    (ErrorCode::InvalidRequest, Some(message.into().into()))
}

fn describe(
    image: &MetadataImage,
    config: &Arc<BrokerConfig>,
    resource: &DescribeConfigsResource,
) -> Result<Vec<Described>, Refusal> {
    let name = &*resource.resource_name;
    let node_id = config.node_id();
    let layers = layers(config, image);
    let stored = |resource_type| {
        image
            .configs
            .overrides(&ConfigResource::new(resource_type, name))
    };
    match ConfigResourceType::from_id(resource.resource_type) {
        ConfigResourceType::Topic => {
            validate_topic_name(name).map_err(|bad| {
                (
                    ErrorCode::InvalidTopicException,
                    Some(bad.to_string().into()),
                )
            })?;
            if !image.topics.contains(name) {
                return Err((
                    ErrorCode::UnknownTopicOrPartition,
                    Some(StrBytes::default()),
                ));
            }
            Ok(describe_topic(&layers, &stored(ConfigResourceType::Topic)))
        }
        ConfigResourceType::Broker if name.is_empty() => Ok(describe_broker_defaults(&layers)),
        ConfigResourceType::Broker => match name.parse::<i32>() {
            Err(_) => Err(invalid(format!(
                "Broker id must be an integer, but it is: {name}"
            ))),
            Ok(id) if id != node_id.get() => Err(invalid(format!(
                "Unexpected broker id, expected {node_id} or empty string, but received {name}"
            ))),
            Ok(_) => Ok(describe_broker(&layers)),
        },
        ConfigResourceType::BrokerLogger if name.is_empty() => {
            Err(invalid("Broker id must not be empty"))
        }
        ConfigResourceType::BrokerLogger => match name.parse::<i32>() {
            Err(_) => Err(invalid(format!(
                "Broker id must be an integer, but it is: {name}"
            ))),
            Ok(id) if id != node_id.get() => Err(invalid(format!(
                "Unexpected broker id, expected {node_id} but received {name}"
            ))),
            // This server's log levels are set at start: there are no loggers to show.
            Ok(_) => Ok(Vec::new()),
        },
        ConfigResourceType::ClientMetrics if name.is_empty() => Err(invalid(
            "Client metrics subscription name must not be empty",
        )),
        ConfigResourceType::ClientMetrics => Ok(describe_client_metrics(&stored(
            ConfigResourceType::ClientMetrics,
        ))),
        ConfigResourceType::Group if name.is_empty() => {
            Err(invalid("Group name must not be empty"))
        }
        ConfigResourceType::Group => {
            Ok(describe_group(&layers, &stored(ConfigResourceType::Group)))
        }
        ConfigResourceType::Unknown => Err(invalid(ErrorCode::InvalidRequest.message())),
    }
}

fn shown(one: Described, include_synonyms: bool) -> DescribeConfigsResourceResult {
    let synonyms = if include_synonyms {
        one.synonyms
    } else {
        Vec::new()
    };
    DescribeConfigsResourceResult {
        name: one.name.into(),
        value: one.value.map(Into::into),
        read_only: one.read_only,
        config_source: one.source.wire_id(),
        is_sensitive: one.is_sensitive,
        synonyms: synonyms
            .into_iter()
            .map(|synonym| DescribeConfigsSynonym {
                name: synonym.name.into(),
                value: synonym.value.map(Into::into),
                source: synonym.source.wire_id(),
                ..Default::default()
            })
            .collect(),
        config_type: one.kind.map_or(0, kavka_config::Kind::wire_type),
        documentation: None,
        ..Default::default()
    }
}

#[cfg(test)]
#[path = "describe_configs_test.rs"]
mod describe_configs_test;
