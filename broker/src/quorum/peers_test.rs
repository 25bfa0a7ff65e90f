//! Three members over real sockets: they elect a leader, agree, survive the loss of one, and catch up.

use super::{
    AppliedBatch, MetadataQuorum, Observers, Peers, QuorumAppendError, QuorumNode, QuorumSettings,
    VoterNode,
};
use crate::api::api_versions::{ApiVersionsAnswer, Features};
use crate::api::{ApiTable, decide};
use crate::controller::{ControllerHandle, ShellSettings};
use crate::network::{Dispatch, Endpoint, ListenerKind, NetworkLimits, SocketServer};
use kavka_common::{Clock, NodeId, SystemClock};
use kavka_config::{BrokerConfig, Properties, SecurityProtocol};
use kavka_controller::ControllerConfig;
use kavka_metadata::{MetadataVersion, bootstrap};
use kavka_protocol::MetadataRecord;
use kavka_protocol::messages::NoOpRecord;
use kavka_storage::LogConfig;
use kavka_storage::vfs::RealVfs;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HANG: Duration = Duration::from_secs(30);

struct Member {
    sockets: SocketServer,
    node: Arc<QuorumNode>,
    controller: ControllerHandle,
}

fn config() -> Arc<BrokerConfig> {
    let properties = Properties::parse_str(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@localhost:9093\n",
    )
    .unwrap();
    Arc::new(BrokerConfig::from_properties(&properties).unwrap())
}

fn bind(port: u16, clock: &Arc<dyn Clock>) -> SocketServer {
    let endpoint = Endpoint {
        name: "CONTROLLER".into(),
        security_protocol: SecurityProtocol::Plaintext,
        kind: ListenerKind::Controller,
        host: "127.0.0.1".into(),
        port,
    };
    let limits = NetworkLimits::from_config(&config(), 1 << 30).unwrap();
    SocketServer::bind(&[endpoint], limits, Arc::clone(clock)).unwrap()
}

async fn start(
    id: i32,
    dir: &Path,
    voters: &BTreeMap<NodeId, VoterNode>,
    sockets: SocketServer,
    clock: &Arc<dyn Clock>,
) -> Member {
    let node_id = NodeId(id);
    let node = QuorumNode::open(
        QuorumSettings {
            node_id,
            cluster_id: "c".into(),
            directory_id: String::new(),
            dir: dir.join("__cluster_metadata-0"),
            initial_voters: voters.clone(),
            election_timeout_ms: 1000,
            fetch_timeout_ms: 2000,
            bytes_between_snapshots: u64::MAX,
            snapshot_interval_ms: 0,
            retention_bytes: 0,
            log: LogConfig {
                cleanup_delete: false,
                segment_bytes: 4096,
                file_delete_delay_ms: 0,
                ..LogConfig::default()
            },
        },
        Arc::new(RealVfs),
        Arc::clone(clock),
        Peers::new(
            super::Member {
                cluster_id: "c".into(),
                node_id: id,
                directory_id: String::new(),
            },
            voters.clone(),
        ),
        Box::new(move |reason| panic!("member {id} died: {reason}")),
    )
    .await
    .unwrap();
    let shared: Arc<dyn MetadataQuorum> = node.clone();
    let controller = ControllerHandle::start(
        ShellSettings {
            config: ControllerConfig {
                node_id,
                ..ControllerConfig::new("c", voters.keys().copied().collect(), config())
            },
            bootstrap: bootstrap::format_records(MetadataVersion::LATEST_PRODUCTION),
            on_fatal: Box::new(|reason| panic!("{reason}")),
        },
        Arc::clone(&shared),
        Arc::clone(clock),
    );
    let observers = Arc::new(Observers::new(shared, "c".into(), Arc::clone(clock)));
    let table: Arc<dyn Dispatch> = Arc::new(ApiTable::new(
        ListenerKind::Controller,
        decide::rows(&controller, &observers),
        ApiVersionsAnswer::new(|| Features {
            finalized_epoch: -1,
            ..Features::default()
        }),
        Arc::clone(clock),
    ));
    sockets.open(ListenerKind::Controller, &table, None);
    Member {
        sockets,
        node,
        controller,
    }
}

impl Member {
    async fn stop(self) {
        self.sockets.shutdown().await;
        drop(self.controller);
        self.node.shutdown().await;
    }

    /// Whether it is the active controller within the time.
    async fn becomes_active(&self) -> bool {
        self.controller
            .active()
            .wait_for(Option::is_some)
            .await
            .is_ok()
    }

    async fn sees(&self, offset: i64) {
        let mut high_watermark = self.node.high_watermark();
        tokio::time::timeout(HANG, high_watermark.wait_for(|at| *at > offset))
            .await
            .expect("the member catches up")
            .unwrap();
    }
}

/// The member that leads.
async fn leader_of(members: &[Member]) -> usize {
    let active = members.iter().enumerate().map(|(at, member)| {
        Box::pin(async move {
            member.becomes_active().await;
            at
        })
    });
    tokio::time::timeout(HANG, futures::future::select_all(active))
        .await
        .expect("a leader is elected")
        .0
}

/// Appends past the shell; nobody else proposes in these tests.
async fn append(member: &Member, records: usize) -> Result<AppliedBatch, QuorumAppendError> {
    let record = MetadataRecord::NoOp(NoOpRecord::default());
    let epoch = member.node.leader().borrow().epoch;
    let (_, end) = member.node.log_offsets();
    member.node.append(epoch, end, vec![record; records]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_agree_and_outlive_their_leader() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let sockets: Vec<_> = (0..3).map(|_| bind(0, &clock)).collect();
    let ports: Vec<u16> = sockets
        .iter()
        .map(|sockets| sockets.listeners()[0].address.port())
        .collect();
    let voters: BTreeMap<NodeId, VoterNode> = (1..=3)
        .zip(&ports)
        .map(|(id, port)| (NodeId(id), VoterNode::new("CONTROLLER", "127.0.0.1", *port)))
        .collect();
    let mut members = Vec::new();
    for (at, sockets) in sockets.into_iter().enumerate() {
        let id = i32::try_from(at).unwrap() + 1;
        members.push(start(id, dirs[at].path(), &voters, sockets, &clock).await);
    }
    let first = leader_of(&members).await;
    // The first controller writes the records of a new cluster.
    members[first].sees(10).await;
    let applied = append(&members[first], 5).await.unwrap();
    for member in &members {
        member.sees(applied.last_offset).await;
        assert_eq!(member.node.image(), members[first].node.image());
    }
    let old_epoch = members[first].node.leader().borrow().epoch;

    let lost = members.remove(first);
    let lost_id = lost.node.node_id();
    lost.stop().await;
    let second = leader_of(&members).await;
    let new_epoch = members[second].node.leader().borrow().epoch;
    assert!(new_epoch > old_epoch, "C6: one leader per term");
    let mut last = 0;
    for _ in 0..40 {
        last = append(&members[second], 20).await.unwrap().last_offset;
    }
    // What the lost one missed is only in a snapshot now.
    members[second].node.snapshot().await.unwrap();
    let mut metrics = members[second].node.raft.metrics();
    tokio::time::timeout(HANG, metrics.wait_for(|metrics| metrics.purged.is_some()))
        .await
        .expect("the log's beginning goes")
        .unwrap();

    let at = usize::try_from(lost_id.get()).unwrap() - 1;
    let sockets = bind(ports[at], &clock);
    let back = start(lost_id.get(), dirs[at].path(), &voters, sockets, &clock).await;
    back.sees(last).await;
    let leading = leader_of(&members).await;
    let applied = append(&members[leading], 1).await.unwrap();
    back.sees(applied.last_offset).await;
    assert_eq!(back.node.image(), members[leading].node.image());
    back.stop().await;
    for member in members {
        member.stop().await;
    }
}
