//! Stories of classic groups, told to the shard with a hand-moved clock, and properties over random ones.
//! Not here: the runtime; `World` stands in for it and commits every write at once unless told to fail it.
//! Test only. Kafka: GroupMetadataManagerTest; invariants G1–G7.

use super::*;
use kavka_common::Uuid;
use kavka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kavka_protocol::messages::leave_group_request::MemberIdentity;
use kavka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kavka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kavka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kavka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use proptest::prelude::*;

#[path = "deleted_topics_test.rs"]
mod deleted_topics;

const HOUR_MS: i64 = 3_600_000;

/// Subscription of the topic `t`, version 0, as a consumer's metadata.
const SUBSCRIBES_T: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];

fn config() -> GroupConfig {
    GroupConfig {
        group_min_session_timeout_ms: 6_000,
        group_max_session_timeout_ms: 1_800_000,
        group_max_size: 100,
        group_initial_rebalance_delay_ms: 0,
        offset_metadata_max_bytes: 10,
        offsets_retention_ms: 24 * HOUR_MS,
        offsets_retention_check_interval_ms: HOUR_MS,
    }
}

struct World {
    shard: GroupShard,
    now_ms: i64,
    next_token: u64,
    answers: BTreeMap<Token, GroupResponse>,
    log: Vec<GroupRecord>,
    fail_writes: Option<ErrorCode>,
}

impl World {
    fn new(config: GroupConfig) -> Self {
        World {
            shard: GroupShard::new(config),
            now_ms: 1_000,
            next_token: 0,
            answers: BTreeMap::new(),
            log: Vec::new(),
            fail_writes: None,
        }
    }

    fn now(&self) -> Now {
        Now {
            wall_ms: self.now_ms,
            monotonic_ms: self.now_ms,
        }
    }

    fn settle(&mut self, outcome: GroupOutcome) {
        for (token, response) in outcome.replies {
            assert!(
                self.answers.insert(token, response).is_none(),
                "{token:?} was answered twice"
            );
        }
        for write in outcome.writes {
            let result = match self.fail_writes {
                Some(code) => Err(code),
                None => {
                    for record in &write.records {
                        let (key, value) = record.encode().unwrap();
                        let read = GroupRecord::decode(key, value).unwrap().unwrap();
                        assert_eq!(&read, record);
                        self.log.push(read.clone());
                        self.shard.replay(read);
                    }
                    Ok(())
                }
            };
            let next = self.shard.write_done(self.now(), write.id, result);
            self.settle(next);
        }
    }

    fn send(&mut self, request: GroupRequest) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        let outcome = self.shard.handle(self.now(), token, request);
        self.settle(outcome);
        token
    }

    /// Moves the clock, stopping at each deadline.
    fn pass(&mut self, ms: i64) {
        let end_ms = self.now_ms + ms;
        while let Some(due_ms) = self.shard.next_deadline_ms().filter(|due| *due <= end_ms) {
            self.now_ms = self.now_ms.max(due_ms);
            let outcome = self.shard.on_deadline(self.now());
            self.settle(outcome);
        }
        self.now_ms = end_ms;
    }

    fn join(&mut self, member_id: &str, instance: Option<&str>, uuid: &str) -> Token {
        self.join_offering(member_id, instance, uuid, &["range"])
    }

    fn join_offering(
        &mut self,
        member_id: &str,
        instance: Option<&str>,
        uuid: &str,
        protocols: &[&str],
    ) -> Token {
        self.send(GroupRequest::Join {
            request: JoinGroupRequest {
                group_id: "g".into(),
                session_timeout_ms: 10_000,
                rebalance_timeout_ms: 60_000,
                member_id: member_id.into(),
                group_instance_id: instance.map(Into::into),
                protocol_type: "consumer".into(),
                protocols: protocols
                    .iter()
                    .map(|name| JoinGroupRequestProtocol {
                        name: (*name).into(),
                        metadata: Bytes::from_static(SUBSCRIBES_T),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            },
            caller: Caller {
                client_id: "c".into(),
                client_host: "/127.0.0.1".into(),
            },
            require_known_member_id: true,
            supports_skipping_assignment: true,
            new_member_uuid: uuid.into(),
        })
    }

    /// A dynamic member's two steps: learns its id, joins with it.
    fn join_new(&mut self, uuid: &str) -> (String, Token) {
        let asked = self.join("", None, uuid);
        let told = self.joined(asked);
        assert_eq!(told.error_code, ErrorCode::MemberIdRequired.code());
        let member_id = told.member_id.to_string();
        let token = self.join(&member_id, None, "unused");
        (member_id, token)
    }

    fn joined(&self, token: Token) -> JoinGroupResponse {
        match self.answers.get(&token) {
            Some(GroupResponse::Join(response)) => response.clone(),
            other => panic!("{token:?} got {other:?}"),
        }
    }

    fn sync(&mut self, member_id: &str, generation_id: i32, assignments: &[(&str, &str)]) -> Token {
        self.send(GroupRequest::Sync(SyncGroupRequest {
            group_id: "g".into(),
            generation_id,
            member_id: member_id.into(),
            assignments: assignments
                .iter()
                .map(|(member_id, assignment)| SyncGroupRequestAssignment {
                    member_id: (*member_id).into(),
                    assignment: Bytes::copy_from_slice(assignment.as_bytes()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }))
    }

    fn synced(&self, token: Token) -> SyncGroupResponse {
        match self.answers.get(&token) {
            Some(GroupResponse::Sync(response)) => response.clone(),
            other => panic!("{token:?} got {other:?}"),
        }
    }

    fn heartbeat(&mut self, member_id: &str, generation_id: i32) -> ErrorCode {
        let token = self.send(GroupRequest::Heartbeat(HeartbeatRequest {
            group_id: "g".into(),
            generation_id,
            member_id: member_id.into(),
            ..Default::default()
        }));
        match self.answers.get(&token) {
            Some(GroupResponse::Heartbeat(response)) => ErrorCode::from(response.error_code),
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, member_id: &str, generation_id: i32, offset: i64) -> ErrorCode {
        let token = self.send(GroupRequest::OffsetCommit(OffsetCommitRequest {
            group_id: "g".into(),
            generation_id_or_member_epoch: generation_id,
            member_id: member_id.into(),
            topics: vec![OffsetCommitRequestTopic {
                name: "t".into(),
                topic_id: Uuid::METADATA_TOPIC,
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index: 0,
                    committed_offset: offset,
                    committed_leader_epoch: 3,
                    committed_metadata: Some("m".into()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }));
        match self.answers.get(&token) {
            Some(GroupResponse::OffsetCommit(response)) => {
                ErrorCode::from(response.topics[0].partitions[0].error_code)
            }
            other => panic!("{other:?}"),
        }
    }

    fn fetch(&self) -> i64 {
        let response = self.shard.fetch_offsets(&OffsetFetchRequestGroup {
            group_id: "g".into(),
            topics: Some(vec![OffsetFetchRequestTopics {
                name: "t".into(),
                partition_indexes: vec![0],
                ..Default::default()
            }]),
            ..Default::default()
        });
        response.topics[0].partitions[0].committed_offset
    }

    fn state(&self) -> Option<GroupState> {
        self.shard.group("g").map(ClassicGroup::state)
    }

    /// Two members, `a` leads, both stable in generation 2.
    fn stable_pair(&mut self) -> (String, String) {
        let (a, first) = self.join_new("a");
        assert_eq!(self.joined(first).generation_id, 1);
        let synced = self.sync(&a, 1, &[(&a, "all")]);
        assert_eq!(self.synced(synced).assignment, "all");
        let (b, second) = self.join_new("b");
        assert_eq!(self.heartbeat(&a, 1), ErrorCode::RebalanceInProgress);
        let again = self.join(&a, None, "unused");
        assert_eq!(self.joined(again).generation_id, 2);
        assert_eq!(self.joined(again).members.len(), 2);
        assert!(self.joined(second).members.is_empty());
        let waiting = self.sync(&b, 2, &[]);
        assert!(!self.answers.contains_key(&waiting));
        let leads = self.sync(&a, 2, &[(&a, "left"), (&b, "right")]);
        assert_eq!(self.synced(leads).assignment, "left");
        assert_eq!(self.synced(waiting).assignment, "right");
        assert_eq!(self.state(), Some(GroupState::Stable));
        (a, b)
    }

    /// What loading the log into a fresh shard gives.
    fn reloaded(&self) -> GroupShard {
        let mut shard = GroupShard::new(self.shard.config.clone());
        for record in &self.log {
            shard.replay(record.clone());
        }
        shard.loaded(self.now());
        shard
    }
}

#[test]
fn two_members_share_and_survive_a_reload() {
    let mut world = World::new(config());
    let (a, b) = world.stable_pair();
    assert_eq!(world.heartbeat(&a, 2), ErrorCode::None);
    assert_eq!(world.heartbeat(&b, 1), ErrorCode::IllegalGeneration);
    assert_eq!(world.heartbeat("nobody", 2), ErrorCode::UnknownMemberId);

    let reloaded = world.reloaded();
    let group = reloaded.group("g").unwrap();
    assert_eq!(group.state(), GroupState::Stable);
    assert_eq!(group.generation_id(), 2);
    let assignments: Vec<_> = group.members().map(|m| m.assignment.clone()).collect();
    assert_eq!(assignments, ["left", "right"]);
}

#[test]
fn a_silent_member_is_given_up_and_the_rest_rebalance() {
    let mut world = World::new(config());
    let (a, b) = world.stable_pair();
    world.pass(9_000);
    assert_eq!(world.heartbeat(&a, 2), ErrorCode::None);
    world.pass(1_500);
    assert_eq!(world.heartbeat(&b, 2), ErrorCode::UnknownMemberId);
    assert_eq!(world.heartbeat(&a, 2), ErrorCode::RebalanceInProgress);
    let again = world.join(&a, None, "unused");
    assert_eq!(world.joined(again).generation_id, 3);
    assert_eq!(world.joined(again).members.len(), 1);
}

#[test]
fn a_member_that_does_not_rejoin_in_time_is_left_behind() {
    let mut world = World::new(config());
    let (a, b) = world.stable_pair();
    let again = world.join_offering(&a, None, "unused", &["range", "sticky"]);
    for _ in 0..8 {
        world.pass(8_000);
        world.heartbeat(&b, 2);
    }
    assert_eq!(world.joined(again).generation_id, 3);
    assert_eq!(world.joined(again).members.len(), 1);
    assert_eq!(world.heartbeat(&b, 2), ErrorCode::UnknownMemberId);
}

#[test]
fn a_leader_that_never_syncs_ends_the_round() {
    let mut world = World::new(config());
    let (a, b) = world.stable_pair();
    let one = world.join_offering(&a, None, "unused", &["range", "sticky"]);
    let two = world.join(&b, None, "unused");
    assert_eq!(world.joined(one).generation_id, 3);
    let waiting = world.sync(&b, 3, &[]);
    for _ in 0..7 {
        world.pass(9_000);
        world.heartbeat(&a, 3);
    }
    let answer = world.synced(waiting);
    assert_eq!(answer.error_code, ErrorCode::RebalanceInProgress.code());
    assert_eq!(world.joined(two).leader.as_str(), a);
    assert_eq!(world.heartbeat(&a, 3), ErrorCode::UnknownMemberId);
}

#[test]
fn an_assignment_that_cannot_be_written_is_not_given_out() {
    let mut world = World::new(config());
    let (a, joined) = world.join_new("a");
    assert_eq!(world.joined(joined).generation_id, 1);
    world.fail_writes = Some(ErrorCode::NotCoordinator);
    let synced = world.sync(&a, 1, &[(&a, "all")]);
    assert_eq!(
        world.synced(synced).error_code,
        ErrorCode::NotCoordinator.code()
    );
    assert_eq!(world.state(), Some(GroupState::PreparingRebalance));
}

#[test]
fn a_member_without_assignment_gets_an_empty_one() {
    let mut world = World::new(config());
    let (a, _) = world.join_new("a");
    let synced = world.sync(&a, 1, &[]);
    let answer = world.synced(synced);
    assert_eq!(answer.error_code, ErrorCode::None.code());
    assert!(answer.assignment.is_empty());
}

#[test]
fn a_static_member_restarts_without_a_rebalance() {
    let mut world = World::new(config());
    let first = world.join("", Some("i"), "one");
    let old_id = world.joined(first).member_id.to_string();
    world.sync(&old_id, 1, &[(&old_id, "all")]);
    let second = world.join("", Some("i"), "two");
    let answer = world.joined(second);
    assert_eq!(answer.generation_id, 1);
    assert!(answer.skip_assignment);
    assert_ne!(answer.member_id.as_str(), old_id);
    assert_eq!(world.heartbeat(&old_id, 1), ErrorCode::UnknownMemberId);
    let fenced = world.join(&old_id, Some("i"), "unused");
    assert_eq!(
        world.joined(fenced).error_code,
        ErrorCode::FencedInstanceId.code()
    );
    let stored = &world.shard.hard().groups["g"].members[0];
    assert_eq!(stored.member_id, answer.member_id);
    assert_eq!(stored.assignment, "all");
}

#[test]
fn the_first_rebalance_waits_for_more_members() {
    let mut world = World::new(GroupConfig {
        group_initial_rebalance_delay_ms: 3_000,
        ..config()
    });
    let (_, one) = world.join_new("a");
    world.pass(2_000);
    let (_, two) = world.join_new("b");
    world.pass(2_000);
    assert!(
        !world.answers.contains_key(&one),
        "extended by the newcomer"
    );
    world.pass(2_000);
    assert_eq!(world.joined(one).members.len(), 2);
    assert_eq!(world.joined(two).generation_id, 1);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut world = World::new(config());
    let unknown = world.join("stranger", None, "unused");
    assert_eq!(
        world.joined(unknown).error_code,
        ErrorCode::UnknownMemberId.code()
    );
    assert_eq!(world.state(), None);
    let (a, _) = world.join_new("a");
    world.sync(&a, 1, &[]);
    let other = world.join_offering("", None, "x", &["roundrobin"]);
    assert_eq!(
        world.joined(other).error_code,
        ErrorCode::InconsistentGroupProtocol.code()
    );
    assert_eq!(world.commit("", -1, 1), ErrorCode::UnknownMemberId);
    assert_eq!(world.commit(&a, 7, 1), ErrorCode::IllegalGeneration);
}

/// What the answers say when there is no such group; the shell makes another word of it for old clients of OffsetCommit.
#[test]
fn a_group_that_is_not_there_is_told_as_kafka_does() {
    let mut world = World::new(config());
    assert_eq!(world.commit("m", 3, 1), ErrorCode::GroupIdNotFound);
    let mut leave = |single_member: bool| {
        let token = world.send(GroupRequest::Leave {
            request: LeaveGroupRequest {
                group_id: "g".into(),
                member_id: "m".into(),
                members: vec![MemberIdentity {
                    member_id: "m".into(),
                    ..Default::default()
                }],
                ..Default::default()
            },
            single_member,
        });
        let Some(GroupResponse::Leave(response)) = world.answers.get(&token) else {
            panic!("no answer");
        };
        let members: Vec<_> = response.members.iter().map(|m| m.error_code).collect();
        (response.error_code, members)
    };
    let unknown = ErrorCode::UnknownMemberId.code();
    assert_eq!(leave(false), (0, vec![unknown]));
    assert_eq!(leave(true), (unknown, vec![]));
    let token = world.send(GroupRequest::DeleteGroups(vec!["".into()]));
    let Some(GroupResponse::DeleteGroups(response)) = world.answers.get(&token) else {
        panic!("no answer");
    };
    assert_eq!(
        response.results[0].error_code,
        ErrorCode::GroupIdNotFound.code()
    );
}

#[test]
fn leaving_hands_over_at_once() {
    let mut world = World::new(config());
    let (a, b) = world.stable_pair();
    let token = world.send(GroupRequest::Leave {
        request: LeaveGroupRequest {
            group_id: "g".into(),
            members: vec![
                MemberIdentity {
                    member_id: a.as_str().into(),
                    ..Default::default()
                },
                MemberIdentity {
                    member_id: "nobody".into(),
                    ..Default::default()
                },
            ],
            ..Default::default()
        },
        single_member: false,
    });
    let Some(GroupResponse::Leave(response)) = world.answers.get(&token) else {
        panic!("no answer");
    };
    let codes: Vec<_> = response.members.iter().map(|m| m.error_code).collect();
    assert_eq!(codes, [0, ErrorCode::UnknownMemberId.code()]);
    assert_eq!(world.heartbeat(&b, 2), ErrorCode::RebalanceInProgress);
}

#[test]
fn commits_are_read_back_and_expire_when_the_group_is_empty() {
    let mut world = World::new(config());
    world.shard.loaded(world.now());
    assert_eq!(world.commit("", -1, 41), ErrorCode::None);
    assert_eq!(world.commit("", -1, 42), ErrorCode::None);
    assert_eq!(world.fetch(), 42);
    assert_eq!(world.reloaded().hard(), world.shard.hard());
    world.pass(23 * HOUR_MS);
    assert_eq!(world.fetch(), 42);
    world.pass(3 * HOUR_MS);
    assert_eq!(world.fetch(), -1);
    assert_eq!(world.state(), None);
    assert_eq!(world.reloaded().hard(), &Hard::default());
}

#[test]
fn offsets_of_subscribed_topics_do_not_expire_or_go() {
    let mut world = World::new(config());
    world.shard.loaded(world.now());
    let (a, _) = world.join_new("a");
    world.sync(&a, 1, &[]);
    assert_eq!(world.commit(&a, 1, 7), ErrorCode::None);
    for _ in 0..(26 * 450) {
        world.pass(8_000);
        assert_eq!(world.heartbeat(&a, 1), ErrorCode::None);
    }
    assert_eq!(world.fetch(), 7);
    let token = world.send(GroupRequest::OffsetDelete(OffsetDeleteRequest {
        group_id: "g".into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetDeleteRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    }));
    let Some(GroupResponse::OffsetDelete(response)) = world.answers.get(&token) else {
        panic!("no answer");
    };
    assert_eq!(
        response.topics[0].partitions[0].error_code,
        ErrorCode::GroupSubscribedToTopic.code()
    );
}

#[test]
fn only_empty_groups_are_deleted() {
    let mut world = World::new(config());
    let (a, b) = world.stable_pair();
    let delete = |world: &mut World| {
        let token = world.send(GroupRequest::DeleteGroups(vec!["g".into(), "none".into()]));
        match world.answers.get(&token) {
            Some(GroupResponse::DeleteGroups(response)) => response
                .results
                .iter()
                .map(|r| ErrorCode::from(r.error_code))
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        delete(&mut world),
        [ErrorCode::NonEmptyGroup, ErrorCode::GroupIdNotFound]
    );
    for member_id in [&a, &b] {
        world.send(GroupRequest::Leave {
            request: LeaveGroupRequest {
                group_id: "g".into(),
                member_id: member_id.as_str().into(),
                ..Default::default()
            },
            single_member: true,
        });
    }
    assert_eq!(world.state(), Some(GroupState::Empty));
    assert_eq!(
        delete(&mut world),
        [ErrorCode::None, ErrorCode::GroupIdNotFound]
    );
    assert_eq!(world.state(), None);
    assert_eq!(world.reloaded().hard(), &Hard::default());
}

#[test]
fn unloading_answers_everybody() {
    let mut world = World::new(config());
    let (a, _) = world.stable_pair();
    let waiting = world.join(&a, None, "unused");
    let answered = world.shard.unload();
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0].0, waiting);
    assert_eq!(world.shard.hard(), &Hard::default());
}

/// One step of a random life of a group.
#[derive(Clone, Debug)]
enum Step {
    JoinNew(u8),
    Rejoin(u8),
    Sync(u8),
    Heartbeat(u8),
    Leave(u8),
    Commit(u8, i64),
    Pass(i64),
    FailNext,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let member = 0..4_u8;
    proptest::collection::vec(
        prop_oneof![
            member.clone().prop_map(Step::JoinNew),
            member.clone().prop_map(Step::Rejoin),
            member.clone().prop_map(Step::Sync),
            member.clone().prop_map(Step::Heartbeat),
            member.clone().prop_map(Step::Leave),
            (member, 0..100_i64).prop_map(|(m, offset)| Step::Commit(m, offset)),
            (0..20_000_i64).prop_map(Step::Pass),
            Just(Step::FailNext),
        ],
        0..80,
    )
}

proptest! {
    /// G2: generations only grow. G4: the log gives the live hard state. G6: a rebalance ends within its timeouts
    /// once the clients are quiet. Every request is answered once, and none is forgotten.
    #[test]
    fn any_life_of_a_group_keeps_the_invariants(steps in steps()) {
        let mut world = World::new(config());
        world.shard.loaded(world.now());
        let mut ids: BTreeMap<u8, String> = BTreeMap::new();
        let mut generation_id = 0;
        for step in steps {
            match step {
                Step::JoinNew(m) => {
                    let asked = world.join("", None, &format!("m{m}-{}", world.next_token));
                    let told = world.joined(asked);
                    if told.error_code == ErrorCode::MemberIdRequired.code() {
                        ids.insert(m, told.member_id.to_string());
                        world.join(&told.member_id, None, "unused");
                    }
                }
                Step::Rejoin(m) => if let Some(id) = ids.get(&m).cloned() {
                    world.join(&id, None, "unused");
                },
                Step::Sync(m) => if let Some(id) = ids.get(&m).cloned() {
                    let current = world.shard.group("g").map_or(0, ClassicGroup::generation_id);
                    world.sync(&id, current, &[(&id, "x")]);
                },
                Step::Heartbeat(m) => if let Some(id) = ids.get(&m).cloned() {
                    let current = world.shard.group("g").map_or(0, ClassicGroup::generation_id);
                    world.heartbeat(&id, current);
                },
                Step::Leave(m) => if let Some(id) = ids.get(&m).cloned() {
                    world.send(GroupRequest::Leave {
                        request: LeaveGroupRequest {
                            group_id: "g".into(),
                            member_id: id.as_str().into(),
                            ..Default::default()
                        },
                        single_member: true,
                    });
                },
                Step::Commit(m, offset) => if let Some(id) = ids.get(&m).cloned() {
                    let current = world.shard.group("g").map_or(0, ClassicGroup::generation_id);
                    let code = world.commit(&id, current, offset);
                    if code == ErrorCode::None {
                        prop_assert_eq!(world.fetch(), offset);
                    }
                },
                Step::Pass(ms) => world.pass(ms),
                Step::FailNext => {
                    world.fail_writes = match world.fail_writes {
                        None => Some(ErrorCode::CoordinatorNotAvailable),
                        Some(_) => None,
                    };
                }
            }
            if let Some(group) = world.shard.group("g") {
                prop_assert!(group.generation_id() >= generation_id);
                generation_id = group.generation_id();
                if group.state() == GroupState::Empty {
                    prop_assert_eq!(group.members().count(), 0);
                }
                if group.state() == GroupState::Stable {
                    prop_assert!(group.leader_id().is_some_and(|l| group.members().any(|m| m.id == *l)));
                }
            }
            let reloaded = world.reloaded();
            prop_assert_eq!(reloaded.hard(), world.shard.hard());
        }
        world.fail_writes = None;
        world.pass(10 * 60_000);
        for token in 0..world.next_token {
            prop_assert!(world.answers.contains_key(&Token(token)), "request {token} was never answered");
        }
        if let Some(group) = world.shard.group("g") {
            prop_assert_eq!(group.state(), GroupState::Empty);
        }
    }
}
