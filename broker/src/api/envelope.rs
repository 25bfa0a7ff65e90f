//! Envelope: a client's request that a broker forwards, or a message between members of the quorum.
//! Not here: the decision (controller/), what members say to each other (quorum/peers.rs).
//! Nothing is authorized yet, so whose request it is shows in the log alone.
//! Runs in the task of the connection. The row asks for ClusterAction: only brokers and controllers send envelopes.
//! Kafka: EnvelopeUtils, ControllerApis.handleEnvelopeRequest; KIP-590.

use crate::api::RequestContext;
use crate::api::context::Principal;
use crate::controller::{ControllerError, ControllerHandle, refuse};
use crate::quorum::{MetadataQuorum, is_peer_message};
use bytes::{Buf, Bytes, BytesMut};
use kavka_protocol::messages::{
    DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse, RequestHeader,
};
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode, Message, Segment, frame};
use std::net::IpAddr;
use std::sync::Arc;
use tracing::debug;

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
            Err(error) => EnvelopeResponse {
                error_code: error.error_code().code(),
                // In words, for the other member's log.
                response_data: Some(error.to_string().into()),
                ..Default::default()
            },
        };
    }
    let forwarded = match open(request) {
        Ok(forwarded) => forwarded,
        Err(code) => return failed(code),
    };
    debug!(target: "kafka.server.ControllerApis", "{} version {} of {}, client {:?} at {}, comes through {}", forwarded.request.api_key().name(), forwarded.api_version, forwarded.principal, forwarded.header.client_id.as_deref().unwrap_or(""), forwarded.client, context.peer);
    match decide(controller, &forwarded).await {
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

/// A client's request, and whose it is: what an authorizer and quotas of the controller go by, not by who forwards.
#[derive(Debug)]
struct Forwarded {
    principal: Principal,
    /// The client's address as the broker sees it.
    client: IpAddr,
    header: RequestHeader,
    api_version: i16,
    request: AnyRequest,
}

/// Reads an envelope as Kafka does, and with its codes: one whose sender or client cannot be told is not opened.
fn open(envelope: EnvelopeRequest) -> Result<Forwarded, ErrorCode> {
    let principal = envelope
        .request_principal
        .and_then(read_principal)
        .ok_or(ErrorCode::PrincipalDeserializationFailure)?;
    let client = read_address(&envelope.client_host_address).ok_or(ErrorCode::InvalidRequest)?;
    let mut data = envelope.request_data;
    let (api_key, api_version, header) =
        frame::decode_request_header(&mut data).map_err(|_| ErrorCode::InvalidRequest)?;
    if !api_key.info().forwardable {
        return Err(ErrorCode::InvalidRequest);
    }
    let served = api_key
        .versions()
        .is_some_and(|versions| versions.contains(&api_version));
    if !served {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let request = AnyRequest::decode(api_key, api_version, &mut data)
        .map_err(|_| ErrorCode::InvalidRequest)?;
    Ok(Forwarded {
        principal,
        client,
        header,
        api_version,
        request,
    })
}

/// Kafka: DefaultKafkaPrincipalBuilder.deserialize.
fn read_principal(mut bytes: Bytes) -> Option<Principal> {
    let version = bytes.try_get_i16().ok()?;
    if !DefaultPrincipalData::VALID_VERSIONS.contains(&version) {
        return None;
    }
    let data = DefaultPrincipalData::decode(&mut bytes, version).ok()?;
    Some(Principal {
        principal_type: (&*data.r#type).into(),
        name: (&*data.name).into(),
    })
}

/// Four bytes or sixteen, as Java's `InetAddress.getByAddress` takes them.
fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// Decides the request inside, and answers with its response, header included.
async fn decide(controller: ControllerHandle, forwarded: &Forwarded) -> Result<Bytes, ErrorCode> {
    let Forwarded {
        header,
        api_version,
        request,
        ..
    } = forwarded;
    let response = match controller.handle(*api_version, request.clone()).await {
        Ok(handled) => handled.response,
        // The broker that forwards looks for the active controller by this very code.
        Err(ControllerError::NotActive(_) | ControllerError::Lost | ControllerError::Stopped) => {
            return Err(ErrorCode::NotController);
        }
        Err(error @ ControllerError::Unsupported(_)) => refuse(
            request,
            ErrorCode::UnsupportedVersion,
            Some(&error.to_string()),
        )
        .ok_or(ErrorCode::InvalidRequest)?,
    };
    flat(*api_version, header.correlation_id, &response).ok_or(ErrorCode::UnknownServerError)
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

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_protocol::Request;
    use kavka_protocol::messages::{CreateTopicsRequest, MetadataRequest};

    /// A principal as Java writes it: `User:alice`.
    const ALICE: &[u8] = b"\0\0\x05User\x06alice\0\0";

    fn envelope<R: Request>(version: i16, request: &R) -> EnvelopeRequest {
        let segments = frame::encode_request(version, 7, Some("me".into()), request).unwrap();
        let mut data = BytesMut::new();
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) => data.extend_from_slice(&bytes),
                Segment::File(_) => panic!("a request has no file in it"),
            }
        }
        EnvelopeRequest {
            request_data: data.freeze().split_off(frame::LENGTH_BYTES),
            request_principal: Some(Bytes::from_static(ALICE)),
            client_host_address: Bytes::from_static(&[192, 0, 2, 1]),
            ..Default::default()
        }
    }

    #[test]
    fn an_envelope_says_whose_request_it_carries() {
        let opened = open(envelope(7, &CreateTopicsRequest::default())).unwrap();
        assert_eq!(opened.principal.to_string(), "User:alice");
        assert_eq!(opened.client.to_string(), "192.0.2.1");
        assert_eq!(opened.header.client_id.as_deref(), Some("me"));
        assert_eq!(opened.header.correlation_id, 7);
    }

    #[test]
    fn an_envelope_without_sender_or_with_a_wrong_letter_is_not_opened() {
        let good = || envelope(7, &CreateTopicsRequest::default());
        let codes = [
            EnvelopeRequest {
                request_principal: None,
                ..good()
            },
            EnvelopeRequest {
                request_principal: Some(Bytes::from_static(b"\0\x01")),
                ..good()
            },
            EnvelopeRequest {
                client_host_address: Bytes::from_static(&[1, 2, 3]),
                ..good()
            },
            envelope(12, &MetadataRequest::default()),
            EnvelopeRequest {
                request_data: Bytes::from_static(b"\0"),
                ..good()
            },
        ]
        .map(|envelope| open(envelope).unwrap_err());
        assert_eq!(
            codes,
            [
                ErrorCode::PrincipalDeserializationFailure,
                ErrorCode::PrincipalDeserializationFailure,
                ErrorCode::InvalidRequest,
                ErrorCode::InvalidRequest,
                ErrorCode::InvalidRequest,
            ]
        );
    }
}
