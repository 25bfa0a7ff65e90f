//! How a coordinator's records become key and value of a record batch, and back.
//! Not here: the schemas (crates/protocol), which records exist (crates/coordinator).
//! Pure. Kafka: org.apache.kafka.coordinator.common.runtime.{Serializer, Deserializer}.

use bytes::Bytes;
use kavka_coordinator::group::GroupRecord;
use kavka_protocol::EncodeError;

/// A record that a shard writes to its partition.
pub trait LogRecord: Sized + Send + 'static {
    /// Key and value; a value of `None` is a tombstone.
    fn to_log(&self) -> Result<(Bytes, Option<Bytes>), EncodeError>;

    /// `None` for records of other kinds, which a shard skips; an error says what is wrong with this one.
    fn from_log(key: Bytes, value: Option<Bytes>) -> Result<Option<Self>, String>;
}

impl LogRecord for GroupRecord {
    fn to_log(&self) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        self.encode()
    }

    fn from_log(key: Bytes, value: Option<Bytes>) -> Result<Option<Self>, String> {
        GroupRecord::decode(key, value).map_err(|e| e.to_string())
    }
}
