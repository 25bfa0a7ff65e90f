//! The controller of one node on its quorum: from a request to the image that everybody reads.

use super::{ControllerAnswer, ControllerChannel, ControllerHandle, ShellSettings};
use crate::metadata::{MetadataCache, MetadataSource, load};
use crate::quorum::no_peers::NoPeers;
use crate::quorum::{MetadataQuorum, QuorumNode, QuorumSettings, VoterNode};
use kavka_common::{NodeId, SystemClock, Uuid};
use kavka_config::{BrokerConfig, Properties};
use kavka_controller::ControllerConfig;
use kavka_metadata::bootstrap;
use kavka_metadata::features::{MetadataVersion, supported_features};
use kavka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerRegistrationRequest, CreateTopicsRequest,
    broker_registration_request, create_topics_request,
};
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode};
use kavka_storage::LogConfig;
use kavka_storage::vfs::RealVfs;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const CLUSTER: &str = "hIBIL8OqS2ulyPPIzOwweg";

pub(super) struct Node {
    pub(super) quorum: Arc<QuorumNode>,
    pub(super) channel: Arc<ControllerChannel>,
    pub(super) cache: Arc<MetadataCache>,
}

pub(super) async fn start(dir: &Path) -> Node {
    let clock = Arc::new(SystemClock::new());
    let quorum = QuorumNode::open(
        QuorumSettings {
            node_id: NodeId(1),
            cluster_id: "c".into(),
            directory_id: String::new(),
            dir: dir.join("__cluster_metadata-0"),
            initial_voters: BTreeMap::from([(
                NodeId(1),
                VoterNode::new("CONTROLLER", "localhost", 9093),
            )]),
            election_timeout_ms: 1000,
            fetch_timeout_ms: 2000,
            bytes_between_snapshots: u64::MAX,
            snapshot_interval_ms: 0,
            retention_bytes: 0,
            log: LogConfig::default(),
        },
        Arc::new(RealVfs),
        clock.clone(),
        NoPeers,
        Box::new(|reason| panic!("the engine died: {reason}")),
    )
    .await
    .unwrap();
    let properties = Properties::parse(
        b"process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@localhost:9093\n",
    )
    .unwrap();
    let file = Arc::new(BrokerConfig::from_properties(&properties).unwrap());
    let shared: Arc<dyn MetadataQuorum> = quorum.clone();
    let handle = ControllerHandle::start(
        ShellSettings {
            config: ControllerConfig::new(CLUSTER, vec![NodeId(1)], file),
            bootstrap: bootstrap::format_records(MetadataVersion::LATEST_PRODUCTION),
            on_fatal: Box::new(|reason| panic!("{reason}")),
        },
        Arc::clone(&shared),
        clock,
    );
    let cache = Arc::new(MetadataCache::new());
    tokio::spawn(load(
        MetadataSource::local(&*shared),
        Arc::clone(&cache),
        Vec::new(),
    ));
    let channel = Arc::new(ControllerChannel::new(Some(handle), None, PATIENCE));
    Node {
        quorum,
        channel,
        cache,
    }
}

impl Node {
    /// Registers broker 1 and lets it serve; gives its epoch.
    pub(super) async fn join(&self, incarnation: u8) -> i64 {
        let registered = self
            .channel
            .call(BrokerRegistrationRequest {
                broker_id: 1,
                cluster_id: CLUSTER.into(),
                incarnation_id: Uuid::from_bytes([incarnation; 16]),
                listeners: vec![broker_registration_request::Listener {
                    name: "PLAINTEXT".into(),
                    host: "localhost".into(),
                    port: 9092,
                    ..Default::default()
                }],
                features: supported_features()
                    .into_iter()
                    .map(|(name, range)| broker_registration_request::Feature {
                        name: (&*name).into(),
                        min_supported_version: range.min,
                        max_supported_version: range.max,
                        ..Default::default()
                    })
                    .collect(),
                log_dirs: vec![Uuid::from_bytes([9; 16])],
                ..Default::default()
            })
            .await
            .unwrap();
        assert_eq!(ErrorCode::from(registered.error_code), ErrorCode::None);
        let epoch = registered.broker_epoch;
        self.cache.wait_for(epoch, PATIENCE).await.unwrap();
        let beat = self
            .channel
            .call(BrokerHeartbeatRequest {
                broker_id: 1,
                broker_epoch: epoch,
                current_metadata_offset: self.cache.published_offset(),
                ..Default::default()
            })
            .await
            .unwrap();
        assert_eq!(ErrorCode::from(beat.error_code), ErrorCode::None);
        assert!(beat.is_caught_up && !beat.is_fenced);
        epoch
    }

    pub(super) async fn create(&self, name: &str) -> (i16, Option<i64>) {
        let request = CreateTopicsRequest {
            topics: vec![create_topics_request::CreatableTopic {
                name: name.into(),
                num_partitions: 3,
                replication_factor: 1,
                ..Default::default()
            }],
            timeout_ms: 10_000,
            ..Default::default()
        };
        let ControllerAnswer {
            response,
            last_offset,
        } = self
            .channel
            .send(7, AnyRequest::CreateTopics(request))
            .await
            .unwrap();
        let AnyResponse::CreateTopics(response) = response else {
            panic!("another response");
        };
        (response.topics[0].error_code, last_offset)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_topic_is_in_the_cache_when_it_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (epoch, image) = {
        let node = start(dir.path()).await;
        let epoch = node.join(1).await;
        let (code, offset) = node.create("quickstart-events").await;
        assert_eq!(ErrorCode::from(code), ErrorCode::None);
        node.cache
            .wait_for(offset.unwrap(), PATIENCE)
            .await
            .unwrap();
        let image = node.cache.image();
        let topic = image.topics.by_name("quickstart-events").unwrap();
        assert_eq!(topic.partitions.iter().count(), 3);
        for (_, partition) in &topic.partitions {
            assert_eq!(partition.leader, NodeId(1));
        }
        let (code, _) = node.create("quickstart-events").await;
        assert_eq!(ErrorCode::from(code), ErrorCode::TopicAlreadyExists);
        node.quorum.shutdown().await;
        (epoch, image)
    };
    // C2: what is read back is the same image; C5: the epoch of the next registration is higher.
    let node = start(dir.path()).await;
    node.cache
        .wait_for(image.last_offset, PATIENCE)
        .await
        .unwrap();
    assert_eq!(node.cache.image().topics, image.topics);
    assert!(node.join(2).await > epoch);
    node.quorum.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_share_batches_and_each_is_decided_once() {
    let dir = tempfile::tempdir().unwrap();
    let node = Arc::new(start(dir.path()).await);
    node.join(1).await;
    let mut tasks = Vec::new();
    for at in 0..60 {
        let node = Arc::clone(&node);
        // Each name is asked for twice: one of the two must be refused.
        tasks.push(tokio::spawn(async move {
            node.create(&format!("topic-{}", at / 2)).await
        }));
    }
    let mut created = 0;
    let mut last = 0;
    for task in tasks {
        let (code, offset) = task.await.unwrap();
        match ErrorCode::from(code) {
            ErrorCode::None => created += 1,
            ErrorCode::TopicAlreadyExists => {}
            other => panic!("{other:?}"),
        }
        last = last.max(offset.unwrap());
    }
    assert_eq!(created, 30);
    node.cache.wait_for(last, PATIENCE).await.unwrap();
    assert_eq!(node.cache.image().topics.iter().count(), 30);
    node.quorum.shutdown().await;
}

#[tokio::test]
async fn a_flood_of_requests_does_not_hold_up_heartbeats() {
    let dir = tempfile::tempdir().unwrap();
    let node = start(dir.path()).await;
    let epoch = node.join(1).await;
    let refused = || {
        node.channel.call(CreateTopicsRequest {
            topics: vec![create_topics_request::CreatableTopic {
                name: "not a name".into(),
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            }],
            ..Default::default()
        })
    };
    // More than the queue holds; the rest waits for room in it, and nobody takes the answers.
    let mut flood: Vec<_> = (0..3_000).map(|_| Box::pin(refused())).collect();
    for request in &mut flood {
        assert!(futures::poll!(request.as_mut()).is_pending());
    }
    let beat = node.channel.call(BrokerHeartbeatRequest {
        broker_id: 1,
        broker_epoch: epoch,
        current_metadata_offset: epoch,
        want_shut_down: true,
        ..Default::default()
    });
    let beat = tokio::time::timeout(PATIENCE, beat).await;
    let beat = beat.expect("it waits behind the flood").unwrap();
    assert_eq!(ErrorCode::from(beat.error_code), ErrorCode::None);
    let answered = futures::future::join_all(flood).await;
    assert!(answered.iter().all(Result::is_ok));
}
