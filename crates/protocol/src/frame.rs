//! Requests and responses with their headers and lengths, as they cross a connection.
//! Not here: sockets, the growing of buffers while a frame arrives (broker/src/network, crates/client).
//! Pure. Hot path: every request and response.
//! Kafka: NetworkReceive, RequestHeader, ResponseHeader, SendBuilder; KIP-482, KIP-511.

use crate::error::{DecodeError, EncodeError, EncodeFault, Fault};
use crate::messages::{RequestHeader, ResponseHeader};
use crate::wire::{Encoder, Segment, StrBytes};
use crate::{AnyResponse, ApiKey, Message, Request};
use bytes::Bytes;

/// Bytes of the length in front of a frame.
pub const LENGTH_BYTES: usize = 4;

/// Checks the length in front of a frame before anything is allocated for it.
pub fn decode_length(length: [u8; LENGTH_BYTES], max_bytes: usize) -> Result<usize, DecodeError> {
    let length = i32::from_be_bytes(length);
    match usize::try_from(length) {
        Ok(bytes) if bytes <= max_bytes => Ok(bytes),
        _ => Err(DecodeError::of(
            "frame",
            Fault::InvalidLength(i64::from(length)),
        )),
    }
}

/// Reads the header of a request; `buf` then holds the body. The version is not checked against the key's: the caller
/// answers an unsupported one.
pub fn decode_request_header(buf: &mut Bytes) -> Result<(ApiKey, i16, RequestHeader), DecodeError> {
    let Some([k0, k1, v0, v1]) = buf.first_chunk::<4>().copied() else {
        let (needed, remaining) = (4, buf.len());
        return Err(DecodeError::of(
            RequestHeader::NAME,
            Fault::Truncated { needed, remaining },
        ));
    };
    let api_key = ApiKey::try_from(i16::from_be_bytes([k0, k1]))?;
    let version = i16::from_be_bytes([v0, v1]);
    let header = RequestHeader::decode(buf, api_key.request_header_version(version))?;
    Ok((api_key, version, header))
}

/// Reads the header of the response to a request of this key and version; `buf` then holds the body.
pub fn decode_response_header(
    api_key: ApiKey,
    version: i16,
    buf: &mut Bytes,
) -> Result<ResponseHeader, DecodeError> {
    ResponseHeader::decode(buf, api_key.response_header_version(version))
}

/// A whole request frame.
pub fn encode_request<R: Request>(
    version: i16,
    correlation_id: i32,
    client_id: Option<StrBytes>,
    request: &R,
) -> Result<Vec<Segment>, EncodeError> {
    let header = RequestHeader {
        request_api_key: R::API_KEY.code(),
        request_api_version: version,
        correlation_id,
        client_id,
        ..Default::default()
    };
    frame(|out| {
        header.encode(out, R::API_KEY.request_header_version(version))?;
        request.encode(out, version)
    })
}

/// A whole response frame.
pub fn encode_response<M: Message>(
    api_key: ApiKey,
    version: i16,
    correlation_id: i32,
    response: &M,
) -> Result<Vec<Segment>, EncodeError> {
    encode_response_with(api_key, version, correlation_id, |out| {
        response.encode(out, version)
    })
}

/// As `encode_response`, for a response of any API.
pub fn encode_any_response(
    version: i16,
    correlation_id: i32,
    response: &AnyResponse,
) -> Result<Vec<Segment>, EncodeError> {
    encode_response_with(response.api_key(), version, correlation_id, |out| {
        response.encode(out, version)
    })
}

/// A response frame whose body `body` writes.
pub fn encode_response_with(
    api_key: ApiKey,
    version: i16,
    correlation_id: i32,
    body: impl FnOnce(&mut Encoder) -> Result<(), EncodeError>,
) -> Result<Vec<Segment>, EncodeError> {
    let header = ResponseHeader {
        correlation_id,
        ..Default::default()
    };
    frame(|out| {
        header.encode(out, api_key.response_header_version(version))?;
        body(out)
    })
}

fn frame(
    content: impl FnOnce(&mut Encoder) -> Result<(), EncodeError>,
) -> Result<Vec<Segment>, EncodeError> {
    let mut out = Encoder::new();
    out.put_slice(&[0; LENGTH_BYTES]);
    content(&mut out)?;
    let length = out.len() - LENGTH_BYTES;
    match i32::try_from(length) {
        Ok(length) => out.patch_length(length),
        Err(_) => return Err(out.fault(EncodeFault::TooLong(length)).in_message("frame")),
    }
    Ok(out.finish())
}
