//! The group coordinator of this broker: which shard serves which group, and the life of the shards.
//! Not here: decisions (crates/coordinator), decoding of requests (api/).
//! Shared by all connections; the map of hosts changes only when leaderships do.
//! Kafka: org.apache.kafka.coordinator.group.GroupCoordinatorService.

use crate::coordinator::host::Host;
use crate::coordinator::{loader, partition_for};
use crate::replica::{Partition, ReplicaManager};
use kavka_common::topic::GROUP_METADATA_TOPIC;
use kavka_common::{Clock, TopicPartition};
use kavka_config::BrokerConfig;
use kavka_coordinator::group::{GroupConfig, GroupRequest, GroupResponse, GroupShard};
use kavka_metadata::{LocalReplicaChanges, MetadataImage};
use kavka_protocol::ErrorCode;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    hosts: RwLock<BTreeMap<i32, Arc<GroupHost>>>,
}

impl std::fmt::Debug for GroupCoordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GroupCoordinator({} shards)", self.hosts.read().len())
    }
}

impl GroupCoordinator {
    pub fn new(settings: GroupSettings, replicas: Arc<ReplicaManager>) -> Arc<GroupCoordinator> {
        Arc::new(GroupCoordinator {
            settings,
            clock: Arc::clone(replicas.clock()),
            replicas,
            hosts: RwLock::default(),
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
            .get(&partition)
            .cloned()
            .ok_or(ErrorCode::NotCoordinator)
    }

    /// All shards of this broker.
    pub fn hosts(&self) -> Vec<Arc<GroupHost>> {
        self.hosts.read().values().cloned().collect()
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

    /// Follows the leaderships of `__consumer_offsets`; called after the replicas took the same change over.
    pub fn follow(self: &Arc<Self>, changes: &LocalReplicaChanges) {
        for change in &changes.leaders {
            let id = &change.topic_partition.topic_partition;
            if &*id.topic == GROUP_METADATA_TOPIC {
                self.lead(id);
            }
        }
        let left = changes
            .followers
            .iter()
            .map(|change| &change.topic_partition)
            .chain(&changes.deletes);
        for id in left {
            if &*id.topic_partition.topic == GROUP_METADATA_TOPIC {
                self.resign(id.topic_partition.partition);
            }
        }
    }

    fn lead(self: &Arc<Self>, id: &TopicPartition) {
        if self.hosts.read().contains_key(&id.partition) {
            return;
        }
        let partition = match self.replicas.partition(&id.topic, id.partition) {
            Ok(partition) => partition,
            Err(e) => {
                tracing::error!(target: "kafka.coordinator.group", "{id} cannot be served: {e}");
                return;
            }
        };
        let host = GroupHost::new(
            GroupShard::new(self.settings.shard.clone()),
            Arc::clone(&partition),
            Arc::clone(&self.clock),
            self.settings.offsets_commit_timeout_ms,
        );
        self.hosts.write().insert(id.partition, Arc::clone(&host));
        tokio::spawn(Arc::clone(&host).drive());
        if partition.is_empty() {
            // Nothing to read: served at once, which is how each partition of a new topic begins.
            host.activate();
            return;
        }
        let this = Arc::clone(self);
        let number = id.partition;
        tokio::task::spawn_blocking(move || this.load(&host, &partition, number));
    }

    fn load(&self, host: &Arc<GroupHost>, partition: &Partition, number: i32) {
        let started_ms = self.clock.monotonic_ms();
        match loader::load(host, partition) {
            Ok(loaded) => {
                host.activate();
                tracing::info!(target: "kafka.coordinator.group", "Loaded {} records ({} bytes) of {} in {} ms", loaded.records, loaded.bytes, partition.topic_partition(), self.clock.monotonic_ms() - started_ms);
            }
            Err(e) => {
                tracing::error!(target: "kafka.coordinator.group", "{} cannot be loaded, its groups are not served: {e}", partition.topic_partition());
                host.unload();
                self.hosts.write().remove(&number);
            }
        }
    }

    fn resign(&self, number: i32) {
        let host = self.hosts.write().remove(&number);
        if let Some(host) = host {
            host.unload();
        }
    }

    /// Answers everybody who waits; for the orderly stop, before the listeners close.
    pub fn stop(&self) {
        let hosts = std::mem::take(&mut *self.hosts.write());
        for host in hosts.into_values() {
            host.unload();
        }
    }
}

#[cfg(test)]
#[path = "groups_test.rs"]
mod tests;
