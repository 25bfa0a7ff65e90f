//! Produce: appends each partition's batch in the order of requests, answers when acks says so.
//! Not here: validation and appending (replica/), authorization of topics, quotas.
//! Hot path. The appends run before `handle` returns; only the wait for acknowledgements comes later.
//! Kafka: KafkaApis.handleProduceRequest, ProduceRequest; KIP-98, KIP-467, KIP-516, KIP-951.

use crate::api::RequestContext;
use crate::api::errors::WireError;
use crate::network::Pending;
use crate::replica::{Acks, Appended, InDoubt, ReplicaError, ReplicaManager, acknowledged};
use bytes::Bytes;
use kavka_common::Offset;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::produce_request::PartitionProduceData;
use kavka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    TopicProduceResponse,
};
use kavka_protocol::messages::{ProduceRequest, ProduceResponse};
use kavka_records::{BatchHeader, InvalidBatch, InvalidBatchKind};
use kavka_replication::AcksState;
use std::sync::Arc;

/// From this version on topics are named by id.
const TOPIC_IDS_SINCE: i16 = 13;
const ZSTD_SINCE: i16 = 7;
const LEADER_HINTS_SINCE: i16 = 10;
/// Clients may not write to Kafka's own topics, except Kafka's admin tools by this client id.
const ADMIN_CLIENT_ID: &str = "__admin_client";

struct Outcome {
    topic: usize,
    index: i32,
    /// Told with an error that came from the log, -1 with others.
    log_start_offset: Offset,
    result: Result<Appended, ReplicaError>,
}

pub fn handle(
    replicas: &Arc<ReplicaManager>,
    context: RequestContext,
    request: ProduceRequest,
) -> Pending {
    let acks = Acks::from_wire(request.acks);
    if request.transactional_id.is_none() && has_transactional_batches(&request) {
        if acks == Some(Acks::None) {
            return Pending::CLOSE;
        }
        let error = ErrorCode::TransactionalIdAuthorizationFailed;
        return context.ready(&refuse_all(&request, error));
    }
    let Some(acks) = acks else {
        return context.ready(&refuse_all(&request, ErrorCode::InvalidRequiredAcks));
    };
    let mut outcomes = Vec::new();
    let mut in_doubt = Vec::new();
    let mut waiting = Vec::new();
    for (topic_at, topic) in request.topic_data.iter().enumerate() {
        for data in &topic.partition_data {
            let partition = if context.api_version >= TOPIC_IDS_SINCE {
                replicas.partition_by_id(topic.topic_id, data.index)
            } else {
                replicas.partition(&topic.name, data.index)
            };
            let mut log_start_offset = -1;
            let result = partition.and_then(|partition| {
                let tp = partition.topic_partition();
                if kavka_common::topic::is_internal(&tp.topic)
                    && &*context.client_id != ADMIN_CLIENT_ID
                {
                    return Err(ReplicaError::InternalTopic(tp.topic.to_string()));
                }
                if is_transactional(&produced(data)) {
                    // Its transaction would have no coordinator to end it, and read_committed consumers would wait for
                    // ever. Apache's broker says the same of a transactional id that its coordinator does not know.
                    return Err(ReplicaError::UnknownTransaction);
                }
                let zstd_allowed = context.api_version >= ZSTD_SINCE;
                let appended = replicas
                    .append_produced(&partition, &produced(data), acks, zstd_allowed)
                    .inspect_err(|e| {
                        if comes_from_the_log(e) {
                            log_start_offset = partition.log_start_offset().unwrap_or(-1);
                        }
                    })?;
                let required_offset = appended.info.last_offset + 1;
                let committed = acks != Acks::All
                    || partition.acks_state(required_offset, appended.leader_epoch, None)?
                        == AcksState::Done;
                if !committed || appended.must_flush {
                    waiting.push(outcomes.len());
                    in_doubt.push(InDoubt {
                        partition,
                        required_offset,
                        leader_epoch: appended.leader_epoch,
                        must_flush: appended.must_flush,
                    });
                }
                Ok(appended)
            });
            outcomes.push(Outcome {
                topic: topic_at,
                index: data.index,
                log_start_offset,
                result,
            });
        }
    }
    if acks == Acks::None {
        return answer_nothing(outcomes, in_doubt);
    }
    if in_doubt.is_empty() {
        return context.ready(&respond(replicas, &context, &request, outcomes));
    }
    let replicas = Arc::clone(replicas);
    let timeout_ms = i64::from(request.timeout_ms);
    // the produced bytes are in the log: let go of them while waiting
    let request = without_records(request);
    let late = context.clone();
    context.later(async move {
        let acknowledged = acknowledged(&in_doubt, acks, timeout_ms).await;
        for (at, acknowledged) in waiting.into_iter().zip(acknowledged) {
            if let Err(e) = acknowledged {
                outcomes[at].result = Err(e);
            }
        }
        respond(&replicas, &late, &request, outcomes)
    })
}

/// Kafka looks at size and CRC, and at the framing, before it looks at the log.
fn comes_from_the_log(error: &ReplicaError) -> bool {
    match error {
        ReplicaError::Append(_) => true,
        ReplicaError::InvalidBatch(invalid) => matches!(
            invalid.kind,
            InvalidBatchKind::InvalidRecord | InvalidBatchKind::InvalidTimestamp
        ),
        _ => false,
    }
}

fn has_transactional_batches(request: &ProduceRequest) -> bool {
    request
        .topic_data
        .iter()
        .flat_map(|topic| &topic.partition_data)
        .any(|data| is_transactional(&produced(data)))
}

/// Whether the first batch is. What cannot be read is refused later, for better reasons.
/// Kafka: RequestUtils.hasTransactionalRecords.
fn is_transactional(produced: &[u8]) -> bool {
    BatchHeader::parse(produced).is_ok_and(|header| header.is_transactional())
}

fn produced(data: &PartitionProduceData) -> Bytes {
    data.records
        .as_ref()
        .and_then(|records| records.as_bytes())
        .cloned()
        .unwrap_or_default()
}

fn without_records(mut request: ProduceRequest) -> ProduceRequest {
    for topic in &mut request.topic_data {
        topic.partition_data = Vec::new();
    }
    request
}

/// With acks=0 nobody listens; an error is told by closing the connection, so that the client refreshes its metadata.
fn answer_nothing(outcomes: Vec<Outcome>, in_doubt: Vec<InDoubt>) -> Pending {
    if !in_doubt.is_empty() {
        // the topic asks for a flush that nobody waits for; its failure latches the directory
        tokio::spawn(async move { acknowledged(&in_doubt, Acks::None, 0).await });
    }
    if let Some((index, e)) = outcomes
        .iter()
        .find_map(|outcome| Some((outcome.index, outcome.result.as_ref().err()?)))
    {
        tracing::info!(target: "kafka.server.KafkaApis", "Closing connection due to error during produce request with acks=0: partition {index}: {e}");
        return Pending::CLOSE;
    }
    Pending::SILENT
}

fn refuse_all(request: &ProduceRequest, error: ErrorCode) -> ProduceResponse {
    ProduceResponse {
        responses: request
            .topic_data
            .iter()
            .map(|topic| TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partition_responses: topic
                    .partition_data
                    .iter()
                    .map(|data| refused(data.index, error))
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn refused(index: i32, error: ErrorCode) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code: error.code(),
        base_offset: -1,
        ..Default::default()
    }
}

/// Only a refusal that names records, or of bytes that are no batches, carries its text; a client says the others in
/// its own words.
/// Kafka: ReplicaManager.appendRecordsToLeader, LogAppendResult.hasCustomErrorMessage.
fn explain(refused: &mut PartitionProduceResponse, invalid: &InvalidBatch) {
    if invalid.record_errors.is_empty() && invalid.kind != InvalidBatchKind::Unreadable {
        return;
    }
    refused.error_message = Some(invalid.message.as_str().into());
    refused.record_errors = invalid
        .record_errors
        .iter()
        .map(|e| BatchIndexAndErrorMessage {
            batch_index: e.batch_index,
            batch_index_error_message: Some(e.message.as_str().into()),
            ..Default::default()
        })
        .collect();
}

fn respond(
    replicas: &ReplicaManager,
    context: &RequestContext,
    request: &ProduceRequest,
    outcomes: Vec<Outcome>,
) -> ProduceResponse {
    let mut response = ProduceResponse {
        responses: request
            .topic_data
            .iter()
            .map(|topic| TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    for outcome in outcomes {
        let topic = &request.topic_data[outcome.topic];
        let partition = match &outcome.result {
            Ok(appended) => PartitionProduceResponse {
                index: outcome.index,
                base_offset: appended.info.first_offset,
                log_append_time_ms: appended.info.log_append_time_ms,
                log_start_offset: appended.info.log_start_offset,
                ..Default::default()
            },
            Err(e) => {
                let mut refused = refused(outcome.index, e.error_code());
                refused.log_start_offset = outcome.log_start_offset;
                if let ReplicaError::InvalidBatch(invalid) = e {
                    explain(&mut refused, invalid);
                }
                if matches!(e, ReplicaError::NotLeaderOrFollower)
                    && context.api_version >= LEADER_HINTS_SINCE
                {
                    let hint = replicas.leader_hint(
                        &topic.name,
                        topic.topic_id,
                        outcome.index,
                        &context.listener.name,
                    );
                    if let Some(hint) = hint {
                        refused.current_leader = LeaderIdAndEpoch {
                            leader_id: hint.leader_id.get(),
                            leader_epoch: hint.leader_epoch.get(),
                            ..Default::default()
                        };
                        let known = response
                            .node_endpoints
                            .iter()
                            .any(|node| node.node_id == hint.leader_id.get());
                        if let (Some(endpoint), false) = (hint.endpoint, known) {
                            response.node_endpoints.push(NodeEndpoint {
                                node_id: hint.leader_id.get(),
                                host: (&*endpoint.host).into(),
                                port: i32::from(endpoint.port),
                                rack: endpoint.rack.as_deref().map(Into::into),
                                ..Default::default()
                            });
                        }
                    }
                }
                refused
            }
        };
        response.responses[outcome.topic]
            .partition_responses
            .push(partition);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_records::RecordError;

    #[test]
    fn only_refusals_of_records_carry_a_text() {
        let refuse = |kind, record_errors| {
            let invalid = InvalidBatch {
                kind,
                message: "why".into(),
                record_errors,
            };
            let mut answer = PartitionProduceResponse::default();
            explain(&mut answer, &invalid);
            (
                answer.error_message.map(|text| text.to_string()),
                answer.record_errors.len(),
            )
        };
        assert_eq!(
            refuse(InvalidBatchKind::MessageTooLarge, Vec::new()),
            (None, 0)
        );
        assert_eq!(
            refuse(InvalidBatchKind::Unreadable, Vec::new()),
            (Some("why".into()), 0)
        );
        let record = RecordError {
            batch_index: 3,
            message: "no key".into(),
        };
        assert_eq!(
            refuse(InvalidBatchKind::InvalidRecord, vec![record]),
            (Some("why".into()), 1)
        );
    }
}
