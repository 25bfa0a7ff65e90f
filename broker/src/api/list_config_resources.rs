//! ListConfigResources: the names of all that has, or may have, settings.
//! Not here: the settings (describe_configs.rs).
//! Answers at once from the image.
//! Kafka: KafkaApis.handleListConfigResources; KIP-714, KIP-1142.

use crate::api::RequestContext;
use crate::metadata::MetadataCache;
use kavka_metadata::{ConfigResourceType, MetadataImage};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::list_config_resources_response::ConfigResource;
use kavka_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};

pub fn handle(
    cache: &MetadataCache,
    context: &RequestContext,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    answer(&cache.image(), context.api_version, &request)
}

/// The answer from an image.
pub fn answer(
    image: &MetadataImage,
    api_version: i16,
    request: &ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    const KNOWN: [ConfigResourceType; 5] = [
        ConfigResourceType::Topic,
        ConfigResourceType::Broker,
        ConfigResourceType::BrokerLogger,
        ConfigResourceType::ClientMetrics,
        ConfigResourceType::Group,
    ];
    // Version 0 knows only subscriptions of client metrics.
    let types: Vec<ConfigResourceType> = if api_version == 0 {
        vec![ConfigResourceType::ClientMetrics]
    } else if request.resource_types.is_empty() {
        KNOWN.to_vec()
    } else {
        request
            .resource_types
            .iter()
            .map(|id| ConfigResourceType::from_id(*id))
            .collect()
    };
    if types.contains(&ConfigResourceType::Unknown) {
        return ListConfigResourcesResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..Default::default()
        };
    }
    let mut response = ListConfigResourcesResponse::default();
    for resource_type in KNOWN.into_iter().filter(|known| types.contains(known)) {
        let names: Vec<String> = match resource_type {
            ConfigResourceType::Topic => image
                .topics
                .iter()
                .map(|topic| topic.name.to_string())
                .collect(),
            ConfigResourceType::Broker | ConfigResourceType::BrokerLogger => image
                .cluster
                .brokers
                .keys()
                .map(ToString::to_string)
                .collect(),
            ConfigResourceType::ClientMetrics | ConfigResourceType::Group => image
                .configs
                .iter()
                .filter(|(resource, _)| resource.resource_type == resource_type)
                .map(|(resource, _)| resource.name.to_string())
                .collect(),
            ConfigResourceType::Unknown => Vec::new(),
        };
        response
            .config_resources
            .extend(names.into_iter().map(|name| ConfigResource {
                resource_name: name.into(),
                resource_type: resource_type.id(),
                ..Default::default()
            }));
    }
    response
}
