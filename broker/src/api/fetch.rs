//! Fetch: sessions, topic names and ids, and the records as regions of files.
//! Not here: reading and waiting (replica/fetch.rs), the session machine (kavka_replication), the metadata log's Fetch.
//! Hot path. The session's step is taken before `handle` returns, in the order of requests; reading comes later.
//! Kafka: KafkaApis.handleFetchRequest, FetchManager; KIP-74, KIP-227, KIP-392, KIP-516, KIP-951.

use crate::api::RequestContext;
use crate::api::errors::WireError;
use crate::network::Pending;
use crate::replica::{
    FetchIsolation, FetchParams, FetchPartition, FetchResult, FetchingReplica, PartitionRead,
    ReplicaError, ReplicaManager, fetch,
};
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId};
use kavka_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint,
    PartitionData,
};
use kavka_protocol::messages::{FetchRequest, FetchResponse};
use kavka_protocol::{ErrorCode, Records, Segment, StrBytes};
use kavka_replication::fetch_session::SessionTopic;
use kavka_replication::{
    FetchContext, FetchSessionError, PartitionOutcome, SessionPartition, SessionRequest,
};
use std::sync::Arc;

const TOPIC_IDS_SINCE: i16 = 13;
const REPLICA_STATE_SINCE: i16 = 15;
const LEADER_HINTS_SINCE: i16 = 16;
/// From here on consumers say where they are, and may be served by followers.
const FOLLOWER_FETCH_SINCE: i16 = 11;
const READ_COMMITTED: i8 = 1;

pub fn handle(
    replicas: &Arc<ReplicaManager>,
    context: RequestContext,
    request: FetchRequest,
) -> Pending {
    let params = params(replicas, context.api_version, &request);
    // a follower knows where its leader is, and older consumers do not know of other replicas
    let rack = match params.replica {
        None if !params.leader_only => request.rack_id.clone(),
        _ => StrBytes::new(),
    };
    let session = session_request(context.api_version, request, params.replica.is_some());
    let session_id = session.session_id;
    let fetched = match replicas.begin_fetch(session) {
        Ok(fetched) => fetched,
        Err(e) => return context.ready(&session_error(e, 0)),
    };
    let replicas = Arc::clone(replicas);
    let late = context.clone();
    context.later(async move {
        let partitions = resolve(&replicas, &fetched);
        let preferred = preferred_replicas(&replicas, &partitions, &rack, &late.listener.name);
        let results = fetch_here(&params, partitions, &preferred).await;
        let outcomes: Vec<PartitionOutcome> = results
            .iter()
            .zip(&preferred)
            .map(|(result, preferred)| outcome(result, *preferred))
            .collect();
        match replicas.complete_fetch(&fetched, &outcomes) {
            Ok((session_id, include)) => FetchResponse {
                session_id,
                ..respond(&replicas, &late, &fetched, results, &preferred, &include)
            },
            Err(e) => session_error(e, session_id),
        }
    })
}

/// Fetch takes any negative epoch for none (FetchRequest.optionalEpoch), other APIs only -1.
fn epoch_of(epoch: i32) -> LeaderEpoch {
    LeaderEpoch(epoch.max(LeaderEpoch::UNKNOWN.get()))
}

fn session_error(error: FetchSessionError, session_id: i32) -> FetchResponse {
    FetchResponse {
        error_code: error.error_code().code(),
        session_id,
        ..Default::default()
    }
}

fn params(replicas: &ReplicaManager, version: i16, request: &FetchRequest) -> FetchParams {
    let (replica_id, replica_epoch) = if version >= REPLICA_STATE_SINCE {
        (
            request.replica_state.replica_id,
            request.replica_state.replica_epoch,
        )
    } else {
        (request.replica_id, BrokerEpoch::UNKNOWN.get())
    };
    let replica = (replica_id >= 0).then_some(FetchingReplica {
        replica_id: NodeId(replica_id),
        broker_epoch: BrokerEpoch(replica_epoch),
    });
    let isolation = if replica.is_some() || replica_id == NodeId::DEBUGGING_CONSUMER.get() {
        FetchIsolation::LogEnd
    } else if request.isolation_level == READ_COMMITTED {
        FetchIsolation::TxnCommitted
    } else {
        FetchIsolation::HighWatermark
    };
    let bytes = |value: i32| usize::try_from(value).unwrap_or(0);
    let max_bytes = bytes(request.max_bytes).min(replicas.settings().fetch_max_bytes);
    FetchParams {
        replica,
        isolation,
        leader_only: version < FOLLOWER_FETCH_SINCE,
        min_bytes: bytes(request.min_bytes).min(max_bytes),
        max_bytes,
        max_wait_ms: i64::from(request.max_wait_ms),
    }
}

fn session_request(version: i16, request: FetchRequest, privileged: bool) -> SessionRequest {
    let uses_topic_ids = version >= TOPIC_IDS_SINCE;
    let topic_of = |name: &StrBytes, id| {
        if uses_topic_ids {
            SessionTopic::Id(id)
        } else {
            SessionTopic::Name((&**name).into())
        }
    };
    let partitions = request.topics.iter().flat_map(|topic| {
        let named = topic_of(&topic.topic, topic.topic_id);
        topic.partitions.iter().map(move |p| SessionPartition {
            topic: named.clone(),
            partition: p.partition,
            current_leader_epoch: epoch_of(p.current_leader_epoch),
            fetch_offset: p.fetch_offset,
            last_fetched_epoch: epoch_of(p.last_fetched_epoch),
            log_start_offset: p.log_start_offset,
            max_bytes: p.partition_max_bytes,
            high_watermark: p.high_watermark,
        })
    });
    let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
        let named = topic_of(&topic.topic, topic.topic_id);
        topic.partitions.iter().map(move |p| (named.clone(), *p))
    });
    SessionRequest {
        session_id: request.session_id,
        session_epoch: request.session_epoch,
        uses_topic_ids,
        privileged,
        partitions: partitions.collect(),
        forgotten: forgotten.collect(),
    }
}

fn resolve(replicas: &ReplicaManager, fetched: &FetchContext) -> Vec<FetchPartition> {
    fetched
        .partitions
        .iter()
        .map(|p| FetchPartition {
            partition: match &p.topic {
                SessionTopic::Name(name) => replicas.partition(name, p.partition),
                SessionTopic::Id(id) => replicas.partition_by_id(*id, p.partition),
            },
            fetch_offset: p.fetch_offset,
            log_start_offset: p.log_start_offset,
            current_leader_epoch: p.current_leader_epoch,
            last_fetched_epoch: p.last_fetched_epoch,
            max_bytes: usize::try_from(p.max_bytes).unwrap_or(0),
        })
        .collect()
}

/// Where a consumer should read each partition instead; nowhere for most.
fn preferred_replicas(
    replicas: &ReplicaManager,
    partitions: &[FetchPartition],
    rack: &str,
    listener: &str,
) -> Vec<Option<NodeId>> {
    if rack.is_empty() {
        return vec![None; partitions.len()];
    }
    partitions
        .iter()
        .map(|p| {
            let partition = p.partition.as_ref().ok()?;
            replicas.closest_replica(partition, p.fetch_offset, rack, listener)
        })
        .collect()
}

/// Reads what is to be read here; who is sent elsewhere is told so at once.
async fn fetch_here(
    params: &FetchParams,
    partitions: Vec<FetchPartition>,
    preferred: &[Option<NodeId>],
) -> Vec<FetchResult> {
    if preferred.iter().all(Option::is_none) {
        return fetch(params, &partitions).await;
    }
    let at_once = FetchParams {
        max_wait_ms: 0,
        ..*params
    };
    let mut here = Vec::new();
    let mut results: Vec<Option<FetchResult>> = Vec::with_capacity(partitions.len());
    for (p, preferred) in partitions.into_iter().zip(preferred) {
        results.push(preferred.map(|_| {
            let partition = p.partition.clone()?;
            partition.offsets(p.current_leader_epoch)
        }));
        if preferred.is_none() {
            here.push(p);
        }
    }
    let mut read = fetch(&at_once, &here).await.into_iter();
    results
        .into_iter()
        .filter_map(|result| result.or_else(|| read.next()))
        .collect()
}

fn outcome(result: &FetchResult, preferred: Option<NodeId>) -> PartitionOutcome {
    match result {
        Ok(read) => PartitionOutcome {
            records_bytes: read.records_bytes(),
            is_error: false,
            is_notice: read.diverging.is_some() || preferred.is_some(),
            high_watermark: read.high_watermark,
            log_start_offset: read.log_start_offset,
        },
        Err(_) => PartitionOutcome {
            records_bytes: 0,
            is_error: true,
            is_notice: false,
            high_watermark: -1,
            log_start_offset: -1,
        },
    }
}

fn respond(
    replicas: &ReplicaManager,
    context: &RequestContext,
    fetched: &FetchContext,
    results: Vec<FetchResult>,
    preferred: &[Option<NodeId>],
    include: &[bool],
) -> FetchResponse {
    let mut response = FetchResponse::default();
    let mut last_topic: Option<&SessionTopic> = None;
    let answers = results.into_iter().zip(preferred).zip(include);
    for (p, ((result, preferred), include)) in fetched.partitions.iter().zip(answers) {
        if !include {
            continue;
        }
        if last_topic != Some(&p.topic) {
            let mut topic = FetchableTopicResponse::default();
            match &p.topic {
                SessionTopic::Name(name) => topic.topic = (&**name).into(),
                SessionTopic::Id(id) => topic.topic_id = *id,
            }
            response.responses.push(topic);
            last_topic = Some(&p.topic);
        }
        let data = match result {
            Ok(read) => PartitionData {
                preferred_read_replica: preferred.map_or(-1, NodeId::get),
                ..partition_data(p.partition, read)
            },
            Err(e) => refused(replicas, context, p, &e, &mut response.node_endpoints),
        };
        if let Some(topic) = response.responses.last_mut() {
            topic.partitions.push(data);
        }
    }
    response
}

fn partition_data(partition_index: i32, read: PartitionRead) -> PartitionData {
    let mut data = PartitionData {
        partition_index,
        high_watermark: read.high_watermark,
        last_stable_offset: read.last_stable_offset,
        log_start_offset: read.log_start_offset,
        aborted_transactions: read.aborted.map(|aborted| {
            aborted
                .into_iter()
                .map(|txn| AbortedTransaction {
                    producer_id: txn.producer_id.get(),
                    first_offset: txn.first_offset,
                    ..Default::default()
                })
                .collect()
        }),
        records: Some(Records::Segments(
            read.region.map(Segment::File).into_iter().collect(),
        )),
        ..Default::default()
    };
    if let Some(end) = read.diverging {
        data.diverging_epoch = EpochEndOffset {
            epoch: end.leader_epoch.get(),
            end_offset: end.end_offset,
            ..Default::default()
        };
    }
    data
}

fn refused(
    replicas: &ReplicaManager,
    context: &RequestContext,
    p: &SessionPartition,
    error: &ReplicaError,
    node_endpoints: &mut Vec<NodeEndpoint>,
) -> PartitionData {
    let code = error.error_code();
    let mut data = PartitionData {
        partition_index: p.partition,
        error_code: code.code(),
        high_watermark: -1,
        // told apart as Kafka does: null where the partition was found
        aborted_transactions: match error {
            ReplicaError::UnknownTopicOrPartition | ReplicaError::UnknownTopicId => {
                Some(Vec::new())
            }
            _ => None,
        },
        records: Some(Records::Segments(Vec::new())),
        ..Default::default()
    };
    let moved = matches!(
        code,
        ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch
    );
    if !moved || context.api_version < LEADER_HINTS_SINCE {
        return data;
    }
    let hint = match &p.topic {
        SessionTopic::Name(name) => replicas.leader_hint(
            name,
            kavka_common::Uuid::ZERO,
            p.partition,
            &context.listener.name,
        ),
        SessionTopic::Id(id) => replicas.leader_hint("", *id, p.partition, &context.listener.name),
    };
    let Some(hint) = hint else { return data };
    data.current_leader = LeaderIdAndEpoch {
        leader_id: hint.leader_id.get(),
        leader_epoch: hint.leader_epoch.get(),
        ..Default::default()
    };
    let known = node_endpoints
        .iter()
        .any(|node| node.node_id == hint.leader_id.get());
    if let (Some(endpoint), false) = (hint.endpoint, known) {
        node_endpoints.push(NodeEndpoint {
            node_id: hint.leader_id.get(),
            host: (&*endpoint.host).into(),
            port: i32::from(endpoint.port),
            rack: endpoint.rack.as_deref().map(Into::into),
            ..Default::default()
        });
    }
    data
}
