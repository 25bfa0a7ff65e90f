//! The active controller's task: one request at a time through the core, its records through the quorum, its answer on
//! commit. Requests that arrive while a batch is on its way share the next batch. What nodes need to live goes first.
//! Not here: decisions, the log, finding the active controller.
//! One task; owns `Soft` and the image with the records in flight, and drops both on losing leadership.
//! Kafka: QuorumController (its event queue, deferredEventQueue, claim and renounce); KIP-500, KIP-631.

use super::batching::split_point;
use super::liveness::{Liveness, is_same_place};
use super::voters;
use crate::quorum::{AppliedBatch, MetadataQuorum, OnFatal, QuorumAppendError, QuorumLeader};
use futures::FutureExt;
use futures::future::BoxFuture;
use kavka_common::{BrokerEpoch, Clock, LeaderEpoch, NodeId, Offset};
use kavka_controller::{Controller, ControllerConfig, Moment, Soft, UnsupportedRequest};
use kavka_metadata::MetadataImage;
use kavka_protocol::{AnyRequest, AnyResponse, MetadataRecord};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info};

const LOGGER: &str = "org.apache.kafka.controller.QuorumController";
/// Requests that wait for the controller's task; more make the callers wait.
const QUEUE_MAX: usize = 1024;
/// How long the task sleeps when the core has no deadline.
const IDLE: Duration = Duration::from_secs(3600);

/// Why a request has no answer from this node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControllerError {
    /// Another node is the active controller. Nothing of the request was done here.
    #[error("The active controller appears to be node {}.", .0.map_or(-1, NodeId::get))]
    NotActive(Option<NodeId>),
    /// Leadership was lost while the request's records were on their way: they may or may not be committed.
    #[error("This node lost the leadership of the metadata quorum while it handled the request.")]
    Lost,
    #[error(transparent)]
    Unsupported(#[from] UnsupportedRequest),
    #[error("The controller has stopped.")]
    Stopped,
}

/// An answer, and how much of the metadata log must be seen to see its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Handled {
    pub response: AnyResponse,
    pub last_offset: Offset,
}

type Reply = oneshot::Sender<Result<Handled, ControllerError>>;

pub(super) enum Command {
    Request {
        api_version: i16,
        request: Box<AnyRequest>,
        reply: Reply,
    },
    /// A broker's process is known to be gone.
    Fence {
        broker_id: NodeId,
        broker_epoch: BrokerEpoch,
    },
}

/// What the shell needs besides the core's own settings.
pub struct ShellSettings {
    pub config: ControllerConfig,
    /// Records of a new cluster, from the bootstrap checkpoint or the defaults.
    pub bootstrap: Vec<MetadataRecord>,
    /// A panic of the task is our bug and leaves the cluster without decisions: the process must end.
    pub on_fatal: OnFatal,
}

/// The way to the controller of this node.
#[derive(Clone)]
pub struct ControllerHandle {
    commands: mpsc::Sender<Command>,
    /// Heartbeats and the like: a flood of clients' requests must neither end sessions nor hold up a stop.
    vital: mpsc::Sender<Command>,
    active: watch::Receiver<Option<LeaderEpoch>>,
    quorum: Arc<dyn MetadataQuorum>,
    liveness: Liveness,
    cluster_id: Arc<str>,
}

impl ControllerHandle {
    /// Starts the task. It ends when the last handle is gone.
    pub fn start(
        settings: ShellSettings,
        quorum: Arc<dyn MetadataQuorum>,
        clock: Arc<dyn Clock>,
    ) -> ControllerHandle {
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        let (vital, vital_queue) = mpsc::channel(QUEUE_MAX);
        let (active_sender, active) = watch::channel(None);
        let liveness = Liveness::new(vital.downgrade(), Arc::clone(&quorum));
        let handle = ControllerHandle {
            commands,
            vital,
            active,
            quorum: Arc::clone(&quorum),
            liveness: liveness.clone(),
            cluster_id: settings.config.cluster_id.as_str().into(),
        };
        let shell = Shell {
            core: Controller::new(settings.config),
            bootstrap: settings.bootstrap,
            leader: quorum.leader(),
            high_watermark: quorum.high_watermark(),
            quorum,
            clock,
            queue,
            vital_queue,
            ticked_at_ms: i64::MIN,
            active_sender,
            active: None,
            liveness,
        };
        let on_fatal = settings.on_fatal;
        tokio::spawn(async move {
            if AssertUnwindSafe(shell.run()).catch_unwind().await.is_err() {
                error!(target: LOGGER, "the controller's task has panicked");
                on_fatal("the controller's task panicked".into());
            }
        });
        handle
    }

    /// Decides a request here, if this node is the active controller. Answered when its records are committed.
    pub async fn handle(
        &self,
        api_version: i16,
        request: AnyRequest,
    ) -> Result<Handled, ControllerError> {
        // The quorum's own business: the task meets the change in the log.
        if let Some(answer) = voters::answer(&*self.quorum, &self.cluster_id, &request).await {
            return answer.map(|response| Handled {
                response,
                last_offset: *self.quorum.high_watermark().borrow() - 1,
            });
        }
        let (reply, answer) = oneshot::channel();
        let lane = if is_vital(&request) {
            &self.vital
        } else {
            &self.commands
        };
        let command = Command::Request {
            api_version,
            request: Box::new(request),
            reply,
        };
        lane.send(command)
            .await
            .map_err(|_| ControllerError::Stopped)?;
        answer.await.unwrap_or(Err(ControllerError::Stopped))
    }

    /// A broker's heartbeat was accepted over this connection.
    pub fn heard(&self, connection_id: u64, broker_id: NodeId, broker_epoch: BrokerEpoch) {
        self.liveness
            .connections
            .heard(connection_id, broker_id, broker_epoch);
    }

    /// A connection to this node is closed.
    pub fn connection_closed(&self, connection_id: u64) {
        if let Some((broker_id, broker_epoch)) = self.liveness.connections.closed(connection_id)
            && self.active.borrow().is_some()
        {
            self.liveness.look_after(broker_id, broker_epoch);
        }
    }

    /// Where the leader of the quorum listens, if it is another node and known.
    pub fn leader_address(&self) -> Option<(String, u16)> {
        let leader_id = self.quorum.leader().borrow().leader_id?;
        if leader_id == self.quorum.node_id() {
            return None;
        }
        let voters = self.quorum.voters();
        let endpoint = voters.get(&leader_id)?.endpoints.first()?;
        Some((endpoint.host.clone(), endpoint.port))
    }

    /// Whether this node votes. One that does not follows the quorum from outside.
    pub fn is_voter(&self) -> bool {
        self.quorum.voters().contains_key(&self.quorum.node_id())
    }

    /// The epoch in which this node is the active controller.
    pub fn active(&self) -> watch::Receiver<Option<LeaderEpoch>> {
        self.active.clone()
    }
}

/// What a node needs to be, and stay, a part of the cluster. Nobody sends much of it.
fn is_vital(request: &AnyRequest) -> bool {
    matches!(
        request,
        AnyRequest::BrokerRegistration(_)
            | AnyRequest::BrokerHeartbeat(_)
            | AnyRequest::AlterPartition(_)
            | AnyRequest::AllocateProducerIds(_)
            | AnyRequest::AssignReplicasToDirs(_)
            | AnyRequest::ControllerRegistration(_)
    )
}

/// An answer that waits for a commit.
struct Parked {
    /// Where everything ends that was decided up to this request: its own records, and those of ticks before it.
    end_offset: Offset,
    response: AnyResponse,
    reply: Reply,
}

struct Active {
    epoch: LeaderEpoch,
    soft: Soft,
    /// With all records that were decided, committed or not.
    image: MetadataImage,
    next_offset: Offset,
    /// Decided, not proposed yet.
    records: Vec<MetadataRecord>,
    parked: Vec<Parked>,
    /// Proposed: the answers of the batch, and its commit.
    proposed: Vec<Parked>,
    commit: Option<BoxFuture<'static, Result<AppliedBatch, QuorumAppendError>>>,
}

impl Active {
    /// Nothing is decided that is not committed.
    fn is_idle(&self) -> bool {
        self.commit.is_none() && self.records.is_empty()
    }
}

struct Shell {
    core: Controller,
    bootstrap: Vec<MetadataRecord>,
    quorum: Arc<dyn MetadataQuorum>,
    clock: Arc<dyn Clock>,
    leader: watch::Receiver<QuorumLeader>,
    high_watermark: watch::Receiver<Offset>,
    queue: mpsc::Receiver<Command>,
    vital_queue: mpsc::Receiver<Command>,
    ticked_at_ms: i64,
    active_sender: watch::Sender<Option<LeaderEpoch>>,
    active: Option<Active>,
    liveness: Liveness,
}

enum Event {
    Leader,
    /// The log goes on, and nothing of this task is on its way.
    LogMoved,
    Committed(Result<AppliedBatch, QuorumAppendError>),
    Command(Option<Command>),
    Deadline,
}

impl Shell {
    async fn run(mut self) {
        self.follow_leader();
        loop {
            self.propose();
            match self.next_event().await {
                Event::Leader => self.follow_leader(),
                Event::LogMoved => self.log_moved(),
                Event::Committed(result) => self.committed(result),
                Event::Command(Some(command)) => self.command(command),
                Event::Command(None) => {
                    self.resign("the node stops");
                    return;
                }
                Event::Deadline => self.tick(),
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        let leads = self.leads();
        let now_ms = self.clock.monotonic_ms();
        let wait_ms = self.active.as_ref().and_then(|active| {
            let deadline_ms = self.core.next_deadline_ms(&active.image, &active.soft)?;
            Some(deadline_ms.saturating_sub(now_ms))
        });
        // A queue that never empties does not keep the clock from ticking; a tick each millisecond is enough.
        let due = wait_ms.is_some_and(|wait_ms| wait_ms <= 0) && now_ms > self.ticked_at_ms;
        let deadline = wait_ms.map_or(IDLE, |wait_ms| {
            Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
        });
        let idle = self.active.as_ref().map_or(leads, Active::is_idle);
        let commit = self
            .active
            .as_mut()
            .and_then(|active| active.commit.as_mut());
        let on_the_way = commit.is_some();
        tokio::select! {
            biased;
            changed = self.leader.changed() => match changed {
                Ok(()) => Event::Leader,
                Err(_) => Event::Command(None),
            },
            result = async { commit.expect("guarded").await }, if on_the_way => Event::Committed(result),
            _ = self.high_watermark.changed(), if idle => Event::LogMoved,
            Some(command) = self.vital_queue.recv() => Event::Command(Some(command)),
            () = std::future::ready(()), if due => Event::Deadline,
            command = self.queue.recv() => Event::Command(command),
            () = tokio::time::sleep(deadline) => Event::Deadline,
        }
    }

    fn leads(&self) -> bool {
        self.leader.borrow().leader_id == Some(self.quorum.node_id())
    }

    fn follow_leader(&mut self) {
        let leader = *self.leader.borrow_and_update();
        if let Some(active) = &self.active
            && (leader.leader_id != Some(self.quorum.node_id()) || leader.epoch != active.epoch)
        {
            self.resign("another leader, or none");
        }
        self.try_activate();
    }

    /// A change of the voters is in the log, which this task did not propose; or the log has become this leader's.
    fn log_moved(&mut self) {
        let Some(active) = &mut self.active else {
            self.try_activate();
            return;
        };
        let image = self.quorum.image();
        let (_, log_end_offset) = self.quorum.log_offsets();
        if image.last_offset + 1 == log_end_offset && log_end_offset > active.next_offset {
            active.image = image;
            active.next_offset = log_end_offset;
        }
    }

    /// Becomes active once all that earlier leaders left in the log is committed and in the image.
    fn try_activate(&mut self) {
        let leader = *self.leader.borrow();
        if self.active.is_some() || leader.leader_id != Some(self.quorum.node_id()) {
            return;
        }
        let (_, log_end_offset) = self.quorum.log_offsets();
        let image = self.quorum.image();
        if image.last_offset + 1 != log_end_offset || image.last_epoch != leader.epoch {
            return;
        }
        let now_ms = self.clock.monotonic_ms();
        info!(target: LOGGER, "[QuorumController id={}] Becoming the active controller at epoch {}, next write offset {log_end_offset}.", self.quorum.node_id(), leader.epoch);
        let soft = self.core.activate(&image, now_ms);
        let records = self.core.activation_records(&image, self.bootstrap.clone());
        self.active = Some(Active {
            epoch: leader.epoch,
            soft,
            image,
            next_offset: log_end_offset,
            records: Vec::new(),
            parked: Vec::new(),
            proposed: Vec::new(),
            commit: None,
        });
        self.active_sender.send_replace(Some(leader.epoch));
        // The process that led before may have died with a broker in it, which never had a session here.
        self.liveness.look_after_all(&self.quorum.image());
        self.take(records);
        self.tick();
    }

    /// Takes records into the speculative image and the next batch.
    fn take(&mut self, records: Vec<MetadataRecord>) {
        let Some(active) = &mut self.active else {
            return;
        };
        if records.is_empty() {
            return;
        }
        let count = Offset::try_from(records.len()).expect("a batch is far smaller");
        let last_offset = active.next_offset + count - 1;
        // The core checked them against this very image: records that do not fit are our bug, and would stop every node.
        let (image, _) = active
            .image
            .apply(last_offset, active.epoch, &records)
            .expect("the core's records fit the image that it saw");
        active.image = image;
        active.next_offset = last_offset + 1;
        active.records.extend(records);
    }

    fn moment(&self, next_offset: Offset) -> Moment {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the machine has entropy");
        Moment {
            now_ms: self.clock.monotonic_ms(),
            next_offset,
            seed,
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Request {
                api_version,
                request,
                reply,
            } => self.request(api_version, &request, reply),
            Command::Fence {
                broker_id,
                broker_epoch,
            } => {
                let Some(next_offset) = self.active.as_ref().map(|active| active.next_offset)
                else {
                    return;
                };
                let moment = self.moment(next_offset);
                let records = match &mut self.active {
                    Some(active) => self.core.fence_broker(
                        &active.image,
                        &mut active.soft,
                        &moment,
                        broker_id,
                        broker_epoch,
                    ),
                    None => return,
                };
                self.take(records);
            }
        }
    }

    fn request(&mut self, api_version: i16, request: &AnyRequest, reply: Reply) {
        let leader = self.leader.borrow().leader_id;
        let Some(next_offset) = self.active.as_ref().map(|active| active.next_offset) else {
            let other = leader.filter(|id| *id != self.quorum.node_id());
            let _ = reply.send(Err(ControllerError::NotActive(other)));
            return;
        };
        let moment = self.moment(next_offset);
        let Some(active) = &mut self.active else {
            return;
        };
        if let AnyRequest::BrokerRegistration(registration) = request {
            // This process holds the node's directories, or listens where the earlier life of the broker did and nobody
            // heartbeats as that one: that life is over, and its session need not lapse first.
            let own = NodeId(registration.broker_id);
            let reborn = active.image.cluster.broker(own).is_some_and(|old| {
                old.incarnation_id != registration.incarnation_id
                    && (own == self.quorum.node_id()
                        || (is_same_place(old, registration)
                            && !self.liveness.connections.vouches_for(own, old.broker_epoch)))
            });
            if reborn {
                active.soft.sessions.remove(&own);
            }
        }
        let outcome = self.core.handle(
            &active.image,
            &mut active.soft,
            &moment,
            api_version,
            request,
        );
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(unsupported) => {
                let _ = reply.send(Err(unsupported.into()));
                return;
            }
        };
        let own = Offset::try_from(outcome.records.len()).expect("a batch is far smaller");
        let parked = Parked {
            end_offset: active.next_offset + own,
            response: outcome.response,
            reply,
        };
        if outcome.records.is_empty() && active.records.is_empty() {
            // A read; but what it saw may still be on its way.
            if active.commit.is_some() {
                active.proposed.push(parked);
            } else {
                answer(parked, active.next_offset - 1);
            }
            return;
        }
        active.parked.push(parked);
        self.take(outcome.records);
    }

    /// Proposes what was decided, unless a batch is on its way.
    fn propose(&mut self) {
        let Some(active) = &mut self.active else {
            return;
        };
        if active.commit.is_some() || active.records.is_empty() {
            return;
        }
        let count = Offset::try_from(active.records.len()).expect("a batch is far smaller");
        let base_offset = active.next_offset - count;
        let mut batch = std::mem::take(&mut active.records);
        let mut waiting = std::mem::take(&mut active.parked);
        let ends: Vec<Offset> = waiting.iter().map(|parked| parked.end_offset).collect();
        if let Some((records, answers)) = split_point(base_offset, &ends, batch.len()) {
            active.records = batch.split_off(records);
            active.parked = waiting.split_off(answers);
        }
        active.proposed = waiting;
        active.commit = Some(self.quorum.append(active.epoch, base_offset, batch));
    }

    fn committed(&mut self, result: Result<AppliedBatch, QuorumAppendError>) {
        let Some(active) = &mut self.active else {
            return;
        };
        active.commit = None;
        match result {
            Ok(applied) => {
                for parked in std::mem::take(&mut active.proposed) {
                    answer(parked, applied.last_offset);
                }
            }
            Err(reason) => {
                if !matches!(reason, QuorumAppendError::NotLeader { .. }) {
                    error!(target: LOGGER, "a batch of metadata records was not committed: {reason}");
                }
                self.resign("a batch was not committed");
                // If this node leads after all, its log says what became of the batch.
                self.try_activate();
            }
        }
    }

    fn tick(&mut self) {
        self.ticked_at_ms = self.clock.monotonic_ms();
        // Each call does one thing, so that every decision sees the one before.
        loop {
            let Some(next_offset) = self.active.as_ref().map(|active| active.next_offset) else {
                return;
            };
            let moment = self.moment(next_offset);
            let records = match &mut self.active {
                Some(active) => self.core.on_tick(&active.image, &mut active.soft, &moment),
                None => return,
            };
            if records.is_empty() {
                return;
            }
            self.take(records);
        }
    }

    /// Drops everything that is not committed.
    fn resign(&mut self, why: &str) {
        let Some(active) = self.active.take() else {
            return;
        };
        info!(target: LOGGER, "[QuorumController id={}] Renouncing the leadership at epoch {}: {why}.", self.quorum.node_id(), active.epoch);
        self.active_sender.send_replace(None);
        let leader = self.leader.borrow().leader_id;
        let other = leader.filter(|id| *id != self.quorum.node_id());
        for parked in active.parked {
            let _ = parked.reply.send(Err(ControllerError::NotActive(other)));
        }
        for parked in active.proposed {
            let _ = parked.reply.send(Err(ControllerError::Lost));
        }
        // The commit's future is dropped: the engine finishes or forgets the batch on its own.
        drop(active.commit);
    }
}

fn answer(parked: Parked, last_offset: Offset) {
    // Nobody may be waiting any more.
    let _ = parked.reply.send(Ok(Handled {
        response: parked.response,
        last_offset,
    }));
}
