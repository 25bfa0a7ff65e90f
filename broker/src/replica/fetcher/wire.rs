//! The messages between a follower and its leader: plans as Fetch requests, Fetch responses as answers.
//! Not here: connections (task.rs), what an answer means (kavka_replication::Fetcher).
//! Pure. Kafka: RemoteLeaderEndPoint, FetchRequest.Builder.forReplica; KIP-516, KIP-903.

use bytes::Bytes;
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, TopicIdPartition, Uuid};
use kavka_protocol::messages::fetch_request::{
    FetchPartition, FetchTopic, ForgottenTopic, ReplicaState,
};
use kavka_protocol::messages::fetch_response::PartitionData;
use kavka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kavka_protocol::messages::{
    FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse,
};
use kavka_protocol::{ErrorCode, Records};
use kavka_replication::{
    EpochEnd, FetchAnswer, FetchFault, FetchPlan, FetcherConfig, PartitionAnswer, SessionFault,
};

/// Brokers name topics by their ids.
pub(super) const FETCH_VERSION_MIN: i16 = 13;
const REPLICA_STATE_SINCE: i16 = 15;
pub(super) const EARLIEST: i64 = -2;
pub(super) const LATEST: i64 = -1;

pub(super) fn fetch_request(
    plan: &FetchPlan,
    config: &FetcherConfig,
    local: NodeId,
    broker_epoch: BrokerEpoch,
    version: i16,
) -> FetchRequest {
    let mut request = FetchRequest {
        max_wait_ms: plan.wait_ms,
        min_bytes: config.min_bytes,
        max_bytes: config.response_bytes_max,
        session_id: plan.session_id,
        session_epoch: plan.session_epoch,
        ..Default::default()
    };
    if version >= REPLICA_STATE_SINCE {
        request.replica_state = ReplicaState {
            replica_id: local.get(),
            replica_epoch: broker_epoch.get(),
            ..Default::default()
        };
    } else {
        request.replica_id = local.get();
    }
    // both lists are in the order of topic ids
    for (id, position) in &plan.partitions {
        if request.topics.last().map(|topic| topic.topic_id) != Some(id.topic_id) {
            request.topics.push(FetchTopic {
                topic_id: id.topic_id,
                ..Default::default()
            });
        }
        if let Some(topic) = request.topics.last_mut() {
            topic.partitions.push(FetchPartition {
                partition: id.topic_partition.partition,
                current_leader_epoch: position.leader_epoch.get(),
                fetch_offset: position.fetch_offset,
                last_fetched_epoch: position.last_fetched_epoch.get(),
                log_start_offset: position.log_start_offset,
                partition_max_bytes: config.partition_bytes_max,
                ..Default::default()
            });
        }
    }
    for id in &plan.forgotten {
        let forgotten = &mut request.forgotten_topics_data;
        if forgotten.last().map(|topic| topic.topic_id) != Some(id.topic_id) {
            forgotten.push(ForgottenTopic {
                topic_id: id.topic_id,
                ..Default::default()
            });
        }
        if let Some(topic) = forgotten.last_mut() {
            topic.partitions.push(id.topic_partition.partition);
        }
    }
    request
}

/// The answer, and the records of each of its partitions. `id_of` knows the partitions that are fetched; others are
/// left out.
pub(super) fn fetch_answer(
    response: FetchResponse,
    id_of: impl Fn(Uuid, i32) -> Option<TopicIdPartition>,
) -> (FetchAnswer, Vec<Bytes>) {
    let fault = match ErrorCode::from(response.error_code) {
        ErrorCode::None => None,
        ErrorCode::FetchSessionIdNotFound => Some(SessionFault::NotFound),
        ErrorCode::InvalidFetchSessionEpoch | ErrorCode::FetchSessionTopicIdError => {
            Some(SessionFault::OutOfStep)
        }
        _ => Some(SessionFault::Other),
    };
    let mut answer = FetchAnswer {
        fault,
        session_id: response.session_id,
        partitions: Vec::new(),
    };
    let mut records = Vec::new();
    for topic in response.responses {
        for data in topic.partitions {
            let Some(id) = id_of(topic.topic_id, data.partition_index) else {
                continue;
            };
            answer.partitions.push(partition_answer(id, &data));
            records.push(match data.records {
                Some(Records::Bytes(bytes)) => bytes,
                Some(Records::Segments(_)) | None => Bytes::new(),
            });
        }
    }
    (answer, records)
}

fn partition_answer(partition: TopicIdPartition, data: &PartitionData) -> PartitionAnswer {
    let fault = match ErrorCode::from(data.error_code) {
        ErrorCode::None => None,
        ErrorCode::OffsetOutOfRange => Some(FetchFault::OffsetOutOfRange),
        ErrorCode::FencedLeaderEpoch => Some(FetchFault::FencedLeaderEpoch),
        ErrorCode::UnknownLeaderEpoch => Some(FetchFault::UnknownLeaderEpoch),
        ErrorCode::NotLeaderOrFollower => Some(FetchFault::NotLeader),
        _ => Some(FetchFault::Other),
    };
    let diverging = &data.diverging_epoch;
    PartitionAnswer {
        partition,
        fault,
        high_watermark: data.high_watermark,
        log_start_offset: data.log_start_offset,
        diverging: (diverging.end_offset >= 0).then_some(EpochEnd {
            leader_epoch: LeaderEpoch(diverging.epoch),
            end_offset: diverging.end_offset,
        }),
    }
}

/// Asks where the leader's log begins or ends.
pub(super) fn offset_request(
    id: &TopicIdPartition,
    leader_epoch: LeaderEpoch,
    local: NodeId,
    timestamp: i64,
) -> ListOffsetsRequest {
    ListOffsetsRequest {
        replica_id: local.get(),
        topics: vec![ListOffsetsTopic {
            name: (&*id.topic_partition.topic).into(),
            partitions: vec![ListOffsetsPartition {
                partition_index: id.topic_partition.partition,
                current_leader_epoch: leader_epoch.get(),
                timestamp,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(super) fn offset_answer(response: &ListOffsetsResponse) -> Result<i64, ErrorCode> {
    let partition = response
        .topics
        .first()
        .and_then(|topic| topic.partitions.first())
        .ok_or(ErrorCode::UnknownServerError)?;
    match ErrorCode::from(partition.error_code) {
        ErrorCode::None if partition.offset >= 0 => Ok(partition.offset),
        ErrorCode::None => Err(ErrorCode::OffsetNotAvailable),
        code => Err(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_common::TopicPartition;
    use kavka_protocol::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse};
    use kavka_replication::FetchPosition;

    fn id(topic: u8, partition: i32) -> TopicIdPartition {
        TopicIdPartition {
            topic_id: Uuid::from_bytes([topic; 16]),
            topic_partition: TopicPartition::new("t", partition),
        }
    }

    #[test]
    fn a_plan_becomes_a_request() {
        let position = FetchPosition {
            leader_epoch: LeaderEpoch(3),
            fetch_offset: 10,
            last_fetched_epoch: LeaderEpoch(2),
            log_start_offset: 4,
        };
        let plan = FetchPlan {
            session_id: 7,
            session_epoch: 2,
            wait_ms: 300,
            partitions: vec![
                (id(1, 0), position),
                (id(1, 1), position),
                (id(2, 0), position),
            ],
            forgotten: vec![id(1, 5), id(3, 0)],
        };
        let config = FetcherConfig {
            wait_ms_max: 500,
            min_bytes: 1,
            response_bytes_max: 1000,
            partition_bytes_max: 100,
            backoff_ms_max: 1000,
        };
        let request = fetch_request(&plan, &config, NodeId(5), BrokerEpoch(9), 17);
        assert_eq!(request.replica_state.replica_id, 5);
        assert_eq!(request.replica_state.replica_epoch, 9);
        assert_eq!(request.max_wait_ms, 300);
        let counts: Vec<usize> = request.topics.iter().map(|t| t.partitions.len()).collect();
        assert_eq!(counts, [2, 1]);
        assert_eq!(request.topics[0].partitions[1].last_fetched_epoch, 2);
        assert_eq!(request.forgotten_topics_data.len(), 2);
        let old = fetch_request(&plan, &config, NodeId(5), BrokerEpoch(9), 14);
        assert_eq!((old.replica_id, old.replica_state.replica_id), (5, -1));
    }

    #[test]
    fn a_response_becomes_an_answer() {
        let response = FetchResponse {
            session_id: 7,
            responses: vec![FetchableTopicResponse {
                topic_id: Uuid::from_bytes([1; 16]),
                partitions: vec![
                    PartitionData {
                        partition_index: 8,
                        ..Default::default()
                    },
                    PartitionData {
                        partition_index: 0,
                        high_watermark: 6,
                        log_start_offset: 2,
                        diverging_epoch: EpochEndOffset {
                            epoch: 1,
                            end_offset: 5,
                            ..Default::default()
                        },
                        ..Default::default()
                    },
                    PartitionData {
                        partition_index: 1,
                        error_code: ErrorCode::UnknownLeaderEpoch.code(),
                        records: Some(Records::Bytes(Bytes::from_static(b"x"))),
                        ..Default::default()
                    },
                ],
                ..Default::default()
            }],
            ..Default::default()
        };
        let known = |topic, partition| {
            (partition < 5).then(|| TopicIdPartition {
                topic_id: topic,
                topic_partition: TopicPartition::new("t", partition),
            })
        };
        let (answer, records) = fetch_answer(response, known);
        assert_eq!(answer.partitions.len(), 2, "what is not known is left out");
        let end = answer.partitions[0].diverging.unwrap();
        assert_eq!((end.leader_epoch, end.end_offset), (LeaderEpoch(1), 5));
        assert_eq!(
            answer.partitions[1].fault,
            Some(FetchFault::UnknownLeaderEpoch)
        );
        assert_eq!(records[1], Bytes::from_static(b"x"));
    }
}
