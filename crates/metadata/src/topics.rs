//! Topics and the state of their partitions: replicas, leader, in-sync and eligible replicas, epochs.
//! Not here: choosing replicas or leaders (crates/controller), topic settings (`configs`).
//! Pure data. Kafka: TopicsImage, TopicImage, PartitionRegistration; KIP-516, KIP-858, KIP-966.

use crate::Map;
use crate::features::MetadataVersion;
use crate::image::ReplayError;
use kavka_common::{LeaderEpoch, NodeId, PartitionEpoch, Uuid};
use kavka_protocol::messages::{PartitionChangeRecord, PartitionRecord, TopicRecord};
use std::sync::Arc;

/// `leader` of a PartitionChangeRecord that leaves leader and leader epoch as they are.
pub const NO_LEADER_CHANGE: i32 = -2;
/// `leader_recovery_state` of a PartitionChangeRecord that leaves it as it is.
const NO_RECOVERY_STATE_CHANGE: i8 = -1;

/// Whether the leader was elected from the in-sync replicas, or uncleanly and has not caught its followers up yet (KIP-704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaderRecoveryState {
    #[default]
    Recovered,
    Recovering,
}

impl LeaderRecoveryState {
    pub const fn value(self) -> i8 {
        match self {
            LeaderRecoveryState::Recovered => 0,
            LeaderRecoveryState::Recovering => 1,
        }
    }

    pub const fn from_value(value: i8) -> Option<Self> {
        match value {
            0 => Some(LeaderRecoveryState::Recovered),
            1 => Some(LeaderRecoveryState::Recovering),
            _ => None,
        }
    }
}

/// One partition as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRegistration {
    pub replicas: Vec<NodeId>,
    /// The log directory of each replica, in the order of `replicas` (KIP-858).
    pub directories: Vec<Uuid>,
    pub isr: Vec<NodeId>,
    /// Eligible leader replicas: left the ISR while it was below min.insync.replicas, and hold all committed data (KIP-966).
    pub elr: Vec<NodeId>,
    pub last_known_elr: Vec<NodeId>,
    pub removing_replicas: Vec<NodeId>,
    pub adding_replicas: Vec<NodeId>,
    pub leader: NodeId,
    pub leader_recovery_state: LeaderRecoveryState,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: PartitionEpoch,
}

impl PartitionRegistration {
    pub fn from_record(record: &PartitionRecord) -> Result<Self, ReplayError> {
        let replicas = node_ids(&record.replicas);
        Ok(PartitionRegistration {
            directories: fit_directories(&record.directories, replicas.len()),
            isr: node_ids(&record.isr),
            elr: record
                .eligible_leader_replicas
                .as_deref()
                .map(node_ids)
                .unwrap_or_default(),
            last_known_elr: record
                .last_known_elr
                .as_deref()
                .map(node_ids)
                .unwrap_or_default(),
            removing_replicas: node_ids(&record.removing_replicas),
            adding_replicas: node_ids(&record.adding_replicas),
            leader: NodeId(record.leader),
            leader_recovery_state: LeaderRecoveryState::from_value(record.leader_recovery_state)
                .ok_or(ReplayError::UnknownValue(
                    "leader recovery state",
                    record.leader_recovery_state.into(),
                ))?,
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: PartitionEpoch(record.partition_epoch),
            replicas,
        })
    }

    /// The registration after a change: the partition epoch grows by one, the leader epoch when the record names a leader.
    pub fn merge(&self, record: &PartitionChangeRecord) -> Result<Self, ReplayError> {
        let replicas = record
            .replicas
            .as_deref()
            .map_or_else(|| self.replicas.clone(), node_ids);
        let directories = match &record.directories {
            Some(directories) => fit_directories(directories, replicas.len()),
            None => fit_directories(&self.directories, replicas.len()),
        };
        let (leader, leader_epoch) = if record.leader == NO_LEADER_CHANGE {
            (self.leader, self.leader_epoch)
        } else {
            (
                NodeId(record.leader),
                LeaderEpoch(self.leader_epoch.0.wrapping_add(1)),
            )
        };
        let leader_recovery_state = if record.leader_recovery_state == NO_RECOVERY_STATE_CHANGE {
            self.leader_recovery_state
        } else {
            LeaderRecoveryState::from_value(record.leader_recovery_state).ok_or(
                ReplayError::UnknownValue(
                    "leader recovery state",
                    record.leader_recovery_state.into(),
                ),
            )?
        };
        let or_old = |new: &Option<Vec<i32>>, old: &Vec<NodeId>| {
            new.as_deref().map_or_else(|| old.clone(), node_ids)
        };
        Ok(PartitionRegistration {
            replicas,
            directories,
            isr: or_old(&record.isr, &self.isr),
            elr: or_old(&record.eligible_leader_replicas, &self.elr),
            last_known_elr: or_old(&record.last_known_elr, &self.last_known_elr),
            removing_replicas: or_old(&record.removing_replicas, &self.removing_replicas),
            adding_replicas: or_old(&record.adding_replicas, &self.adding_replicas),
            leader,
            leader_recovery_state,
            leader_epoch,
            partition_epoch: PartitionEpoch(self.partition_epoch.0.wrapping_add(1)),
        })
    }

    /// As the log may hold it at `metadata_version`: older levels know neither directories nor eligible replicas.
    pub fn to_record(
        &self,
        topic_id: Uuid,
        partition: i32,
        metadata_version: MetadataVersion,
    ) -> PartitionRecord {
        let some_if_any = |ids: &[NodeId]| {
            (!ids.is_empty() && metadata_version.is_elr_supported()).then(|| raw_ids(ids))
        };
        let directories = if metadata_version.is_directory_assignment_supported() {
            self.directories.clone()
        } else {
            Vec::new()
        };
        PartitionRecord {
            partition_id: partition,
            topic_id,
            replicas: raw_ids(&self.replicas),
            isr: raw_ids(&self.isr),
            removing_replicas: raw_ids(&self.removing_replicas),
            adding_replicas: raw_ids(&self.adding_replicas),
            leader: self.leader.0,
            leader_recovery_state: self.leader_recovery_state.value(),
            leader_epoch: self.leader_epoch.0,
            partition_epoch: self.partition_epoch.0,
            directories,
            eligible_leader_replicas: some_if_any(&self.elr),
            last_known_elr: some_if_any(&self.last_known_elr),
            ..PartitionRecord::default()
        }
    }

    pub fn has_leader(&self) -> bool {
        self.leader != NodeId::NONE
    }

    /// The first replica of the assignment: the one that leads when all is well.
    pub fn preferred_replica(&self) -> NodeId {
        self.replicas.first().copied().unwrap_or(NodeId::NONE)
    }

    pub fn is_reassigning(&self) -> bool {
        !self.removing_replicas.is_empty() || !self.adding_replicas.is_empty()
    }

    /// The directory of one replica, `None` when the broker holds no replica.
    pub fn directory(&self, replica_id: NodeId) -> Option<Uuid> {
        let index = self.replicas.iter().position(|id| *id == replica_id)?;
        self.directories.get(index).copied()
    }
}

/// Raw ids of the wire as node ids.
pub fn node_ids(raw: &[i32]) -> Vec<NodeId> {
    raw.iter().copied().map(NodeId).collect()
}

/// Node ids as the wire carries them.
pub fn raw_ids(ids: &[NodeId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}

/// One directory per replica. Records from before KIP-858 have none: then every replica is "migrating".
fn fit_directories(directories: &[Uuid], replicas: usize) -> Vec<Uuid> {
    let mut fitted = directories.to_vec();
    fitted.resize(replicas, Uuid::DIR_MIGRATING);
    fitted
}

/// A topic with its partitions. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicImage {
    pub name: Arc<str>,
    pub id: Uuid,
    pub partitions: Map<i32, PartitionRegistration>,
}

impl TopicImage {
    pub fn partition(&self, partition: i32) -> Option<&PartitionRegistration> {
        self.partitions.get(&partition)
    }
}

/// All topics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicsImage {
    by_id: Map<Uuid, TopicImage>,
    by_name: Map<Arc<str>, Uuid>,
}

impl TopicsImage {
    pub fn get(&self, topic_id: &Uuid) -> Option<&TopicImage> {
        self.by_id.get(topic_id)
    }

    pub fn by_name(&self, topic: &str) -> Option<&TopicImage> {
        self.by_name.get(topic).and_then(|id| self.by_id.get(id))
    }

    pub fn id_of(&self, topic: &str) -> Option<Uuid> {
        self.by_name.get(topic).copied()
    }

    pub fn name_of(&self, topic_id: &Uuid) -> Option<&Arc<str>> {
        self.by_id.get(topic_id).map(|topic| &topic.name)
    }

    pub fn contains(&self, topic: &str) -> bool {
        self.by_name.contains_key(topic)
    }

    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionRegistration> {
        self.by_name(topic)?.partitions.get(&partition)
    }

    /// Topics in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &TopicImage> {
        self.by_name.values().filter_map(|id| self.by_id.get(id))
    }

    /// Topics whose names are not before `first`, in the order of their names.
    pub fn iter_from<'a>(&'a self, first: &str) -> impl Iterator<Item = &'a TopicImage> + use<'a> {
        let first: Arc<str> = first.into();
        self.by_name
            .range(first..)
            .filter_map(|(_, id)| self.by_id.get(id))
    }

    pub fn len(&self) -> usize {
        self.by_id.size()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn replay_topic(&mut self, record: &TopicRecord) -> Result<(), ReplayError> {
        let name: Arc<str> = Arc::from(&*record.name);
        if self.by_id.contains_key(&record.topic_id) || self.by_name.contains_key(&name) {
            return Err(ReplayError::DuplicateTopic(
                name.to_string(),
                record.topic_id,
            ));
        }
        self.by_name.insert_mut(Arc::clone(&name), record.topic_id);
        self.by_id.insert_mut(
            record.topic_id,
            TopicImage {
                name,
                id: record.topic_id,
                partitions: Map::new_sync(),
            },
        );
        Ok(())
    }

    pub(crate) fn replay_partition(&mut self, record: &PartitionRecord) -> Result<(), ReplayError> {
        let registration = PartitionRegistration::from_record(record)?;
        let topic = self.topic_mut(record.topic_id)?;
        topic
            .partitions
            .insert_mut(record.partition_id, registration);
        Ok(())
    }

    pub(crate) fn replay_partition_change(
        &mut self,
        record: &PartitionChangeRecord,
    ) -> Result<(), ReplayError> {
        let topic = self.topic_mut(record.topic_id)?;
        let Some(old) = topic.partitions.get(&record.partition_id) else {
            return Err(ReplayError::UnknownPartition(
                record.topic_id,
                record.partition_id,
            ));
        };
        let new = old.merge(record)?;
        topic.partitions.insert_mut(record.partition_id, new);
        Ok(())
    }

    pub(crate) fn replay_remove_topic(
        &mut self,
        topic_id: Uuid,
    ) -> Result<TopicImage, ReplayError> {
        let Some(topic) = self.by_id.get(&topic_id).cloned() else {
            return Err(ReplayError::UnknownTopic(topic_id));
        };
        self.by_id.remove_mut(&topic_id);
        self.by_name.remove_mut(&topic.name);
        Ok(topic)
    }

    /// Forgets the eligible replicas of one topic, or of all when the name is empty. Epochs stay: nothing that a
    /// broker acts on has changed. Returns the partitions that changed.
    pub(crate) fn replay_clear_elr(
        &mut self,
        topic: &str,
    ) -> Result<Vec<(Uuid, i32)>, ReplayError> {
        let ids: Vec<Uuid> = if topic.is_empty() {
            self.by_id.keys().copied().collect()
        } else {
            vec![
                self.id_of(topic)
                    .ok_or_else(|| ReplayError::UnknownTopicName(topic.to_owned()))?,
            ]
        };
        let mut changed = Vec::new();
        for id in ids {
            let topic = self.topic_mut(id)?;
            let cleared: Vec<(i32, PartitionRegistration)> = topic
                .partitions
                .iter()
                .filter(|(_, registration)| {
                    !registration.elr.is_empty() || !registration.last_known_elr.is_empty()
                })
                .map(|(partition, registration)| {
                    let mut registration = registration.clone();
                    registration.elr.clear();
                    registration.last_known_elr.clear();
                    (*partition, registration)
                })
                .collect();
            for (partition, registration) in cleared {
                topic.partitions.insert_mut(partition, registration);
                changed.push((id, partition));
            }
        }
        Ok(changed)
    }

    fn topic_mut(&mut self, topic_id: Uuid) -> Result<&mut TopicImage, ReplayError> {
        self.by_id
            .get_mut(&topic_id)
            .ok_or(ReplayError::UnknownTopic(topic_id))
    }
}
