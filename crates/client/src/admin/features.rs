//! Levels of features: which the cluster runs at, which a node supports, changes.
//! Not here: what a level means. Runs on the caller's task.
//! Kafka: Admin.{describeFeatures, updateFeatures}; KIP-584, KIP-778.

use super::{ItemResult, outcome};
use crate::{ClientError, Cluster};
use kavka_common::NodeId;
use kavka_protocol::messages::update_features_request::FeatureUpdateKey;
use kavka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, UpdateFeaturesRequest};
use std::collections::BTreeMap;

/// The lowest and highest level that a node supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supported {
    pub min: i16,
    pub max: i16,
}

/// The features of a cluster, as one node tells of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub supported: BTreeMap<String, Supported>,
    /// Levels that the cluster runs at.
    pub finalized: BTreeMap<String, i16>,
    /// Grows with the metadata log; `None` from nodes that do not tell.
    pub epoch: Option<i64>,
}

impl From<&ApiVersionsResponse> for Features {
    fn from(answer: &ApiVersionsResponse) -> Features {
        Features {
            supported: answer
                .supported_features
                .iter()
                .map(|feature| {
                    let range = Supported {
                        min: feature.min_version,
                        max: feature.max_version,
                    };
                    (feature.name.to_string(), range)
                })
                .collect(),
            finalized: answer
                .finalized_features
                .iter()
                .map(|feature| (feature.name.to_string(), feature.max_version_level))
                .collect(),
            epoch: (answer.finalized_features_epoch >= 0)
                .then_some(answer.finalized_features_epoch),
        }
    }
}

/// Asks one node, or any.
pub async fn describe(
    cluster: &mut Cluster,
    node: Option<NodeId>,
) -> Result<Features, ClientError> {
    const WHAT: &str = "describeFeatures";
    let request = ApiVersionsRequest {
        client_software_name: "kavka".into(),
        client_software_version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let answer = match node {
        Some(node) => cluster.call_node(node, WHAT, &request).await?,
        None => {
            cluster
                .call_any_or_active_controller(WHAT, &request)
                .await?
        }
    };
    outcome(answer.error_code, None)?;
    Ok(Features::from(&answer))
}

/// In which direction a level may go; the numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeType {
    Upgrade = 1,
    /// Only without loss of metadata.
    SafeDowngrade = 2,
    UnsafeDowngrade = 3,
}

/// Sets levels, 0 to disable; each feature has an outcome of its own, sorted by name.
pub async fn update(
    cluster: &mut Cluster,
    levels: &BTreeMap<String, i16>,
    upgrade_type: UpgradeType,
    validate_only: bool,
) -> Result<Vec<(String, ItemResult<()>)>, ClientError> {
    let request = UpdateFeaturesRequest {
        timeout_ms: cluster.server_timeout_ms(),
        feature_updates: levels
            .iter()
            .map(|(name, level)| FeatureUpdateKey {
                feature: name.as_str().into(),
                max_version_level: *level,
                upgrade_type: upgrade_type as i8,
                ..Default::default()
            })
            .collect(),
        validate_only,
        ..Default::default()
    };
    cluster
        .retrying("updateFeatures", async |cluster| {
            let answer = cluster.call_controller("updateFeatures", &request).await?;
            let whole = || outcome(answer.error_code, answer.error_message.as_ref());
            if let Err(error) = whole()
                && error.is_retriable()
            {
                return Err(error);
            }
            // Before version 2 each feature is answered, from then on all are one.
            Ok(levels
                .keys()
                .map(|name| {
                    let own = answer
                        .results
                        .iter()
                        .find(|result| &*result.feature == name);
                    let result = match own {
                        Some(own) => whole()
                            .and_then(|()| outcome(own.error_code, own.error_message.as_ref())),
                        None => whole(),
                    };
                    (name.clone(), result)
                })
                .collect())
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_protocol::messages::api_versions_response::{
        FinalizedFeatureKey, SupportedFeatureKey,
    };

    #[test]
    fn what_a_node_tells_is_kept() {
        let answer = ApiVersionsResponse {
            supported_features: vec![SupportedFeatureKey {
                name: "group.version".into(),
                max_version: 1,
                ..Default::default()
            }],
            finalized_features: vec![FinalizedFeatureKey {
                name: "group.version".into(),
                max_version_level: 1,
                min_version_level: 1,
                ..Default::default()
            }],
            finalized_features_epoch: -1,
            ..Default::default()
        };
        let features = Features::from(&answer);
        assert_eq!(
            features.supported["group.version"],
            Supported { min: 0, max: 1 }
        );
        assert_eq!(features.finalized["group.version"], 1);
        assert_eq!(features.epoch, None);
    }
}
