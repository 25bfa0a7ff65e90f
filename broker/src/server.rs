//! The composition root: what a server consists of, in which order it starts and in which it stops.
//! Not here: what the parts do. Arguments, signals and the exit status are program.rs's.
//! `start` and `stop` run in the main task; every other task and thread is spawned by a part that is started here.
//! Kafka: kafka.server.{KafkaRaftServer, SharedServer, BrokerServer, ControllerServer}.

mod config;
mod controller_part;

pub use config::ServerConfig;

use crate::api::api_versions::{ApiVersionsAnswer, Features};
use crate::api::dispatch::ApiTable;
use crate::api::table;
use crate::identity::{self, Identity, OpenDirs};
use crate::machine;
use crate::network::{Dispatch, Endpoint, ListenerKind, NetworkLimits, SocketServer};
use crate::program::{Failure, KAFKA_VERSION};
use crate::quorum::MetadataQuorum;
use crate::quorum::quorum_node::OnFatal;
use crate::start_error::StartError;
use crate::zookeeper_port::ZooKeeperPort;
use controller_part::ControllerPart;
use kavka_common::{Clock, SystemClock};
use kavka_config::BrokerConfig;
use kavka_storage::vfs::{RealVfs, Vfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use tracing::info;

/// A running server.
pub struct Server {
    node_id: i32,
    sockets: SocketServer,
    controller: Option<ControllerPart>,
    /// Locked until the very end.
    dirs: OpenDirs,
    failed: watch::Receiver<Option<String>>,
}

impl Server {
    pub async fn start(config: ServerConfig) -> Result<Server, StartError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
        let (fail, failed) = watch::channel(None);
        config.report();
        let broker = Arc::clone(&config.broker);
        let mode = broker.mode();

        // Listeners are bound first: a port in use is the commonest mistake, and nothing has happened yet.
        let limits = NetworkLimits::from_config(&broker, machine::memory_bytes())?;
        let sockets = SocketServer::bind(&endpoints(&broker), limits, Arc::clone(&clock))?;

        // The locks of the log directories come before anything in them is read.
        let log_dirs: Vec<PathBuf> = broker.log_dirs().iter().map(PathBuf::from).collect();
        let metadata_log_dir = Path::new(broker.metadata_log_dir());
        let mut dirs =
            identity::open_dirs(&vfs, &log_dirs, metadata_log_dir, mode.has_controller())?;
        let identity = dirs.identify(broker.node_id(), broker.node_id_is_generated())?;
        let cluster_id = cluster_id(&dirs, &identity)?;
        let node_id = identity.node_id;
        dirs.format(&cluster_id, node_id, clock.wall_ms())?;

        let controller = if mode.has_controller() {
            let part = ControllerPart::start(
                &broker,
                node_id,
                dirs.directory_id(metadata_log_dir),
                bound_port(&sockets, ListenerKind::Controller),
                Arc::clone(&vfs),
                Arc::clone(&clock),
                report_failure(&fail, "the metadata quorum has died"),
            )
            .await?;
            Some(part)
        } else {
            None
        };

        if let Some(controller) = &controller {
            let quorum = Arc::clone(&controller.quorum);
            let mut api_table = ApiTable::new(
                ListenerKind::Controller,
                table::controller_rows(),
                ApiVersionsAnswer::new(move || Features::of(&quorum.image())),
                Arc::clone(&clock),
            );
            if let Some(zookeeper) = config.zookeeper {
                let port = ZooKeeperPort::new(
                    zookeeper,
                    node_id,
                    cluster_id.clone(),
                    Arc::clone(&controller.quorum) as Arc<dyn MetadataQuorum>,
                );
                api_table = api_table.with_greeter(Box::new(move |connection, bytes| {
                    port.greet(connection, bytes)
                }));
            }
            let dispatch: Arc<dyn Dispatch> = Arc::new(api_table);
            sockets.open(ListenerKind::Controller, &dispatch, None);
        }
        if mode.has_broker() {
            let dispatch: Arc<dyn Dispatch> = Arc::new(ApiTable::new(
                ListenerKind::Broker,
                table::broker_rows(),
                ApiVersionsAnswer::new(|| Features {
                    finalized_epoch: -1,
                    ..Features::default()
                }),
                Arc::clone(&clock),
            ));
            sockets.open(
                ListenerKind::Broker,
                &dispatch,
                Some(broker.inter_broker_listener_name()),
            );
        }

        info!(target: "org.apache.kafka.common.utils.AppInfoParser", "Kafka version: {KAFKA_VERSION}");
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={node_id}] Kafka Server started");
        Ok(Server {
            node_id: node_id.get(),
            sockets,
            controller,
            dirs,
            failed,
        })
    }

    /// Completes with the reason when a part of the server has failed beyond repair.
    pub fn failure(&self) -> Failure {
        let mut failed = self.failed.clone();
        Box::pin(async move {
            let why = failed
                .wait_for(Option::is_some)
                .await
                .map(|why| why.clone().unwrap_or_default());
            match why {
                Ok(why) => why,
                // Nobody can report a failure any more.
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// Stops in the reverse order of `start`.
    pub async fn stop(self) {
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={}] shutting down", self.node_id);
        self.sockets.shutdown().await;
        if let Some(controller) = self.controller {
            controller.stop().await;
        }
        drop(self.dirs);
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={}] shut down completed", self.node_id);
    }
}

/// The stored id of the cluster, or a new one for directories that hold nothing.
fn cluster_id(dirs: &OpenDirs, identity: &Identity) -> Result<String, StartError> {
    match &identity.cluster_id {
        Some(stored) => Ok(stored.clone()),
        None => {
            dirs.check_empty()?;
            Ok(identity::random_uuid()?.to_string())
        }
    }
}

fn report_failure(fail: &watch::Sender<Option<String>>, what: &'static str) -> OnFatal {
    let fail = fail.clone();
    Box::new(move |why| {
        fail.send_replace(Some(format!("{what}: {why}")));
    })
}

fn bound_port(sockets: &SocketServer, kind: ListenerKind) -> u16 {
    sockets
        .listeners()
        .iter()
        .find(|listener| listener.kind == kind)
        .map_or(0, |listener| listener.address.port())
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
