//! One partition's next registration: from a wish (new ISR, new replicas, an election) to the record that says it.
//! Not here: which partitions to change and why (`broker_changes`, `alter_partition`, `reassignment`, `elect_leaders`).
//! Pure. Kafka: PartitionChangeBuilder; KIP-455 (reassignment), KIP-704 (recovery), KIP-841 (fencing), KIP-966 (ELR).

use crate::controller::Scope;
use kavka_common::{NodeId, Uuid};
use kavka_metadata::topics::{NO_LEADER_CHANGE, raw_ids};
use kavka_metadata::{LeaderRecoveryState, MetadataRecord, PartitionRegistration};
use kavka_protocol::messages::PartitionChangeRecord;
use std::collections::BTreeMap;

/// How a leader is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// Keep the leader if it may lead, else the first in-sync (or, when there is none, eligible) replica.
    Online,
    /// As `Online`, but move to the first replica of the assignment if that one may lead.
    Preferred,
    /// As `Online`, but rather a replica that lacks committed records than none.
    Unclean,
}

/// Brokers whose standing changes together with the partition, before the image shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// May not lead: it is being fenced, shut down or unregistered.
    pub leaving: Option<NodeId>,
    /// May lead although the image still shows it fenced.
    pub joining: Option<NodeId>,
    /// Came back without what it had not flushed: neither leads nor counts as eligible.
    pub unclean: Option<NodeId>,
}

/// The wish. Fields that are not set keep the partition's value.
pub struct PartitionChange<'a> {
    scope: &'a Scope<'a>,
    topic: &'a str,
    topic_id: Uuid,
    partition: i32,
    old: &'a PartitionRegistration,
    election: Election,
    standing: Standing,
    isr: Vec<NodeId>,
    replicas: Vec<NodeId>,
    removing: Vec<NodeId>,
    adding: Vec<NodeId>,
    elr: Vec<NodeId>,
    recovery: LeaderRecoveryState,
    directories: BTreeMap<NodeId, Uuid>,
}

impl<'a> PartitionChange<'a> {
    pub fn new(
        scope: &'a Scope<'a>,
        topic: &'a str,
        topic_id: Uuid,
        partition: i32,
        old: &'a PartitionRegistration,
    ) -> Self {
        PartitionChange {
            scope,
            topic,
            topic_id,
            partition,
            old,
            election: Election::Online,
            standing: Standing::default(),
            isr: old.isr.clone(),
            replicas: old.replicas.clone(),
            removing: old.removing_replicas.clone(),
            adding: old.adding_replicas.clone(),
            elr: old.elr.clone(),
            recovery: old.leader_recovery_state,
            directories: old
                .replicas
                .iter()
                .copied()
                .zip(old.directories.iter().copied())
                .collect(),
        }
    }

    pub fn election(mut self, election: Election) -> Self {
        self.election = election;
        self
    }

    /// Unclean where the topic allows it.
    pub fn election_of_topic(self) -> Self {
        if self.scope.is_unclean_election_enabled(self.topic) {
            self.election(Election::Unclean)
        } else {
            self
        }
    }

    pub fn standing(mut self, standing: Standing) -> Self {
        self.standing = standing;
        self
    }

    pub fn isr(mut self, isr: Vec<NodeId>) -> Self {
        self.isr = isr;
        self
    }

    pub fn replicas(mut self, replicas: Vec<NodeId>) -> Self {
        self.replicas = replicas;
        self
    }

    pub fn removing(mut self, removing: Vec<NodeId>) -> Self {
        self.removing = removing;
        self
    }

    pub fn adding(mut self, adding: Vec<NodeId>) -> Self {
        self.adding = adding;
        self
    }

    pub fn recovery(mut self, recovery: LeaderRecoveryState) -> Self {
        self.recovery = recovery;
        self
    }

    pub fn directory(mut self, replica_id: NodeId, directory: Uuid) -> Self {
        self.directories.insert(replica_id, directory);
        self
    }

    /// The record, or `None` when nothing would change.
    pub fn build(mut self) -> Option<MetadataRecord> {
        let elr_enabled = self.scope.image.features.is_elr_enabled();
        let mut record = PartitionChangeRecord {
            partition_id: self.partition,
            topic_id: self.topic_id,
            ..Default::default()
        };
        self.complete_reassignment();
        if elr_enabled {
            self.populate_elr();
        } else {
            self.elr.clear();
        }
        self.elect(&mut record);
        let bumps_epoch = self
            .old
            .replicas
            .iter()
            .any(|replica| !self.replicas.contains(replica));
        if record.leader == NO_LEADER_CHANGE && bumps_epoch {
            // Naming the same leader again bumps the leader epoch: removed replicas must not be followed any more.
            record.leader = self.old.leader.get();
        }
        let unclean = record.isr.is_some();
        if unclean {
            self.elr.clear();
        }
        if self.elr != self.old.elr {
            record.eligible_leader_replicas = Some(raw_ids(&self.elr));
        }
        // Without ELR the last member of an ISR stays in it when it goes offline: it alone has all the data.
        if !unclean && (!self.isr.is_empty() || elr_enabled) && self.isr != self.old.isr {
            record.isr = Some(raw_ids(&self.isr));
        }
        self.bump_epoch_on_shrink(&mut record);
        if elr_enabled {
            self.remember_last_leader(&mut record);
        } else if !self.old.last_known_elr.is_empty() {
            record.last_known_elr = Some(Vec::new());
        }
        self.set_assignment(&mut record);
        if record.leader_recovery_state == NO_CHANGE
            && self.recovery != self.old.leader_recovery_state
        {
            record.leader_recovery_state = self.recovery.value();
        }
        let unchanged = PartitionChangeRecord {
            partition_id: self.partition,
            topic_id: self.topic_id,
            ..Default::default()
        };
        (record != unchanged).then_some(MetadataRecord::PartitionChange(record))
    }

    /// A reassignment ends when the replicas that stay are all in sync.
    fn complete_reassignment(&mut self) {
        if self.removing.is_empty() && self.adding.is_empty() {
            return;
        }
        let without_removed = |ids: &[NodeId]| -> Vec<NodeId> {
            ids.iter()
                .copied()
                .filter(|id| !self.removing.contains(id))
                .collect()
        };
        let isr = without_removed(&self.isr);
        let replicas = without_removed(&self.replicas);
        if isr.is_empty()
            || replicas.is_empty()
            || !replicas.iter().all(|replica| isr.contains(replica))
        {
            return;
        }
        self.isr = isr;
        self.replicas = replicas;
        self.removing.clear();
        self.adding.clear();
    }

    /// While the ISR is below min.insync.replicas, whoever leaves it stays eligible: the high watermark cannot advance
    /// without it (KIP-966).
    fn populate_elr(&mut self) {
        if self.isr.len()
            >= self
                .scope
                .effective_min_insync_replicas(self.topic, &self.old.replicas)
        {
            self.elr.clear();
            return;
        }
        let mut candidates = self.elr.clone();
        candidates.extend(
            self.old
                .isr
                .iter()
                .copied()
                .filter(|id| !self.elr.contains(id)),
        );
        candidates.retain(|id| {
            !self.isr.contains(id)
                && self.standing.unclean != Some(*id)
                && self.replicas.contains(id)
        });
        candidates.sort_unstable();
        self.elr = candidates;
    }

    fn elect(&mut self, record: &mut PartitionChangeRecord) {
        let (leader, unclean) = self.choose_leader();
        if leader == self.old.leader {
            return;
        }
        record.leader = leader.get();
        if self.elr.contains(&leader) {
            self.elr.retain(|id| *id != leader);
            self.isr = vec![leader];
        }
        if unclean {
            // Committed records may be lost: the new leader stands alone until it has said that it has recovered.
            record.isr = Some(vec![leader.get()]);
            if self.old.leader_recovery_state != LeaderRecoveryState::Recovering {
                record.leader_recovery_state = LeaderRecoveryState::Recovering.value();
            }
        }
    }

    fn choose_leader(&self) -> (NodeId, bool) {
        let preferred = self.replicas.first().copied().unwrap_or(NodeId::NONE);
        if self.election == Election::Preferred && self.may_lead_cleanly(preferred) {
            return (preferred, false);
        }
        if self.may_lead_cleanly(self.old.leader) {
            return (self.old.leader, false);
        }
        if let Some(replica) = self
            .replicas
            .iter()
            .find(|replica| self.may_lead_cleanly(**replica))
        {
            return (*replica, false);
        }
        if let Some(last) = self.last_known_leader() {
            return (last, true);
        }
        if self.election == Election::Unclean
            && let Some(replica) = self
                .replicas
                .iter()
                .find(|replica| self.is_acceptable(**replica))
        {
            return (*replica, true);
        }
        (NodeId::NONE, false)
    }

    /// When all eligible replicas came back unclean, the last leader is the best guess (KIP-966, balanced recovery).
    fn last_known_leader(&self) -> Option<NodeId> {
        if !self.scope.image.features.is_elr_enabled()
            || !self.isr.is_empty()
            || !self.elr.is_empty()
        {
            return None;
        }
        match self.old.last_known_elr[..] {
            [last] if self.replicas.contains(&last) && self.is_acceptable(last) => Some(last),
            _ => None,
        }
    }

    fn may_lead_cleanly(&self, replica_id: NodeId) -> bool {
        let has_the_data = self.isr.contains(&replica_id)
            || (self.isr.is_empty() && self.elr.contains(&replica_id));
        has_the_data && self.is_acceptable(replica_id)
    }

    fn is_acceptable(&self, replica_id: NodeId) -> bool {
        let Some(broker) = self.scope.image.cluster.broker(replica_id) else {
            return false;
        };
        let standing = self.standing;
        if standing.leaving == Some(replica_id) || standing.unclean == Some(replica_id) {
            return false;
        }
        if standing.joining != Some(replica_id) && !broker.is_active() {
            return false;
        }
        self.directories
            .get(&replica_id)
            .is_none_or(|directory| broker.has_online_directory(directory))
    }

    fn bump_epoch_on_shrink(&self, record: &mut PartitionChangeRecord) {
        let required = self
            .scope
            .image
            .features
            .metadata_version_or_minimum()
            .is_leader_epoch_bump_required_on_isr_shrink();
        let Some(isr) = &record.isr else { return };
        if required
            && record.leader == NO_LEADER_CHANGE
            && self
                .old
                .isr
                .iter()
                .any(|replica| !isr.contains(&replica.get()))
        {
            record.leader = self.old.leader.get();
        }
    }

    /// `last_known_elr` holds the last leader while there is none.
    fn remember_last_leader(&self, record: &mut PartitionChangeRecord) {
        let leader_after = if record.leader == NO_LEADER_CHANGE {
            self.old.leader
        } else {
            NodeId(record.leader)
        };
        if leader_after != NodeId::NONE {
            if !self.old.last_known_elr.is_empty() {
                record.last_known_elr = Some(Vec::new());
            }
        } else if record.isr.as_ref().is_some_and(Vec::is_empty)
            && self.old.has_leader()
            && self.replicas.contains(&self.old.leader)
            && self.old.last_known_elr != [self.old.leader]
        {
            record.last_known_elr = Some(vec![self.old.leader.get()]);
        }
    }

    fn set_assignment(&self, record: &mut PartitionChangeRecord) {
        if self
            .scope
            .image
            .features
            .metadata_version_or_minimum()
            .is_directory_assignment_supported()
        {
            let directories: Vec<Uuid> = self
                .replicas
                .iter()
                .map(|replica| match self.directories.get(replica) {
                    Some(directory) => *directory,
                    None => self.scope.default_directory(*replica),
                })
                .collect();
            if directories != self.old.directories {
                record.directories = Some(directories);
            }
        }
        let changed = |new: &[NodeId], old: &[NodeId]| (new != old).then(|| raw_ids(new));
        record.replicas = changed(&self.replicas, &self.old.replicas);
        record.removing_replicas = changed(&self.removing, &self.old.removing_replicas);
        record.adding_replicas = changed(&self.adding, &self.old.adding_replicas);
    }
}

/// `leader_recovery_state` of a record that leaves it alone.
const NO_CHANGE: i8 = -1;
