//! ApiVersions: what this listener serves, and the cluster's features.
//! Not here: which rows there are (table.rs), where features come from (a closure over the metadata image).
//! Computed in the connection's task; pure except for the closure.
//! Kafka: ApiVersionsResponse, DefaultApiVersionManager; KIP-35, KIP-511, KIP-584, KIP-896.

use kavka_metadata::MetadataImage;
use kavka_metadata::features::supported_features;
use kavka_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use kavka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kavka_protocol::{ApiKey, ErrorCode, Message};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Clients on librdkafka before 2.11 think that a broker without Produce version 0 knows no compression but gzip
/// and snappy; Kafka shows it to all of them, and serves no such request (KAFKA-18659).
const PRODUCE_SHOWN_FROM: i16 = 0;

/// The features as the metadata image has them now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Name, lowest and highest level that this server can run.
    pub supported: Vec<(Arc<str>, i16, i16)>,
    /// Name and level in force; level 0 is left out.
    pub finalized: Vec<(Arc<str>, i16)>,
    /// Offset of the metadata image; -1 when there is none yet.
    pub finalized_epoch: i64,
}

impl Features {
    /// Of a cluster's metadata.
    pub fn of(image: &MetadataImage) -> Features {
        let supported = supported_features();
        let finalized = supported
            .keys()
            .map(|name| (Arc::clone(name), image.features.level(name)))
            .filter(|(_, level)| *level > 0)
            .collect();
        Features {
            finalized,
            supported: supported
                .into_iter()
                .map(|(name, range)| (name, range.min, range.max))
                .collect(),
            finalized_epoch: if image.is_empty() {
                -1
            } else {
                image.last_offset
            },
        }
    }
}

type FeatureSource = Box<dyn Fn() -> Features + Send + Sync>;

/// What ApiVersions answers on one kind of listener.
pub struct ApiVersionsAnswer {
    served: Vec<(ApiKey, RangeInclusive<i16>)>,
    features: FeatureSource,
}

impl ApiVersionsAnswer {
    pub fn new(features: impl Fn() -> Features + Send + Sync + 'static) -> Self {
        ApiVersionsAnswer {
            served: Vec::new(),
            features: Box::new(features),
        }
    }

    /// Sets what is served besides ApiVersions itself.
    pub(crate) fn serve(&mut self, rows: impl Iterator<Item = (ApiKey, RangeInclusive<i16>)>) {
        self.served = rows.collect();
        self.served
            .push((ApiKey::ApiVersions, ApiVersionsRequest::VALID_VERSIONS));
        self.served.sort_by_key(|(key, _)| *key as i16);
    }

    pub(crate) fn served(&self) -> &[(ApiKey, RangeInclusive<i16>)] {
        &self.served
    }

    pub(crate) fn answer(&self, version: i16, request: &ApiVersionsRequest) -> ApiVersionsResponse {
        if version >= 3
            && !(is_software_name(&request.client_software_name)
                && is_software_name(&request.client_software_version))
        {
            return ApiVersionsResponse {
                error_code: ErrorCode::InvalidRequest.code(),
                ..Default::default()
            };
        }
        let features = (self.features)();
        ApiVersionsResponse {
            api_keys: self.served.iter().map(shown).collect(),
            supported_features: features
                .supported
                .iter()
                // KAFKA-17011: clients that know only version 3 fail on a feature that starts at level 0.
                .filter(|(_, min, _)| version >= 4 || *min > 0)
                .map(|(name, min_version, max_version)| SupportedFeatureKey {
                    name: name.as_ref().into(),
                    min_version: *min_version,
                    max_version: *max_version,
                    ..Default::default()
                })
                .collect(),
            finalized_features_epoch: features.finalized_epoch,
            finalized_features: features
                .finalized
                .into_iter()
                .map(|(name, level)| FinalizedFeatureKey {
                    name: name.as_ref().into(),
                    max_version_level: level,
                    min_version_level: level,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }

    /// The version 0 body for a client that asked in a version we do not know.
    pub(crate) fn unsupported_version(&self) -> ApiVersionsResponse {
        ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            api_keys: self
                .served
                .iter()
                .filter(|(key, _)| *key == ApiKey::ApiVersions)
                .map(shown)
                .collect(),
            ..Default::default()
        }
    }
}

fn shown((key, versions): &(ApiKey, RangeInclusive<i16>)) -> ApiVersion {
    ApiVersion {
        api_key: *key as i16,
        min_version: match key {
            ApiKey::Produce => PRODUCE_SHOWN_FROM,
            _ => *versions.start(),
        },
        max_version: *versions.end(),
        ..Default::default()
    }
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`
fn is_software_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes
                    .iter()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> ApiVersionsAnswer {
        let mut answer = ApiVersionsAnswer::new(|| Features {
            supported: vec![
                ("kraft.version".into(), 0, 1),
                ("metadata.version".into(), 7, 30),
            ],
            finalized: vec![("metadata.version".into(), 30)],
            finalized_epoch: 610,
        });
        answer.serve([(ApiKey::Produce, 3..=13), (ApiKey::Metadata, 0..=13)].into_iter());
        answer
    }

    fn request(name: &str) -> ApiVersionsRequest {
        ApiVersionsRequest {
            client_software_name: name.into(),
            client_software_version: "1.0".into(),
            ..Default::default()
        }
    }

    #[test]
    fn keys_are_sorted_and_produce_is_shown_from_version_0() {
        let response = answer().answer(0, &ApiVersionsRequest::default());
        let keys: Vec<_> = response
            .api_keys
            .iter()
            .map(|k| (k.api_key, k.min_version, k.max_version))
            .collect();
        assert_eq!(keys, [(0, 0, 13), (3, 0, 13), (18, 0, 4)]);
    }

    #[test]
    fn features_that_start_at_0_are_hidden_from_version_3() {
        let of_3 = answer().answer(3, &request("x"));
        assert_eq!(of_3.supported_features.len(), 1);
        assert_eq!(of_3.finalized_features_epoch, 610);
        assert_eq!(
            answer().answer(4, &request("x")).supported_features.len(),
            2
        );
    }

    #[test]
    fn software_names_are_checked_from_version_3() {
        for bad in ["", "-a", "a-", "a b", "ä"] {
            let response = answer().answer(3, &request(bad));
            assert_eq!(
                response.error_code,
                ErrorCode::InvalidRequest.code(),
                "{bad}"
            );
            assert!(response.api_keys.is_empty());
        }
        assert_eq!(
            answer().answer(3, &request("apache-kafka.java")).error_code,
            0
        );
    }

    #[test]
    fn an_unknown_version_is_told_only_about_api_versions() {
        let response = answer().unsupported_version();
        assert_eq!(response.error_code, 35);
        assert_eq!(response.api_keys.len(), 1);
        assert_eq!(response.api_keys[0].api_key, 18);
    }
}
