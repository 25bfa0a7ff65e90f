//! ControllerRegistration: a controller tells where it listens and what it supports.
//! Not here: the set of voters (broker/src/quorum).
//! Pure. Kafka: ClusterControlManager.registerController; KIP-919.

use crate::controller::Scope;
use kavka_metadata::MetadataRecord;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::register_controller_record::{ControllerEndpoint, ControllerFeature};
use kavka_protocol::messages::{
    ControllerRegistrationRequest, ControllerRegistrationResponse, RegisterControllerRecord,
};

pub fn handle(
    scope: &Scope<'_>,
    request: &ControllerRegistrationRequest,
) -> (Vec<MetadataRecord>, ControllerRegistrationResponse) {
    if !scope
        .image
        .features
        .metadata_version_or_minimum()
        .is_controller_registration_supported()
    {
        let refusal = ControllerRegistrationResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            error_message: Some(
                "The current MetadataVersion is too old to support controller registrations."
                    .into(),
            ),
            ..Default::default()
        };
        return (Vec::new(), refusal);
    }
    let record = RegisterControllerRecord {
        controller_id: request.controller_id,
        incarnation_id: request.incarnation_id,
        zk_migration_ready: false,
        end_points: request
            .listeners
            .iter()
            .map(|listener| ControllerEndpoint {
                name: listener.name.clone(),
                host: listener.host.clone(),
                port: listener.port,
                security_protocol: listener.security_protocol,
                ..Default::default()
            })
            .collect(),
        features: request
            .features
            .iter()
            .map(|feature| ControllerFeature {
                name: feature.name.clone(),
                min_supported_version: feature.min_supported_version,
                max_supported_version: feature.max_supported_version,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    (
        vec![MetadataRecord::RegisterController(record)],
        ControllerRegistrationResponse::default(),
    )
}
