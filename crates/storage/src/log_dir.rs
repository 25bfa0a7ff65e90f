//! One log directory: its lock, identity, clean-stop marker, checkpoints and folders; and several of them together.
//! Not here: the logs (the broker keeps them), what a failed directory means for leadership.
//! Opened once at start before anything in it is read. Checkpoints are written by one task at a time.
//! Kafka: LogManager, CleanShutdownFileHandler, LogDirFailureChannel; KIP-112, KIP-858, KIP-966.

use crate::checkpoint::{read_offsets, write_offsets};
use crate::disk::Disk;
use crate::error::is_out_of_descriptors;
use crate::error::{FailureLatch, StorageError};
use crate::log::{CheckpointOffsets, OpenOptions};
use crate::meta_properties::MetaProperties;
use crate::names::{self, Folder, parse_folder};
use crate::vfs::{DirLock, Durability, Space, Vfs, read_file, replace_file};
use kavka_common::{BrokerEpoch, Offset, TopicPartition, Uuid};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogDirError {
    #[error(
        "Failed to acquire lock on file .lock in {}. A Kafka instance in another process or thread is using this directory.",
        .0.display()
    )]
    Locked(PathBuf),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A log directory that this process owns.
#[derive(Debug)]
pub struct LogDir {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    latch: FailureLatch,
    meta: Option<MetaProperties>,
    clean_shutdown: bool,
    previous_broker_epoch: Option<BrokerEpoch>,
    recovery_points: BTreeMap<TopicPartition, Offset>,
    log_starts: BTreeMap<TopicPartition, Offset>,
    high_watermarks: BTreeMap<TopicPartition, Offset>,
    logs: Vec<TopicPartition>,
    futures: Vec<(TopicPartition, String)>,
    deletes: Vec<String>,
    strays: Vec<String>,
    _lock: Box<dyn DirLock>,
}

impl LogDir {
    /// Locks the directory, which is made when absent, and reads what it says about itself. The clean-stop marker is
    /// removed, durably: from here on a crash is a crash.
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path) -> Result<LogDir, LogDirError> {
        let io = |action: &'static str, path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| StorageError::io(action, &path, error)
        };
        if !vfs.exists(path).map_err(io("look for", path))? {
            vfs.create_dir_all(path).map_err(io("make folder", path))?;
            let parent = path.parent().unwrap_or(Path::new("."));
            vfs.sync_dir(parent).map_err(io("fsync folder", parent))?;
        }
        let lock_path = path.join(names::LOCK);
        let lock = vfs
            .lock(&lock_path)
            .map_err(io("lock", &lock_path))?
            .ok_or_else(|| LogDirError::Locked(path.to_owned()))?;
        let offsets = |name: &str| read_offsets(&*vfs, &path.join(name));
        let mut dir = LogDir {
            path: path.to_owned(),
            latch: FailureLatch::new(path),
            meta: MetaProperties::read(&*vfs, path)?,
            clean_shutdown: false,
            previous_broker_epoch: None,
            // A recovery point that cannot be read costs a full check, nothing else.
            recovery_points: offsets(names::RECOVERY_POINT_CHECKPOINT).or_else(only_if_corrupt)?,
            log_starts: offsets(names::LOG_START_CHECKPOINT).or_else(only_if_corrupt)?,
            high_watermarks: offsets(names::HIGH_WATERMARK_CHECKPOINT).or_else(only_if_corrupt)?,
            logs: Vec::new(),
            futures: Vec::new(),
            deletes: Vec::new(),
            strays: Vec::new(),
            _lock: lock,
            vfs,
        };
        dir.take_clean_shutdown_marker()?;
        dir.scan()?;
        Ok(dir)
    }

    fn take_clean_shutdown_marker(&mut self) -> Result<(), StorageError> {
        let path = self.path.join(names::CLEAN_SHUTDOWN);
        let content = match read_file(&*self.vfs, &path, 1 << 16) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StorageError::io("read", &path, error)),
        };
        self.clean_shutdown = true;
        self.previous_broker_epoch = parse_broker_epoch(&content);
        self.vfs
            .remove_file(&path)
            .map_err(|error| StorageError::io("remove", &path, error))?;
        // An error even where it was not opened: a marker that came back would pass a crash for a clean stop.
        self.disk().sync_dir(&self.path)
    }

    fn disk(&self) -> Disk {
        Disk {
            vfs: Arc::clone(&self.vfs),
            latch: self.latch.clone(),
        }
    }

    fn scan(&mut self) -> Result<(), StorageError> {
        let entries = self
            .vfs
            .list(&self.path)
            .map_err(|error| StorageError::io("list", &self.path, error))?;
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            match parse_folder(&entry.name) {
                Folder::Log(topic_partition) => self.logs.push(topic_partition),
                Folder::Future(topic_partition) => self.futures.push((topic_partition, entry.name)),
                Folder::Delete => self.deletes.push(entry.name),
                Folder::Stray => self.strays.push(entry.name),
                Folder::Foreign => {}
            }
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    pub fn latch(&self) -> &FailureLatch {
        &self.latch
    }

    pub fn is_failed(&self) -> bool {
        self.latch.is_failed()
    }

    /// `None`: the directory is not formatted.
    pub fn meta(&self) -> Option<&MetaProperties> {
        self.meta.as_ref()
    }

    /// `directory.id` of `meta.properties`.
    pub fn directory_id(&self) -> Option<Uuid> {
        self.meta.as_ref()?.directory_id
    }

    /// Writes `meta.properties`.
    pub fn set_meta(&mut self, meta: MetaProperties, now_ms: i64) -> Result<(), StorageError> {
        meta.write(&*self.vfs, &self.path, now_ms)
            .map_err(|error| {
                StorageError::io("write", &self.path.join(names::META_PROPERTIES), error)
            })?;
        self.meta = Some(meta);
        Ok(())
    }

    /// Whether the last process stopped cleanly here.
    pub fn was_clean_shutdown(&self) -> bool {
        self.clean_shutdown
    }

    /// The broker epoch that a clean stop left; its absence makes the controller drop this broker from ELRs (KIP-966).
    pub fn previous_broker_epoch(&self) -> Option<BrokerEpoch> {
        self.previous_broker_epoch
    }

    /// The logs found, in order; `__cluster_metadata-0` among them.
    pub fn logs(&self) -> &[TopicPartition] {
        &self.logs
    }

    /// Copies that were being moved here, with their folder names.
    pub fn future_logs(&self) -> &[(TopicPartition, String)] {
        &self.futures
    }

    /// Folders set aside because the metadata did not know them.
    pub fn stray_folders(&self) -> &[String] {
        &self.strays
    }

    /// Folders that earlier deletions left.
    pub fn deleted_folders(&self) -> &[String] {
        &self.deletes
    }

    pub fn log_path(&self, topic_partition: &TopicPartition) -> PathBuf {
        self.path.join(names::folder(topic_partition))
    }

    /// How to open a log of this directory.
    pub fn open_options(&self, topic_partition: &TopicPartition, now_ms: i64) -> OpenOptions {
        let known = self.checkpointed(topic_partition);
        OpenOptions {
            recovery_point: known.recovery_point,
            log_start_offset: known.log_start_offset,
            high_watermark: known.high_watermark,
            clean_shutdown: self.clean_shutdown,
            now_ms,
            latch: Some(self.latch.clone()),
        }
    }

    /// What the checkpoints said about a log when the directory was opened.
    pub fn checkpointed(&self, topic_partition: &TopicPartition) -> CheckpointOffsets {
        let of = |offsets: &BTreeMap<TopicPartition, Offset>| {
            offsets.get(topic_partition).copied().unwrap_or(0)
        };
        CheckpointOffsets {
            recovery_point: of(&self.recovery_points),
            log_start_offset: of(&self.log_starts),
            high_watermark: of(&self.high_watermarks),
        }
    }

    /// Renames the folder of a log that nobody uses any more, or that did not open. Gives its new path.
    pub fn rename_log_folder(
        &self,
        topic_partition: &TopicPartition,
        name: &str,
    ) -> Result<PathBuf, StorageError> {
        self.latch.check()?;
        let from = self.log_path(topic_partition);
        let to = self.path.join(name);
        self.vfs
            .rename(&from, &to)
            .map_err(|error| StorageError::io("rename", &from, error))?;
        self.disk().sync_renamed(&self.path)?;
        Ok(to)
    }

    /// Whether the folder of a log is there.
    pub fn has_log_folder(&self, topic_partition: &TopicPartition) -> Result<bool, StorageError> {
        let path = self.log_path(topic_partition);
        self.vfs
            .exists(&path)
            .map_err(|error| StorageError::io("look for", &path, error))
    }

    /// The high watermark that was checkpointed for a log.
    pub fn checkpointed_high_watermark(&self, topic_partition: &TopicPartition) -> Option<Offset> {
        self.high_watermarks.get(topic_partition).copied()
    }

    /// Removes what earlier deletions left; on a thread that may block.
    pub fn remove_deleted_folders(&mut self) -> Result<usize, StorageError> {
        let folders = std::mem::take(&mut self.deletes);
        for folder in &folders {
            let path = self.path.join(folder);
            self.vfs
                .remove_dir_all(&path)
                .map_err(|error| StorageError::io("remove", &path, error))?;
        }
        Ok(folders.len())
    }

    /// Writes `recovery-point-offset-checkpoint`. Before appends that follow a truncation, at intervals, and at a stop.
    pub fn write_recovery_points<'a>(
        &self,
        offsets: impl IntoIterator<Item = (&'a TopicPartition, Offset)>,
    ) -> Result<(), StorageError> {
        self.write_checkpoint(names::RECOVERY_POINT_CHECKPOINT, offsets)
    }

    /// Writes `log-start-offset-checkpoint`; logs that start at their first segment may be left out.
    pub fn write_log_starts<'a>(
        &self,
        offsets: impl IntoIterator<Item = (&'a TopicPartition, Offset)>,
    ) -> Result<(), StorageError> {
        self.write_checkpoint(names::LOG_START_CHECKPOINT, offsets)
    }

    /// Writes `replication-offset-checkpoint`.
    pub fn write_high_watermarks<'a>(
        &self,
        offsets: impl IntoIterator<Item = (&'a TopicPartition, Offset)>,
    ) -> Result<(), StorageError> {
        self.write_checkpoint(names::HIGH_WATERMARK_CHECKPOINT, offsets)
    }

    fn write_checkpoint<'a>(
        &self,
        name: &str,
        offsets: impl IntoIterator<Item = (&'a TopicPartition, Offset)>,
    ) -> Result<(), StorageError> {
        self.latch.check()?;
        let path = self.path.join(name);
        match write_offsets(&*self.vfs, &path, offsets) {
            Ok(()) => Ok(()),
            // The old checkpoint stands: recovery reads more, and loses nothing.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                Err(StorageError::NoSpace { path })
            }
            Err(error) if is_out_of_descriptors(&error) => {
                Err(StorageError::io("write", &path, error))
            }
            Err(error) => Err(self.latch.fail("write", &path, &error)),
        }
    }

    /// Leaves the marker of a clean stop: the last step, after every log was closed and every checkpoint written. A failed
    /// directory gets none (KAFKA-13773).
    pub fn mark_clean_shutdown(
        &self,
        broker_epoch: Option<BrokerEpoch>,
    ) -> Result<(), StorageError> {
        self.latch.check()?;
        let content = match broker_epoch {
            Some(epoch) => format!("{{\"version\":0,\"brokerEpoch\":{epoch}}}"),
            None => "{\"version\":0,\"brokerEpoch\":-1}".to_owned(),
        };
        let path = self.path.join(names::CLEAN_SHUTDOWN);
        replace_file(&*self.vfs, &path, content.as_bytes(), Durability::Synced)
            .map_err(|error| StorageError::io("write", &path, error))
    }

    /// Room on the volume, for DescribeLogDirs.
    pub fn space(&self) -> Result<Space, StorageError> {
        self.vfs
            .space(&self.path)
            .map_err(|error| StorageError::io("measure", &self.path, error))
    }
}

fn only_if_corrupt(error: StorageError) -> Result<BTreeMap<TopicPartition, Offset>, StorageError> {
    match error {
        StorageError::Corrupt { path, reason } => {
            tracing::error!(path = %path.display(), "checkpoint ignored: {reason}");
            Ok(BTreeMap::new())
        }
        other => Err(other),
    }
}

/// The number behind `"brokerEpoch":` of Kafka's marker; an empty marker is one of before KIP-966.
fn parse_broker_epoch(content: &[u8]) -> Option<BrokerEpoch> {
    let text = std::str::from_utf8(content).ok()?;
    let (_, rest) = text.split_once("\"brokerEpoch\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '-')
        .unwrap_or(rest.len());
    let epoch: i64 = rest[..end].parse().ok()?;
    (epoch >= 0).then_some(BrokerEpoch(epoch))
}

/// The directories of a node.
#[derive(Debug, Default)]
pub struct LogDirs {
    pub dirs: Vec<LogDir>,
    /// Those of `log.dirs` that could not be opened; what lies there is not known.
    pub unopened: Vec<PathBuf>,
}

impl LogDirs {
    /// Opens all directories of `log.dirs`. Those that fail stand beside the others: a node starts while one is left.
    pub fn open(vfs: &Arc<dyn Vfs>, paths: &[PathBuf]) -> (LogDirs, Vec<(PathBuf, LogDirError)>) {
        let mut dirs = Vec::new();
        let mut failed = Vec::new();
        for path in paths {
            match LogDir::open(vfs.clone(), path) {
                Ok(dir) => dirs.push(dir),
                Err(error) => failed.push((path.clone(), error)),
            }
        }
        let unopened = failed.iter().map(|(path, _)| path.clone()).collect();
        (LogDirs { dirs, unopened }, failed)
    }

    pub fn live(&self) -> impl Iterator<Item = &LogDir> {
        self.dirs.iter().filter(|dir| !dir.is_failed())
    }

    /// Whether a directory of `log.dirs` does not work: a log that is not found may lie there.
    pub fn any_offline(&self) -> bool {
        !self.unopened.is_empty() || self.dirs.iter().any(LogDir::is_failed)
    }

    /// The directory that works and has this id.
    pub fn live_by_id(&self, directory_id: Uuid) -> Option<&LogDir> {
        self.live()
            .find(|dir| dir.directory_id() == Some(directory_id))
    }

    /// The directory for a new log: of those that work, the one with the fewest logs by `logs_in`; the first of several.
    pub fn choose_for_new_log(&self, logs_in: impl Fn(&LogDir) -> usize) -> Option<&LogDir> {
        self.live().min_by_key(|dir| logs_in(dir))
    }
}

#[cfg(test)]
#[path = "log_dir_test.rs"]
mod tests;
