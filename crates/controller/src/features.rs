//! UpdateFeatures: raising and lowering finalized feature levels.
//! Not here: what a level changes (whoever acts on the feature).
//! Pure. Kafka: FeatureControlManager, Feature.validateVersion; KIP-584, KIP-778, KIP-1022, KIP-966.

use crate::api_error::ApiError;
use crate::controller::Scope;
use kavka_metadata::features::{
    ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION, supported_features,
};
use kavka_metadata::{
    ConfigResource, ConfigResourceType, MetadataRecord, MetadataVersion, VersionRange,
};
use kavka_protocol::messages::update_features_response::UpdatableFeatureResult;
use kavka_protocol::messages::{
    ClearElrRecord, ConfigRecord, FeatureLevelRecord, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a level may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpgradeType {
    Upgrade,
    SafeDowngrade,
    UnsafeDowngrade,
    Unknown,
}

struct Update<'a> {
    feature: &'a StrBytes,
    level: i16,
    upgrade_type: UpgradeType,
}

pub fn handle(
    scope: &Scope<'_>,
    api_version: i16,
    request: &UpdateFeaturesRequest,
) -> (Vec<MetadataRecord>, UpdateFeaturesResponse) {
    let updates: Vec<Update<'_>> = request
        .feature_updates
        .iter()
        .map(|update| Update {
            feature: &update.feature,
            level: update.max_version_level,
            upgrade_type: match (api_version, update.allow_downgrade, update.upgrade_type) {
                (0, false, _) => UpgradeType::Upgrade,
                (0, true, _) => UpgradeType::SafeDowngrade,
                (_, _, 1) => UpgradeType::Upgrade,
                (_, _, 2) => UpgradeType::SafeDowngrade,
                (_, _, 3) => UpgradeType::UnsafeDowngrade,
                _ => UpgradeType::Unknown,
            },
        })
        .collect();
    let results = || {
        // From version 2 on nothing is said of a single feature.
        if api_version >= 2 {
            return Vec::new();
        }
        updates
            .iter()
            .map(|update| UpdatableFeatureResult {
                feature: update.feature.clone(),
                error_code: ErrorCode::None.code(),
                // Kafka spells out that there is no error.
                error_message: Some("NONE".into()),
                ..Default::default()
            })
            .collect()
    };
    match update_all(scope, &updates) {
        Ok(records) => {
            let records = if request.validate_only {
                Vec::new()
            } else {
                records
            };
            let response = UpdateFeaturesResponse {
                error_message: None,
                results: results(),
                ..Default::default()
            };
            (records, response)
        }
        Err(refused) => {
            let message = refused.message.unwrap_or_default();
            let response = UpdateFeaturesResponse {
                error_code: refused.error.code(),
                error_message: Some(
                    format!(
                        "The update failed for all features since the following feature had an error: {message}"
                    )
                    .into(),
                ),
                ..Default::default()
            };
            (Vec::new(), response)
        }
    }
}

/// All or nothing.
fn update_all(scope: &Scope<'_>, updates: &[Update<'_>]) -> Result<Vec<MetadataRecord>, ApiError> {
    let mut proposed: BTreeMap<Arc<str>, i16> = scope.image.features.finalized_levels();
    let mut seen = BTreeSet::new();
    for update in updates {
        if !seen.insert(update.feature) {
            return Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "Duplicate feature.",
            ));
        }
        proposed.insert(update.feature.into(), update.level);
    }
    let mut records = Vec::new();
    for update in updates {
        records.extend(self::update(scope, update, &proposed)?);
    }
    Ok(records)
}

fn update(
    scope: &Scope<'_>,
    update: &Update<'_>,
    proposed: &BTreeMap<Arc<str>, i16>,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let (feature, level) = (&**update.feature, update.level);
    let refuse = |why: String| {
        Err(ApiError::new(
            ErrorCode::InvalidUpdateVersion,
            format!("Invalid update version {level} for feature {feature}. {why}"),
        ))
    };
    if update.upgrade_type == UpgradeType::Unknown {
        return refuse("The controller does not support the given upgrade type.".into());
    }
    if level < 0 {
        return refuse("A feature version cannot be less than 0.".into());
    }
    if let Some(why) = reason_not_supported(scope, feature, level) {
        return refuse(why);
    }
    let current = scope.image.features.level(feature);
    if level < current && update.upgrade_type == UpgradeType::Upgrade {
        return refuse(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
                .into(),
        );
    }
    if level > current && update.upgrade_type != UpgradeType::Upgrade {
        return refuse("Can't downgrade to a newer version.".into());
    }
    match feature {
        METADATA_VERSION => return update_metadata_version(scope, level, update.upgrade_type),
        KRAFT_VERSION => {
            // Its level is in control records of the quorum, which has been at 1 from the start.
            return if level == current {
                Ok(Vec::new())
            } else {
                refuse("Can't downgrade the version of this feature.".into())
            };
        }
        _ => {}
    }
    let metadata_level = proposed
        .get(METADATA_VERSION)
        .copied()
        .unwrap_or(MetadataVersion::MINIMUM.0);
    if feature == ELIGIBLE_LEADER_REPLICAS_VERSION && level > 0 && metadata_level < 23 {
        return refuse(format!(
            "{feature} could not be set to {level} because it depends on metadata.version level 23"
        ));
    }
    if level == current {
        return Ok(Vec::new());
    }
    let mut records = vec![level_record(feature, level)];
    if feature == ELIGIBLE_LEADER_REPLICAS_VERSION && level > 0 {
        records.extend(elr_safety_records(scope));
    }
    Ok(records)
}

fn level_record(feature: &str, level: i16) -> MetadataRecord {
    MetadataRecord::FeatureLevel(FeatureLevelRecord {
        name: feature.into(),
        feature_level: level,
        ..Default::default()
    })
}

/// Eligible replicas need one cluster-wide minimum that no broker's own setting contradicts (KIP-966).
fn elr_safety_records(scope: &Scope<'_>) -> Vec<MetadataRecord> {
    const KEY: &str = "min.insync.replicas";
    let config = |resource_name: &str, value: Option<String>| {
        MetadataRecord::Config(ConfigRecord {
            resource_type: ConfigResourceType::Broker.id(),
            resource_name: resource_name.into(),
            name: KEY.into(),
            value: value.map(Into::into),
            ..Default::default()
        })
    };
    let mut records = Vec::new();
    if scope
        .image
        .configs
        .value(&ConfigResource::broker_default(), KEY)
        .is_none()
    {
        records.push(config("", Some(scope.config.file.int(KEY).to_string())));
    }
    for (resource, configs) in scope.image.configs.iter() {
        let is_one_broker =
            resource.resource_type == ConfigResourceType::Broker && !resource.name.is_empty();
        if is_one_broker && configs.contains_key(KEY) {
            records.push(config(&resource.name, None));
        }
    }
    records.push(MetadataRecord::ClearElr(ClearElrRecord::default()));
    records
}

fn update_metadata_version(
    scope: &Scope<'_>,
    level: i16,
    upgrade_type: UpgradeType,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let refuse = |why: &str| {
        Err(ApiError::new(
            ErrorCode::InvalidUpdateVersion,
            format!("Invalid metadata.version {level}. {why}"),
        ))
    };
    let current = scope.image.features.metadata_version_or_minimum();
    let Some(new) = MetadataVersion::from_level(level) else {
        return refuse("Unknown metadata.version.");
    };
    if new < current && MetadataVersion::metadata_changed_between(new, current) {
        return if upgrade_type == UpgradeType::UnsafeDowngrade {
            refuse("Unsafe metadata downgrade is not supported in this version.")
        } else {
            refuse(
                "Refusing to perform the requested downgrade because it might delete metadata information.",
            )
        };
    }
    if new == current {
        return Ok(Vec::new());
    }
    Ok(vec![level_record(METADATA_VERSION, level)])
}

/// Why some node of the cluster cannot run with the level.
fn reason_not_supported(scope: &Scope<'_>, feature: &str, level: i16) -> Option<String> {
    let disabled = VersionRange { min: 0, max: 0 };
    let reason = |range: Option<VersionRange>, who: String| {
        let range = range.unwrap_or(disabled);
        if range.contains(level) {
            None
        } else if range == disabled {
            Some(format!("{who} does not support this feature."))
        } else {
            Some(format!("{who} only supports versions {range}"))
        }
    };
    let local = supported_features().get(feature).copied();
    if let Some(why) = reason(local, format!("Local controller {}", scope.config.node_id)) {
        return Some(why);
    }
    for broker in scope.image.cluster.brokers.values() {
        let range = broker.features.get(feature).copied();
        if let Some(why) = reason(range, format!("Broker {}", broker.broker_id)) {
            return Some(why);
        }
    }
    for controller in scope.image.cluster.controllers.values() {
        if controller.controller_id == scope.config.node_id {
            continue;
        }
        let range = controller.features.get(feature).copied();
        if let Some(why) = reason(range, format!("Controller {}", controller.controller_id)) {
            return Some(why);
        }
    }
    scope
        .config
        .voters
        .iter()
        .find(|voter| {
            **voter != scope.config.node_id && scope.image.cluster.controllers.get(*voter).is_none()
        })
        .map(|voter| {
            format!("controller {voter} has not registered, and may not support this feature")
        })
}
