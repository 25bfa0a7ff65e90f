//! Record batches of magic 2: borrowed view, builder, produce validation, control batches, the four compressions.
//! Not here: files, offsets assignment policy, producer state (crates/storage), error codes (broker/src/api/errors.rs).
//! Pure functions over byte slices, called from any task.
//! Kafka: org.apache.kafka.common.record.*, LogValidator; KIP-98, KIP-82, KIP-110, KIP-390.

pub mod batch;
pub mod builder;
pub mod compression;
pub mod control;
pub mod error;
pub mod header;
pub mod record;
mod snappy;
pub mod validate;
pub mod varint;

pub use batch::{RecordBatch, batches};
pub use builder::{BatchBuilder, BatchOptions};
pub use compression::{Compression, CompressionLevel, compress, decompress};
pub use control::{ControlRecordType, EndTxnMarker};
pub use error::BatchError;
pub use header::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchHeader, LOG_OVERHEAD_BYTES, MAGIC_V2, NO_SEQUENCE,
    NO_TIMESTAMP, TimestampType, patch_crc, patch_header, patch_max_timestamp,
    patch_timestamps_create, patch_timestamps_log_append,
};
pub use record::{Header, HeaderRef, Record, RecordIter, RecordRef};
pub use validate::{
    InvalidBatch, InvalidBatchKind, ProduceRules, RecordError, TopicCompression, ValidatedBatch,
    validate_produce,
};
