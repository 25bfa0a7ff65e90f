//! When the metadata is written as a snapshot, and when the log's beginning goes.
//! Not here: the file (snapshot_file.rs), writing it (state_machine.rs).
//! `keep` is a task that ends with the node.
//! Kafka: org.apache.kafka.image.publisher.SnapshotGenerator, KafkaMetadataLog.maybeClean; KIP-630.

use super::quorum_node::QuorumNode;
use super::{QuorumAppendError, SnapshotId};
use std::time::Duration;
use tracing::warn;

/// Makes snapshots when enough was committed, and deletes the log's prefix behind them.
pub(super) async fn keep(node: std::sync::Weak<QuorumNode>) {
    let Some(mut high_watermark) = node.upgrade().map(|node| node.state.high_watermark()) else {
        return;
    };
    let mut last_ms = match node.upgrade() {
        Some(node) => node.clock.monotonic_ms(),
        None => return,
    };
    loop {
        let interval_ms = match node.upgrade() {
            Some(node) => node.settings.snapshot_interval_ms,
            None => return,
        };
        let wait = if interval_ms == 0 {
            Duration::from_secs(3600)
        } else {
            Duration::from_millis(interval_ms)
        };
        // Woken by commits; by time only where an interval asks for a snapshot although little happened.
        let _ = tokio::time::timeout(wait, high_watermark.changed()).await;
        let Some(node) = node.upgrade() else {
            return;
        };
        let since = node.state.since_snapshot();
        let elapsed_ms = node.clock.monotonic_ms().saturating_sub(last_ms);
        let old = interval_ms > 0
            && u64::try_from(elapsed_ms).unwrap_or(0) >= interval_ms
            && since.records > 0;
        if since.in_transaction || !(since.bytes >= node.settings.bytes_between_snapshots || old) {
            continue;
        }
        last_ms = node.clock.monotonic_ms();
        if let Err(error) = node.snapshot().await {
            warn!("no snapshot of the metadata: {error}");
        }
    }
}

impl QuorumNode {
    /// Makes a snapshot now and waits for it. The log's prefix goes when the log is larger than its retention.
    pub async fn snapshot(&self) -> Result<Option<SnapshotId>, QuorumAppendError> {
        let stopped = |error: String| QuorumAppendError::Stopped(error);
        let applied = self.raft.metrics().borrow().last_applied;
        let before = self.raft.metrics().borrow().snapshot;
        if applied.is_none() || applied == before {
            return Ok(self.state.latest_snapshot());
        }
        self.raft
            .trigger()
            .snapshot()
            .await
            .map_err(|error| stopped(error.to_string()))?;
        self.raft
            .wait(Some(Duration::from_secs(60)))
            .metrics(|metrics| metrics.snapshot >= applied, "snapshot")
            .await
            .map_err(|error| stopped(error.to_string()))?;
        let latest = self.state.latest_snapshot();
        let over = u64::try_from(self.settings.retention_bytes)
            .is_ok_and(|retention| self.log.size_bytes() > retention);
        if let Some(applied) = applied.filter(|_| over) {
            self.raft
                .trigger()
                .purge_log(applied.index)
                .await
                .map_err(|error| stopped(error.to_string()))?;
        }
        Ok(latest)
    }
}
