//! The broker's life as the controller sees it: registers, catches up, serves, heartbeats, leaves in good order.
//! Not here: what serving means, decisions about the broker (crates/controller/src/brokers).
//! One task; others read the broker epoch and the state, and ask for the controlled shutdown.
//! Kafka: kafka.server.BrokerLifecycleManager; KIP-631, KIP-841, KIP-858.

use crate::controller::{ChannelError, ControllerChannel};
use crate::metadata::MetadataCache;
use kavka_common::{BrokerEpoch, Clock, NodeId, Uuid};
use kavka_metadata::VersionRange;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    broker_registration_request,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tracing::{error, info, warn};

const LOGGER: &str = "kafka.server.BrokerLifecycleManager";
/// First pause after a failed attempt.
const RETRY: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// What a session may take longer to lapse than it says.
const SESSION_SLACK: Duration = Duration::from_secs(1);

/// Where clients and other brokers reach this broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedListener {
    pub name: String,
    pub host: String,
    pub port: u16,
    /// SecurityProtocol's number.
    pub security_protocol: i16,
}

/// What the broker registers with.
#[derive(Clone, Debug)]
pub struct LifecycleSettings {
    pub broker_id: NodeId,
    pub cluster_id: String,
    /// New for each start of the process.
    pub incarnation_id: Uuid,
    pub listeners: Vec<AdvertisedListener>,
    pub features: BTreeMap<Arc<str>, VersionRange>,
    pub rack: Option<String>,
    /// Ids of the log directories that work.
    pub log_dirs: Vec<Uuid>,
    /// From the clean-shutdown file; unknown after an unclean one.
    pub previous_broker_epoch: BrokerEpoch,
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: u64,
    /// `broker.session.timeout.ms`.
    pub session_timeout_ms: u64,
    /// `initial.broker.registration.timeout.ms`.
    pub registration_timeout_ms: u64,
}

/// How far the broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerState {
    /// Not registered yet.
    Starting,
    /// Registered; reads the metadata log up to its own registration.
    Recovery,
    /// Unfenced: leads and follows.
    Running,
    /// Hands its leaderships over.
    PendingControlledShutdown,
    /// Nothing of it is in use any more.
    ShuttingDown,
}

/// The controller will not have this broker.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(
        "the controller refuses the registration of broker {broker_id}: {}{}",
        error.name(),
        remedy(*error)
    )]
    Refused { broker_id: NodeId, error: ErrorCode },
    #[error(
        "broker {broker_id} runs already at {running}, and this one, at {own}, has the same node.id; give this one another node.id (broker.id), or stop the other one first"
    )]
    Duplicate {
        broker_id: NodeId,
        running: String,
        own: String,
    },
    #[error("broker {broker_id} was not registered within {timeout_ms} ms: {last}")]
    TimedOut {
        broker_id: NodeId,
        timeout_ms: u64,
        last: String,
    },
}

fn remedy(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::InconsistentClusterId => {
            " (the log directories belong to another cluster; see cluster.id in meta.properties)"
        }
        ErrorCode::DuplicateBrokerRegistration => {
            " (another broker uses this node.id; it counts as alive until its session lapses)"
        }
        _ => "",
    }
}

/// The broker's standing with the controller, for every part that has to name it.
pub struct BrokerLifecycle {
    settings: LifecycleSettings,
    channel: Arc<ControllerChannel>,
    cache: Arc<MetadataCache>,
    clock: Arc<dyn Clock>,
    epoch: watch::Sender<BrokerEpoch>,
    state: watch::Sender<BrokerState>,
    want_shutdown: watch::Sender<bool>,
    offline_dirs: watch::Sender<BTreeSet<Uuid>>,
    /// Those of `offline_dirs` that the controller has heard of.
    told_dirs: watch::Sender<BTreeSet<Uuid>>,
    /// When the controller last answered, on the monotonic clock.
    heard_ms: AtomicI64,
}

impl BrokerLifecycle {
    pub fn new(
        settings: LifecycleSettings,
        channel: Arc<ControllerChannel>,
        cache: Arc<MetadataCache>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let heard_ms = AtomicI64::new(clock.monotonic_ms());
        Arc::new(BrokerLifecycle {
            settings,
            channel,
            cache,
            clock,
            epoch: watch::Sender::new(BrokerEpoch::UNKNOWN),
            state: watch::Sender::new(BrokerState::Starting),
            want_shutdown: watch::Sender::new(false),
            offline_dirs: watch::Sender::new(BTreeSet::new()),
            told_dirs: watch::Sender::new(BTreeSet::new()),
            heard_ms,
        })
    }

    /// The epoch of the registration in force.
    pub fn epoch(&self) -> BrokerEpoch {
        *self.epoch.borrow()
    }

    pub fn epochs(&self) -> watch::Receiver<BrokerEpoch> {
        self.epoch.subscribe()
    }

    pub fn state(&self) -> watch::Receiver<BrokerState> {
        self.state.subscribe()
    }

    /// Tells the controller of a log directory that failed, with the next heartbeat, which is sent at once.
    pub fn directory_failed(&self, directory_id: Uuid) {
        self.offline_dirs
            .send_if_modified(|dirs| dirs.insert(directory_id));
    }

    /// Completes when the controller has heard that the directory failed.
    pub async fn directory_failure_told(&self, directory_id: Uuid) {
        let mut told = self.told_dirs.subscribe();
        // the sender lives in self, so the wait cannot fail
        let _ = told.wait_for(|told| told.contains(&directory_id)).await;
    }

    /// Registers, and retries until the timeout. The broker is fenced afterwards: `run` lets it serve.
    pub async fn register(&self) -> Result<BrokerEpoch, RegistrationError> {
        let broker_id = self.settings.broker_id;
        let timeout_ms = self.settings.registration_timeout_ms;
        let deadline = tokio::time::Instant::now() + Duration::from_millis(timeout_ms);
        // An earlier life of this broker may have died a moment ago, and the active controller with it.
        let session = Duration::from_millis(self.settings.session_timeout_ms);
        let mut taken_since: Option<tokio::time::Instant> = None;
        let mut retry = RETRY;
        let mut said = String::new();
        loop {
            let attempt = tokio::time::timeout_at(deadline, self.channel.call(self.registration()));
            let last = match attempt.await {
                Err(_) => "no answer".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Ok(Ok(response)) => match ErrorCode::from(response.error_code) {
                    ErrorCode::None => {
                        let epoch = BrokerEpoch(response.broker_epoch);
                        info!(target: LOGGER, "[BrokerLifecycleManager id={broker_id}] Successfully registered broker {broker_id} with broker epoch {epoch}");
                        self.epoch.send_replace(epoch);
                        self.state.send_if_modified(|state| {
                            let first = *state == BrokerState::Starting;
                            if first {
                                *state = BrokerState::Recovery;
                            }
                            first
                        });
                        return Ok(epoch);
                    }
                    error @ (ErrorCode::InconsistentClusterId
                    | ErrorCode::UnsupportedVersion
                    | ErrorCode::InvalidRegistration
                    | ErrorCode::BrokerIdNotRegistered) => {
                        return Err(RegistrationError::Refused { broker_id, error });
                    }
                    ErrorCode::DuplicateBrokerRegistration
                        if taken_since
                            .get_or_insert_with(tokio::time::Instant::now)
                            .elapsed()
                            > session + SESSION_SLACK =>
                    {
                        return Err(self.duplicate());
                    }
                    error => format!("{}{}", error.name(), remedy(error)),
                },
            };
            if tokio::time::Instant::now() + retry >= deadline {
                return Err(RegistrationError::TimedOut {
                    broker_id,
                    timeout_ms,
                    last,
                });
            }
            if last != said {
                warn!(target: LOGGER, "[BrokerLifecycleManager id={broker_id}] not registered yet: {last}");
                said = last;
            }
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    /// The other one has kept its session all the time, so it is alive.
    fn duplicate(&self) -> RegistrationError {
        let broker_id = self.settings.broker_id;
        let image = self.cache.image();
        let addresses = |all: Vec<String>| match all.is_empty() {
            true => "an address that is not known".to_owned(),
            false => all.join(","),
        };
        let running = image
            .cluster
            .broker(broker_id)
            .map_or_else(Vec::new, |broker| {
                let endpoints = broker.endpoints.iter();
                endpoints
                    .map(|endpoint| format!("{}:{}", endpoint.host, endpoint.port))
                    .collect()
            });
        let own = self.settings.listeners.iter();
        RegistrationError::Duplicate {
            broker_id,
            running: addresses(running),
            own: addresses(
                own.map(|listener| format!("{}:{}", listener.host, listener.port))
                    .collect(),
            ),
        }
    }

    fn registration(&self) -> BrokerRegistrationRequest {
        let settings = &self.settings;
        BrokerRegistrationRequest {
            broker_id: settings.broker_id.get(),
            cluster_id: settings.cluster_id.as_str().into(),
            incarnation_id: settings.incarnation_id,
            listeners: settings
                .listeners
                .iter()
                .map(|listener| broker_registration_request::Listener {
                    name: listener.name.as_str().into(),
                    host: listener.host.as_str().into(),
                    port: listener.port,
                    security_protocol: listener.security_protocol,
                    ..Default::default()
                })
                .collect(),
            features: settings
                .features
                .iter()
                .map(|(name, range)| broker_registration_request::Feature {
                    name: (&**name).into(),
                    min_supported_version: range.min,
                    max_supported_version: range.max,
                    ..Default::default()
                })
                .collect(),
            rack: settings.rack.as_deref().map(Into::into),
            log_dirs: settings.log_dirs.clone(),
            previous_broker_epoch: settings.previous_broker_epoch.get(),
            ..Default::default()
        }
    }

    /// Catches up, lets the controller unfence the broker, and keeps its session alive until the controlled shutdown
    /// is through. `register` comes first.
    pub async fn run(self: Arc<Self>) {
        let mut want_shutdown = self.want_shutdown.subscribe();
        let mut offline_dirs = self.offline_dirs.subscribe();
        let mut published = self.cache.published();
        let interval = Duration::from_millis(self.settings.heartbeat_interval_ms);
        let mut retry = RETRY;
        // Until the own registration is read there is nothing to say.
        let _ = published
            .wait_for(|offset| *offset >= self.epoch().get())
            .await;
        loop {
            published.borrow_and_update();
            offline_dirs.borrow_and_update();
            let leaving = *want_shutdown.borrow_and_update();
            let sent_ms = self.clock.monotonic_ms();
            let pause = match self.heartbeat(leaving).await {
                Ok(response) if leaving && response.should_shut_down => {
                    info!(target: LOGGER, "[BrokerLifecycleManager id={}] The controller has given permission to proceed with shutdown.", self.settings.broker_id);
                    self.state.send_replace(BrokerState::ShuttingDown);
                    return;
                }
                Ok(response) => {
                    retry = RETRY;
                    self.heard(&response);
                    let fenced = *self.state.borrow() == BrokerState::Recovery;
                    if leaving || fenced {
                        // Moves on as soon as the controller does, or more metadata is read.
                        Duration::from_millis(20).min(interval)
                    } else {
                        interval
                    }
                }
                Err(reason) => {
                    warn!(target: LOGGER, "[BrokerLifecycleManager id={}] heartbeat failed: {reason}", self.settings.broker_id);
                    let pause = retry;
                    retry = (retry * 2).min(RETRY_MAX);
                    pause
                }
            };
            let spent_ms = self.clock.monotonic_ms().saturating_sub(sent_ms);
            let spent = Duration::from_millis(u64::try_from(spent_ms).unwrap_or(0));
            let fenced = *self.state.borrow() == BrokerState::Recovery;
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(spent)) => {}
                _ = want_shutdown.changed(), if !leaving => {}
                _ = offline_dirs.changed() => {}
                _ = published.changed(), if fenced => {}
            }
        }
    }

    async fn heartbeat(&self, leaving: bool) -> Result<BrokerHeartbeatResponse, String> {
        let offline_log_dirs: Vec<Uuid> = self.offline_dirs.borrow().iter().copied().collect();
        let response = self
            .channel
            .call(BrokerHeartbeatRequest {
                broker_id: self.settings.broker_id.get(),
                broker_epoch: self.epoch().get(),
                current_metadata_offset: self.cache.published_offset(),
                want_fence: false,
                want_shut_down: leaving,
                offline_log_dirs: offline_log_dirs.clone(),
                ..Default::default()
            })
            .await
            .map_err(|error| error.to_string())?;
        match ErrorCode::from(response.error_code) {
            ErrorCode::None => {
                self.told_dirs.send_if_modified(|told| {
                    let before = told.len();
                    told.extend(offline_log_dirs);
                    told.len() > before
                });
                Ok(response)
            }
            ErrorCode::StaleBrokerEpoch | ErrorCode::BrokerIdNotRegistered if !leaving => {
                // The registration is gone: somebody unregistered this broker, or the cluster was set back.
                warn!(target: LOGGER, "[BrokerLifecycleManager id={}] the controller does not know this broker's epoch; registering anew", self.settings.broker_id);
                self.state.send_replace(BrokerState::Recovery);
                match self.register().await {
                    Ok(_) => Err("registered anew".into()),
                    Err(error) => {
                        error!(target: LOGGER, "[BrokerLifecycleManager id={}] {error}", self.settings.broker_id);
                        Err(error.to_string())
                    }
                }
            }
            code => Err(code.name().to_owned()),
        }
    }

    fn heard(&self, response: &BrokerHeartbeatResponse) {
        self.heard_ms
            .store(self.clock.monotonic_ms(), Ordering::Relaxed);
        let broker_id = self.settings.broker_id;
        self.state.send_if_modified(|state| {
            let next = match (*state, response.is_fenced) {
                (BrokerState::Recovery, false) => BrokerState::Running,
                (BrokerState::Running, true) => BrokerState::Recovery,
                (same, _) => same,
            };
            let changed = next != *state;
            if changed {
                info!(target: LOGGER, "[BrokerLifecycleManager id={broker_id}] The broker has been {}.", if response.is_fenced { "fenced" } else { "unfenced. Transitioning from RECOVERY to RUNNING" });
                *state = next;
            }
            changed
        });
    }

    /// Asks the controller to move leaderships away, and waits until it is done, or for `timeout`: a broker that cannot
    /// hand over stops all the same. True when the controller agreed.
    pub async fn controlled_shutdown(&self, timeout: Duration) -> bool {
        if *self.state.borrow() == BrokerState::Starting {
            return false;
        }
        info!(target: LOGGER, "[BrokerLifecycleManager id={}] Beginning controlled shutdown.", self.settings.broker_id);
        self.state
            .send_replace(BrokerState::PendingControlledShutdown);
        self.want_shutdown.send_replace(true);
        let mut state = self.state.subscribe();
        let done = state.wait_for(|state| *state == BrokerState::ShuttingDown);
        let agreed = tokio::select! {
            biased;
            done = tokio::time::timeout(timeout, done) => matches!(done, Ok(Ok(_))),
            () = self.silence() => {
                warn!(target: LOGGER, "[BrokerLifecycleManager id={}] No controller has answered for {} ms: whoever leads them has given this broker's session up. Stopping without its consent.", self.settings.broker_id, self.settings.session_timeout_ms);
                return false;
            }
        };
        if !agreed {
            warn!(target: LOGGER, "[BrokerLifecycleManager id={}] The controller did not agree to the shutdown within {} ms; stopping without it.", self.settings.broker_id, timeout.as_millis());
        }
        agreed
    }

    /// Ends when no controller has answered for as long as a session lasts: there is nobody to hand over to, or nothing
    /// left to hand over.
    async fn silence(&self) {
        let session_ms = i64::try_from(self.settings.session_timeout_ms).unwrap_or(i64::MAX);
        loop {
            let heard_ms = self.heard_ms.load(Ordering::Relaxed);
            let left_ms = heard_ms.saturating_add(session_ms) - self.clock.monotonic_ms();
            match u64::try_from(left_ms) {
                Ok(left_ms) if left_ms > 0 => {
                    tokio::time::sleep(Duration::from_millis(left_ms)).await;
                }
                Ok(_) | Err(_) => return,
            }
        }
    }
}
