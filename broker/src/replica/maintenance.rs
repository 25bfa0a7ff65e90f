//! Upkeep at intervals: retention and file deletion, flushes by time, checkpoints, producer expiry, ISR ticks.
//! Not here: what each of them does to a log (crates/storage) or a leader (crates/replication).
//! One task per concern, stopped by `shutdown`; all disk work runs on the blocking pool, one run of a concern at a time.
//! Kafka: LogManager.startupWithConfigOverrides, ReplicaManager.startup (isr-expiration, highwatermark-checkpoint).

use crate::replica::manager::ReplicaManager;
use kavka_common::{Offset, TopicPartition};
use kavka_replication::LeaderEvent;
use kavka_storage::{CheckpointOffsets, LogDir, StorageError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Files wait for `file.delete.delay.ms`; this is how exact that is.
const DELETION_INTERVAL_MS: i64 = 1_000;
/// How exact `flush.ms` is at best, whatever `log.flush.scheduler.interval.ms` says above it.
const FLUSH_INTERVAL_MS_MAX: i64 = 1_000;

impl ReplicaManager {
    /// Starts the background tasks; they end with `shutdown`.
    pub fn start_maintenance(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let settings = &self.settings;
        let delay_ms = settings.initial_task_delay_ms;
        vec![
            self.every(
                delay_ms,
                settings.retention_check_interval_ms,
                Self::run_retention,
            ),
            self.every(0, DELETION_INTERVAL_MS, Self::run_deletions),
            tokio::spawn(Arc::clone(self).watch_dirs()),
            self.every(
                delay_ms,
                settings.recovery_point_checkpoint_interval_ms,
                Self::checkpoint_recovery_points,
            ),
            self.every(
                delay_ms,
                settings.log_start_checkpoint_interval_ms,
                Self::checkpoint_log_starts,
            ),
            self.every(
                0,
                settings.high_watermark_checkpoint_interval_ms,
                Self::checkpoint_high_watermarks,
            ),
            self.every(
                0,
                settings.producer_id_expiration_check_interval_ms,
                Self::expire_producers,
            ),
            self.every(0, settings.replica_lag_ms_max / 2, Self::tick_leaders),
            self.flush_by_time(),
        ]
    }

    fn every(
        self: &Arc<Self>,
        delay_ms: i64,
        interval_ms: i64,
        work: impl Fn(&ReplicaManager) + Clone + Send + Sync + 'static,
    ) -> JoinHandle<()> {
        let this = Arc::clone(self);
        tokio::spawn(async move {
            if !this.sleep_ms(delay_ms).await {
                return;
            }
            while this.sleep_ms(interval_ms).await {
                let work = work.clone();
                let run = Arc::clone(&this);
                if let Err(e) = tokio::task::spawn_blocking(move || work(&run)).await {
                    this.report_join_error("the upkeep of the logs", &e);
                    return;
                }
            }
        })
    }

    /// False when the broker stops.
    async fn sleep_ms(&self, ms: i64) -> bool {
        let mut stopping = self.stopping.subscribe();
        let time = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            _ = stopping.wait_for(|stopping| *stopping) => false,
        }
    }

    fn flush_by_time(self: &Arc<Self>) -> JoinHandle<()> {
        let this = Arc::clone(self);
        let interval_ms = this
            .settings
            .flush_scheduler_interval_ms
            .min(FLUSH_INTERVAL_MS_MAX);
        tokio::spawn(Arc::clone(self).watched("flushing by time", async move {
            while this.sleep_ms(interval_ms).await {
                for partition in this.partitions() {
                    if partition.settings().log.flush_ms == i64::MAX {
                        continue;
                    }
                    if let Some(offset) = partition.flush_is_due()
                        && let Err(e) = partition.flush_to(offset).await
                    {
                        tracing::error!(target: "kafka.log.LogManager", "Flushing {} failed: {e}", partition.topic_partition());
                    }
                }
            }
        }))
    }

    /// Drops segments that retention no longer keeps.
    pub fn run_retention(&self) {
        let now_ms = self.context.clock.wall_ms();
        for partition in self.partitions() {
            let deleted = partition.maintain(|log| {
                let high_watermark = log.high_watermark();
                log.delete_old_segments(now_ms, high_watermark)
            });
            match deleted {
                Some(Ok(segments)) if !segments.is_empty() => {
                    tracing::info!(target: "kafka.log.UnifiedLog", "Deleted segments {segments:?} of {}", partition.topic_partition());
                    partition.log_start_moved();
                }
                Some(Ok(_)) | None => {}
                Some(Err(e)) => {
                    tracing::error!(target: "kafka.log.LogManager", "Retention of {} failed: {e}", partition.topic_partition());
                }
            }
        }
    }

    /// Removes files whose delay is over.
    pub fn run_deletions(&self) {
        let now_ms = self.context.clock.wall_ms();
        for partition in self.partitions() {
            let due = partition.maintain(|log| {
                let due = log.next_deletion_ms().is_some_and(|at| at <= now_ms);
                due.then(|| log.due_deletions(now_ms))
            });
            if let Some(Some(files)) = due
                && let Err(e) = files.run()
            {
                tracing::error!(target: "kafka.log.LogManager", "Deleting files of {} failed: {e}", partition.topic_partition());
            }
        }
    }

    pub fn expire_producers(&self) {
        let now_ms = self.context.clock.wall_ms();
        for partition in self.partitions() {
            partition.maintain(|log| log.remove_expired_producers(now_ms));
        }
    }

    pub fn tick_leaders(&self) {
        for partition in self.partitions() {
            partition.on_event(LeaderEvent::Tick);
        }
    }

    pub fn checkpoint_recovery_points(&self) {
        self.checkpoint(
            |offsets| offsets.recovery_point,
            |dir, offsets| dir.write_recovery_points(offsets),
        );
    }

    pub fn checkpoint_log_starts(&self) {
        self.checkpoint(
            |offsets| offsets.log_start_offset,
            |dir, offsets| dir.write_log_starts(offsets),
        );
    }

    pub fn checkpoint_high_watermarks(&self) {
        self.checkpoint(
            |offsets| offsets.high_watermark,
            |dir, offsets| dir.write_high_watermarks(offsets),
        );
    }

    fn checkpoint(
        &self,
        offset: fn(&CheckpointOffsets) -> Offset,
        write: impl Fn(&LogDir, Vec<(&TopicPartition, Offset)>) -> Result<(), StorageError>,
    ) {
        let _one_at_a_time = self.checkpointing.lock();
        if *self.stopping.borrow() {
            // the stop writes the last ones, and then there are no partitions any more
            return;
        }
        let partitions = self.partitions();
        let unclaimed = self.unclaimed.lock();
        let shelf = self.shelf.lock();
        let here = |log_dir: &Path, dir: &LogDir| log_dir == dir.path();
        for dir in self.dirs.live() {
            let hosted = partitions
                .iter()
                .filter(|partition| here(partition.log_dir(), dir))
                .filter_map(|partition| {
                    let offsets = partition.maintain(|log| log.checkpoint_offsets())?;
                    Some((partition.topic_partition(), offset(&offsets)))
                });
            // logs that no metadata has claimed yet, or that are not served, keep their place in the file
            let waiting = unclaimed
                .iter()
                .filter(|(_, found)| here(&found.log_dir, dir))
                .map(|(tp, found)| match &found.log {
                    Ok(log) => (tp, offset(&log.checkpoint_offsets())),
                    Err(_) => (tp, offset(&dir.checkpointed(tp))),
                });
            let shelved = shelf
                .iter()
                .filter(|shelved| here(&shelved.log_dir, dir))
                .map(|shelved| (&shelved.topic_partition, offset(&shelved.offsets)));
            if let Err(e) = write(dir, hosted.chain(waiting).chain(shelved).collect()) {
                tracing::error!(target: "kafka.log.LogManager", "Checkpoint in {} failed: {e}", dir.path().display());
            }
        }
    }
}
