//! The composition root: what a server consists of, in which order it starts and in which it stops.
//! Not here: what the parts do. Arguments, signals and the exit status are program.rs's.
//! `start` and `stop` run in the main task; every other task and thread is spawned by a part that is started here.
//! Kafka: kafka.server.{KafkaRaftServer, SharedServer, BrokerServer, ControllerServer}.

use crate::api::api_versions::{ApiVersionsAnswer, Features};
use crate::api::dispatch::ApiTable;
use crate::api::table;
use crate::machine;
use crate::network::{Dispatch, Endpoint, ListenerKind, NetworkLimits, SocketServer};
use crate::program::{Failure, KAFKA_VERSION, Program};
use crate::start_error::StartError;
use kavka_common::{Clock, SystemClock};
use kavka_config::{BrokerConfig, Properties};
use std::sync::Arc;
use tracing::{info, warn};

/// Everything that the properties file decides.
#[derive(Debug)]
pub struct ServerConfig {
    broker: Arc<BrokerConfig>,
}

impl ServerConfig {
    pub fn read(program: Program, properties: &Properties) -> Result<Self, StartError> {
        match program {
            Program::KafkaServer => Ok(ServerConfig {
                broker: Arc::new(BrokerConfig::from_properties(properties)?),
            }),
            Program::ZooKeeperServer => Err(StartError::runtime("not yet")),
        }
    }

    pub fn node_id(&self) -> Option<i32> {
        Some(self.broker.node_id().get())
    }

    /// As `process.roles` would say it.
    pub fn roles(&self) -> String {
        let mode = self.broker.mode();
        [
            mode.has_broker().then_some("broker"),
            mode.has_controller().then_some("controller"),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(",")
    }
}

/// A running server.
pub struct Server {
    sockets: SocketServer,
    node_id: i32,
    failed: tokio::sync::watch::Receiver<Option<String>>,
    _fail: tokio::sync::watch::Sender<Option<String>>,
}

impl Server {
    pub async fn start(config: ServerConfig) -> Result<Server, StartError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let broker = Arc::clone(&config.broker);
        report_settings(&broker);

        // Listeners are bound first: a port in use is the commonest mistake, and nothing has happened yet.
        let limits = NetworkLimits::from_config(&broker, machine::memory_bytes())?;
        let sockets = SocketServer::bind(&endpoints(&broker), limits, Arc::clone(&clock))?;

        let broker_table: Arc<dyn Dispatch> = Arc::new(ApiTable::new(
            ListenerKind::Broker,
            table::broker_rows(),
            ApiVersionsAnswer::new(no_features),
            Arc::clone(&clock),
        ));
        let controller_table: Arc<dyn Dispatch> = Arc::new(ApiTable::new(
            ListenerKind::Controller,
            table::controller_rows(),
            ApiVersionsAnswer::new(no_features),
            Arc::clone(&clock),
        ));
        sockets.open(ListenerKind::Controller, &controller_table, None);
        sockets.open(
            ListenerKind::Broker,
            &broker_table,
            Some(broker.inter_broker_listener_name()),
        );

        let node_id = broker.node_id().get();
        info!(target: "org.apache.kafka.common.utils.AppInfoParser", "Kafka version: {KAFKA_VERSION}");
        info!(target: "kafka.server.KafkaRaftServer", "[KafkaRaftServer nodeId={node_id}] Kafka Server started");
        let (fail, failed) = tokio::sync::watch::channel(None);
        Ok(Server {
            sockets,
            node_id,
            failed,
            _fail: fail,
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
        info!(target: "kafka.server.BrokerServer", "[BrokerServer id={}] shutting down", self.node_id);
        self.sockets.shutdown().await;
        info!(target: "kafka.server.BrokerServer", "[BrokerServer id={}] shut down completed", self.node_id);
    }
}

fn no_features() -> Features {
    Features {
        finalized_epoch: -1,
        ..Features::default()
    }
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

/// Says once what is odd about the settings.
fn report_settings(config: &BrokerConfig) {
    const CONFIG: &str = "kafka.server.KafkaConfig";
    for warning in config.warnings() {
        warn!(target: CONFIG, "{warning}");
    }
    let unknown = config.unknown_keys();
    if !unknown.is_empty() {
        warn!(target: CONFIG, "These configurations '{unknown:?}' were supplied but are not used yet.");
    }
    let unacted = config.unacted_keys(NetworkLimits::KEYS);
    if !unacted.is_empty() {
        info!(target: CONFIG, "Accepted, and without effect in this version: {}", unacted.join(", "));
    }
}
