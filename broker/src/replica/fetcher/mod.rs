//! Fetching from other brokers: which leader is asked for which partition.
//! Not here: one leader's connection (task.rs), the messages (wire.rs), what an answer means (kavka_replication::Fetcher).
//! `follow` is called by the task that applies metadata; each leader has its own task (`num.replica.fetchers` of them).
//! Kafka: ReplicaFetcherManager, AbstractFetcherManager; KIP-227.

mod task;
mod wire;

use crate::replica::manager::ReplicaManager;
use crate::replica::partition::Partition;
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, TopicIdPartition};
use kavka_config::BrokerConfig;
use kavka_metadata::LocalReplicaChanges;
use kavka_replication::{FetchPosition, FetcherConfig};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use task::{Change, FetcherTask};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The settings of all fetchers of a broker.
#[derive(Clone, Debug)]
pub struct FetcherSettings {
    pub fetcher: FetcherConfig,
    /// `num.replica.fetchers`: connections to each leader.
    pub fetchers_per_leader: u32,
    /// `replica.socket.timeout.ms`.
    pub request_timeout: Duration,
    /// `socket.connection.setup.timeout.ms`.
    pub connect_timeout: Duration,
    /// `inter.broker.listener.name`.
    pub listener: String,
}

impl FetcherSettings {
    /// The settings that are read here.
    pub const KEYS: &[&str] = &[
        "inter.broker.listener.name",
        "num.replica.fetchers",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.socket.timeout.ms",
        "socket.connection.setup.timeout.ms",
    ];

    pub fn from_config(config: &BrokerConfig) -> FetcherSettings {
        FetcherSettings {
            fetcher: FetcherConfig {
                wait_ms_max: config.int("replica.fetch.wait.max.ms"),
                min_bytes: config.int("replica.fetch.min.bytes"),
                response_bytes_max: config.int("replica.fetch.response.max.bytes"),
                partition_bytes_max: config.int("replica.fetch.max.bytes"),
                backoff_ms_max: config.long("replica.fetch.backoff.ms"),
            },
            fetchers_per_leader: u32::try_from(config.int("num.replica.fetchers")).unwrap_or(1),
            request_timeout: Duration::from_millis(config.unsigned("replica.socket.timeout.ms")),
            connect_timeout: Duration::from_millis(
                config.unsigned("socket.connection.setup.timeout.ms"),
            ),
            listener: config.inter_broker_listener_name().to_owned(),
        }
    }
}

/// A leader, and which of the connections to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FetcherKey {
    leader_id: NodeId,
    index: u32,
}

struct Running {
    /// Bounded by the metadata: at most one change of each partition for each image.
    changes: mpsc::UnboundedSender<Vec<Change>>,
    task: JoinHandle<()>,
}

/// All fetchers of a broker.
pub struct Fetchers {
    replicas: Arc<ReplicaManager>,
    settings: Arc<FetcherSettings>,
    broker_epoch: watch::Receiver<BrokerEpoch>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: BTreeMap<FetcherKey, Running>,
    assigned: HashMap<TopicIdPartition, (FetcherKey, LeaderEpoch)>,
    stopped: bool,
}

impl Fetchers {
    pub fn new(
        replicas: Arc<ReplicaManager>,
        settings: FetcherSettings,
        broker_epoch: watch::Receiver<BrokerEpoch>,
    ) -> Arc<Fetchers> {
        Arc::new(Fetchers {
            replicas,
            settings: Arc::new(settings),
            broker_epoch,
            state: Mutex::default(),
        })
    }

    /// Takes over what an image meant for this broker's replicas, once they have taken it over.
    pub fn follow(&self, changes: &LocalReplicaChanges) {
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        let mut told: BTreeMap<FetcherKey, Vec<Change>> = BTreeMap::new();
        let gone = changes.deletes.iter();
        for id in gone.chain(changes.leaders.iter().map(|change| &change.topic_partition)) {
            if let Some((key, _)) = state.assigned.remove(id) {
                told.entry(key)
                    .or_default()
                    .push(Change::Remove(id.clone()));
            }
        }
        for change in &changes.followers {
            let id = &change.topic_partition;
            let wanted = self.following(id).map(|(partition, leader_id, position)| {
                let index = index_of(id, self.settings.fetchers_per_leader);
                (partition, FetcherKey { leader_id, index }, position)
            });
            let known = state.assigned.get(id).copied();
            if let Some((_, key, position)) = &wanted
                && known == Some((*key, position.leader_epoch))
            {
                continue;
            }
            if let Some((old, _)) = known
                && wanted.as_ref().is_none_or(|(_, key, _)| *key != old)
            {
                state.assigned.remove(id);
                told.entry(old)
                    .or_default()
                    .push(Change::Remove(id.clone()));
            }
            if let Some((partition, key, position)) = wanted {
                state
                    .assigned
                    .insert(id.clone(), (key, position.leader_epoch));
                told.entry(key)
                    .or_default()
                    .push(Change::Follow(id.clone(), partition, position));
            }
        }
        for (key, changes) in told {
            let running = state.running.entry(key).or_insert_with(|| self.start(key));
            // a task ends only when it is stopped
            let _ = running.changes.send(changes);
        }
    }

    fn following(&self, id: &TopicIdPartition) -> Option<(Arc<Partition>, NodeId, FetchPosition)> {
        let tp = &id.topic_partition;
        let partition = self.replicas.partition(&tp.topic, tp.partition).ok()?;
        if partition.topic_id() != id.topic_id {
            return None;
        }
        let (leader_id, position) = partition.following()?;
        Some((partition, leader_id, position))
    }

    fn start(&self, key: FetcherKey) -> Running {
        let (changes, receiver) = mpsc::unbounded_channel();
        let task = FetcherTask::new(
            Arc::clone(&self.replicas),
            Arc::clone(&self.settings),
            self.broker_epoch.clone(),
            (key.leader_id, key.index),
        );
        Running {
            changes,
            task: tokio::spawn(
                Arc::clone(&self.replicas).watched("a replica fetcher", task.run(receiver)),
            ),
        }
    }

    /// Ends all fetching; on return no fetcher touches a log any more.
    pub async fn stop(&self) {
        let running = {
            let mut state = self.state.lock();
            state.stopped = true;
            state.assigned.clear();
            std::mem::take(&mut state.running)
        };
        for running in running.into_values() {
            running.task.abort();
            // aborted, or ended by a panic that the panic hook has reported
            let _ = running.task.await;
        }
    }
}

/// Spreads partitions over the connections to one leader; the same on each start.
fn index_of(id: &TopicIdPartition, fetchers: u32) -> u32 {
    let name = id.topic_partition.topic.bytes();
    let hash = name.fold(id.topic_partition.partition.unsigned_abs(), |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    hash % fetchers.max(1)
}
