//! `recovery-point`: how far the metadata log was durable when this was written, and in which epoch.
//! Not here: when it is written (metadata_log.rs), what the storage does with a recovery point.
//! Written on the blocking pool, never under the log's lock. It may lag behind the log, and is lowered before the log is
//! cut. In the format of Kafka's leader-epoch-checkpoint, with one line. Kafka keeps no such file for its metadata log,
//! takes whatever a restart finds there, and ignores this one.

use kavka_common::{LeaderEpoch, Offset};
use kavka_storage::StorageError;
use kavka_storage::checkpoint::{EpochStart, read_epochs, write_epochs};
use kavka_storage::vfs::{Durability, Vfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE_NAME: &str = "recovery-point";

/// What of a log was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryPoint {
    /// Everything below was durable.
    pub offset: Offset,
    /// Of the batch that ends at `offset`.
    pub epoch: LeaderEpoch,
}

impl RecoveryPoint {
    /// Nothing is known.
    pub const NONE: RecoveryPoint = RecoveryPoint {
        offset: 0,
        epoch: LeaderEpoch::UNKNOWN,
    };
}

/// The file in the metadata log's folder.
#[derive(Clone, Debug)]
pub struct RecoveryPointFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
}

impl RecoveryPointFile {
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Self {
        RecoveryPointFile {
            vfs,
            path: dir.join(FILE_NAME),
        }
    }

    /// `NONE` for a log without the file: a new one, or one of Kafka's.
    pub fn read(&self) -> Result<RecoveryPoint, StorageError> {
        let corrupt = |reason: &str| {
            StorageError::corrupt(
                &self.path,
                format!(
                    "{reason}; if the log beside it is known to be whole, remove this file and start again"
                ),
            )
        };
        let lines = read_epochs(&*self.vfs, &self.path).map_err(|error| match error {
            StorageError::Corrupt { reason, .. } => corrupt(&reason),
            other => other,
        })?;
        match lines.as_deref() {
            None => Ok(RecoveryPoint::NONE),
            Some([line]) => Ok(RecoveryPoint {
                offset: line.start_offset,
                epoch: line.epoch,
            }),
            Some(_) => Err(corrupt("it must have one entry")),
        }
    }

    /// Replaces the file; on return it survives a power loss.
    pub fn write(&self, point: RecoveryPoint) -> Result<(), StorageError> {
        let line = EpochStart {
            epoch: point.epoch,
            start_offset: point.offset,
        };
        write_epochs(&*self.vfs, &self.path, &[line], Durability::Synced)
            .map_err(|error| StorageError::io("writing", &self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_storage::vfs::{RealVfs, read_file, replace_file};

    fn file(dir: &Path) -> RecoveryPointFile {
        RecoveryPointFile::new(Arc::new(RealVfs), dir)
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        assert_eq!(file.read().unwrap(), RecoveryPoint::NONE);
        let point = RecoveryPoint {
            offset: 4711,
            epoch: LeaderEpoch(3),
        };
        file.write(point).unwrap();
        assert_eq!(file.read().unwrap(), point);
        let text = read_file(&RealVfs, &file.path, 100).unwrap();
        assert_eq!(&text, b"0\n1\n3 4711\n");
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        for bad in [
            "",
            "0\n1\n3 47",
            "0\n0\n",
            "0\n2\n3 5\n4 9\n",
            "7\n1\n3 9\n",
        ] {
            replace_file(&RealVfs, &file.path, bad.as_bytes(), Durability::PageCache).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains("remove this file"), "{bad:?}: {error}");
        }
    }
}
