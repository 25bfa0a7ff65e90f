//! A broker's settings with the dynamic ones of the metadata image, for the APIs that show and change them.
//! Not here: what the layers mean (crates/config), applying a change (each room that owns a setting).
//! Pure.
//! Kafka: DynamicBrokerConfig, ConfigHelper; KIP-226.

use kavka_config::{BrokerConfig, Layers};
use kavka_metadata::{ConfigResource, MetadataImage};
use std::sync::Arc;

/// The layers of this node's settings as the image has them.
pub fn layers(config: &Arc<BrokerConfig>, image: &MetadataImage) -> Layers {
    Layers {
        file: Arc::clone(config),
        dynamic_default: image.configs.overrides(&ConfigResource::broker_default()),
        dynamic_broker: image
            .configs
            .overrides(&ConfigResource::broker(config.node_id())),
    }
}
