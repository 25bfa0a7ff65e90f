//! The controller role of a node: its member of the metadata quorum, and the controller on it.
//! Not here: listeners, the broker role, the order of things (server.rs).
//! Started by the composition root before the broker role, stopped after it.
//! Kafka: kafka.server.{SharedServer, ControllerServer}.

use crate::quorum::no_peers::NoPeers;
use crate::quorum::quorum_node::OnFatal;
use crate::quorum::{MetadataQuorum, QuorumNode, QuorumSettings, VoterNode};
use crate::start_error::StartError;
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_common::{Clock, NodeId, Uuid};
use kavka_config::BrokerConfig;
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
}

impl ControllerPart {
    /// `bound_port`: of the first controller listener, where the configuration leaves it to the system.
    pub async fn start(
        config: &BrokerConfig,
        node_id: NodeId,
        directory_id: Option<Uuid>,
        bound_port: u16,
        vfs: Arc<dyn Vfs>,
        clock: Arc<dyn Clock>,
        on_fatal: OnFatal,
    ) -> Result<ControllerPart, StartError> {
        let settings = quorum_settings(config, node_id, directory_id, bound_port);
        if settings.initial_voters.len() > 1 {
            return Err(StartError::runtime(
                "A metadata quorum of more than one controller is not served yet",
            )
            .with_remedy("Name one voter in controller.quorum.voters"));
        }
        let quorum = QuorumNode::open(settings, vfs, clock, NoPeers, on_fatal)
            .await
            .map_err(|e| {
                StartError::runtime(format!("The metadata quorum cannot be opened: {e}"))
            })?;
        Ok(ControllerPart { quorum })
    }

    pub async fn stop(self) {
        self.quorum.shutdown().await;
    }
}

fn quorum_settings(
    config: &BrokerConfig,
    node_id: NodeId,
    directory_id: Option<Uuid>,
    bound_port: u16,
) -> QuorumSettings {
    let directory = |id: NodeId| match directory_id {
        Some(directory) if id == node_id => directory.to_string(),
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
    if initial_voters.is_empty() {
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
