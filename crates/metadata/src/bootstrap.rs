//! The first records of a new cluster, as the first controller of a freshly formatted Kafka cluster writes them.
//! Not here: the bootstrap.checkpoint file (kafka-storage), the voters (control records of the quorum).
//! Pure. Kafka: BootstrapMetadata, ActivationRecordsGenerator, Formatter; KIP-778, KIP-868, KIP-966, KIP-1022.

use crate::configs::ConfigResourceType;
use crate::features::{METADATA_VERSION, MetadataVersion, production_features};
use kavka_protocol::MetadataRecord;
use kavka_protocol::messages::{
    BeginTransactionRecord, ConfigRecord, EndTransactionRecord, FeatureLevelRecord,
};

/// Content of `bootstrap.checkpoint`: feature levels that belong to a level of metadata.version.
pub fn format_records(metadata_version: MetadataVersion) -> Vec<MetadataRecord> {
    std::iter::once((METADATA_VERSION, metadata_version.0))
        .chain(production_features(metadata_version))
        .map(|(name, level)| {
            MetadataRecord::FeatureLevel(FeatureLevelRecord {
                name: name.into(),
                feature_level: level,
                ..Default::default()
            })
        })
        .collect()
}

/// The records that the first active controller appends to an empty log: `format_records` (or what the bootstrap
/// checkpoint holds) in a transaction, and with eligible leader replicas the cluster-wide min.insync.replicas that
/// they need, because a later change of the static setting must not change who is eligible.
pub fn activation_records(
    bootstrap: Vec<MetadataRecord>,
    min_insync_replicas: i32,
) -> Vec<MetadataRecord> {
    let elr = bootstrap.iter().any(|record| {
        matches!(record, MetadataRecord::FeatureLevel(feature)
            if &*feature.name == crate::features::ELIGIBLE_LEADER_REPLICAS_VERSION && feature.feature_level > 0)
    });
    let mut records = vec![MetadataRecord::BeginTransaction(BeginTransactionRecord {
        name: Some("Bootstrap records".into()),
        ..Default::default()
    })];
    records.extend(bootstrap);
    if elr {
        records.push(MetadataRecord::Config(ConfigRecord {
            resource_type: ConfigResourceType::Broker.id(),
            resource_name: "".into(),
            name: "min.insync.replicas".into(),
            value: Some(min_insync_replicas.to_string().into()),
            ..Default::default()
        }));
    }
    records.push(MetadataRecord::EndTransaction(
        EndTransactionRecord::default(),
    ));
    records
}
