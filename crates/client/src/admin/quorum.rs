//! The quorum of the metadata log: its members, how far each is, and changes of who votes.
//! Not here: how the quorum agrees. Runs on the caller's task.
//! Kafka: Admin.{describeMetadataQuorum, addRaftVoter, removeRaftVoter}; KIP-595, KIP-853.

use super::outcome;
use crate::{ClientError, Cluster};
use kavka_common::Uuid;
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kavka_protocol::messages::describe_quorum_response::ReplicaState as WireState;
use kavka_protocol::messages::{
    AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest, add_raft_voter_request,
};
use std::collections::BTreeMap;

/// One listener of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub listener: String,
    pub host: String,
    pub port: u16,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub node_id: i32,
    /// Zero where the quorum knows no directories.
    pub directory_id: Uuid,
    pub log_end_offset: i64,
    /// Wall-clock times in ms; `None` when the leader has not heard of it.
    pub last_fetch_ms: Option<i64>,
    pub last_caught_up_ms: Option<i64>,
}

/// The quorum as its leader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    pub leader_id: i32,
    pub leader_epoch: i32,
    pub high_watermark: i64,
    pub voters: Vec<Member>,
    pub observers: Vec<Member>,
    /// Of voters, from version 2 of the API on.
    pub endpoints: BTreeMap<i32, Vec<Endpoint>>,
}

fn member(state: WireState) -> Member {
    let known = |time: i64| (time >= 0).then_some(time);
    Member {
        node_id: state.replica_id,
        directory_id: state.replica_directory_id,
        log_end_offset: state.log_end_offset,
        last_fetch_ms: known(state.last_fetch_timestamp),
        last_caught_up_ms: known(state.last_caught_up_timestamp),
    }
}

/// Asks the leader about the quorum.
pub async fn describe(cluster: &mut Cluster) -> Result<Quorum, ClientError> {
    let request = DescribeQuorumRequest {
        topics: vec![TopicData {
            topic_name: CLUSTER_METADATA_TOPIC.into(),
            partitions: vec![PartitionData::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    cluster
        .retrying("describeMetadataQuorum", async |cluster| {
            let answer = cluster
                .call_any_or_active_controller("describeMetadataQuorum", &request)
                .await?;
            outcome(answer.error_code, answer.error_message.as_ref())?;
            let partition = answer
                .topics
                .into_iter()
                .flat_map(|topic| topic.partitions)
                .next()
                .ok_or_else(|| ClientError::Refused {
                    code: ErrorCode::UnknownServerError,
                    message: Some("The answer tells of no partition of the metadata log".into()),
                })?;
            outcome(partition.error_code, partition.error_message.as_ref())?;
            Ok(Quorum {
                leader_id: partition.leader_id,
                leader_epoch: partition.leader_epoch,
                high_watermark: partition.high_watermark,
                voters: partition.current_voters.into_iter().map(member).collect(),
                observers: partition.observers.into_iter().map(member).collect(),
                endpoints: answer
                    .nodes
                    .into_iter()
                    .map(|node| {
                        let endpoints = node.listeners.into_iter().map(|listener| Endpoint {
                            listener: listener.name.to_string(),
                            host: listener.host.to_string(),
                            port: listener.port,
                        });
                        (node.node_id, endpoints.collect())
                    })
                    .collect(),
            })
        })
        .await
}

/// Makes a controller that follows the log a voter.
pub async fn add_voter(
    cluster: &mut Cluster,
    node_id: i32,
    directory_id: Uuid,
    endpoints: &[Endpoint],
) -> Result<(), ClientError> {
    let request = AddRaftVoterRequest {
        cluster_id: None,
        timeout_ms: cluster.server_timeout_ms(),
        voter_id: node_id,
        voter_directory_id: directory_id,
        listeners: endpoints
            .iter()
            .map(|endpoint| add_raft_voter_request::Listener {
                name: endpoint.listener.as_str().into(),
                host: endpoint.host.as_str().into(),
                port: endpoint.port,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    cluster
        .retrying("addRaftVoter", async |cluster| {
            let answer = cluster
                .call_any_or_active_controller("addRaftVoter", &request)
                .await?;
            outcome(answer.error_code, answer.error_message.as_ref())
        })
        .await
}

/// Takes a controller's vote away.
pub async fn remove_voter(
    cluster: &mut Cluster,
    node_id: i32,
    directory_id: Uuid,
) -> Result<(), ClientError> {
    let request = RemoveRaftVoterRequest {
        cluster_id: None,
        voter_id: node_id,
        voter_directory_id: directory_id,
        ..Default::default()
    };
    cluster
        .retrying("removeRaftVoter", async |cluster| {
            let answer = cluster
                .call_any_or_active_controller("removeRaftVoter", &request)
                .await?;
            outcome(answer.error_code, answer.error_message.as_ref())
        })
        .await
}
