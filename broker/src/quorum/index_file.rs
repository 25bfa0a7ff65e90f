//! `raft-index`: which raft index the first batch of the metadata log has.
//! Not here: the indexes of the batches behind it; they count up by one and are found by reading the log.
//! Written by the engine's task before a prefix is deleted. Absent while the log starts with index 0.
//! Kafka has no such file: its quorum counts offsets, the engine here counts entries. Kafka ignores the file.

use super::types::RaftLogIdOf;
use kavka_common::Offset;
use kavka_storage::StorageError;
use kavka_storage::vfs::{self, Durability, Vfs};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE_NAME: &str = "raft-index";
const LENGTH_MAX_BYTES: u64 = 1 << 16;

/// Where counting starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexAnchor {
    /// Index of the batch at `base_offset`.
    pub index: u64,
    /// Start of the log.
    pub base_offset: Offset,
    /// The last entry that is gone.
    pub purged: Option<RaftLogIdOf>,
}

/// The file in the metadata log's folder.
#[derive(Clone, Debug)]
pub struct IndexFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
}

impl IndexFile {
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Self {
        IndexFile {
            vfs,
            path: dir.join(FILE_NAME),
        }
    }

    pub fn read(&self) -> Result<Option<IndexAnchor>, StorageError> {
        match vfs::read_file(&*self.vfs, &self.path, LENGTH_MAX_BYTES) {
            Ok(content) => serde_json::from_slice(&content)
                .map(Some)
                .map_err(|error| StorageError::corrupt(&self.path, error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io("reading", &self.path, error)),
        }
    }

    /// Replaces the file; on return it survives a power loss.
    pub fn write(&self, anchor: &IndexAnchor) -> Result<(), StorageError> {
        let content = serde_json::to_vec(anchor).expect("three numbers serialise");
        vfs::replace_file(&*self.vfs, &self.path, &content, Durability::Synced)
            .map_err(|error| StorageError::io("writing", &self.path, error))
    }
}
