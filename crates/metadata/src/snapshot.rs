//! An image written back as records: the body of a metadata snapshot.
//! Not here: the snapshot file with its header and footer batches (broker/src/quorum).
//! Pure. Kafka: MetadataImage.write, ImageWriter; KIP-630.

use crate::image::MetadataImage;
use kavka_protocol::MetadataRecord;
use kavka_protocol::messages::{ConfigRecord, ProducerIdsRecord, TopicRecord};

impl MetadataImage {
    /// Records whose fold is this image again (but for its offset and epoch). metadata.version comes first, because it
    /// rules how the rest is read; a topic comes before its partitions.
    pub fn to_records(&self) -> Vec<MetadataRecord> {
        let metadata_version = self.features.metadata_version_or_minimum();
        let mut records: Vec<MetadataRecord> = Vec::new();
        records.extend(
            self.features
                .to_records()
                .into_iter()
                .map(MetadataRecord::FeatureLevel),
        );
        records.extend(
            self.cluster
                .brokers
                .values()
                .map(|broker| MetadataRecord::RegisterBroker(broker.to_record(metadata_version))),
        );
        records.extend(
            self.cluster
                .controllers
                .values()
                .map(|controller| MetadataRecord::RegisterController(controller.to_record())),
        );
        for topic in self.topics.iter() {
            records.push(MetadataRecord::Topic(TopicRecord {
                name: (&*topic.name).into(),
                topic_id: topic.id,
                ..Default::default()
            }));
            records.extend(topic.partitions.iter().map(|(partition, registration)| {
                MetadataRecord::Partition(registration.to_record(
                    topic.id,
                    *partition,
                    metadata_version,
                ))
            }));
        }
        for (resource, configs) in self.configs.iter() {
            records.extend(configs.iter().map(|(name, value)| {
                MetadataRecord::Config(ConfigRecord {
                    resource_type: resource.resource_type.id(),
                    resource_name: (&*resource.name).into(),
                    name: (&**name).into(),
                    value: Some((&**value).into()),
                    ..Default::default()
                })
            }));
        }
        records.extend(
            self.quotas
                .to_records()
                .into_iter()
                .map(MetadataRecord::ClientQuota),
        );
        if self.next_producer_id > 0 {
            records.push(MetadataRecord::ProducerIds(ProducerIdsRecord {
                broker_id: -1,
                broker_epoch: -1,
                next_producer_id: self.next_producer_id,
                ..Default::default()
            }));
        }
        records.extend(
            self.acls
                .to_records()
                .into_iter()
                .map(MetadataRecord::AccessControlEntry),
        );
        records.extend(
            self.scram
                .to_records()
                .into_iter()
                .map(MetadataRecord::UserScramCredential),
        );
        records.extend(
            self.tokens
                .to_records()
                .into_iter()
                .map(MetadataRecord::DelegationToken),
        );
        records
    }
}
