//! The whole image, and `apply`: the only way it changes.
//! Not here: what a record means in detail (one file per family), writing it back (`snapshot`).
//! Pure: no I/O, no clock. Kafka: MetadataImage, MetadataDelta.replay, MetadataBatchLoader (transactions); KIP-630, KIP-868.

use crate::acls::AclsImage;
use crate::cluster::ClusterImage;
use crate::configs::{ConfigResource, ConfigsImage};
use crate::delta::MetadataDelta;
use crate::features::FeaturesImage;
use crate::quotas::QuotasImage;
use crate::scram::ScramImage;
use crate::tokens::TokensImage;
use crate::topics::TopicsImage;
use kavka_common::{LeaderEpoch, NodeId, Offset, Uuid};
use kavka_protocol::MetadataRecord;
use std::sync::Arc;

/// A record that does not fit the image: the log is damaged, or was written by rules that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("topic {0} with id {1} exists already")]
    DuplicateTopic(String, Uuid),
    #[error("there is no topic with id {0}")]
    UnknownTopic(Uuid),
    #[error("there is no topic named {0}")]
    UnknownTopicName(String),
    #[error("topic {0} has no partition {1}")]
    UnknownPartition(Uuid, i32),
    #[error("broker {0} is not registered")]
    UnknownBroker(i32),
    #[error("broker {0}: the record is for epoch {1}, the registration has {2}")]
    StaleBrokerEpoch(i32, i64, i64),
    #[error("unknown {0}: {1}")]
    UnknownValue(&'static str, i64),
    #[error("there is no access control entry with id {0}")]
    UnknownAcl(Uuid),
    #[error("there is no delegation token with id {0}")]
    UnknownToken(String),
    #[error("next producer id {0} is not above {1}")]
    ProducerIdsRegress(i64, i64),
    #[error("a metadata transaction begins inside another one")]
    NestedTransaction,
    #[error("a metadata transaction ends that has not begun")]
    NoTransaction,
}

/// All metadata up to and including one offset of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataImage {
    /// Offset of the last record in the image, -1 when there is none.
    pub last_offset: Offset,
    /// Epoch of the controller that wrote it.
    pub last_epoch: LeaderEpoch,
    pub features: FeaturesImage,
    pub cluster: ClusterImage,
    pub topics: TopicsImage,
    pub configs: ConfigsImage,
    /// First producer id that no block contains yet.
    pub next_producer_id: i64,
    pub acls: AclsImage,
    pub scram: ScramImage,
    pub quotas: QuotasImage,
    pub tokens: TokensImage,
    /// Records of a metadata transaction that has begun and not ended (KIP-868): they are in the log but do not count yet.
    pub(crate) transaction: Option<Arc<Vec<MetadataRecord>>>,
}

impl Default for MetadataImage {
    fn default() -> Self {
        MetadataImage {
            last_offset: -1,
            last_epoch: LeaderEpoch::UNKNOWN,
            features: FeaturesImage::default(),
            cluster: ClusterImage::default(),
            topics: TopicsImage::default(),
            configs: ConfigsImage::default(),
            next_producer_id: 0,
            acls: AclsImage::default(),
            scram: ScramImage::default(),
            quotas: QuotasImage::default(),
            tokens: TokensImage::default(),
            transaction: None,
        }
    }
}

impl MetadataImage {
    pub fn empty() -> Self {
        MetadataImage::default()
    }

    pub fn is_empty(&self) -> bool {
        self.last_offset < 0
    }

    /// Whether a metadata transaction is open. A snapshot must not be taken then: it would lose the records so far.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// The image after `records`, the last of which lies at `last_offset` of the log and was written in `epoch`,
    /// and what changed. On an error the old image is still whole.
    pub fn apply(
        &self,
        last_offset: Offset,
        epoch: LeaderEpoch,
        records: &[MetadataRecord],
    ) -> Result<(MetadataImage, MetadataDelta), ReplayError> {
        let mut image = self.clone();
        let mut delta = MetadataDelta::from_image(self.clone());
        for record in records {
            image.step(record, &mut delta)?;
        }
        image.last_offset = last_offset;
        image.last_epoch = epoch;
        Ok((image, delta))
    }

    /// Handles the brackets of transactions; everything else goes to `replay`, at once or when the transaction ends.
    fn step(
        &mut self,
        record: &MetadataRecord,
        delta: &mut MetadataDelta,
    ) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::BeginTransaction(_) => {
                if self.transaction.is_some() {
                    return Err(ReplayError::NestedTransaction);
                }
                self.transaction = Some(Arc::default());
            }
            MetadataRecord::EndTransaction(_) => {
                let open = self.transaction.take().ok_or(ReplayError::NoTransaction)?;
                for record in open.iter() {
                    self.replay(record, delta)?;
                }
            }
            MetadataRecord::AbortTransaction(_) => {
                self.transaction.take().ok_or(ReplayError::NoTransaction)?;
            }
            other => match &mut self.transaction {
                Some(open) => Arc::make_mut(open).push(other.clone()),
                None => self.replay(other, delta)?,
            },
        }
        Ok(())
    }

    fn replay(
        &mut self,
        record: &MetadataRecord,
        delta: &mut MetadataDelta,
    ) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::RegisterBroker(record) => {
                self.cluster.replay_register_broker(record);
                delta.brokers.insert(NodeId(record.broker_id));
            }
            MetadataRecord::UnregisterBroker(record) => {
                self.cluster
                    .replay_unregister_broker(record.broker_id, record.broker_epoch)?;
                delta.brokers.insert(NodeId(record.broker_id));
            }
            MetadataRecord::FenceBroker(record) => {
                self.cluster.replay_fenced(record.id, record.epoch, true)?;
                delta.brokers.insert(NodeId(record.id));
            }
            MetadataRecord::UnfenceBroker(record) => {
                self.cluster.replay_fenced(record.id, record.epoch, false)?;
                delta.brokers.insert(NodeId(record.id));
            }
            MetadataRecord::BrokerRegistrationChange(record) => {
                self.cluster.replay_change(record)?;
                delta.brokers.insert(NodeId(record.broker_id));
            }
            MetadataRecord::RegisterController(record) => {
                self.cluster.replay_register_controller(record);
                delta.controllers.insert(NodeId(record.controller_id));
            }
            MetadataRecord::Topic(record) => {
                self.topics.replay_topic(record)?;
                delta.topic_created(record.topic_id);
            }
            MetadataRecord::Partition(record) => {
                self.topics.replay_partition(record)?;
                delta.partition_changed(record.topic_id, record.partition_id);
            }
            MetadataRecord::PartitionChange(record) => {
                self.topics.replay_partition_change(record)?;
                delta.partition_changed(record.topic_id, record.partition_id);
            }
            MetadataRecord::RemoveTopic(record) => {
                let topic = self.topics.replay_remove_topic(record.topic_id)?;
                let resource = ConfigResource::topic(Arc::clone(&topic.name));
                if self.configs.remove(&resource) {
                    delta.configs.insert(resource);
                }
                delta.topic_deleted(record.topic_id);
            }
            MetadataRecord::ClearElr(record) => {
                for (topic_id, partition) in self.topics.replay_clear_elr(&record.topic_name)? {
                    delta.partition_changed(topic_id, partition);
                }
            }
            MetadataRecord::Config(record) => {
                let resource = self.configs.replay(record);
                delta.configs.insert(resource);
            }
            MetadataRecord::FeatureLevel(record) => {
                self.features.replay(record);
                delta.features.insert(Arc::from(&*record.name));
            }
            MetadataRecord::ProducerIds(record) => {
                if record.next_producer_id <= self.next_producer_id && self.next_producer_id > 0 {
                    return Err(ReplayError::ProducerIdsRegress(
                        record.next_producer_id,
                        self.next_producer_id,
                    ));
                }
                self.next_producer_id = record.next_producer_id;
                delta.producer_ids = true;
            }
            MetadataRecord::ClientQuota(record) => {
                self.quotas.replay(record);
                delta.quotas = true;
            }
            MetadataRecord::AccessControlEntry(record) => {
                self.acls.replay(record);
                delta.acls.insert(record.id);
            }
            MetadataRecord::RemoveAccessControlEntry(record) => {
                self.acls.replay_remove(record.id)?;
                delta.acls.insert(record.id);
            }
            MetadataRecord::UserScramCredential(record) => {
                self.scram.replay(record);
                delta
                    .scram
                    .insert((record.mechanism, Arc::from(&*record.name)));
            }
            MetadataRecord::RemoveUserScramCredential(record) => {
                self.scram.replay_remove(record.mechanism, &record.name);
                delta
                    .scram
                    .insert((record.mechanism, Arc::from(&*record.name)));
            }
            MetadataRecord::DelegationToken(record) => {
                self.tokens.replay(record);
                delta.tokens.insert(Arc::from(&*record.token_id));
            }
            MetadataRecord::RemoveDelegationToken(record) => {
                self.tokens.replay_remove(&record.token_id)?;
                delta.tokens.insert(Arc::from(&*record.token_id));
            }
            // The move off ZooKeeper is over by the time that a log reaches us; the record changes nothing.
            MetadataRecord::NoOp(_) | MetadataRecord::ZkMigrationState(_) => {}
            MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => unreachable!("brackets are handled by `step`"),
        }
        Ok(())
    }

    /// kraft.version comes from control records, which are not metadata records.
    pub fn with_kraft_version(mut self, level: i16) -> Self {
        self.features.replay_kraft_version(level);
        self
    }
}

#[cfg(test)]
#[path = "image_test.rs"]
mod image_test;
