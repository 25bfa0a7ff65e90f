//! Snapshots of the metadata: `<end offset>-<epoch>.checkpoint`, a file of record batches between a header and a footer.
//! Not here: when one is made (quorum_node.rs), what the image is (crates/metadata).
//! Encoding is pure; files are written by the engine's snapshot task: temporary name, fsync, rename, fsync of the folder.
//! Kafka: org.apache.kafka.snapshot.{Snapshots, RecordsSnapshotWriter, RecordsSnapshotReader}; KIP-630, KIP-853.

use super::entry_codec::{CodecError, ControlContent, EngineTag, append_voters, decode_control};
use bytes::Bytes;
use kavka_common::{LeaderEpoch, Offset};
use kavka_metadata::{MetadataImage, record_version};
use kavka_protocol::messages::{SnapshotFooterRecord, SnapshotHeaderRecord};
use kavka_protocol::{Message, MetadataRecord};
use kavka_records::{BatchBuilder, BatchOptions, ControlRecordType, batches};
use kavka_storage::StorageError;
use kavka_storage::vfs::{self, Durability, Vfs};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Most records of one batch, so that a reader needs little memory at once.
const BATCH_RECORDS_MAX: usize = 1024;
/// A larger snapshot is damage.
const FILE_BYTES_MAX: u64 = 4 << 30;
const SUFFIX: &str = ".checkpoint";

/// Names a snapshot: the offset behind its last record, and that record's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    pub end_offset: Offset,
    pub epoch: LeaderEpoch,
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}", self.end_offset, self.epoch.0)
    }
}

impl SnapshotId {
    pub fn parse(file_name: &str) -> Option<Self> {
        let (end_offset, epoch) = file_name.strip_suffix(SUFFIX)?.split_once('-')?;
        if end_offset.len() != 20 || epoch.len() != 10 {
            return None;
        }
        Some(SnapshotId {
            end_offset: end_offset.parse().ok()?,
            epoch: LeaderEpoch(epoch.parse().ok()?),
        })
    }

    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{self}{SUFFIX}"))
    }
}

/// What a snapshot file holds.
#[derive(Clone, Debug, Default)]
pub struct SnapshotContent {
    pub last_contained_log_timestamp: i64,
    pub voters: Option<EngineTag>,
    pub kraft_version: Option<i16>,
    pub records: Vec<MetadataRecord>,
}

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the snapshot does not end with its footer")]
    Incomplete,
}

impl From<kavka_records::BatchError> for SnapshotError {
    fn from(error: kavka_records::BatchError) -> Self {
        SnapshotError::Codec(error.into())
    }
}

/// The snapshots of a folder, oldest first.
pub fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<SnapshotId>, StorageError> {
    let entries = match vfs.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StorageError::io("listing", dir, error)),
    };
    let mut found: Vec<SnapshotId> = entries
        .iter()
        .filter_map(|entry| SnapshotId::parse(&entry.name))
        .collect();
    found.sort_unstable();
    Ok(found)
}

pub fn read(vfs: &dyn Vfs, path: &Path) -> Result<Vec<u8>, StorageError> {
    vfs::read_file(vfs, path, FILE_BYTES_MAX)
        .map_err(|error| StorageError::io("reading", path, error))
}

/// Writes the file; on return it survives a power loss.
pub fn write(
    vfs: &dyn Vfs,
    dir: &Path,
    id: SnapshotId,
    content: &[u8],
) -> Result<(), StorageError> {
    let path = id.path(dir);
    vfs::replace_file(vfs, &path, content, Durability::Synced)
        .map_err(|error| StorageError::io("writing", &path, error))
}

pub fn remove(vfs: &dyn Vfs, dir: &Path, id: SnapshotId) -> Result<(), StorageError> {
    let path = id.path(dir);
    vfs.remove_file(&path)
        .map_err(|error| StorageError::io("removing", &path, error))
}

/// The file's bytes for an image.
pub fn encode(
    id: SnapshotId,
    voters: &EngineTag,
    image: &MetadataImage,
    last_contained_log_timestamp: i64,
    now_ms: i64,
) -> Result<Vec<u8>, CodecError> {
    let options = |control| BatchOptions {
        partition_leader_epoch: id.epoch,
        control,
        ..BatchOptions::default()
    };
    let mut file = Vec::new();
    let mut next_offset = 0;
    let mut push = |mut builder_options: BatchOptions,
                    fill: &mut dyn FnMut(&mut BatchBuilder) -> Result<(), CodecError>|
     -> Result<(), CodecError> {
        builder_options.base_offset = next_offset;
        let mut builder = BatchBuilder::new(builder_options);
        fill(&mut builder)?;
        next_offset = builder.next_offset();
        file.extend_from_slice(&builder.build()?);
        Ok(())
    };
    let header = SnapshotHeaderRecord {
        version: 0,
        last_contained_log_timestamp,
        ..Default::default()
    }
    .encode_to_bytes(0)?;
    push(options(true), &mut |builder| {
        builder.append_control(now_ms, ControlRecordType::SnapshotHeader, &header)?;
        append_voters(builder, voters, now_ms)
    })?;
    let records = image.to_records();
    for chunk in records.chunks(BATCH_RECORDS_MAX) {
        let values: Vec<Bytes> = chunk
            .iter()
            .map(|record| record.encode_value(record_version(record, &image.features)))
            .collect::<Result<_, _>>()?;
        push(options(false), &mut |builder| {
            for value in &values {
                builder.append(now_ms, None, Some(value), [])?;
            }
            Ok(())
        })?;
    }
    let footer = SnapshotFooterRecord {
        version: 0,
        ..Default::default()
    }
    .encode_to_bytes(0)?;
    push(options(true), &mut |builder| {
        builder.append_control(now_ms, ControlRecordType::SnapshotFooter, &footer)?;
        Ok(())
    })?;
    Ok(file)
}

/// Reads a whole file.
pub fn decode(bytes: &[u8]) -> Result<SnapshotContent, SnapshotError> {
    let mut content = SnapshotContent::default();
    let mut complete = false;
    for batch in batches(bytes) {
        let batch = batch?;
        batch.verify_crc()?;
        complete = false;
        if !batch.header().is_control() {
            content
                .records
                .extend(super::entry_codec::decode_records(batch.bytes())?);
            continue;
        }
        for record in batch.records(super::entry_codec::BATCH_MAX_BYTES)? {
            let record = record?;
            let value = record.value.unwrap_or_default();
            match ControlRecordType::parse_key(&record.key.unwrap_or_default())? {
                ControlRecordType::SnapshotHeader => {
                    content.last_contained_log_timestamp =
                        SnapshotHeaderRecord::decode_exact(&value, 0)
                            .map_err(CodecError::from)?
                            .last_contained_log_timestamp;
                }
                ControlRecordType::SnapshotFooter => complete = true,
                _ => {}
            }
        }
        let ControlContent {
            voters,
            kraft_version,
            ..
        } = decode_control(&batch)?;
        content.voters = voters.or(content.voters);
        content.kraft_version = kraft_version.or(content.kraft_version);
    }
    if !complete {
        return Err(SnapshotError::Incomplete);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        let id = SnapshotId {
            end_offset: 4711,
            epoch: LeaderEpoch(3),
        };
        assert_eq!(
            id.path(Path::new("/d")),
            Path::new("/d/00000000000000004711-0000000003.checkpoint")
        );
        assert_eq!(
            SnapshotId::parse("00000000000000004711-0000000003.checkpoint"),
            Some(id)
        );
        for other in [
            "bootstrap.checkpoint",
            "00000000000000004711-0000000003.checkpoint.tmp",
            "4711-3.checkpoint",
            "leader-epoch-checkpoint",
        ] {
            assert_eq!(SnapshotId::parse(other), None, "{other}");
        }
    }
}
