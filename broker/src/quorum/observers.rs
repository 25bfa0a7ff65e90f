//! Serves the committed metadata log to brokers: Fetch, FetchSnapshot and DescribeQuorum of `__cluster_metadata`.
//! Not here: the log (metadata_log.rs), the reading side (metadata/observer.rs), sockets.
//! Any task; a fetch that finds nothing waits for the high watermark. Only committed batches are given out, so that an
//! observer never has to take anything back. Kafka: KafkaRaftClient.{handleFetchRequest, handleFetchSnapshotRequest,
//! handleDescribeQuorumRequest}, LeaderState; KIP-595, KIP-630, KIP-836, KIP-853.

use super::{MetadataQuorum, QuorumLeader, QuorumReadError, ReplicaStatus, SnapshotId};
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_common::{Clock, FileRegion, LeaderEpoch, NodeId, Offset, Uuid};
use kavka_protocol::messages::{
    DescribeQuorumRequest, DescribeQuorumResponse, FetchRequest, FetchResponse,
    FetchSnapshotRequest, FetchSnapshotResponse, describe_quorum_response, fetch_request,
    fetch_response, fetch_snapshot_request, fetch_snapshot_response,
};
use kavka_protocol::{ErrorCode, Records, Segment};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A fetch waits no longer than this, whatever it asks for (`replica.fetch.wait.max.ms` is 500).
const WAIT_MS_MAX: i32 = 30_000;
/// Bytes of one answer, whatever the request allows.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// An observer that was not heard of for so long is not listed any more.
const OBSERVER_FORGOTTEN_MS: i64 = 300_000;

/// From this version on DescribeQuorum tells directories, listeners and reasons (KIP-853).
const NODES_SINCE: i16 = 2;

/// What is known of the brokers that read the log.
pub struct Observers {
    quorum: Arc<dyn MetadataQuorum>,
    cluster_id: Arc<str>,
    clock: Arc<dyn Clock>,
    seen: Mutex<BTreeMap<NodeId, ReplicaStatus>>,
}

enum Position {
    Read(FileRegion),
    Nothing,
    Snapshot(SnapshotId),
    Diverging(LeaderEpoch, Offset),
    Error(ErrorCode),
}

impl Observers {
    pub fn new(
        quorum: Arc<dyn MetadataQuorum>,
        cluster_id: Arc<str>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Observers {
            quorum,
            cluster_id,
            clock,
            seen: Mutex::new(BTreeMap::new()),
        }
    }

    pub fn quorum(&self) -> &Arc<dyn MetadataQuorum> {
        &self.quorum
    }

    /// Whether this node leads the quorum.
    pub fn leads(&self) -> bool {
        self.quorum.leader().borrow().leader_id == Some(self.quorum.node_id())
    }

    /// Fetch on a controller's listener.
    pub async fn fetch(&self, request: FetchRequest) -> FetchResponse {
        if let Some(error) = self.other_cluster(request.cluster_id.as_deref()) {
            return FetchResponse {
                error_code: error.code(),
                ..Default::default()
            };
        }
        let [topic] = &request.topics[..] else {
            return invalid_fetch();
        };
        let named =
            &*topic.topic == CLUSTER_METADATA_TOPIC || topic.topic_id == Uuid::METADATA_TOPIC;
        let ([partition], true) = (&topic.partitions[..], named) else {
            return invalid_fetch();
        };
        let replica_id = match request.replica_state.replica_id {
            -1 => request.replica_id,
            id => id,
        };
        let wait_ms = request.max_wait_ms.clamp(0, WAIT_MS_MAX);
        let deadline =
            Instant::now() + Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
        let mut high_watermark = self.quorum.high_watermark();
        let mut leader = self.quorum.leader();
        let position = loop {
            high_watermark.borrow_and_update();
            leader.borrow_and_update();
            let position = self.position(partition, request.max_bytes);
            self.note(replica_id, partition, &position);
            if !matches!(position, Position::Nothing) {
                break position;
            }
            // The observer's own high watermark lags: tell it at once, as KIP-1166 does.
            if partition.high_watermark < *high_watermark.borrow() {
                break position;
            }
            let changed = tokio::time::timeout_at(deadline, async {
                tokio::select! {
                    changed = high_watermark.changed() => changed.is_ok(),
                    changed = leader.changed() => changed.is_ok(),
                }
            })
            .await;
            if !matches!(changed, Ok(true)) {
                break position;
            }
        };
        self.fetch_response(topic, partition, position)
    }

    fn position(&self, partition: &fetch_request::FetchPartition, max_bytes: i32) -> Position {
        let leader = *self.quorum.leader().borrow();
        if let Some(error) = self.not_leader(&leader, partition.current_leader_epoch) {
            return Position::Error(error);
        }
        if partition.partition != 0 {
            return Position::Error(ErrorCode::UnknownTopicOrPartition);
        }
        let offset = partition.fetch_offset;
        let (log_start_offset, _) = self.quorum.log_offsets();
        if offset < log_start_offset {
            return match self.quorum.latest_snapshot() {
                Some(id) => Position::Snapshot(id),
                None => Position::Error(ErrorCode::OffsetOutOfRange),
            };
        }
        let last_epoch = LeaderEpoch(partition.last_fetched_epoch);
        if last_epoch >= LeaderEpoch::INITIAL
            && let Some((epoch, end_offset)) = self.quorum.end_offset_for_epoch(last_epoch)
            && (epoch != last_epoch || end_offset < offset)
            && !self.snapshot_ends_at(offset, last_epoch)
        {
            return Position::Diverging(epoch, end_offset);
        }
        let bytes_max = usize::try_from(max_bytes.min(partition.partition_max_bytes))
            .unwrap_or(0)
            .clamp(1, ANSWER_BYTES_MAX);
        match self.quorum.read(offset, bytes_max) {
            Ok(Some(region)) => Position::Read(region),
            Ok(None) => Position::Nothing,
            Err(QuorumReadError::OutOfRange { end_offset, .. }) if offset > end_offset => {
                // It has read more than is committed here: this leader has not caught up with its own term yet.
                Position::Nothing
            }
            Err(QuorumReadError::OutOfRange { .. }) => Position::Error(ErrorCode::OffsetOutOfRange),
            Err(QuorumReadError::Failed(reason)) => {
                tracing::error!("the metadata log cannot be read at {offset}: {reason}");
                Position::Error(ErrorCode::KafkaStorageError)
            }
        }
    }

    fn snapshot_ends_at(&self, offset: Offset, epoch: LeaderEpoch) -> bool {
        self.quorum.latest_snapshot()
            == Some(SnapshotId {
                end_offset: offset,
                epoch,
            })
    }

    fn not_leader(&self, leader: &QuorumLeader, current_epoch: i32) -> Option<ErrorCode> {
        let epoch = leader.epoch.get();
        if leader.leader_id != Some(self.quorum.node_id()) {
            Some(ErrorCode::NotLeaderOrFollower)
        } else if current_epoch >= 0 && current_epoch < epoch {
            Some(ErrorCode::FencedLeaderEpoch)
        } else if current_epoch > epoch {
            Some(ErrorCode::UnknownLeaderEpoch)
        } else {
            None
        }
    }

    fn other_cluster(&self, cluster_id: Option<&str>) -> Option<ErrorCode> {
        cluster_id
            .filter(|id| **id != *self.cluster_id)
            .map(|_| ErrorCode::InconsistentClusterId)
    }

    /// Remembers who reads how far. A reader without an id (a tool) is not an observer.
    fn note(
        &self,
        replica_id: i32,
        partition: &fetch_request::FetchPartition,
        position: &Position,
    ) {
        if replica_id < 0 || matches!(position, Position::Error(_)) {
            return;
        }
        let now_ms = self.clock.wall_ms();
        let mut seen = self.seen.lock();
        let caught_up_before = seen
            .get(&NodeId(replica_id))
            .map_or(-1, |status| status.last_caught_up_ms);
        let last_caught_up_ms = match position {
            Position::Nothing => now_ms,
            _ => caught_up_before,
        };
        seen.insert(
            NodeId(replica_id),
            ReplicaStatus {
                replica_id: NodeId(replica_id),
                directory_id: partition.replica_directory_id,
                log_end_offset: partition.fetch_offset,
                last_fetch_ms: now_ms,
                last_caught_up_ms,
            },
        );
    }

    fn fetch_response(
        &self,
        topic: &fetch_request::FetchTopic,
        partition: &fetch_request::FetchPartition,
        position: Position,
    ) -> FetchResponse {
        let leader = *self.quorum.leader().borrow();
        let (log_start_offset, _) = self.quorum.log_offsets();
        let mut answer = fetch_response::PartitionData {
            partition_index: partition.partition,
            high_watermark: *self.quorum.high_watermark().borrow(),
            last_stable_offset: -1,
            log_start_offset,
            aborted_transactions: Some(Vec::new()),
            current_leader: fetch_response::LeaderIdAndEpoch {
                leader_id: leader.leader_id.map_or(-1, NodeId::get),
                leader_epoch: leader.epoch.get(),
                ..Default::default()
            },
            records: Some(Records::default()),
            ..Default::default()
        };
        let mut tell_endpoints = false;
        match position {
            Position::Read(region) => {
                answer.records = Some(Records::Segments(vec![Segment::File(region)]));
            }
            Position::Nothing => {}
            Position::Snapshot(id) => {
                answer.snapshot_id = fetch_response::SnapshotId {
                    end_offset: id.end_offset,
                    epoch: id.epoch.get(),
                    ..Default::default()
                };
            }
            Position::Diverging(epoch, end_offset) => {
                answer.diverging_epoch = fetch_response::EpochEndOffset {
                    epoch: epoch.get(),
                    end_offset,
                    ..Default::default()
                };
            }
            Position::Error(error) => {
                answer.error_code = error.code();
                answer.high_watermark = -1;
                tell_endpoints = true;
            }
        }
        let node_endpoints = match leader.leader_id.filter(|_| tell_endpoints) {
            Some(leader_id) => self
                .endpoint(leader_id)
                .map(|(host, port)| fetch_response::NodeEndpoint {
                    node_id: leader_id.get(),
                    host: host.as_str().into(),
                    port: i32::from(port),
                    ..Default::default()
                })
                .into_iter()
                .collect(),
            None => Vec::new(),
        };
        FetchResponse {
            responses: vec![fetch_response::FetchableTopicResponse {
                topic: topic.topic.clone(),
                topic_id: topic.topic_id,
                partitions: vec![answer],
                ..Default::default()
            }],
            node_endpoints,
            ..Default::default()
        }
    }

    fn endpoint(&self, node_id: NodeId) -> Option<(String, u16)> {
        let voters = self.quorum.voters();
        let endpoint = voters.get(&node_id)?.endpoints.first()?;
        Some((endpoint.host.clone(), endpoint.port))
    }

    /// FetchSnapshot: a piece of a snapshot's file.
    pub fn fetch_snapshot(&self, request: &FetchSnapshotRequest) -> FetchSnapshotResponse {
        if let Some(error) = self.other_cluster(request.cluster_id.as_deref()) {
            return FetchSnapshotResponse {
                error_code: error.code(),
                ..Default::default()
            };
        }
        let bytes_max = usize::try_from(request.max_bytes)
            .unwrap_or(0)
            .clamp(1, ANSWER_BYTES_MAX);
        let topics = request
            .topics
            .iter()
            .map(|topic| fetch_snapshot_response::TopicSnapshot {
                name: topic.name.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| self.snapshot_piece(&topic.name, partition, bytes_max))
                    .collect(),
                ..Default::default()
            })
            .collect();
        FetchSnapshotResponse {
            topics,
            ..Default::default()
        }
    }

    fn snapshot_piece(
        &self,
        topic: &str,
        partition: &fetch_snapshot_request::PartitionSnapshot,
        bytes_max: usize,
    ) -> fetch_snapshot_response::PartitionSnapshot {
        let leader = *self.quorum.leader().borrow();
        let mut answer = fetch_snapshot_response::PartitionSnapshot {
            index: partition.partition,
            snapshot_id: fetch_snapshot_response::SnapshotId {
                end_offset: partition.snapshot_id.end_offset,
                epoch: partition.snapshot_id.epoch,
                ..Default::default()
            },
            current_leader: fetch_snapshot_response::LeaderIdAndEpoch {
                leader_id: leader.leader_id.map_or(-1, NodeId::get),
                leader_epoch: leader.epoch.get(),
                ..Default::default()
            },
            position: partition.position,
            ..Default::default()
        };
        let mut refuse = |error: ErrorCode| {
            answer.error_code = error.code();
            answer.clone()
        };
        if topic != CLUSTER_METADATA_TOPIC || partition.partition != 0 {
            return refuse(ErrorCode::UnknownTopicOrPartition);
        }
        if let Some(error) = self.not_leader(&leader, partition.current_leader_epoch) {
            return refuse(error);
        }
        let id = SnapshotId {
            end_offset: partition.snapshot_id.end_offset,
            epoch: LeaderEpoch(partition.snapshot_id.epoch),
        };
        let Some(file) = self.quorum.snapshot_region(id) else {
            return refuse(ErrorCode::SnapshotNotFound);
        };
        let Some(position) = usize::try_from(partition.position)
            .ok()
            .filter(|position| *position < file.length)
        else {
            return refuse(ErrorCode::PositionOutOfRange);
        };
        answer.size = i64::try_from(file.length).unwrap_or(i64::MAX);
        let length = bytes_max.min(file.length - position);
        answer.unaligned_records = Records::Segments(vec![Segment::File(FileRegion {
            position: file.position + u64::try_from(position).unwrap_or(u64::MAX),
            length,
            source: file.source,
        })]);
        answer
    }

    /// DescribeQuorum. Only the leader knows how far the others are.
    /// What `version` can carry of the quorum's state.
    pub fn describe(
        &self,
        version: i16,
        request: &DescribeQuorumRequest,
    ) -> DescribeQuorumResponse {
        let status = self.quorum.status();
        let leader_id = status.leader.leader_id;
        let known = matches!(&request.topics[..], [topic]
            if &*topic.topic_name == CLUSTER_METADATA_TOPIC
                && matches!(&topic.partitions[..], [partition] if partition.partition_index == 0));
        let mut partition = describe_quorum_response::PartitionData {
            partition_index: 0,
            leader_id: leader_id.map_or(-1, NodeId::get),
            leader_epoch: status.leader.epoch.get(),
            high_watermark: status.high_watermark,
            ..Default::default()
        };
        let nodes = if version >= NODES_SINCE {
            self.nodes()
        } else {
            Vec::new()
        };
        if !known {
            return DescribeQuorumResponse {
                topics: request
                    .topics
                    .iter()
                    .map(|topic| describe_quorum_response::TopicData {
                        topic_name: topic.topic_name.clone(),
                        partitions: topic
                            .partitions
                            .iter()
                            .map(|asked| describe_quorum_response::PartitionData {
                                partition_index: asked.partition_index,
                                error_code: ErrorCode::UnknownTopicOrPartition.code(),
                                error_message: Some(
                                    ErrorCode::UnknownTopicOrPartition.message().into(),
                                ),
                                ..Default::default()
                            })
                            .collect(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            };
        }
        if leader_id == Some(self.quorum.node_id()) {
            let voters = self.quorum.voters();
            partition.current_voters = status
                .voters
                .iter()
                .map(|voter| replica_state(version, voter))
                .collect();
            let now_ms = self.clock.wall_ms();
            let mut seen = self.seen.lock();
            seen.retain(|id, observer| {
                !voters.contains_key(id)
                    && now_ms.saturating_sub(observer.last_fetch_ms) < OBSERVER_FORGOTTEN_MS
            });
            partition.observers = seen
                .values()
                .map(|observer| replica_state(version, observer))
                .collect();
        } else {
            partition.error_code = ErrorCode::NotLeaderOrFollower.code();
            partition.high_watermark = -1;
        }
        DescribeQuorumResponse {
            topics: vec![describe_quorum_response::TopicData {
                topic_name: CLUSTER_METADATA_TOPIC.into(),
                partitions: vec![partition],
                ..Default::default()
            }],
            nodes,
            ..Default::default()
        }
    }

    fn nodes(&self) -> Vec<describe_quorum_response::Node> {
        self.quorum
            .voters()
            .into_iter()
            .map(|(id, node)| describe_quorum_response::Node {
                node_id: id.get(),
                listeners: node
                    .endpoints
                    .iter()
                    .map(|endpoint| describe_quorum_response::Listener {
                        name: endpoint.name.as_str().into(),
                        host: endpoint.host.as_str().into(),
                        port: endpoint.port,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect()
    }
}

fn replica_state(version: i16, status: &ReplicaStatus) -> describe_quorum_response::ReplicaState {
    describe_quorum_response::ReplicaState {
        replica_id: status.replica_id.get(),
        replica_directory_id: if version >= NODES_SINCE {
            status.directory_id
        } else {
            Uuid::ZERO
        },
        log_end_offset: status.log_end_offset,
        last_fetch_timestamp: status.last_fetch_ms,
        last_caught_up_timestamp: status.last_caught_up_ms,
        ..Default::default()
    }
}

fn invalid_fetch() -> FetchResponse {
    FetchResponse {
        error_code: ErrorCode::InvalidRequest.code(),
        ..Default::default()
    }
}
