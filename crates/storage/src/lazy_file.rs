//! A file that is opened by whoever needs it first, inside or outside the lock of the log's owner.
//! Not here: what the file holds. Its path never changes: a renamed folder gets new ones, with the same open files.
//! Any thread. Of two that open it at once, one keeps its file and the other closes its own.
//! Kafka: FileRecords, LazyIndex (opened with the log there; here 3,000 logs at rest cost few descriptors).

use crate::disk::Disk;
use crate::error::StorageError;
use crate::vfs::{File, OpenMode};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub(crate) struct LazyFile {
    path: PathBuf,
    file: OnceLock<Arc<dyn File>>,
}

impl LazyFile {
    pub(crate) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(LazyFile {
            path,
            file: OnceLock::new(),
        })
    }

    pub(crate) fn opened_as(path: PathBuf, file: Arc<dyn File>) -> Arc<Self> {
        Arc::new(LazyFile {
            path,
            file: OnceLock::from(file),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it with `mode` unless it is open.
    pub(crate) fn open(&self, disk: &Disk, mode: OpenMode) -> Result<&Arc<dyn File>, StorageError> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = disk.open(&self.path, mode)?;
        Ok(self.file.get_or_init(|| file))
    }

    pub(crate) fn opened(&self) -> Option<&Arc<dyn File>> {
        self.file.get()
    }

    /// The same file under another path.
    pub(crate) fn moved(&self, path: PathBuf) -> Arc<Self> {
        match self.file.get() {
            Some(file) => Self::opened_as(path, Arc::clone(file)),
            None => Self::new(path),
        }
    }
}
