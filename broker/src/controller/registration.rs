//! A controller tells the active one where it listens and what it supports, once per start of its process.
//! Not here: what is registered means (crates/metadata), membership of the quorum (quorum/).
//! One task that ends when the registration is in the log.
//! Kafka: kafka.server.ControllerRegistrationManager; KIP-919.

use super::channel::ControllerChannel;
use crate::lifecycle::AdvertisedListener;
use kavka_common::{NodeId, Uuid};
use kavka_metadata::features::supported_features;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{
    ControllerRegistrationRequest, controller_registration_request as wire,
};
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

const LOGGER: &str = "kafka.server.ControllerRegistrationManager";
const RETRY: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Registers, and retries until the active controller has taken it.
pub async fn register_controller(
    channel: Arc<ControllerChannel>,
    node_id: NodeId,
    incarnation_id: Uuid,
    listeners: Vec<AdvertisedListener>,
) {
    let request = ControllerRegistrationRequest {
        controller_id: node_id.get(),
        incarnation_id,
        zk_migration_ready: false,
        listeners: listeners
            .iter()
            .map(|listener| wire::Listener {
                name: listener.name.as_str().into(),
                host: listener.host.as_str().into(),
                port: listener.port,
                security_protocol: listener.security_protocol,
                ..Default::default()
            })
            .collect(),
        features: supported_features()
            .into_iter()
            .map(|(name, range)| wire::Feature {
                name: (&*name).into(),
                min_supported_version: range.min,
                max_supported_version: range.max,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let mut retry = RETRY;
    loop {
        let reason = match channel.call(request.clone()).await {
            Ok(response) => match ErrorCode::from(response.error_code) {
                ErrorCode::None => {
                    info!(target: LOGGER, "[ControllerRegistrationManager id={node_id} incarnation={incarnation_id}] Our registration has been persisted to the metadata log.");
                    return;
                }
                // The cluster's metadata.version is older than controller registrations: nothing reads one.
                ErrorCode::UnsupportedVersion => return,
                code => code.name().to_owned(),
            },
            Err(error) => error.to_string(),
        };
        warn!(target: LOGGER, "[ControllerRegistrationManager id={node_id}] not registered yet: {reason}");
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY_MAX);
    }
}
