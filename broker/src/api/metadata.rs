//! Metadata: brokers, topics, leaders; creates missing topics where that is allowed.
//! Not here: endpoints (cluster_view.rs), the creation itself (auto_create.rs).
//! Answers from the image; waits only for topics that it has created.
//! Kafka: KafkaApis.handleTopicMetadataRequest; KIP-4, KIP-430, KIP-516, KIP-526, KIP-700.

use crate::api::RequestContext;
use crate::api::auto_create::AutoTopicCreation;
use crate::api::cluster_view::{
    BrokerNode, CLUSTER_OPERATIONS, TOPIC_OPERATIONS, Viewpoint, shown_controller,
};
use crate::metadata::MetadataCache;
use crate::network::Pending;
use kavka_common::Uuid;
use kavka_common::topic::{is_internal, validate_topic_name};
use kavka_config::BrokerConfig;
use kavka_metadata::{MetadataImage, TopicImage};
use kavka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kavka_protocol::messages::{MetadataRequest, MetadataResponse};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What the handler needs.
#[derive(Clone)]
pub struct MetadataApi {
    pub cache: Arc<MetadataCache>,
    pub config: Arc<BrokerConfig>,
    pub cluster_id: Arc<str>,
    pub auto_create: Arc<AutoTopicCreation>,
}

/// How long an answer without any broker is held back. A client that comes back to a cluster of one while that is
/// starting would forget its only broker; librdkafka then has nobody to ask any more, and stands still.
const BROKERS_WITHIN: Duration = Duration::from_secs(2);

fn has_brokers(image: &MetadataImage) -> bool {
    image.cluster.unfenced_brokers().next().is_some()
}

/// Errors of topics that could not be created, by name.
pub type CreationErrors = BTreeMap<String, ErrorCode>;

impl MetadataApi {
    pub fn handle(&self, context: RequestContext, request: MetadataRequest) -> Pending {
        let is_known = has_brokers(&self.cache.image());
        if is_known
            && self
                .missing_topics(&request, context.api_version)
                .is_empty()
        {
            let response = self.answer(&context, &request, &CreationErrors::new());
            return context.ready(&response);
        }
        let api = self.clone();
        let asked = context.clone();
        context.later(async move {
            if !is_known {
                // It may be that nobody serves: then that is the answer.
                let _ = api.cache.wait_until(has_brokers, BROKERS_WITHIN).await;
            }
            let missing = api.missing_topics(&request, asked.api_version);
            let errors = match missing.is_empty() {
                true => CreationErrors::new(),
                false => api.auto_create.create(&missing).await,
            };
            api.answer(&asked, &request, &errors)
        })
    }

    /// Topics that this request makes come into being.
    fn missing_topics(&self, request: &MetadataRequest, api_version: i16) -> Vec<String> {
        let may_create =
            request.allow_auto_topic_creation && self.config.boolean("auto.create.topics.enable");
        let Some(topics) = request.topics.as_ref().filter(|_| may_create) else {
            return Vec::new();
        };
        if is_invalid(request, api_version)
            || topics.iter().any(|topic| topic.topic_id != Uuid::ZERO)
        {
            return Vec::new();
        }
        let image = self.cache.image();
        let names: BTreeSet<&str> = topics
            .iter()
            .filter_map(|topic| topic.name.as_deref())
            .filter(|name| validate_topic_name(name).is_ok() && !image.topics.contains(name))
            .collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn answer(
        &self,
        context: &RequestContext,
        request: &MetadataRequest,
        errors: &CreationErrors,
    ) -> MetadataResponse {
        let viewpoint = Viewpoint::new(&self.config, context);
        let image = self.cache.image();
        answer(
            &image,
            &viewpoint,
            &self.cluster_id,
            context.api_version,
            request,
            errors,
        )
    }
}

/// Versions 10 and 11 have ids and nulls on the wire that they may not use yet.
fn is_invalid(request: &MetadataRequest, api_version: i16) -> bool {
    api_version < 12
        && request
            .topics
            .iter()
            .flatten()
            .any(|topic| topic.name.is_none() || topic.topic_id != Uuid::ZERO)
}

/// The answer from an image.
pub fn answer(
    image: &MetadataImage,
    viewpoint: &Viewpoint,
    cluster_id: &str,
    api_version: i16,
    request: &MetadataRequest,
    errors: &CreationErrors,
) -> MetadataResponse {
    let nodes: Vec<BrokerNode> = viewpoint
        .nodes(image)
        .filter(|node| !node.is_fenced)
        .collect();
    let view = TopicsView {
        image,
        viewpoint,
        api_version,
        errors,
    };
    let mut topics = if is_invalid(request, api_version) {
        request
            .topics
            .iter()
            .flatten()
            .map(|topic| {
                view.refused(
                    ErrorCode::InvalidRequest,
                    topic.name.clone(),
                    topic.topic_id,
                )
            })
            .collect()
    } else {
        view.asked(request)
    };
    if request.include_topic_authorized_operations {
        for topic in topics
            .iter_mut()
            .filter(|topic| topic.error_code == ErrorCode::None.code())
        {
            topic.topic_authorized_operations = TOPIC_OPERATIONS;
        }
    }
    MetadataResponse {
        controller_id: shown_controller(image, &nodes),
        brokers: nodes
            .into_iter()
            .map(|node| MetadataResponseBroker {
                node_id: node.broker_id.get(),
                host: node.host.into(),
                port: node.port,
                rack: node.rack.map(Into::into),
                ..Default::default()
            })
            .collect(),
        cluster_id: Some(cluster_id.into()),
        topics,
        cluster_authorized_operations: if (8..=10).contains(&api_version)
            && request.include_cluster_authorized_operations
        {
            CLUSTER_OPERATIONS
        } else {
            i32::MIN
        },
        ..Default::default()
    }
}

struct TopicsView<'a> {
    image: &'a MetadataImage,
    viewpoint: &'a Viewpoint,
    api_version: i16,
    errors: &'a CreationErrors,
}

impl TopicsView<'_> {
    fn asked(&self, request: &MetadataRequest) -> Vec<MetadataResponseTopic> {
        // No list asks for all topics; in version 0, which has no null, an empty one does.
        let topics = match &request.topics {
            Some(topics) if self.api_version > 0 || !topics.is_empty() => topics,
            Some(_) | None => {
                return self
                    .image
                    .topics
                    .iter()
                    .map(|topic| self.topic(topic))
                    .collect();
            }
        };
        let ids: BTreeSet<Uuid> = topics
            .iter()
            .map(|topic| topic.topic_id)
            .filter(|id| *id != Uuid::ZERO)
            .collect();
        if !ids.is_empty() {
            // Where there is one id, names do not count.
            return ids
                .into_iter()
                .map(|id| match self.image.topics.get(&id) {
                    Some(topic) => self.topic(topic),
                    None => self.refused(ErrorCode::UnknownTopicId, None, id),
                })
                .collect();
        }
        let mut seen = BTreeSet::new();
        topics
            .iter()
            .filter_map(|topic| topic.name.as_ref())
            .filter(|name| seen.insert(*name))
            .map(|name| match self.image.topics.by_name(name) {
                Some(topic) => self.topic(topic),
                None => self.refused(self.missing_error(name), Some(name.clone()), Uuid::ZERO),
            })
            .collect()
    }

    fn missing_error(&self, name: &str) -> ErrorCode {
        if validate_topic_name(name).is_err() {
            return ErrorCode::InvalidTopicException;
        }
        self.errors
            .get(name)
            .copied()
            .unwrap_or(ErrorCode::UnknownTopicOrPartition)
    }

    fn refused(
        &self,
        error: ErrorCode,
        name: Option<StrBytes>,
        topic_id: Uuid,
    ) -> MetadataResponseTopic {
        // Only version 12 can say that there is no name.
        let name = name.or_else(|| (self.api_version < 12).then(StrBytes::default));
        MetadataResponseTopic {
            error_code: error.code(),
            is_internal: name.as_deref().is_some_and(is_internal),
            name,
            topic_id,
            ..Default::default()
        }
    }

    fn topic(&self, topic: &TopicImage) -> MetadataResponseTopic {
        let partitions = topic
            .partitions
            .iter()
            .map(|(index, partition)| {
                let view = self.viewpoint.partition(
                    self.image,
                    partition,
                    self.api_version == 0,
                    self.api_version >= 6,
                );
                MetadataResponsePartition {
                    error_code: view.error.code(),
                    partition_index: *index,
                    leader_id: view.leader_id,
                    leader_epoch: partition.leader_epoch.get(),
                    replica_nodes: view.replicas,
                    isr_nodes: view.isr,
                    offline_replicas: view.offline_replicas,
                    ..Default::default()
                }
            })
            .collect();
        MetadataResponseTopic {
            error_code: ErrorCode::None.code(),
            name: Some((&*topic.name).into()),
            topic_id: topic.id,
            is_internal: is_internal(&topic.name),
            partitions,
            ..Default::default()
        }
    }
}

#[cfg(test)]
#[path = "metadata_test.rs"]
mod metadata_test;
