//! Record batches inside a message: bytes that arrived, or parts of files that leave without being read.
//! Not here: what is in the batches (crates/records), the sending (broker/src/network).
//! Pure data, shared by reference counts. Hot path: Produce and Fetch.
//! Kafka: BaseRecords, MemoryRecords, FileRecords; DefaultRecordsSend.

use bytes::Bytes;
use kavka_common::FileRegion;
use std::sync::Arc;

/// One stretch of an encoded message.
#[derive(Clone, Debug)]
pub enum Segment {
    Bytes(Bytes),
    File(FileRegion),
}

impl Segment {
    pub fn len(&self) -> usize {
        match self {
            Segment::Bytes(bytes) => bytes.len(),
            Segment::File(region) => region.length,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Segment {
    fn from(bytes: Bytes) -> Self {
        Segment::Bytes(bytes)
    }
}

impl From<FileRegion> for Segment {
    fn from(region: FileRegion) -> Self {
        Segment::File(region)
    }
}

impl PartialEq for Segment {
    /// Files are equal when they are the same range of the same source; their content is not read.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Segment::Bytes(a), Segment::Bytes(b)) => a == b,
            (Segment::File(a), Segment::File(b)) => {
                Arc::ptr_eq(&a.source, &b.source)
                    && a.position == b.position
                    && a.length == b.length
            }
            _ => false,
        }
    }
}

/// The value of a `records` field. Decoding always gives `Bytes`.
#[derive(Clone, Debug)]
pub enum Records {
    Bytes(Bytes),
    Segments(Vec<Segment>),
}

impl Records {
    pub fn len(&self) -> usize {
        match self {
            Records::Bytes(bytes) => bytes.len(),
            Records::Segments(segments) => segments.iter().map(Segment::len).sum(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, unless a part is in a file or in more than one piece.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Records::Bytes(bytes) => Some(bytes),
            Records::Segments(segments) => match segments.as_slice() {
                [Segment::Bytes(bytes)] => Some(bytes),
                _ => None,
            },
        }
    }

    pub(crate) fn segments(&self) -> Vec<Segment> {
        match self {
            Records::Bytes(bytes) => vec![Segment::Bytes(bytes.clone())],
            Records::Segments(segments) => segments.clone(),
        }
    }
}

impl Default for Records {
    fn default() -> Self {
        Records::Bytes(Bytes::new())
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Self {
        Records::Bytes(bytes)
    }
}

impl From<FileRegion> for Records {
    fn from(region: FileRegion) -> Self {
        Records::Segments(vec![Segment::File(region)])
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        match (self.as_bytes(), other.as_bytes()) {
            (Some(a), Some(b)) => a == b,
            _ => self.segments() == other.segments(),
        }
    }
}
