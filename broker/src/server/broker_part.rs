//! The broker role of a node: its view of the metadata, its replicas, its standing with the controller.
//! Not here: the controller role, sockets, the order of the whole (server.rs).
//! Started by the composition root after the controller role, stopped before it.
//! Kafka: kafka.server.BrokerServer.

use crate::api::api_versions::{ApiVersionsAnswer, Features};
use crate::api::auto_create::AutoTopicCreation;
use crate::api::dispatch::{ApiTable, Row};
use crate::api::forward::Forwarding;
use crate::api::metadata::MetadataApi;
use crate::api::table;
use crate::controller::ControllerChannel;
use crate::coordinator::GroupCoordinator;
use crate::coordinator::groups::GroupSettings;
use crate::lifecycle::{BrokerLifecycle, BrokerState, LifecycleSettings};
use crate::metadata::{MetadataCache, MetadataPublisher};
use crate::network::ListenerKind;
use crate::quorum::Observers;
use crate::replica::{
    FetcherSettings, Fetchers, NoProducerIds, ProducerIdBlock, ProducerIdSource, ProducerIds,
    ReplicaManager, ReplicaSettings,
};
use crate::replica::{alter_partition, assignments};
use crate::server::failed_dirs::{self, FailedDirsSettings};
use crate::start_error::StartError;
use futures::future::BoxFuture;
use kavka_common::{Clock, NodeId};
use kavka_config::{BrokerConfig, Layers};
use kavka_metadata::{MetadataDelta, MetadataImage};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::AllocateProducerIdsRequest;
use kavka_storage::LogDirs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

const LOGGER: &str = "kafka.server.BrokerServer";
/// How long a stop waits for the controller to move leaderships.
const CONTROLLED_SHUTDOWN_PATIENCE: Duration = Duration::from_secs(30);
/// Somebody who waits for a stop wants to know for what.
const CONTROLLED_SHUTDOWN_NOTICE_AFTER: Duration = Duration::from_secs(2);

/// A running broker role.
pub struct BrokerPart {
    node_id: NodeId,
    cache: Arc<MetadataCache>,
    channel: Arc<ControllerChannel>,
    replicas: Arc<ReplicaManager>,
    fetchers: Arc<Fetchers>,
    groups: Arc<GroupCoordinator>,
    lifecycle: Arc<BrokerLifecycle>,
    /// What talks to the controller about replicas.
    reporting: Vec<JoinHandle<()>>,
    /// Why this broker cannot go on.
    fatal: watch::Receiver<Option<String>>,
    heartbeats: Option<JoinHandle<()>>,
    maintenance: Vec<JoinHandle<()>>,
    clock: Arc<dyn Clock>,
}

impl BrokerPart {
    /// Opens the logs. The metadata is not followed yet: see [`BrokerPart::publishers`].
    pub async fn start(
        config: &Arc<BrokerConfig>,
        lifecycle: LifecycleSettings,
        dirs: Arc<LogDirs>,
        cache: Arc<MetadataCache>,
        channel: Arc<ControllerChannel>,
        clock: Arc<dyn Clock>,
    ) -> BrokerPart {
        let node_id = lifecycle.broker_id;
        let replicas = ReplicaManager::new(
            node_id,
            ReplicaSettings::from_config(config),
            Layers::of_file(Arc::clone(config)),
            dirs,
            Arc::clone(&clock),
        );
        replicas.await_registration(lifecycle.incarnation_id);
        replicas.recover().await;
        let groups = GroupCoordinator::new(GroupSettings::of(config), Arc::clone(&replicas));
        let lifecycle = BrokerLifecycle::new(
            lifecycle,
            Arc::clone(&channel),
            Arc::clone(&cache),
            Arc::clone(&clock),
        );
        let fetchers = Fetchers::new(
            Arc::clone(&replicas),
            FetcherSettings::from_config(config),
            lifecycle.epochs(),
        );
        let (fail, fatal) = watch::channel(None);
        let watched = |what, task: BoxFuture<'static, ()>| {
            tokio::spawn(Arc::clone(&replicas).watched(what, task))
        };
        let reporting = vec![
            watched(
                "registering in-sync replicas",
                Box::pin(alter_partition::run(
                    Arc::clone(&replicas),
                    Arc::clone(&channel),
                    lifecycle.epochs(),
                )),
            ),
            watched(
                "telling the controller where replicas lie",
                Box::pin(assignments::run(
                    Arc::clone(&replicas),
                    Arc::clone(&channel),
                    lifecycle.epochs(),
                )),
            ),
            watched(
                "telling the controller of failed directories",
                Box::pin(failed_dirs::run(
                    replicas.failed_dirs(),
                    Arc::clone(&lifecycle),
                    FailedDirsSettings::from_config(config),
                    fail,
                )),
            ),
        ];
        BrokerPart {
            node_id,
            cache,
            channel,
            fetchers,
            reporting,
            fatal,
            maintenance: replicas.start_maintenance(),
            replicas,
            groups,
            lifecycle,
            heartbeats: None,
            clock,
        }
    }

    /// What acts on the metadata, in this order.
    pub fn publishers(&self) -> Vec<Box<dyn MetadataPublisher>> {
        vec![Box::new(ReplicaPublisher {
            replicas: Arc::clone(&self.replicas),
            fetchers: Arc::clone(&self.fetchers),
            groups: Arc::clone(&self.groups),
        })]
    }

    /// What a broker's listeners serve.
    pub fn api_table(
        &self,
        config: &Arc<BrokerConfig>,
        cluster_id: &Arc<str>,
        observers: Option<Arc<Observers>>,
    ) -> ApiTable {
        let forwarding = Forwarding {
            controller: Arc::clone(&self.channel),
            cache: Arc::clone(&self.cache),
        };
        let auto_create = Arc::new(AutoTopicCreation::new(
            Arc::clone(config),
            Arc::clone(&self.cache),
            Arc::clone(&self.channel),
        ));
        let metadata = MetadataApi {
            cache: Arc::clone(&self.cache),
            config: Arc::clone(config),
            cluster_id: Arc::clone(cluster_id),
            auto_create,
        };
        let producer_ids = ProducerIds::new(Arc::new(ControllerProducerIds {
            channel: Arc::clone(&self.channel),
            lifecycle: Arc::clone(&self.lifecycle),
            node_id: self.node_id,
        }));
        let rows: Vec<Row> = [
            table::replica_rows(&self.replicas, &producer_ids),
            table::group_rows(&self.groups),
            table::cluster_rows(&metadata, &forwarding),
            vec![table::quorum_row(observers, &forwarding)],
        ]
        .into_iter()
        .flatten()
        .collect();
        let cache = Arc::clone(&self.cache);
        ApiTable::new(
            ListenerKind::Broker,
            rows,
            ApiVersionsAnswer::new(move || Features::of(&cache.image())),
            Arc::clone(&self.clock),
        )
    }

    /// Registers, catches up with the metadata, and serves when the controller lets it.
    pub async fn join(&mut self, patience: Duration) -> Result<(), StartError> {
        let registered = self
            .lifecycle
            .register()
            .await
            .map_err(|e| StartError::runtime(capitalised(&e.to_string())))?;
        // Its registration is in the log at the broker epoch: with that, all that was before it is known.
        let seen = self.cache.wait_for(registered.get(), patience).await;
        if seen.is_err() {
            return Err(StartError::runtime(format!(
                "The metadata log could not be read up to offset {registered} within {patience:?}"
            ))
            .with_remedy(
                "See the warnings above; initial.broker.registration.timeout.ms allows more time",
            ));
        }
        self.replicas.set_strays_aside().await;
        self.groups.metadata_is_current();
        self.heartbeats = Some(tokio::spawn(Arc::clone(&self.lifecycle).run()));
        let mut state = self.lifecycle.state();
        let serving = async {
            let _ = state.wait_for(|state| *state == BrokerState::Running).await;
            // What the controller decided is acted on before anybody is told that the server is ready.
            let mut published = self.cache.published();
            while !self.cache.image().cluster.is_active(self.node_id) {
                if published.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(patience, serving).await.map_err(|_| {
            StartError::runtime(format!(
                "The controller did not let the broker serve within {patience:?}"
            ))
        })
    }

    /// Completes with the reason when nothing is left to serve from, nobody could be told what is left, or a task of
    /// replication has panicked: such a broker must end, so that others lead and whoever watches over it restarts it.
    pub fn failure(&self) -> impl Future<Output = String> + Send + 'static {
        let replicas = Arc::clone(&self.replicas);
        let mut fatal = self.fatal.clone();
        let reported = async move {
            let why = fatal.wait_for(Option::is_some).await;
            match why.map(|why| why.clone().unwrap_or_default()) {
                Ok(why) => why,
                // the broker is stopping
                Err(_) => std::future::pending().await,
            }
        };
        async move {
            tokio::select! {
                biased;
                () = replicas.all_dirs_failed() => "all log directories have failed".to_owned(),
                why = reported => why,
                what = replicas.panicked() => format!("{what} has panicked"),
            }
        }
    }

    /// Hands leaderships over, unless `impatient` completes before. Requests are still served meanwhile.
    pub async fn leave(&self, impatient: impl Future<Output = ()>) {
        let node_id = self.node_id;
        let told = async {
            tokio::time::sleep(CONTROLLED_SHUTDOWN_NOTICE_AFTER).await;
            info!(target: LOGGER, "[BrokerServer id={node_id}] Waiting up to {} s for the controller to hand over what this broker leads; a second signal stops it without that", CONTROLLED_SHUTDOWN_PATIENCE.as_secs());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = self.lifecycle.controlled_shutdown(CONTROLLED_SHUTDOWN_PATIENCE) => {}
            () = impatient => {
                warn!(target: LOGGER, "[BrokerServer id={node_id}] Asked again to stop: not waiting for the controller any more");
            }
            () = told => {}
        }
        // While the connections are still there: members that wait for a rebalance are told to look elsewhere.
        self.groups.stop();
    }

    /// Closes the logs; the marker of a clean stop comes last.
    pub async fn stop(self) {
        if let Some(heartbeats) = self.heartbeats {
            heartbeats.abort();
            let _ = heartbeats.await;
        }
        self.fetchers.stop().await;
        for task in self.reporting {
            task.abort();
            let _ = task.await;
        }
        self.replicas.shutdown(Some(self.lifecycle.epoch())).await;
        for task in self.maintenance {
            // A panic in a task has been reported by the panic hook.
            let _ = task.await;
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Tells the replicas what the metadata says, then the coordinators what that meant for the replicas.
struct ReplicaPublisher {
    replicas: Arc<ReplicaManager>,
    fetchers: Arc<Fetchers>,
    groups: Arc<GroupCoordinator>,
}

impl MetadataPublisher for ReplicaPublisher {
    fn name(&self) -> &'static str {
        "replicas"
    }

    fn publish<'a>(
        &'a mut self,
        delta: &'a MetadataDelta,
        image: &'a MetadataImage,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let changes = self.replicas.apply(delta, image).await;
            self.fetchers.follow(&changes);
            self.groups.follow(delta, &changes);
        })
    }
}

/// Blocks of producer ids from the controller.
struct ControllerProducerIds {
    node_id: NodeId,
    channel: Arc<ControllerChannel>,
    lifecycle: Arc<BrokerLifecycle>,
}

impl ProducerIdSource for ControllerProducerIds {
    fn allocate(&self) -> BoxFuture<'static, Result<ProducerIdBlock, NoProducerIds>> {
        let channel = Arc::clone(&self.channel);
        let request = AllocateProducerIdsRequest {
            broker_id: self.node_id.get(),
            broker_epoch: self.lifecycle.epoch().get(),
            ..Default::default()
        };
        Box::pin(async move {
            let response = channel
                .call(request)
                .await
                .map_err(|e| NoProducerIds(e.to_string()))?;
            match ErrorCode::from(response.error_code) {
                ErrorCode::None => Ok(ProducerIdBlock {
                    first: response.producer_id_start,
                    count: response.producer_id_len,
                }),
                error => Err(NoProducerIds(error.name().to_owned())),
            }
        })
    }
}
