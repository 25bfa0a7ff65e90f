//! Kafka's wire codec: every message of Kafka 4.3 in every version, frames, API keys, error codes, record envelopes.
//!
//! | where | what |
//! |---|---|
//! | [`messages`] | one module per message (`messages::fetch_request::{FetchRequest, FetchTopic, ..}`), the top struct also flat: `messages::FetchRequest`; generated from `schemas/` |
//! | [`Message`], [`Request`], [`Response`] | decode, encode, JSON; versions; request ↔ response |
//! | [`AnyRequest`], [`AnyResponse`] | an enum over all APIs, chosen by [`ApiKey`] |
//! | [`frame`] | headers and the length in front |
//! | [`record_frame`] | records of the metadata log, control records; coordinators' records are `messages::{GroupRecordKey, ..}` |
//! | [`wire`] | the primitive encodings; [`StrBytes`], [`Records`], [`Segment`], [`Encoder`] |
//!
//! A message is built as `FetchRequest { max_wait_ms: 500, ..Default::default() }`: `Default` is the schema's.
//! Decoding takes [`bytes::Bytes`] and shares it: strings, bytes and records are slices of the frame, so whatever
//! outlives a request should be copied ([`StrBytes::detached`]). No count from the wire sizes an allocation before it
//! was compared with the bytes that are left. Encoding gives [`Segment`]s: record batches leave as they are, from memory
//! or from a file. Tagged fields that the schema does not know survive a round trip.
//!
//! Not here: what requests mean (broker/src/api), record batches (crates/records), sockets (broker/src/network).
//! Pure: no I/O, any task; builds for wasm32. Kafka: org.apache.kafka.common.{protocol, message}; KIP-482, KIP-511.

pub mod api;
pub mod error;
pub mod frame;
pub mod message;
#[rustfmt::skip]
#[path = "generated/mod.rs"]
pub mod messages;
pub mod record_frame;
pub mod wire;

pub use error::{DecodeError, EncodeError, EncodeFault, Fault, JsonError};
pub use message::{Message, Request, Response};
pub use messages::{AnyRequest, AnyResponse, ApiKey, ErrorCode, MetadataRecord};
pub use wire::{Encoder, RawTaggedField, Records, Segment, StrBytes};
