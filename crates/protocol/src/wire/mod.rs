//! The encodings of Kafka's primitive types, arrays and nullable values: what the generated messages are made of.
//! Not here: messages (`messages`), frames (`frame`), record batches (crates/records).
//! Pure, no I/O. Hot path: every request and response.
//! Kafka: org.apache.kafka.common.protocol.{Readable, Writable, types.Type}; KIP-482.

mod encoder;
pub mod json;
mod reader;
mod records;
mod str_bytes;

pub use encoder::{Encoder, TagsEncoder};
pub use json::{JsonObject, ObjectBuilder};
pub use reader::Reader;
pub use records::{Records, Segment};
pub use str_bytes::StrBytes;

use crate::error::{DecodeError, EncodeError, EncodeFault, Fault, JsonError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kavka_common::Uuid;
use serde_json::Value;

/// A tagged field that this schema does not know. It survives a round trip (KIP-482).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RawTaggedField {
    pub tag: u32,
    pub data: Bytes,
}

/// A type with an encoding: primitives here, structs in the generated code.
pub trait Wire: Sized {
    /// No value takes less in this version. Bounds the count of an array before anything is allocated.
    fn min_bytes(version: i16, flexible: bool) -> usize;
    fn read(r: &mut Reader) -> Result<Self, DecodeError>;
    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError>;
    fn to_value(&self, version: i16) -> Value;
    fn from_value(value: &Value, version: i16) -> Result<Self, JsonError>;

    /// `None` is null. The default is the encoding of structs: a marker byte, 1 or -1, in front.
    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        match i8::from_be_bytes(r.array_of()?) {
            marker if marker < 0 => Ok(None),
            _ => Self::read(r).map(Some),
        }
    }

    fn write_nullable(value: Option<&Self>, w: &mut Encoder) -> Result<(), EncodeError> {
        match value {
            None => {
                w.put_slice(&(-1i8).to_be_bytes());
                Ok(())
            }
            Some(value) => {
                w.put_slice(&1i8.to_be_bytes());
                value.write(w)
            }
        }
    }

    fn nullable_min_bytes(_version: i16, _flexible: bool) -> usize {
        1
    }
}

impl<T: Wire> Wire for Option<T> {
    fn min_bytes(version: i16, flexible: bool) -> usize {
        T::nullable_min_bytes(version, flexible)
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        T::read_nullable(r)
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        T::write_nullable(self.as_ref(), w)
    }

    fn to_value(&self, version: i16) -> Value {
        self.as_ref()
            .map_or(Value::Null, |value| value.to_value(version))
    }

    fn from_value(value: &Value, version: i16) -> Result<Self, JsonError> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value, version).map(Some),
        }
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            #[inline]
            fn min_bytes(_: i16, _: bool) -> usize {
                size_of::<$t>()
            }

            #[inline]
            fn read(r: &mut Reader) -> Result<Self, DecodeError> {
                Ok(<$t>::from_be_bytes(r.array_of()?))
            }

            #[inline]
            fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
                w.put_slice(&self.to_be_bytes());
                Ok(())
            }

            fn to_value(&self, _: i16) -> Value {
                Value::from(*self)
            }

            fn from_value(value: &Value, _: i16) -> Result<Self, JsonError> {
                json::integer(value)?
                    .try_into()
                    .map_err(|_| JsonError::new(concat!("not in the range of ", stringify!($t))))
            }
        }
    )*};
}

integers!(i8, i16, u16, i32, u32, i64);

impl Wire for f64 {
    fn min_bytes(_: i16, _: bool) -> usize {
        8
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(f64::from_be_bytes(r.array_of()?))
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_slice(&self.to_be_bytes());
        Ok(())
    }

    /// JSON has no number for infinities and NaN; Java's converter writes their names.
    fn to_value(&self, _: i16) -> Value {
        match serde_json::Number::from_f64(*self) {
            Some(number) => Value::Number(number),
            None if self.is_nan() => Value::from("NaN"),
            None if *self > 0.0 => Value::from("Infinity"),
            None => Value::from("-Infinity"),
        }
    }

    fn from_value(value: &Value, _: i16) -> Result<Self, JsonError> {
        match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => match text.as_str() {
                "NaN" => Some(f64::NAN),
                "Infinity" => Some(f64::INFINITY),
                "-Infinity" => Some(f64::NEG_INFINITY),
                _ => None,
            },
            _ => None,
        }
        .ok_or_else(|| JsonError::new("expected a number"))
    }
}

impl Wire for bool {
    fn min_bytes(_: i16, _: bool) -> usize {
        1
    }

    /// Any byte but 0 is true, as in Kafka.
    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(r.array_of::<1>()? != [0])
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_slice(&[u8::from(*self)]);
        Ok(())
    }

    fn to_value(&self, _: i16) -> Value {
        Value::Bool(*self)
    }

    fn from_value(value: &Value, _: i16) -> Result<Self, JsonError> {
        value
            .as_bool()
            .ok_or_else(|| JsonError::new("expected true or false"))
    }
}

impl Wire for Uuid {
    fn min_bytes(_: i16, _: bool) -> usize {
        16
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Uuid::from_bytes(r.array_of()?))
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_slice(self.as_bytes());
        Ok(())
    }

    fn to_value(&self, _: i16) -> Value {
        Value::String(self.to_string())
    }

    fn from_value(value: &Value, _: i16) -> Result<Self, JsonError> {
        json::text(value)?
            .parse()
            .map_err(|e| JsonError::new(format!("{e}")))
    }
}

fn not_null<T>(value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| DecodeError::new(Fault::UnexpectedNull))
}

impl Wire for StrBytes {
    fn min_bytes(_: i16, flexible: bool) -> usize {
        if flexible { 1 } else { 2 }
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        not_null(r.string()?)
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_string(Some(self))
    }

    fn to_value(&self, _: i16) -> Value {
        Value::String(self.as_str().to_owned())
    }

    fn from_value(value: &Value, _: i16) -> Result<Self, JsonError> {
        json::text(value).map(StrBytes::from)
    }

    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        r.string()
    }

    fn write_nullable(value: Option<&Self>, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_string(value.map(StrBytes::as_str))
    }

    fn nullable_min_bytes(version: i16, flexible: bool) -> usize {
        Self::min_bytes(version, flexible)
    }
}

impl Wire for Bytes {
    fn min_bytes(_: i16, flexible: bool) -> usize {
        if flexible { 1 } else { 4 }
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        not_null(r.bytes()?)
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_bytes(Some(self))
    }

    fn to_value(&self, _: i16) -> Value {
        Value::String(STANDARD.encode(self))
    }

    fn from_value(value: &Value, _: i16) -> Result<Self, JsonError> {
        let decoded = STANDARD.decode(json::text(value)?);
        decoded
            .map(Bytes::from)
            .map_err(|_| JsonError::new("not base64"))
    }

    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        r.bytes()
    }

    fn write_nullable(value: Option<&Self>, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_bytes(value)
    }

    fn nullable_min_bytes(version: i16, flexible: bool) -> usize {
        Self::min_bytes(version, flexible)
    }
}

impl Wire for Records {
    fn min_bytes(_: i16, flexible: bool) -> usize {
        if flexible { 1 } else { 4 }
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        not_null(r.bytes()?).map(Records::Bytes)
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_records(Some(self))
    }

    /// Base64; where parts are in files, only the size: a log line is no reason to read a file.
    fn to_value(&self, version: i16) -> Value {
        match self {
            Records::Bytes(bytes) => bytes.to_value(version),
            Records::Segments(segments) => {
                let mut joined = Vec::new();
                for segment in segments {
                    match segment {
                        Segment::Bytes(bytes) => joined.extend_from_slice(bytes),
                        Segment::File(_) => return Value::from(self.len()),
                    }
                }
                Value::String(STANDARD.encode(joined))
            }
        }
    }

    fn from_value(value: &Value, version: i16) -> Result<Self, JsonError> {
        Bytes::from_value(value, version).map(Records::Bytes)
    }

    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        Ok(r.bytes()?.map(Records::Bytes))
    }

    fn write_nullable(value: Option<&Self>, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_records(value)
    }

    fn nullable_min_bytes(version: i16, flexible: bool) -> usize {
        Self::min_bytes(version, flexible)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn min_bytes(_: i16, flexible: bool) -> usize {
        if flexible { 1 } else { 4 }
    }

    fn read(r: &mut Reader) -> Result<Self, DecodeError> {
        not_null(r.array()?)
    }

    fn write(&self, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_array(Some(self))
    }

    fn to_value(&self, version: i16) -> Value {
        Value::Array(
            self.iter()
                .map(|element| element.to_value(version))
                .collect(),
        )
    }

    fn from_value(value: &Value, version: i16) -> Result<Self, JsonError> {
        let elements = value
            .as_array()
            .ok_or_else(|| JsonError::new("expected an array"))?;
        let parse = |(index, element)| {
            T::from_value(element, version).map_err(|e: JsonError| e.at(&format!("[{index}]")))
        };
        elements.iter().enumerate().map(parse).collect()
    }

    fn read_nullable(r: &mut Reader) -> Result<Option<Self>, DecodeError> {
        r.array()
    }

    fn write_nullable(value: Option<&Self>, w: &mut Encoder) -> Result<(), EncodeError> {
        w.put_array(value.map(Vec::as_slice))
    }

    fn nullable_min_bytes(version: i16, flexible: bool) -> usize {
        Self::min_bytes(version, flexible)
    }
}

/// Checks a version before a message is encoded, and names the message in errors.
pub(crate) fn unsupported(message: &'static str, version: i16) -> EncodeError {
    EncodeError {
        message,
        version,
        field: "",
        fault: EncodeFault::UnsupportedVersion,
    }
}

/// What the generated files use.
pub(crate) mod prelude {
    pub(crate) use super::{
        Encoder, JsonObject, ObjectBuilder, RawTaggedField, Reader, Records, StrBytes, Wire,
    };
    pub(crate) use crate::error::{DecodeError, EncodeError, JsonError};
    pub(crate) use crate::message::{Message, Request, Response};
    pub(crate) use crate::messages::ApiKey;
    pub(crate) use bytes::Bytes;
    pub(crate) use kavka_common::Uuid;
    pub(crate) use serde_json::Value;
}
