//! What is known of an API besides its messages: versions, header versions, listeners.
//! Not here: which APIs this broker serves (broker/src/api/table.rs).
//! Pure data. Kafka: org.apache.kafka.common.protocol.ApiKeys, ApiMessageType.

use crate::ApiKey;
use std::fmt;
use std::ops::RangeInclusive;

/// A row of tables/apis.tsv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiInfo {
    /// First, last stable and last version.
    pub versions: Option<(i16, i16, i16)>,
    pub on_broker: bool,
    pub on_controller: bool,
    /// Needs ClusterAction on the cluster: only brokers send it.
    pub cluster_action: bool,
    /// A broker passes it on to the controller.
    pub forwardable: bool,
    pub flexible_request_from: Option<i16>,
    pub flexible_response_header_from: Option<i16>,
}

impl ApiKey {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The stable versions; `None` where no version is left.
    pub fn versions(self) -> Option<RangeInclusive<i16>> {
        self.info().versions.map(|(min, max, _)| min..=max)
    }

    /// All versions, with those that Kafka serves only when `unstable.api.versions.enable` is set.
    pub fn versions_with_unstable(self) -> Option<RangeInclusive<i16>> {
        self.info().versions.map(|(min, _, max)| min..=max)
    }

    /// The version of the request header. Answers for versions that do not exist, too: an ApiVersions request of the
    /// future has to be understood as far as its header (KIP-511).
    pub fn request_header_version(self, version: i16) -> i16 {
        match self.info().flexible_request_from {
            Some(from) if version >= from => 2,
            _ => 1,
        }
    }

    /// The version of the response header. Always 0 for ApiVersions: its reader does not know the version yet.
    pub fn response_header_version(self, version: i16) -> i16 {
        match self.info().flexible_response_header_from {
            Some(from) if version >= from => 1,
            _ => 0,
        }
    }

    pub fn on_broker(self) -> bool {
        self.info().on_broker
    }

    pub fn on_controller(self) -> bool {
        self.info().on_controller
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
