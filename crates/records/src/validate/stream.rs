//! Walks records without keeping them: lengths, deltas and whether there is a key.
//! Not here: what the numbers must be (validate.rs).
//! Hot path: one pass over plain bytes, or over a decoder's small buffer. Kafka: DefaultRecord.readPartiallyFrom.

use crate::compression::read_error;
use crate::error::BatchError;
use crate::varint;
use std::io::BufRead;

/// What the checks need to know of a record; its key, value and headers are skipped.
pub(super) struct RecordShape {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) has_key: bool,
}

/// Reads record shapes from plain or decoded bytes without keeping them.
pub(super) struct Stream<R> {
    reader: R,
    max_bytes: usize,
}

impl<R: BufRead> Stream<R> {
    pub(super) fn new(reader: R, max_bytes: usize) -> Self {
        Stream { reader, max_bytes }
    }

    fn byte(&mut self) -> Result<u8, BatchError> {
        let max_bytes = self.max_bytes;
        let buffer = self
            .reader
            .fill_buf()
            .map_err(|e| read_error(&e, max_bytes))?;
        let byte = *buffer.first().ok_or(BatchError::Malformed(
            "Incorrect declared batch size, premature EOF reached",
        ))?;
        self.reader.consume(1);
        Ok(byte)
    }

    fn skip(&mut self, mut bytes: usize) -> Result<(), BatchError> {
        let max_bytes = self.max_bytes;
        while bytes > 0 {
            let there = self
                .reader
                .fill_buf()
                .map_err(|e| read_error(&e, max_bytes))?
                .len();
            if there == 0 {
                return Err(BatchError::Malformed(
                    "Incorrect declared batch size, premature EOF reached",
                ));
            }
            let n = there.min(bytes);
            self.reader.consume(n);
            bytes -= n;
        }
        Ok(())
    }

    pub(super) fn expect_end(&mut self) -> Result<(), BatchError> {
        let max_bytes = self.max_bytes;
        let rest = self
            .reader
            .fill_buf()
            .map_err(|e| read_error(&e, max_bytes))?;
        if rest.is_empty() {
            Ok(())
        } else {
            Err(BatchError::Malformed(
                "Incorrect declared batch size, records still remaining in file",
            ))
        }
    }

    /// A varint of at most `bytes_max` bytes, which count against `left`.
    fn varint(&mut self, left: &mut usize, bytes_max: usize) -> Result<i64, BatchError> {
        let mut raw = [0u8; 10];
        for n in 0..bytes_max {
            *left = left.checked_sub(1).ok_or(PAST_RECORD)?;
            raw[n] = self.byte()?;
            if raw[n] & 0x80 == 0 {
                return if bytes_max == 5 {
                    varint::read_i32(&mut &raw[..=n]).map(i64::from)
                } else {
                    varint::read_i64(&mut &raw[..=n])
                };
            }
        }
        Err(BatchError::Malformed("varint is too long"))
    }

    /// Skips a nullable field and tells whether it was there.
    fn field(&mut self, left: &mut usize) -> Result<bool, BatchError> {
        let Ok(length) = usize::try_from(self.varint(left, 5)?) else {
            return Ok(false);
        };
        *left = left.checked_sub(length).ok_or(PAST_RECORD)?;
        self.skip(length)?;
        Ok(true)
    }

    pub(super) fn next_record(&mut self) -> Result<RecordShape, BatchError> {
        let mut prefix = 5;
        let mut left = usize::try_from(self.varint(&mut prefix, 5)?)
            .map_err(|_| BatchError::Malformed("Invalid negative record size"))?;
        left = left.checked_sub(1).ok_or(PAST_RECORD)?;
        self.byte()?; // attributes, unused
        let timestamp_delta = self.varint(&mut left, 10)?;
        let offset_delta = i32::try_from(self.varint(&mut left, 5)?).map_err(|_| PAST_RECORD)?;
        let has_key = self.field(&mut left)?;
        self.field(&mut left)?;
        let headers = self.varint(&mut left, 5)?;
        if headers < 0 {
            return Err(BatchError::Malformed(
                "Found invalid number of record headers",
            ));
        }
        for _ in 0..headers {
            if !self.field(&mut left)? {
                return Err(BatchError::Malformed("Invalid negative header key size"));
            }
            self.field(&mut left)?;
        }
        if left != 0 {
            return Err(BatchError::Malformed(
                "Invalid record size: bytes are left behind the headers",
            ));
        }
        Ok(RecordShape {
            timestamp_delta,
            offset_delta,
            has_key,
        })
    }
}

const PAST_RECORD: BatchError = BatchError::Malformed("record field reaches past the record");
