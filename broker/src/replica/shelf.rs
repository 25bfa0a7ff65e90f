//! Logs that lie in a directory under their partition's name but that no partition serves: they did not open, or were
//! taken out of service. Not here: opening (recovery.rs), deciding which log belongs to whom (apply.rs).
//! The list is behind a mutex held for look-ups only; renaming and closing run where metadata is applied, on the
//! blocking pool. Kafka: LogManager.{logsToBeDeleted, strayLogs}, OfflinePartition; KIP-112.

use crate::replica::error::ReplicaError;
use crate::replica::manager::ReplicaManager;
use kavka_common::{TopicPartition, Uuid};
use kavka_storage::{CheckpointOffsets, Log, LogDir, StorageError, names};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log on the shelf.
#[derive(Clone, Debug)]
pub(super) struct Shelved {
    pub(super) log_dir: Arc<Path>,
    pub(super) topic_partition: TopicPartition,
    /// Its lines in the directory's checkpoints stay: without them the next start would take it for another log.
    pub(super) offsets: CheckpointOffsets,
    /// Nothing of it waits for the disk, and nothing must be checked.
    pub(super) clean: bool,
}

/// To which name a folder is moved out of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    Stray,
    Delete,
}

impl ReplicaManager {
    /// Puts a log on the shelf that did not open. Its checkpoint lines stay as the start found them.
    pub(super) fn shelve_unopened(&self, topic_partition: &TopicPartition, log_dir: &Arc<Path>) {
        let Some(dir) = self.log_dir(log_dir) else {
            return;
        };
        self.shelve(Shelved {
            log_dir: Arc::clone(log_dir),
            topic_partition: topic_partition.clone(),
            offsets: dir.checkpointed(topic_partition),
            clean: dir.was_clean_shutdown(),
        });
    }

    /// Closes a log and puts it on the shelf.
    pub(super) fn shelve_open(
        &self,
        topic_partition: &TopicPartition,
        log_dir: &Arc<Path>,
        log: Log,
    ) {
        let before = log.checkpoint_offsets();
        let closed = log.close();
        if let Err(e) = &closed {
            tracing::error!(target: "kafka.log.LogManager", "Closing {topic_partition} failed: {e}");
        }
        self.shelve(Shelved {
            log_dir: Arc::clone(log_dir),
            topic_partition: topic_partition.clone(),
            clean: closed.is_ok(),
            offsets: closed.unwrap_or(before),
        });
    }

    pub(super) fn shelve(&self, shelved: Shelved) {
        self.shelf.lock().push(shelved);
    }

    /// Renames the folders of a partition that are on the shelf, or that are in the way of a new log in `dir`. Gives
    /// their new paths. What cannot be renamed stays on the shelf: a new log must not open it.
    pub(super) fn set_aside(
        &self,
        topic_partition: &TopicPartition,
        aside: Aside,
    ) -> Result<Vec<PathBuf>, ReplicaError> {
        let mut renamed = Vec::new();
        loop {
            let found = self
                .shelf
                .lock()
                .iter()
                .find(|shelved| shelved.topic_partition == *topic_partition)
                .map(|shelved| Arc::clone(&shelved.log_dir));
            let Some(log_dir) = found else {
                return Ok(renamed);
            };
            if let Some(dir) = self.log_dir(&log_dir) {
                renamed.extend(self.set_folder_aside(dir, topic_partition, aside)?);
            }
            self.shelf.lock().retain(|shelved| {
                shelved.topic_partition != *topic_partition || shelved.log_dir != log_dir
            });
        }
    }

    /// Renames the folder of a partition, where there is one.
    pub(super) fn set_folder_aside(
        &self,
        dir: &LogDir,
        topic_partition: &TopicPartition,
        aside: Aside,
    ) -> Result<Option<PathBuf>, StorageError> {
        if !dir.has_log_folder(topic_partition)? {
            return Ok(None);
        }
        let name = match aside {
            Aside::Stray => names::stray_folder(topic_partition, random_uuid()),
            Aside::Delete => names::delete_folder(topic_partition, random_uuid()),
        };
        if aside == Aside::Stray {
            tracing::warn!(target: "kafka.log.LogManager", "The log of {topic_partition} in {} belongs to no topic; it is set aside as {name}", dir.path().display());
        }
        dir.rename_log_folder(topic_partition, &name).map(Some)
    }

    pub(super) fn log_dir(&self, path: &Path) -> Option<&LogDir> {
        self.dirs.dirs.iter().find(|dir| dir.path() == path)
    }
}

/// Tells renamed folders apart; a repeated value would only make a rename fail.
fn random_uuid() -> Uuid {
    loop {
        let mut bytes = [0; 16];
        if getrandom::fill(&mut bytes).is_err() {
            return Uuid::ZERO;
        }
        if let Some(id) = Uuid::from_random_bytes(bytes) {
            return id;
        }
    }
}
