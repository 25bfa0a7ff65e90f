//! DescribeProducers: the producers with state in a partition, and their open transactions.
//! Not here: the state (crates/storage), transactions themselves.
//! Runs in the connection's task, in memory only. Kafka: KafkaApis.handleDescribeProducersRequest; KIP-664.

use crate::api::RequestContext;
use crate::api::errors::WireError;
use crate::replica::ReplicaManager;
use kavka_common::topic::validate_topic_name;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kavka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};
use kavka_storage::ProducerEntry;

pub fn handle(
    replicas: &ReplicaManager,
    _context: &RequestContext,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let known = replicas.knows_topic(&topic.name);
        let illegal = validate_topic_name(&topic.name).err();
        let partitions = topic.partition_indexes.iter().map(|index| {
            if let Some(illegal) = &illegal {
                return PartitionResponse {
                    partition_index: *index,
                    error_code: ErrorCode::InvalidTopicException.code(),
                    error_message: Some(illegal.to_string().into()),
                    ..Default::default()
                };
            }
            let producers = replicas
                .partition(&topic.name, *index)
                .and_then(|partition| replicas.active_producers(&partition));
            let mut response = PartitionResponse {
                partition_index: *index,
                ..Default::default()
            };
            match producers {
                Ok(producers) => {
                    response.active_producers = producers.iter().map(producer_state).collect();
                }
                Err(e) => {
                    response.error_code = e.error_code().code();
                    // Kafka says it in words only when the whole topic is unknown.
                    response.error_message = (!known).then(|| e.to_string().into());
                }
            }
            response
        });
        TopicResponse {
            partitions: partitions.collect(),
            name: topic.name.clone(),
            ..Default::default()
        }
    });
    DescribeProducersResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn producer_state(producer: &ProducerEntry) -> ProducerState {
    ProducerState {
        producer_id: producer.producer_id.get(),
        producer_epoch: i32::from(producer.producer_epoch.get()),
        last_sequence: producer.last_sequence(),
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.current_txn_first_offset.unwrap_or(-1),
        ..Default::default()
    }
}
