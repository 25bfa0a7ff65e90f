//! AlterConfigs and IncrementalAlterConfigs: what only the addressed broker can judge, then the controller.
//! Not here: rules for topics, groups and client metrics, the records (crates/controller).
//! Checks from the image at once, then waits for the controller.
//! Kafka: kafka.server.ConfigAdminManager; KIP-133, KIP-226, KIP-339.

use crate::api::RequestContext;
use crate::api::forward::Forwarding;
use crate::api::settings::layers;
use kavka_config::{BrokerConfig, Overrides};
use kavka_metadata::{ConfigResource, ConfigResourceType, MetadataImage};
use kavka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, alter_configs_response, incremental_alter_configs_request,
    incremental_alter_configs_response,
};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeMap;
use std::sync::Arc;

type Refusal = (ErrorCode, StrBytes);
type Key = (i8, StrBytes);

pub async fn legacy(
    forwarding: Forwarding,
    config: Arc<BrokerConfig>,
    context: RequestContext,
    mut request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let image = forwarding.cache.image();
    let mut refused: BTreeMap<Key, Refusal> = BTreeMap::new();
    for resource in &request.resources {
        let new: Overrides = resource
            .configs
            .iter()
            .filter_map(|one| Some((one.name.to_string(), one.value.as_ref()?.to_string())))
            .collect();
        if let Err(refusal) = check(
            &config,
            &image,
            resource.resource_type,
            &resource.resource_name,
            new,
        ) {
            refused.insert(
                (resource.resource_type, resource.resource_name.clone()),
                refusal,
            );
        }
    }
    let order: Vec<Key> = request
        .resources
        .iter()
        .map(|resource| (resource.resource_type, resource.resource_name.clone()))
        .collect();
    request.resources.retain(|resource| {
        !refused.contains_key(&(resource.resource_type, resource.resource_name.clone()))
    });
    let mut answer = if request.resources.is_empty() {
        AlterConfigsResponse::default()
    } else {
        forwarding.forward(context, request).await
    };
    answer.responses.extend(refused.into_iter().map(
        |((resource_type, resource_name), (error, message))| {
            alter_configs_response::AlterConfigsResourceResponse {
                error_code: error.code(),
                error_message: Some(message),
                resource_type,
                resource_name,
                ..Default::default()
            }
        },
    ));
    answer
        .responses
        .sort_by_key(|one| place(&order, one.resource_type, &one.resource_name));
    answer
}

pub async fn incremental(
    forwarding: Forwarding,
    config: Arc<BrokerConfig>,
    context: RequestContext,
    mut request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let image = forwarding.cache.image();
    let mut refused: BTreeMap<Key, Refusal> = BTreeMap::new();
    for resource in &request.resources {
        let (kind, name) = (resource.resource_type, &resource.resource_name);
        let new = edited(&image, kind, name, &resource.configs);
        if let Err(refusal) = check(&config, &image, kind, name, new) {
            refused.insert((kind, name.clone()), refusal);
        }
    }
    let order: Vec<Key> = request
        .resources
        .iter()
        .map(|resource| (resource.resource_type, resource.resource_name.clone()))
        .collect();
    request.resources.retain(|resource| {
        !refused.contains_key(&(resource.resource_type, resource.resource_name.clone()))
    });
    let mut answer = if request.resources.is_empty() {
        IncrementalAlterConfigsResponse::default()
    } else {
        forwarding.forward(context, request).await
    };
    answer.responses.extend(refused.into_iter().map(
        |((resource_type, resource_name), (error, message))| {
            incremental_alter_configs_response::AlterConfigsResourceResponse {
                error_code: error.code(),
                error_message: Some(message),
                resource_type,
                resource_name,
                ..Default::default()
            }
        },
    ));
    answer
        .responses
        .sort_by_key(|one| place(&order, one.resource_type, &one.resource_name));
    answer
}

fn place(order: &[Key], resource_type: i8, name: &StrBytes) -> usize {
    order
        .iter()
        .position(|(kind, asked)| *kind == resource_type && asked == name)
        .unwrap_or(order.len())
}

/// What a broker's dynamic settings would be. List operations are the controller's: they show as the new part alone,
/// which is enough to see whether the key may be set at all.
fn edited(
    image: &MetadataImage,
    resource_type: i8,
    name: &str,
    configs: &[incremental_alter_configs_request::AlterableConfig],
) -> Overrides {
    const DELETE: i8 = 1;
    let resource = ConfigResource::new(ConfigResourceType::from_id(resource_type), name);
    let mut all = image.configs.overrides(&resource);
    for one in configs {
        match (&one.value, one.config_operation) {
            (_, DELETE) | (None, _) => {
                all.remove(&*one.name);
            }
            (Some(value), _) => {
                all.insert(one.name.to_string(), value.to_string());
            }
        }
    }
    all
}

fn check(
    config: &Arc<BrokerConfig>,
    image: &MetadataImage,
    resource_type: i8,
    name: &StrBytes,
    new: Overrides,
) -> Result<(), Refusal> {
    let invalid = |message: String| Err((ErrorCode::InvalidRequest, message.into()));
    let is_broker = match ConfigResourceType::from_id(resource_type) {
        ConfigResourceType::Broker => true,
        ConfigResourceType::BrokerLogger => false,
        ConfigResourceType::Unknown => {
            return invalid(format!("Unknown resource type {resource_type}"));
        }
        ConfigResourceType::Topic
        | ConfigResourceType::ClientMetrics
        | ConfigResourceType::Group => return Ok(()),
    };
    if !name.is_empty() || !is_broker {
        match name.parse::<i32>() {
            Err(_) => return invalid(format!("Node id must be an integer, but it is: {name}")),
            Ok(id) if id != config.node_id().get() => {
                return invalid(format!(
                    "Unexpected broker id, expected {}, but received {name}",
                    config.node_id()
                ));
            }
            Ok(_) => {}
        }
    }
    if !is_broker {
        return invalid(
            "The log levels of this server are set at start and cannot be altered.".into(),
        );
    }
    let layers = layers(config, image);
    match layers.check_alteration(&new, !name.is_empty()) {
        Ok(()) => Ok(()),
        Err(bad) => invalid(bad.to_string()),
    }
}
