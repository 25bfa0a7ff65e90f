//! The 61-byte header of a batch of magic 2: parsing, and the few fields a broker rewrites in place.
//! Not here: the records behind it (record.rs), whole-batch checks (batch.rs, validate.rs).
//! Hot path: parsed for each appended batch and for each batch of a recovery scan.
//! Kafka: DefaultRecordBatch; KIP-98.

use crate::compression::Compression;
use crate::error::BatchError;
use kavka_common::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Bytes of a batch before its first record.
pub const BATCH_OVERHEAD_BYTES: usize = 61;
/// Bytes that `batch_length` does not count: base offset and the length itself.
pub const LOG_OVERHEAD_BYTES: usize = 12;
pub const MAGIC_V2: i8 = 2;
/// A record or batch without timestamp.
pub const NO_TIMESTAMP: i64 = -1;
/// A batch without sequence numbers.
pub const NO_SEQUENCE: i32 = -1;

const BATCH_LENGTH_AT: usize = 8;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
/// The CRC covers everything from here on.
pub(crate) const ATTRIBUTES_AT: usize = 21;
const LAST_OFFSET_DELTA_AT: usize = 23;
const BASE_TIMESTAMP_AT: usize = 27;
const MAX_TIMESTAMP_AT: usize = 35;
const PRODUCER_ID_AT: usize = 43;
const PRODUCER_EPOCH_AT: usize = 51;
const BASE_SEQUENCE_AT: usize = 53;
const RECORDS_COUNT_AT: usize = 57;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// The attribute bits of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    pub fn compression(self) -> Result<Compression, BatchError> {
        Compression::from_id((self.0 & Self::COMPRESSION) as u8)
    }

    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// The base timestamp is the time from which tombstones and markers may be deleted (KIP-534).
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    pub fn with_compression(self, compression: Compression) -> Self {
        Attributes((self.0 & !Self::COMPRESSION) | i16::from(compression.id()))
    }

    pub fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        self.with(
            Self::LOG_APPEND_TIME,
            timestamp_type == TimestampType::LogAppendTime,
        )
    }

    pub fn with_transactional(self, on: bool) -> Self {
        self.with(Self::TRANSACTIONAL, on)
    }

    pub fn with_control(self, on: bool) -> Self {
        self.with(Self::CONTROL, on)
    }

    pub fn with_delete_horizon(self, on: bool) -> Self {
        self.with(Self::DELETE_HORIZON, on)
    }

    fn with(self, bit: i16, on: bool) -> Self {
        Attributes(if on { self.0 | bit } else { self.0 & !bit })
    }
}

/// A parsed batch header. What `parse` returns has magic 2, a known compression and a length of at least a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: Offset,
    pub batch_length: i32,
    pub partition_leader_epoch: LeaderEpoch,
    pub magic: i8,
    pub crc: u32,
    pub attributes: Attributes,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub records_count: i32,
    pub(crate) compression: Compression,
}

fn at<const N: usize>(bytes: &[u8], position: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[position..position + N]);
    out
}

impl BatchHeader {
    /// Parses the header at the front of `bytes`, which may end right after it.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        let truncated = |needed| BatchError::Truncated {
            needed,
            available: bytes.len(),
        };
        // the magic stands at the same place in all three formats
        if bytes.len() <= MAGIC_AT {
            return Err(truncated(BATCH_OVERHEAD_BYTES));
        }
        let batch_length = i32::from_be_bytes(at(bytes, BATCH_LENGTH_AT));
        let magic = bytes[MAGIC_AT] as i8;
        if magic != MAGIC_V2 {
            return Err(BatchError::UnsupportedMagic(magic));
        }
        let size = usize::try_from(batch_length)
            .map_err(|_| BatchError::InvalidLength(batch_length))?
            + LOG_OVERHEAD_BYTES;
        if size < BATCH_OVERHEAD_BYTES {
            return Err(BatchError::InvalidLength(batch_length));
        }
        if bytes.len() < BATCH_OVERHEAD_BYTES {
            return Err(truncated(size));
        }
        let attributes = Attributes(i16::from_be_bytes(at(bytes, ATTRIBUTES_AT)));
        Ok(BatchHeader {
            base_offset: i64::from_be_bytes(at(bytes, 0)),
            batch_length,
            partition_leader_epoch: LeaderEpoch(i32::from_be_bytes(at(bytes, LEADER_EPOCH_AT))),
            magic,
            crc: u32::from_be_bytes(at(bytes, CRC_AT)),
            attributes,
            last_offset_delta: i32::from_be_bytes(at(bytes, LAST_OFFSET_DELTA_AT)),
            base_timestamp: i64::from_be_bytes(at(bytes, BASE_TIMESTAMP_AT)),
            max_timestamp: i64::from_be_bytes(at(bytes, MAX_TIMESTAMP_AT)),
            producer_id: ProducerId(i64::from_be_bytes(at(bytes, PRODUCER_ID_AT))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(at(bytes, PRODUCER_EPOCH_AT))),
            base_sequence: i32::from_be_bytes(at(bytes, BASE_SEQUENCE_AT)),
            records_count: i32::from_be_bytes(at(bytes, RECORDS_COUNT_AT)),
            compression: attributes.compression()?,
        })
    }

    /// Size of the whole batch with its header.
    pub fn size_bytes(&self) -> usize {
        // parse checked that the length is not negative
        self.batch_length as usize + LOG_OVERHEAD_BYTES
    }

    /// Offset of the last record, inclusive. Saturates on a hostile header.
    pub fn last_offset(&self) -> Offset {
        self.base_offset
            .saturating_add(i64::from(self.last_offset_delta))
    }

    /// Offset that follows the batch.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().saturating_add(1)
    }

    /// Sequence number of the last record; numbers go on at 0 after `i32::MAX`.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        increment_sequence(self.base_sequence, self.last_offset_delta)
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    pub fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    pub fn is_control(&self) -> bool {
        self.attributes.is_control()
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes.is_transactional()
    }

    pub fn has_producer_id(&self) -> bool {
        self.producer_id.get() > ProducerId::NONE.get()
    }

    /// From when on tombstones and markers of this batch may go (KIP-534).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.attributes
            .has_delete_horizon()
            .then_some(self.base_timestamp)
    }

    pub(crate) fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.base_offset.to_be_bytes());
        out[BATCH_LENGTH_AT..][..4].copy_from_slice(&self.batch_length.to_be_bytes());
        out[LEADER_EPOCH_AT..][..4]
            .copy_from_slice(&self.partition_leader_epoch.get().to_be_bytes());
        out[MAGIC_AT] = self.magic as u8;
        out[CRC_AT..][..4].copy_from_slice(&self.crc.to_be_bytes());
        out[ATTRIBUTES_AT..][..2].copy_from_slice(&self.attributes.0.to_be_bytes());
        out[LAST_OFFSET_DELTA_AT..][..4].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[BASE_TIMESTAMP_AT..][..8].copy_from_slice(&self.base_timestamp.to_be_bytes());
        out[MAX_TIMESTAMP_AT..][..8].copy_from_slice(&self.max_timestamp.to_be_bytes());
        out[PRODUCER_ID_AT..][..8].copy_from_slice(&self.producer_id.get().to_be_bytes());
        out[PRODUCER_EPOCH_AT..][..2].copy_from_slice(&self.producer_epoch.get().to_be_bytes());
        out[BASE_SEQUENCE_AT..][..4].copy_from_slice(&self.base_sequence.to_be_bytes());
        out[RECORDS_COUNT_AT..][..4].copy_from_slice(&self.records_count.to_be_bytes());
    }

    /// A header around `records_bytes` of records, CRC not set yet.
    pub(crate) fn new(
        compression: Compression,
        attributes: Attributes,
        records_bytes: usize,
    ) -> Result<BatchHeader, BatchError> {
        let length = records_bytes + BATCH_OVERHEAD_BYTES - LOG_OVERHEAD_BYTES;
        let batch_length = i32::try_from(length)
            .map_err(|_| BatchError::Malformed("record batch is larger than 2 GiB"))?;
        Ok(BatchHeader {
            base_offset: 0,
            batch_length,
            partition_leader_epoch: LeaderEpoch::UNKNOWN,
            magic: MAGIC_V2,
            crc: 0,
            attributes: attributes.with_compression(compression),
            last_offset_delta: 0,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: NO_SEQUENCE,
            records_count: 0,
            compression,
        })
    }

    pub(crate) fn with_records(
        &self,
        compression: Compression,
        records_bytes: usize,
    ) -> Result<BatchHeader, BatchError> {
        let fresh = BatchHeader::new(compression, self.attributes, records_bytes)?;
        Ok(BatchHeader {
            batch_length: fresh.batch_length,
            attributes: fresh.attributes,
            compression,
            ..*self
        })
    }
}

/// The sequence number `increment` after `sequence`, with Kafka's wrap to 0.
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    match sequence.checked_add(increment) {
        Some(sum) => sum,
        None => increment - (i32::MAX - sequence) - 1,
    }
}

/// The sequence number `decrement` before `sequence`, with Kafka's wrap.
pub fn decrement_sequence(sequence: i32, decrement: i32) -> i32 {
    if sequence < decrement {
        i32::MAX - (decrement - sequence) + 1
    } else {
        sequence - decrement
    }
}

/// CRC-32C of a whole batch in `batch`, as its header stores it.
pub(crate) fn compute_crc(batch: &[u8]) -> u32 {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &batch[ATTRIBUTES_AT..]);
    sum as u32
}

/// Seals a batch whose bytes were changed.
pub fn patch_crc(batch: &mut [u8]) {
    let crc = compute_crc(batch);
    batch[CRC_AT..][..4].copy_from_slice(&crc.to_be_bytes());
}

/// Gives a batch its place in the log. The CRC does not cover these two fields.
/// The slice must hold at least a header (its caller parsed it).
pub fn patch_header(batch: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[LEADER_EPOCH_AT..][..4].copy_from_slice(&leader_epoch.get().to_be_bytes());
}

/// Stamps a batch with the broker's time: sets the type bit and the maximum, and the CRC anew.
/// `batch` is exactly one parsed batch.
pub fn patch_timestamps_log_append(batch: &mut [u8], now_ms: i64) {
    let attributes = Attributes(i16::from_be_bytes(at(batch, ATTRIBUTES_AT)))
        .with_timestamp_type(TimestampType::LogAppendTime);
    batch[ATTRIBUTES_AT..][..2].copy_from_slice(&attributes.0.to_be_bytes());
    patch_max_timestamp(batch, now_ms);
}

/// The reverse: the records' own times count, of which `max_timestamp` is the greatest. `batch` is exactly one parsed batch.
pub fn patch_timestamps_create(batch: &mut [u8], max_timestamp: i64) {
    let attributes = Attributes(i16::from_be_bytes(at(batch, ATTRIBUTES_AT)))
        .with_timestamp_type(TimestampType::CreateTime);
    batch[ATTRIBUTES_AT..][..2].copy_from_slice(&attributes.0.to_be_bytes());
    patch_max_timestamp(batch, max_timestamp);
}

/// Sets the greatest timestamp of the header, and the CRC anew. `batch` is exactly one parsed batch.
pub fn patch_max_timestamp(batch: &mut [u8], max_timestamp: i64) {
    batch[MAX_TIMESTAMP_AT..][..8].copy_from_slice(&max_timestamp.to_be_bytes());
    patch_crc(batch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_to_zero() {
        assert_eq!(increment_sequence(i32::MAX, 1), 0);
        assert_eq!(increment_sequence(i32::MAX - 1, 3), 1);
        assert_eq!(increment_sequence(5, 3), 8);
        assert_eq!(decrement_sequence(0, 1), i32::MAX);
        assert_eq!(decrement_sequence(8, 3), 5);
    }

    #[test]
    fn short_and_old_headers_are_told_apart() {
        assert!(matches!(
            BatchHeader::parse(&[0; 10]),
            Err(BatchError::Truncated { .. })
        ));
        let mut bytes = [0; 61];
        bytes[MAGIC_AT] = 1;
        assert_eq!(
            BatchHeader::parse(&bytes),
            Err(BatchError::UnsupportedMagic(1))
        );
        bytes[MAGIC_AT] = 2;
        assert_eq!(
            BatchHeader::parse(&bytes),
            Err(BatchError::InvalidLength(0))
        );
        bytes[BATCH_LENGTH_AT..][..4].copy_from_slice(&(-1i32).to_be_bytes());
        assert_eq!(
            BatchHeader::parse(&bytes),
            Err(BatchError::InvalidLength(-1))
        );
        bytes[BATCH_LENGTH_AT..][..4].copy_from_slice(&49i32.to_be_bytes());
        assert!(BatchHeader::parse(&bytes).is_ok());
        bytes[ATTRIBUTES_AT + 1] = 5;
        assert_eq!(
            BatchHeader::parse(&bytes),
            Err(BatchError::UnknownCompression(5))
        );
    }
}
