//! A classic group: its state, members and generation, and the questions one can ask of them.
//! Not here: what requests do to it (join, membership, rebalance), committed offsets.
//! Owned by the shard. Kafka: org.apache.kafka.coordinator.group.classic.{ClassicGroup, ClassicGroupState}; KIP-345, KIP-394.

use super::Member;
use super::member::Protocol;
use crate::shard::Now;
use kavka_protocol::messages::group_metadata_value::MemberMetadata;
use kavka_protocol::messages::{ConsumerProtocolSubscription, GroupMetadataValue};
use kavka_protocol::{ErrorCode, Message, StrBytes};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The protocol type of consumers, whose metadata the coordinator can read.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// State of a classic group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupState {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
    Dead,
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
        })
    }
}

/// When the join phase ends although members are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinTimer {
    /// First rebalance of an empty group: wait for more members, extended while they keep coming.
    Initial { due_ms: i64, remaining_ms: i64 },
    /// The rebalance timeout.
    Rebalance { due_ms: i64 },
}

impl JoinTimer {
    fn due_ms(self) -> i64 {
        match self {
            JoinTimer::Initial { due_ms, .. } | JoinTimer::Rebalance { due_ms } => due_ms,
        }
    }
}

/// A group of the classic protocol.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    pub id: StrBytes,
    pub(super) state: GroupState,
    pub(super) generation_id: i32,
    pub(super) protocol_type: Option<StrBytes>,
    pub(super) protocol_name: Option<StrBytes>,
    pub(super) leader_id: Option<StrBytes>,
    pub(super) members: BTreeMap<StrBytes, Member>,
    /// Instance id → member id.
    pub(super) static_members: BTreeMap<StrBytes, StrBytes>,
    /// Ids handed out with MEMBER_ID_REQUIRED, with the time at which they lapse.
    pub(super) pending_join: BTreeMap<StrBytes, i64>,
    /// Members of the current generation that have not synced.
    pub(super) pending_sync: BTreeSet<StrBytes>,
    pub(super) new_member_added: bool,
    pub(super) join_timer: Option<JoinTimer>,
    pub(super) sync_deadline_ms: Option<i64>,
    /// Wall time of the last change of state, `None` when read from a record without it.
    pub(super) state_timestamp_ms: Option<i64>,
    /// Commits that are written but not committed yet: offsets of the group must not expire under them.
    pub(super) pending_offset_commits: usize,
}

impl ClassicGroup {
    pub(super) fn new(id: StrBytes, now: Now) -> Self {
        ClassicGroup {
            id,
            state: GroupState::Empty,
            generation_id: 0,
            protocol_type: None,
            protocol_name: None,
            leader_id: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            new_member_added: false,
            join_timer: None,
            sync_deadline_ms: None,
            state_timestamp_ms: Some(now.wall_ms),
            pending_offset_commits: 0,
        }
    }

    /// The group that a record describes; members get a fresh session.
    pub(super) fn loaded(id: StrBytes, value: &GroupMetadataValue, now: Now) -> Self {
        let mut group = ClassicGroup::new(id, now);
        group.generation_id = value.generation;
        group.protocol_type = Some(value.protocol_type.clone()).filter(|t| !t.is_empty());
        group.protocol_name = value.protocol.clone();
        group.leader_id = value.leader.clone();
        group.state_timestamp_ms =
            (value.current_state_timestamp >= 0).then_some(value.current_state_timestamp);
        group.state = if value.members.is_empty() {
            GroupState::Empty
        } else {
            GroupState::Stable
        };
        for stored in &value.members {
            let member = Member {
                id: stored.member_id.clone(),
                instance_id: stored.group_instance_id.clone(),
                client_id: stored.client_id.clone(),
                client_host: stored.client_host.clone(),
                rebalance_timeout_ms: match stored.rebalance_timeout {
                    -1 => stored.session_timeout,
                    given => given,
                },
                session_timeout_ms: stored.session_timeout,
                protocols: vec![(
                    value.protocol.clone().unwrap_or_default(),
                    stored.subscription.clone(),
                )],
                assignment: stored.assignment.clone(),
                awaiting_join: None,
                awaiting_sync: None,
                is_new: false,
                session_deadline_ms: Some(now.monotonic_ms + i64::from(stored.session_timeout)),
            };
            if let Some(instance_id) = &member.instance_id {
                group
                    .static_members
                    .insert(instance_id.clone(), member.id.clone());
            }
            group.members.insert(member.id.clone(), member);
        }
        group
    }

    /// The record of the group as it is, with the assignments that the members have.
    pub(super) fn to_value(&self) -> GroupMetadataValue {
        let protocol = self.protocol_name.clone();
        GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation_id,
            leader: self.leader_id.clone(),
            current_state_timestamp: self.state_timestamp_ms.unwrap_or(-1),
            members: self
                .members
                .values()
                .map(|member| MemberMetadata {
                    member_id: member.id.clone(),
                    group_instance_id: member.instance_id.clone(),
                    client_id: member.client_id.clone(),
                    client_host: member.client_host.clone(),
                    rebalance_timeout: member.rebalance_timeout_ms,
                    session_timeout: member.session_timeout_ms,
                    subscription: member.metadata(protocol.as_deref().unwrap_or_default()),
                    assignment: member.assignment.clone(),
                    ..Default::default()
                })
                .collect(),
            protocol,
            ..Default::default()
        }
    }

    pub fn state(&self) -> GroupState {
        self.state
    }

    pub fn generation_id(&self) -> i32 {
        self.generation_id
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub fn leader_id(&self) -> Option<&StrBytes> {
        self.leader_id.as_ref()
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader_id.as_deref() == Some(member_id)
    }

    pub(super) fn transition(&mut self, state: GroupState, now: Now) {
        self.state = state;
        self.state_timestamp_ms = Some(now.wall_ms);
    }

    /// Longest rebalance timeout among the members.
    pub(super) fn rebalance_timeout_ms(&self) -> i64 {
        self.members
            .values()
            .map(|member| i64::from(member.rebalance_timeout_ms))
            .max()
            .unwrap_or(0)
    }

    pub(super) fn all_members_joined(&self) -> bool {
        self.pending_join.is_empty() && self.members.values().all(|m| m.awaiting_join.is_some())
    }

    pub(super) fn add_member(&mut self, member: Member) {
        if self.members.is_empty() {
            self.protocol_type = self.protocol_type.take().filter(|t| !t.is_empty());
        }
        if self.leader_id.is_none() {
            self.leader_id = Some(member.id.clone());
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members
                .insert(instance_id.clone(), member.id.clone());
        }
        self.pending_join.remove(&member.id);
        self.members.insert(member.id.clone(), member);
    }

    /// Takes a member out; the leadership passes to another one. The caller answers its parked requests.
    pub(super) fn remove_member(&mut self, member_id: &str) -> Option<Member> {
        let member = self.members.remove(member_id)?;
        if let Some(instance_id) = &member.instance_id
            && self.static_members.get(instance_id) == Some(&member.id)
        {
            self.static_members.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader_id = self.members.keys().next().cloned();
        }
        self.pending_sync.remove(member_id);
        Some(member)
    }

    /// Whether a newcomer that offers these protocols could take part.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let common = self.candidate_protocols();
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| common.contains(name))
    }

    /// Protocols that all members offer.
    pub(super) fn candidate_protocols(&self) -> Vec<StrBytes> {
        let mut members = self.members.values();
        let Some(first) = members.next() else {
            return Vec::new();
        };
        let rest: Vec<_> = members.collect();
        first
            .protocols
            .iter()
            .map(|(name, _)| name)
            .filter(|name| {
                rest.iter()
                    .all(|member| member.protocols.iter().any(|(other, _)| other == *name))
            })
            .cloned()
            .collect()
    }

    /// Each member votes for its favourite among the candidates; the most votes win.
    pub(super) fn select_protocol(&self) -> Option<StrBytes> {
        let candidates = self.candidate_protocols();
        let mut votes: BTreeMap<&StrBytes, usize> = BTreeMap::new();
        for vote in self.members.values().filter_map(|m| m.vote(&candidates)) {
            *votes.entry(vote).or_default() += 1;
        }
        // Among equals the leader's order of preference decides, so that the choice does not hang on names.
        candidates
            .iter()
            .rev()
            .max_by_key(|name| votes.get(name).copied().unwrap_or(0))
            .cloned()
    }

    /// Checks the identity that a request claims (ClassicGroup.validateMember).
    pub(super) fn validate_member(
        &self,
        member_id: &str,
        instance_id: Option<&StrBytes>,
    ) -> Result<(), ErrorCode> {
        match instance_id {
            Some(instance_id) => match self.static_members.get(instance_id) {
                None => Err(ErrorCode::UnknownMemberId),
                Some(known) if known.as_str() != member_id => Err(ErrorCode::FencedInstanceId),
                Some(_) => Ok(()),
            },
            None if self.members.contains_key(member_id) => Ok(()),
            None => Err(ErrorCode::UnknownMemberId),
        }
    }

    pub(super) fn is_simple(&self) -> bool {
        self.protocol_type.is_none()
    }

    pub(super) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// Topics that the members subscribe to; `None` when that cannot be known.
    pub(super) fn subscribed_topics(&self) -> Option<BTreeSet<StrBytes>> {
        if !self.uses_consumer_protocol() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol_name = self.protocol_name.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let mut metadata = member.metadata(protocol_name);
            if metadata.len() < 2 {
                return None;
            }
            let version = i16::from_be_bytes([metadata[0], metadata[1]]);
            // Newer versions only add fields at the end (ConsumerProtocol.deserializeSubscription).
            let version = version.clamp(0, 3);
            let mut body = metadata.split_off(2);
            let subscription = ConsumerProtocolSubscription::decode(&mut body, version).ok()?;
            topics.extend(subscription.topics);
        }
        Some(topics)
    }

    pub(super) fn is_subscribed_to(&self, topic: &StrBytes) -> bool {
        match self.subscribed_topics() {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    pub(super) fn next_deadline_ms(&self) -> Option<i64> {
        self.members
            .values()
            .filter_map(|member| member.session_deadline_ms)
            .chain(self.pending_join.values().copied())
            .chain(self.join_timer.map(JoinTimer::due_ms))
            .chain(self.sync_deadline_ms)
            .min()
    }
}
