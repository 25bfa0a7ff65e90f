//! A controller tells the active one where it listens and what it supports, once per start of its process; and a voter
//! of a quorum without `controller.quorum.voters`, where the others reach it now.
//! Not here: what is registered means (crates/metadata), membership of the quorum (quorum/).
//! One task that ends when both are in the log.
//! Kafka: kafka.server.ControllerRegistrationManager, KafkaRaftClient.maybeSendUpdateVoterRequest; KIP-919, KIP-853.

use super::channel::ControllerChannel;
use crate::lifecycle::AdvertisedListener;
use crate::quorum::{Member, MetadataQuorum, VoterEndpoint};
use kavka_common::{NodeId, Uuid};
use kavka_metadata::features::supported_features;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{
    ControllerRegistrationRequest, UpdateRaftVoterRequest, controller_registration_request as wire,
    update_raft_voter_request,
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

/// Has the quorum know this voter's listeners, if it knows others.
pub async fn update_voter(
    channel: Arc<ControllerChannel>,
    quorum: Arc<dyn MetadataQuorum>,
    own: Member,
    listeners: Vec<VoterEndpoint>,
) {
    let mut retry = RETRY;
    loop {
        let voters = quorum.voters();
        let Some(known) = voters.get(&NodeId(own.node_id)) else {
            return;
        };
        if known.endpoints == listeners && known.directory_id == own.directory_id {
            return;
        }
        let request = UpdateRaftVoterRequest {
            cluster_id: Some(own.cluster_id.as_str().into()),
            current_leader_epoch: quorum.leader().borrow().epoch.get(),
            voter_id: own.node_id,
            voter_directory_id: own.directory_id.parse().unwrap_or(Uuid::ZERO),
            listeners: listeners
                .iter()
                .map(|listener| update_raft_voter_request::Listener {
                    name: listener.name.as_str().into(),
                    host: listener.host.as_str().into(),
                    port: listener.port,
                    ..Default::default()
                })
                .collect(),
            kraft_version_feature: update_raft_voter_request::KRaftVersionFeature {
                min_supported_version: 0,
                max_supported_version: 1,
                ..Default::default()
            },
            ..Default::default()
        };
        match channel.call(request).await {
            Ok(response) if response.error_code == 0 => return,
            Ok(response) => {
                let code = ErrorCode::from(response.error_code);
                warn!(target: LOGGER, "[ControllerRegistrationManager id={}] the quorum does not take this voter's listeners: {}", own.node_id, code.name());
            }
            Err(error) => {
                warn!(target: LOGGER, "[ControllerRegistrationManager id={}] the quorum does not know this voter's listeners yet: {error}", own.node_id);
            }
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY_MAX);
    }
}
