//! What all messages can do, and what ties a request to its response.
//! Not here: the messages (`messages`), their enums (`any`), frames (`frame`).
//! Pure. Kafka: org.apache.kafka.common.protocol.{ApiMessage, Message}.

use crate::ApiKey;
use crate::error::{DecodeError, EncodeError, Fault, JsonError};
use crate::wire::{Encoder, Reader, Wire, unsupported};
use bytes::Bytes;
use serde_json::Value;
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// A message of the schemas. The fields of all versions are in one struct; a version is chosen on each call.
pub trait Message: Wire + Default + Clone + Debug + PartialEq {
    /// As in the schema: `FetchRequest`.
    const NAME: &'static str;
    const MIN_VERSION: i16;
    const MAX_VERSION: i16;
    /// The first version with compact encodings and tagged fields (KIP-482).
    const FLEXIBLE_FROM: Option<i16>;
    const VALID_VERSIONS: RangeInclusive<i16> = Self::MIN_VERSION..=Self::MAX_VERSION;

    fn is_flexible(version: i16) -> bool {
        Self::FLEXIBLE_FROM.is_some_and(|from| version >= from)
    }

    /// Reads the message from the front of `buf`, which then holds the bytes behind it: the caller decides whether
    /// there may be any. Strings and bytes share the memory of `buf`.
    fn decode(buf: &mut Bytes, version: i16) -> Result<Self, DecodeError> {
        if !(Self::MIN_VERSION..=Self::MAX_VERSION).contains(&version) {
            return Err(DecodeError::of(
                Self::NAME,
                Fault::UnsupportedVersion(version),
            ));
        }
        let flexible = Self::is_flexible(version);
        let mut reader = Reader::new(std::mem::take(buf), version, flexible);
        let message = Self::read(&mut reader).map_err(|e| e.in_message(Self::NAME));
        *buf = reader.into_rest();
        message
    }

    /// As `decode`, for bytes that hold nothing else.
    fn decode_exact(bytes: &Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut buf = bytes.clone();
        let message = Self::decode(&mut buf, version)?;
        match buf.len() {
            0 => Ok(message),
            rest => Err(DecodeError::of(Self::NAME, Fault::TrailingBytes(rest))),
        }
    }

    /// Appends the message. A field that the version does not have is dropped if the schema calls it ignorable or it
    /// has its default, else it is an error.
    fn encode(&self, out: &mut Encoder, version: i16) -> Result<(), EncodeError> {
        if !(Self::MIN_VERSION..=Self::MAX_VERSION).contains(&version) {
            return Err(unsupported(Self::NAME, version));
        }
        let former = out.set_version((version, Self::is_flexible(version)));
        let result = self.write(out).map_err(|e| e.in_message(Self::NAME));
        out.set_version(former);
        result
    }

    /// The message alone in one piece of memory.
    fn encode_to_bytes(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut out = Encoder::new();
        self.encode(&mut out, version)?;
        out.into_bytes().map_err(|e| e.in_message(Self::NAME))
    }

    /// The shape of Kafka's JSON converters: fields of the version only, tagged fields only where they differ from
    /// their defaults, bytes in base64.
    fn to_json(&self, version: i16) -> Value {
        Wire::to_value(self, version)
    }

    fn from_json(value: &Value, version: i16) -> Result<Self, JsonError> {
        if !(Self::MIN_VERSION..=Self::MAX_VERSION).contains(&version) {
            return Err(JsonError::new(format!(
                "{} has no version {version}",
                Self::NAME
            )));
        }
        Wire::from_value(value, version)
    }
}

/// A message from a client.
pub trait Request: Message {
    const API_KEY: ApiKey;
    type Response: Response;
}

/// The answer to a request.
pub trait Response: Message {
    const API_KEY: ApiKey;
}
