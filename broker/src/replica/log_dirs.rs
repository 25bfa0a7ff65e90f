//! Which directory a log lies in, and what DescribeLogDirs tells of each.
//! Not here: the directories themselves (kavka_storage::LogDir), moving logs between them.
//! Called on the blocking pool: asks the file system. Kafka: LogManager.nextLogDirs, ReplicaManager.describeLogDirs; KIP-113, KIP-827, KIP-858.

use crate::replica::error::ReplicaError;
use crate::replica::manager::{Hosted, ReplicaManager};
use crate::replica::partition::Partition;
use crate::replica::placement::{Placement, place};
use kavka_common::{Offset, TopicPartition, Uuid};
use kavka_metadata::PartitionRegistration;
use kavka_storage::LogDir;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One replica in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSize {
    pub topic_partition: TopicPartition,
    pub size_bytes: u64,
    pub offset_lag: Offset,
}

/// One directory of `log.dirs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirDescription {
    pub path: PathBuf,
    pub is_offline: bool,
    /// -1 when the file system does not say.
    pub total_bytes: i64,
    pub usable_bytes: i64,
    pub replicas: Vec<ReplicaSize>,
}

impl ReplicaManager {
    /// The directory for a new log: the assigned one, else the one with the fewest logs. `placed` when it is made there.
    pub(super) fn dir_for_new_log(
        &self,
        tp: &TopicPartition,
        registration: &PartitionRegistration,
    ) -> Result<&LogDir, ReplicaError> {
        let is_live = |id| self.dirs.live_by_id(id).is_some();
        let any_offline = self.dirs.any_offline();
        let assigned = match place(registration, self.context.local, is_live, any_offline) {
            Placement::Refused => return Err(ReplicaError::LogDirOffline(tp.clone())),
            Placement::Assigned(id) => self.dirs.live_by_id(id),
            Placement::Any => None,
        };
        let mut placing = self.placing.lock();
        let dir = match assigned {
            Some(dir) => dir,
            None => {
                let partitions = self.partitions();
                let unclaimed = self.unclaimed.lock();
                let logs_in = |dir: &LogDir| {
                    let here = |path: &Path| path == dir.path();
                    let hosted = partitions.iter().filter(|p| here(p.log_dir())).count();
                    let waiting = unclaimed.values().filter(|f| here(&f.log_dir)).count();
                    hosted + waiting + placing.get(dir.path()).copied().unwrap_or(0)
                };
                self.dirs
                    .choose_for_new_log(logs_in)
                    .ok_or_else(|| ReplicaError::LogDirOffline(tp.clone()))?
            }
        };
        *placing.entry(dir.path().to_owned()).or_insert(0) += 1;
        Ok(dir)
    }

    /// A log that a directory was chosen for is made, or will not be.
    pub(super) fn placed(&self, dir: &LogDir) {
        if let Some(under_way) = self.placing.lock().get_mut(dir.path()) {
            *under_way -= 1;
        }
    }

    /// Retires directories as they fail, until the broker stops.
    pub(super) async fn watch_dirs(self: Arc<Self>) {
        let mut stopping = self.stopping.subscribe();
        loop {
            let this = Arc::clone(&self);
            let retired = tokio::task::spawn_blocking(move || this.retire_failed_dirs());
            if let Err(e) = retired.await {
                self.report_join_error("retiring failed directories", &e);
                return;
            }
            tokio::select! {
                () = self.dir_alarm.notified() => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
        }
    }

    /// Takes the partitions of failed directories out of service; only a restart brings them back.
    pub fn retire_failed_dirs(&self) {
        for dir in self.dirs.dirs.iter().filter(|dir| dir.is_failed()) {
            let Err(error) = dir.latch().check() else {
                continue;
            };
            let here: Vec<_> = self
                .partitions()
                .into_iter()
                .filter(|partition| **partition.log_dir() == *dir.path())
                .collect();
            if !here.is_empty() {
                tracing::error!(target: "kafka.server.ReplicaManager", "{} partitions go offline: {error}", here.len());
            }
            for partition in here {
                self.take_offline(&partition, error.clone().into(), dir.directory_id());
                self.check_assignment(partition.topic_id(), partition.topic_partition());
            }
            self.failed_dirs.send_if_modified(|failed| {
                let known = failed.insert(dir.path().to_owned(), dir.directory_id());
                known.is_none()
            });
        }
        if self.dirs.live().next().is_none() && !self.all_dirs_failed.send_replace(true) {
            tracing::error!(target: "kafka.log.LogManager", "Shutdown broker because all log dirs have failed");
        }
    }

    fn take_offline(&self, partition: &Partition, error: ReplicaError, directory_id: Option<Uuid>) {
        let tp = partition.topic_partition();
        if let Some(topic) = self.topics.write().get_mut(&tp.topic)
            && topic.topic_id == partition.topic_id()
        {
            let offline = Hosted::Offline {
                error,
                directory_id,
            };
            topic.partitions.insert(tp.partition, offline);
        }
        // the log is dropped as it is: nothing more is written to this directory
        drop(partition.take_log());
    }

    pub fn describe_log_dirs(&self) -> Vec<DirDescription> {
        let partitions = self.partitions();
        let described = self.dirs.dirs.iter().map(|dir| {
            let space = dir.space().ok();
            let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            DirDescription {
                path: dir.path().to_owned(),
                is_offline: dir.is_failed(),
                total_bytes: space.map_or(-1, |space| bytes(space.total_bytes)),
                usable_bytes: space.map_or(-1, |space| bytes(space.usable_bytes)),
                replicas: partitions
                    .iter()
                    .filter(|partition| **partition.log_dir() == *dir.path())
                    .filter_map(|partition| {
                        partition.maintain(|log| ReplicaSize {
                            topic_partition: partition.topic_partition().clone(),
                            size_bytes: log.size_bytes(),
                            offset_lag: (log.high_watermark() - log.log_end_offset()).max(0),
                        })
                    })
                    .collect(),
            }
        });
        let unopened = self.dirs.unopened.iter().map(|path| DirDescription {
            path: path.clone(),
            is_offline: true,
            total_bytes: -1,
            usable_bytes: -1,
            replicas: Vec::new(),
        });
        described.chain(unopened).collect()
    }
}
