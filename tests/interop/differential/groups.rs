//! The group APIs: joining, syncing, heartbeats, leaving, offsets, listing, describing, deleting.
//! Not here: rebalances of several members (the coordinator's own tests, and tests with real clients).
//! Part of the duel; each version uses a group of its own. Kafka: the answers of 4.3.1.

use crate::Duel;
use crate::side::Side;
use bytes::Bytes;
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
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kavka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kavka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest,
    LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, SyncGroupRequest,
};
use kavka_protocol::{ErrorCode, Request};
use serde_json::Value;

pub async fn run(duel: &mut Duel) {
    refusals(duel).await;
    lives(duel).await;
    simple_offsets(duel).await;
    listing(duel).await;
}

fn join_request(version: i16, group: &str, member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: if version >= 1 { 30_000 } else { -1 },
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x02d1\xff\xff\xff\xff"),
            ..Default::default()
        }],
        ..Default::default()
    }
}

async fn refusals(duel: &mut Duel) {
    for (what, change) in [
        (
            "empty group",
            (|r| r.group_id = "".into()) as fn(&mut JoinGroupRequest),
        ),
        ("unknown member", |r| r.member_id = "stranger".into()),
        ("session too short", |r| r.session_timeout_ms = 1),
        ("session too long", |r| r.session_timeout_ms = i32::MAX),
        ("no protocols", |r| r.protocols.clear()),
        ("no protocol type", |r| r.protocol_type = "".into()),
    ] {
        duel.each_version(what, |version, _| {
            let mut request = join_request(version, &format!("refused-{version}"), "");
            change(&mut request);
            Some(request)
        })
        .await;
    }
    for group in ["", "nobody"] {
        duel.each_version(&format!("group '{group}'"), |version, _| {
            Some(SyncGroupRequest {
                group_id: group.into(),
                generation_id: 1,
                member_id: "m".into(),
                protocol_type: (version >= 5).then(|| "consumer".into()),
                protocol_name: (version >= 5).then(|| "range".into()),
                ..Default::default()
            })
        })
        .await;
        duel.each_version(&format!("group '{group}'"), |_, _| {
            Some(HeartbeatRequest {
                group_id: group.into(),
                generation_id: 1,
                member_id: "m".into(),
                ..Default::default()
            })
        })
        .await;
        duel.each_version(&format!("group '{group}'"), |version, _| {
            Some(leave_request(version, group, "m"))
        })
        .await;
        duel.each_version(&format!("group '{group}' deleted"), |_, _| {
            Some(DeleteGroupsRequest {
                groups_names: vec![group.into()],
                ..Default::default()
            })
        })
        .await;
        duel.each_version(&format!("group '{group}'"), |_, _| {
            Some(DescribeGroupsRequest {
                groups: vec![group.into()],
                ..Default::default()
            })
        })
        .await;
        duel.each_version(&format!("group '{group}'"), |_, _| {
            Some(offset_delete(group, "d1", 0))
        })
        .await;
    }
    duel.each_version("no protocol named", |version, _| {
        (version >= 5).then(|| SyncGroupRequest {
            group_id: "nobody".into(),
            ..Default::default()
        })
    })
    .await;
}

fn leave_request(version: i16, group: &str, member_id: &str) -> LeaveGroupRequest {
    let single = version < 3;
    LeaveGroupRequest {
        group_id: group.into(),
        member_id: if single { member_id.into() } else { "".into() },
        members: if single {
            Vec::new()
        } else {
            vec![MemberIdentity {
                member_id: member_id.into(),
                ..Default::default()
            }]
        },
        ..Default::default()
    }
}

fn offset_delete(group: &str, topic: &str, partition: i32) -> OffsetDeleteRequest {
    OffsetDeleteRequest {
        group_id: group.into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: topic.into(),
            partitions: vec![OffsetDeleteRequestPartition {
                partition_index: partition,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn commit_request(
    version: i16,
    side: &Side,
    group: &str,
    member: Option<(&str, i32)>,
    topic: &str,
) -> OffsetCommitRequest {
    let by_id = version >= 10;
    OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: member.map_or(-1, |(_, generation)| generation),
        member_id: member.map_or("", |(id, _)| id).into(),
        topics: vec![OffsetCommitRequestTopic {
            name: if by_id { "".into() } else { topic.into() },
            topic_id: if by_id {
                side.topic_ids
                    .get(topic)
                    .copied()
                    .unwrap_or(Uuid::from_bytes([9; 16]))
            } else {
                Uuid::ZERO
            },
            partitions: [0, 1, 88]
                .into_iter()
                .map(|partition| OffsetCommitRequestPartition {
                    partition_index: partition,
                    committed_offset: 10 + i64::from(partition),
                    committed_metadata: Some(if partition == 1 {
                        "m".repeat(5_000).into()
                    } else {
                        "meta".into()
                    }),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetch_request(version: i16, side: &Side, group: &str, all: bool) -> OffsetFetchRequest {
    if version >= 8 {
        let by_id = version >= 10;
        return OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: group.into(),
                topics: (!all).then(|| {
                    vec![OffsetFetchRequestTopics {
                        name: if by_id { "".into() } else { "d1".into() },
                        topic_id: if by_id {
                            side.topic_id("d1")
                        } else {
                            Uuid::ZERO
                        },
                        partition_indexes: vec![0, 1, 2, 77],
                        ..Default::default()
                    }]
                }),
                ..Default::default()
            }],
            ..Default::default()
        };
    }
    OffsetFetchRequest {
        group_id: group.into(),
        topics: (!all).then(|| {
            vec![OffsetFetchRequestTopic {
                name: "d1".into(),
                partition_indexes: vec![0, 1, 2, 77],
                ..Default::default()
            }]
        }),
        ..Default::default()
    }
}

/// A whole life of a member in each version of JoinGroup; the other APIs in the nearest version they have.
async fn lives(duel: &mut Duel) {
    let Some(versions) = JoinGroupRequest::API_KEY.versions() else {
        return;
    };
    for version in versions {
        let group = format!("life-{version}");
        let joined = duel
            .one("first join", version, |version, _| {
                Some(join_request(version, &group, ""))
            })
            .await;
        let Some((theirs, ours)) = joined else {
            continue;
        };
        note(duel, &theirs.member_id, &ours.member_id);
        if ErrorCode::from(theirs.error_code) == ErrorCode::MemberIdRequired {
            let again = duel
                .one("join with the id", version, |version, side| {
                    Some(join_request(version, &group, side.note("member")))
                })
                .await;
            if again.is_none() {
                continue;
            }
        }
        member_life(duel, version, &group).await;
    }
}

fn note(duel: &mut Duel, theirs: &str, ours: &str) {
    duel.theirs
        .notes
        .insert("member".into(), Value::from(theirs));
    duel.ours.notes.insert("member".into(), Value::from(ours));
}

fn nearest<R: Request>(version: i16) -> i16 {
    let versions = R::API_KEY.versions().unwrap_or(0..=0);
    version.clamp(*versions.start(), *versions.end())
}

async fn member_life(duel: &mut Duel, version: i16, group: &str) {
    let heartbeat = |generation_id: i32| {
        move |_: i16, side: &Side| {
            Some(HeartbeatRequest {
                group_id: group.into(),
                generation_id,
                member_id: side.note("member").into(),
                ..Default::default()
            })
        }
    };
    let sync = |version: i16, side: &Side| {
        Some(SyncGroupRequest {
            group_id: group.into(),
            generation_id: 1,
            member_id: side.note("member").into(),
            protocol_type: (version >= 5).then(|| "consumer".into()),
            protocol_name: (version >= 5).then(|| "range".into()),
            assignments: vec![SyncGroupRequestAssignment {
                member_id: side.note("member").into(),
                assignment: Bytes::from_static(b"\0\0\0\0\0\0\xff\xff\xff\xff"),
                ..Default::default()
            }],
            ..Default::default()
        })
    };
    let at = nearest::<HeartbeatRequest>(version);
    duel.one("before the sync", at, heartbeat(1)).await;
    duel.one(
        "commit before the sync",
        nearest::<OffsetCommitRequest>(version),
        |v, side| {
            Some(commit_request(
                v,
                side,
                group,
                Some((side.note("member"), 1)),
                "d1",
            ))
        },
    )
    .await;
    duel.one("sync", nearest::<SyncGroupRequest>(version), sync)
        .await;
    duel.one("sync again", nearest::<SyncGroupRequest>(version), sync)
        .await;
    duel.one("stable", at, heartbeat(1)).await;
    duel.one("wrong generation", at, heartbeat(5)).await;
    duel.one(
        "commit",
        nearest::<OffsetCommitRequest>(version),
        |v, side| {
            Some(commit_request(
                v,
                side,
                group,
                Some((side.note("member"), 1)),
                "d1",
            ))
        },
    )
    .await;
    duel.one(
        "commit of an old generation",
        nearest::<OffsetCommitRequest>(version),
        |v, side| {
            Some(commit_request(
                v,
                side,
                group,
                Some((side.note("member"), 0)),
                "d1",
            ))
        },
    )
    .await;
    duel.one(
        "commit from outside",
        nearest::<OffsetCommitRequest>(version),
        |v, side| Some(commit_request(v, side, group, None, "d1")),
    )
    .await;
    duel.one("another protocol", version, |v, _| {
        let mut request = join_request(v, group, "");
        request.protocols[0].name = "unheard-of".into();
        Some(request)
    })
    .await;
    duel.one(
        "described while stable",
        nearest::<DescribeGroupsRequest>(version),
        |v, _| {
            Some(DescribeGroupsRequest {
                groups: vec![group.into()],
                include_authorized_operations: v >= 3,
                ..Default::default()
            })
        },
    )
    .await;
    duel.one(
        "delete while stable",
        nearest::<DeleteGroupsRequest>(version),
        |_, _| {
            Some(DeleteGroupsRequest {
                groups_names: vec![group.into()],
                ..Default::default()
            })
        },
    )
    .await;
    duel.one("offsets of a subscribed topic", 0, |_, _| {
        Some(offset_delete(group, "d1", 0))
    })
    .await;
    duel.one("leave", nearest::<LeaveGroupRequest>(version), |v, side| {
        Some(leave_request(v, group, side.note("member")))
    })
    .await;
    duel.one(
        "leave again",
        nearest::<LeaveGroupRequest>(version),
        |v, side| Some(leave_request(v, group, side.note("member"))),
    )
    .await;
    duel.one(
        "described while empty",
        nearest::<DescribeGroupsRequest>(version),
        |_, _| {
            Some(DescribeGroupsRequest {
                groups: vec![group.into()],
                ..Default::default()
            })
        },
    )
    .await;
    duel.one("offsets of an empty group", 0, |_, _| {
        Some(offset_delete(group, "d1", 0))
    })
    .await;
    duel.one("delete", nearest::<DeleteGroupsRequest>(version), |_, _| {
        Some(DeleteGroupsRequest {
            groups_names: vec![group.into()],
            ..Default::default()
        })
    })
    .await;
}

async fn simple_offsets(duel: &mut Duel) {
    duel.each_version("for oneself", |version, side| {
        Some(commit_request(version, side, "simple", None, "d1"))
    })
    .await;
    duel.each_version("unknown topic", |version, side| {
        Some(commit_request(version, side, "simple", None, "nowhere"))
    })
    .await;
    duel.each_version("empty group", |version, side| {
        Some(commit_request(version, side, "", None, "d1"))
    })
    .await;
    duel.each_version("a generation without a group", |version, side| {
        Some(commit_request(
            version,
            side,
            "absent",
            Some(("m", 3)),
            "d1",
        ))
    })
    .await;
    for (what, group) in [
        ("committed", "simple"),
        ("nothing committed", "absent"),
        ("empty group", ""),
    ] {
        duel.each_version(what, |version, side| {
            Some(fetch_request(version, side, group, false))
        })
        .await;
        duel.each_version(&format!("{what}, all"), |version, side| {
            (version >= 2).then(|| fetch_request(version, side, group, true))
        })
        .await;
    }
    duel.each_version("several groups", |version, side| {
        (version >= 8).then(|| {
            let mut request = fetch_request(version, side, "simple", true);
            request
                .groups
                .extend(fetch_request(version, side, "absent", false).groups);
            request
        })
    })
    .await;
    for (what, topic, partition) in [
        ("committed", "d1", 0),
        ("never committed", "d1", 2),
        ("unknown partition", "d1", 66),
        ("unknown topic", "nowhere", 0),
    ] {
        duel.each_version(what, |_, _| Some(offset_delete("simple", topic, partition)))
            .await;
    }
}

async fn listing(duel: &mut Duel) {
    for (what, states, types) in [
        ("all", vec![], vec![]),
        ("empty ones", vec!["Empty"], vec![]),
        ("state in lower case", vec!["empty"], vec![]),
        ("no such state", vec!["Nonsense"], vec![]),
        ("classic ones", vec![], vec!["classic"]),
        ("consumer ones", vec![], vec!["consumer"]),
        ("no such type", vec![], vec!["nonsense"]),
    ] {
        duel.each_version(what, |version, _| {
            let fits = (states.is_empty() || version >= 4) && (types.is_empty() || version >= 5);
            fits.then(|| ListGroupsRequest {
                states_filter: states.iter().map(|state| (*state).into()).collect(),
                types_filter: types.iter().map(|kind| (*kind).into()).collect(),
                ..Default::default()
            })
        })
        .await;
    }
}
