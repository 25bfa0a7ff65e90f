//! Finalized feature levels, metadata.version before all, and what this software supports.
//! Not here: upgrade and downgrade rules (crates/controller).
//! Pure data; the tables are facts of Kafka 4.3. Kafka: FeaturesImage, MetadataVersion, Feature; KIP-584, KIP-778, KIP-1022.

use crate::cluster::VersionRange;
use kavka_protocol::messages::FeatureLevelRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const METADATA_VERSION: &str = "metadata.version";
pub const KRAFT_VERSION: &str = "kraft.version";
pub const GROUP_VERSION: &str = "group.version";
pub const TRANSACTION_VERSION: &str = "transaction.version";
pub const ELIGIBLE_LEADER_REPLICAS_VERSION: &str = "eligible.leader.replicas.version";
pub const SHARE_VERSION: &str = "share.version";
pub const STREAMS_VERSION: &str = "streams.version";

/// A level of `metadata.version`: which records, and which of their versions, the metadata log may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataVersion(pub i16);

/// Level, name, and whether the level brought a change of records or of their meaning.
const METADATA_VERSIONS: [(i16, &str, bool); 24] = [
    (7, "3.3-IV3", true),
    (8, "3.4-IV0", true),
    (9, "3.5-IV0", false),
    (10, "3.5-IV1", false),
    (11, "3.5-IV2", true),
    (12, "3.6-IV0", false),
    (13, "3.6-IV1", true),
    (14, "3.6-IV2", true),
    (15, "3.7-IV0", true),
    (16, "3.7-IV1", false),
    (17, "3.7-IV2", true),
    (18, "3.7-IV3", false),
    (19, "3.7-IV4", false),
    (20, "3.8-IV0", false),
    (21, "3.9-IV0", false),
    (22, "4.0-IV0", false),
    (23, "4.0-IV1", true),
    (24, "4.0-IV2", false),
    (25, "4.0-IV3", false),
    (26, "4.1-IV0", false),
    (27, "4.1-IV1", false),
    (28, "4.2-IV0", false),
    (29, "4.2-IV1", false),
    (30, "4.3-IV0", true),
];

impl MetadataVersion {
    pub const MINIMUM: MetadataVersion = MetadataVersion(7);
    pub const LATEST_PRODUCTION: MetadataVersion = MetadataVersion(30);

    const IBP_3_4_IV0: MetadataVersion = MetadataVersion(8);
    const IBP_3_6_IV0: MetadataVersion = MetadataVersion(12);
    const IBP_3_7_IV0: MetadataVersion = MetadataVersion(15);
    const IBP_3_7_IV2: MetadataVersion = MetadataVersion(17);
    const IBP_4_0_IV1: MetadataVersion = MetadataVersion(23);
    const IBP_4_3_IV0: MetadataVersion = MetadataVersion(30);

    pub fn from_level(level: i16) -> Option<Self> {
        METADATA_VERSIONS
            .iter()
            .any(|(known, ..)| *known == level)
            .then_some(MetadataVersion(level))
    }

    /// From a name: an exact one (`4.3-IV0`), or a release (`4.3`), which stands for its last level.
    pub fn from_name(name: &str) -> Option<Self> {
        let exact = METADATA_VERSIONS
            .iter()
            .find(|(_, known, _)| *known == name);
        let release = || {
            METADATA_VERSIONS
                .iter()
                .rev()
                .find(|(_, known, _)| known.split('-').next() == Some(name))
        };
        exact
            .or_else(release)
            .map(|(level, ..)| MetadataVersion(*level))
    }

    pub fn name(self) -> &'static str {
        METADATA_VERSIONS
            .iter()
            .find(|(level, ..)| *level == self.0)
            .map_or("unknown", |(_, name, _)| name)
    }

    /// All levels that this software knows, ascending.
    pub fn all() -> impl Iterator<Item = MetadataVersion> {
        METADATA_VERSIONS
            .iter()
            .map(|(level, ..)| MetadataVersion(*level))
    }

    /// Whether a level in (low, high] changed the metadata: a downgrade across it may lose some.
    pub fn metadata_changed_between(low: MetadataVersion, high: MetadataVersion) -> bool {
        METADATA_VERSIONS
            .iter()
            .any(|(level, _, changed)| *changed && *level > low.0 && *level <= high.0)
    }

    /// Before 3.6 every shrink of an ISR had to bump the leader epoch (KAFKA-15021).
    pub fn is_leader_epoch_bump_required_on_isr_shrink(self) -> bool {
        self < Self::IBP_3_6_IV0
    }

    pub fn is_directory_assignment_supported(self) -> bool {
        self >= Self::IBP_3_7_IV2
    }

    pub fn is_controller_registration_supported(self) -> bool {
        self >= Self::IBP_3_7_IV0
    }

    pub fn is_elr_supported(self) -> bool {
        self >= Self::IBP_4_0_IV1
    }

    pub fn is_cordoned_directories_supported(self) -> bool {
        self >= Self::IBP_4_3_IV0
    }

    pub fn register_broker_record_version(self) -> i16 {
        if self >= Self::IBP_4_3_IV0 {
            4
        } else if self >= Self::IBP_3_7_IV2 {
            3
        } else if self >= Self::IBP_3_4_IV0 {
            2
        } else {
            1
        }
    }

    pub fn partition_record_version(self) -> i16 {
        if self.is_elr_supported() {
            2
        } else {
            i16::from(self.is_directory_assignment_supported())
        }
    }
}

impl std::fmt::Display for MetadataVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Features besides metadata.version whose levels are finalized by records, with the highest level that this software
/// supports and, per level from 0, the lowest metadata.version that goes with it.
const FEATURES: [(&str, &[i16]); 5] = [
    (ELIGIBLE_LEADER_REPLICAS_VERSION, &[7, 26]),
    (GROUP_VERSION, &[7, 22]),
    (SHARE_VERSION, &[7, 28]),
    (STREAMS_VERSION, &[7, 29]),
    (TRANSACTION_VERSION, &[7, 24, 24]),
];

/// Names of the features that a new cluster finalizes besides metadata.version, in the order of their records.
pub fn production_features(
    metadata_version: MetadataVersion,
) -> impl Iterator<Item = (&'static str, i16)> {
    FEATURES.iter().filter_map(move |(name, bootstrap)| {
        let level = bootstrap
            .iter()
            .rposition(|lowest| *lowest <= metadata_version.0)?;
        Some((*name, i16::try_from(level).ok()?)).filter(|(_, level)| *level > 0)
    })
}

/// What this software supports: for registrations and for ApiVersions.
pub fn supported_features() -> BTreeMap<Arc<str>, VersionRange> {
    let levels = FEATURES.iter().map(|(name, bootstrap)| {
        let max = i16::try_from(bootstrap.len() - 1).unwrap_or(0);
        (Arc::from(*name), VersionRange { min: 0, max })
    });
    let metadata = VersionRange {
        min: MetadataVersion::MINIMUM.0,
        max: MetadataVersion::LATEST_PRODUCTION.0,
    };
    levels
        .chain([
            (Arc::from(METADATA_VERSION), metadata),
            (Arc::from(KRAFT_VERSION), VersionRange { min: 0, max: 1 }),
        ])
        .collect()
}

/// Finalized levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeaturesImage {
    /// Levels by name, without metadata.version and kraft.version; a level of 0 is not stored.
    finalized: BTreeMap<Arc<str>, i16>,
    metadata_version: Option<MetadataVersion>,
    /// Comes from control records of the log, not from metadata records.
    kraft_version: i16,
}

impl FeaturesImage {
    /// `None` before the first record of a new cluster.
    pub fn metadata_version(&self) -> Option<MetadataVersion> {
        self.metadata_version
    }

    /// The level to encode records for: of an empty log, the lowest.
    pub fn metadata_version_or_minimum(&self) -> MetadataVersion {
        self.metadata_version.unwrap_or(MetadataVersion::MINIMUM)
    }

    pub fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    /// The finalized level of any feature, 0 when there is none.
    pub fn level(&self, feature: &str) -> i16 {
        match feature {
            METADATA_VERSION => self.metadata_version.map_or(0, |version| version.0),
            KRAFT_VERSION => self.kraft_version,
            _ => self.finalized.get(feature).copied().unwrap_or(0),
        }
    }

    /// KIP-966 is switched on.
    pub fn is_elr_enabled(&self) -> bool {
        self.level(ELIGIBLE_LEADER_REPLICAS_VERSION) >= 1
    }

    /// All finalized levels above 0 by name, as ApiVersions shows them.
    pub fn finalized_levels(&self) -> BTreeMap<Arc<str>, i16> {
        let mut levels = self.finalized.clone();
        if let Some(version) = self.metadata_version {
            levels.insert(Arc::from(METADATA_VERSION), version.0);
        }
        if self.kraft_version > 0 {
            levels.insert(Arc::from(KRAFT_VERSION), self.kraft_version);
        }
        levels
    }

    pub(crate) fn replay(&mut self, record: &FeatureLevelRecord) {
        if &*record.name == METADATA_VERSION {
            self.metadata_version = Some(MetadataVersion(record.feature_level));
        } else if record.feature_level == 0 {
            self.finalized.remove(&*record.name);
        } else {
            self.finalized
                .insert(Arc::from(&*record.name), record.feature_level);
        }
    }

    pub(crate) fn replay_kraft_version(&mut self, level: i16) {
        self.kraft_version = level;
    }

    /// Without metadata.version, which a snapshot writes before everything else.
    pub(crate) fn to_records(&self) -> Vec<FeatureLevelRecord> {
        let metadata_version = self
            .metadata_version
            .iter()
            .map(|version| (METADATA_VERSION, version.0));
        let others = self.finalized.iter().map(|(name, level)| (&**name, *level));
        metadata_version
            .chain(others)
            .map(|(name, level)| FeatureLevelRecord {
                name: name.into(),
                feature_level: level,
                ..Default::default()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels() {
        for (name, level) in [
            ("4.3-IV0", 30),
            ("4.3", 30),
            ("3.7", 19),
            ("3.7-IV2", 17),
            ("4.0", 25),
        ] {
            assert_eq!(
                MetadataVersion::from_name(name),
                Some(MetadataVersion(level)),
                "{name}"
            );
        }
        assert_eq!(MetadataVersion::from_name("4.4"), None);
        assert_eq!(MetadataVersion::from_name("3.2"), None);
        assert_eq!(MetadataVersion(30).name(), "4.3-IV0");
        assert_eq!(MetadataVersion::from_level(6), None);
    }

    #[test]
    fn a_new_cluster_finalizes_what_kafka_finalizes() {
        let of_4_3: Vec<_> = production_features(MetadataVersion::LATEST_PRODUCTION).collect();
        assert_eq!(
            of_4_3,
            [
                (ELIGIBLE_LEADER_REPLICAS_VERSION, 1),
                (GROUP_VERSION, 1),
                (SHARE_VERSION, 1),
                (STREAMS_VERSION, 1),
                (TRANSACTION_VERSION, 2)
            ]
        );
        let of_4_0: Vec<_> = production_features(MetadataVersion(25)).collect();
        assert_eq!(of_4_0, [(GROUP_VERSION, 1), (TRANSACTION_VERSION, 2)]);
    }

    #[test]
    fn downgrades_that_lose_metadata_are_known() {
        assert!(MetadataVersion::metadata_changed_between(
            MetadataVersion(29),
            MetadataVersion(30)
        ));
        assert!(!MetadataVersion::metadata_changed_between(
            MetadataVersion(23),
            MetadataVersion(29)
        ));
    }
}
