//! The controller role of a node: its member of the metadata quorum, and the controller on it.
//! Not here: listeners, the broker role, the order of things (server.rs).
//! Started by the composition root before the broker role, stopped after it.
//! Kafka: kafka.server.{SharedServer, ControllerServer}.

use crate::api::api_versions::{ApiVersionsAnswer, Features};
use crate::api::dispatch::ApiTable;
use crate::api::table;
use crate::controller::{
    ControllerChannel, ControllerHandle, ShellSettings, bootstrap_records, update_voter,
};
use crate::machine;
use crate::metadata::MetadataCache;
use crate::network::ListenerKind;
use crate::quorum::observers::Observers;
use crate::quorum::quorum_node::OnFatal;
use crate::quorum::{MetadataQuorum, Peers, QuorumNode, QuorumSettings, VoterEndpoint, VoterNode};
use crate::start_error::StartError;
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_common::{Clock, NodeId, Uuid};
use kavka_config::BrokerConfig;
use kavka_controller::ControllerConfig;
use kavka_storage::LogConfig;
use kavka_storage::vfs::Vfs;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The settings of the metadata log and its quorum.
pub const KEYS: &[&str] = &[
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.timeout.ms",
    "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes",
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.log.segment.bytes",
    "metadata.log.segment.ms",
    "metadata.max.retention.bytes",
];

/// A running controller role.
pub struct ControllerPart {
    pub quorum: Arc<QuorumNode>,
    pub handle: ControllerHandle,
    pub observers: Arc<Observers>,
}

/// What the controller role is started with.
pub struct ControllerRole<'a> {
    pub config: &'a Arc<BrokerConfig>,
    pub node_id: NodeId,
    pub cluster_id: &'a Arc<str>,
    /// Of the directory that holds the metadata log.
    pub directory_id: Option<Uuid>,
    /// Of the first controller listener, where the configuration leaves it to the system.
    pub bound_port: u16,
    /// The quorum has other members, which add this one: it begins without any.
    pub joins: bool,
}

impl ControllerPart {
    pub async fn start(
        role: ControllerRole<'_>,
        vfs: Arc<dyn Vfs>,
        clock: Arc<dyn Clock>,
        on_fatal: impl Fn(&'static str) -> OnFatal,
    ) -> Result<ControllerPart, StartError> {
        let settings = quorum_settings(&role);
        let bootstrap = bootstrap_records(&*vfs, Path::new(role.config.metadata_log_dir()))
            .map_err(|e| StartError::thrown("java.io.IOException", e.to_string()))?;
        let voters = settings.initial_voters.keys().copied().collect();
        let peers = Peers::new(settings.member(), settings.initial_voters.clone());
        let quorum = QuorumNode::open(
            settings,
            vfs,
            Arc::clone(&clock),
            peers,
            on_fatal("the metadata quorum has died"),
        )
        .await
        .map_err(|e| StartError::runtime(format!("The metadata quorum cannot be opened: {e}")))?;
        let shared = Arc::clone(&quorum) as Arc<dyn MetadataQuorum>;
        let handle = ControllerHandle::start(
            ShellSettings {
                config: ControllerConfig {
                    node_id: role.node_id,
                    ..ControllerConfig::new(&**role.cluster_id, voters, Arc::clone(role.config))
                },
                bootstrap,
                on_fatal: on_fatal("the controller has failed"),
            },
            Arc::clone(&shared),
            Arc::clone(&clock),
        );
        let observers = Arc::new(Observers::new(shared, Arc::clone(role.cluster_id), clock));
        Ok(ControllerPart {
            quorum,
            handle,
            observers,
        })
    }

    /// What a controller's listeners serve.
    pub fn api_table(
        &self,
        config: &Arc<BrokerConfig>,
        cluster_id: &Arc<str>,
        cache: &Arc<MetadataCache>,
        clock: &Arc<dyn Clock>,
    ) -> ApiTable {
        let leader = self.quorum.leader();
        let rows = table::controller_rows(
            &self.handle,
            &self.observers,
            cache,
            config,
            cluster_id,
            move || leader.borrow().leader_id.unwrap_or(NodeId::NONE),
        );
        let quorum = Arc::clone(&self.quorum);
        ApiTable::new(
            ListenerKind::Controller,
            rows,
            ApiVersionsAnswer::new(move || Features::of(&quorum.image())),
            Arc::clone(clock),
        )
        .with_on_closed({
            let handle = self.handle.clone();
            Box::new(move |connection_id| handle.connection_closed(connection_id))
        })
    }

    /// Tells the quorum where this voter listens now. `ports`: of the controller listeners, in their order.
    pub fn keep_listeners_known(
        &self,
        config: &BrokerConfig,
        channel: &Arc<ControllerChannel>,
        ports: &[u16],
    ) {
        let own = self.quorum.settings.member();
        let voters = self.quorum.voters();
        let known = voters.get(&NodeId(own.node_id));
        let listeners = config
            .controller_listeners()
            .zip(ports)
            .map(|(listener, port)| {
                let known = known.and_then(|node| {
                    let mut endpoints = node.endpoints.iter();
                    endpoints.find(|endpoint| endpoint.name == listener.name)
                });
                let host = match known {
                    Some(known) if listener.is_wildcard() => known.host.clone(),
                    _ if listener.is_wildcard() => machine::host_name(),
                    _ => listener.host.clone(),
                };
                VoterEndpoint {
                    name: listener.name.clone(),
                    host,
                    port: *port,
                }
            })
            .collect();
        let quorum = Arc::clone(&self.quorum) as Arc<dyn MetadataQuorum>;
        tokio::spawn(update_voter(Arc::clone(channel), quorum, own, listeners));
    }

    pub async fn stop(self) {
        drop(self.handle);
        self.quorum.shutdown().await;
    }
}

fn quorum_settings(role: &ControllerRole<'_>) -> QuorumSettings {
    let ControllerRole {
        config,
        node_id,
        cluster_id,
        directory_id,
        bound_port,
        joins,
    } = *role;
    // The members of a larger quorum write the same first entry; none knows the directories of the others.
    let alone = config.quorum_voters().len() <= 1;
    let directory = |id: NodeId| match directory_id {
        Some(directory) if id == node_id && alone => directory.to_string(),
        _ => String::new(),
    };
    let listener_name = config
        .controller_listener_names()
        .first()
        .map_or("CONTROLLER", String::as_str);
    let mut initial_voters: BTreeMap<NodeId, VoterNode> = config
        .quorum_voters()
        .iter()
        .map(|voter| {
            let node = VoterNode {
                directory_id: directory(NodeId(voter.id)),
                ..VoterNode::new(listener_name, &voter.address.host, voter.address.port)
            };
            (NodeId(voter.id), node)
        })
        .collect();
    if initial_voters.is_empty() && !joins {
        let listener = config
            .controller_listeners()
            .find(|listener| listener.name == listener_name);
        let host = match listener {
            Some(listener) if !listener.is_wildcard() => listener.host.clone(),
            _ => "localhost".to_owned(),
        };
        let own = VoterNode {
            directory_id: directory(node_id),
            ..VoterNode::new(listener_name, &host, bound_port)
        };
        initial_voters.insert(node_id, own);
    }
    let bytes = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    QuorumSettings {
        node_id,
        cluster_id: cluster_id.to_string(),
        directory_id: directory_id.map(|id| id.to_string()).unwrap_or_default(),
        dir: Path::new(config.metadata_log_dir()).join(format!("{CLUSTER_METADATA_TOPIC}-0")),
        initial_voters,
        election_timeout_ms: config.unsigned("controller.quorum.election.timeout.ms"),
        fetch_timeout_ms: config.unsigned("controller.quorum.fetch.timeout.ms"),
        bytes_between_snapshots: config.unsigned("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_interval_ms: config.unsigned("metadata.log.max.snapshot.interval.ms"),
        retention_bytes: config.long("metadata.max.retention.bytes"),
        log: LogConfig {
            segment_bytes: bytes(
                config
                    .optional_long("internal.metadata.log.segment.bytes")
                    .unwrap_or_else(|| config.long("metadata.log.segment.bytes")),
            ),
            segment_ms: config.long("metadata.log.segment.ms"),
            file_delete_delay_ms: config.long("internal.metadata.delete.delay.millis"),
            // Segments go when a snapshot covers them, never by their age or size alone.
            cleanup_delete: false,
            ..LogConfig::default()
        },
    }
}
