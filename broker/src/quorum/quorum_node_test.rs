//! A quorum of one: starts at once, commits, snapshots, restarts.

use super::{Committed, MetadataQuorum, QuorumAppendError, QuorumNode, QuorumSettings, VoterNode};
use crate::quorum::no_peers::NoPeers;
use kavka_common::{LeaderEpoch, NodeId, SystemClock};
use kavka_metadata::bootstrap;
use kavka_metadata::features::MetadataVersion;
use kavka_storage::LogConfig;
use kavka_storage::vfs::RealVfs;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn settings(dir: &Path) -> QuorumSettings {
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
        log: LogConfig {
            cleanup_delete: false,
            segment_bytes: 1024,
            file_delete_delay_ms: 0,
            ..LogConfig::default()
        },
    }
}

async fn open(dir: &Path) -> Arc<QuorumNode> {
    QuorumNode::open(
        settings(dir),
        Arc::new(RealVfs),
        Arc::new(SystemClock::new()),
        NoPeers,
        Box::new(|reason| panic!("the engine died: {reason}")),
    )
    .await
    .unwrap()
}

fn bootstrap_records() -> Vec<kavka_protocol::MetadataRecord> {
    bootstrap::activation_records(
        bootstrap::format_records(MetadataVersion::LATEST_PRODUCTION),
        1,
    )
}

#[tokio::test]
async fn a_quorum_of_one_leads_at_once_and_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let end = {
        let node = open(dir.path()).await;
        let leader = *node.leader().borrow();
        assert_eq!(
            (leader.leader_id, leader.epoch),
            (Some(NodeId(1)), LeaderEpoch(1))
        );
        // kraft.version, voters, leader change.
        assert_eq!(node.log_offsets(), (0, 3));
        let (image, mut committed) = node.subscribe();
        assert!(image.features.finalized_levels().len() <= 1);
        let records = bootstrap_records();
        let applied = node
            .append(LeaderEpoch(1), 3, records.clone())
            .await
            .unwrap();
        assert_eq!(applied.base_offset, 3);
        let Some(Committed::Batch(batch)) = committed.recv().await else {
            panic!("nothing was committed");
        };
        // The entries of the start may be told too, before the records.
        let batch = if batch.records.is_empty() {
            match committed.recv().await {
                Some(Committed::Batch(batch)) => batch,
                _ => panic!("the records were not committed"),
            }
        } else {
            batch
        };
        assert_eq!(batch.records, records);
        assert_eq!(batch.image.last_offset, applied.last_offset);
        assert_eq!(*node.high_watermark().borrow(), applied.last_offset + 1);
        assert!(matches!(
            node.append(LeaderEpoch(1), 3, records.clone()).await,
            Err(QuorumAppendError::UnexpectedEnd { .. })
        ));
        assert!(matches!(
            node.append(LeaderEpoch(2), applied.last_offset + 1, records)
                .await,
            Err(QuorumAppendError::NotLeader { .. })
        ));
        node.shutdown().await;
        applied.last_offset + 1
    };
    let node = open(dir.path()).await;
    assert_eq!(node.log_offsets(), (0, end));
    assert_eq!(*node.high_watermark().borrow(), end);
    assert_eq!(node.image().features.finalized_levels().len(), 7);
    node.shutdown().await;
}

#[tokio::test]
async fn snapshots_replace_the_beginning_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let image = {
        let node = open(dir.path()).await;
        let mut offset = 3;
        for _ in 0..20 {
            let records = bootstrap_records();
            offset = node
                .append(LeaderEpoch(1), offset, records)
                .await
                .unwrap()
                .last_offset
                + 1;
        }
        let id = node.snapshot().await.unwrap().unwrap();
        assert_eq!((id.end_offset, id.epoch), (offset, LeaderEpoch(1)));
        let region = node.snapshot_region(id).unwrap();
        assert_eq!(region.read().unwrap().len(), region.length);
        let mut purged = node.raft.metrics();
        purged
            .wait_for(|metrics| metrics.purged.is_some())
            .await
            .unwrap();
        assert!(node.log_offsets().0 > 0);
        let image = node.image();
        node.shutdown().await;
        image
    };
    let node = open(dir.path()).await;
    assert_eq!(node.image(), image);
    let applied = node
        .append(LeaderEpoch(1), image.last_offset + 1, bootstrap_records())
        .await
        .unwrap();
    assert_eq!(applied.base_offset, image.last_offset + 1);
    node.shutdown().await;
}
