//! The active controller on another node: finds it, keeps connections to it, retries until a deadline.
//! Not here: the controller of this node (shell.rs), which of both is asked (channel.rs).
//! Any task; a few connections ("lanes"), each behind its own async mutex, so that heartbeats wait for nobody.
//! Kafka: NodeToControllerChannelManagerImpl, ControllerNodeProvider; zookeeper.connect of the 2.x brokers.

use super::refusal::is_not_controller;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection};
use kavka_protocol::messages::{DescribeQuorumRequest, describe_quorum_request};
use kavka_protocol::{AnyRequest, AnyResponse, ApiKey, Request};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

const LOGGER: &str = "kafka.server.NodeToControllerChannelManagerImpl";
/// Connections to the active controller. The first one is for heartbeats and registration alone.
const LANES: usize = 4;
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// An election takes about a second; whoever asks seldom in that time finds the new leader late.
const BACKOFF_MAX: Duration = Duration::from_millis(200);
/// Within this time a member of the quorum tells who leads.
const LEADER_TOLD_WITHIN_MS: u64 = 2_000;

/// Which setting named the addresses, for the words of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedOrigin {
    QuorumVoters,
    QuorumBootstrapServers,
    ZooKeeperConnect,
}

/// Where to begin looking for the active controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds {
    pub addresses: Vec<BrokerAddress>,
    pub origin: SeedOrigin,
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, address) in self.addresses.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{address}")?;
        }
        Ok(())
    }
}

impl Seeds {
    /// What to do when nobody answers.
    fn remedy(&self) -> &'static str {
        match self.origin {
            SeedOrigin::ZooKeeperConnect => {
                "start zookeeper-server-start config/zookeeper.properties first, or correct zookeeper.connect"
            }
            SeedOrigin::QuorumVoters => {
                "start the controllers first, or correct controller.quorum.voters"
            }
            SeedOrigin::QuorumBootstrapServers => {
                "start the controllers first, or correct controller.quorum.bootstrap.servers"
            }
        }
    }
}

/// Nobody took the request before the deadline.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("nothing answers at {seeds}: {reason}; {}", seeds.remedy())]
    Unreachable { seeds: Seeds, reason: String },
    #[error("the controllers at {seeds} have no leader: {reason}")]
    NoLeader { seeds: Seeds, reason: String },
    /// The request may or may not have been carried out.
    #[error("the connection to the controller was lost while it handled the request: {0}")]
    Lost(ClientError),
    #[error("the controller cannot be asked: {0}")]
    Refused(ClientError),
    #[error("a broker does not send {} to the controller", .0.name())]
    NotForwarded(ApiKey),
}

/// The active controller elsewhere.
pub struct RemoteController {
    seeds: Seeds,
    config: ClientConfig,
    /// How long a heartbeat or registration waits for its answer.
    heartbeat_timeout: Duration,
    active: watch::Sender<Option<BrokerAddress>>,
    lanes: [tokio::sync::Mutex<Option<Connection>>; LANES],
    next_lane: AtomicUsize,
    next_seed: AtomicUsize,
    warned: Mutex<Option<String>>,
}

enum Attempt {
    Done(Box<AnyResponse>),
    /// Nothing was done: try again, elsewhere if need be.
    Again(String),
    Failed(RemoteError),
}

impl RemoteController {
    /// A heartbeat that is not answered within `heartbeat_timeout_ms` is sent again, elsewhere if need be: whoever waits
    /// longer loses its session to one mute controller (KAFKA-14392).
    pub fn new(
        seeds: Seeds,
        client_id: String,
        request_timeout_ms: u64,
        heartbeat_timeout_ms: u64,
    ) -> Self {
        let config = ClientConfig {
            client_id,
            request_timeout_ms,
            connect_timeout_ms: 3_000,
            ..ClientConfig::default()
        };
        RemoteController {
            seeds,
            config,
            heartbeat_timeout: Duration::from_millis(heartbeat_timeout_ms.min(request_timeout_ms)),
            active: watch::Sender::new(None),
            lanes: std::array::from_fn(|_| tokio::sync::Mutex::new(None)),
            next_lane: AtomicUsize::new(0),
            next_seed: AtomicUsize::new(0),
            warned: Mutex::new(None),
        }
    }

    pub fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    /// The address that is believed to be the active controller's.
    pub fn active(&self) -> Option<BrokerAddress> {
        self.active.borrow().clone()
    }

    /// One of the seeds, in turn: any member of the quorum can tell who leads.
    pub fn any_seed(&self) -> Option<BrokerAddress> {
        let at = self.next_seed.fetch_add(1, Ordering::Relaxed);
        let count = self.seeds.addresses.len();
        (count > 0).then(|| self.seeds.addresses[at % count].clone())
    }

    /// Told by whoever learns of a new leader first. Requests that wait for another one's answer are sent again.
    pub fn set_active(&self, address: BrokerAddress) {
        self.active.send_if_modified(|active| {
            let news = active.as_ref() != Some(&address);
            *active = Some(address);
            news
        });
    }

    /// Ends when another node than the one at this address is known to lead.
    async fn another_leads(&self, address: &BrokerAddress) {
        let mut active = self.active.subscribe();
        let another =
            |active: &Option<BrokerAddress>| active.as_ref().is_some_and(|a| a != address);
        // The sender lives as long as `self`.
        let _ = active.wait_for(another).await;
    }

    /// Sends a request to the active controller, wherever it is, and retries while nothing of it can have been done.
    pub async fn send(
        &self,
        api_version: i16,
        request: &AnyRequest,
        timeout: Duration,
    ) -> Result<AnyResponse, RemoteError> {
        let deadline = Instant::now() + timeout;
        let lane = match is_of_session(request) {
            true => 0,
            false => 1 + self.next_lane.fetch_add(1, Ordering::Relaxed) % (LANES - 1),
        };
        let mut backoff = BACKOFF_MIN;
        loop {
            let attempt = {
                let mut connection = self.lanes[lane].lock().await;
                self.attempt(&mut connection, api_version, request).await
            };
            let reason = match attempt {
                Attempt::Done(response) => {
                    *self.warned.lock() = None;
                    return Ok(*response);
                }
                Attempt::Failed(error) => return Err(error),
                Attempt::Again(reason) => reason,
            };
            self.warn_once(&reason);
            if Instant::now() + backoff >= deadline {
                return Err(self.gave_up(reason));
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn gave_up(&self, reason: String) -> RemoteError {
        let seeds = self.seeds.clone();
        if self.active.borrow().is_some() {
            RemoteError::NoLeader { seeds, reason }
        } else {
            RemoteError::Unreachable { seeds, reason }
        }
    }

    /// Says each new reason once, so that a broker that waits for its controller is not silent.
    fn warn_once(&self, reason: &str) {
        let mut warned = self.warned.lock();
        if warned.as_deref() != Some(reason) {
            warn!(target: LOGGER, "no active controller at {} yet: {reason}; {}", self.seeds, self.seeds.remedy());
            *warned = Some(reason.to_owned());
        }
    }

    async fn attempt(
        &self,
        lane: &mut Option<Connection>,
        api_version: i16,
        request: &AnyRequest,
    ) -> Attempt {
        let wanted = self.active();
        if let Some(connection) = lane
            && wanted
                .as_ref()
                .is_some_and(|wanted| wanted != connection.address())
        {
            *lane = None;
        }
        // A connection that the peer closed while it was idle is found out by its first use; that is no failure.
        let reused = lane.is_some();
        if lane.is_none() {
            let address = match wanted {
                Some(address) => address,
                None => match self.locate().await {
                    Ok(address) => address,
                    Err(reason) => return Attempt::Again(reason),
                },
            };
            match Connection::connect(&address, &self.config).await {
                Ok(connection) => *lane = Some(connection),
                Err(error) => {
                    self.forget(&address);
                    return Attempt::Again(error.to_string());
                }
            }
        }
        // Back in its lane once it is answered: whoever drops this future leaves no half-used connection behind.
        let Some(mut connection) = lane.take() else {
            return Attempt::Again("no connection".into());
        };
        let address = connection.address().clone();
        let patience = match is_of_session(request) {
            true => self.heartbeat_timeout,
            false => Duration::from_millis(self.config.request_timeout_ms),
        };
        let unanswered = |what: String| {
            Some(Err(ClientError::TimedOut {
                what,
                timeout_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
            }))
        };
        let outcome = tokio::select! {
            biased;
            outcome = exchange(&mut connection, api_version, request) => outcome,
            // One that may be done only once waits for the words of whoever has it.
            () = self.another_leads(&address), if is_idempotent(request) => {
                unanswered(format!("{} to {address}, which leads no more,", request.api_key().name()))
            }
            () = tokio::time::sleep(patience) => {
                unanswered(format!("{} to {address}", request.api_key().name()))
            }
        };
        match outcome {
            None => Attempt::Failed(RemoteError::NotForwarded(request.api_key())),
            Some(Ok(response)) if is_not_controller(&response) => {
                self.forget(&address);
                Attempt::Again(format!("{address} is not the active controller"))
            }
            Some(Ok(response)) => {
                *lane = Some(connection);
                Attempt::Done(Box::new(response))
            }
            Some(Err(error)) => {
                self.forget(&address);
                match error {
                    ClientError::Lost { .. } if !reused && !is_idempotent(request) => {
                        Attempt::Failed(RemoteError::Lost(error))
                    }
                    // It arrived, and may be done yet.
                    ClientError::TimedOut { .. } if !is_idempotent(request) => {
                        Attempt::Failed(RemoteError::Lost(error))
                    }
                    ClientError::Lost { .. }
                    | ClientError::TimedOut { .. }
                    | ClientError::Connect { .. } => Attempt::Again(error.to_string()),
                    ClientError::UnsupportedApi { .. } | ClientError::NotKafka { .. } => {
                        Attempt::Again(error.to_string())
                    }
                    other => Attempt::Failed(RemoteError::Refused(other)),
                }
            }
        }
    }

    /// The node at this address is not the active controller.
    pub fn forget(&self, address: &BrokerAddress) {
        self.active.send_if_modified(|active| {
            let known = active.as_ref() == Some(address);
            if known {
                *active = None;
            }
            known
        });
    }

    /// Asks the seeds who leads. With one seed there is nothing to ask.
    async fn locate(&self) -> Result<BrokerAddress, String> {
        if let [only] = &self.seeds.addresses[..] {
            self.set_active(only.clone());
            return Ok(only.clone());
        }
        // All at once: one that is paused must not keep the others from being asked.
        let mut asked: FuturesUnordered<_> = self
            .seeds
            .addresses
            .iter()
            .map(|seed| async move { (seed, self.ask_for_leader(seed).await) })
            .collect();
        let mut reasons = Vec::new();
        while let Some((seed, answer)) = asked.next().await {
            match answer {
                Ok(address) => {
                    info!(target: LOGGER, "the active controller is at {address}");
                    self.set_active(address.clone());
                    return Ok(address);
                }
                Err(reason) => reasons.push(format!("{seed}: {reason}")),
            }
        }
        reasons.sort_unstable();
        Err(reasons.join("; "))
    }

    async fn ask_for_leader(&self, seed: &BrokerAddress) -> Result<BrokerAddress, String> {
        let config = ClientConfig {
            request_timeout_ms: LEADER_TOLD_WITHIN_MS,
            connect_timeout_ms: LEADER_TOLD_WITHIN_MS,
            ..self.config.clone()
        };
        let mut connection = Connection::connect(seed, &config)
            .await
            .map_err(|error| error.to_string())?;
        let request = DescribeQuorumRequest {
            topics: vec![describe_quorum_request::TopicData {
                topic_name: kavka_common::topic::CLUSTER_METADATA_TOPIC.into(),
                partitions: vec![describe_quorum_request::PartitionData::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = connection
            .call(&request)
            .await
            .map_err(|error| error.to_string())?;
        let leader_id = response
            .topics
            .first()
            .and_then(|topic| topic.partitions.first())
            .map_or(-1, |partition| partition.leader_id);
        if leader_id < 0 {
            return Err("it knows no leader".into());
        }
        response
            .nodes
            .iter()
            .find(|node| node.node_id == leader_id)
            .and_then(|node| node.listeners.first())
            .map(|listener| BrokerAddress::new(listener.host.to_string(), listener.port))
            .ok_or_else(|| format!("it does not tell where node {leader_id} listens"))
    }
}

/// Whether the broker's session depends on it.
fn is_of_session(request: &AnyRequest) -> bool {
    matches!(
        request,
        AnyRequest::BrokerHeartbeat(_) | AnyRequest::BrokerRegistration(_)
    )
}

/// Whether doing it twice is the same as doing it once.
fn is_idempotent(request: &AnyRequest) -> bool {
    matches!(
        request,
        AnyRequest::BrokerHeartbeat(_)
            | AnyRequest::BrokerRegistration(_)
            | AnyRequest::AlterPartition(_)
            | AnyRequest::AllocateProducerIds(_)
            | AnyRequest::AssignReplicasToDirs(_)
            | AnyRequest::ControllerRegistration(_)
            | AnyRequest::ListPartitionReassignments(_)
    )
}

/// One exchange; none for a request that no broker sends to its controller.
async fn exchange(
    connection: &mut Connection,
    api_version: i16,
    request: &AnyRequest,
) -> Option<Result<AnyResponse, ClientError>> {
    macro_rules! call {
        ($($kind:ident)*) => {
            match request {
                $(AnyRequest::$kind(request) => {
                    Some(typed(connection, api_version, request).await.map(AnyResponse::$kind))
                })*
                _ => None,
            }
        };
    }
    call!(
        CreateTopics DeleteTopics CreatePartitions AlterConfigs IncrementalAlterConfigs BrokerRegistration
        BrokerHeartbeat UnregisterBroker AlterPartition ElectLeaders AlterPartitionReassignments
        ListPartitionReassignments AssignReplicasToDirs AllocateProducerIds UpdateFeatures ControllerRegistration
        CreateAcls DeleteAcls AlterClientQuotas AlterUserScramCredentials CreateDelegationToken
        RenewDelegationToken ExpireDelegationToken AddRaftVoter RemoveRaftVoter UpdateRaftVoter DescribeQuorum
    )
}

/// The client's version where the controller knows it: fields mean what the client meant.
async fn typed<R: Request>(
    connection: &mut Connection,
    api_version: i16,
    request: &R,
) -> Result<R::Response, ClientError> {
    let highest = connection
        .version_of(R::API_KEY)
        .ok_or(ClientError::UnsupportedApi { api: R::API_KEY })?;
    let version = if api_version < 0 {
        highest
    } else {
        api_version.min(highest)
    };
    connection.call_version(request, version).await
}
