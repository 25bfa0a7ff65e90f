//! Envelope: a client's request that a broker forwards, or a message between members of the quorum.
//! Not here: the decision (controller/), what members say to each other (quorum/peers.rs).
//! Runs in the task of the connection. The row asks for ClusterAction: only brokers and controllers send envelopes.
//! Kafka: EnvelopeUtils, ControllerApis.handleEnvelopeRequest; KIP-590.

use crate::api::RequestContext;
use crate::controller::{ControllerError, ControllerHandle, refuse};
use crate::quorum::{MetadataQuorum, is_peer_message};
use bytes::{Bytes, BytesMut};
use kavka_protocol::messages::{EnvelopeRequest, EnvelopeResponse};
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode, Segment, frame};
use std::sync::Arc;
use tracing::warn;

pub async fn handle(
    quorum: Arc<dyn MetadataQuorum>,
    controller: ControllerHandle,
    context: RequestContext,
    request: EnvelopeRequest,
) -> EnvelopeResponse {
    if is_peer_message(&request.request_data) {
        return match quorum.peer_message(request.request_data).await {
            Ok(answer) => EnvelopeResponse {
                response_data: Some(answer),
                ..Default::default()
            },
            Err(error) => {
                warn!(target: "kafka.server.ControllerApis", "a message of the quorum from {} is refused: {error}", context.peer);
                failed(ErrorCode::InvalidRequest)
            }
        };
    }
    match forwarded(controller, request.request_data).await {
        Ok(response) => EnvelopeResponse {
            response_data: Some(response),
            ..Default::default()
        },
        Err(code) => failed(code),
    }
}

fn failed(code: ErrorCode) -> EnvelopeResponse {
    EnvelopeResponse {
        error_code: code.code(),
        ..Default::default()
    }
}

/// Decides the request inside, and answers with its response, header included.
async fn forwarded(controller: ControllerHandle, mut data: Bytes) -> Result<Bytes, ErrorCode> {
    let (api_key, version, header) =
        frame::decode_request_header(&mut data).map_err(|_| ErrorCode::InvalidRequest)?;
    let served = api_key
        .versions()
        .is_some_and(|versions| versions.contains(&version));
    if !served {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let request =
        AnyRequest::decode(api_key, version, &mut data).map_err(|_| ErrorCode::InvalidRequest)?;
    let response = match controller.handle(version, request.clone()).await {
        Ok(handled) => handled.response,
        // The broker that forwards looks for the active controller by this very code.
        Err(ControllerError::NotActive(_) | ControllerError::Lost | ControllerError::Stopped) => {
            return Err(ErrorCode::NotController);
        }
        Err(error @ ControllerError::Unsupported(_)) => refuse(
            &request,
            ErrorCode::UnsupportedVersion,
            Some(&error.to_string()),
        )
        .ok_or(ErrorCode::InvalidRequest)?,
    };
    flat(version, header.correlation_id, &response).ok_or(ErrorCode::UnknownServerError)
}

fn flat(version: i16, correlation_id: i32, response: &AnyResponse) -> Option<Bytes> {
    let segments = frame::encode_any_response(version, correlation_id, response).ok()?;
    let mut out = BytesMut::new();
    for segment in segments {
        match segment {
            Segment::Bytes(bytes) => out.extend_from_slice(&bytes),
            Segment::File(region) => out.extend_from_slice(&region.read().ok()?),
        }
    }
    // The envelope's payload has no length of its own in front.
    Some(out.freeze().split_off(frame::LENGTH_BYTES))
}
