//! Single questions to a cluster that may be in any state: partitions of a topic, the active controller, a new topic.
//! Not here: asking until the answer is right (cluster), clients under load (workload).
//! Each call makes a connection of its own and ends within seconds. Kafka: Metadata, DescribeQuorum, CreateTopics.

use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::create_topics_request::CreatableTopic;
use kavka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kavka_protocol::messages::metadata_request::MetadataRequestTopic;
use kavka_protocol::messages::{CreateTopicsRequest, DescribeQuorumRequest, MetadataRequest};
use std::future::Future;

/// One partition as a broker told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    pub partition: i32,
    /// -1 where there is none.
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    /// Sorted.
    pub isr: Vec<i32>,
}

/// Short, because the broker that is asked may be the one that is paused or cut off.
fn config() -> ClientConfig {
    ClientConfig {
        client_id: "testkit".into(),
        request_timeout_ms: 5_000,
        connect_timeout_ms: 2_000,
        ..ClientConfig::default()
    }
}

fn ask<T>(question: impl Future<Output = Result<T, ClientError>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(question).map_err(|e| e.to_string())
}

/// The partitions of a topic in their order.
pub fn partitions(broker: &BrokerAddress, topic: &str) -> Result<Vec<PartitionView>, String> {
    ask(async {
        let mut connection = Connection::connect(broker, &config()).await?;
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(topic.into()),
                ..Default::default()
            }]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = connection.call(&request).await?;
        let mut views = Vec::new();
        for topic in answer.topics {
            ClientError::check(topic.error_code, None)?;
            for partition in topic.partitions {
                let mut isr = partition.isr_nodes;
                isr.sort_unstable();
                views.push(PartitionView {
                    partition: partition.partition_index,
                    leader: partition.leader_id,
                    leader_epoch: partition.leader_epoch,
                    replicas: partition.replica_nodes,
                    isr,
                });
            }
        }
        views.sort_by_key(|view| view.partition);
        Ok(views)
    })
}

/// The leader of the metadata quorum.
pub fn active_controller(broker: &BrokerAddress) -> Result<i32, String> {
    let found = ask(async {
        let mut connection = Connection::connect(broker, &config()).await?;
        let request = DescribeQuorumRequest {
            topics: vec![TopicData {
                topic_name: "__cluster_metadata".into(),
                partitions: vec![PartitionData::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = connection.call(&request).await?;
        ClientError::check(answer.error_code, answer.error_message.as_deref())?;
        let partitions = answer.topics.into_iter().flat_map(|t| t.partitions);
        let mut leaders = Vec::new();
        for partition in partitions {
            ClientError::check(partition.error_code, partition.error_message.as_deref())?;
            leaders.push(partition.leader_id);
        }
        Ok(leaders)
    })?;
    match found.first() {
        Some(leader) if *leader >= 0 => Ok(*leader),
        _ => Err("the quorum has no leader".into()),
    }
}

/// Creates a topic through any of the brokers; one that is there already is fine, because an earlier answer may be lost.
pub fn create_topic(
    brokers: &[BrokerAddress],
    topic: &str,
    partitions: i32,
    replication_factor: i16,
) -> Result<(), String> {
    ask(async {
        let mut last = None;
        for broker in brokers {
            match create(broker, topic, partitions, replication_factor).await {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("at least one broker"))
    })
}

async fn create(
    broker: &BrokerAddress,
    topic: &str,
    num_partitions: i32,
    replication_factor: i16,
) -> Result<(), ClientError> {
    let mut connection = Connection::connect(broker, &config()).await?;
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: topic.into(),
            num_partitions,
            replication_factor,
            ..Default::default()
        }],
        timeout_ms: 5_000,
        ..Default::default()
    };
    let answer = connection.call(&request).await?;
    for topic in answer.topics {
        if ErrorCode::from(topic.error_code) != ErrorCode::TopicAlreadyExists {
            ClientError::check(topic.error_code, topic.error_message.as_deref())?;
        }
    }
    Ok(())
}
