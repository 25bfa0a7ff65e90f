//! All partitions of this broker by name and id, and what spans several of them.
//! Not here: acting on metadata (apply.rs), start and stop (recovery.rs), background work (maintenance.rs).
//! Any task. The map is behind a read-write lock held only for look-ups and changes of the map itself.
//! Kafka: kafka.server.ReplicaManager; KIP-516, KIP-951.

use crate::logging::RateLimit;
use crate::replica::append::{self, Acks};
use crate::replica::assignments::Unassigned;
use crate::replica::error::ReplicaError;
use crate::replica::partition::{Appended, IsrProposal, Partition, PartitionContext};
use crate::replica::purgatory::Waiter;
use crate::replica::recovery::Unclaimed;
use crate::replica::settings::{ReplicaSettings, TopicSettings};
use crate::replica::shelf::Shelved;
use crate::replica::throttle::Throttles;
use arc_swap::ArcSwap;
use bytes::Bytes;
use kavka_common::{Clock, LeaderEpoch, NodeId, Offset, TopicPartition, Uuid};
use kavka_config::Layers;
use kavka_metadata::MetadataImage;
use kavka_replication::{
    FetchContext, FetchSessionCache, FetchSessionError, PartitionOutcome, SessionId, SessionRequest,
};
use kavka_storage::{LogDirs, ProducerEntry};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// A partition that the metadata assigns to this broker.
#[derive(Clone, Debug)]
pub(super) enum Hosted {
    Online(Arc<Partition>),
    /// Its log could not be opened, or its directory failed.
    Offline {
        error: ReplicaError,
        /// The directory that failed, where it is known.
        directory_id: Option<Uuid>,
    },
}

#[derive(Debug)]
pub(super) struct HostedTopic {
    pub(super) topic_id: Uuid,
    pub(super) partitions: BTreeMap<i32, Hosted>,
}

/// Where the leader of a partition can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderEndpoint {
    pub host: Arc<str>,
    pub port: u16,
    pub rack: Option<Arc<str>>,
}

/// What a client that asked the wrong broker is told (KIP-951).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderHint {
    pub leader_id: NodeId,
    pub leader_epoch: LeaderEpoch,
    pub endpoint: Option<LeaderEndpoint>,
}

/// The replicas of this broker.
pub struct ReplicaManager {
    pub(super) settings: ReplicaSettings,
    pub(super) context: PartitionContext,
    pub(super) dirs: Arc<LogDirs>,
    pub(super) layers: ArcSwap<Layers>,
    pub(super) image: ArcSwap<MetadataImage>,
    pub(super) topics: RwLock<HashMap<Arc<str>, HostedTopic>>,
    pub(super) unclaimed: Mutex<HashMap<TopicPartition, Unclaimed>>,
    /// Logs that are being made in each directory.
    pub(super) placing: Mutex<HashMap<PathBuf, usize>>,
    /// On disk, but not served.
    pub(super) shelf: Mutex<Vec<Shelved>>,
    /// The registration of this life of the broker, until the metadata has it: before, nothing is acted on.
    pub(super) awaited: Mutex<Option<Uuid>>,
    /// Metadata is applied by one task at a time.
    pub(super) applying: Arc<tokio::sync::Mutex<()>>,
    /// Checkpoint files are written by one task at a time.
    pub(super) checkpointing: Mutex<()>,
    pub(super) stopping: watch::Sender<bool>,
    pub(super) all_dirs_failed: watch::Sender<bool>,
    /// The directories whose partitions are offline, with their ids.
    pub(super) failed_dirs: watch::Sender<BTreeMap<PathBuf, Option<Uuid>>>,
    /// A directory has failed, and its partitions may still be there.
    pub(super) dir_alarm: Arc<Notify>,
    pub(super) unassigned: Unassigned,
    pub(super) panicked: watch::Sender<Option<&'static str>>,
    /// Clients try again at once, and the log file may lie on the very disk that is full.
    append_failures: RateLimit,
    sessions: Mutex<FetchSessionCache>,
    proposals: Mutex<Option<mpsc::UnboundedReceiver<IsrProposal>>>,
}

impl std::fmt::Debug for ReplicaManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReplicaManager(broker {})", self.context.local)
    }
}

impl ReplicaManager {
    /// `dirs` are open and belong to this broker. Nothing is read before `recover`.
    pub fn new(
        local: NodeId,
        settings: ReplicaSettings,
        layers: Layers,
        dirs: Arc<LogDirs>,
        clock: Arc<dyn Clock>,
    ) -> Arc<ReplicaManager> {
        let (proposals, receiver) = mpsc::unbounded_channel();
        let dir_alarm = Arc::new(Notify::new());
        for dir in &dirs.dirs {
            let alarm = Arc::clone(&dir_alarm);
            dir.latch().on_failure(move || alarm.notify_one());
        }
        Arc::new(ReplicaManager {
            context: PartitionContext {
                local,
                replica_lag_ms_max: settings.replica_lag_ms_max,
                clock,
                proposals,
                throttles: Arc::new(Throttles::new(settings.replication_quota_window_ms)),
            },
            sessions: Mutex::new(FetchSessionCache::new(settings.fetch_session_slots)),
            settings,
            dirs,
            layers: ArcSwap::from_pointee(layers),
            image: ArcSwap::from_pointee(MetadataImage::default()),
            topics: RwLock::default(),
            unclaimed: Mutex::default(),
            placing: Mutex::default(),
            shelf: Mutex::default(),
            awaited: Mutex::default(),
            applying: Arc::default(),
            checkpointing: Mutex::default(),
            stopping: watch::Sender::new(false),
            all_dirs_failed: watch::Sender::new(false),
            failed_dirs: watch::Sender::default(),
            dir_alarm,
            unassigned: Unassigned::default(),
            panicked: watch::Sender::new(None),
            append_failures: RateLimit::per_second(1),
            proposals: Mutex::new(Some(receiver)),
        })
    }

    /// The limits on replication.
    pub fn throttles(&self) -> &Throttles {
        &self.context.throttles
    }

    /// This broker.
    pub fn local(&self) -> NodeId {
        self.context.local
    }

    /// Nothing is acted on before the metadata has the registration with this incarnation. What was decided before is about
    /// an earlier life of this broker, which may have known more: one that lost its log's tail must not lead on in the
    /// epoch of old, nor note the starts of epochs that it led long ago.
    pub fn await_registration(&self, incarnation_id: Uuid) {
        *self.awaited.lock() = Some(incarnation_id);
    }

    pub fn settings(&self) -> &ReplicaSettings {
        &self.settings
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.context.clock
    }

    /// The newest image that was taken over.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    pub fn dirs(&self) -> &Arc<LogDirs> {
        &self.dirs
    }

    /// Completes when no log directory works any more: a broker without disk must stop, so that others lead.
    pub async fn all_dirs_failed(&self) {
        let mut failed = self.all_dirs_failed.subscribe();
        // the sender lives in self, so the wait cannot fail
        let _ = failed.wait_for(|failed| *failed).await;
    }

    /// The directories that failed and whose partitions are out of service, with their ids.
    pub fn failed_dirs(&self) -> watch::Receiver<BTreeMap<PathBuf, Option<Uuid>>> {
        self.failed_dirs.subscribe()
    }

    /// The ISRs that leaders here want registered; for the one task that talks to the controller about them.
    pub fn take_isr_proposals(&self) -> Option<mpsc::UnboundedReceiver<IsrProposal>> {
        self.proposals.lock().take()
    }

    /// A partition by its topic's name.
    pub fn partition(&self, topic: &str, partition: i32) -> Result<Arc<Partition>, ReplicaError> {
        if let Some(hosted) = self.topics.read().get(topic)
            && let Some(hosted) = hosted.partitions.get(&partition)
        {
            return match hosted {
                Hosted::Online(partition) => Ok(Arc::clone(partition)),
                Hosted::Offline { error, .. } => Err(error.clone()),
            };
        }
        // known elsewhere: the client's metadata is old, not wrong
        match self.image.load().topics.partition(topic, partition) {
            Some(_) => Err(ReplicaError::NotLeaderOrFollower),
            None => Err(ReplicaError::UnknownTopicOrPartition),
        }
    }

    /// A partition by its topic's id.
    pub fn partition_by_id(
        &self,
        topic_id: Uuid,
        partition: i32,
    ) -> Result<Arc<Partition>, ReplicaError> {
        let image = self.image.load();
        let topic = image
            .topics
            .name_of(&topic_id)
            .ok_or(ReplicaError::UnknownTopicId)?;
        let found = self.partition(topic, partition)?;
        // between two images the name may belong to a topic that was made anew
        if found.topic_id() == topic_id {
            Ok(found)
        } else {
            Err(ReplicaError::UnknownTopicId)
        }
    }

    /// Whether the cluster has a topic of this name.
    pub fn knows_topic(&self, topic: &str) -> bool {
        self.image.load().topics.contains(topic)
    }

    /// Who leads a partition, by name or, where the name is empty, by id.
    pub fn leader_hint(
        &self,
        topic: &str,
        topic_id: Uuid,
        partition: i32,
        listener: &str,
    ) -> Option<LeaderHint> {
        let image = self.image.load();
        let topic = if topic.is_empty() {
            image.topics.get(&topic_id)?
        } else {
            image.topics.by_name(topic)?
        };
        let registration = topic.partition(partition)?;
        let endpoint = image
            .cluster
            .broker(registration.leader)
            .and_then(|broker| {
                let endpoint = broker.endpoint(listener)?;
                Some(LeaderEndpoint {
                    host: (&*endpoint.host).into(),
                    port: endpoint.port,
                    rack: broker.rack.as_deref().map(Into::into),
                })
            });
        Some(LeaderHint {
            leader_id: registration.leader,
            leader_epoch: registration.leader_epoch,
            endpoint,
        })
    }

    /// All partitions that are online, in the order of their names: what is done to each of them is done in an order
    /// that a second run repeats.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        let topics = self.topics.read();
        let hosted = topics.values().flat_map(|topic| topic.partitions.values());
        let mut partitions: Vec<Arc<Partition>> = hosted
            .filter_map(|hosted| match hosted {
                Hosted::Online(partition) => Some(Arc::clone(partition)),
                Hosted::Offline { .. } => None,
            })
            .collect();
        partitions.sort_by(|a, b| a.topic_partition().cmp(b.topic_partition()));
        partitions
    }

    /// The settings of a topic as the metadata has them now.
    pub fn topic_settings(&self, topic: &str) -> TopicSettings {
        let image = self.image.load();
        let overrides = image.configs.topic(topic);
        TopicSettings::resolve(
            &self.layers.load(),
            overrides.into_iter().flat_map(|config| config.iter()),
        )
    }

    /// Validates and appends what a client produced; see `append::append_produced`.
    pub fn append_produced(
        &self,
        partition: &Partition,
        produced: &Bytes,
        acks: Acks,
        zstd_allowed: bool,
    ) -> Result<Appended, ReplicaError> {
        let clock = &*self.context.clock;
        append::append_produced(partition, produced, acks, zstd_allowed, clock).inspect_err(|e| {
            // The client is told a code; what ails the disk only stands here.
            if let ReplicaError::Storage(cause) = e
                && let Some(left_out) = self.append_failures.pass(clock.monotonic_ms())
            {
                tracing::error!(target: "kafka.server.ReplicaManager", "Error processing append operation on partition {}: {cause}{left_out}", partition.topic_partition());
            }
        })
    }

    /// Takes a fetch session's step.
    pub fn begin_fetch(&self, request: SessionRequest) -> Result<FetchContext, FetchSessionError> {
        let now_ms = self.context.clock.monotonic_ms();
        self.sessions.lock().begin(now_ms, request)
    }

    /// Which partitions the answer names, and under which session.
    pub fn complete_fetch(
        &self,
        fetched: &FetchContext,
        outcomes: &[PartitionOutcome],
    ) -> Result<(SessionId, Vec<bool>), FetchSessionError> {
        let now_ms = self.context.clock.monotonic_ms();
        self.sessions
            .lock()
            .complete(now_ms, fetched, outcomes, random_session_id)
    }

    pub fn active_producers(
        &self,
        partition: &Partition,
    ) -> Result<Vec<ProducerEntry>, ReplicaError> {
        // those that are due to expire still count: appends are still checked against them
        partition.with_log(LeaderEpoch::UNKNOWN, true, |log, _| {
            Ok(log.producer_state().producers().copied().collect())
        })
    }

    /// Moves log starts up and waits until all replicas have followed. Answers the low watermarks in order.
    pub async fn delete_records(
        self: &Arc<Self>,
        targets: Vec<(Result<Arc<Partition>, ReplicaError>, Offset)>,
        timeout_ms: i64,
    ) -> Vec<Result<Offset, ReplicaError>> {
        let mut moved = Vec::with_capacity(targets.len());
        for (partition, offset) in targets {
            moved.push(partition.and_then(|partition| {
                let topic = &partition.topic_partition().topic;
                if kavka_common::topic::is_internal(topic) {
                    return Err(ReplicaError::InternalTopic(topic.to_string()));
                }
                if !partition.settings().log.cleanup_delete {
                    let tp = partition.topic_partition().to_string();
                    return Err(ReplicaError::DeletePolicy(tp));
                }
                let deleted = partition.delete_records(offset)?;
                Ok((partition, deleted))
            }));
        }
        // what was answered as deleted must not come back after a crash
        if moved.iter().flatten().any(|(_, deleted)| deleted.moved) {
            let this = Arc::clone(self);
            let _ = tokio::task::spawn_blocking(move || this.checkpoint_log_starts()).await;
        }
        let waiter = Waiter::new();
        let timeout = tokio::time::sleep(Duration::from_millis(
            u64::try_from(timeout_ms).unwrap_or(0),
        ));
        tokio::pin!(timeout);
        let mut timed_out = false;
        loop {
            let results: Vec<Option<Result<Offset, ReplicaError>>> = moved
                .iter()
                .map(|moved| match moved {
                    Err(e) => Some(Err(e.clone())),
                    Ok((partition, deleted)) => match partition.low_watermark(Some(&waiter)) {
                        Ok(low_watermark) if low_watermark >= deleted.offset => {
                            Some(Ok(low_watermark))
                        }
                        Ok(_) if timed_out => Some(Err(ReplicaError::RequestTimedOut)),
                        Ok(_) => None,
                        Err(e) => Some(Err(e)),
                    },
                })
                .collect();
            if results.iter().all(Option::is_some) {
                return results.into_iter().flatten().collect();
            }
            tokio::select! {
                () = waiter.wait() => {}
                () = &mut timeout => timed_out = true,
            }
        }
    }
}

fn random_session_id() -> SessionId {
    let mut bytes = [0; 4];
    // without randomness the draw is refused as 0, and the client stays without session
    match getrandom::fill(&mut bytes) {
        Ok(()) => i32::from_be_bytes(bytes),
        Err(_) => 0,
    }
}
