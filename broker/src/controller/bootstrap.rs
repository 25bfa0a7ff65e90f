//! The first records of a cluster: what `kafka-storage format` left in `bootstrap.checkpoint`, else the defaults.
//! Not here: appending them (shell.rs, once the log is empty and this node leads), the file's format (quorum/).
//! Read once at start. Kafka: BootstrapDirectory, BootstrapMetadata; KIP-778.

use crate::quorum::snapshot_file;
use kavka_metadata::{MetadataVersion, bootstrap};
use kavka_protocol::MetadataRecord;
use kavka_storage::StorageError;
use kavka_storage::vfs::{self, Vfs};
use std::io;
use std::path::Path;

const FILE_NAME: &str = "bootstrap.checkpoint";
const LENGTH_MAX_BYTES: u64 = 16 << 20;

/// `metadata_log_dir` is the log directory itself, not the folder of the log.
pub fn bootstrap_records(
    vfs: &dyn Vfs,
    metadata_log_dir: &Path,
) -> Result<Vec<MetadataRecord>, StorageError> {
    let path = metadata_log_dir.join(FILE_NAME);
    match vfs::read_file(vfs, &path, LENGTH_MAX_BYTES) {
        Ok(bytes) => snapshot_file::decode(&bytes)
            .map(|content| content.records)
            .map_err(|error| StorageError::corrupt(&path, error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bootstrap::format_records(
            MetadataVersion::LATEST_PRODUCTION,
        )),
        Err(error) => Err(StorageError::io("reading", &path, error)),
    }
}
