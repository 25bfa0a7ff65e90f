//! One member of a classic group.
//! Not here: when it joins, syncs or expires.
//! Owned by its group. Kafka: org.apache.kafka.coordinator.group.classic.ClassicGroupMember; KIP-345.

use crate::shard::Token;
use bytes::Bytes;
use kavka_protocol::StrBytes;
use kavka_protocol::messages::join_group_request::JoinGroupRequestProtocol;

/// A protocol that a member offers: its name, and its metadata for it.
pub type Protocol = (StrBytes, Bytes);

/// A member, from its first accepted JoinGroup on.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub id: StrBytes,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<StrBytes>,
    pub client_id: StrBytes,
    pub client_host: StrBytes,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// In the member's order of preference.
    pub protocols: Vec<Protocol>,
    pub assignment: Bytes,
    /// Its parked JoinGroup.
    pub awaiting_join: Option<Token>,
    /// Its parked SyncGroup.
    pub awaiting_sync: Option<Token>,
    /// Has never completed a join: a longer timer holds until it does.
    pub is_new: bool,
    /// When the member is given up, by the monotonic clock; `None` while a request of it is parked.
    pub session_deadline_ms: Option<i64>,
}

impl Member {
    pub fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    /// Whether the member offers just these protocols with this metadata, in this order.
    pub fn offers(&self, protocols: &[Protocol]) -> bool {
        self.protocols == protocols
    }

    /// Metadata for a protocol; empty when it is not offered.
    pub fn metadata(&self, protocol_name: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(name, _)| name.as_str() == protocol_name)
            .map_or_else(Bytes::new, |(_, metadata)| metadata.clone())
    }

    /// The first of its protocols that is among the candidates.
    pub fn vote(&self, candidates: &[StrBytes]) -> Option<&StrBytes> {
        self.protocols
            .iter()
            .map(|(name, _)| name)
            .find(|name| candidates.contains(name))
    }
}

/// Protocols as a request lists them, in memory of their own: they outlive the request's frame.
pub(super) fn protocols_of(request: &[JoinGroupRequestProtocol]) -> Vec<Protocol> {
    request
        .iter()
        .map(|p| (p.name.detached(), Bytes::copy_from_slice(&p.metadata)))
        .collect()
}
