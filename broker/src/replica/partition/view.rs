//! One consistent look at a replica: its role, its offsets, its leader epochs.
//! Not here: records (read.rs), anything that changes the replica.
//! Taken under the partition's lock; for whoever describes or checks replicas.
//! Kafka: the gauges of kafka.cluster.Partition, LogOffsetSnapshot.

use super::{Partition, Role};
use kavka_common::{LeaderEpoch, NodeId, Offset};
use kavka_replication::Registration;
use kavka_replication::replica::Replica;

/// What a replica is at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewedRole {
    None,
    Leader {
        registration: Registration,
        /// Registered or proposed as in sync.
        maximal_isr: Vec<NodeId>,
    },
    Follower {
        leader_id: NodeId,
        leader_epoch: LeaderEpoch,
    },
}

/// A replica at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    pub role: ViewedRole,
    pub log_start_offset: Offset,
    pub last_stable_offset: Offset,
    pub high_watermark: Offset,
    pub log_end_offset: Offset,
    /// Everything below survives a power loss.
    pub recovery_point: Offset,
    /// Each leader epoch with its first offset, in order.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
}

/// A follower in sync, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerView {
    pub broker_id: NodeId,
    pub log_end_offset: Offset,
    pub last_caught_up_ms: i64,
}

impl Partition {
    /// What the leader knows of a follower; `None` where this replica does not lead, or that one is none.
    pub fn follower_progress(&self, replica_id: NodeId) -> Option<Replica> {
        match &self.state.lock().role {
            Role::Leader(leader) => leader.replica(replica_id).copied(),
            Role::Follower(_) | Role::None => None,
        }
    }

    /// The followers that could serve a reader at `offset`; `None` when this replica does not lead. Only those in
    /// sync: a consumer that was sent to one that falls behind would be sent there again and again (KIP-392).
    pub fn followers_holding(&self, offset: Offset) -> Option<Vec<FollowerView>> {
        let state = self.state.lock();
        let Role::Leader(leader) = &state.role else {
            return None;
        };
        let in_sync = leader.registration().isr.iter();
        let holding = in_sync.filter_map(|broker_id| {
            let replica = leader.replica(*broker_id)?;
            let log_end_offset = replica.log_end_offset.filter(|end| *end >= offset)?;
            replica.log_start_offset.filter(|start| *start <= offset)?;
            Some(FollowerView {
                broker_id: *broker_id,
                log_end_offset,
                last_caught_up_ms: replica.last_caught_up_ms,
            })
        });
        Some(holding.collect())
    }

    /// The replica as it is now; `None` once its log is closed.
    pub fn view(&self) -> Option<PartitionView> {
        let state = self.state.lock();
        let log = state.log.as_ref()?;
        Some(PartitionView {
            role: match &state.role {
                Role::None => ViewedRole::None,
                Role::Leader(leader) => ViewedRole::Leader {
                    registration: leader.registration().clone(),
                    maximal_isr: leader.maximal_isr(),
                },
                Role::Follower(follower) => ViewedRole::Follower {
                    leader_id: follower.leader_id,
                    leader_epoch: follower.leader_epoch,
                },
            },
            log_start_offset: log.log_start_offset(),
            last_stable_offset: log.last_stable_offset(),
            high_watermark: log.high_watermark(),
            log_end_offset: log.log_end_offset(),
            recovery_point: log.recovery_point(),
            epochs: log
                .leader_epochs()
                .entries()
                .iter()
                .map(|entry| (entry.epoch, entry.start_offset))
                .collect(),
        })
    }
}
