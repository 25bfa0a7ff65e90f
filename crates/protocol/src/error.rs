//! What can be wrong with bytes that arrive, with messages to be sent, and with their JSON form.
//! Not here: mapping to wire error codes (broker/src/api/errors.rs).
//! Pure data. Kafka: SchemaException, UnsupportedVersionException, InvalidRequestException.

use std::fmt;

/// Why bytes are not the message they should be. Names the message and the innermost field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DecodeError {
    /// The message, or what else was being read.
    pub message: &'static str,
    /// `Struct.Field` in the schema's spelling; empty when the fault is in no single field.
    pub field: &'static str,
    pub fault: Fault,
}

/// The kinds of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end before the field does.
    Truncated {
        needed: usize,
        remaining: usize,
    },
    /// An array claims more elements than the remaining bytes can hold.
    CountTooLarge {
        count: u64,
        remaining: usize,
    },
    /// A length that no value of this type can have.
    InvalidLength(i64),
    /// A variable-length integer that does not fit its type.
    InvalidVarint,
    /// Null where this version has no null.
    UnexpectedNull,
    NotUtf8,
    /// A boolean or a presence marker with no meaning.
    InvalidMarker(i8),
    /// Tags have to ascend without duplicates.
    TagOrder {
        tag: u32,
        previous: u32,
    },
    /// A tagged field that is longer than its content.
    TagSize {
        tag: u32,
        unread: usize,
    },
    /// Bytes after the end.
    TrailingBytes(usize),
    UnsupportedVersion(i16),
    UnknownApiKey(i16),
    UnknownRecordType(i64),
    UnknownFrameVersion(u32),
}

impl DecodeError {
    pub(crate) const fn new(fault: Fault) -> Self {
        DecodeError {
            message: "",
            field: "",
            fault,
        }
    }

    pub(crate) const fn of(message: &'static str, fault: Fault) -> Self {
        DecodeError {
            message,
            field: "",
            fault,
        }
    }

    /// Adds the field unless an inner one is known already.
    #[cold]
    pub(crate) fn at(mut self, field: &'static str) -> Self {
        if self.field.is_empty() {
            self.field = field;
        }
        self
    }

    #[cold]
    pub(crate) fn in_message(mut self, message: &'static str) -> Self {
        self.message = message;
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}", self.message)?;
        if !self.field.is_empty() {
            write!(f, " at {}", self.field)?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Truncated { needed, remaining } => {
                write!(f, "needs {needed} bytes, {remaining} are left")
            }
            Fault::CountTooLarge { count, remaining } => {
                write!(f, "{count} elements cannot be in {remaining} bytes")
            }
            Fault::InvalidLength(length) => write!(f, "invalid length {length}"),
            Fault::InvalidVarint => f.write_str("invalid variable-length integer"),
            Fault::UnexpectedNull => f.write_str("null in a version without null"),
            Fault::NotUtf8 => f.write_str("not UTF-8"),
            Fault::InvalidMarker(marker) => write!(f, "invalid marker {marker}"),
            Fault::TagOrder { tag, previous } => write!(f, "tag {tag} after tag {previous}"),
            Fault::TagSize { tag, unread } => write!(f, "{unread} bytes unread in tag {tag}"),
            Fault::TrailingBytes(count) => write!(f, "{count} bytes after the end"),
            Fault::UnsupportedVersion(version) => write!(f, "no version {version}"),
            Fault::UnknownApiKey(key) => write!(f, "unknown API key {key}"),
            Fault::UnknownRecordType(kind) => write!(f, "unknown record type {kind}"),
            Fault::UnknownFrameVersion(version) => write!(f, "unknown frame version {version}"),
        }
    }
}

/// Why a message cannot be written in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write {message} version {version}{}{field}: {fault}", if field.is_empty() { "" } else { ", " })]
pub struct EncodeError {
    pub message: &'static str,
    pub version: i16,
    pub field: &'static str,
    pub fault: EncodeFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeFault {
    #[error("no such version")]
    UnsupportedVersion,
    /// The field is set, and this version neither has it nor may drop it.
    #[error("a value is set that this version does not have")]
    FieldNotInVersion,
    #[error("null in a version without null")]
    UnexpectedNull,
    #[error("{0} is too long")]
    TooLong(usize),
    #[error("tag {0} is used twice or out of order")]
    TagOrder(u32),
    /// The part of a file cannot be flattened here, or not be read.
    #[error("a region of a file cannot be written here")]
    FileRegion,
}

impl EncodeError {
    #[cold]
    pub(crate) fn at(mut self, field: &'static str) -> Self {
        if self.field.is_empty() {
            self.field = field;
        }
        self
    }

    #[cold]
    pub(crate) fn in_message(mut self, message: &'static str) -> Self {
        if self.message.is_empty() {
            self.message = message;
        }
        self
    }
}

/// Why JSON is not the message it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct JsonError {
    /// Keys from the outside in, joined by dots.
    pub path: String,
    pub problem: String,
}

impl JsonError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        JsonError {
            path: String::new(),
            problem: problem.into(),
        }
    }

    #[cold]
    pub(crate) fn at(mut self, key: &str) -> Self {
        if self.path.is_empty() {
            self.path = key.to_owned();
        } else {
            self.path = format!("{key}.{}", self.path);
        }
        self
    }
}
