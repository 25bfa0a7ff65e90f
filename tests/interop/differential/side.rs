//! One of the two brokers: its connection, the ids it gave out, and what of its answers is masked.
//! Not here: requests, comparing.
//! Owned by the duel. Kafka: no counterpart.

use crate::{Duel, shown};
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection};
use kavka_common::Uuid;
use kavka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kavka_protocol::messages::{CreateTopicsRequest, DescribeClusterRequest};
use kavka_protocol::{Message, Request};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long an answer may take: none of these requests waits for anything that long.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// A broker under comparison.
pub struct Side {
    address: BrokerAddress,
    config: ClientConfig,
    connection: Option<Connection>,
    /// Ids of topics, by name.
    pub topic_ids: BTreeMap<String, Uuid>,
    /// Values that later requests hand back: member ids, producer ids, sessions.
    pub notes: BTreeMap<String, Value>,
    /// The node's id.
    pub broker_id: i32,
}

/// Values that differ by nature: ids that are drawn, addresses, times, sizes of disks.
const MASKED: &[&str] = &[
    "topicId",
    "clusterId",
    "memberId",
    "leader",
    "host",
    "port",
    "throttleTimeMs",
    "brokerEpoch",
    "producerId",
    "sessionId",
    "logDir",
    "size",
    "totalBytes",
    "usableBytes",
    "lastFetchTimestamp",
    "lastCaughtUpTimestamp",
    "finalizedFeaturesEpoch",
    "replicaDirectoryId",
    "clientHost",
    "lastTimestamp",
];

/// The same for the answers of one API.
const MASKED_IN: &[(&str, &[&str])] = &[(
    "DescribeQuorumResponse",
    // The metadata logs do not hold the same records.
    &["logEndOffset", "highWatermark"],
)];

impl Side {
    pub async fn new(address: &str) -> Result<Side, ClientError> {
        let address: BrokerAddress = address
            .parse()
            .map_err(|e| ClientError::Config(format!("{e}")))?;
        let mut side = Side {
            address,
            config: ClientConfig {
                client_id: "differential".into(),
                request_timeout_ms: millis(PATIENCE),
                ..Default::default()
            },
            connection: None,
            topic_ids: BTreeMap::new(),
            notes: BTreeMap::new(),
            broker_id: -1,
        };
        let cluster = side.call(&DescribeClusterRequest::default(), 0).await?;
        side.broker_id = cluster
            .brokers
            .first()
            .map_or(-1, |broker| broker.broker_id);
        Ok(side)
    }

    pub fn address(&self) -> &BrokerAddress {
        &self.address
    }

    pub fn topic_id(&self, topic: &str) -> Uuid {
        self.topic_ids
            .get(topic)
            .copied()
            .unwrap_or(Uuid::METADATA_TOPIC)
    }

    pub fn note(&self, key: &str) -> &str {
        self.notes.get(key).and_then(Value::as_str).unwrap_or("")
    }

    pub fn number(&self, key: &str) -> i64 {
        self.notes.get(key).and_then(Value::as_i64).unwrap_or(-1)
    }

    /// Sends on the side's connection; after a failure the next call opens a new one.
    pub async fn call<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ClientError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::connect(&self.address, &self.config).await?,
        };
        let result = connection.call_version(request, version).await;
        if matches!(result, Ok(_) | Err(ClientError::Unsendable(_))) {
            self.connection = Some(connection);
        }
        result
    }

    /// The answer with what differs by nature masked.
    pub fn masked<M: Message>(&self, answer: &Result<M, ClientError>, version: i16) -> Value {
        let mut value = shown(answer, version);
        mask(&mut value, MASKED);
        for (_, keys) in MASKED_IN.iter().filter(|(name, _)| M::NAME == *name) {
            mask(&mut value, keys);
        }
        value
    }
}

/// Replaces values of the given keys; whether something is set at all still shows.
pub fn mask(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields.iter_mut() {
                if keys.contains(&key.as_str()) {
                    let unset = match inner {
                        Value::Null => true,
                        Value::String(text) => text.is_empty() || text == "AAAAAAAAAAAAAAAAAAAAAA",
                        Value::Number(number) => number.as_i64() == Some(-1),
                        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
                    };
                    if !unset && !inner.is_array() {
                        *inner = Value::from("masked");
                        continue;
                    }
                }
                mask(inner, keys);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn millis(patience: Duration) -> u64 {
    u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)
}

impl Duel {
    /// How long answers may take from now on.
    pub fn patience(&mut self, patience: Duration) {
        for side in [&mut self.theirs, &mut self.ours] {
            side.config.request_timeout_ms = millis(patience);
            side.connection = None;
        }
    }

    /// Makes the topics that the families share: `d1` with three partitions, `d2` with one.
    pub async fn prepare(&mut self) {
        for (name, partitions) in [("d1", 3), ("d2", 1)] {
            let request = CreateTopicsRequest {
                topics: vec![CreatableTopic {
                    name: name.into(),
                    num_partitions: partitions,
                    replication_factor: 1,
                    // The records are dated years ago: retention would take them away in the middle of the comparison.
                    configs: vec![CreatableTopicConfig {
                        name: "retention.ms".into(),
                        value: Some("-1".into()),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                timeout_ms: 10_000,
                ..Default::default()
            };
            for side in [&mut self.theirs, &mut self.ours] {
                match side.call(&request, 7).await {
                    Ok(answer) => {
                        for topic in answer.topics {
                            side.topic_ids
                                .insert(topic.name.to_string(), topic.topic_id);
                        }
                    }
                    Err(e) => println!("# creating {name} at {}: {e}", side.address),
                }
            }
        }
        // Both must know their leaders before anything is compared.
        for side in [&mut self.theirs, &mut self.ours] {
            side.wait_for_leaders(&["d1", "d2"]).await;
        }
    }
}

impl Side {
    /// Asks until every partition of the topics has a leader, for ten seconds at the most.
    pub async fn wait_for_leaders(&mut self, topics: &[&str]) {
        use kavka_protocol::messages::MetadataRequest;
        use kavka_protocol::messages::metadata_request::MetadataRequestTopic;
        let request = MetadataRequest {
            topics: Some(
                topics
                    .iter()
                    .map(|name| MetadataRequestTopic {
                        name: Some((*name).into()),
                        ..Default::default()
                    })
                    .collect(),
            ),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        for _ in 0..100 {
            if let Ok(answer) = self.call(&request, 12).await
                && answer.topics.iter().all(|topic| {
                    topic.error_code == 0 && topic.partitions.iter().all(|p| p.leader_id >= 0)
                })
            {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        println!("# {topics:?} have no leaders at {}", self.address);
    }
}
