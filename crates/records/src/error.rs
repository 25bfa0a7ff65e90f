//! What can be wrong with bytes that should be a record batch.
//! Not here: rules that only hold for produced batches (validate.rs), wire error codes.
//! Pure data. Kafka: CorruptRecordException, InvalidRecordException.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// The slice ends before the batch does. At the end of a file or of a fetch answer this is no damage.
    #[error("record batch is cut: {needed} bytes needed, {available} there")]
    Truncated { needed: usize, available: usize },
    #[error("record batch declares an impossible length of {0} bytes")]
    InvalidLength(i32),
    /// Magic 0 and 1 are message sets of before 0.11; 4.x brokers do not take them either.
    #[error("record batch has the unsupported magic {0}")]
    UnsupportedMagic(i8),
    #[error("Record is corrupt (stored crc = {stored}, computed crc = {computed})")]
    CrcMismatch { stored: u32, computed: u32 },
    #[error("Unknown compression type id: {0}")]
    UnknownCompression(u8),
    #[error("{0}")]
    Malformed(&'static str),
    #[error("compressed records do not decode: {0}")]
    Decompress(String),
    /// The decoded size passes the caller's cap; decoding stopped there.
    #[error("compressed records are larger than {max_bytes} bytes when decoded")]
    DecompressedTooLarge { max_bytes: usize },
}
