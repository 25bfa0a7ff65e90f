//! What nodes of the simulated cluster send each other, and what they wake themselves for.
//! Not here: how messages travel (network.rs), what they mean to a node.
//! Plain data; cheap to clone, since the network may deliver a message twice.
//! Kafka: the requests of the same names; Raft's messages stand for those of the consensus library.

use crate::quorum::RaftMessage;
use bytes::Bytes;
use kavka_common::{LeaderEpoch, NodeId, Offset};
use kavka_metadata::{MetadataImage, MetadataRecord};
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode};
use kavka_replication::{EpochEnd, SessionId};
use std::sync::Arc;

/// Where a node is: brokers from 1, controllers from 101, clients from 201.
pub type Address = i32;

pub const FIRST_CONTROLLER: Address = 101;
pub const FIRST_CLIENT: Address = 201;

pub fn is_controller(address: Address) -> bool {
    (FIRST_CONTROLLER..FIRST_CLIENT).contains(&address)
}

pub fn is_broker(address: Address) -> bool {
    (1..FIRST_CONTROLLER).contains(&address)
}

/// One partition of a fetch, as Fetch's FetchPartition.
#[derive(Clone, Debug)]
pub struct FetchItem {
    pub partition: kavka_replication::SessionPartition,
}

/// A replica's Fetch.
#[derive(Clone, Debug)]
pub struct ReplicaFetch {
    pub replica_id: NodeId,
    pub broker_epoch: kavka_common::BrokerEpoch,
    pub session_id: SessionId,
    pub session_epoch: i32,
    pub wait_ms: i64,
    pub partitions: Vec<kavka_replication::SessionPartition>,
    pub forgotten: Vec<(kavka_replication::fetch_session::SessionTopic, i32)>,
}

/// What a fetch gave for one partition.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub topic_id: kavka_common::Uuid,
    pub partition: i32,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
    pub diverging: Option<EpochEnd>,
    pub records: Bytes,
}

#[derive(Clone, Debug)]
pub struct ReplicaFetchAnswer {
    pub error: ErrorCode,
    pub session_id: SessionId,
    pub partitions: Vec<Fetched>,
}

/// Committed metadata for an observer.
#[derive(Clone, Debug)]
pub enum MetadataChunk {
    Entries(Vec<Arc<crate::quorum::Entry>>),
    Snapshot {
        records: Arc<Vec<MetadataRecord>>,
        last_offset: Offset,
        last_epoch: LeaderEpoch,
    },
}

#[derive(Clone, Debug)]
pub enum Message {
    Raft(RaftMessage),
    ControllerRequest {
        correlation: u64,
        api_version: i16,
        request: Arc<AnyRequest>,
    },
    /// An error names the leader that the asked node believes in.
    ControllerAnswer {
        correlation: u64,
        result: Result<Arc<AnyResponse>, Option<Address>>,
    },
    MetadataFetch {
        correlation: u64,
        fetch_offset: Offset,
    },
    MetadataAnswer {
        correlation: u64,
        result: Result<MetadataChunk, Option<Address>>,
    },
    ReplicaFetch {
        correlation: u64,
        fetch: Arc<ReplicaFetch>,
    },
    ReplicaFetchAnswer {
        correlation: u64,
        answer: Arc<ReplicaFetchAnswer>,
    },
    /// Where the log of a partition begins and ends (ListOffsets of a replica).
    RangeLookUp {
        correlation: u64,
        topic_id: kavka_common::Uuid,
        partition: i32,
        leader_epoch: LeaderEpoch,
    },
    RangeAnswer {
        correlation: u64,
        result: Result<(Offset, Offset), ErrorCode>,
    },
    Produce {
        correlation: u64,
        topic: Arc<str>,
        partition: i32,
        acks_all: bool,
        timeout_ms: i64,
        batch: Bytes,
    },
    ProduceAnswer {
        correlation: u64,
        error: ErrorCode,
        base_offset: Offset,
    },
    Consume {
        correlation: u64,
        topic: Arc<str>,
        partition: i32,
        fetch_offset: Offset,
        current_leader_epoch: LeaderEpoch,
    },
    ConsumeAnswer {
        correlation: u64,
        error: ErrorCode,
        from_leader: bool,
        high_watermark: Offset,
        log_start_offset: Offset,
        last_stable_offset: Offset,
        records: Bytes,
    },
    LatestOffset {
        correlation: u64,
        topic: Arc<str>,
        partition: i32,
        current_leader_epoch: LeaderEpoch,
    },
    LatestOffsetAnswer {
        correlation: u64,
        result: Result<Offset, ErrorCode>,
    },
    ClientMetadata {
        correlation: u64,
    },
    ClientMetadataAnswer {
        correlation: u64,
        image: Box<MetadataImage>,
    },
}

impl Message {
    /// A few numbers that tell a message from others in the trace.
    pub fn digest(&self) -> (&'static str, i64, i64) {
        let wide = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        match self {
            Message::Raft(raft) => raft.digest(),
            Message::ControllerRequest {
                correlation,
                request,
                ..
            } => {
                let key = request.api_key() as i16;
                ("controller-request", wide(*correlation), i64::from(key))
            }
            Message::ControllerAnswer {
                correlation,
                result,
            } => (
                "controller-answer",
                wide(*correlation),
                i64::from(result.is_ok()),
            ),
            Message::MetadataFetch {
                correlation,
                fetch_offset,
            } => ("metadata-fetch", wide(*correlation), *fetch_offset),
            Message::MetadataAnswer {
                correlation,
                result,
            } => {
                let size = match result {
                    Ok(MetadataChunk::Entries(entries)) => {
                        i64::try_from(entries.len()).unwrap_or(-2)
                    }
                    Ok(MetadataChunk::Snapshot { last_offset, .. }) => *last_offset,
                    Err(_) => -1,
                };
                ("metadata-answer", wide(*correlation), size)
            }
            Message::ReplicaFetch { correlation, fetch } => {
                let first = fetch.partitions.first();
                (
                    "replica-fetch",
                    wide(*correlation),
                    first.map_or(-1, |item| item.fetch_offset),
                )
            }
            Message::ReplicaFetchAnswer {
                correlation,
                answer,
            } => {
                let bytes: usize = answer.partitions.iter().map(|p| p.records.len()).sum();
                (
                    "replica-fetch-answer",
                    wide(*correlation),
                    i64::try_from(bytes).unwrap_or(-1),
                )
            }
            Message::RangeLookUp { correlation, .. } => ("range-look-up", wide(*correlation), 0),
            Message::RangeAnswer {
                correlation,
                result,
            } => (
                "range-answer",
                wide(*correlation),
                result.map_or(-1, |range| range.1),
            ),
            Message::Produce {
                correlation,
                partition,
                ..
            } => ("produce", wide(*correlation), i64::from(*partition)),
            Message::ProduceAnswer {
                correlation,
                error,
                base_offset,
            } => (
                "produce-answer",
                wide(*correlation),
                *base_offset + (i64::from(error.code()) << 32),
            ),
            Message::Consume {
                correlation,
                fetch_offset,
                ..
            } => ("consume", wide(*correlation), *fetch_offset),
            Message::ConsumeAnswer {
                correlation,
                high_watermark,
                ..
            } => ("consume-answer", wide(*correlation), *high_watermark),
            Message::LatestOffset { correlation, .. } => ("latest-offset", wide(*correlation), 0),
            Message::LatestOffsetAnswer {
                correlation,
                result,
            } => (
                "latest-offset-answer",
                wide(*correlation),
                result.unwrap_or(-1),
            ),
            Message::ClientMetadata { correlation } => ("client-metadata", wide(*correlation), 0),
            Message::ClientMetadataAnswer { correlation, image } => (
                "client-metadata-answer",
                wide(*correlation),
                image.last_offset,
            ),
        }
    }
}

/// What a node wakes itself for. Timers of an earlier life of a node are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    Election,
    RaftHeartbeat,
    ControllerDeadline,
    ReleaseObservers,
    /// A broker's process is gone: its connection dropped and its port refuses.
    BrokerGone {
        broker: Address,
        broker_epoch: i64,
    },
    Heartbeat,
    Metadata,
    LeaderTick,
    Flush,
    Checkpoint,
    Fetch,
    ParkedRequests,
    Call(u64),
    Work,
}
