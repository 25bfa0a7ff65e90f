//! A broker: its disk, its life from one start to the next, its registration and what it makes of the metadata.
//! Not here: what others ask of it (broker_requests.rs), following (broker_follower.rs). The replicas are the broker's own
//! ReplicaManager on a simulated disk; here is what its shells do around it.
//! Driven by messages and timers. Kafka: BrokerServer, BrokerLifecycleManager, MetadataLoader.

use crate::broker_follower::FetcherLink;
use crate::broker_requests::{ParkedFetch, ParkedProduce};
use crate::context::Context;
use crate::message::{Address, FIRST_CONTROLLER, Message, MetadataChunk, Timer};
use crate::oracle::Folded;
use crate::plan::Plan;
use kavka_broker::replica::{
    IsrAnswer, IsrProposal, ReplicaManager, ReplicaSettings, alter_partition,
};
use kavka_common::{BrokerEpoch, Clock, NodeId, Offset, TopicIdPartition, Uuid};
use kavka_config::{BrokerConfig, Layers};
use kavka_metadata::{LocalReplicaChanges, MetadataDelta, MetadataImage};
use kavka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerRegistrationRequest, broker_registration_request,
};
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode};
use kavka_replication::FetchSessionCache;
use kavka_storage::testing::{Loss, SimVfs};
use kavka_storage::vfs::Vfs;
use kavka_storage::{LogDirs, MetaProperties};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::mpsc::UnboundedReceiver;

pub const CLUSTER_ID: &str = "simulated-cluster";
const LOG_DIR: &str = "/data";
const HEARTBEAT_MS: i64 = 100;
/// After this a request to a controller counts as lost.
const CALL_MS: i64 = 300;
const CHECKPOINT_MS: i64 = 250;
/// Before an ISR that may or may not be registered is proposed again.
const PROPOSAL_PAUSE_MS: i64 = 50;
/// Time zero of the simulated wall clock.
const WALL_MS: i64 = 1_700_000_000_000;

/// The simulation's time, as one node reads it.
#[derive(Debug, Default)]
pub struct SimClock(AtomicI64);

impl SimClock {
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn wall_ms(&self) -> i64 {
        WALL_MS + self.monotonic_ms()
    }

    fn monotonic_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a request to a controller was for.
#[derive(Debug)]
pub enum Call {
    Register,
    Heartbeat,
    AlterPartition(BTreeMap<TopicIdPartition, IsrProposal>),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// In order, with everything fsynced.
    Clean,
    /// Its disk failed under it, or its machine stopped.
    Failed,
}

/// One run of a broker's process.
pub struct Life {
    pub id: NodeId,
    pub clock: Arc<SimClock>,
    pub manager: Arc<ReplicaManager>,
    pub proposals: UnboundedReceiver<IsrProposal>,
    incarnation: Uuid,
    previous_epoch: Option<BrokerEpoch>,
    pub broker_epoch: Option<BrokerEpoch>,
    pub image: MetadataImage,
    controllers: i32,
    controller: Address,
    pub calls: BTreeMap<u64, Call>,
    metadata_call: Option<u64>,
    strays_settled: bool,
    pub fetchers: BTreeMap<NodeId, FetcherLink>,
    pub sessions: FetchSessionCache,
    pub parked_fetches: Vec<ParkedFetch>,
    pub parked_produces: Vec<ParkedProduce>,
    pub alter_under_way: bool,
    /// Answers that leave it open whether the proposal was taken; they are delivered after a pause.
    open_proposals: Vec<(IsrProposal, IsrAnswer)>,
    pub queued_proposals: BTreeMap<TopicIdPartition, IsrProposal>,
    pub visible: BTreeMap<(Uuid, i32), (Offset, Offset)>,
    pub wants_shutdown: bool,
    pub exit: Option<Exit>,
}

pub struct BrokerNode {
    pub id: Address,
    pub disk: SimVfs,
    pub life: Option<Life>,
}

impl BrokerNode {
    pub fn new(id: Address) -> BrokerNode {
        BrokerNode {
            id,
            disk: SimVfs::untraced(),
            life: None,
        }
    }

    /// The process is gone; the disk is as this loss leaves it.
    pub fn crash(&mut self, loss: Loss) {
        self.life = None;
        self.disk = self.disk.after_crash(loss);
    }

    /// Starts the process. A disk that fails while it starts ends it again.
    pub fn start(&mut self, context: &mut Context<'_>, file: &Arc<BrokerConfig>) {
        let clock = Arc::new(SimClock::default());
        clock.set(context.now);
        let vfs: Arc<dyn Vfs> = Arc::new(self.disk.clone());
        let (mut dirs, failed) = LogDirs::open(&vfs, &[PathBuf::from(LOG_DIR)]);
        let node = NodeId(self.id);
        let settings = settings(file, context.plan);
        let previous_epoch = dirs
            .dirs
            .first()
            .and_then(|dir| dir.previous_broker_epoch());
        for dir in &mut dirs.dirs {
            if dir.meta().is_none() {
                let meta = MetaProperties {
                    version: 1,
                    cluster_id: Some(CLUSTER_ID.into()),
                    node_id: Some(node),
                    directory_id: Some(directory_id(self.id)),
                };
                if dir.set_meta(meta, context.now).is_err() {
                    context.exits = true;
                    return;
                }
            }
            // deleted folders that an earlier life did not get to
            if dir.remove_deleted_folders().is_err() {
                context.exits = true;
                return;
            }
        }
        if !failed.is_empty() || dirs.dirs.is_empty() {
            context.exits = true;
            return;
        }
        let layers = Layers {
            file: Arc::clone(file),
            dynamic_default: BTreeMap::new(),
            dynamic_broker: BTreeMap::new(),
        };
        let manager = ReplicaManager::new(node, settings, layers, Arc::new(dirs), clock.clone());
        let incarnation = context.random.uuid();
        manager.await_registration(incarnation);
        manager.recover_blocking();
        let Some(proposals) = manager.take_isr_proposals() else {
            context.exits = true;
            return;
        };
        self.life = Some(Life {
            id: node,
            clock,
            manager,
            proposals,
            incarnation,
            previous_epoch,
            broker_epoch: None,
            image: MetadataImage::empty(),
            controllers: context.plan.controllers,
            controller: FIRST_CONTROLLER,
            calls: BTreeMap::new(),
            metadata_call: None,
            strays_settled: false,
            fetchers: BTreeMap::new(),
            sessions: FetchSessionCache::new(1000),
            parked_fetches: Vec::new(),
            parked_produces: Vec::new(),
            alter_under_way: false,
            open_proposals: Vec::new(),
            queued_proposals: BTreeMap::new(),
            visible: BTreeMap::new(),
            wants_shutdown: false,
            exit: None,
        });
        context.timer(1, Timer::Heartbeat);
        context.timer(1, Timer::Metadata);
        context.timer(context.plan.replica_lag_ms_max / 2, Timer::LeaderTick);
        context.timer(context.plan.flush_interval_ms, Timer::Flush);
        context.timer(CHECKPOINT_MS, Timer::Checkpoint);
    }
}

fn directory_id(broker: Address) -> Uuid {
    let byte = u8::try_from(broker).unwrap_or(0);
    Uuid::from_bytes([byte.wrapping_add(150); 16])
}

fn settings(file: &BrokerConfig, plan: &Plan) -> ReplicaSettings {
    ReplicaSettings {
        replica_lag_ms_max: plan.replica_lag_ms_max,
        ..ReplicaSettings::from_config(file)
    }
}

impl Life {
    /// `Err`: the process ended.
    pub fn on_message(&mut self, context: &mut Context<'_>, from: Address, message: Message) {
        self.clock.set(context.now);
        match message {
            Message::ControllerAnswer {
                correlation,
                result,
            } => self.controller_answered(context, correlation, result),
            Message::MetadataAnswer {
                correlation,
                result,
            } => self.metadata_answered(context, correlation, result),
            Message::ReplicaFetchAnswer {
                correlation,
                answer,
            } => self.fetch_answered(context, NodeId(from), correlation, &answer),
            Message::RangeAnswer {
                correlation,
                result,
            } => self.range_answered(context, NodeId(from), correlation, result),
            other => self.requested(context, from, other),
        }
        self.settle(context);
    }

    pub fn on_timer(&mut self, context: &mut Context<'_>, timer: Timer) {
        self.clock.set(context.now);
        match timer {
            Timer::Heartbeat => {
                self.heartbeat(context);
                context.timer(HEARTBEAT_MS, Timer::Heartbeat);
            }
            Timer::Metadata => self.fetch_metadata(context),
            Timer::LeaderTick => {
                self.manager.tick_leaders();
                context.timer(context.plan.replica_lag_ms_max / 2, Timer::LeaderTick);
            }
            Timer::Flush => {
                for partition in self.manager.partitions() {
                    // a failure has latched the directory: `settle` sees it
                    let _ = partition.flush_blocking();
                }
                self.manager.checkpoint_recovery_points();
                context.timer(context.plan.flush_interval_ms, Timer::Flush);
            }
            Timer::Checkpoint => {
                self.manager.checkpoint_high_watermarks();
                context.timer(CHECKPOINT_MS, Timer::Checkpoint);
            }
            Timer::Call(correlation) => self.call_lost(context, correlation),
            Timer::Work => {
                let open = std::mem::take(&mut self.open_proposals);
                if !open.is_empty() {
                    alter_partition::deliver(&self.manager, open);
                    self.alter_under_way = false;
                }
            }
            // parked requests and fetchers are looked at after every event
            _ => {}
        }
        self.settle(context);
    }

    /// What follows from whatever happened.
    fn settle(&mut self, context: &mut Context<'_>) {
        if self.manager.dirs().live().next().is_none() {
            self.exit.get_or_insert(Exit::Failed);
        }
        if self.exit.is_some() {
            return;
        }
        self.observe(context);
        self.propose_isrs(context);
        self.serve_parked(context);
        self.fetch(context);
    }

    /// Lets the oracle see the replicas; tells whether what requests wait for has moved.
    pub fn observe(&mut self, context: &mut Context<'_>) {
        for partition in self.manager.partitions() {
            context
                .oracle
                .replica(context.now, self.id.get(), &partition);
        }
    }

    fn call(
        &mut self,
        context: &mut Context<'_>,
        call: Call,
        api_version: i16,
        request: AnyRequest,
    ) {
        let correlation = context.correlation();
        self.calls.insert(correlation, call);
        context.send(
            self.controller,
            Message::ControllerRequest {
                correlation,
                api_version,
                request: Arc::new(request),
            },
        );
        context.timer(CALL_MS, Timer::Call(correlation));
    }

    fn heartbeat(&mut self, context: &mut Context<'_>) {
        let waits = |call: &Call| matches!(call, Call::Register | Call::Heartbeat);
        if self.calls.values().any(waits) {
            return;
        }
        match self.broker_epoch {
            None => {
                let request = self.registration();
                self.call(
                    context,
                    Call::Register,
                    4,
                    AnyRequest::BrokerRegistration(request),
                );
            }
            Some(broker_epoch) => {
                let request = BrokerHeartbeatRequest {
                    broker_id: self.id.get(),
                    broker_epoch: broker_epoch.get(),
                    current_metadata_offset: self.image.last_offset,
                    want_fence: false,
                    want_shut_down: self.wants_shutdown,
                    ..Default::default()
                };
                self.call(
                    context,
                    Call::Heartbeat,
                    2,
                    AnyRequest::BrokerHeartbeat(request),
                );
            }
        }
    }

    fn registration(&self) -> BrokerRegistrationRequest {
        let features = kavka_metadata::features::supported_features()
            .into_iter()
            .map(|(name, range)| broker_registration_request::Feature {
                name: name.into(),
                min_supported_version: range.min,
                max_supported_version: range.max,
                ..Default::default()
            })
            .collect();
        BrokerRegistrationRequest {
            broker_id: self.id.get(),
            cluster_id: CLUSTER_ID.into(),
            incarnation_id: self.incarnation,
            listeners: vec![broker_registration_request::Listener {
                name: "PLAINTEXT".into(),
                host: "localhost".into(),
                port: 9092,
                ..Default::default()
            }],
            features,
            log_dirs: vec![directory_id(self.id.get())],
            previous_broker_epoch: self.previous_epoch.map_or(-1, BrokerEpoch::get),
            ..Default::default()
        }
    }

    /// Another controller is worth a try.
    fn look_elsewhere(&mut self, hint: Option<Address>) {
        self.controller = match hint {
            Some(leader) => leader,
            None => {
                let next = self.controller - FIRST_CONTROLLER + 1;
                FIRST_CONTROLLER + next % self.controllers
            }
        };
    }

    fn call_lost(&mut self, context: &mut Context<'_>, correlation: u64) {
        if self.metadata_call == Some(correlation) {
            self.metadata_call = None;
            self.look_elsewhere(None);
            self.fetch_metadata(context);
        } else if let Some(call) = self.calls.remove(&correlation) {
            self.look_elsewhere(None);
            if let Call::AlterPartition(proposals) = call {
                self.isrs_answered(context, proposals, None);
            }
        } else {
            self.fetch_lost(context, correlation);
        }
    }

    fn controller_answered(
        &mut self,
        context: &mut Context<'_>,
        correlation: u64,
        result: Result<Arc<AnyResponse>, Option<Address>>,
    ) {
        let Some(call) = self.calls.remove(&correlation) else {
            return;
        };
        let response = match result {
            Ok(response) => Some(response),
            Err(hint) => {
                self.look_elsewhere(hint);
                None
            }
        };
        match (call, response.as_deref()) {
            (Call::Register, Some(AnyResponse::BrokerRegistration(answer)))
                if answer.error_code == ErrorCode::None.code() =>
            {
                self.broker_epoch = Some(BrokerEpoch(answer.broker_epoch));
                context
                    .oracle
                    .running
                    .insert(self.id.get(), answer.broker_epoch);
            }
            (Call::Heartbeat, Some(AnyResponse::BrokerHeartbeat(answer))) => {
                if answer.error_code == ErrorCode::StaleBrokerEpoch.code() {
                    // unregistered: as the broker's lifecycle does, it registers anew
                    self.broker_epoch = None;
                    context.oracle.running.remove(&self.id.get());
                } else if answer.should_shut_down && self.wants_shutdown {
                    self.manager.shutdown_blocking(self.broker_epoch);
                    self.exit.get_or_insert(Exit::Clean);
                }
            }
            (Call::AlterPartition(proposals), response) => {
                self.isrs_answered(context, proposals, response);
            }
            _ => {}
        }
    }

    fn fetch_metadata(&mut self, context: &mut Context<'_>) {
        if self.metadata_call.is_some() {
            return;
        }
        let correlation = context.correlation();
        self.metadata_call = Some(correlation);
        context.send(
            self.controller,
            Message::MetadataFetch {
                correlation,
                fetch_offset: self.image.last_offset + 1,
            },
        );
        context.timer(CALL_MS + 150, Timer::Call(correlation));
    }

    fn metadata_answered(
        &mut self,
        context: &mut Context<'_>,
        correlation: u64,
        result: Result<MetadataChunk, Option<Address>>,
    ) {
        if self.metadata_call != Some(correlation) {
            return;
        }
        self.metadata_call = None;
        match result {
            Err(hint) => {
                self.look_elsewhere(hint);
                context.timer(20, Timer::Metadata);
                return;
            }
            Ok(MetadataChunk::Snapshot {
                records,
                last_offset,
                last_epoch,
            }) => {
                let image = context
                    .oracle
                    .snapshot(context.now, &records, last_offset, last_epoch);
                let delta = MetadataDelta::between(&self.image, &image);
                self.apply(context, &delta, image);
            }
            Ok(MetadataChunk::Entries(entries)) => {
                for entry in entries {
                    if entry.base_offset != self.image.last_offset + 1 {
                        continue;
                    }
                    let folded: Arc<Folded> =
                        context
                            .oracle
                            .take_committed(context.now, self.id.get(), &entry);
                    self.apply(context, &folded.delta, folded.image.clone());
                }
            }
        }
        let own = self.broker_epoch.map_or(Offset::MAX, BrokerEpoch::get);
        if !self.strays_settled && self.image.last_offset >= own {
            self.strays_settled = true;
            self.manager.set_strays_aside_blocking();
            let partitions = self.manager.partitions();
            let held = partitions
                .iter()
                .map(|held| (held.topic_id(), held.topic_partition().partition))
                .collect();
            context.oracle.replicas_of(self.id.get(), &held);
        }
        self.fetch_metadata(context);
    }

    fn apply(&mut self, context: &mut Context<'_>, delta: &MetadataDelta, image: MetadataImage) {
        let (changes, doomed) = self.manager.apply_blocking(delta, &image);
        self.image = image;
        for (folder, _) in doomed {
            if let Some(dir) = self.manager.dirs().dirs.first() {
                // what is left is removed at the next start
                let _ = dir.vfs().remove_dir_all(&folder);
            }
        }
        for id in &changes.deletes {
            let key = (id.topic_id, id.topic_partition.partition);
            context.oracle.replica_gone(self.id.get(), key);
        }
        self.shrink_segments(context.plan, &changes);
        self.observe(context);
        self.follow_changes(context, &changes);
    }

    /// The settings allow no segments as small as the simulation wants them.
    fn shrink_segments(&self, plan: &Plan, changes: &LocalReplicaChanges) {
        for change in changes.leaders.iter().chain(&changes.followers) {
            let id = &change.topic_partition;
            let tp = &id.topic_partition;
            if let Ok(partition) = self.manager.partition(&tp.topic, tp.partition)
                && partition.settings().log.segment_bytes != plan.segment_bytes
            {
                let mut settings = (*partition.settings()).clone();
                settings.log.segment_bytes = plan.segment_bytes;
                partition.configure(settings);
            }
        }
    }

    fn propose_isrs(&mut self, context: &mut Context<'_>) {
        while let Ok(proposal) = self.proposals.try_recv() {
            self.queued_proposals
                .insert(proposal.topic_partition.clone(), proposal);
        }
        let Some(broker_epoch) = self.broker_epoch else {
            return;
        };
        if self.alter_under_way || self.queued_proposals.is_empty() {
            return;
        }
        let proposals = std::mem::take(&mut self.queued_proposals);
        let request = alter_partition::request(self.id, broker_epoch, &proposals);
        self.alter_under_way = true;
        self.call(
            context,
            Call::AlterPartition(proposals),
            3,
            AnyRequest::AlterPartition(request),
        );
    }

    fn isrs_answered(
        &mut self,
        context: &mut Context<'_>,
        proposals: BTreeMap<TopicIdPartition, IsrProposal>,
        response: Option<&AnyResponse>,
    ) {
        let response = match response {
            Some(AnyResponse::AlterPartition(response)) => Some(response),
            _ => None,
        };
        let (settled, open) = alter_partition::settle_response(proposals, response);
        alter_partition::deliver(&self.manager, settled);
        if open.is_empty() {
            self.alter_under_way = false;
        } else {
            self.open_proposals = open;
            context.timer(PROPOSAL_PAUSE_MS, Timer::Work);
        }
    }
}
