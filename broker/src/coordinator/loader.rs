//! Reads a coordinator's partition from its start to its end into the shard.
//! Not here: what records mean.
//! Runs on the blocking pool, once per leadership. Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl.

use crate::coordinator::host::Host;
use crate::coordinator::record::LogRecord;
use crate::replica::{FetchIsolation, Partition, ReadRequest, ReplicaError};
use bytes::Bytes;
use kavka_common::LeaderEpoch;
use kavka_coordinator::Shard;
use kavka_records::batches;
use std::io;

/// Bytes read at a time: `offsets.load.buffer.size`'s default would do, a segment's worth of small batches does not gain.
const READ_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Decompressed bytes that one batch may have; what a broker wrote is far below.
const DECOMPRESSED_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Why a partition could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{0}")]
    Read(ReplicaError),
    #[error("reading records failed: {0}")]
    Io(#[from] io::Error),
    #[error("offset {offset}: {what}")]
    Malformed { offset: i64, what: String },
    #[error("the leadership ended")]
    Superseded,
}

impl LoadError {
    /// Not what is in the log, but that it could not be read.
    pub fn is_of_the_disk(&self) -> bool {
        match self {
            LoadError::Read(ReplicaError::Storage(cause)) => cause.is_passing(),
            LoadError::Io(_) => true,
            LoadError::Read(_) | LoadError::Malformed { .. } | LoadError::Superseded => false,
        }
    }
}

impl From<ReplicaError> for LoadError {
    fn from(error: ReplicaError) -> Self {
        match error {
            ReplicaError::NotLeaderOrFollower
            | ReplicaError::FencedLeaderEpoch
            | ReplicaError::UnknownLeaderEpoch => LoadError::Superseded,
            other => LoadError::Read(other),
        }
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub records: usize,
    pub bytes: usize,
}

/// Replays the whole partition, up to its end. What lies above the high watermark is this leader's to commit: the writes
/// to come build on it, and it goes only if this leader goes before it is committed. Records that cannot be understood
/// stop the load: going on without them would forget what a client was told is stored.
pub fn load<S>(host: &Host<S>, partition: &Partition) -> Result<Loaded, LoadError>
where
    S: Shard + Send + 'static,
    S::Record: LogRecord,
    S::Response: Send + 'static,
{
    let mut loaded = Loaded::default();
    let mut next_offset = None;
    loop {
        let request = |fetch_offset| ReadRequest {
            fetch_offset,
            max_bytes: READ_BYTES_MAX,
            min_one_batch: true,
            isolation: FetchIsolation::LogEnd,
            current_leader_epoch: host.leader_epoch(),
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            log_start_offset: 0,
            replica: None,
            leader_only: true,
        };
        let offset = match next_offset {
            Some(offset) => offset,
            None => partition.log_start_offset()?,
        };
        let read = partition.read(&request(offset), None)?;
        let Some(region) = read.region.filter(|region| region.length > 0) else {
            return Ok(loaded);
        };
        let bytes = region.read()?;
        loaded.bytes += bytes.len();
        let mut reached = offset;
        for batch in batches(&bytes) {
            let malformed = |offset, what: String| LoadError::Malformed { offset, what };
            let batch = match batch {
                Ok(batch) => batch,
                // The last batch of a read may be cut off; the next read begins with it.
                Err(_) if reached > offset => break,
                Err(e) => return Err(malformed(reached, e.to_string())),
            };
            let header = *batch.header();
            batch
                .verify_crc()
                .map_err(|e| malformed(header.base_offset, e.to_string()))?;
            if !header.is_control() {
                let records = batch
                    .records(DECOMPRESSED_BYTES_MAX)
                    .map_err(|e| malformed(header.base_offset, e.to_string()))?;
                for record in records {
                    let record =
                        record.map_err(|e| malformed(header.base_offset, e.to_string()))?;
                    let Some(key) = record.key else { continue };
                    let decoded = S::Record::from_log(
                        Bytes::copy_from_slice(&key),
                        record.value.as_deref().map(Bytes::copy_from_slice),
                    )
                    .map_err(|what| malformed(record.offset, what))?;
                    if let Some(decoded) = decoded {
                        if !host.replay(decoded) {
                            return Err(LoadError::Superseded);
                        }
                        loaded.records += 1;
                    }
                }
            }
            reached = header.next_offset();
        }
        next_offset = Some(reached);
    }
}
