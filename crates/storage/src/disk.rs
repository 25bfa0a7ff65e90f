//! Disk calls of one log with their errors named, and the failure latch set by those that lose data.
//! Not here: the calls themselves (vfs). Opening what is there, listing and reading may fail without poisoning: they
//! lose nothing, and running out of descriptors must not take a directory offline.
//! Used by everything inside a log, and by flush tickets outside its owner's lock.
//! Kafka: LogDirFailureChannel.maybeAddOfflineLogDir.

use crate::error::{FailureLatch, StorageError, is_out_of_descriptors};
use crate::vfs::{DirEntry, Durability, File, OpenMode, Vfs};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) latch: FailureLatch,
}

impl Disk {
    pub(crate) fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>, StorageError> {
        self.latch.check()?;
        self.vfs.open(path, mode).map_err(|error| match mode {
            OpenMode::Read | OpenMode::Write => StorageError::io("open", path, error),
            OpenMode::CreateOrWrite | OpenMode::CreateEmpty => self.refused("create", path, &error),
        })
    }

    /// The directory takes no file. It may be full, or this process out of descriptors: nothing is lost, and that
    /// passes. Else it was moved away, is read-only, or broken: it has failed.
    pub(crate) fn refused(
        &self,
        action: &'static str,
        path: &Path,
        error: &io::Error,
    ) -> StorageError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::NoSpace {
                path: path.to_owned(),
            },
            _ if is_out_of_descriptors(error) => {
                StorageError::io(action, path, of_the_same_code(error))
            }
            _ => self.latch.fail(action, path, error),
        }
    }

    /// For calls under the lock of the log's owner, who renames the folder himself: a file that is not found there has
    /// gone with the folder or the directory.
    pub(crate) fn lost(&self, error: StorageError) -> StorageError {
        match error {
            StorageError::Io {
                action,
                path,
                source,
            } if source.kind() == io::ErrorKind::NotFound => {
                self.latch.fail(action, &path, &source)
            }
            other => other,
        }
    }

    pub(crate) fn list(&self, dir: &Path) -> Result<Vec<DirEntry>, StorageError> {
        self.vfs
            .list(dir)
            .map_err(|error| StorageError::io("list", dir, error))
    }

    pub(crate) fn exists(&self, path: &Path) -> Result<bool, StorageError> {
        self.vfs
            .exists(path)
            .map_err(|error| StorageError::io("look for", path, error))
    }

    pub(crate) fn len(&self, path: &Path, file: &dyn File) -> Result<u64, StorageError> {
        file.len()
            .map_err(|error| StorageError::io("measure", path, error))
    }

    pub(crate) fn read_exact_at(
        &self,
        path: &Path,
        file: &dyn File,
        buf: &mut [u8],
        position: u64,
    ) -> Result<(), StorageError> {
        file.read_exact_at(buf, position)
            .map_err(|error| StorageError::io("read", path, error))
    }

    pub(crate) fn write_all_at(
        &self,
        path: &Path,
        file: &dyn File,
        bytes: &[u8],
        position: u64,
    ) -> Result<(), StorageError> {
        self.write_all_vectored_at(path, file, &mut [IoSlice::new(bytes)], position)
    }

    /// A full volume is answered without latching when the file can be cut back to `position`: nothing was lost.
    pub(crate) fn write_all_vectored_at(
        &self,
        path: &Path,
        file: &dyn File,
        slices: &mut [IoSlice<'_>],
        position: u64,
    ) -> Result<(), StorageError> {
        self.latch.check()?;
        let Err(error) = file.write_all_vectored_at(slices, position) else {
            return Ok(());
        };
        if matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ) && file.set_len(position).is_ok()
        {
            return Err(StorageError::NoSpace {
                path: path.to_owned(),
            });
        }
        Err(self.latch.fail("write", path, &error))
    }

    pub(crate) fn set_len(
        &self,
        path: &Path,
        file: &dyn File,
        length: u64,
    ) -> Result<(), StorageError> {
        self.latch.check()?;
        file.set_len(length)
            .map_err(|error| self.latch.fail("truncate", path, &error))
    }

    pub(crate) fn sync(&self, path: &Path, file: &dyn File) -> Result<(), StorageError> {
        self.latch.check()?;
        file.sync_data()
            .map_err(|error| self.latch.fail("fsync", path, &error))
    }

    pub(crate) fn sync_dir(&self, dir: &Path) -> Result<(), StorageError> {
        self.latch.check()?;
        self.vfs.sync_dir(dir).map_err(|error| match error.kind() {
            // The folder was renamed meanwhile, to be deleted.
            io::ErrorKind::NotFound => StorageError::io("fsync folder", dir, error),
            // It was not opened, so no fsync has failed, and the next one covers the same changes.
            _ if is_out_of_descriptors(&error) => StorageError::io("open folder", dir, error),
            _ => self.latch.fail("fsync folder", dir, &error),
        })
    }

    /// After the renaming of a log's folder in `dir`. Without descriptors the rename stands all the same; a power loss
    /// would bring the old name back, and a start sets such a folder aside.
    pub(crate) fn sync_renamed(&self, dir: &Path) -> Result<(), StorageError> {
        match self.vfs.sync_dir(dir) {
            Ok(()) => Ok(()),
            Err(error) if is_out_of_descriptors(&error) => {
                tracing::warn!(dir = %dir.display(), "a rename is not durable: {error}");
                Ok(())
            }
            Err(error) => Err(self.latch.fail("fsync folder", dir, &error)),
        }
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), StorageError> {
        self.latch.check()?;
        self.vfs
            .rename(from, to)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => StorageError::io("rename", from, error),
                _ => self.refused("rename", from, &error),
            })
    }

    /// Removing what is already gone is fine: a crash may have come between removal and the next start.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), StorageError> {
        match self.vfs.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StorageError::io("remove", path, error))
            }
            _ => Ok(()),
        }
    }

    /// Replaces a small file. The old content stays until the new one is complete.
    pub(crate) fn replace(
        &self,
        path: &Path,
        content: &[u8],
        durability: Durability,
    ) -> Result<(), StorageError> {
        self.latch.check()?;
        self.replaced(
            path,
            crate::vfs::replace_file(&*self.vfs, path, content, durability),
        )
    }

    /// Names the outcome of a replacement that was made through the vfs.
    pub(crate) fn replaced(
        &self,
        path: &Path,
        outcome: io::Result<()>,
    ) -> Result<(), StorageError> {
        outcome.map_err(|error| match error.kind() {
            // The folder was renamed meanwhile, to be deleted; or it is `lost`.
            io::ErrorKind::NotFound => StorageError::io("replace", path, error),
            // Where there is no room the old file is untouched, and nothing that was accepted is lost.
            _ => self.refused("replace", path, &error),
        })
    }
}

fn of_the_same_code(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
