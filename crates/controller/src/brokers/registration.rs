//! BrokerRegistration: a broker comes to life under an epoch, the offset of its record.
//! Not here: unfencing (`heartbeat`).
//! Pure. Kafka: ClusterControlManager.registerBroker; KIP-584, KIP-631, KIP-858, KIP-966.

use crate::api_error::ApiError;
use crate::controller::Scope;
use crate::replication::broker_changes::new_incarnation;
use crate::soft::{BrokerSession, Soft};
use kavka_common::guards::{Guard, holds};
use kavka_common::{BrokerEpoch, NodeId, Uuid};
use kavka_metadata::features::METADATA_VERSION;
use kavka_metadata::{MetadataRecord, MetadataVersion, VersionRange};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::register_broker_record::{BrokerEndpoint, BrokerFeature};
use kavka_protocol::messages::{
    BrokerRegistrationRequest, BrokerRegistrationResponse, RegisterBrokerRecord,
};
use std::collections::BTreeSet;

/// Directory ids up to this many are reserved (DirectoryId.reserved).
const RESERVED_DIRECTORIES: u8 = 100;

pub fn handle(
    scope: &Scope<'_>,
    soft: &mut Soft,
    request: &BrokerRegistrationRequest,
) -> (Vec<MetadataRecord>, BrokerRegistrationResponse) {
    match register(scope, soft, request) {
        Ok((records, broker_epoch)) => (
            records,
            BrokerRegistrationResponse {
                broker_epoch: broker_epoch.get(),
                ..Default::default()
            },
        ),
        Err(refused) => (
            Vec::new(),
            BrokerRegistrationResponse {
                error_code: refused.error.code(),
                ..Default::default()
            },
        ),
    }
}

/// Refusals carry the reason for the log; the wire has only room for the code.
pub fn register(
    scope: &Scope<'_>,
    soft: &mut Soft,
    request: &BrokerRegistrationRequest,
) -> Result<(Vec<MetadataRecord>, BrokerEpoch), ApiError> {
    if *request.cluster_id != *scope.config.cluster_id {
        return Err(ApiError::new(
            ErrorCode::InconsistentClusterId,
            format!(
                "Expected cluster ID {}, but got cluster ID {}",
                scope.config.cluster_id, request.cluster_id
            ),
        ));
    }
    let broker_id = NodeId(request.broker_id);
    let existing = scope.image.cluster.broker(broker_id);
    let is_same_incarnation =
        existing.is_some_and(|broker| broker.incarnation_id == request.incarnation_id);
    if let Some(broker) = existing
        && !is_same_incarnation
        && !broker.fenced
        && soft.has_valid_session(
            broker_id,
            broker.broker_epoch,
            scope.now_ms,
            scope.config.session_timeout_ms,
        )
    {
        return Err(ApiError::new(
            ErrorCode::DuplicateBrokerRegistration,
            "Another broker is registered with that broker id. If the broker was recently restarted this should self-resolve once the heartbeat manager expires the broker's session.",
        ));
    }
    if request.is_migrating_zk_broker {
        return Err(ApiError::new(
            ErrorCode::BrokerIdNotRegistered,
            "Controller does not support registering ZK brokers.",
        ));
    }
    let metadata_version = scope.image.features.metadata_version_or_minimum();
    if metadata_version.is_directory_assignment_supported() {
        check_directories(scope, request)?;
    }
    let mut records = Vec::new();
    let mut record = RegisterBrokerRecord {
        broker_id: request.broker_id,
        incarnation_id: request.incarnation_id,
        rack: request.rack.clone(),
        end_points: request
            .listeners
            .iter()
            .map(|listener| BrokerEndpoint {
                name: listener.name.clone(),
                host: listener.host.clone(),
                port: listener.port,
                security_protocol: listener.security_protocol,
                ..Default::default()
            })
            .collect(),
        features: checked_features(scope, request)?,
        fenced: true,
        ..Default::default()
    };
    if metadata_version.is_directory_assignment_supported() {
        record.log_dirs = request.log_dirs.clone();
    }
    match existing.filter(|_| is_same_incarnation) {
        Some(broker) => {
            record.broker_epoch = broker.broker_epoch.get();
            record.fenced = broker.fenced;
            record.in_controlled_shutdown = broker.in_controlled_shutdown;
            record.cordoned_log_dirs = broker
                .cordoned_directories
                .clone()
                .filter(|_| metadata_version.is_cordoned_directories_supported());
        }
        None => {
            // One that was unregistered meanwhile may still be eligible somewhere, and nothing tells how it stopped.
            let is_clean = existing
                .is_some_and(|broker| request.previous_broker_epoch == broker.broker_epoch.get());
            if existing.is_some() || holds(Guard::UnregisteredReturn) {
                new_incarnation(scope, broker_id, is_clean, &mut records);
            }
            record.broker_epoch = offset_after(scope, records.len());
        }
    }
    let broker_epoch = BrokerEpoch(record.broker_epoch);
    let registration_offset = offset_after(scope, records.len());
    records.push(MetadataRecord::RegisterBroker(record));
    let known = soft
        .sessions
        .get(&broker_id)
        .filter(|_| is_same_incarnation);
    let session = BrokerSession {
        broker_epoch,
        last_contact_ms: scope.now_ms,
        metadata_offset: known.map_or(-1, |session| session.metadata_offset),
        registration_offset,
        controlled_shutdown_offset: known.and_then(|session| session.controlled_shutdown_offset),
    };
    soft.sessions.insert(broker_id, session);
    Ok((records, broker_epoch))
}

fn offset_after(scope: &Scope<'_>, records: usize) -> i64 {
    scope.next_offset + i64::try_from(records).unwrap_or(i64::MAX)
}

fn check_directories(
    scope: &Scope<'_>,
    request: &BrokerRegistrationRequest,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidRegistration, message));
    if request.log_dirs.is_empty() {
        return refuse("No directories specified in request".into());
    }
    if request.log_dirs.iter().any(is_reserved) {
        return refuse("Reserved directory ID in request".into());
    }
    let unique: BTreeSet<Uuid> = request.log_dirs.iter().copied().collect();
    if unique.len() != request.log_dirs.len() {
        return refuse("Duplicate directory ID in request".into());
    }
    for other in scope.image.cluster.brokers.values() {
        if other.broker_id.get() == request.broker_id {
            continue;
        }
        if let Some(directory) = other
            .directories
            .iter()
            .find(|directory| unique.contains(directory))
        {
            return refuse(format!(
                "Broker {} is already registered with directory {directory}",
                other.broker_id
            ));
        }
    }
    Ok(())
}

fn is_reserved(directory: &Uuid) -> bool {
    let bytes = directory.as_bytes();
    bytes[..15].iter().all(|byte| *byte == 0) && bytes[15] < RESERVED_DIRECTORIES
}

/// The broker's features, if it supports every finalized level.
fn checked_features(
    scope: &Scope<'_>,
    request: &BrokerRegistrationRequest,
) -> Result<Vec<BrokerFeature>, ApiError> {
    let levels = scope.image.features.finalized_levels();
    let check = |name: &str, range: VersionRange| {
        let default = if name == METADATA_VERSION {
            MetadataVersion::MINIMUM.0
        } else {
            0
        };
        let finalized = levels.get(name).copied().unwrap_or(default);
        if range.contains(finalized) {
            Ok(())
        } else {
            Err(ApiError::new(
                ErrorCode::UnsupportedVersion,
                format!(
                    "Unable to register because the broker does not support finalized version {finalized} of {name}. The broker wants a version between {} and {}, inclusive.",
                    range.min, range.max
                ),
            ))
        }
    };
    let mut features = Vec::with_capacity(request.features.len());
    for feature in &request.features {
        // kraft.version is between voters; its level is not a metadata record's business.
        if &*feature.name != kavka_metadata::features::KRAFT_VERSION {
            check(
                &feature.name,
                VersionRange {
                    min: feature.min_supported_version,
                    max: feature.max_supported_version,
                },
            )?;
        }
        features.push(BrokerFeature {
            name: feature.name.clone(),
            min_supported_version: feature.min_supported_version,
            max_supported_version: feature.max_supported_version,
            ..Default::default()
        });
    }
    for (name, level) in &levels {
        let is_told = request
            .features
            .iter()
            .any(|feature| *feature.name == **name);
        if *level != 0 && !is_told && &**name != kavka_metadata::features::KRAFT_VERSION {
            check(name, VersionRange { min: 0, max: 0 })?;
        }
    }
    Ok(features)
}
