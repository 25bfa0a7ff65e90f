//! Topics that come into being because somebody uses them: by Metadata where that is allowed, and Kafka's own ones.
//! Not here: deciding (crates/controller); who may create.
//! Any task; of several that miss the same topic one asks the controller and the others wait for the image.
//! Kafka: DefaultAutoTopicCreationManager, KRaftTopicCreator; KIP-4, KIP-590.

use crate::controller::ControllerChannel;
use crate::metadata::MetadataCache;
use kavka_common::topic::{GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC};
use kavka_config::BrokerConfig;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kavka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info};

/// How long a request waits until a new topic is there; after that its client asks again.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// The settings that decide which topics come into being, and how.
pub const KEYS: &[&str] = &[
    "auto.create.topics.enable",
    "max.request.partition.size.limit",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "request.timeout.ms",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.segment.bytes",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.segment.bytes",
];

/// Creates missing topics.
pub struct AutoTopicCreation {
    config: Arc<BrokerConfig>,
    cache: Arc<MetadataCache>,
    controller: Arc<ControllerChannel>,
    /// Topics that somebody is creating.
    in_flight: Mutex<BTreeSet<String>>,
}

impl AutoTopicCreation {
    pub fn new(
        config: Arc<BrokerConfig>,
        cache: Arc<MetadataCache>,
        controller: Arc<ControllerChannel>,
    ) -> Self {
        AutoTopicCreation {
            config,
            cache,
            controller,
            in_flight: Mutex::default(),
        }
    }

    /// Creates topics and waits until this broker knows them. The errors of those that could not be created; a topic
    /// that is neither there then nor has an error may still come.
    pub async fn create(&self, topics: &[String]) -> BTreeMap<String, ErrorCode> {
        let claimed = Claimed::new(self, topics);
        let mut errors = BTreeMap::new();
        if !claimed.topics.is_empty() {
            let request = CreateTopicsRequest {
                topics: claimed
                    .topics
                    .iter()
                    .map(|topic| creatable(&self.config, topic))
                    .collect(),
                timeout_ms: self.config.int("request.timeout.ms"),
                ..Default::default()
            };
            match self.controller.call(request).await {
                Ok(response) => errors = errors_of(&response),
                Err(error) => {
                    debug!(target: "kafka.server.DefaultAutoTopicCreationManager", "Auto topic creation failed for {:?}: {error}", claimed.topics)
                }
            }
        }
        let awaited: Vec<&String> = topics
            .iter()
            .filter(|topic| !errors.contains_key(*topic))
            .collect();
        self.wait_for(&awaited).await;
        errors
    }

    async fn wait_for(&self, topics: &[&String]) {
        let mut published = self.cache.published();
        let all_there = async {
            loop {
                // The mark is set before the look: a change in between is not missed.
                published.mark_unchanged();
                let image = self.cache.image();
                if topics.iter().all(|topic| image.topics.contains(topic)) {
                    return;
                }
                if published.changed().await.is_err() {
                    return;
                }
            }
        };
        // In vain: the client finds no topic and asks again.
        let _ = tokio::time::timeout(WAIT_MAX, all_there).await;
    }
}

/// Topics that this call creates; given back when it is done, or dropped half-way.
struct Claimed<'a> {
    owner: &'a AutoTopicCreation,
    topics: Vec<String>,
}

impl<'a> Claimed<'a> {
    fn new(owner: &'a AutoTopicCreation, topics: &[String]) -> Self {
        let mut in_flight = owner.in_flight.lock();
        let topics = topics
            .iter()
            .filter(|topic| in_flight.insert((*topic).clone()))
            .cloned()
            .collect();
        Claimed { owner, topics }
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.owner.in_flight.lock();
        for topic in &self.topics {
            in_flight.remove(topic);
        }
    }
}

fn errors_of(response: &CreateTopicsResponse) -> BTreeMap<String, ErrorCode> {
    let mut errors = BTreeMap::new();
    for topic in &response.topics {
        match ErrorCode::from(topic.error_code) {
            ErrorCode::None => {
                info!(target: "kafka.server.DefaultAutoTopicCreationManager", "Auto topic creation completed for {}.", topic.name);
            }
            // Somebody else was faster.
            ErrorCode::TopicAlreadyExists => {}
            error => {
                let message = topic.error_message.as_deref().unwrap_or("");
                info!(target: "kafka.server.DefaultAutoTopicCreationManager", "Auto topic creation failed for {} with error '{}': {message}", topic.name, error.name());
                if !error.is_retriable() {
                    errors.insert(topic.name.to_string(), error);
                }
            }
        }
    }
    errors
}

/// A topic with the shape that its users need: Kafka's own topics have settings for theirs.
pub fn creatable(config: &BrokerConfig, topic: &str) -> CreatableTopic {
    let own = |partitions: &str, replicas: &str, configs: &[(&str, String)]| CreatableTopic {
        name: topic.into(),
        num_partitions: config.int(partitions),
        replication_factor: config.short(replicas),
        configs: configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig {
                name: (*name).into(),
                value: Some(value.clone().into()),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    match topic {
        GROUP_METADATA_TOPIC => own(
            "offsets.topic.num.partitions",
            "offsets.topic.replication.factor",
            &[
                ("cleanup.policy", "compact".into()),
                ("compression.type", "producer".into()),
                (
                    "segment.bytes",
                    config.int("offsets.topic.segment.bytes").to_string(),
                ),
            ],
        ),
        TRANSACTION_STATE_TOPIC => own(
            "transaction.state.log.num.partitions",
            "transaction.state.log.replication.factor",
            &[
                ("cleanup.policy", "compact".into()),
                ("compression.type", "uncompressed".into()),
                (
                    "min.insync.replicas",
                    config.int("transaction.state.log.min.isr").to_string(),
                ),
                (
                    "segment.bytes",
                    config
                        .int("transaction.state.log.segment.bytes")
                        .to_string(),
                ),
                ("unclean.leader.election.enable", "false".into()),
            ],
        ),
        SHARE_GROUP_STATE_TOPIC => own(
            "share.coordinator.state.topic.num.partitions",
            "share.coordinator.state.topic.replication.factor",
            &[
                ("cleanup.policy", "delete".into()),
                ("compression.type", "producer".into()),
                (
                    "min.insync.replicas",
                    config
                        .short("share.coordinator.state.topic.min.isr")
                        .to_string(),
                ),
                ("retention.ms", "-1".into()),
                (
                    "segment.bytes",
                    config
                        .int("share.coordinator.state.topic.segment.bytes")
                        .to_string(),
                ),
            ],
        ),
        _ => CreatableTopic {
            name: topic.into(),
            num_partitions: -1,
            replication_factor: -1,
            ..Default::default()
        },
    }
}
