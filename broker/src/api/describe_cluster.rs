//! DescribeCluster: the brokers to clients of a broker, the controllers to clients of a controller.
//! Not here: endpoints of brokers (cluster_view.rs).
//! Answers at once from the image.
//! Kafka: KafkaApis.handleDescribeCluster, ControllerApis.handleDescribeCluster, AuthHelper; KIP-700, KIP-919, KIP-1073.

use crate::api::RequestContext;
use crate::api::cluster_view::{CLUSTER_OPERATIONS, Viewpoint, shown_controller};
use crate::metadata::MetadataCache;
use crate::network::ListenerKind;
use kavka_common::NodeId;
use kavka_config::BrokerConfig;
use kavka_metadata::MetadataImage;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kavka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};

/// `endpoint_type` of the wire.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// `active_controller` is asked on controller listeners only.
pub fn handle(
    cache: &MetadataCache,
    config: &BrokerConfig,
    cluster_id: &str,
    active_controller: impl Fn() -> NodeId,
    context: &RequestContext,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let image = cache.image();
    let here = match context.listener.kind {
        ListenerKind::Broker => BROKERS,
        ListenerKind::Controller => CONTROLLERS,
    };
    if let Some(refusal) = refuse(here, &request) {
        return refusal;
    }
    let mut response = match context.listener.kind {
        ListenerKind::Broker => brokers(
            &image,
            &Viewpoint::new(config, context),
            request.include_fenced_brokers,
        ),
        ListenerKind::Controller => {
            controllers(&image, &context.listener.name, active_controller())
        }
    };
    response.cluster_id = cluster_id.into();
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    response
}

fn refuse(here: i8, request: &DescribeClusterRequest) -> Option<DescribeClusterResponse> {
    let name = |endpoint_type: i8| match endpoint_type {
        BROKERS => "BROKER",
        CONTROLLERS => "CONTROLLER",
        _ => "UNKNOWN",
    };
    let (error, message) = match request.endpoint_type {
        asked if asked == here => return None,
        BROKERS | CONTROLLERS => (
            ErrorCode::MismatchedEndpointType,
            format!(
                "The request was sent to an endpoint of type {}, but we wanted an endpoint of type {}",
                name(here),
                name(request.endpoint_type)
            ),
        ),
        unknown => (
            ErrorCode::UnsupportedEndpointType,
            format!("Unsupported endpoint type {unknown}"),
        ),
    };
    Some(DescribeClusterResponse {
        error_code: error.code(),
        error_message: Some(message.into()),
        ..Default::default()
    })
}

fn brokers(
    image: &MetadataImage,
    viewpoint: &Viewpoint,
    include_fenced: bool,
) -> DescribeClusterResponse {
    let nodes: Vec<_> = viewpoint
        .nodes(image)
        .filter(|node| include_fenced || !node.is_fenced)
        .collect();
    DescribeClusterResponse {
        controller_id: shown_controller(image, &nodes),
        brokers: nodes
            .into_iter()
            .map(|node| DescribeClusterBroker {
                broker_id: node.broker_id.get(),
                host: node.host.into(),
                port: node.port,
                rack: node.rack.map(Into::into),
                is_fenced: node.is_fenced,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn controllers(
    image: &MetadataImage,
    listener: &str,
    active_controller: NodeId,
) -> DescribeClusterResponse {
    let nodes: Vec<DescribeClusterBroker> = image
        .cluster
        .controllers
        .values()
        .filter_map(|controller| {
            let endpoint = controller
                .endpoints
                .iter()
                .find(|endpoint| &*endpoint.name == listener)
                .or(controller.endpoints.first())?;
            Some(DescribeClusterBroker {
                broker_id: controller.controller_id.get(),
                host: (&*endpoint.host).into(),
                port: i32::from(endpoint.port),
                ..Default::default()
            })
        })
        .collect();
    // A client that is told of a controller which is not in the list is confused.
    let is_listed = nodes
        .iter()
        .any(|node| node.broker_id == active_controller.get());
    DescribeClusterResponse {
        endpoint_type: CONTROLLERS,
        controller_id: if is_listed {
            active_controller.get()
        } else {
            NodeId::NONE.get()
        },
        brokers: nodes,
        ..Default::default()
    }
}
