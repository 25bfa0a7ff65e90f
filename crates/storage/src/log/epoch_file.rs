//! Who may write a log's `leader-epoch-checkpoint`: its owner, and the flush that took the newest copy.
//! Not here: its content (leader_epoch.rs), its format (checkpoint.rs).
//! Writers take turns; the owner waits for a flush that is about to write the file, and for nothing else.
//! Kafka: LeaderEpochCheckpointFile, whose lock covers each write.

use parking_lot::Mutex;
use std::sync::Arc;

/// Once the folder is no longer the log's.
const NOBODY: u64 = u64::MAX;

/// The owner's side. When it is dropped no flush writes the file any more: the folder may be another log's then.
#[derive(Debug, Default)]
pub(super) struct EpochFile {
    /// Of the content in memory.
    version: u64,
    /// Of the content in the folder.
    written: Arc<Mutex<u64>>,
}

/// A copy that a flush took.
#[derive(Debug)]
pub(super) struct EpochCopy {
    version: u64,
    written: Arc<Mutex<u64>>,
}

impl EpochFile {
    /// Writes what is new in memory.
    pub(super) fn write<E>(&mut self, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.version += 1;
        let mut written = self.written.lock();
        *written = self.version;
        write()
    }

    pub(super) fn copy(&self) -> EpochCopy {
        EpochCopy {
            version: self.version,
            written: Arc::clone(&self.written),
        }
    }

    /// Whether the copy is of what is in memory.
    pub(super) fn is_current(&self, copy: &EpochCopy) -> bool {
        self.version == copy.version && Arc::ptr_eq(&self.written, &copy.written)
    }
}

impl Drop for EpochFile {
    fn drop(&mut self) {
        *self.written.lock() = NOBODY;
    }
}

impl EpochCopy {
    /// Writes the copy, unless something newer is there.
    pub(super) fn write<E>(&self, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let written = self.written.lock();
        match *written > self.version {
            true => Ok(()),
            false => write(),
        }
    }
}
