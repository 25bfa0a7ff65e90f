//! One connection to one leader broker: sends what the fetcher plans, does what it decides.
//! Not here: planning and deciding (kavka_replication::Fetcher), which leader (mod.rs), appending (replica/partition/follow.rs).
//! One task. Appends run in it, truncations on the blocking pool. News of partitions that wait to be fetched cut a long
//! poll short: the connection is dropped and made anew, which costs two round trips where waiting would cost half a second.
//! Kafka: AbstractFetcherThread.doWork, ReplicaFetcherThread, RemoteLeaderEndPoint.

use super::FetcherSettings;
use super::wire::{self, EARLIEST, LATEST};
use crate::replica::error::ReplicaError;
use crate::replica::manager::ReplicaManager;
use crate::replica::partition::Partition;
use bytes::Bytes;
use kavka_client::{BrokerAddress, ClientConfig, Connection};
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicIdPartition, Uuid};
use kavka_protocol::messages::{FetchRequest, FetchResponse};
use kavka_protocol::{ApiKey, Request};
use kavka_replication::{
    ActionKind, FetchAnswer, FetchPlan, FetchPosition, Fetcher, FetcherAction, FetcherEvent,
    LeaderRange, Outcome,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

const LOGGER: &str = "kafka.server.ReplicaFetcherThread";

/// News for a fetcher.
pub(super) enum Change {
    Follow(TopicIdPartition, Arc<Partition>, FetchPosition),
    Remove(TopicIdPartition),
}

type Changes = mpsc::UnboundedReceiver<Vec<Change>>;

pub(super) struct FetcherTask {
    replicas: Arc<ReplicaManager>,
    settings: Arc<FetcherSettings>,
    broker_epoch: watch::Receiver<BrokerEpoch>,
    leader_id: NodeId,
    index: u32,
    followed: Followed,
    connection: Option<Connection>,
    /// The last reason for not reaching the leader, said once.
    said: String,
}

/// The core with the partitions that it speaks of.
struct Followed {
    fetcher: Fetcher,
    partitions: BTreeMap<TopicIdPartition, Arc<Partition>>,
    by_index: HashMap<(Uuid, i32), TopicIdPartition>,
}

/// The manager is gone: nobody wants anything any more.
struct Gone;

impl FetcherTask {
    pub(super) fn new(
        replicas: Arc<ReplicaManager>,
        settings: Arc<FetcherSettings>,
        broker_epoch: watch::Receiver<BrokerEpoch>,
        (leader_id, index): (NodeId, u32),
    ) -> FetcherTask {
        FetcherTask {
            followed: Followed {
                fetcher: Fetcher::new(settings.fetcher),
                partitions: BTreeMap::new(),
                by_index: HashMap::new(),
            },
            replicas,
            settings,
            broker_epoch,
            leader_id,
            index,
            connection: None,
            said: String::new(),
        }
    }

    pub(super) async fn run(mut self, mut changes: Changes) {
        // ends when the manager is gone
        while self.round(&mut changes).await.is_ok() {}
    }

    /// One request with its answer, or one wait.
    async fn round(&mut self, changes: &mut Changes) -> Result<(), Gone> {
        while let Ok(news) = changes.try_recv() {
            self.followed.take(self.now_ms(), news);
        }
        let now_ms = self.now_ms();
        match self.followed.fetcher.next_deadline() {
            None => {
                if self.followed.fetcher.is_empty() {
                    self.connection = None;
                }
                let news = changes.recv().await.ok_or(Gone)?;
                self.followed.take(self.now_ms(), news);
                return Ok(());
            }
            Some(at_ms) if at_ms > now_ms => {
                let pause = Duration::from_millis(at_ms.abs_diff(now_ms));
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    news = changes.recv() => self.followed.take(now_ms, news.ok_or(Gone)?),
                }
                return Ok(());
            }
            Some(_) => {}
        }
        if self.connection.is_none()
            && let Err(reason) = self.connect().await
        {
            self.lost(&reason);
            return Ok(());
        }
        self.hold_on(self.now_ms());
        let Some(plan) = self.followed.fetcher.next_request(self.now_ms()) else {
            return Ok(());
        };
        match self.exchange(&plan, changes).await? {
            Some(Ok(response)) => self.answered(response).await,
            Some(Err(reason)) => self.lost(&reason),
            None => {
                self.connection = None;
                self.event(FetcherEvent::Lost { back_off: false });
            }
        }
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        self.replicas.clock().monotonic_ms()
    }

    fn event(&mut self, event: FetcherEvent) -> Vec<FetcherAction> {
        let mut actions = Vec::new();
        let now_ms = self.now_ms();
        self.followed.fetcher.on_event(now_ms, event, &mut actions);
        actions
    }

    /// Throttled partitions whose time is over look at the limit once more: others have used it meanwhile.
    fn hold_on(&mut self, now_ms: i64) {
        for id in self.followed.fetcher.held_and_due(now_ms) {
            let partition = self.followed.partitions.get(&id);
            if let Some(until_ms) = partition.and_then(|p| p.follower_held_until()) {
                self.event(FetcherEvent::Hold {
                    partition: id,
                    until_ms,
                });
            }
        }
    }

    fn lost(&mut self, reason: &str) {
        self.connection = None;
        if reason != self.said {
            warn!(target: LOGGER, "[ReplicaFetcher replicaId={}, leaderId={}, fetcherId={}] Error in response for fetch request: {reason}", self.replicas.local(), self.leader_id, self.index);
            self.said = reason.to_owned();
        }
        self.event(FetcherEvent::Lost { back_off: true });
    }

    async fn connect(&mut self) -> Result<(), String> {
        // looked up each time: a leader that was restarted may listen elsewhere
        let listener = &self.settings.listener;
        let image = self.replicas.image();
        let address = image
            .cluster
            .broker(self.leader_id)
            .and_then(|broker| broker.endpoint(listener))
            .map(|endpoint| BrokerAddress::new(endpoint.host.to_string(), endpoint.port))
            .ok_or_else(|| format!("broker {} has no listener {listener}", self.leader_id))?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let config = ClientConfig {
            client_id: format!("broker-{}-fetcher-{}", self.replicas.local(), self.index),
            request_timeout_ms: millis(self.settings.request_timeout),
            connect_timeout_ms: millis(self.settings.connect_timeout),
            ..ClientConfig::default()
        };
        let connection = Connection::connect(&address, &config)
            .await
            .map_err(|e| e.to_string())?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Sends a request and waits for the answer; `None` when something else has become more urgent.
    async fn exchange(
        &mut self,
        plan: &FetchPlan,
        changes: &mut Changes,
    ) -> Result<Option<Result<FetchResponse, String>>, Gone> {
        let clock = Arc::clone(self.replicas.clock());
        let Some(connection) = &mut self.connection else {
            return Ok(Some(Err("no connection".into())));
        };
        let version = connection.version_of(FetchRequest::API_KEY).unwrap_or(0);
        if version < wire::FETCH_VERSION_MIN {
            return Ok(Some(Err(format!(
                "{} does not know topic ids",
                connection.address()
            ))));
        }
        let config = *self.followed.fetcher.config();
        let broker_epoch = *self.broker_epoch.borrow();
        let local = self.replicas.local();
        let request = wire::fetch_request(plan, &config, local, broker_epoch, version);
        let call = connection.call_version(&request, version);
        tokio::pin!(call);
        loop {
            tokio::select! {
                response = &mut call => return Ok(Some(response.map_err(|e| e.to_string()))),
                news = changes.recv() => {
                    self.followed.take(clock.monotonic_ms(), news.ok_or(Gone)?);
                    if self.followed.fetcher.wants_another_request() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn answered(&mut self, response: FetchResponse) {
        if !self.said.is_empty() {
            info!(target: LOGGER, "[ReplicaFetcher replicaId={}, leaderId={}, fetcherId={}] Fetching again", self.replicas.local(), self.leader_id, self.index);
            self.said.clear();
        }
        let by_index = &self.followed.by_index;
        let (answer, records) = wire::fetch_answer(response, |topic_id, partition| {
            by_index.get(&(topic_id, partition)).cloned()
        });
        self.report_faults(&answer);
        let actions = self.event(FetcherEvent::Answered(answer));
        let mut cuts = Vec::new();
        for action in actions {
            match action.kind {
                ActionKind::Append {
                    answer,
                    fetch_offset,
                    high_watermark,
                    log_start_offset,
                } => {
                    let offsets = (fetch_offset, high_watermark, log_start_offset);
                    let outcome = self.append(&action, &records[answer], offsets).await;
                    self.acted(action, outcome);
                }
                ActionKind::LookUpRange => cuts.extend(self.look_up(action).await),
                ActionKind::Truncate(_) | ActionKind::TruncateTo(_) | ActionKind::StartAt(_) => {
                    cuts.push(action);
                }
            }
        }
        if !cuts.is_empty() {
            self.cut(cuts).await;
        }
    }

    fn report_faults(&self, answer: &FetchAnswer) {
        if let Some(fault) = answer.fault {
            info!(target: LOGGER, "[ReplicaFetcher replicaId={}, leaderId={}, fetcherId={}] The fetch session begins anew: {fault:?}", self.replicas.local(), self.leader_id, self.index);
        }
        for partition in &answer.partitions {
            if let Some(fault) = partition.fault {
                // expected around each change of leadership
                tracing::debug!(target: LOGGER, "[ReplicaFetcher replicaId={}, leaderId={}, fetcherId={}] {}: {fault:?}", self.replicas.local(), self.leader_id, self.index, partition.partition.topic_partition);
            }
        }
    }

    fn acted(&mut self, action: FetcherAction, outcome: Outcome) {
        self.event(FetcherEvent::Acted {
            partition: action.partition,
            leader_epoch: action.leader_epoch,
            outcome,
        });
    }

    async fn append(
        &self,
        action: &FetcherAction,
        records: &Bytes,
        (fetch_offset, high_watermark, log_start_offset): (i64, i64, i64),
    ) -> Outcome {
        let Some(partition) = self.followed.partitions.get(&action.partition) else {
            return Outcome::GivenUp;
        };
        let appended = partition.append_as_follower(
            action.leader_epoch,
            fetch_offset,
            records,
            high_watermark,
            log_start_offset,
        );
        let must_flush = match &appended {
            Ok(appended) => appended.must_flush,
            Err(_) => partition.is_flush_overdue(),
        };
        if must_flush && let Err(e) = partition.flush_to(Offset::MAX).await {
            // the next fetch would acknowledge what is not durable: once more from the same place
            return match self.failed(action, &e) {
                Outcome::Again(_) => Outcome::Again(None),
                other => other,
            };
        }
        match appended {
            Ok(appended) => {
                partition.charge_follower(records.len());
                let lags = appended.position.fetch_offset < high_watermark;
                match partition.follower_held_until() {
                    Some(until_ms) if lags => Outcome::Held {
                        position: appended.position,
                        until_ms,
                    },
                    Some(_) | None => Outcome::Done(appended.position),
                }
            }
            Err(e) => self.failed(action, &e),
        }
    }

    /// What a failed step means for the partition.
    fn failed(&self, action: &FetcherAction, e: &ReplicaError) -> Outcome {
        let tp = &action.partition.topic_partition;
        let partition = self.followed.partitions.get(&action.partition);
        let outcome = partition.map_or(Outcome::GivenUp, |partition| {
            partition.after_failure(action.leader_epoch, e)
        });
        match (e, outcome) {
            (ReplicaError::NotLeaderOrFollower | ReplicaError::FencedLeaderEpoch, _) => {}
            (ReplicaError::Storage(_), Outcome::GivenUp) => {
                error!(target: LOGGER, "Error while processing data for partition {tp}, which is not fetched any more: {e}");
            }
            (ReplicaError::Storage(_), _) => {
                warn!(target: LOGGER, "Error while processing data for partition {tp}: {e}");
            }
            (_, _) => {
                error!(target: LOGGER, "Found invalid messages during fetch for partition {tp} from leader {}: {e}", self.leader_id);
            }
        }
        outcome
    }

    /// Asks the leader where its log begins and ends; gives what is to be cut.
    async fn look_up(&mut self, action: FetcherAction) -> Vec<FetcherAction> {
        match self.range(&action.partition, action.leader_epoch).await {
            Ok(range) => {
                info!(target: LOGGER, "Our log of {} does not fit the leader's, which is {range:?}", action.partition.topic_partition);
                self.event(FetcherEvent::Range {
                    partition: action.partition,
                    leader_epoch: action.leader_epoch,
                    range,
                })
            }
            Err(reason) => {
                warn!(target: LOGGER, "The leader {} does not tell where its log of {} begins and ends: {reason}", self.leader_id, action.partition.topic_partition);
                self.acted(action, Outcome::Again(None));
                Vec::new()
            }
        }
    }

    async fn range(
        &mut self,
        id: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<LeaderRange, String> {
        let local = self.replicas.local();
        let connection = self.connection.as_mut().ok_or("no connection")?;
        let mut offsets = [0; 2];
        for (offset, timestamp) in offsets.iter_mut().zip([EARLIEST, LATEST]) {
            let request = wire::offset_request(id, leader_epoch, local, timestamp);
            *offset = match connection.call(&request).await {
                Ok(response) => {
                    wire::offset_answer(&response).map_err(|code| code.name().to_owned())?
                }
                Err(e) => {
                    // after a failed call the connection is of no use; the next request finds that out
                    self.connection = None;
                    return Err(format!("{}: {e}", ApiKey::ListOffsets.name()));
                }
            };
        }
        Ok(LeaderRange {
            log_start_offset: offsets[0],
            log_end_offset: offsets[1],
        })
    }

    /// Truncates, on the blocking pool.
    async fn cut(&mut self, actions: Vec<FetcherAction>) {
        // one that is not followed any more waits for nothing
        let work: Vec<(FetcherAction, Arc<Partition>)> = actions
            .into_iter()
            .filter_map(|action| {
                let partition = self.followed.partitions.get(&action.partition)?;
                Some((action.clone(), Arc::clone(partition)))
            })
            .collect();
        let replicas = Arc::clone(&self.replicas);
        let done = tokio::task::spawn_blocking(move || {
            let results = replicas.cut(&work);
            (work, results)
        });
        let (work, results) = match done.await {
            Ok(done) => done,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            // the runtime is stopping
            Err(_) => return,
        };
        for ((action, _), result) in work.into_iter().zip(results) {
            let outcome = match result {
                Ok(cut) => Outcome::Done(cut.position),
                Err(e) => self.failed(&action, &e),
            };
            self.acted(action, outcome);
        }
    }
}

impl Followed {
    fn take(&mut self, now_ms: i64, news: Vec<Change>) {
        for change in news {
            let event = match change {
                Change::Follow(id, partition, position) => {
                    let index = (id.topic_id, id.topic_partition.partition);
                    self.by_index.insert(index, id.clone());
                    self.partitions.insert(id.clone(), partition);
                    FetcherEvent::Follow {
                        partition: id,
                        position,
                    }
                }
                Change::Remove(id) => {
                    self.by_index
                        .remove(&(id.topic_id, id.topic_partition.partition));
                    self.partitions.remove(&id);
                    FetcherEvent::Remove(id)
                }
            };
            // neither has anything to be done
            self.fetcher.on_event(now_ms, event, &mut Vec::new());
        }
    }
}
