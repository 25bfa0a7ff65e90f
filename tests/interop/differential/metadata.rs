//! ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, DescribeQuorum, FindCoordinator.
//! Not here: anything that changes topics or logs.
//! Part of the duel. Kafka: the answers of 4.3.1.

use crate::Duel;
use kavka_common::Uuid;
use kavka_protocol::Request;
use kavka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kavka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kavka_protocol::messages::metadata_request::MetadataRequestTopic;
use kavka_protocol::messages::{
    AddRaftVoterRequest, ApiVersionsRequest, DescribeClusterRequest, DescribeQuorumRequest,
    DescribeTopicPartitionsRequest, FindCoordinatorRequest, MetadataRequest,
    RemoveRaftVoterRequest,
};
use serde_json::Value;

pub async fn run(duel: &mut Duel) {
    api_versions(duel).await;
    metadata(duel).await;
    cluster(duel).await;
    voters(duel).await;
    coordinators(duel).await;
}

/// Our list of APIs is a part of Apache's, with the same versions; the rest of the answer is compared whole.
async fn api_versions(duel: &mut Duel) {
    let good = || ApiVersionsRequest {
        client_software_name: "differential".into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    };
    let Some(versions) = ApiVersionsRequest::API_KEY.versions() else {
        return;
    };
    for version in versions {
        let request = if version < 3 {
            ApiVersionsRequest::default()
        } else {
            good()
        };
        let (theirs, ours) = tokio::join!(
            duel.theirs.call(&request, version),
            duel.ours.call(&request, version)
        );
        let (mut left, mut right) = (
            duel.theirs.masked(&theirs, version),
            duel.ours.masked(&ours, version),
        );
        let served = |value: &Value| -> Vec<Value> {
            value["apiKeys"].as_array().cloned().unwrap_or_default()
        };
        let ours_served = served(&right);
        let missing: Vec<_> = ours_served
            .iter()
            .filter(|row| !served(&left).contains(row))
            .cloned()
            .collect();
        left["apiKeys"] = Value::Array(Vec::new());
        right["apiKeys"] = Value::Array(missing);
        duel.judge(
            &format!("ApiVersions v{version}: list is part of Apache's"),
            &left,
            &right,
        );
    }
    duel.each_version("illegal software name", |version, _| {
        (version >= 3).then(|| ApiVersionsRequest {
            client_software_name: "-bad-".into(),
            client_software_version: "1".into(),
            ..Default::default()
        })
    })
    .await;
}

fn named(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic {
        name: Some(name.into()),
        ..Default::default()
    }
}

async fn metadata(duel: &mut Duel) {
    for (what, topics) in [
        ("one topic", vec!["d1"]),
        ("two topics", vec!["d2", "d1"]),
        ("missing topic", vec!["nowhere"]),
        ("illegal names", vec!["a b", "..", ""]),
        ("the same topic twice", vec!["d1", "d1"]),
    ] {
        duel.each_version(what, |version, _| {
            Some(MetadataRequest {
                topics: Some(topics.iter().map(|name| named(name)).collect()),
                // Versions below 4 always create; a topic that exists is not harmed.
                allow_auto_topic_creation: version < 4,
                ..Default::default()
            })
            .filter(|_| version >= 4 || what.ends_with("topic") && !what.starts_with("missing"))
        })
        .await;
    }
    duel.each_version("no topics", |version, _| {
        (version >= 1).then(|| MetadataRequest {
            topics: Some(Vec::new()),
            ..Default::default()
        })
    })
    .await;
    duel.each_version("all topics", |version, _| {
        Some(MetadataRequest {
            topics: (version == 0).then(Vec::new),
            ..Default::default()
        })
    })
    .await;
    duel.each_version("by id", |version, side| {
        (version >= 12).then(|| MetadataRequest {
            topics: Some(vec![
                MetadataRequestTopic {
                    topic_id: side.topic_id("d1"),
                    name: None,
                    ..Default::default()
                },
                MetadataRequestTopic {
                    topic_id: Uuid::from_bytes([7; 16]),
                    name: None,
                    ..Default::default()
                },
            ]),
            ..Default::default()
        })
    })
    .await;
    duel.each_version("authorized operations", |version, _| {
        (version >= 8).then(|| MetadataRequest {
            topics: Some(vec![named("d1")]),
            include_cluster_authorized_operations: version <= 10,
            include_topic_authorized_operations: true,
            ..Default::default()
        })
    })
    .await;
}

async fn cluster(duel: &mut Duel) {
    for endpoint_type in [1, 2, 9] {
        duel.each_version(&format!("endpoint type {endpoint_type}"), |version, _| {
            (version >= 1 || endpoint_type == 1).then(|| DescribeClusterRequest {
                include_cluster_authorized_operations: true,
                endpoint_type,
                ..Default::default()
            })
        })
        .await;
    }
    let topic = |name: &str| TopicRequest {
        name: name.into(),
        ..Default::default()
    };
    for (what, names, limit, cursor) in [
        ("two topics", vec!["d1", "d2"], 2_000, None),
        ("missing", vec!["nowhere"], 2_000, None),
        ("illegal name", vec!["a b"], 2_000, None),
        ("limited", vec!["d1", "d2"], 2, None),
        ("from a cursor", vec!["d1", "d2"], 2_000, Some(("d1", 1))),
        (
            "from a cursor beyond the end",
            vec!["d1"],
            2_000,
            Some(("d1", 9)),
        ),
        ("from a bad cursor", vec!["d1"], 2_000, Some(("d1", -1))),
        ("limit of nothing", vec!["d1"], 0, None),
    ] {
        duel.each_version(what, |_, _| {
            Some(DescribeTopicPartitionsRequest {
                topics: names.iter().map(|name| topic(name)).collect(),
                response_partition_limit: limit,
                cursor: cursor.map(|(name, partition)| Cursor {
                    topic_name: name.into(),
                    partition_index: partition,
                    ..Default::default()
                }),
                ..Default::default()
            })
        })
        .await;
    }
    for (what, topic_name, partition) in [
        ("the metadata log", "__cluster_metadata", 0),
        ("another partition", "__cluster_metadata", 1),
        ("another topic", "d1", 0),
    ] {
        duel.each_version(what, |_, _| {
            Some(DescribeQuorumRequest {
                topics: vec![TopicData {
                    topic_name: topic_name.into(),
                    partitions: vec![PartitionData {
                        partition_index: partition,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            })
        })
        .await;
    }
}

/// Changes of the quorum's members that nobody can carry out.
async fn voters(duel: &mut Duel) {
    let elsewhere = || Some("another-cluster".into());
    for (what, cluster_id, voter_id) in [
        ("another cluster", elsewhere(), 7),
        ("a voter without id", None, -1),
        ("a voter without listeners", None, 7),
    ] {
        duel.each_version(what, |_, _| {
            Some(AddRaftVoterRequest {
                cluster_id: cluster_id.clone(),
                timeout_ms: 1_000,
                voter_id,
                ..Default::default()
            })
        })
        .await;
    }
    for (what, cluster_id, voter_id) in [
        ("another cluster", elsewhere(), 7),
        ("no such voter", None, 7),
        ("a voter without id", None, -1),
    ] {
        duel.each_version(what, |_, _| {
            Some(RemoveRaftVoterRequest {
                cluster_id: cluster_id.clone(),
                voter_id,
                ..Default::default()
            })
        })
        .await;
    }
}

async fn coordinators(duel: &mut Duel) {
    // Both make the offsets topic first; until then the answer is that nobody is available.
    for side in [&mut duel.theirs, &mut duel.ours] {
        for _ in 0..100 {
            let request = FindCoordinatorRequest {
                coordinator_keys: vec!["g".into()],
                ..Default::default()
            };
            match side.call(&request, 6).await {
                Ok(answer) if answer.coordinators.iter().all(|c| c.error_code == 0) => break,
                _ => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    }
    find_each(
        duel,
        &[
            ("group", "g", 0),
            ("empty group", "", 0),
            ("unknown type", "g", 9),
        ],
    )
    .await;
}

/// What nobody coordinates on ours yet. Comes last: Apache's makes the internal topics, which then show in lists.
pub async fn unserved_coordinators(duel: &mut Duel) {
    find_each(
        duel,
        &[
            ("transactional id", "t", 1),
            ("share partition", "g:AAAAAAAAAAAAAAAAAAAAAQ:0", 2),
        ],
    )
    .await;
}

async fn find_each(duel: &mut Duel, kinds: &[(&str, &str, i8)]) {
    for (what, key, key_type) in kinds.iter().copied() {
        duel.each_version(what, |version, _| {
            let batched = version >= 4;
            (version >= 1 || key_type == 0).then(|| FindCoordinatorRequest {
                key: if batched { "".into() } else { key.into() },
                key_type,
                coordinator_keys: if batched {
                    vec![key.into()]
                } else {
                    Vec::new()
                },
                ..Default::default()
            })
        })
        .await;
    }
}
