//! A borrowed view of one whole batch, and the iterator over the batches of a slice.
//! Not here: rules for what clients may send (validate.rs).
//! Hot path: views cost a header parse and no copy. Kafka: DefaultRecordBatch, MemoryRecords.

use crate::compression::{Compression, decompress};
use crate::error::BatchError;
use crate::header::{BATCH_OVERHEAD_BYTES, BatchHeader, compute_crc};
use crate::record::{RecordIter, RecordRefIter};
use bytes::Bytes;
use std::borrow::Cow;

/// A batch that is complete in its slice.
#[derive(Clone, Copy, Debug)]
pub struct RecordBatch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> RecordBatch<'a> {
    /// Parses the first batch of `bytes`. Does not check the CRC.
    pub fn parse(bytes: &'a [u8]) -> Result<RecordBatch<'a>, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let size = header.size_bytes();
        let bytes = bytes.get(..size).ok_or(BatchError::Truncated {
            needed: size,
            available: bytes.len(),
        })?;
        Ok(RecordBatch { header, bytes })
    }

    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch with its header.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The records as they are stored, compressed or not.
    pub fn stored_records(&self) -> &'a [u8] {
        &self.bytes[BATCH_OVERHEAD_BYTES..]
    }

    pub fn verify_crc(&self) -> Result<(), BatchError> {
        let computed = compute_crc(self.bytes);
        if computed == self.header.crc {
            Ok(())
        } else {
            Err(BatchError::CrcMismatch {
                stored: self.header.crc,
                computed,
            })
        }
    }

    /// The decompressed records; borrowed where they are stored plain.
    pub fn payload(&self, decompressed_bytes_max: usize) -> Result<Payload<'a>, BatchError> {
        let bytes = match self.header.compression() {
            Compression::None => Cow::Borrowed(self.stored_records()),
            compression => Cow::Owned(decompress(
                compression,
                self.stored_records(),
                decompressed_bytes_max,
            )?),
        };
        Ok(Payload {
            header: self.header,
            bytes,
        })
    }

    /// Owned records, which share one buffer.
    pub fn records(&self, decompressed_bytes_max: usize) -> Result<RecordIter, BatchError> {
        let payload = self.payload(decompressed_bytes_max)?;
        Ok(RecordIter::new(
            &self.header,
            Bytes::from(payload.bytes.into_owned()),
        ))
    }
}

/// The decompressed records of one batch.
#[derive(Clone, Debug)]
pub struct Payload<'a> {
    header: BatchHeader,
    bytes: Cow<'a, [u8]>,
}

impl Payload<'_> {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn records(&self) -> RecordRefIter<'_> {
        RecordRefIter::new(&self.header, &self.bytes)
    }
}

/// The batches of a slice in order. The first error ends the iteration; a cut last batch is `Truncated`.
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes }
}

#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<RecordBatch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let batch = RecordBatch::parse(self.rest);
        self.rest = match &batch {
            Ok(batch) => &self.rest[batch.bytes.len()..],
            Err(_) => &[],
        };
        Some(batch)
    }
}
