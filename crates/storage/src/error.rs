//! Errors of the environment: the disk, and files that do not hold what they should.
//! Not here: errors of the caller (`AppendError`, `ReadError` stand beside their operations).
//! Any thread; the latch is shared by every log of one directory.
//! Kafka: KafkaStorageException, LogDirFailureChannel, CorruptIndexException.

use kavka_common::Offset;
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The disk failed, or holds something that cannot be trusted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// A write or fsync of this directory failed once; what the page cache says about it is no longer believed.
    #[error("log directory {} failed and is not used until a restart: {reason}", dir.display())]
    Poisoned { dir: PathBuf, reason: Arc<str> },
    /// The volume is full. The log is as it was before the append.
    #[error("no space left for {}", path.display())]
    NoSpace { path: PathBuf },
    #[error("{action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// Bytes that were once durable are no longer what was written. Not cut off silently: the replica must be rebuilt.
    #[error(
        "bit rot in {}: invalid batch at position {position} near offset {offset}, below the recovery point {recovery_point}: {reason}",
        path.display()
    )]
    BitRot {
        path: PathBuf,
        position: u64,
        offset: Offset,
        recovery_point: Offset,
        reason: String,
    },
    /// Records that were durable are gone. Not taken for a shorter log: who would notice?
    #[error(
        "{} ends at offset {log_end_offset}, but everything below offset {durable_to} was durable: the records from {log_end_offset} to {} are missing from it or from a file behind it. Put the missing files back, or move the folder away to fill the partition from its other replicas",
        path.display(),
        durable_to - 1
    )]
    TailMissing {
        /// The last log file that is left.
        path: PathBuf,
        log_end_offset: Offset,
        durable_to: Offset,
    },
    /// A file does not parse, and nothing else holds what it said.
    #[error("{} is corrupt: {reason}", path.display())]
    Corrupt { path: PathBuf, reason: String },
}

impl StorageError {
    /// Whether the same call may succeed later in this process: the volume is full, or the process has as many files
    /// open as it may. Nothing that was durable is in doubt, and the directory stays in use.
    pub fn is_passing(&self) -> bool {
        match self {
            StorageError::NoSpace { .. } => true,
            StorageError::Io { source, .. } => is_out_of_descriptors(source),
            StorageError::Poisoned { .. }
            | StorageError::BitRot { .. }
            | StorageError::TailMissing { .. }
            | StorageError::Corrupt { .. } => false,
        }
    }

    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        StorageError::Io {
            action,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    pub fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        StorageError::Corrupt {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Whether the process or the machine has no file descriptors left.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

/// Remembers the first failed write or fsync of a log directory. Never cleared: after a failed fsync the kernel may
/// mark the lost pages clean, so a later success proves nothing.
#[derive(Clone, Debug)]
pub struct FailureLatch {
    dir: Arc<Path>,
    reason: Arc<Mutex<Option<Arc<str>>>>,
    alarm: Arc<OnceLock<Alarm>>,
}

/// Whom a failure is told.
struct Alarm(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Alarm")
    }
}

impl FailureLatch {
    pub fn new(dir: &Path) -> Self {
        FailureLatch {
            dir: dir.into(),
            reason: Arc::default(),
            alarm: Arc::default(),
        }
    }

    /// Has `alarm` called when the directory fails: in the thread that met the failure, which may hold a log's lock, so
    /// it must neither block nor touch a log. The first that is set stays.
    pub fn on_failure(&self, alarm: impl Fn() + Send + Sync + 'static) {
        let _ = self.alarm.set(Alarm(Box::new(alarm)));
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn is_failed(&self) -> bool {
        self.reason.lock().is_some()
    }

    /// An error when the directory has failed.
    pub fn check(&self) -> Result<(), StorageError> {
        match &*self.reason.lock() {
            None => Ok(()),
            Some(reason) => Err(StorageError::Poisoned {
                dir: self.dir.to_path_buf(),
                reason: reason.clone(),
            }),
        }
    }

    /// Latches a failure; the first reason stays. Gives the error to answer with.
    pub fn fail(&self, action: &'static str, path: &Path, error: &io::Error) -> StorageError {
        let mut reason = self.reason.lock();
        let is_first = reason.is_none();
        let text = reason
            .get_or_insert_with(|| {
                tracing::error!(dir = %self.dir.display(), "{action} {}: {error}; the directory is not used any more", path.display());
                format!("{action} {}: {error}", path.display()).into()
            })
            .clone();
        drop(reason);
        if is_first && let Some(alarm) = self.alarm.get() {
            (alarm.0)();
        }
        StorageError::Poisoned {
            dir: self.dir.to_path_buf(),
            reason: text,
        }
    }
}
