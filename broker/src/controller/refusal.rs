//! The answer to a controller request that cannot be decided here: the request's own response with an error code in
//! each place where that API has one.
//! Not here: what the core refuses (it fills its responses itself).
//! Pure. Kafka: AbstractRequest.getErrorResponse of each request, Errors.NOT_CONTROLLER; KIP-590.

use kavka_protocol::messages::*;
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode, Request, StrBytes};

/// To be called for every API that goes to the controller when the tables of APIs are made: a failure on the way must
/// be able to reach who asked, and an empty answer would say that all went well.
pub fn assert_refusable<R: Request + Into<AnyRequest>>() {
    let refusal = refuse(&R::default().into(), ErrorCode::UnknownServerError, None);
    assert!(
        refusal.is_some(),
        "{} goes to the controller, and `refuse` has no answer for it",
        R::API_KEY.name()
    );
}

/// The answer of the controller as the response of the request that was sent.
pub fn expect_response<R>(response: AnyResponse) -> R::Response
where
    R: Request,
    R::Response: TryFrom<AnyResponse>,
{
    match R::Response::try_from(response) {
        Ok(response) => response,
        // The controller's core, or the client that decoded the answer, mixed up two APIs: our bug.
        Err(_) => panic!("{} was answered with another response", R::API_KEY.name()),
    }
}

/// `request` refused with a code; `message` goes where the API has room for one.
pub fn refuse(
    request: &AnyRequest,
    error: ErrorCode,
    message: Option<&str>,
) -> Option<AnyResponse> {
    let code = error.code();
    let text = || message.map(StrBytes::from);
    Some(match request {
        AnyRequest::CreateTopics(request) => AnyResponse::CreateTopics(CreateTopicsResponse {
            topics: request
                .topics
                .iter()
                .map(|topic| create_topics_response::CreatableTopicResult {
                    name: topic.name.clone(),
                    error_code: code,
                    error_message: text(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }),
        AnyRequest::DeleteTopics(request) => {
            let by_name = request
                .topic_names
                .iter()
                .map(|name| (Some(name.clone()), Default::default()));
            let by_state = request
                .topics
                .iter()
                .map(|topic| (topic.name.clone(), topic.topic_id));
            AnyResponse::DeleteTopics(DeleteTopicsResponse {
                responses: by_name
                    .chain(by_state)
                    .map(
                        |(name, topic_id)| delete_topics_response::DeletableTopicResult {
                            name,
                            topic_id,
                            error_code: code,
                            error_message: text(),
                            ..Default::default()
                        },
                    )
                    .collect(),
                ..Default::default()
            })
        }
        AnyRequest::CreatePartitions(request) => {
            AnyResponse::CreatePartitions(CreatePartitionsResponse {
                results: request
                    .topics
                    .iter()
                    .map(
                        |topic| create_partitions_response::CreatePartitionsTopicResult {
                            name: topic.name.clone(),
                            error_code: code,
                            error_message: text(),
                            ..Default::default()
                        },
                    )
                    .collect(),
                ..Default::default()
            })
        }
        AnyRequest::AlterConfigs(request) => AnyResponse::AlterConfigs(AlterConfigsResponse {
            responses: request
                .resources
                .iter()
                .map(
                    |resource| alter_configs_response::AlterConfigsResourceResponse {
                        error_code: code,
                        error_message: text(),
                        resource_type: resource.resource_type,
                        resource_name: resource.resource_name.clone(),
                        ..Default::default()
                    },
                )
                .collect(),
            ..Default::default()
        }),
        AnyRequest::IncrementalAlterConfigs(request) => {
            AnyResponse::IncrementalAlterConfigs(IncrementalAlterConfigsResponse {
                responses: request
                    .resources
                    .iter()
                    .map(|resource| {
                        incremental_alter_configs_response::AlterConfigsResourceResponse {
                            error_code: code,
                            error_message: text(),
                            resource_type: resource.resource_type,
                            resource_name: resource.resource_name.clone(),
                            ..Default::default()
                        }
                    })
                    .collect(),
                ..Default::default()
            })
        }
        AnyRequest::AlterClientQuotas(request) => {
            AnyResponse::AlterClientQuotas(AlterClientQuotasResponse {
                entries: request
                    .entries
                    .iter()
                    .map(|entry| alter_client_quotas_response::EntryData {
                        error_code: code,
                        error_message: text(),
                        entity: entry
                            .entity
                            .iter()
                            .map(|part| alter_client_quotas_response::EntityData {
                                entity_type: part.entity_type.clone(),
                                entity_name: part.entity_name.clone(),
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
        }
        AnyRequest::BrokerRegistration(_) => {
            AnyResponse::BrokerRegistration(BrokerRegistrationResponse {
                error_code: code,
                ..Default::default()
            })
        }
        AnyRequest::BrokerHeartbeat(_) => AnyResponse::BrokerHeartbeat(BrokerHeartbeatResponse {
            error_code: code,
            ..Default::default()
        }),
        AnyRequest::UnregisterBroker(_) => {
            AnyResponse::UnregisterBroker(UnregisterBrokerResponse {
                error_code: code,
                error_message: text(),
                ..Default::default()
            })
        }
        AnyRequest::AlterPartition(_) => AnyResponse::AlterPartition(AlterPartitionResponse {
            error_code: code,
            ..Default::default()
        }),
        AnyRequest::ElectLeaders(_) => AnyResponse::ElectLeaders(ElectLeadersResponse {
            error_code: code,
            ..Default::default()
        }),
        AnyRequest::AlterPartitionReassignments(_) => {
            AnyResponse::AlterPartitionReassignments(AlterPartitionReassignmentsResponse {
                error_code: code,
                error_message: text(),
                ..Default::default()
            })
        }
        AnyRequest::ListPartitionReassignments(_) => {
            AnyResponse::ListPartitionReassignments(ListPartitionReassignmentsResponse {
                error_code: code,
                error_message: text(),
                ..Default::default()
            })
        }
        AnyRequest::AssignReplicasToDirs(_) => {
            AnyResponse::AssignReplicasToDirs(AssignReplicasToDirsResponse {
                error_code: code,
                ..Default::default()
            })
        }
        AnyRequest::AllocateProducerIds(_) => {
            AnyResponse::AllocateProducerIds(AllocateProducerIdsResponse {
                error_code: code,
                ..Default::default()
            })
        }
        AnyRequest::UpdateFeatures(_) => AnyResponse::UpdateFeatures(UpdateFeaturesResponse {
            error_code: code,
            error_message: text(),
            ..Default::default()
        }),
        AnyRequest::ControllerRegistration(_) => {
            AnyResponse::ControllerRegistration(ControllerRegistrationResponse {
                error_code: code,
                error_message: text(),
                ..Default::default()
            })
        }
        AnyRequest::DescribeQuorum(_) => AnyResponse::DescribeQuorum(DescribeQuorumResponse {
            error_code: code,
            error_message: text(),
            ..Default::default()
        }),
        AnyRequest::AddRaftVoter(_) => AnyResponse::AddRaftVoter(AddRaftVoterResponse {
            error_code: code,
            error_message: text(),
            ..Default::default()
        }),
        AnyRequest::RemoveRaftVoter(_) => AnyResponse::RemoveRaftVoter(RemoveRaftVoterResponse {
            error_code: code,
            error_message: text(),
            ..Default::default()
        }),
        AnyRequest::UpdateRaftVoter(_) => AnyResponse::UpdateRaftVoter(UpdateRaftVoterResponse {
            error_code: code,
            ..Default::default()
        }),
        _ => return None,
    })
}

/// Whether the peer says that another node is the active controller.
pub fn is_not_controller(response: &AnyResponse) -> bool {
    let not_controller = |code: i16| ErrorCode::from(code) == ErrorCode::NotController;
    match response {
        AnyResponse::CreateTopics(response) => response
            .topics
            .iter()
            .any(|topic| not_controller(topic.error_code)),
        AnyResponse::DeleteTopics(response) => response
            .responses
            .iter()
            .any(|topic| not_controller(topic.error_code)),
        AnyResponse::CreatePartitions(response) => response
            .results
            .iter()
            .any(|topic| not_controller(topic.error_code)),
        AnyResponse::AlterConfigs(response) => response
            .responses
            .iter()
            .any(|resource| not_controller(resource.error_code)),
        AnyResponse::IncrementalAlterConfigs(response) => response
            .responses
            .iter()
            .any(|resource| not_controller(resource.error_code)),
        AnyResponse::AlterClientQuotas(response) => response
            .entries
            .iter()
            .any(|entry| not_controller(entry.error_code)),
        AnyResponse::BrokerRegistration(response) => not_controller(response.error_code),
        AnyResponse::BrokerHeartbeat(response) => not_controller(response.error_code),
        AnyResponse::UnregisterBroker(response) => not_controller(response.error_code),
        AnyResponse::AlterPartition(response) => not_controller(response.error_code),
        AnyResponse::ElectLeaders(response) => not_controller(response.error_code),
        AnyResponse::AlterPartitionReassignments(response) => not_controller(response.error_code),
        AnyResponse::ListPartitionReassignments(response) => not_controller(response.error_code),
        AnyResponse::AssignReplicasToDirs(response) => not_controller(response.error_code),
        AnyResponse::AllocateProducerIds(response) => not_controller(response.error_code),
        AnyResponse::UpdateFeatures(response) => not_controller(response.error_code),
        AnyResponse::ControllerRegistration(response) => not_controller(response.error_code),
        AnyResponse::AddRaftVoter(response) => not_controller(response.error_code),
        AnyResponse::RemoveRaftVoter(response) => not_controller(response.error_code),
        AnyResponse::UpdateRaftVoter(response) => not_controller(response.error_code),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "Metadata goes to the controller, and `refuse` has no answer for it")]
    fn an_api_without_a_refusal_gets_no_row() {
        assert_refusable::<MetadataRequest>();
    }

    #[test]
    #[should_panic(expected = "CreateTopics was answered with another response")]
    fn another_response_is_no_empty_success() {
        let response = AnyResponse::DeleteTopics(DeleteTopicsResponse::default());
        expect_response::<CreateTopicsRequest>(response);
    }
}
