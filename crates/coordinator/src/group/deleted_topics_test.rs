//! What becomes of committed offsets when their topic is deleted.
//! Not here: who notices (broker/src/coordinator/groups_test.rs).
//! Test only. Kafka: OffsetMetadataManagerTest (onTopicsDeleted).

use super::*;

/// The topic of [`World::commit`].
fn deleted() -> GroupRequest {
    GroupRequest::TopicsDeleted(vec![DeletedTopic {
        name: "t".into(),
        id: Uuid::METADATA_TOPIC,
    }])
}

#[test]
fn offsets_go_with_their_topic() {
    let mut world = World::new(config());
    assert_eq!(world.commit("", -1, 42), ErrorCode::None);
    assert_eq!(world.fetch(), 42);
    let told = world.send(deleted());
    assert_eq!(
        world.answers.get(&told),
        Some(&GroupResponse::TopicsDeleted)
    );
    assert_eq!(world.fetch(), -1);
    assert!(world.reloaded().hard().offsets.is_empty());
}

#[test]
fn the_next_topic_of_that_name_keeps_its_offsets() {
    let mut world = World::new(config());
    assert_eq!(world.commit("", -1, 42), ErrorCode::None);
    let other = |id| {
        GroupRequest::TopicsDeleted(vec![DeletedTopic {
            name: "t".into(),
            id,
        }])
    };
    world.send(other(Uuid::from_bytes([9; 16])));
    assert_eq!(world.fetch(), 42);
    world.send(other(Uuid::ZERO));
    assert_eq!(world.fetch(), 42, "it was stored with an id");
}

#[test]
fn a_commit_under_way_does_not_outlive_its_topic() {
    let mut world = World::new(config());
    assert_eq!(world.commit("", -1, 1), ErrorCode::None);
    let now = world.now();
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            topic_id: Uuid::METADATA_TOPIC,
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: 2,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let commit = world
        .shard
        .handle(now, Token(100), GroupRequest::OffsetCommit(request));
    let tombstones = world.shard.handle(now, Token(101), deleted());
    // Both writes lie in the log in this order, and neither was committed when the topic went.
    world.settle(commit);
    assert_eq!(world.fetch(), -1);
    world.settle(tombstones);
    assert_eq!(world.fetch(), -1);
}

#[test]
fn tombstones_that_could_not_be_written_are_tried_again() {
    let mut world = World::new(config());
    world.shard.loaded(world.now());
    assert_eq!(world.commit("", -1, 42), ErrorCode::None);
    world.fail_writes = Some(ErrorCode::CoordinatorNotAvailable);
    world.send(deleted());
    assert_eq!(world.fetch(), 42);
    world.fail_writes = None;
    world.pass(2 * HOUR_MS);
    assert_eq!(world.fetch(), -1);
}
