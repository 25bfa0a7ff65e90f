//! ZooKeeper's client port of a quorum node: the same listener that brokers use, told apart by the first bytes.
//! Not here: the protocol and the texts (crates/zookeeper), the connection (network/).
//! Called in the connection's task; reads the committed image, changes nothing.
//! ZooKeeper 3.5: NIOServerCnxnFactory; Kafka 2.x: kafka.zk.KafkaZkClient on the other side.

use crate::network::{ConnectionInfo, Conversation, ConversationStep, Greeting};
use crate::quorum::MetadataQuorum;
use bytes::{Bytes, BytesMut};
use kavka_common::NodeId;
use kavka_config::SecurityProtocol;
use kavka_config::zookeeper::ZooKeeperConfig;
use kavka_metadata::{BrokerRegistration, MetadataImage};
use kavka_zookeeper::four_letter::{ConnectionView, Mode, answer};
use kavka_zookeeper::session::FRAME_MAX_BYTES;
use kavka_zookeeper::tree::{EndpointNode, PartitionNode};
use kavka_zookeeper::{
    BrokerNode, ClusterView, ControllerNode, Greeting as Sniffed, ServerView, Session, Step,
    TopicNode, Tree, Whitelist, sniff,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the words and the tree are answered from.
pub struct ZooKeeperPort {
    config: ZooKeeperConfig,
    whitelist: Whitelist,
    node_id: NodeId,
    cluster_id: Arc<str>,
    started_ms: i64,
    quorum: Arc<dyn MetadataQuorum>,
    received: AtomicU64,
    sent: AtomicU64,
}

impl ZooKeeperPort {
    pub fn new(
        config: ZooKeeperConfig,
        node_id: NodeId,
        cluster_id: Arc<str>,
        quorum: Arc<dyn MetadataQuorum>,
        started_ms: i64,
    ) -> Arc<Self> {
        Arc::new(ZooKeeperPort {
            whitelist: Whitelist::parse(config.four_letter_words.as_deref()),
            config,
            node_id,
            cluster_id,
            started_ms,
            quorum,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        })
    }

    /// Decides what a new connection speaks.
    pub fn greet(self: &Arc<Self>, connection: &ConnectionInfo, first_bytes: &[u8]) -> Greeting {
        match sniff(first_bytes) {
            Sniffed::Incomplete => Greeting::Incomplete,
            Sniffed::Kafka => Greeting::Kafka,
            Sniffed::FourLetterWord(word) => {
                self.received.fetch_add(1, Ordering::Relaxed);
                let text = answer(word, &self.whitelist, &self.server_view(connection));
                self.sent.fetch_add(1, Ordering::Relaxed);
                Greeting::Answer(Bytes::from(text))
            }
            Sniffed::Jute => {
                let mut password = [0; 16];
                // Sessions are no secret here: nothing can be changed with one.
                password[..8].copy_from_slice(&connection.id.to_be_bytes());
                let timeout = |ms: u32| i32::try_from(ms).unwrap_or(i32::MAX);
                let session_id = (i64::from(self.node_id.get()) << 40)
                    | i64::try_from(connection.id).unwrap_or(i64::MAX);
                Greeting::Conversation(Box::new(JuteConversation {
                    port: Arc::clone(self),
                    session: Session::new(
                        session_id,
                        password,
                        (
                            timeout(self.config.session_timeout_min_ms),
                            timeout(self.config.session_timeout_max_ms),
                        ),
                    ),
                }))
            }
        }
    }

    fn cluster_view(&self) -> ImageView<'_> {
        let leader = *self.quorum.leader().borrow();
        ImageView {
            image: self.quorum.image(),
            controller: leader.leader_id.map(|id| ControllerNode {
                id: id.get(),
                controller_epoch: leader.epoch.get(),
                timestamp_ms: self.started_ms,
            }),
            cluster_id: &self.cluster_id,
            started_ms: self.started_ms,
        }
    }

    fn server_view(&self, connection: &ConnectionInfo) -> ServerView {
        let view = self.cluster_view();
        let leader = *self.quorum.leader().borrow();
        let mode = if self.config.servers.is_empty() {
            Mode::Standalone
        } else if leader.leader_id == Some(self.node_id) {
            Mode::Leader
        } else {
            Mode::Follower
        };
        ServerView {
            mode,
            serving: leader.leader_id.is_some(),
            zxid: view.zxid(),
            node_count: Tree(&view).node_count(),
            latency_min_ms: 0,
            latency_avg_ms: 0,
            latency_max_ms: 0,
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            outstanding: 0,
            watches: 0,
            ephemerals: u64::try_from(view.broker_ids().len()).unwrap_or(0)
                + u64::from(view.controller.is_some()),
            data_bytes: 0,
            open_files: 0,
            open_files_max: 0,
            connections: vec![ConnectionView {
                peer: connection.peer.to_string(),
                queued: 0,
                received: 1,
                sent: 0,
                session_id: 0,
            }],
            client_port: connection.listener.address.port(),
            data_dir: self.config.data_dir.clone(),
            data_dir_bytes: 0,
            tick_time_ms: u64::from(self.config.tick_time_ms),
            client_connections_max: u64::from(self.config.client_connections_max),
            session_timeout_min_ms: u64::from(self.config.session_timeout_min_ms),
            session_timeout_max_ms: u64::from(self.config.session_timeout_max_ms),
            server_id: self.node_id.get(),
        }
    }
}

struct JuteConversation {
    port: Arc<ZooKeeperPort>,
    session: Session,
}

impl Conversation for JuteConversation {
    fn step(&mut self, input: &mut BytesMut) -> ConversationStep {
        let step = self.session.step(input, &self.port.cluster_view());
        if !matches!(step, Step::NeedMore) {
            self.port.received.fetch_add(1, Ordering::Relaxed);
        }
        match step {
            Step::NeedMore => ConversationStep::More,
            Step::Send(bytes) => {
                self.port.sent.fetch_add(1, Ordering::Relaxed);
                ConversationStep::Send(bytes)
            }
            Step::SendAndClose(bytes) => ConversationStep::SendAndClose(bytes),
            Step::Close(why) => ConversationStep::Close(why),
        }
    }

    fn input_max_bytes(&self) -> usize {
        FRAME_MAX_BYTES + 4
    }

    fn idle(&self) -> Duration {
        let ms = self
            .session
            .timeout_ms()
            .and_then(|ms| u64::try_from(ms).ok())
            .unwrap_or_else(|| u64::from(self.port.config.session_timeout_max_ms));
        Duration::from_millis(ms)
    }
}

/// The committed metadata at one moment, as Kafka 2.x would find it in ZooKeeper.
struct ImageView<'a> {
    image: MetadataImage,
    controller: Option<ControllerNode>,
    cluster_id: &'a str,
    /// The image keeps no times of registrations.
    started_ms: i64,
}

impl ImageView<'_> {
    fn registration(&self, id: i32) -> Option<&Arc<BrokerRegistration>> {
        self.image
            .cluster
            .broker(NodeId(id))
            .filter(|broker| !broker.fenced)
    }
}

impl ClusterView for ImageView<'_> {
    fn zxid(&self) -> i64 {
        self.image.last_offset.max(0)
    }

    fn cluster_id(&self) -> String {
        self.cluster_id.to_owned()
    }

    /// ZooKeeper knows brokers as controllers; the tools only look whether there is one.
    fn controller(&self) -> Option<ControllerNode> {
        self.controller
    }

    fn broker_ids(&self) -> Vec<i32> {
        self.image
            .cluster
            .unfenced_brokers()
            .map(|broker| broker.broker_id.get())
            .collect()
    }

    fn broker(&self, id: i32) -> Option<BrokerNode> {
        let broker = self.registration(id)?;
        Some(BrokerNode {
            id,
            endpoints: broker
                .endpoints
                .iter()
                .map(|endpoint| EndpointNode {
                    name: endpoint.name.to_string(),
                    security_protocol: [
                        SecurityProtocol::Plaintext,
                        SecurityProtocol::Ssl,
                        SecurityProtocol::SaslPlaintext,
                        SecurityProtocol::SaslSsl,
                    ]
                    .iter()
                    .find(|protocol| protocol.id() == endpoint.security_protocol)
                    .map_or("PLAINTEXT", |protocol| protocol.name())
                    .to_owned(),
                    host: endpoint.host.to_string(),
                    port: endpoint.port,
                })
                .collect(),
            rack: broker.rack.as_deref().map(str::to_owned),
            broker_epoch: broker.broker_epoch.get(),
            timestamp_ms: self.started_ms,
        })
    }

    fn topic_names(&self) -> Vec<String> {
        self.image
            .topics
            .iter()
            .map(|topic| topic.name.to_string())
            .collect()
    }

    fn topic(&self, name: &str) -> Option<TopicNode> {
        let raw = |ids: &[NodeId]| ids.iter().map(|id| id.get()).collect();
        let topic = self.image.topics.by_name(name)?;
        Some(TopicNode {
            partitions: topic
                .partitions
                .iter()
                .map(|(id, partition)| PartitionNode {
                    partition: *id,
                    replicas: raw(&partition.replicas),
                    isr: raw(&partition.isr),
                    leader: partition.leader.get(),
                    leader_epoch: partition.leader_epoch.get(),
                    adding_replicas: raw(&partition.adding_replicas),
                    removing_replicas: raw(&partition.removing_replicas),
                })
                .collect(),
            configs: self
                .image
                .configs
                .topic(name)
                .into_iter()
                .flat_map(|configs| configs.iter())
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        })
    }
}
