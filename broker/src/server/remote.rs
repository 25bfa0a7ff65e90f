//! The controllers elsewhere: where they are looked for, and to which cluster they belong.
//! Not here: talking to the active one (controller/remote.rs).
//! Runs at start, before the node knows its cluster.
//! Kafka: RaftConfig, ControllerNodeProvider; of Kafka 2.x: KafkaServer.initZkClient.

use crate::controller::{RemoteController, SeedOrigin, Seeds};
use crate::identity::{self, OpenDirs};
use crate::metadata::Observer;
use crate::server::fellows::is_own;
use crate::start_error::StartError;
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection};
use kavka_common::NodeId;
use kavka_config::{BrokerConfig, HostPort};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::DescribeClusterRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;

/// DescribeCluster about controllers (KIP-919).
const ENDPOINT_TYPE_CONTROLLER: i8 = 2;
const LOGGER: &str = "kafka.server.KafkaRaftServer";
const RETRY: Duration = Duration::from_millis(100);

/// The controllers that the configuration names, when they are not all on this node. `own_ports`: of this node's
/// controller listeners.
pub fn controller(
    config: &BrokerConfig,
    node_id: NodeId,
    own_ports: &[u16],
) -> Option<Arc<RemoteController>> {
    let address = |at: &HostPort| BrokerAddress::new(at.host.clone(), at.port);
    let seeds = if let Some(zookeeper) = config.zookeeper_connect() {
        Seeds {
            addresses: zookeeper.servers.iter().map(address).collect(),
            origin: SeedOrigin::ZooKeeperConnect,
        }
    } else if !config.quorum_voters().is_empty() {
        Seeds {
            addresses: config
                .quorum_voters()
                .iter()
                .filter(|voter| NodeId(voter.id) != node_id)
                .map(|voter| address(&voter.address))
                .collect(),
            origin: SeedOrigin::QuorumVoters,
        }
    } else {
        // A quorum may have grown from this very node: whoever is asked tells where the leader is.
        Seeds {
            addresses: config
                .quorum_bootstrap_servers()
                .iter()
                .filter(|server| !is_own(server, config, own_ports))
                .map(address)
                .collect(),
            origin: SeedOrigin::QuorumBootstrapServers,
        }
    };
    if seeds.addresses.is_empty() {
        return None;
    }
    let timeout_ms = config.unsigned("controller.socket.timeout.ms");
    Some(Arc::new(RemoteController::new(
        seeds,
        format!("broker-{node_id}-to-controller"),
        timeout_ms,
        config.unsigned("broker.session.timeout.ms") / 2,
    )))
}

/// The id of the cluster: that of the directories, if the controllers do not speak of another; else theirs.
pub async fn cluster_id(
    controller: &RemoteController,
    stored: Option<&str>,
    dirs: &OpenDirs,
    patience: Duration,
) -> Result<String, StartError> {
    if let Some(stored) = stored {
        check_cluster(controller, stored).await?;
        return Ok(stored.to_owned());
    }
    dirs.check_empty()?;
    let deadline = Instant::now() + patience;
    let mut told = false;
    loop {
        let mut reasons = Vec::new();
        for seed in &controller.seeds().addresses {
            match ask(seed).await {
                Ok(cluster_id) => return Ok(cluster_id),
                Err(reason) => reasons.push(format!("{seed}: {reason}")),
            }
        }
        let reasons = reasons.join("; ");
        if Instant::now() >= deadline {
            return Err(nobody(controller.seeds(), &reasons));
        }
        if !told {
            told = true;
            warn!(target: LOGGER, "No controller answers yet at {}: {reasons}. Waiting up to {} s. {}", controller.seeds(), patience.as_secs_f32(), remedy(controller.seeds()).1);
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn nobody(seeds: &Seeds, reasons: &str) -> StartError {
    let (key, remedy) = remedy(seeds);
    StartError::thrown(
        "org.apache.kafka.common.errors.TimeoutException",
        format!("No controller answers at {key}={seeds}: {reasons}"),
    )
    .with_remedy(remedy)
}

/// The setting that names the controllers, and what to do when they do not answer.
fn remedy(seeds: &Seeds) -> (&'static str, &'static str) {
    match seeds.origin {
        SeedOrigin::ZooKeeperConnect => (
            "zookeeper.connect",
            "Start zookeeper-server-start.sh config/zookeeper.properties first, or correct zookeeper.connect; or use process.roles=broker,controller (config/kraft/server.properties), which needs no second server",
        ),
        SeedOrigin::QuorumVoters => (
            "controller.quorum.voters",
            "Start the controllers first, or correct controller.quorum.voters",
        ),
        SeedOrigin::QuorumBootstrapServers => (
            "controller.quorum.bootstrap.servers",
            "Start the controllers first, or correct controller.quorum.bootstrap.servers",
        ),
    }
}

async fn ask(seed: &BrokerAddress) -> Result<String, String> {
    let config = ClientConfig {
        client_id: "broker-start".into(),
        request_timeout_ms: 3_000,
        connect_timeout_ms: 3_000,
        ..ClientConfig::default()
    };
    let words = |error: ClientError| error.to_string();
    let mut connection = Connection::connect(seed, &config).await.map_err(words)?;
    let request = DescribeClusterRequest {
        endpoint_type: ENDPOINT_TYPE_CONTROLLER,
        ..Default::default()
    };
    let response = connection.call(&request).await.map_err(words)?;
    match ErrorCode::from(response.error_code) {
        ErrorCode::None => Ok(response.cluster_id.to_string()),
        error => Err(error.name().to_owned()),
    }
}

/// The next id that no broker has, from `first` on: what ZooKeeper's sequence gave to brokers without an id.
pub async fn free_broker_id(
    controller: &Arc<RemoteController>,
    cluster_id: &str,
    first: NodeId,
    patience: Duration,
) -> Result<NodeId, StartError> {
    let mut observer = Observer::new(NodeId::NONE, cluster_id.to_owned(), Arc::clone(controller));
    let Some(image) = observer.catch_up(patience).await else {
        return Err(StartError::thrown(
            "org.apache.kafka.common.errors.TimeoutException",
            format!(
                "broker.id is to be generated, and no controller at {} tells within {patience:?} which ids are taken",
                controller.seeds()
            ),
        )
        .with_remedy("Set broker.id to a number that no other broker has, or see whether the controllers run"));
    };
    let taken = image.cluster.brokers.keys().map(|id| id.get());
    let highest = taken.filter(|id| *id >= first.get()).max();
    Ok(highest.map_or(first, |id| NodeId(id.saturating_add(1))))
}

/// Whether the directories and the controllers speak of the same cluster.
async fn check_cluster(controller: &RemoteController, stored: &str) -> Result<(), StartError> {
    for seed in &controller.seeds().addresses {
        if let Ok(of_controller) = ask(seed).await {
            return identity::check_cluster(stored, &of_controller, &seed.to_string());
        }
    }
    // Nobody is there to ask: registration waits for them, and is told.
    Ok(())
}
