//! What a broker demands of the bytes a client produces to one partition, and how the batch changes before it is stored.
//! Not here: producer state (crates/storage), authorization and wire codes (broker/src/api).
//! Hot path: runs for each produced batch, outside the partition's lock. Compressed records are decoded as a stream
//! through one small buffer and never kept. Kafka: LogValidator, UnifiedLog.analyzeAndValidateRecords, ProduceRequest.validateRecords.

use crate::batch::RecordBatch;
use crate::builder::assemble;
use crate::compression::{Compression, CompressionLevel, compress, decoder};
use crate::error::BatchError;
use crate::header::{BatchHeader, MAGIC_V2, NO_TIMESTAMP, TimestampType, patch_timestamps_create};
use bytes::BytesMut;
use kavka_common::TopicPartition;
use std::borrow::Cow;
use std::fmt;
use std::io::{BufRead, BufReader};
use stream::Stream;

mod stream;

/// The least cap on decoded records, whatever `max.message.bytes` is.
const DECOMPRESSED_BYTES_MIN: usize = 16 * 1024 * 1024;
/// How much of `max.message.bytes` a batch may become when decoded.
const DECOMPRESSED_RATIO_MAX: usize = 4;
/// One bad batch must not become a far larger answer: further record errors are counted, not listed.
const RECORD_ERRORS_MAX: usize = 1000;
/// What the smallest record of the oldest format takes behind its length (LegacyRecord.RECORD_OVERHEAD_V0).
const RECORD_OVERHEAD_V0_BYTES: i32 = 14;
const DECODE_BUFFER_BYTES: usize = 16 * 1024;

/// `compression.type` of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicCompression {
    /// Keep what the producer chose.
    #[default]
    Producer,
    Fixed(Compression, CompressionLevel),
}

impl TopicCompression {
    /// From the value of `compression.type`, where plain batches are called `uncompressed`. `level` gives the value of
    /// `compression.<codec>.level`.
    pub fn from_config(
        name: &str,
        level: impl FnOnce(Compression) -> CompressionLevel,
    ) -> Option<TopicCompression> {
        let compression = match name {
            "producer" => return Some(TopicCompression::Producer),
            "uncompressed" => Compression::None,
            "none" => return None,
            other => Compression::from_name(other)?,
        };
        Some(TopicCompression::Fixed(compression, level(compression)))
    }
}

/// The topic settings that bear on produced batches.
#[derive(Clone, Copy, Debug)]
pub struct ProduceRules<'a> {
    /// For messages only.
    pub topic_partition: &'a TopicPartition,
    pub compression: TopicCompression,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `cleanup.policy` contains `compact`.
    pub compact: bool,
    /// `max.message.bytes`.
    pub max_message_bytes: usize,
    pub now_ms: i64,
}

impl ProduceRules<'_> {
    /// The most that a batch may decode to.
    pub fn decompressed_bytes_max(&self) -> usize {
        self.max_message_bytes
            .saturating_mul(DECOMPRESSED_RATIO_MAX)
            .max(DECOMPRESSED_BYTES_MIN)
    }
}

/// Decides the wire error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidBatchKind {
    /// The bytes are not exactly one whole batch of magic 2. Kafka answers this as an invalid record too.
    NotOneBatch,
    /// The bytes cannot even be walked as batches: Kafka's iterator throws CorruptRecordException, and its words reach the client.
    Unreadable,
    InvalidRecord,
    CorruptMessage,
    MessageTooLarge,
    InvalidTimestamp,
    UnsupportedCompressionType,
}

/// A record at fault, by its index in the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    pub batch_index: i32,
    pub message: String,
}

/// Why the whole batch is refused. Nothing of it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidBatch {
    pub kind: InvalidBatchKind,
    pub message: String,
    pub record_errors: Vec<RecordError>,
}

impl InvalidBatch {
    fn new(kind: InvalidBatchKind, message: impl Into<String>) -> Self {
        InvalidBatch {
            kind,
            message: message.into(),
            record_errors: Vec::new(),
        }
    }

    fn record(message: impl Into<String>) -> Self {
        Self::new(InvalidBatchKind::InvalidRecord, message)
    }
}

impl fmt::Display for InvalidBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidBatch {}

impl From<BatchError> for InvalidBatch {
    fn from(error: BatchError) -> Self {
        let kind = match &error {
            BatchError::CrcMismatch { .. } | BatchError::InvalidLength(_) => {
                InvalidBatchKind::CorruptMessage
            }
            BatchError::DecompressedTooLarge { .. } => InvalidBatchKind::MessageTooLarge,
            BatchError::UnknownCompression(_) => InvalidBatchKind::UnsupportedCompressionType,
            BatchError::Truncated { .. }
            | BatchError::UnsupportedMagic(_)
            | BatchError::Malformed(_)
            | BatchError::Decompress(_) => InvalidBatchKind::InvalidRecord,
        };
        InvalidBatch::new(kind, error.to_string())
    }
}

/// How the stored batch differs from the produced one, apart from offset and leader epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rewrite {
    Keep,
    /// The records' own time, and the greatest of them in the header.
    CreateTime(i64),
    Replaced(BytesMut),
}

/// The one valid batch that a client may produce to a partition per request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedBatch {
    header: BatchHeader,
    max_timestamp: i64,
    rewrite: Rewrite,
}

impl ValidatedBatch {
    /// The header as it was produced.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The greatest timestamp as it will be stored.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// The bytes to append; `produced` are the validated ones, and are not copied unless something must change. Offset,
    /// leader epoch and, in topics that ask for it, the append time are the log's to set.
    pub fn into_stored(self, produced: &[u8]) -> Cow<'_, [u8]> {
        match self.rewrite {
            Rewrite::Keep => Cow::Borrowed(produced),
            Rewrite::CreateTime(max_timestamp) => {
                let mut batch = produced.to_vec();
                patch_timestamps_create(&mut batch, max_timestamp);
                Cow::Owned(batch)
            }
            Rewrite::Replaced(replaced) => Cow::Owned(replaced.into()),
        }
    }
}

/// Checks the records that one Produce request brings for one partition.
pub fn validate_produce(
    bytes: &[u8],
    rules: &ProduceRules<'_>,
) -> Result<ValidatedBatch, InvalidBatch> {
    let batch = single_batch(bytes)?;
    let header = *batch.header();
    check_header(&header, rules)?;
    batch.verify_crc().map_err(|e| {
        let mut invalid = InvalidBatch::from(e);
        invalid.message = format!(
            "{} in topic partition {}.",
            invalid.message, rules.topic_partition
        );
        invalid
    })?;
    check_client_fields(&header, rules)?;
    let create_time_max = check_records(&batch, rules)?;
    let log_append = rules.timestamp_type == TimestampType::LogAppendTime;
    let target = match rules.compression {
        TopicCompression::Producer => None,
        TopicCompression::Fixed(compression, level) => {
            (compression != header.compression()).then_some((compression, level))
        }
    };
    let rewrite = match target {
        Some((compression, level)) => {
            let replaced = recompress(&batch, compression, level, create_time_max, rules)?;
            Rewrite::Replaced(replaced)
        }
        // a client's claim of append time, or of another greatest time, is mended as Kafka does
        None if !log_append
            && (create_time_max != header.max_timestamp
                || header.timestamp_type() == TimestampType::LogAppendTime) =>
        {
            Rewrite::CreateTime(create_time_max)
        }
        None => Rewrite::Keep,
    };
    Ok(ValidatedBatch {
        header,
        max_timestamp: if log_append {
            rules.now_ms
        } else {
            create_time_max
        },
        rewrite,
    })
}

/// Exactly one complete batch of magic 2 and nothing behind it (every Produce version served allows only that).
fn single_batch(bytes: &[u8]) -> Result<RecordBatch<'_>, InvalidBatch> {
    let refuse = |message: String| InvalidBatch::new(InvalidBatchKind::NotOneBatch, message);
    let none = "Produce requests must have at least one record batch per partition";
    if bytes.is_empty() {
        return Err(refuse(none.into()));
    }
    let batch = match RecordBatch::parse(bytes) {
        Ok(batch) => batch,
        Err(BatchError::UnsupportedMagic(magic)) if !(0..=MAGIC_V2).contains(&magic) => {
            return Err(InvalidBatch::new(
                InvalidBatchKind::Unreadable,
                format!("Invalid magic found in record: {magic}"),
            ));
        }
        Err(BatchError::InvalidLength(length)) if length < RECORD_OVERHEAD_V0_BYTES => {
            return Err(InvalidBatch::new(
                InvalidBatchKind::Unreadable,
                format!(
                    "Record size {length} is less than the minimum record overhead ({RECORD_OVERHEAD_V0_BYTES})"
                ),
            ));
        }
        Err(BatchError::UnsupportedMagic(magic)) => {
            return Err(refuse(format!(
                "Produce requests are only allowed to contain record batches with magic version 2, not {magic}"
            )));
        }
        // a client that sends a part of a batch has lost its framing: nothing to retry
        Err(BatchError::Truncated { .. }) => return Err(refuse(none.into())),
        Err(e) => return Err(e.into()),
    };
    if batch.bytes().len() != bytes.len() {
        return Err(refuse(
            "Produce requests are only allowed to contain exactly one record batch per partition"
                .into(),
        ));
    }
    Ok(batch)
}

fn check_header(header: &BatchHeader, rules: &ProduceRules<'_>) -> Result<(), InvalidBatch> {
    let tp = rules.topic_partition;
    if header.base_offset != 0 {
        return Err(InvalidBatch::record(format!(
            "The baseOffset of the record batch in the append to {tp} should be 0, but it is {}",
            header.base_offset
        )));
    }
    check_size(header.size_bytes(), rules)
}

fn check_size(size_bytes: usize, rules: &ProduceRules<'_>) -> Result<(), InvalidBatch> {
    if size_bytes > rules.max_message_bytes {
        return Err(InvalidBatch::new(
            InvalidBatchKind::MessageTooLarge,
            format!(
                "The record batch size in the append to {} is {size_bytes} bytes which exceeds the maximum configured value of {}.",
                rules.topic_partition, rules.max_message_bytes
            ),
        ));
    }
    Ok(())
}

fn check_client_fields(header: &BatchHeader, rules: &ProduceRules<'_>) -> Result<(), InvalidBatch> {
    let tp = rules.topic_partition;
    let count = i64::from(header.records_count);
    let count_from_offsets = i64::from(header.last_offset_delta) + 1;
    if count_from_offsets <= 0 {
        return Err(InvalidBatch::record(format!(
            "Batch has an invalid offset range: [{}, {}] in topic partition {tp}.",
            header.base_offset,
            header.last_offset()
        )));
    }
    if count <= 0 {
        return Err(InvalidBatch::record(format!(
            "Invalid reported count for record batch: {count} in topic partition {tp}."
        )));
    }
    if count != count_from_offsets {
        return Err(InvalidBatch::record(format!(
            "Inconsistent batch offset range [{}, {}] and count of records {count} in topic partition {tp}.",
            header.base_offset,
            header.last_offset()
        )));
    }
    if header.is_control() {
        return Err(InvalidBatch::record(format!(
            "Clients are not allowed to write control records in topic partition {tp}."
        )));
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        return Err(InvalidBatch::record(format!(
            "Invalid sequence number {} in record batch with producerId {} in topic partition {tp}.",
            header.base_sequence, header.producer_id
        )));
    }
    if header.attributes.has_delete_horizon() {
        return Err(InvalidBatch::record(format!(
            "Clients are not allowed to set a delete horizon in topic partition {tp}."
        )));
    }
    Ok(())
}

/// Walks all records and gives the greatest create time.
fn check_records(batch: &RecordBatch<'_>, rules: &ProduceRules<'_>) -> Result<i64, InvalidBatch> {
    let mut errors = RecordErrors::default();
    let max_timestamp = match batch.header().compression() {
        Compression::None => {
            let mut stream = Stream::new(batch.stored_records(), 0);
            check_stream(&mut stream, batch.header(), rules, &mut errors)?
        }
        compression => {
            let max_bytes = rules.decompressed_bytes_max();
            let reader = decoder(compression, batch.stored_records(), max_bytes)?;
            let reader = BufReader::with_capacity(DECODE_BUFFER_BYTES, reader);
            let mut stream = Stream::new(reader, max_bytes);
            check_stream(&mut stream, batch.header(), rules, &mut errors)?
        }
    };
    errors.into_result()?;
    Ok(max_timestamp)
}

fn check_stream<R: BufRead>(
    stream: &mut Stream<R>,
    header: &BatchHeader,
    rules: &ProduceRules<'_>,
    errors: &mut RecordErrors,
) -> Result<i64, InvalidBatch> {
    let tp = rules.topic_partition;
    let earliest = rules.now_ms.saturating_sub(rules.timestamp_before_max_ms);
    let latest = rules.now_ms.saturating_add(rules.timestamp_after_max_ms);
    let mut max_timestamp = NO_TIMESTAMP;
    for index in 0..header.records_count {
        let record = stream.next_record()?;
        if record.offset_delta != index {
            errors.push(false, index, || {
                format!(
                    "Inner record with offset delta {} inside the record batch does not have incremental offsets, expected offset is {index} in topic partition {tp}.",
                    record.offset_delta
                )
            });
            continue;
        }
        if rules.compact && !record.has_key {
            errors.push(false, index, || {
                format!(
                    "Compacted topic cannot accept message without key in topic partition {tp}."
                )
            });
            continue;
        }
        let timestamp = match header.timestamp_type() {
            TimestampType::CreateTime => header.base_timestamp.wrapping_add(record.timestamp_delta),
            TimestampType::LogAppendTime => header.max_timestamp,
        };
        if rules.timestamp_type == TimestampType::CreateTime
            && timestamp != NO_TIMESTAMP
            && !(earliest..=latest).contains(&timestamp)
        {
            errors.push(true, index, || {
                format!(
                    "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within [{earliest}, {latest}]"
                )
            });
            continue;
        }
        max_timestamp = max_timestamp.max(timestamp);
    }
    stream.expect_end()?;
    Ok(max_timestamp)
}

#[derive(Default)]
struct RecordErrors {
    listed: Vec<RecordError>,
    total: usize,
    any_timestamp: bool,
}

impl RecordErrors {
    fn push(&mut self, timestamp: bool, batch_index: i32, message: impl FnOnce() -> String) {
        self.total += 1;
        self.any_timestamp |= timestamp;
        if self.listed.len() < RECORD_ERRORS_MAX {
            self.listed.push(RecordError {
                batch_index,
                message: message(),
            });
        }
    }

    fn into_result(self) -> Result<(), InvalidBatch> {
        if self.total == 0 {
            return Ok(());
        }
        let (kind, message) = if self.any_timestamp {
            (
                InvalidBatchKind::InvalidTimestamp,
                "One or more records have been rejected due to invalid timestamp".to_owned(),
            )
        } else {
            let shown: Vec<String> = self
                .listed
                .iter()
                .take(3)
                .map(|e| {
                    format!(
                        "RecordError(batchIndex={}, message='{}')",
                        e.batch_index, e.message
                    )
                })
                .collect();
            (
                InvalidBatchKind::InvalidRecord,
                format!(
                    "One or more records have been rejected due to {} record errors in total, and only showing the first three errors at most: [{}]",
                    self.total,
                    shown.join(", ")
                ),
            )
        };
        Err(InvalidBatch {
            kind,
            message,
            record_errors: self.listed,
        })
    }
}

/// The records themselves stay as they are: their offsets and times are relative to the header.
fn recompress(
    batch: &RecordBatch<'_>,
    compression: Compression,
    level: CompressionLevel,
    max_timestamp: i64,
    rules: &ProduceRules<'_>,
) -> Result<BytesMut, InvalidBatch> {
    let payload = batch.payload(rules.decompressed_bytes_max())?;
    let records = compress(compression, level, payload.bytes())
        .map_err(|e| BatchError::Decompress(e.to_string()))?;
    let mut header = batch.header().with_records(compression, records.len())?;
    header.max_timestamp = max_timestamp;
    header.attributes = header
        .attributes
        .with_timestamp_type(TimestampType::CreateTime);
    check_size(header.size_bytes(), rules)?;
    Ok(assemble(&header, &records))
}

#[cfg(test)]
#[path = "validate_test.rs"]
mod validate_test;
