//! The group coordinator of this broker: which shard serves which group, and the life of the shards.
//! Not here: decisions (crates/coordinator), decoding of requests (api/).
//! Shared by all connections; the map of hosts changes only when leaderships do.
//! Kafka: org.apache.kafka.coordinator.group.GroupCoordinatorService.

use crate::coordinator::host::Host;
use crate::coordinator::loader::{self, LoadError};
use crate::coordinator::partition_for;
use crate::replica::{Partition, ReplicaManager};
use kavka_common::topic::GROUP_METADATA_TOPIC;
use kavka_common::{Clock, LeaderEpoch, TopicIdPartition, Uuid};
use kavka_config::BrokerConfig;
use kavka_coordinator::group::{
    DeletedTopic, GroupConfig, GroupRequest, GroupResponse, GroupShard,
};
use kavka_metadata::{LocalReplicaChanges, MetadataDelta, MetadataImage};
use kavka_protocol::{ErrorCode, StrBytes};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Before a partition that could not be read is read again.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// Settings of this room that are not the shards' own.
#[derive(Clone, Debug)]
pub struct GroupSettings {
    pub shard: GroupConfig,
    pub offsets_commit_timeout_ms: i64,
}

impl GroupSettings {
    pub fn of(config: &BrokerConfig) -> GroupSettings {
        let minutes_ms = 60_000;
        GroupSettings {
            shard: GroupConfig {
                group_min_session_timeout_ms: config.int("group.min.session.timeout.ms"),
                group_max_session_timeout_ms: config.int("group.max.session.timeout.ms"),
                group_max_size: usize::try_from(config.int("group.max.size")).unwrap_or(usize::MAX),
                group_initial_rebalance_delay_ms: i64::from(
                    config.int("group.initial.rebalance.delay.ms"),
                ),
                offset_metadata_max_bytes: usize::try_from(config.int("offset.metadata.max.bytes"))
                    .unwrap_or(0),
                offsets_retention_ms: i64::from(config.int("offsets.retention.minutes"))
                    * minutes_ms,
                offsets_retention_check_interval_ms: config
                    .long("offsets.retention.check.interval.ms"),
            },
            offsets_commit_timeout_ms: i64::from(config.int("offsets.commit.timeout.ms")),
        }
    }
}

/// The settings of the broker that this room acts on.
pub const ACTED_ON: &[&str] = &[
    "group.min.session.timeout.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.initial.rebalance.delay.ms",
    "offset.metadata.max.bytes",
    "offsets.retention.minutes",
    "offsets.retention.check.interval.ms",
    "offsets.commit.timeout.ms",
];

type GroupHost = Host<GroupShard>;

/// Serves the groups whose partition of `__consumer_offsets` this broker leads.
pub struct GroupCoordinator {
    settings: GroupSettings,
    replicas: Arc<ReplicaManager>,
    clock: Arc<dyn Clock>,
    hosts: RwLock<Hosts>,
    metadata_is_current: AtomicBool,
}

/// By the number of the partition.
#[derive(Default)]
struct Hosts {
    hosts: BTreeMap<i32, Arc<GroupHost>>,
    /// No host comes after the stop.
    stopped: bool,
}

impl std::fmt::Debug for GroupCoordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "GroupCoordinator({} shards)",
            self.hosts.read().hosts.len()
        )
    }
}

impl GroupCoordinator {
    pub fn new(settings: GroupSettings, replicas: Arc<ReplicaManager>) -> Arc<GroupCoordinator> {
        Arc::new(GroupCoordinator {
            settings,
            clock: Arc::clone(replicas.clock()),
            replicas,
            hosts: RwLock::default(),
            metadata_is_current: AtomicBool::new(false),
        })
    }

    /// The newest image that the replicas have applied: names and ids of topics.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.replicas.image()
    }

    /// The partition of `__consumer_offsets` that a group belongs to; `None` while that topic does not exist.
    pub fn partition_of(image: &MetadataImage, group_id: &str) -> Option<i32> {
        let topic = image.topics.by_name(GROUP_METADATA_TOPIC)?;
        let count = i32::try_from(topic.partitions.size()).ok()?;
        Some(partition_for(group_id, count))
    }

    /// The shard of a group.
    pub fn host(&self, group_id: &str) -> Result<Arc<GroupHost>, ErrorCode> {
        let partition = Self::partition_of(&self.image(), group_id)
            .ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let hosts = self.hosts.read();
        hosts
            .hosts
            .get(&partition)
            .cloned()
            .ok_or(ErrorCode::NotCoordinator)
    }

    /// All shards of this broker.
    pub fn hosts(&self) -> Vec<Arc<GroupHost>> {
        self.hosts.read().hosts.values().cloned().collect()
    }

    /// Decides in the order of calls; the returned future waits for the answer.
    pub fn submit(
        &self,
        group_id: &str,
        request: GroupRequest,
    ) -> impl Future<Output = Result<GroupResponse, ErrorCode>> + Send + use<> {
        let submitted = self.host(group_id).and_then(|host| host.submit(request));
        async move {
            // A dropped sender: the shard moved away in between.
            submitted?.await.map_err(|_| ErrorCode::NotCoordinator)
        }
    }

    /// Follows the leaderships of `__consumer_offsets`, and deleted topics; called after the replicas took the same
    /// change over.
    pub fn follow(self: &Arc<Self>, delta: &MetadataDelta, changes: &LocalReplicaChanges) {
        // What ends comes first: the topic may be gone and made again in one change.
        let left = changes
            .followers
            .iter()
            .map(|change| &change.topic_partition)
            .chain(&changes.deletes);
        for id in left {
            if &*id.topic_partition.topic == GROUP_METADATA_TOPIC {
                self.resign(id);
            }
        }
        for change in &changes.leaders {
            let id = &change.topic_partition;
            if &*id.topic_partition.topic == GROUP_METADATA_TOPIC {
                self.lead(id, change.new.leader_epoch);
            }
        }
        self.forget_topics(delta);
    }

    /// Begins to serve a partition. Nothing happens while the same leadership goes on; a later one begins from the log
    /// anew, because what this broker had in flight may not be in it.
    fn lead(self: &Arc<Self>, id: &TopicIdPartition, leader_epoch: LeaderEpoch) {
        let number = id.topic_partition.partition;
        let tp = &id.topic_partition;
        if let Some(host) = self.hosts.read().hosts.get(&number)
            && host.partition().topic_id() == id.topic_id
            && host.leader_epoch() >= leader_epoch
        {
            return;
        }
        let partition = match self.replicas.partition(&tp.topic, number) {
            Ok(partition) if partition.topic_id() == id.topic_id => partition,
            // The image is further than this change.
            Ok(_) => return,
            Err(e) => {
                tracing::error!(target: "kafka.coordinator.group", "{tp} cannot be served: {e}");
                return;
            }
        };
        let host = GroupHost::new(
            GroupShard::new(self.settings.shard.clone()),
            Arc::clone(&partition),
            leader_epoch,
            Arc::clone(&self.clock),
            self.settings.offsets_commit_timeout_ms,
        );
        let earlier = {
            let mut hosts = self.hosts.write();
            if hosts.stopped {
                return;
            }
            hosts.hosts.insert(number, Arc::clone(&host))
        };
        if let Some(earlier) = earlier {
            earlier.unload();
        }
        tokio::spawn(Arc::clone(&host).drive());
        if partition.is_empty() {
            // Nothing to read: served at once, which is how each partition of a new topic begins.
            host.activate();
            return;
        }
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.load(&host, &partition, number));
    }

    fn load(self: &Arc<Self>, host: &Arc<GroupHost>, partition: &Partition, number: i32) {
        let started_ms = self.clock.monotonic_ms();
        match loader::load(host, partition) {
            Ok(loaded) => {
                if host.activate() {
                    tracing::info!(target: "kafka.coordinator.group", "Loaded {} records ({} bytes) of {} in {} ms", loaded.records, loaded.bytes, partition.topic_partition(), self.clock.monotonic_ms() - started_ms);
                    self.forget_missing_topics(host);
                }
            }
            // Whoever ended it has taken the host away, or is about to.
            Err(LoadError::Superseded) => host.unload(),
            Err(e) => {
                tracing::error!(target: "kafka.coordinator.group", "{} cannot be loaded, its groups are not served: {e}", partition.topic_partition());
                host.unload();
                let current = {
                    let mut hosts = self.hosts.write();
                    // A later leadership may have begun meanwhile.
                    let current = hosts
                        .hosts
                        .get(&number)
                        .is_some_and(|current| Arc::ptr_eq(current, host));
                    if current {
                        hosts.hosts.remove(&number);
                    }
                    current
                };
                if current && e.is_of_the_disk() {
                    self.load_later(host);
                }
            }
        }
    }

    /// What the disk refuses once may pass, and the leadership goes on: nobody else serves these groups.
    fn load_later(self: &Arc<Self>, host: &Arc<GroupHost>) {
        // None while the process stops.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let this = Arc::clone(self);
        let id = host.partition().id().clone();
        let leader_epoch = host.leader_epoch();
        runtime.spawn(async move {
            tokio::time::sleep(LOAD_PAUSE).await;
            let leads = this
                .replicas
                .partition(&id.topic_partition.topic, id.topic_partition.partition)
                .is_ok_and(|partition| partition.leads_in(leader_epoch));
            if leads {
                this.lead(&id, leader_epoch);
            }
        });
    }

    fn resign(&self, id: &TopicIdPartition) {
        let number = id.topic_partition.partition;
        let host = {
            let mut hosts = self.hosts.write();
            match hosts.hosts.get(&number) {
                Some(host) if host.partition().topic_id() == id.topic_id => {
                    hosts.hosts.remove(&number)
                }
                Some(_) | None => None,
            }
        };
        if let Some(host) = host {
            host.unload();
        }
    }

    /// Has the groups forget their offsets of topics that a change deletes.
    fn forget_topics(&self, delta: &MetadataDelta) {
        let deleted: Vec<DeletedTopic> = delta
            .topics_deleted
            .iter()
            .filter_map(|id| delta.before.topics.get(id))
            .map(|topic| DeletedTopic {
                name: StrBytes::from(&*topic.name),
                id: topic.id,
            })
            .collect();
        if deleted.is_empty() {
            return;
        }
        for host in self.hosts() {
            // Nobody waits for it. A shard that is being loaded looks itself when it is.
            let _ = host.submit(GroupRequest::TopicsDeleted(deleted.clone()));
        }
    }

    /// From now on the image knows every topic for which an offset can be stored: what it does not know is gone.
    ///
    /// A topic's records come before those of a leadership in which an offset for it was stored, so a broker that has
    /// read the metadata up to its own registration has them. Kafka leaves offsets of topics that were deleted while
    /// no coordinator ran.
    pub fn metadata_is_current(&self) {
        self.metadata_is_current.store(true, Ordering::SeqCst);
        for host in self.hosts() {
            self.forget_missing_topics(&host);
        }
    }

    fn forget_missing_topics(&self, host: &GroupHost) {
        if !self.metadata_is_current.load(Ordering::SeqCst) {
            return;
        }
        let Ok(known) = host.read(GroupShard::committed_topics) else {
            return;
        };
        let image = self.image();
        let missing: Vec<DeletedTopic> = known
            .into_iter()
            .filter(|(name, id)| match *id {
                Uuid::ZERO => !image.topics.contains(name),
                id => image.topics.get(&id).is_none(),
            })
            .map(|(name, id)| DeletedTopic { name, id })
            .collect();
        if !missing.is_empty() {
            // Nobody waits for it.
            let _ = host.submit(GroupRequest::TopicsDeleted(missing));
        }
    }

    /// Answers everybody who waits, and serves no more; for the orderly stop, before the listeners close.
    pub fn stop(&self) {
        let hosts = {
            let mut hosts = self.hosts.write();
            hosts.stopped = true;
            std::mem::take(&mut hosts.hosts)
        };
        for host in hosts.into_values() {
            host.unload();
        }
    }
}

#[cfg(test)]
#[path = "groups_test.rs"]
mod tests;
