//! One record inside a batch: borrowed and owned views, and the iterators over a batch's payload.
//! Not here: the batch around it; per-record produce rules (validate.rs).
//! Hot path: the borrowed view allocates nothing per record. Kafka: DefaultRecord; KIP-82.

use crate::error::BatchError;
use crate::header::{BatchHeader, TimestampType};
use crate::varint;
use bytes::Bytes;
use kavka_common::Offset;

/// A header as it stands in the record. Keys may repeat; order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRef<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// The headers of one record, checked when the record was parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    raw: &'a [u8],
    count: usize,
}

impl Headers<'_> {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = HeaderRef<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        HeaderIter { rest: self.raw }
    }
}

pub struct HeaderIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = HeaderRef<'a>;

    fn next(&mut self) -> Option<HeaderRef<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        // cannot fail: the record parser went over the same bytes
        read_header(&mut self.rest).ok()
    }
}

/// A record that borrows the batch's (decompressed) bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    pub offset: Offset,
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// A record that shares the batch's (decompressed) bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub offset: Offset,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<Header>,
}

fn take<'a>(buf: &mut &'a [u8], length: usize) -> Result<&'a [u8], BatchError> {
    let (taken, rest) = buf.split_at_checked(length).ok_or(BatchError::Malformed(
        "record field reaches past the record",
    ))?;
    *buf = rest;
    Ok(taken)
}

fn nullable_bytes<'a>(buf: &mut &'a [u8]) -> Result<Option<&'a [u8]>, BatchError> {
    match usize::try_from(varint::read_i32(buf)?) {
        Ok(length) => take(buf, length).map(Some),
        Err(_) => Ok(None),
    }
}

fn read_header<'a>(buf: &mut &'a [u8]) -> Result<HeaderRef<'a>, BatchError> {
    let key_length = usize::try_from(varint::read_i32(buf)?)
        .map_err(|_| BatchError::Malformed("Invalid negative header key size"))?;
    Ok(HeaderRef {
        key: take(buf, key_length)?,
        value: nullable_bytes(buf)?,
    })
}

/// What the record's position and time are relative to.
#[derive(Clone, Copy, Debug)]
struct Base {
    offset: Offset,
    timestamp: i64,
    log_append_time: Option<i64>,
}

impl Base {
    fn of(header: &BatchHeader) -> Base {
        Base {
            offset: header.base_offset,
            timestamp: header.base_timestamp,
            log_append_time: match header.timestamp_type() {
                TimestampType::CreateTime => None,
                TimestampType::LogAppendTime => Some(header.max_timestamp),
            },
        }
    }
}

fn read_record<'a>(buf: &mut &'a [u8], base: Base) -> Result<RecordRef<'a>, BatchError> {
    let length = usize::try_from(varint::read_i32(buf)?)
        .map_err(|_| BatchError::Malformed("Invalid negative record size"))?;
    let mut body = take(buf, length)?;
    take(&mut body, 1)?; // attributes, unused
    let timestamp_delta = varint::read_i64(&mut body)?;
    let offset_delta = varint::read_i32(&mut body)?;
    let key = nullable_bytes(&mut body)?;
    let value = nullable_bytes(&mut body)?;
    let count = usize::try_from(varint::read_i32(&mut body)?)
        .map_err(|_| BatchError::Malformed("Found invalid number of record headers"))?;
    let raw = body;
    for _ in 0..count {
        read_header(&mut body)?;
    }
    if !body.is_empty() {
        return Err(BatchError::Malformed(
            "Invalid record size: bytes are left behind the headers",
        ));
    }
    Ok(RecordRef {
        offset: base.offset.wrapping_add(i64::from(offset_delta)),
        timestamp: base
            .log_append_time
            .unwrap_or_else(|| base.timestamp.wrapping_add(timestamp_delta)),
        key,
        value,
        headers: Headers { raw, count },
    })
}

/// Walks exactly the declared number of records, then demands the end of the payload.
#[derive(Clone, Debug)]
struct Progress {
    base: Base,
    left: i32,
    done: bool,
}

impl Progress {
    fn of(header: &BatchHeader) -> Progress {
        Progress {
            base: Base::of(header),
            left: header.records_count,
            done: false,
        }
    }

    fn step<'a>(&mut self, rest: &mut &'a [u8]) -> Option<Result<RecordRef<'a>, BatchError>> {
        if self.done {
            return None;
        }
        if self.left <= 0 {
            self.done = true;
            return (!rest.is_empty()).then_some(Err(BatchError::Malformed(
                "Incorrect declared batch size, records still remaining in file",
            )));
        }
        if rest.is_empty() {
            self.done = true;
            return Some(Err(BatchError::Malformed(
                "Incorrect declared batch size, premature EOF reached",
            )));
        }
        self.left -= 1;
        let record = read_record(rest, self.base);
        self.done = record.is_err();
        Some(record)
    }
}

/// Iterates borrowed records of decompressed bytes.
#[derive(Clone, Debug)]
pub struct RecordRefIter<'a> {
    rest: &'a [u8],
    progress: Progress,
}

impl<'a> RecordRefIter<'a> {
    pub(crate) fn new(header: &BatchHeader, payload: &'a [u8]) -> Self {
        RecordRefIter {
            rest: payload,
            progress: Progress::of(header),
        }
    }
}

impl<'a> Iterator for RecordRefIter<'a> {
    type Item = Result<RecordRef<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.progress.step(&mut self.rest)
    }
}

/// Iterates owned records that share one buffer of decompressed bytes.
#[derive(Clone, Debug)]
pub struct RecordIter {
    payload: Bytes,
    position: usize,
    progress: Progress,
}

impl RecordIter {
    pub(crate) fn new(header: &BatchHeader, payload: Bytes) -> Self {
        RecordIter {
            payload,
            position: 0,
            progress: Progress::of(header),
        }
    }
}

impl Iterator for RecordIter {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = &self.payload[self.position..];
        let before = rest.len();
        let record = self.progress.step(&mut rest)?;
        self.position += before - rest.len();
        let shared = |bytes: &[u8]| self.payload.slice_ref(bytes);
        Some(record.map(|r| {
            Record {
                offset: r.offset,
                timestamp: r.timestamp,
                key: r.key.map(shared),
                value: r.value.map(shared),
                headers: r
                    .headers
                    .into_iter()
                    .map(|h| Header {
                        key: shared(h.key),
                        value: h.value.map(shared),
                    })
                    .collect(),
            }
        }))
    }
}
