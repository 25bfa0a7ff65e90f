//! Start: opens every log found in the directories, a few at a time. Stop: closes them and leaves the clean marker.
//! Not here: recovery of one log (crates/storage), what the metadata wants of the logs (apply.rs).
//! Each log on the blocking pool, at most `num.recovery.threads.per.data.dir` per directory.
//! Kafka: LogManager.{loadLogs, shutdown}; KIP-966 (clean marker), KAFKA-16234 (a dead directory's logs are not made anew).

use crate::machine;
use crate::replica::manager::{Hosted, ReplicaManager};
use crate::replica::shelf::Shelved;
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_common::{BrokerEpoch, TopicPartition, Uuid};
use kavka_storage::meta_properties::read_partition_metadata;
use kavka_storage::{CheckpointOffsets, Log, StorageError};
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Logs of a directory that are closed at a time at least: an fsync waits for the journal most of the time, and those
/// that wait together share one commit.
const CLOSING_WIDTH_MIN: usize = 16;

/// A log that is written to has its records and two indexes open; read-only segments come on top.
const FILES_PER_LOG: u64 = 3;
/// Connections, mostly.
const FILES_BESIDE_LOGS: u64 = 512;

/// A log with its directory and partition.
type OpenLog = (Arc<Path>, TopicPartition, Log);

/// A log that was found on disk and that no metadata has claimed yet.
#[derive(Debug)]
pub(super) struct Unclaimed {
    pub(super) log_dir: Arc<Path>,
    pub(super) topic_id: Option<Uuid>,
    pub(super) log: Result<Log, StorageError>,
}

impl ReplicaManager {
    /// Opens all logs. A log that does not open is offline, the others serve. What earlier deletions left is removed
    /// beside it.
    pub async fn recover(self: &Arc<Self>) {
        for dir in &self.dirs.dirs {
            for folder in dir.deleted_folders() {
                self.remove_later(dir.path().join(folder), 0);
            }
        }
        self.check_descriptor_limit(machine::descriptor_limit());
        let mut all = JoinSet::new();
        for at in 0..self.dirs.dirs.len() {
            let this = Arc::clone(self);
            all.spawn(async move { this.recover_dir(at).await });
        }
        all.join_all().await;
    }

    fn check_descriptor_limit(&self, limit: u64) {
        let logs: usize = self.dirs.dirs.iter().map(|dir| dir.logs().len()).sum();
        let needed = logs as u64 * FILES_PER_LOG + FILES_BESIDE_LOGS;
        if limit < needed {
            tracing::warn!(target: "kafka.log.LogManager", "This process may open {limit} files, and {logs} logs with their clients may need {needed}: allow more (ulimit -n 100000, or LimitNOFILE= of its service), else connections and new segments fail");
        }
    }

    /// What `recover` does, one log after the other on a thread that may block.
    pub fn recover_blocking(&self) {
        for (at, dir) in self.dirs.dirs.iter().enumerate() {
            let logs = dir.logs().iter();
            for tp in logs.filter(|tp| *tp.topic != *CLUSTER_METADATA_TOPIC) {
                self.recover_log(at, tp.clone(), dir.path().into());
            }
        }
    }

    async fn recover_dir(self: Arc<Self>, at: usize) {
        let dir = &self.dirs.dirs[at];
        let log_dir: Arc<Path> = dir.path().into();
        let width = self.settings.recovery_threads_per_dir.max(1);
        let mut running = JoinSet::new();
        let logs = dir.logs().iter();
        for tp in logs.filter(|tp| *tp.topic != *CLUSTER_METADATA_TOPIC) {
            if running.len() >= width {
                running.join_next().await;
            }
            let (this, tp, log_dir) = (Arc::clone(&self), tp.clone(), Arc::clone(&log_dir));
            running.spawn_blocking(move || this.recover_log(at, tp, log_dir));
        }
        running.join_all().await;
    }

    fn recover_log(&self, at: usize, tp: TopicPartition, log_dir: Arc<Path>) {
        let dir = &self.dirs.dirs[at];
        let path = dir.log_path(&tp);
        let config = self.topic_settings(&tp.topic).log;
        let options = dir.open_options(&tp, self.context.clock.wall_ms());
        let opened =
            Log::open(Arc::clone(dir.vfs()), &path, config, options).map(|(mut log, report)| {
                if let Some(high_watermark) = dir.checkpointed_high_watermark(&tp) {
                    log.update_high_watermark(high_watermark);
                }
                if report.segments_checked > 0 || report.bytes_cut > 0 {
                    tracing::info!(target: "kafka.log.LogManager", "Recovered {tp}: {report}");
                }
                log
            });
        let topic_id = read_partition_metadata(&**dir.vfs(), &path);
        let (log, topic_id) = match (opened, topic_id) {
            (Ok(log), Ok(topic_id)) => (Ok(log), topic_id),
            (Err(e), topic_id) => (Err(e), topic_id.unwrap_or(None)),
            (Ok(_), Err(e)) => (Err(e), None),
        };
        if let Err(e) = &log {
            tracing::error!(target: "kafka.log.LogManager", "{tp} in {} is offline: {e}", log_dir.display());
        }
        let found = Unclaimed {
            log_dir,
            topic_id,
            log,
        };
        let mut unclaimed = self.unclaimed.lock();
        let Some(other) = unclaimed.insert(tp.clone(), found) else {
            return;
        };
        // which of the two is right nobody can tell; serving either could lose the other's records
        tracing::error!(target: "kafka.log.LogManager", "{tp} lies in two directories, also in {}: remove one of them", other.log_dir.display());
        let kept = unclaimed
            .get_mut(&tp)
            .map(|kept| {
                let twice = StorageError::corrupt(
                    &path,
                    format!("{tp} lies in {} as well", other.log_dir.display()),
                );
                std::mem::replace(&mut kept.log, Err(twice))
            })
            .and_then(Result::ok);
        drop(unclaimed);
        // `kept` was opened and is not used: what recovery repaired, it repairs again
        drop(kept);
        self.shelve(Shelved {
            offsets: self
                .log_dir(&other.log_dir)
                .map_or_else(CheckpointOffsets::default, |dir| dir.checkpointed(&tp)),
            log_dir: other.log_dir,
            topic_partition: tp,
            clean: false,
        });
    }

    /// Stops serving and closes everything. The clean marker is left only where all logs of a directory were closed.
    pub async fn shutdown(self: &Arc<Self>, broker_epoch: Option<BrokerEpoch>) {
        self.stopping.send_replace(true);
        let _applying = self.applying.lock().await;
        let mut logs = self.take_logs();
        let mut all = JoinSet::new();
        for at in 0..self.dirs.dirs.len() {
            let path = self.dirs.dirs[at].path();
            let (here, elsewhere) = logs
                .into_iter()
                .partition(|(log_dir, ..)| **log_dir == *path);
            logs = elsewhere;
            all.spawn(Arc::clone(self).close_dir(at, here, broker_epoch));
        }
        while let Some(closed) = all.join_next().await {
            if let Err(e) = closed {
                tracing::error!(target: "kafka.log.LogManager", "Closing the logs failed: {e}");
            }
        }
    }

    /// What `shutdown` does, on a thread that may block; one log after the other.
    pub fn shutdown_blocking(&self, broker_epoch: Option<BrokerEpoch>) {
        self.stopping.send_replace(true);
        for (log_dir, tp, log) in self.take_logs() {
            self.shelve_open(&tp, &log_dir, log);
        }
        for at in 0..self.dirs.dirs.len() {
            self.mark_closed(at, false, broker_epoch);
        }
    }

    /// Takes all logs out of service. Those that did not open go on the shelf.
    fn take_logs(&self) -> Vec<OpenLog> {
        let mut logs = Vec::new();
        for (topic, hosted) in self.topics.write().drain() {
            for (partition, hosted) in hosted.partitions {
                let tp = TopicPartition::new(Arc::clone(&topic), partition);
                if let Hosted::Online(partition) = hosted
                    && let Some(log) = partition.take_log()
                {
                    logs.push((Arc::clone(partition.log_dir()), tp, log));
                }
            }
        }
        for (tp, found) in self.unclaimed.lock().drain() {
            match found.log {
                Ok(log) => logs.push((found.log_dir, tp, log)),
                Err(_) => self.shelve_unopened(&tp, &found.log_dir),
            }
        }
        logs
    }

    /// Closes the logs of one directory side by side: their fsyncs share what the file system writes.
    async fn close_dir(
        self: Arc<Self>,
        at: usize,
        logs: Vec<OpenLog>,
        broker_epoch: Option<BrokerEpoch>,
    ) {
        let width = self
            .settings
            .recovery_threads_per_dir
            .max(CLOSING_WIDTH_MIN);
        let mut running = JoinSet::new();
        let mut panicked = false;
        for (log_dir, tp, log) in logs {
            if running.len() >= width {
                panicked |= matches!(running.join_next().await, Some(Err(_)));
            }
            let this = Arc::clone(&self);
            running.spawn_blocking(move || this.shelve_open(&tp, &log_dir, log));
        }
        while let Some(closed) = running.join_next().await {
            panicked |= closed.is_err();
        }
        let this = Arc::clone(&self);
        let marked =
            tokio::task::spawn_blocking(move || this.mark_closed(at, panicked, broker_epoch));
        if let Err(e) = marked.await {
            tracing::error!(target: "kafka.log.LogManager", "Closing the logs failed: {e}");
        }
    }

    /// The last checkpoints of a directory, and its clean marker.
    fn mark_closed(&self, at: usize, panicked: bool, broker_epoch: Option<BrokerEpoch>) {
        let _checkpointing = self.checkpointing.lock();
        let dir = &self.dirs.dirs[at];
        let shelf = self.shelf.lock();
        let here: Vec<&Shelved> = shelf
            .iter()
            .filter(|shelved| *shelved.log_dir == *dir.path())
            .collect();
        let of = |offset: fn(&CheckpointOffsets) -> i64| {
            here.iter()
                .map(move |shelved| (&shelved.topic_partition, offset(&shelved.offsets)))
        };
        let clean = !panicked && here.iter().all(|shelved| shelved.clean);
        let written = dir
            .write_recovery_points(of(|offsets| offsets.recovery_point))
            .and_then(|()| dir.write_log_starts(of(|offsets| offsets.log_start_offset)))
            .and_then(|()| dir.write_high_watermarks(of(|offsets| offsets.high_watermark)))
            .and_then(|()| match clean {
                true => dir.mark_clean_shutdown(broker_epoch),
                false => Ok(()),
            });
        if let Err(e) = written {
            tracing::error!(target: "kafka.log.LogManager", "Stop of {} is not clean: {e}", dir.path().display());
        }
    }
}
