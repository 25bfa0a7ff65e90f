//! A broker on another node: registers over sockets, follows the metadata log, and is missed at once when it dies.

use super::shell_test::{CLUSTER, Node, PATIENCE, start};
use super::{ControllerChannel, RemoteController, SeedOrigin, Seeds};
use crate::api::api_versions::{ApiVersionsAnswer, Features};
use crate::api::{ApiTable, decide};
use crate::lifecycle::{AdvertisedListener, BrokerLifecycle, BrokerState, LifecycleSettings};
use crate::metadata::{MetadataCache, MetadataSource, Observer, load};
use crate::network::{Dispatch, Endpoint, ListenerKind, NetworkLimits, SocketServer};
use crate::quorum::{MetadataQuorum, Observers};
use kavka_client::BrokerAddress;
use kavka_common::{BrokerEpoch, Clock, NodeId, SystemClock, Uuid};
use kavka_config::{BrokerConfig, Properties, SecurityProtocol};
use kavka_metadata::features::supported_features;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// The node's controller on a port of the system's choice.
fn serve(node: &Node, clock: &Arc<dyn Clock>) -> (SocketServer, u16) {
    let properties = Properties::parse_str(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@localhost:9093\n",
    )
    .unwrap();
    let config = BrokerConfig::from_properties(&properties).unwrap();
    let endpoint = Endpoint {
        name: "CONTROLLER".into(),
        security_protocol: SecurityProtocol::Plaintext,
        kind: ListenerKind::Controller,
        host: "127.0.0.1".into(),
        port: 0,
    };
    let limits = NetworkLimits::from_config(&config, 1 << 30).unwrap();
    let sockets = SocketServer::bind(&[endpoint], limits, Arc::clone(clock)).unwrap();
    let handle = node.channel.local().unwrap().clone();
    let quorum: Arc<dyn MetadataQuorum> = node.quorum.clone();
    let observers = Arc::new(Observers::new(quorum, CLUSTER.into(), Arc::clone(clock)));
    let table: Arc<dyn Dispatch> = Arc::new(
        ApiTable::new(
            ListenerKind::Controller,
            decide::rows(&handle, &observers),
            ApiVersionsAnswer::new(|| Features {
                finalized_epoch: -1,
                ..Features::default()
            }),
            Arc::clone(clock),
        )
        .with_on_closed(Box::new(move |id| handle.connection_closed(id))),
    );
    sockets.open(ListenerKind::Controller, &table, None);
    let port = sockets.listeners()[0].address.port();
    (sockets, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_elsewhere_follows_and_is_missed_at_once() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    node.join(1).await;
    let (code, _) = node.create("before").await;
    assert_eq!(code, 0);
    // What the broker needs first is only in a snapshot.
    node.quorum.snapshot().await.unwrap();
    let cut = async {
        while node.quorum.log_offsets().0 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cut)
        .await
        .expect("the log's beginning goes");
    let (sockets, port) = serve(&node, &clock);

    let seeds = Seeds {
        addresses: vec![BrokerAddress::new("127.0.0.1", port)],
        origin: SeedOrigin::ZooKeeperConnect,
    };
    let remote = Arc::new(RemoteController::new(
        seeds,
        "broker-5".into(),
        5_000,
        2_000,
    ));
    let cache = Arc::new(MetadataCache::new());
    let observer = Observer::new(NodeId(5), CLUSTER.into(), Arc::clone(&remote));
    let loading = tokio::spawn(load(
        MetadataSource::Remote(Box::new(observer)),
        Arc::clone(&cache),
        Vec::new(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channel = Arc::new(ControllerChannel::new(None, Some(remote), PATIENCE));
    let lifecycle = BrokerLifecycle::new(
        LifecycleSettings {
            broker_id: NodeId(5),
            cluster_id: CLUSTER.into(),
            incarnation_id: Uuid::from_bytes([5; 16]),
            listeners: vec![AdvertisedListener {
                name: "PLAINTEXT".into(),
                host: "127.0.0.1".into(),
                port: listener.local_addr().unwrap().port(),
                security_protocol: 0,
            }],
            features: supported_features(),
            rack: None,
            log_dirs: vec![Uuid::from_bytes([0x55; 16])],
            previous_broker_epoch: BrokerEpoch::UNKNOWN,
            heartbeat_interval_ms: 2_000,
            session_timeout_ms: 9_000,
            registration_timeout_ms: 20_000,
        },
        Arc::clone(&channel),
        Arc::clone(&cache),
        Arc::clone(&clock),
    );
    lifecycle.register().await.unwrap();
    let heartbeats = tokio::spawn(Arc::clone(&lifecycle).run());
    let mut state = lifecycle.state();
    tokio::time::timeout(
        PATIENCE,
        state.wait_for(|state| *state == BrokerState::Running),
    )
    .await
    .expect("the broker is let in")
    .unwrap();
    assert!(cache.image().topics.by_name("before").is_some());
    let (code, offset) = node.create("after").await;
    assert_eq!(code, 0);
    cache.wait_for(offset.unwrap(), PATIENCE).await.unwrap();
    assert_eq!(cache.image().topics, node.quorum.image().topics);

    // The process dies: everything of it is closed by the system.
    heartbeats.abort();
    loading.abort();
    let _ = (heartbeats.await, loading.await);
    drop((lifecycle, channel, listener));
    // A session lapses after 9 seconds; this does not wait for it.
    let fenced = async {
        let mut high_watermark = node.quorum.high_watermark();
        loop {
            let image = node.quorum.image();
            if image.cluster.broker(NodeId(5)).unwrap().fenced {
                return;
            }
            high_watermark.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(6), fenced)
        .await
        .expect("the broker is fenced before its session lapses");
    sockets.shutdown().await;
    node.quorum.shutdown().await;
    drop(node.cache);
}
