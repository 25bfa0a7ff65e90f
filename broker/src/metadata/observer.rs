//! Reads the committed metadata log from the active controller with Kafka's own requests: Fetch and FetchSnapshot of
//! `__cluster_metadata`.
//! Not here: serving them (quorum/observers.rs), telling the parts of the broker (loader.rs).
//! Owned by the loader's task. Keeps no log of its own: after a restart it starts from the controller's snapshot.
//! Kafka: KafkaRaftClient as an observer; KIP-595, KIP-630.

use crate::controller::RemoteController;
use crate::quorum::SnapshotId;
use crate::quorum::entry_codec::{decode_control, decode_records};
use crate::quorum::snapshot_file;
use bytes::Bytes;
use kavka_client::{BrokerAddress, ClientConfig, Connection};
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_common::{LeaderEpoch, NodeId, Offset, Uuid};
use kavka_metadata::{MetadataDelta, MetadataImage};
use kavka_protocol::messages::{
    FetchRequest, FetchResponse, FetchSnapshotRequest, fetch_request, fetch_response,
    fetch_snapshot_request,
};
use kavka_protocol::{ErrorCode, Records};
use kavka_records::batches;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

const LOGGER: &str = "org.apache.kafka.image.loader.MetadataLoader";
/// How long the controller may hold a fetch that finds nothing new.
const FETCH_WAIT_MS: i32 = 500;
const FETCH_BYTES_MAX: i32 = 8 << 20;
/// Snapshots are read in pieces of this size.
const SNAPSHOT_PIECE_BYTES: i32 = 1 << 20;
/// A larger snapshot is not believed.
const SNAPSHOT_BYTES_MAX: i64 = 4 << 30;
const RETRY: Duration = Duration::from_millis(50);
/// An election takes about a second; whoever asks seldom in that time finds the new leader late.
const RETRY_MAX: Duration = Duration::from_millis(200);
/// A controller that holds an answer for longer than it was asked to is paused or cut off.
const ANSWER_TIMEOUT_MS: u64 = 2_000;

/// The metadata log as seen from a broker that is not a member of the quorum.
pub struct Observer {
    node_id: NodeId,
    /// Of a controller that is to become a voter; zero for a broker.
    directory_id: Uuid,
    cluster_id: String,
    controller: Arc<RemoteController>,
    config: ClientConfig,
    connection: Option<Connection>,
    image: MetadataImage,
    /// Offset behind the last batch that was read, and its epoch.
    next_offset: Offset,
    last_epoch: LeaderEpoch,
    leader_epoch: LeaderEpoch,
}

/// The controllers no longer have what this broker read as committed and acted on. To follow them would be to delete
/// what they do not know: that is for the operator to decide, by a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the controllers' metadata log ends epoch {epoch} at offset {end_offset}, but this broker has committed records of it up to offset {read_offset}: the quorum was set back or lost records. Restart the broker to take the controllers' state as it is now; replicas that it does not name are then set aside, not deleted"
)]
pub struct LogDiffers {
    pub epoch: LeaderEpoch,
    pub end_offset: Offset,
    pub read_offset: Offset,
}

enum Fetched {
    Nothing,
    Changed(Box<(MetadataImage, MetadataDelta)>),
    Snapshot(SnapshotId),
    Differs(LogDiffers),
}

impl Observer {
    pub fn new(node_id: NodeId, cluster_id: String, controller: Arc<RemoteController>) -> Self {
        Observer {
            node_id,
            directory_id: Uuid::ZERO,
            cluster_id,
            controller,
            config: ClientConfig {
                client_id: format!("broker-{node_id}-metadata"),
                request_timeout_ms: ANSWER_TIMEOUT_MS,
                connect_timeout_ms: ANSWER_TIMEOUT_MS,
                ..ClientConfig::default()
            },
            connection: None,
            image: MetadataImage::empty(),
            next_offset: 0,
            last_epoch: LeaderEpoch::UNKNOWN,
            leader_epoch: LeaderEpoch::UNKNOWN,
        }
    }

    /// Tells the controllers the directory too, by which a voter is known.
    #[must_use]
    pub fn with_directory(mut self, directory_id: Option<Uuid>) -> Self {
        self.directory_id = directory_id.unwrap_or(Uuid::ZERO);
        self
    }

    /// Everything that is committed now. None: no controller has told it in time.
    pub async fn catch_up(&mut self, patience: Duration) -> Option<MetadataImage> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let read = tokio::time::timeout_at(deadline, self.fetch()).await.ok()?;
            match read {
                // Held back by the controller until there is more: this is all.
                Ok(Fetched::Nothing) if self.next_offset > 0 && self.connection.is_some() => {
                    return Some(self.image.clone());
                }
                Ok(Fetched::Nothing | Fetched::Changed(_)) => {}
                Ok(Fetched::Snapshot(id)) => {
                    let _ = tokio::time::timeout_at(deadline, self.fetch_snapshot(id)).await;
                }
                Ok(Fetched::Differs(_)) | Err(_) => {
                    if let Some(connection) = self.connection.take() {
                        self.controller.forget(connection.address());
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// The next image that differs, or is further, than the last; with what changed.
    pub async fn next(&mut self) -> Result<(MetadataImage, MetadataDelta), LogDiffers> {
        let mut retry = RETRY;
        let mut said = String::new();
        loop {
            let outcome = match self.fetch().await {
                Ok(Fetched::Changed(change)) => return Ok(*change),
                Ok(Fetched::Differs(how)) => return Err(how),
                Ok(Fetched::Nothing) => {
                    retry = RETRY;
                    continue;
                }
                Ok(Fetched::Snapshot(id)) => self.fetch_snapshot(id).await,
                Err(reason) => Err(reason),
            };
            match outcome {
                Ok(change) => return Ok(change),
                Err(reason) => {
                    if let Some(connection) = self.connection.take() {
                        self.controller.forget(connection.address());
                    }
                    if reason != said {
                        warn!(target: LOGGER, "[MetadataLoader id={}] cannot read the metadata log: {reason}", self.node_id);
                        said = reason;
                    }
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<&mut Connection, String> {
        let wanted = self.controller.active();
        let stale = match (&self.connection, &wanted) {
            (Some(connection), Some(wanted)) => connection.address() != wanted,
            (None, _) | (_, None) => self.connection.is_none(),
        };
        if stale {
            let address = match wanted {
                Some(address) => address,
                // Any member answers, and tells who leads.
                None => self
                    .controller
                    .any_seed()
                    .ok_or("no controller is configured")?,
            };
            let connection = Connection::connect(&address, &self.config)
                .await
                .map_err(|error| error.to_string());
            match connection {
                Ok(connection) => self.connection = Some(connection),
                Err(reason) => {
                    self.controller.forget(&address);
                    return Err(reason);
                }
            }
        }
        self.connection
            .as_mut()
            .ok_or_else(|| "no connection".into())
    }

    async fn fetch(&mut self) -> Result<Fetched, String> {
        let request = FetchRequest {
            cluster_id: Some(self.cluster_id.as_str().into()),
            replica_state: fetch_request::ReplicaState {
                replica_id: self.node_id.get(),
                replica_epoch: -1,
                ..Default::default()
            },
            max_wait_ms: FETCH_WAIT_MS,
            min_bytes: 0,
            max_bytes: FETCH_BYTES_MAX,
            topics: vec![fetch_request::FetchTopic {
                topic: CLUSTER_METADATA_TOPIC.into(),
                topic_id: Uuid::METADATA_TOPIC,
                partitions: vec![fetch_request::FetchPartition {
                    partition: 0,
                    current_leader_epoch: self.leader_epoch.get(),
                    fetch_offset: self.next_offset,
                    last_fetched_epoch: self.last_epoch.get(),
                    partition_max_bytes: FETCH_BYTES_MAX,
                    high_watermark: self.next_offset,
                    replica_directory_id: self.directory_id,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let connection = self.connect().await?;
        let from = connection.address().clone();
        let response = match connection.call(&request).await {
            Ok(response) => response,
            Err(error) => {
                // Dead or mute: another member may lead by now.
                self.controller.forget(&from);
                return Err(error.to_string());
            }
        };
        check(response.error_code)?;
        let partition = response
            .responses
            .first()
            .and_then(|topic| topic.partitions.first())
            .ok_or("the controller's answer names no partition")?;
        match ErrorCode::from(partition.error_code) {
            ErrorCode::None => {}
            code @ (ErrorCode::NotLeaderOrFollower
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch) => {
                self.leader_epoch = LeaderEpoch(partition.current_leader.leader_epoch);
                return self.follow(&response, partition, &from, code);
            }
            code => return Err(format!("{from} answers {}", code.name())),
        }
        self.leader_epoch = LeaderEpoch(
            partition
                .current_leader
                .leader_epoch
                .max(self.leader_epoch.get()),
        );
        self.controller.set_active(from);
        if partition.snapshot_id.end_offset >= 0 {
            return Ok(Fetched::Snapshot(SnapshotId {
                end_offset: partition.snapshot_id.end_offset,
                epoch: LeaderEpoch(partition.snapshot_id.epoch),
            }));
        }
        if partition.diverging_epoch.end_offset >= 0 {
            // Only committed batches are served, so this is another log.
            return Ok(Fetched::Differs(LogDiffers {
                epoch: LeaderEpoch(partition.diverging_epoch.epoch),
                end_offset: partition.diverging_epoch.end_offset,
                read_offset: self.next_offset,
            }));
        }
        let bytes = match &partition.records {
            Some(Records::Bytes(bytes)) => bytes.clone(),
            Some(Records::Segments(_)) | None => Bytes::new(),
        };
        let high_watermark = partition.high_watermark;
        self.apply(&bytes, high_watermark)
    }

    /// Turns to the leader that a member told of.
    fn follow(
        &mut self,
        response: &FetchResponse,
        partition: &fetch_response::PartitionData,
        from: &BrokerAddress,
        code: ErrorCode,
    ) -> Result<Fetched, String> {
        let leader_id = partition.current_leader.leader_id;
        let endpoint = response
            .node_endpoints
            .iter()
            .find(|node| node.node_id == leader_id)
            .and_then(|node| Some((node.host.to_string(), u16::try_from(node.port).ok()?)));
        match endpoint {
            Some((host, port)) => {
                let address = BrokerAddress::new(host, port);
                if address == *from {
                    // It leads, and only wanted another epoch.
                    return Ok(Fetched::Nothing);
                }
                info!(target: LOGGER, "[MetadataLoader id={}] the metadata quorum is led by node {leader_id} at {address}", self.node_id);
                self.controller.set_active(address);
                self.connection = None;
                Ok(Fetched::Nothing)
            }
            None => {
                self.controller.forget(from);
                self.connection = None;
                Err(format!(
                    "{from} answers {}, leader {leader_id}",
                    code.name()
                ))
            }
        }
    }

    /// Folds whole batches below the high watermark.
    fn apply(&mut self, bytes: &Bytes, high_watermark: Offset) -> Result<Fetched, String> {
        let before = self.image.clone();
        let mut single = None;
        let mut applied = 0;
        for batch in batches(bytes) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(kavka_records::BatchError::Truncated { .. }) => break,
                Err(error) => return Err(error.to_string()),
            };
            let header = *batch.header();
            if header.next_offset() > high_watermark {
                break;
            }
            if header.base_offset < self.next_offset {
                continue;
            }
            batch.verify_crc().map_err(|error| error.to_string())?;
            if header.is_control() {
                let control = decode_control(&batch).map_err(|error| error.to_string())?;
                if let Some(level) = control.kraft_version {
                    self.image = self.image.clone().with_kraft_version(level);
                }
            }
            let records = decode_records(batch.bytes()).map_err(|error| error.to_string())?;
            let (image, delta) = self
                .image
                .apply(
                    header.last_offset(),
                    header.partition_leader_epoch,
                    &records,
                )
                .map_err(|error| error.to_string())?;
            self.image = image;
            self.next_offset = header.next_offset();
            self.last_epoch = header.partition_leader_epoch;
            single = Some(delta);
            applied += 1;
        }
        Ok(match (applied, single) {
            (1, Some(delta)) => Fetched::Changed(Box::new((self.image.clone(), delta))),
            (0, _) | (_, None) => Fetched::Nothing,
            _ => {
                let delta = MetadataDelta::between(&before, &self.image);
                Fetched::Changed(Box::new((self.image.clone(), delta)))
            }
        })
    }

    async fn fetch_snapshot(
        &mut self,
        id: SnapshotId,
    ) -> Result<(MetadataImage, MetadataDelta), String> {
        info!(target: LOGGER, "[MetadataLoader id={}] reading snapshot {id}", self.node_id);
        let mut file = Vec::new();
        loop {
            let position = i64::try_from(file.len()).map_err(|error| error.to_string())?;
            let request = FetchSnapshotRequest {
                cluster_id: Some(self.cluster_id.as_str().into()),
                replica_id: self.node_id.get(),
                max_bytes: SNAPSHOT_PIECE_BYTES,
                topics: vec![fetch_snapshot_request::TopicSnapshot {
                    name: CLUSTER_METADATA_TOPIC.into(),
                    partitions: vec![fetch_snapshot_request::PartitionSnapshot {
                        partition: 0,
                        current_leader_epoch: self.leader_epoch.get(),
                        snapshot_id: fetch_snapshot_request::SnapshotId {
                            end_offset: id.end_offset,
                            epoch: id.epoch.get(),
                            ..Default::default()
                        },
                        position,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let connection = self.connect().await?;
            let response = connection
                .call(&request)
                .await
                .map_err(|error| error.to_string())?;
            check(response.error_code)?;
            let partition = response
                .topics
                .first()
                .and_then(|topic| topic.partitions.first())
                .ok_or("the controller's answer names no partition")?;
            check(partition.error_code)?;
            if !(0..=SNAPSHOT_BYTES_MAX).contains(&partition.size) {
                return Err(format!("snapshot {id} has {} bytes", partition.size));
            }
            if let Records::Bytes(bytes) = &partition.unaligned_records {
                file.extend_from_slice(bytes);
            }
            let size = usize::try_from(partition.size).map_err(|error| error.to_string())?;
            if file.len() >= size {
                break;
            }
            if partition.unaligned_records.is_empty() {
                return Err(format!("snapshot {id} ends at {position} of {size} bytes"));
            }
        }
        let content = snapshot_file::decode(&file).map_err(|error| error.to_string())?;
        let (mut image, _) = MetadataImage::empty()
            .apply(id.end_offset - 1, id.epoch, &content.records)
            .map_err(|error| error.to_string())?;
        if let Some(level) = content.kraft_version {
            image = image.with_kraft_version(level);
        }
        let delta = MetadataDelta::between(&self.image, &image);
        self.image = image.clone();
        self.next_offset = id.end_offset;
        self.last_epoch = id.epoch;
        Ok((image, delta))
    }
}

fn check(raw_code: i16) -> Result<(), String> {
    match ErrorCode::from(raw_code) {
        ErrorCode::None => Ok(()),
        code => Err(format!("the controller answers {}", code.name())),
    }
}
