//! The requests that the active controller decides, on a controller's listener: all go to the shell as they are.
//! Not here: the decisions (crates/controller), the same requests on a broker's listener (they are forwarded here).
//! Runs in the task of the connection; waits for the controller's task.
//! Kafka: kafka.server.ControllerApis.

use crate::api::dispatch::{Authorization, CONTROLLER, ClusterOperation, Row};
use crate::api::{RequestContext, envelope};
use crate::controller::{
    ControllerError, ControllerHandle, assert_refusable, expect_response, refuse,
};
use crate::quorum::Observers;
use kavka_common::{BrokerEpoch, NodeId};
use kavka_protocol::messages::*;
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode, Request};
use std::sync::Arc;

/// Decides here, or says who does.
pub async fn handle<R>(
    controller: ControllerHandle,
    context: RequestContext,
    request: R,
) -> R::Response
where
    R: Request + Into<AnyRequest>,
    R::Response: TryFrom<AnyResponse>,
{
    let request: AnyRequest = request.into();
    let refusal = |error: &ControllerError| {
        let code = match error {
            ControllerError::NotActive(_) | ControllerError::Lost => ErrorCode::NotController,
            ControllerError::Unsupported(_) => ErrorCode::UnsupportedVersion,
            ControllerError::Stopped => ErrorCode::NotController,
        };
        refuse(&request, code, Some(&error.to_string()))
    };
    let response = match controller
        .handle(context.api_version, request.clone())
        .await
    {
        Ok(handled) => handled.response,
        Err(error) => refusal(&error).expect("asserted when the row was made"),
    };
    expect_response::<R>(response)
}

/// As every other request; and an accepted one ties the broker to its connection.
async fn heartbeat(
    controller: ControllerHandle,
    context: RequestContext,
    request: BrokerHeartbeatRequest,
) -> BrokerHeartbeatResponse {
    let connection_id = context.connection_id;
    let broker = (NodeId(request.broker_id), BrokerEpoch(request.broker_epoch));
    let response = handle(controller.clone(), context, request).await;
    if ErrorCode::from(response.error_code) == ErrorCode::None {
        controller.heard(connection_id, broker.0, broker.1);
    }
    response
}

fn row<R>(controller: &ControllerHandle, authorization: Authorization) -> Row
where
    R: Request + Into<AnyRequest> + Send + 'static,
    R::Response: TryFrom<AnyResponse> + Send + 'static,
{
    assert_refusable::<R>();
    let controller = controller.clone();
    Row::later(CONTROLLER, authorization, move |context, request: R| {
        handle(controller.clone(), context, request)
    })
}

/// The rows of a controller's listener that need the controller or the metadata log.
pub fn rows(controller: &ControllerHandle, observers: &Arc<Observers>) -> Vec<Row> {
    assert_refusable::<BrokerHeartbeatRequest>();
    let action = || Authorization::Cluster(ClusterOperation::ClusterAction);
    let alter = || Authorization::Cluster(ClusterOperation::Alter);
    let observers = || Arc::clone(observers);
    vec![
        row::<CreateTopicsRequest>(controller, Authorization::PerResource),
        row::<DeleteTopicsRequest>(controller, Authorization::PerResource),
        row::<CreatePartitionsRequest>(controller, Authorization::PerResource),
        row::<AlterConfigsRequest>(controller, Authorization::PerResource),
        row::<IncrementalAlterConfigsRequest>(controller, Authorization::PerResource),
        row::<ElectLeadersRequest>(controller, alter()),
        row::<AlterPartitionReassignmentsRequest>(controller, alter()),
        row::<ListPartitionReassignmentsRequest>(
            controller,
            Authorization::Cluster(ClusterOperation::Describe),
        ),
        row::<UpdateFeaturesRequest>(controller, alter()),
        row::<UnregisterBrokerRequest>(controller, alter()),
        row::<BrokerRegistrationRequest>(controller, action()),
        Row::later(CONTROLLER, action(), {
            let controller = controller.clone();
            move |context, request: BrokerHeartbeatRequest| {
                heartbeat(controller.clone(), context, request)
            }
        }),
        row::<AlterPartitionRequest>(controller, action()),
        row::<AllocateProducerIdsRequest>(controller, action()),
        row::<AssignReplicasToDirsRequest>(controller, action()),
        row::<ControllerRegistrationRequest>(controller, action()),
        row::<AddRaftVoterRequest>(controller, alter()),
        row::<RemoveRaftVoterRequest>(controller, alter()),
        row::<UpdateRaftVoterRequest>(controller, action()),
        Row::later(CONTROLLER, action(), {
            let observers = observers();
            move |_context, request: FetchRequest| {
                let observers = Arc::clone(&observers);
                async move { observers.fetch(request).await }
            }
        }),
        Row::later(CONTROLLER, action(), {
            let observers = observers();
            let controller = controller.clone();
            move |context, request: EnvelopeRequest| {
                envelope::handle(
                    Arc::clone(observers.quorum()),
                    controller.clone(),
                    context,
                    request,
                )
            }
        }),
        Row::now(CONTROLLER, action(), {
            let observers = observers();
            move |_context, request: FetchSnapshotRequest| observers.fetch_snapshot(&request)
        }),
        Row::now(
            CONTROLLER,
            Authorization::Cluster(ClusterOperation::Describe),
            {
                let observers = observers();
                move |context: &RequestContext, request: DescribeQuorumRequest| {
                    observers.describe(context.api_version, &request)
                }
            },
        ),
    ]
}
