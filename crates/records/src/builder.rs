//! Makes one batch of magic 2: data and control, any compression, with or without a producer.
//! Not here: when a batch is full or sent (clients), where it goes in the log (crates/storage).
//! Used by coordinators, the quorum, the cleaner and clients. Kafka: MemoryRecordsBuilder.

use crate::compression::{Compression, CompressionLevel, compress};
use crate::control::{ControlRecordType, EndTxnMarker};
use crate::error::BatchError;
use crate::header::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchHeader, NO_SEQUENCE, NO_TIMESTAMP, TimestampType,
    patch_crc,
};
use crate::record::HeaderRef;
use crate::varint;
use bytes::BytesMut;
use kavka_common::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// What is fixed before the first record.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    pub base_offset: Offset,
    pub partition_leader_epoch: LeaderEpoch,
    pub compression: Compression,
    pub level: CompressionLevel,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub transactional: bool,
    pub control: bool,
    /// Stamps the batch with the broker's time instead of the records' own.
    pub log_append_time_ms: Option<i64>,
    /// Takes the place of the base timestamp (KIP-534).
    pub delete_horizon_ms: Option<i64>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        BatchOptions {
            base_offset: 0,
            partition_leader_epoch: LeaderEpoch::UNKNOWN,
            compression: Compression::None,
            level: CompressionLevel::DEFAULT,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: NO_SEQUENCE,
            transactional: false,
            control: false,
            log_append_time_ms: None,
            delete_horizon_ms: None,
        }
    }
}

/// Collects records and writes them as one batch.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    records: Vec<u8>,
    body: Vec<u8>,
    records_count: i32,
    last_offset_delta: i32,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
}

impl BatchBuilder {
    pub fn new(options: BatchOptions) -> Self {
        BatchBuilder {
            base_timestamp: options.delete_horizon_ms,
            options,
            records: Vec::new(),
            body: Vec::new(),
            records_count: 0,
            last_offset_delta: -1,
            max_timestamp: NO_TIMESTAMP,
        }
    }

    /// Appends at the next offset and gives that offset.
    pub fn append<'h>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = HeaderRef<'h>>,
    ) -> Result<Offset, BatchError> {
        let offset = self.next_offset();
        self.append_at(offset, timestamp, key, value, headers)?;
        Ok(offset)
    }

    /// Appends at `offset`, which may leave a gap (compaction).
    pub fn append_at<'h>(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = HeaderRef<'h>>,
    ) -> Result<(), BatchError> {
        let offset_delta = offset
            .checked_sub(self.options.base_offset)
            .and_then(|delta| i32::try_from(delta).ok())
            .filter(|delta| *delta > self.last_offset_delta)
            .ok_or(BatchError::Malformed(
                "offset does not fit behind the batch's last",
            ))?;
        let base_timestamp = self.base_timestamp.unwrap_or(timestamp);
        self.body.clear();
        self.body.push(0);
        varint::write_i64(&mut self.body, timestamp.wrapping_sub(base_timestamp));
        varint::write_i32(&mut self.body, offset_delta);
        write_nullable(&mut self.body, key)?;
        write_nullable(&mut self.body, value)?;
        // the count stands in front: write the headers behind a gap of its size
        let mut count = 0i32;
        let mut encoded = Vec::new();
        for header in headers {
            count = count
                .checked_add(1)
                .ok_or(BatchError::Malformed("record has too many headers"))?;
            write_nullable(&mut encoded, Some(header.key))?;
            write_nullable(&mut encoded, header.value)?;
        }
        varint::write_i32(&mut self.body, count);
        self.body.extend_from_slice(&encoded);
        varint::write_i32(&mut self.records, length(self.body.len())?);
        self.records.extend_from_slice(&self.body);
        self.base_timestamp = Some(base_timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset_delta = offset_delta;
        self.records_count += 1;
        Ok(())
    }

    /// Appends a control record; the batch must have been opened with `control`.
    pub fn append_control(
        &mut self,
        timestamp: i64,
        control_type: ControlRecordType,
        value: &[u8],
    ) -> Result<Offset, BatchError> {
        assert!(self.options.control, "control record in a data batch");
        self.append(timestamp, Some(&control_type.key()), Some(value), [])
    }

    /// The whole batch that ends a transaction.
    pub fn end_txn_marker(
        options: BatchOptions,
        timestamp: i64,
        marker: EndTxnMarker,
    ) -> Result<BytesMut, BatchError> {
        let mut builder = BatchBuilder::new(BatchOptions {
            control: true,
            transactional: true,
            ..options
        });
        builder.append_control(timestamp, marker.control_type, &marker.value())?;
        builder.build()
    }

    /// Keeps the last offset of a batch whose last records were dropped (compaction).
    pub fn retain_last_offset(&mut self, last_offset: Offset) -> Result<(), BatchError> {
        let delta = last_offset
            .checked_sub(self.options.base_offset)
            .and_then(|delta| i32::try_from(delta).ok())
            .filter(|delta| *delta >= self.last_offset_delta)
            .ok_or(BatchError::Malformed(
                "last offset lies before the batch's last record",
            ))?;
        self.last_offset_delta = delta;
        Ok(())
    }

    pub fn next_offset(&self) -> Offset {
        self.options.base_offset + i64::from(self.last_offset_delta) + 1
    }

    pub fn records_count(&self) -> i32 {
        self.records_count
    }

    pub fn is_empty(&self) -> bool {
        self.records_count == 0
    }

    /// Size of the batch if it were not compressed.
    pub fn size_bytes(&self) -> usize {
        BATCH_OVERHEAD_BYTES + self.records.len()
    }

    /// Compresses and writes the batch.
    pub fn build(self) -> Result<BytesMut, BatchError> {
        let options = self.options;
        let compressed;
        let records: &[u8] = if options.compression == Compression::None {
            &self.records
        } else {
            compressed = compress(options.compression, options.level, &self.records)
                .map_err(|e| BatchError::Decompress(e.to_string()))?;
            &compressed
        };
        let timestamp_type = match options.log_append_time_ms {
            Some(_) => TimestampType::LogAppendTime,
            None => TimestampType::CreateTime,
        };
        let attributes = Attributes::default()
            .with_timestamp_type(timestamp_type)
            .with_transactional(options.transactional)
            .with_control(options.control)
            .with_delete_horizon(options.delete_horizon_ms.is_some());
        let header = BatchHeader {
            base_offset: options.base_offset,
            partition_leader_epoch: options.partition_leader_epoch,
            last_offset_delta: self.last_offset_delta.max(0),
            base_timestamp: self.base_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp: options.log_append_time_ms.unwrap_or(self.max_timestamp),
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            records_count: self.records_count,
            ..BatchHeader::new(options.compression, attributes, records.len())?
        };
        Ok(assemble(&header, records))
    }
}

/// Header, records and CRC as one buffer.
pub(crate) fn assemble(header: &BatchHeader, records: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(BATCH_OVERHEAD_BYTES + records.len());
    out.resize(BATCH_OVERHEAD_BYTES, 0);
    header.write(&mut out);
    out.extend_from_slice(records);
    patch_crc(&mut out);
    out
}

fn length(bytes: usize) -> Result<i32, BatchError> {
    i32::try_from(bytes).map_err(|_| BatchError::Malformed("record is larger than 2 GiB"))
}

fn write_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) -> Result<(), BatchError> {
    match bytes {
        Some(bytes) => {
            varint::write_i32(out, length(bytes.len())?);
            out.extend_from_slice(bytes);
        }
        None => varint::write_i32(out, -1),
    }
    Ok(())
}
