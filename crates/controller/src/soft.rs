//! Soft state of the active controller: sessions of brokers, deadlines of periodic work. Lost and rebuilt on fail-over.
//! Not here: anything that must survive (that is a record).
//! Owned by the active controller's task. Kafka: BrokerHeartbeatManager, BrokerHeartbeatTracker, PeriodicTaskControlManager.

use kavka_common::{BrokerEpoch, NodeId, Offset};
use kavka_metadata::MetadataImage;
use std::collections::BTreeMap;

/// What heartbeats of one registration have told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSession {
    pub broker_epoch: BrokerEpoch,
    pub last_contact_ms: i64,
    /// How far the broker has read the metadata log.
    pub metadata_offset: Offset,
    /// Offset of the last record of the registration: a broker that has not read it does not know itself yet.
    pub registration_offset: Offset,
    /// Set while the broker is leaving: the end of the records that moved its leaderships away.
    pub controlled_shutdown_offset: Option<Offset>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Soft {
    pub sessions: BTreeMap<NodeId, BrokerSession>,
    pub next_leader_rebalance_ms: Option<i64>,
    pub next_unclean_election_ms: Option<i64>,
}

impl Soft {
    /// The state of a controller that has just become active: every registered broker gets a full session to show up.
    pub fn on_activation(image: &MetadataImage, now_ms: i64) -> Self {
        let sessions = image
            .cluster
            .brokers
            .values()
            .map(|broker| {
                let session = BrokerSession {
                    broker_epoch: broker.broker_epoch,
                    last_contact_ms: now_ms,
                    metadata_offset: -1,
                    registration_offset: broker.broker_epoch.get(),
                    controlled_shutdown_offset: broker
                        .in_controlled_shutdown
                        .then_some(image.last_offset),
                };
                (broker.broker_id, session)
            })
            .collect();
        Soft {
            sessions,
            ..Soft::default()
        }
    }

    /// Whether the broker has been heard of lately under this epoch.
    pub fn has_valid_session(
        &self,
        broker_id: NodeId,
        broker_epoch: BrokerEpoch,
        now_ms: i64,
        session_timeout_ms: i64,
    ) -> bool {
        self.sessions.get(&broker_id).is_some_and(|session| {
            session.broker_epoch == broker_epoch
                && now_ms - session.last_contact_ms <= session_timeout_ms
        })
    }

    /// The lowest metadata offset of the brokers that serve: what all of them have read.
    pub fn lowest_active_offset(&self, image: &MetadataImage) -> Offset {
        self.sessions
            .iter()
            .filter(|(id, session)| {
                session.controlled_shutdown_offset.is_none()
                    && image
                        .cluster
                        .broker(**id)
                        .is_some_and(|broker| broker.is_active())
            })
            .map(|(_, session)| session.metadata_offset)
            .min()
            .unwrap_or(Offset::MAX)
    }
}
