//! Start: opens every log found in the directories, a few at a time. Stop: closes them and leaves the clean marker.
//! Not here: recovery of one log (crates/storage), what the metadata wants of the logs (apply.rs).
//! Each log on the blocking pool, at most `num.recovery.threads.per.data.dir` per directory.
//! Kafka: LogManager.{loadLogs, shutdown}; KIP-966 (clean marker), KAFKA-16234 (a dead directory's logs are not made anew).

use crate::replica::error::ReplicaError;
use crate::replica::manager::{Hosted, ReplicaManager};
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_common::{BrokerEpoch, TopicPartition, Uuid};
use kavka_storage::meta_properties::read_partition_metadata;
use kavka_storage::{ClosedLog, Log, StorageError};
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A log that was found on disk and that no metadata has claimed yet.
#[derive(Debug)]
pub(super) struct Unclaimed {
    pub(super) log_dir: Arc<Path>,
    pub(super) topic_id: Option<Uuid>,
    pub(super) log: Result<Log, StorageError>,
}

impl ReplicaManager {
    /// Opens all logs. A log that does not open is offline, the others serve.
    pub async fn recover(self: &Arc<Self>) {
        let mut all = JoinSet::new();
        for at in 0..self.dirs.dirs.len() {
            let this = Arc::clone(self);
            all.spawn(async move { this.recover_dir(at).await });
        }
        all.join_all().await;
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
                    tracing::info!(target: "kafka.log.LogManager", "Recovered {tp}: {report:?}");
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
        if let Some(other) = self.unclaimed.lock().insert(tp.clone(), found) {
            // which of the two is right nobody can tell; serving either could lose the other's records
            tracing::error!(target: "kafka.log.LogManager", "{tp} lies in two directories, also in {}: remove one of them", other.log_dir.display());
            if let Some(kept) = self.unclaimed.lock().get_mut(&tp) {
                kept.log = Err(StorageError::corrupt(
                    &path,
                    format!("{tp} lies in {} as well", other.log_dir.display()),
                ));
            }
        }
    }

    /// Stops serving and closes everything. The clean marker is left only where all logs of a directory were closed.
    pub async fn shutdown(self: &Arc<Self>, broker_epoch: Option<BrokerEpoch>) {
        self.stopping.send_replace(true);
        let _applying = self.applying.lock().await;
        let this = Arc::clone(self);
        let closed = tokio::task::spawn_blocking(move || this.close_all(broker_epoch)).await;
        if let Err(e) = closed {
            tracing::error!(target: "kafka.log.LogManager", "Closing the logs failed: {e}");
        }
    }

    /// What `shutdown` does, on a thread that may block.
    pub fn shutdown_blocking(&self, broker_epoch: Option<BrokerEpoch>) {
        self.stopping.send_replace(true);
        self.close_all(broker_epoch);
    }

    fn close_all(&self, broker_epoch: Option<BrokerEpoch>) {
        let mut logs: Vec<(Arc<Path>, TopicPartition, Result<Log, ReplicaError>)> = Vec::new();
        for (topic, hosted) in self.topics.write().drain() {
            for (partition, hosted) in hosted.partitions {
                let tp = TopicPartition::new(Arc::clone(&topic), partition);
                if let Hosted::Online(partition) = hosted
                    && let Some(log) = partition.take_log()
                {
                    logs.push((Arc::clone(partition.log_dir()), tp, Ok(log)));
                }
            }
        }
        for (tp, found) in self.unclaimed.lock().drain() {
            logs.push((found.log_dir, tp, found.log.map_err(Into::into)));
        }
        let _checkpointing = self.checkpointing.lock();
        for dir in &self.dirs.dirs {
            let mut closed: Vec<(TopicPartition, ClosedLog)> = Vec::new();
            let mut clean = true;
            let (here, elsewhere): (Vec<_>, Vec<_>) = std::mem::take(&mut logs)
                .into_iter()
                .partition(|(log_dir, ..)| **log_dir == *dir.path());
            logs = elsewhere;
            for (_, tp, log) in here {
                match log.and_then(|log| log.close().map_err(Into::into)) {
                    Ok(offsets) => closed.push((tp, offsets)),
                    Err(e) => {
                        clean = false;
                        tracing::error!(target: "kafka.log.LogManager", "Closing {tp} failed: {e}");
                    }
                }
            }
            let of = |offset: fn(&ClosedLog) -> i64| {
                closed.iter().map(move |(tp, closed)| (tp, offset(closed)))
            };
            let written = dir
                .write_recovery_points(of(|closed| closed.recovery_point))
                .and_then(|()| dir.write_log_starts(of(|closed| closed.log_start_offset)))
                .and_then(|()| dir.write_high_watermarks(of(|closed| closed.high_watermark)))
                .and_then(|()| match clean {
                    true => dir.mark_clean_shutdown(broker_epoch),
                    false => Ok(()),
                });
            if let Err(e) = written {
                tracing::error!(target: "kafka.log.LogManager", "Stop of {} is not clean: {e}", dir.path().display());
            }
        }
    }
}
