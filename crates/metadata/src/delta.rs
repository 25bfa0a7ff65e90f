//! What changed between two images, by key; the values are in the images themselves.
//! Not here: acting on it (publishers of the broker).
//! Pure data. Kafka: MetadataDelta, TopicsDelta, LocalReplicaChanges.

use crate::configs::ConfigResource;
use crate::image::MetadataImage;
use crate::topics::{PartitionRegistration, TopicImage};
use kavka_common::{NodeId, TopicIdPartition, TopicPartition, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keys that records touched, and the image from before.
#[derive(Clone, Debug)]
pub struct MetadataDelta {
    /// The image that the delta starts from.
    pub before: MetadataImage,
    /// Registered, changed or gone.
    pub brokers: BTreeSet<NodeId>,
    pub controllers: BTreeSet<NodeId>,
    pub topics_created: BTreeSet<Uuid>,
    pub topics_deleted: BTreeSet<Uuid>,
    /// New or changed partitions of topics that exist afterwards.
    pub partitions: BTreeMap<Uuid, BTreeSet<i32>>,
    pub configs: BTreeSet<ConfigResource>,
    pub features: BTreeSet<Arc<str>>,
    pub producer_ids: bool,
    pub quotas: bool,
    pub acls: BTreeSet<Uuid>,
    pub scram: BTreeSet<(i8, Arc<str>)>,
    pub tokens: BTreeSet<Arc<str>>,
}

/// A partition that a broker has to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionChange {
    pub topic_partition: TopicIdPartition,
    /// The registration from before; `None` when the partition is new to this broker.
    pub old: Option<PartitionRegistration>,
    pub new: PartitionRegistration,
}

/// What a delta means for the replicas of one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalReplicaChanges {
    /// Replicas that the broker no longer holds: the topic is gone or the assignment moved away.
    pub deletes: Vec<TopicIdPartition>,
    /// Partitions that the broker leads and whose registration changed.
    pub leaders: Vec<PartitionChange>,
    /// Partitions that the broker follows and whose registration changed; the leader may be absent.
    pub followers: Vec<PartitionChange>,
}

impl MetadataDelta {
    pub(crate) fn from_image(before: MetadataImage) -> Self {
        MetadataDelta {
            before,
            brokers: BTreeSet::new(),
            controllers: BTreeSet::new(),
            topics_created: BTreeSet::new(),
            topics_deleted: BTreeSet::new(),
            partitions: BTreeMap::new(),
            configs: BTreeSet::new(),
            features: BTreeSet::new(),
            producer_ids: false,
            quotas: false,
            acls: BTreeSet::new(),
            scram: BTreeSet::new(),
            tokens: BTreeSet::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.brokers.is_empty()
            && self.controllers.is_empty()
            && self.topics_created.is_empty()
            && self.topics_deleted.is_empty()
            && self.partitions.is_empty()
            && self.configs.is_empty()
            && self.features.is_empty()
            && !self.producer_ids
            && !self.quotas
            && self.acls.is_empty()
            && self.scram.is_empty()
            && self.tokens.is_empty()
    }

    /// All that differs between two images, however far apart: for a node that jumps to a snapshot.
    pub fn between(before: &MetadataImage, after: &MetadataImage) -> Self {
        let mut delta = MetadataDelta::from_image(before.clone());
        for topic in before.topics.iter() {
            if after.topics.get(&topic.id).is_none() {
                delta.topics_deleted.insert(topic.id);
            }
        }
        for topic in after.topics.iter() {
            let old = before.topics.get(&topic.id);
            if old.is_none() {
                delta.topics_created.insert(topic.id);
            }
            for (partition, registration) in &topic.partitions {
                if old.and_then(|old| old.partition(*partition)) != Some(registration) {
                    delta.partition_changed(topic.id, *partition);
                }
            }
        }
        changed_keys(
            before.cluster.brokers.iter(),
            after.cluster.brokers.iter(),
            &mut delta.brokers,
        );
        changed_keys(
            before.cluster.controllers.iter(),
            after.cluster.controllers.iter(),
            &mut delta.controllers,
        );
        changed_keys(
            before.configs.iter(),
            after.configs.iter(),
            &mut delta.configs,
        );
        changed_keys(
            before.acls.by_id.iter(),
            after.acls.by_id.iter(),
            &mut delta.acls,
        );
        changed_keys(
            before.scram.credentials.iter(),
            after.scram.credentials.iter(),
            &mut delta.scram,
        );
        changed_keys(
            before.tokens.tokens.iter(),
            after.tokens.tokens.iter(),
            &mut delta.tokens,
        );
        let old_levels = before.features.finalized_levels();
        let new_levels = after.features.finalized_levels();
        changed_keys(old_levels.iter(), new_levels.iter(), &mut delta.features);
        delta.producer_ids = before.next_producer_id != after.next_producer_id;
        delta.quotas = before.quotas != after.quotas;
        delta
    }

    /// What `broker_id` has to do about its replicas, given the image after this delta. In the order of topic ids.
    pub fn local_changes(&self, broker_id: NodeId, after: &MetadataImage) -> LocalReplicaChanges {
        let mut changes = LocalReplicaChanges::default();
        for topic_id in &self.topics_deleted {
            let Some(topic) = self.before.topics.get(topic_id) else {
                continue;
            };
            for (partition, registration) in &topic.partitions {
                if registration.replicas.contains(&broker_id) {
                    changes.deletes.push(topic_id_partition(topic, *partition));
                }
            }
        }
        for (topic_id, partitions) in &self.partitions {
            let Some(topic) = after.topics.get(topic_id) else {
                continue;
            };
            let old_topic = self.before.topics.get(topic_id);
            for partition in partitions {
                let Some(new) = topic.partition(*partition) else {
                    continue;
                };
                let old = old_topic
                    .and_then(|topic| topic.partition(*partition))
                    .filter(|old| old.replicas.contains(&broker_id));
                let topic_partition = topic_id_partition(topic, *partition);
                if !new.replicas.contains(&broker_id) {
                    if old.is_some() {
                        changes.deletes.push(topic_partition);
                    }
                    continue;
                }
                let change = PartitionChange {
                    topic_partition,
                    old: old.cloned(),
                    new: new.clone(),
                };
                if new.leader == broker_id {
                    changes.leaders.push(change);
                } else {
                    changes.followers.push(change);
                }
            }
        }
        changes
    }

    pub(crate) fn topic_created(&mut self, topic_id: Uuid) {
        self.topics_created.insert(topic_id);
    }

    pub(crate) fn topic_deleted(&mut self, topic_id: Uuid) {
        self.partitions.remove(&topic_id);
        // A topic that came and went inside one delta leaves no trace.
        if !self.topics_created.remove(&topic_id) {
            self.topics_deleted.insert(topic_id);
        }
    }

    pub(crate) fn partition_changed(&mut self, topic_id: Uuid, partition: i32) {
        self.partitions
            .entry(topic_id)
            .or_default()
            .insert(partition);
    }
}

fn topic_id_partition(topic: &TopicImage, partition: i32) -> TopicIdPartition {
    TopicIdPartition {
        topic_id: topic.id,
        topic_partition: TopicPartition::new(Arc::clone(&topic.name), partition),
    }
}

/// Puts into `changed` every key whose value differs or that only one of the two sorted maps has.
fn changed_keys<'a, K: Ord + Clone + 'a, V: PartialEq + 'a>(
    before: impl Iterator<Item = (&'a K, &'a V)>,
    after: impl Iterator<Item = (&'a K, &'a V)>,
    changed: &mut BTreeSet<K>,
) {
    let before: BTreeMap<&K, &V> = before.collect();
    let after: BTreeMap<&K, &V> = after.collect();
    for (key, value) in &after {
        if before.get(key) != Some(value) {
            changed.insert((*key).clone());
        }
    }
    for key in before.keys() {
        if !after.contains_key(key) {
            changed.insert((*key).clone());
        }
    }
}
