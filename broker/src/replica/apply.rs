//! Follows the metadata: creates, leads, follows, reconfigures and deletes the replicas of this broker.
//! Not here: folding the metadata log (broker/src/metadata), electing leaders (the controller).
//! One application at a time; it makes folders, so it runs on the blocking pool.
//! Kafka: ReplicaManager.applyDelta, BrokerMetadataPublisher, LogManager.{getOrCreateLog, asyncDelete}; KIP-516, KIP-858.

use crate::replica::error::ReplicaError;
use crate::replica::manager::{Hosted, HostedTopic, ReplicaManager};
use crate::replica::partition::Partition;
use crate::replica::recovery::Unclaimed;
use crate::replica::shelf::{Aside, Shelved};
use kavka_common::guards::{Guard, holds};
use kavka_common::{BrokerEpoch, NodeId, TopicIdPartition, TopicPartition, Uuid};
use kavka_config::Layers;
use kavka_metadata::{
    ConfigResource, ConfigResourceType, LocalReplicaChanges, MetadataDelta, MetadataImage,
    PartitionChange, PartitionRegistration, ResourceConfig,
};
use kavka_replication::{LeaderEvent, Registration};
use kavka_storage::{
    Log, LogDir, OpenOptions, StorageError, meta_properties::write_partition_metadata,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Partitions that are taken up at a time: a new log waits for several fsyncs, and a new leader epoch for the rename of
/// a file; those that wait together share the file system's commits.
const HOSTING_WIDTH: usize = 16;

impl ReplicaManager {
    /// Takes over a new image. Gives what it meant for this broker's replicas, for those who follow leaderships.
    pub async fn apply(
        self: &Arc<Self>,
        delta: &MetadataDelta,
        after: &MetadataImage,
    ) -> LocalReplicaChanges {
        let _one_at_a_time = self.applying.lock().await;
        if *self.stopping.borrow() {
            return LocalReplicaChanges::default();
        }
        // first the image: whoever asks meanwhile is told to come again, not that there is no such topic
        self.image.store(Arc::new(after.clone()));
        let this = Arc::clone(self);
        let (delta, after) = (delta.clone(), after.clone());
        match tokio::task::spawn_blocking(move || this.apply_wide(&delta, &after, HOSTING_WIDTH))
            .await
        {
            Ok((changes, doomed)) => {
                for (path, delay_ms) in doomed {
                    self.remove_later(path, delay_ms);
                }
                changes
            }
            Err(e) => {
                self.report_join_error("applying metadata to the replicas", &e);
                LocalReplicaChanges::default()
            }
        }
    }

    /// What `apply` does, on a thread that may block. Gives the folders that are to be removed and after how many
    /// milliseconds, too.
    pub fn apply_blocking(
        &self,
        delta: &MetadataDelta,
        after: &MetadataImage,
    ) -> (LocalReplicaChanges, Vec<(PathBuf, i64)>) {
        self.apply_wide(delta, after, 1)
    }

    /// `width` logs are opened at a time.
    fn apply_wide(
        &self,
        delta: &MetadataDelta,
        after: &MetadataImage,
        width: usize,
    ) -> (LocalReplicaChanges, Vec<(PathBuf, i64)>) {
        self.image.store(Arc::new(after.clone()));
        let awaited = *self.awaited.lock();
        if let Some(incarnation_id) = awaited.filter(|_| holds(Guard::RegistrationFirst)) {
            let registered = after.cluster.broker(self.context.local);
            if registered.is_none_or(|broker| broker.incarnation_id != incarnation_id) {
                return (LocalReplicaChanges::default(), Vec::new());
            }
            *self.awaited.lock() = None;
            // all that was passed over, as one step
            let whole = MetadataDelta::between(&MetadataImage::default(), after);
            return self.act_on(&whole, after, width);
        }
        self.act_on(delta, after, width)
    }

    fn act_on(
        &self,
        delta: &MetadataDelta,
        after: &MetadataImage,
        width: usize,
    ) -> (LocalReplicaChanges, Vec<(PathBuf, i64)>) {
        let changes = delta.local_changes(self.context.local, after);
        let doomed = self.apply_changes(&changes, after, width);
        self.apply_configs(delta, after);
        self.apply_brokers(delta, after);
        if !delta.features.is_empty() {
            // the controller may keep directories from now on
            self.check_assignments();
        }
        (changes, doomed)
    }

    /// After the first whole image: logs that it does not know are set aside.
    pub async fn set_strays_aside(self: &Arc<Self>) {
        let _one_at_a_time = self.applying.lock().await;
        if self.image.load().is_empty() {
            return;
        }
        let this = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || this.set_strays_aside_blocking()).await;
        if let Err(e) = done {
            self.report_join_error("setting strays aside", &e);
        }
    }

    /// What `set_strays_aside` does once there is an image, on a thread that may block.
    pub fn set_strays_aside_blocking(&self) {
        for (tp, found) in std::mem::take(&mut *self.unclaimed.lock()) {
            self.shelve_unclaimed(&tp, found);
            if let Err(e) = self.set_aside(&tp, Aside::Stray) {
                tracing::error!(target: "kafka.log.LogManager", "Setting {tp} aside failed: {e}");
            }
        }
        self.checkpoint_what_is_left();
    }

    /// A new log of the same name must not be opened with the offsets of one that is gone: with its log start a crash
    /// would empty the new one.
    fn checkpoint_what_is_left(&self) {
        self.checkpoint_recovery_points();
        self.checkpoint_log_starts();
        self.checkpoint_high_watermarks();
    }

    fn shelve_unclaimed(&self, tp: &TopicPartition, found: Unclaimed) {
        match found.log {
            Ok(log) => self.shelve_open(tp, &found.log_dir, log),
            Err(_) => self.shelve_unopened(tp, &found.log_dir),
        }
    }

    fn apply_changes(
        &self,
        changes: &LocalReplicaChanges,
        after: &MetadataImage,
        width: usize,
    ) -> Vec<(PathBuf, i64)> {
        let mut doomed = Vec::new();
        for id in &changes.deletes {
            doomed.extend(self.delete(id));
        }
        if !changes.deletes.is_empty() {
            self.checkpoint_what_is_left();
        }
        let replicas: Vec<&PartitionChange> =
            changes.leaders.iter().chain(&changes.followers).collect();
        self.take_up_all(&replicas, after, width);
        doomed
    }

    /// Takes over what the metadata says of several partitions, at most `width` at a time.
    fn take_up_all(&self, changes: &[&PartitionChange], after: &MetadataImage, width: usize) {
        let next = AtomicUsize::new(0);
        let take_up_some = || {
            while let Some(change) = changes.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.take_up(change, after);
            }
        };
        let width = width.min(changes.len());
        if width < 2 {
            return take_up_some();
        }
        std::thread::scope(|scope| {
            for _ in 0..width {
                scope.spawn(take_up_some);
            }
        });
    }

    fn take_up(&self, change: &PartitionChange, after: &MetadataImage) {
        self.take_up_role(change, after);
        let id = &change.topic_partition;
        self.check_assignment(id.topic_id, &id.topic_partition);
    }

    fn take_up_role(&self, change: &PartitionChange, after: &MetadataImage) {
        let id = &change.topic_partition;
        let tp = &id.topic_partition;
        let partition = match self.host(change) {
            Ok(partition) => partition,
            Err(e) => {
                tracing::error!(target: "state.change.logger", "{tp} is offline: {e}");
                self.put_offline(id, e);
                return;
            }
        };
        let new = &change.new;
        let leads = new.leader == self.context.local;
        let begun = match leads {
            true => partition.lead(registration(new)).map(|()| false),
            false => partition.follow(new.leader, new.leader_epoch),
        };
        if let Ok(true) = begun {
            self.checkpoint_recovery_points();
        }
        if let Err(e) = begun {
            let what = if leads { "Leading" } else { "Following" };
            tracing::error!(target: "state.change.logger", "{what} {tp} failed: {e}");
            self.put_offline(id, e);
            self.retire(&partition);
        } else if leads {
            for replica_id in new.replicas.iter().copied() {
                partition.on_event(eligibility(after, replica_id));
            }
        }
    }

    /// Out of service. What is known of its directory stays.
    fn put_offline(&self, id: &TopicIdPartition, error: ReplicaError) {
        let tp = &id.topic_partition;
        let directory_id = match self.topics.read().get(&tp.topic) {
            Some(topic) if topic.topic_id == id.topic_id => {
                match topic.partitions.get(&tp.partition) {
                    Some(Hosted::Offline { directory_id, .. }) => *directory_id,
                    Some(Hosted::Online(partition)) => self
                        .log_dir(partition.log_dir())
                        .filter(|dir| dir.is_failed())
                        .and_then(LogDir::directory_id),
                    None => None,
                }
            }
            Some(_) | None => None,
        };
        let offline = Hosted::Offline {
            error,
            directory_id,
        };
        self.put(id, offline);
    }

    /// The log of a partition that is offline from now on.
    fn retire(&self, partition: &Partition) {
        if let Some(log) = partition.take_log() {
            self.shelve_open(partition.topic_partition(), partition.log_dir(), log);
        }
    }

    /// The partition, made when it is new here.
    fn host(&self, change: &PartitionChange) -> Result<Arc<Partition>, ReplicaError> {
        let id = &change.topic_partition;
        let tp = &id.topic_partition;
        if let Some(topic) = self.topics.read().get(&tp.topic)
            && topic.topic_id == id.topic_id
        {
            match topic.partitions.get(&tp.partition) {
                Some(Hosted::Online(partition)) => return Ok(Arc::clone(partition)),
                // only a restart brings a failed log back
                Some(Hosted::Offline { error, .. }) => return Err(error.clone()),
                None => {}
            }
        }
        let settings = self.topic_settings(&tp.topic);
        let (log_dir, mut log) = match self.claim(id)? {
            Some(claimed) => claimed,
            None => self.create(id, &change.new, &settings.log)?,
        };
        log.set_config(settings.log.clone());
        let partition = Partition::new(id.clone(), log_dir, log, settings, &self.context);
        self.put(id, Hosted::Online(Arc::clone(&partition)));
        Ok(partition)
    }

    /// A log that lay on disk at the start, if it belongs to this topic.
    fn claim(&self, id: &TopicIdPartition) -> Result<Option<(Arc<Path>, Log)>, ReplicaError> {
        let tp = &id.topic_partition;
        let Some(found) = self.unclaimed.lock().remove(tp) else {
            return Ok(None);
        };
        match found.topic_id {
            Some(topic_id) if topic_id != id.topic_id => {
                // of a topic with the same name that was deleted while this broker was away
                self.shelve_unclaimed(tp, found);
                self.set_aside(tp, Aside::Stray)?;
                self.checkpoint_what_is_left();
                return Ok(None);
            }
            Some(_) | None => {}
        }
        let log = match found.log {
            Ok(log) => log,
            Err(e) => {
                self.shelve_unopened(tp, &found.log_dir);
                return Err(e.into());
            }
        };
        if found.topic_id.is_none()
            && let Err(e) = self.write_topic_id(log.dir(), log.vfs().as_ref(), id.topic_id)
        {
            self.shelve_open(tp, &found.log_dir, log);
            return Err(e);
        }
        Ok(Some((found.log_dir, log)))
    }

    fn create(
        &self,
        id: &TopicIdPartition,
        registration: &PartitionRegistration,
        config: &kavka_storage::LogConfig,
    ) -> Result<(Arc<Path>, Log), ReplicaError> {
        let tp = &id.topic_partition;
        // an earlier topic's log that could not be renamed when it was deleted, or that was offline then
        self.set_aside(tp, Aside::Stray)?;
        let mut failure = None;
        loop {
            let dir = match self.dir_for_new_log(tp, registration) {
                Ok(dir) => dir,
                Err(e) => return Err(failure.unwrap_or(e)),
            };
            let created = self.create_in(dir, id, config);
            self.placed(dir);
            match created {
                Ok(log) => return Ok((dir.path().into(), log)),
                // the next one may do
                Err(e) if dir.is_failed() => {
                    tracing::error!(target: "kafka.log.LogManager", "Creating {tp} in {} failed: {e}", dir.path().display());
                    failure = Some(e);
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn create_in(
        &self,
        dir: &LogDir,
        id: &TopicIdPartition,
        config: &kavka_storage::LogConfig,
    ) -> Result<Log, ReplicaError> {
        let tp = &id.topic_partition;
        self.set_folder_aside(dir, tp, Aside::Stray)?;
        let path = dir.log_path(tp);
        // the checkpoints may still name an earlier topic of this name
        let options = OpenOptions {
            latch: Some(dir.latch().clone()),
            ..OpenOptions::new(self.context.clock.wall_ms())
        };
        let (log, _) = Log::open(Arc::clone(dir.vfs()), &path, config.clone(), options)?;
        self.write_topic_id(&path, dir.vfs().as_ref(), id.topic_id)?;
        tracing::info!(target: "kafka.log.LogManager", "Created log for partition {tp} in {}", path.display());
        Ok(log)
    }

    fn write_topic_id(
        &self,
        log_path: &Path,
        vfs: &dyn kavka_storage::vfs::Vfs,
        topic_id: Uuid,
    ) -> Result<(), ReplicaError> {
        write_partition_metadata(vfs, log_path, topic_id).map_err(|e| {
            ReplicaError::Storage(StorageError::io("write partition.metadata of", log_path, e))
        })
    }

    fn put(&self, id: &TopicIdPartition, hosted: Hosted) {
        let mut topics = self.topics.write();
        let topic = topics
            .entry(Arc::clone(&id.topic_partition.topic))
            .or_insert_with(|| HostedTopic {
                topic_id: id.topic_id,
                partitions: BTreeMap::new(),
            });
        topic.topic_id = id.topic_id;
        topic
            .partitions
            .insert(id.topic_partition.partition, hosted);
    }

    /// Takes a replica out of service and renames its folder. Gives what is to be removed, and after which delay.
    fn delete(&self, id: &TopicIdPartition) -> Vec<(PathBuf, i64)> {
        let tp = &id.topic_partition;
        let hosted = {
            let mut topics = self.topics.write();
            let Some(topic) = topics.get_mut(&tp.topic) else {
                return Vec::new();
            };
            if topic.topic_id != id.topic_id {
                return Vec::new();
            }
            let hosted = topic.partitions.remove(&tp.partition);
            if topic.partitions.is_empty() {
                topics.remove(&tp.topic);
            }
            hosted
        };
        let mut delay_ms = 0;
        match hosted {
            Some(Hosted::Online(partition)) => {
                delay_ms = partition.settings().log.file_delete_delay_ms;
                if let Some(log) = partition.take_log() {
                    self.shelve(Shelved {
                        log_dir: Arc::clone(partition.log_dir()),
                        topic_partition: tp.clone(),
                        offsets: log.checkpoint_offsets(),
                        clean: false,
                    });
                }
            }
            Some(Hosted::Offline { .. }) => {}
            None => return Vec::new(),
        }
        match self.set_aside(tp, Aside::Delete) {
            Ok(renamed) => renamed.into_iter().map(|path| (path, delay_ms)).collect(),
            Err(e) => {
                tracing::error!(target: "kafka.log.LogManager", "Deleting {tp} failed: {e}");
                Vec::new()
            }
        }
    }

    /// Removes a renamed folder after the delay; readers may still have its files open. A stop before that leaves the
    /// folder to the next start.
    pub(super) fn remove_later(self: &Arc<Self>, path: PathBuf, delay_ms: i64) {
        let vfs = match self.dirs.dirs.first() {
            Some(dir) => Arc::clone(dir.vfs()),
            None => return,
        };
        let mut stopping = self.stopping.subscribe();
        tokio::spawn(async move {
            let delay = Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0));
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
            let shown = path.display().to_string();
            let removed = tokio::task::spawn_blocking(move || vfs.remove_dir_all(&path)).await;
            match removed {
                Ok(Ok(())) => {
                    tracing::info!(target: "kafka.log.LogManager", "Deleted log folder {shown}");
                }
                Ok(Err(e)) => {
                    tracing::error!(target: "kafka.log.LogManager", "Removing {shown} failed: {e}");
                }
                Err(_) => {}
            }
        });
    }

    fn apply_configs(&self, delta: &MetadataDelta, after: &MetadataImage) {
        let own = ConfigResource::broker(self.context.local);
        let of_broker = delta.configs.contains(&own)
            || delta.configs.contains(&ConfigResource::broker_default());
        if of_broker {
            let overrides = |config: Option<&ResourceConfig>| {
                config
                    .into_iter()
                    .flat_map(|config| config.iter())
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect()
            };
            self.layers.store(Arc::new(Layers {
                file: Arc::clone(&self.layers.load().file),
                dynamic_default: overrides(after.configs.broker_default()),
                dynamic_broker: overrides(after.configs.broker(self.context.local)),
            }));
            let now_ms = self.context.clock.monotonic_ms();
            self.throttles().configure(now_ms, &self.layers.load());
        }
        for partition in self.partitions() {
            let topic = Arc::clone(&partition.topic_partition().topic);
            let changed = of_broker
                || delta.configs.iter().any(|resource| {
                    resource.resource_type == ConfigResourceType::Topic && resource.name == topic
                });
            if changed {
                partition.configure(self.topic_settings(&topic));
            }
        }
    }

    fn apply_brokers(&self, delta: &MetadataDelta, after: &MetadataImage) {
        if delta.brokers.is_empty() {
            return;
        }
        for partition in self.partitions() {
            for replica_id in delta.brokers.iter().copied() {
                partition.on_event(eligibility(after, replica_id));
            }
        }
    }
}

/// What the metadata says of a broker as a member of ISRs.
fn eligibility(after: &MetadataImage, replica_id: NodeId) -> LeaderEvent {
    LeaderEvent::Eligibility {
        replica_id,
        eligible: after.cluster.is_active(replica_id),
        broker_epoch: after
            .cluster
            .broker(replica_id)
            .map_or(BrokerEpoch::UNKNOWN, |broker| broker.broker_epoch),
    }
}

fn registration(registered: &PartitionRegistration) -> Registration {
    Registration {
        replicas: registered.replicas.clone(),
        isr: registered.isr.clone(),
        leader_epoch: registered.leader_epoch,
        partition_epoch: registered.partition_epoch,
    }
}
