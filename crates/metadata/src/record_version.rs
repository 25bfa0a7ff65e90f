//! Which version of a record the log gets at a level of metadata.version.
//! Not here: encoding (crates/protocol).
//! Pure. Kafka: MetadataVersion.*RecordVersion, BrokerRegistration.toRecord, QuorumController.

use crate::features::FeaturesImage;
use kavka_protocol::MetadataRecord;

/// The version to encode `record` in, given the levels in force before it.
pub fn record_version(record: &MetadataRecord, features: &FeaturesImage) -> i16 {
    let metadata_version = features.metadata_version_or_minimum();
    match record {
        MetadataRecord::RegisterBroker(_) => metadata_version.register_broker_record_version(),
        MetadataRecord::Partition(_) | MetadataRecord::PartitionChange(_) => {
            metadata_version.partition_record_version()
        }
        // Lowest that can say it: old readers skip fields that they would have to know.
        MetadataRecord::BrokerRegistrationChange(change) => {
            if change.cordoned_log_dirs.is_some() {
                3
            } else if !change.log_dirs.is_empty() {
                2
            } else {
                i16::from(change.in_controlled_shutdown != 0)
            }
        }
        _ => 0,
    }
}
