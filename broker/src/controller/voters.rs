//! AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: what they ask of the quorum, and the answers in their words.
//! Not here: the changes themselves (quorum/membership.rs); other requests (shell.rs).
//! Runs in the task of who asks. A change takes as long as a new voter takes to copy the log.
//! Kafka: KafkaRaftClient.handleAddVoterRequest and its siblings; KIP-853.

use super::shell::ControllerError;
use crate::quorum::{MetadataQuorum, VoterChange, VoterChangeError, VoterEndpoint, VoterNode};
use kavka_common::{NodeId, Uuid};
use kavka_protocol::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, RemoveRaftVoterRequest, RemoveRaftVoterResponse,
    UpdateRaftVoterRequest, UpdateRaftVoterResponse,
};
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode, StrBytes};
use std::time::Duration;

/// For changes that wait for a commit only.
const COMMITTED_WITHIN: Duration = Duration::from_secs(30);

/// Answers a request about voters; none for any other.
pub async fn answer(
    quorum: &dyn MetadataQuorum,
    cluster_id: &str,
    request: &AnyRequest,
) -> Option<Result<AnyResponse, ControllerError>> {
    Some(match request {
        AnyRequest::AddRaftVoter(request) => {
            let outcome = match check_cluster(request.cluster_id.as_ref(), cluster_id) {
                Ok(()) => add(quorum, request).await,
                Err(refusal) => Err(refusal),
            };
            told(outcome).map(|(code, message)| {
                AnyResponse::AddRaftVoter(AddRaftVoterResponse {
                    error_code: code.code(),
                    error_message: message,
                    ..Default::default()
                })
            })
        }
        AnyRequest::RemoveRaftVoter(request) => {
            let outcome = match check_cluster(request.cluster_id.as_ref(), cluster_id) {
                Ok(()) => remove(quorum, request).await,
                Err(refusal) => Err(refusal),
            };
            told(outcome).map(|(code, message)| {
                AnyResponse::RemoveRaftVoter(RemoveRaftVoterResponse {
                    error_code: code.code(),
                    error_message: message,
                    ..Default::default()
                })
            })
        }
        AnyRequest::UpdateRaftVoter(request) => {
            let outcome = match check_cluster(request.cluster_id.as_ref(), cluster_id) {
                Ok(()) => update(quorum, request).await,
                Err(refusal) => Err(refusal),
            };
            told(outcome).map(|(code, _)| {
                AnyResponse::UpdateRaftVoter(UpdateRaftVoterResponse {
                    error_code: code.code(),
                    ..Default::default()
                })
            })
        }
        _ => return None,
    })
}

/// A request for another cluster, or the quorum's own refusal.
enum Refusal {
    OtherCluster { asked: String, ours: String },
    Change(VoterChangeError),
}

impl From<VoterChangeError> for Refusal {
    fn from(error: VoterChangeError) -> Self {
        Refusal::Change(error)
    }
}

fn check_cluster(asked: Option<&StrBytes>, ours: &str) -> Result<(), Refusal> {
    match asked {
        Some(asked) if **asked != *ours => Err(Refusal::OtherCluster {
            asked: asked.to_string(),
            ours: ours.to_owned(),
        }),
        Some(_) | None => Ok(()),
    }
}

fn told(outcome: Result<(), Refusal>) -> Result<(ErrorCode, Option<StrBytes>), ControllerError> {
    let error = match outcome {
        Ok(()) => return Ok((ErrorCode::None, None)),
        Err(Refusal::OtherCluster { asked, ours }) => {
            let text = format!("The given id \"{asked}\" doesn't match the cluster id \"{ours}\"");
            return Ok((ErrorCode::InconsistentClusterId, Some(text.as_str().into())));
        }
        Err(Refusal::Change(error)) => error,
    };
    let code = match &error {
        VoterChangeError::NotLeader(leader) => {
            return Err(ControllerError::NotActive(leader.leader_id));
        }
        VoterChangeError::Stopped(_) => return Err(ControllerError::Stopped),
        VoterChangeError::Duplicate(..) => ErrorCode::DuplicateVoter,
        VoterChangeError::NotFound(..) => ErrorCode::VoterNotFound,
        VoterChangeError::Invalid(_) => ErrorCode::InvalidRequest,
        VoterChangeError::TimedOut(_) => ErrorCode::RequestTimedOut,
    };
    Ok((code, Some(error.to_string().as_str().into())))
}

/// The quorum's text of a directory id.
fn directory(id: Uuid) -> String {
    if id == Uuid::ZERO {
        String::new()
    } else {
        id.to_string()
    }
}

/// A voter is named by its id and its directory's.
fn check_voter(verb: &str, voter_id: i32, directory_id: Uuid) -> Result<(), Refusal> {
    if voter_id < 0 || directory_id == Uuid::ZERO {
        let text = format!("{verb} voter request didn't include a valid voter");
        return Err(VoterChangeError::Invalid(text).into());
    }
    Ok(())
}

async fn add(quorum: &dyn MetadataQuorum, request: &AddRaftVoterRequest) -> Result<(), Refusal> {
    check_voter("Add", request.voter_id, request.voter_directory_id)?;
    let endpoints = request
        .listeners
        .iter()
        .map(|listener| VoterEndpoint {
            name: listener.name.to_string(),
            host: listener.host.to_string(),
            port: listener.port,
        })
        .collect();
    let change = VoterChange::Add {
        node_id: NodeId(request.voter_id),
        node: VoterNode {
            directory_id: directory(request.voter_directory_id),
            endpoints,
        },
    };
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    Ok(quorum.change_voters(change, timeout).await?)
}

async fn remove(
    quorum: &dyn MetadataQuorum,
    request: &RemoveRaftVoterRequest,
) -> Result<(), Refusal> {
    check_voter("Remove", request.voter_id, request.voter_directory_id)?;
    let change = VoterChange::Remove {
        node_id: NodeId(request.voter_id),
        directory_id: directory(request.voter_directory_id),
    };
    Ok(quorum.change_voters(change, COMMITTED_WITHIN).await?)
}

async fn update(
    quorum: &dyn MetadataQuorum,
    request: &UpdateRaftVoterRequest,
) -> Result<(), Refusal> {
    let endpoints = request
        .listeners
        .iter()
        .map(|listener| VoterEndpoint {
            name: listener.name.to_string(),
            host: listener.host.to_string(),
            port: listener.port,
        })
        .collect();
    let change = VoterChange::Update {
        node_id: NodeId(request.voter_id),
        node: VoterNode {
            directory_id: directory(request.voter_directory_id),
            endpoints,
        },
    };
    Ok(quorum.change_voters(change, COMMITTED_WITHIN).await?)
}
