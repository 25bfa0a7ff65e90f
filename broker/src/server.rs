//! The composition root: what a server consists of, in which order it starts and in which it stops.
//! Not here: what the parts do. Arguments, signals and the exit status are program.rs's.
//! `start` and `stop` run in the main task; every other task and thread is spawned by a part that is started here.
//! Kafka: kafka.server.{KafkaRaftServer, SharedServer, BrokerServer, ControllerServer}.

mod broker_part;
mod config;
mod controller_part;
mod failed_dirs;
mod fellows;
mod remote;

pub use config::ServerConfig;

use crate::controller::{ControllerChannel, register_controller};
use crate::identity::{self, OpenDirs};
use crate::lifecycle::{AdvertisedListener, LifecycleSettings};
use crate::machine;
use crate::metadata::{MetadataCache, MetadataSource, Observer, load};
use crate::network::{Dispatch, Endpoint, ListenerInfo, ListenerKind, NetworkLimits, SocketServer};
use crate::program::{Failure, KAFKA_VERSION};
use crate::quorum::MetadataQuorum;
use crate::quorum::quorum_node::OnFatal;
use crate::start_error::StartError;
use crate::zookeeper_port::ZooKeeperPort;
use broker_part::BrokerPart;
use controller_part::{ControllerPart, ControllerRole};
use kavka_common::{BrokerEpoch, Clock, NodeId, SystemClock};
use kavka_config::{BrokerConfig, Listener};
use kavka_metadata::features::supported_features;
use kavka_storage::LogDirs;
use kavka_storage::vfs::{RealVfs, Vfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::info;

/// How long a broker that belongs to no cluster yet looks for a controller, where no setting says it: two programs of one script may be started
/// at the same time, but nobody should wait for one that was never started.
const CONTROLLER_PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
pub struct Server {
    node_id: NodeId,
    sockets: SocketServer,
    controller: Option<ControllerPart>,
    broker: Option<BrokerPart>,
    /// Follows the metadata for all parts.
    loading: JoinHandle<()>,
    /// Locked until the very end.
    dirs: (Arc<LogDirs>, Option<LogDirs>),
    failed: watch::Receiver<Option<String>>,
}

impl Server {
    pub async fn start(config: ServerConfig) -> Result<Server, StartError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
        let (fail, failed) = watch::channel(None);
        config.report();
        let settings = Arc::clone(&config.broker);
        let mode = settings.mode();
        let names = config.names();
        let controller_patience = settings
            .zookeeper_connection_timeout_ms()
            .map_or(CONTROLLER_PATIENCE, |ms| Duration::from_millis(ms.into()));

        // Listeners are bound first: a port in use is the commonest mistake, and nothing has happened yet.
        let limits = NetworkLimits::from_config(&settings, machine::memory_bytes())?;
        let sockets = SocketServer::bind(&endpoints(&settings), limits, Arc::clone(&clock))
            .map_err(|e| StartError::of_bind(&e, names))?;

        // The locks of the log directories come before anything in them is read.
        let log_dirs: Vec<PathBuf> = settings.log_dirs().iter().map(PathBuf::from).collect();
        let metadata_log_dir = Path::new(settings.metadata_log_dir());
        let mut dirs = identity::open_dirs(
            &vfs,
            &log_dirs,
            metadata_log_dir,
            mode.has_controller(),
            names,
        )?;
        let identity = dirs.identify(settings.node_id(), settings.node_id_is_generated())?;
        let mut node_id = identity.node_id;
        let ports = bound_ports(&sockets, ListenerKind::Controller);
        let remote = remote::controller(&settings, node_id, &ports);
        let fellows = if mode.has_controller() {
            let stored = identity.cluster_id.as_deref();
            fellows::look_for(&settings, node_id, stored, &ports).await?
        } else {
            fellows::Fellows::default()
        };
        let cluster_id: Arc<str> = match (&remote, identity.cluster_id) {
            (Some(remote), stored) if !mode.has_controller() => {
                remote::cluster_id(remote, stored.as_deref(), &dirs, controller_patience).await?
            }
            (_, Some(stored)) => stored,
            (_, None) => {
                // Directories that hold nothing need no format step.
                dirs.check_empty()?;
                if let Some(of_the_others) = fellows.cluster_id {
                    of_the_others
                } else if settings.quorum_voters().len() > 1 {
                    identity::cluster_id_of_voters(settings.quorum_voters())
                } else {
                    identity::random_uuid()?.to_string()
                }
            }
        }
        .into();
        if let Some(remote) = &remote
            && settings.node_id_is_generated()
            && !identity.node_id_is_stored
        {
            node_id =
                remote::free_broker_id(remote, &cluster_id, node_id, CONTROLLER_PATIENCE).await?;
            info!(target: "kafka.server.KafkaRaftServer", "broker.id is not set: this is broker {node_id} from now on");
        }
        dirs.format(&cluster_id, node_id, clock.wall_ms())?;
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={node_id}] Cluster ID = {cluster_id}");

        let metadata_directory_id = dirs.directory_id(metadata_log_dir);
        // The controller role: a quorum of one leads when this returns.
        let cache = Arc::new(MetadataCache::new());
        let mut controller = None;
        if mode.has_controller() {
            let role = ControllerRole {
                config: &settings,
                node_id,
                cluster_id: &cluster_id,
                directory_id: metadata_directory_id,
                bound_port: ports.first().copied().unwrap_or(0),
                joins: fellows.joins,
            };
            let on_fatal = |what| report_failure(&fail, what);
            let part =
                ControllerPart::start(role, Arc::clone(&vfs), Arc::clone(&clock), on_fatal).await?;
            let table = part.api_table(&settings, &cluster_id, &cache, &clock);
            let dispatch: Arc<dyn Dispatch> = match config.zookeeper {
                Some(zookeeper) => {
                    let quorum = Arc::clone(&part.quorum) as Arc<dyn MetadataQuorum>;
                    let started_ms = clock.wall_ms();
                    info!(target: "org.apache.zookeeper.server.ZooKeeperServer", "Answering ZooKeeper clients, and brokers with zookeeper.connect, on port {}", ports.first().copied().unwrap_or(0));
                    let port = ZooKeeperPort::new(
                        zookeeper,
                        node_id,
                        Arc::clone(&cluster_id),
                        quorum,
                        started_ms,
                    );
                    Arc::new(table.with_greeter(Box::new(move |connection, first_bytes| {
                        port.greet(connection, first_bytes)
                    })))
                }
                None => Arc::new(table),
            };
            sockets.open(ListenerKind::Controller, &dispatch, None);
            controller = Some(part);
        }

        // The broker role: logs first, then the metadata that says what they are for.
        let lifecycle = lifecycle_settings(&settings, node_id, &cluster_id, &sockets, &dirs)?;
        let OpenDirs {
            log_dirs,
            metadata_dir,
        } = dirs;
        let log_dirs = Arc::new(log_dirs);
        let channel = Arc::new(ControllerChannel::new(
            controller.as_ref().map(|part| part.handle.clone()),
            remote.clone(),
            Duration::from_millis(settings.unsigned("controller.socket.timeout.ms")),
        ));
        if let Some(part) = &controller {
            if settings.quorum_voters().is_empty() {
                part.keep_listeners_known(&settings, &channel, &ports);
            }
            // Nothing waits for it: only DescribeCluster about controllers and new features do.
            tokio::spawn(register_controller(
                Arc::clone(&channel),
                node_id,
                identity::random_uuid()?,
                told_listeners(settings.controller_listeners(), &sockets),
            ));
        }
        let mut broker = None;
        if mode.has_broker() {
            let part = BrokerPart::start(
                &settings,
                lifecycle,
                Arc::clone(&log_dirs),
                Arc::clone(&cache),
                channel,
                Arc::clone(&clock),
            )
            .await;
            broker = Some(part);
        }
        let source = match (&controller, remote) {
            (Some(part), None) => MetadataSource::local(&*part.quorum),
            (Some(part), Some(_)) if part.handle.is_voter() => MetadataSource::local(&*part.quorum),
            // A controller that is not a voter follows as a broker does, and is seen by the voters doing so.
            (_, Some(remote)) => {
                let directory_id = controller.as_ref().and(metadata_directory_id);
                let observer = Observer::new(node_id, cluster_id.to_string(), remote);
                MetadataSource::Remote(Box::new(observer.with_directory(directory_id)))
            }
            (None, None) => return Err(StartError::runtime("No controller is configured")),
        };
        let publishers = broker
            .as_ref()
            .map_or_else(Vec::new, BrokerPart::publishers);
        let loading = tokio::spawn({
            let loaded = load(source, Arc::clone(&cache), publishers);
            let failed = report_failure(&fail, "the metadata cannot be followed");
            async move {
                if let Err(why) = loaded.await {
                    failed(why.to_string());
                }
            }
        });

        // Clients are let in before the controller lets the broker lead: they find it ready when it does.
        if let Some(part) = &mut broker {
            let observers = controller.as_ref().map(|part| Arc::clone(&part.observers));
            let dispatch: Arc<dyn Dispatch> =
                Arc::new(part.api_table(&settings, &cluster_id, observers));
            sockets.open(
                ListenerKind::Broker,
                &dispatch,
                Some(settings.inter_broker_listener_name()),
            );
            let patience = settings.unsigned("initial.broker.registration.timeout.ms");
            part.join(Duration::from_millis(patience)).await?;
        }

        info!(target: "org.apache.kafka.common.utils.AppInfoParser", "Kafka version: {KAFKA_VERSION}");
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={node_id}] Kafka Server started");
        Ok(Server {
            node_id,
            sockets,
            controller,
            broker,
            loading,
            dirs: (log_dirs, metadata_dir),
            failed,
        })
    }

    /// The bound listeners, with their real ports.
    pub fn listeners(&self) -> &[Arc<ListenerInfo>] {
        self.sockets.listeners()
    }

    /// Completes with the reason when a part of the server has failed beyond repair.
    pub fn failure(&self) -> Failure {
        let mut failed = self.failed.clone();
        let broker = self.broker.as_ref().map(BrokerPart::failure);
        let reported = async move {
            let why = failed
                .wait_for(Option::is_some)
                .await
                .map(|why| why.clone().unwrap_or_default());
            match why {
                Ok(why) => why,
                // Nobody can report a failure any more.
                Err(_) => std::future::pending().await,
            }
        };
        let without_disk = async move {
            match broker {
                Some(failure) => failure.await,
                None => std::future::pending().await,
            }
        };
        Box::pin(async move {
            tokio::select! {
                why = reported => why,
                why = without_disk => why,
            }
        })
    }

    /// Stops in the reverse order of `start`. When `impatient` completes, nothing is waited for that others would have
    /// to do; the logs are closed in order all the same.
    pub async fn stop(self, impatient: impl Future<Output = ()>) {
        let node_id = self.node_id;
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={node_id}] shutting down");
        if let Some(broker) = &self.broker {
            // Clients are served until others lead what this broker led.
            broker.leave(impatient).await;
        }
        self.sockets.shutdown().await;
        info!(target: "kafka.network.SocketServer", "[SocketServer nodeId={node_id}] Shutdown completed");
        if let Some(broker) = self.broker {
            broker.stop().await;
            info!(target: "kafka.log.LogManager", "Shutdown complete.");
        }
        self.loading.abort();
        let _ = self.loading.await;
        if let Some(controller) = self.controller {
            controller.stop().await;
        }
        drop(self.dirs);
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={node_id}] shut down completed");
    }
}

fn lifecycle_settings(
    config: &BrokerConfig,
    node_id: NodeId,
    cluster_id: &str,
    sockets: &SocketServer,
    dirs: &OpenDirs,
) -> Result<LifecycleSettings, StartError> {
    Ok(LifecycleSettings {
        broker_id: node_id,
        cluster_id: cluster_id.to_owned(),
        incarnation_id: identity::random_uuid()?,
        listeners: told_listeners(
            config
                .advertised_listeners()
                .iter()
                .filter(|listener| !config.is_controller_listener(&listener.name)),
            sockets,
        ),
        features: supported_features(),
        rack: config.rack().map(str::to_owned),
        log_dirs: dirs.log_dir_ids(),
        previous_broker_epoch: dirs.previous_broker_epoch().unwrap_or(BrokerEpoch::UNKNOWN),
        heartbeat_interval_ms: config.unsigned("broker.heartbeat.interval.ms"),
        session_timeout_ms: config.unsigned("broker.session.timeout.ms"),
        registration_timeout_ms: config.unsigned("initial.broker.registration.timeout.ms"),
    })
}

/// The listeners as other brokers and the controller are told them: with real ports, and with a host where the
/// configuration leaves it open (clients are told the address by which they came).
fn told_listeners<'a>(
    listeners: impl Iterator<Item = &'a Listener>,
    sockets: &SocketServer,
) -> Vec<AdvertisedListener> {
    listeners
        .map(|listener| {
            let host = if listener.is_wildcard() {
                machine::host_name()
            } else {
                listener.host.clone()
            };
            let port = match listener.port {
                0 => sockets
                    .listeners()
                    .iter()
                    .find(|bound| bound.name == listener.name)
                    .map_or(0, |bound| bound.address.port()),
                port => port,
            };
            AdvertisedListener {
                name: listener.name.clone(),
                host,
                port,
                security_protocol: listener.security_protocol.id(),
            }
        })
        .collect()
}

fn report_failure(fail: &watch::Sender<Option<String>>, what: &'static str) -> OnFatal {
    let fail = fail.clone();
    Box::new(move |why| {
        fail.send_replace(Some(format!("{what}: {why}")));
    })
}

fn bound_ports(sockets: &SocketServer, kind: ListenerKind) -> Vec<u16> {
    sockets
        .listeners()
        .iter()
        .filter(|listener| listener.kind == kind)
        .map(|listener| listener.address.port())
        .collect()
}

fn endpoints(config: &BrokerConfig) -> Vec<Endpoint> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    if config.mode().has_controller() {
        endpoints.extend(
            config
                .controller_listeners()
                .map(|l| Endpoint::of(l, ListenerKind::Controller)),
        );
    }
    if config.mode().has_broker() {
        endpoints.extend(
            config
                .broker_listeners()
                .map(|l| Endpoint::of(l, ListenerKind::Broker)),
        );
    }
    endpoints
}
