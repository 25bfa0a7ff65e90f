//! The active controller as one value: it takes a request, the image and the soft state, and says what to append.
//! Not here: the decisions themselves (one file per record family), appending (broker/src/controller).
//! Pure; one call at a time, by the active controller's task. Kafka: QuorumController, ControllerApis; KIP-500.

use crate::api_error::ApiError;
use crate::random::Random;
use crate::replication::placement::UsableBroker;
use crate::soft::Soft;
use crate::{brokers, configs, controllers, features, producer_ids, quotas, replication, topics};
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, Offset, Uuid};
use kavka_config::dynamic::{Layers, Overrides};
use kavka_config::source::Described;
use kavka_config::{BrokerConfig, Value};
use kavka_metadata::{BrokerRegistration, ConfigResource, MetadataImage, MetadataRecord};
use kavka_protocol::{AnyRequest, AnyResponse, ApiKey, ErrorCode};
use std::cell::OnceCell;
use std::sync::Arc;

/// What the controller acts on of its node's settings.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    pub cluster_id: String,
    pub node_id: NodeId,
    /// Members of the quorum: a feature level must be supported by all of them.
    pub voters: Vec<NodeId>,
    pub num_partitions: i32,
    pub default_replication_factor: i16,
    pub delete_topic_enable: bool,
    pub session_timeout_ms: i64,
    /// `None` when leaders are not moved back by themselves.
    pub leader_rebalance_interval_ms: Option<i64>,
    pub unclean_election_interval_ms: i64,
    /// The node's file: what topics inherit where nothing dynamic is set.
    pub file: Arc<BrokerConfig>,
}

impl ControllerConfig {
    /// The settings that the controller acts on.
    pub const KEYS: &'static [&'static str] = &[
        "auto.leader.rebalance.enable",
        "broker.session.timeout.ms",
        "default.replication.factor",
        "delete.topic.enable",
        "leader.imbalance.check.interval.seconds",
        "min.insync.replicas",
        "num.partitions",
        "unclean.leader.election.enable",
        "unclean.leader.election.interval.ms",
    ];

    pub fn new(
        cluster_id: impl Into<String>,
        voters: Vec<NodeId>,
        file: Arc<BrokerConfig>,
    ) -> Self {
        let rebalance = file.boolean("auto.leader.rebalance.enable");
        ControllerConfig {
            cluster_id: cluster_id.into(),
            node_id: file.node_id(),
            voters,
            num_partitions: file.int("num.partitions"),
            default_replication_factor: i16::try_from(file.int("default.replication.factor"))
                .unwrap_or(i16::MAX),
            delete_topic_enable: file.boolean("delete.topic.enable"),
            session_timeout_ms: i64::from(file.int("broker.session.timeout.ms")),
            leader_rebalance_interval_ms: rebalance.then(|| {
                file.long("leader.imbalance.check.interval.seconds")
                    .saturating_mul(1000)
            }),
            unclean_election_interval_ms: file.long("unclean.leader.election.interval.ms"),
            file,
        }
    }
}

/// The outside of one call, as numbers.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Monotonic time.
    pub now_ms: i64,
    /// The offset at which the records of this call will lie; a broker's epoch is the offset of its registration.
    pub next_offset: Offset,
    /// Fresh entropy, for ids and placement.
    pub seed: [u8; 32],
}

/// What a request comes to. The response is sent when the records are committed, at once when there are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub records: Vec<MetadataRecord>,
    pub response: AnyResponse,
}

/// The controller has no answer to this API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller does not serve {0:?}")]
pub struct UnsupportedRequest(pub ApiKey);

/// What a handler sees.
pub struct Scope<'a> {
    pub config: &'a ControllerConfig,
    pub image: &'a MetadataImage,
    pub now_ms: i64,
    pub next_offset: Offset,
    layers: OnceCell<Layers>,
}

impl<'a> Scope<'a> {
    pub fn new(config: &'a ControllerConfig, image: &'a MetadataImage, moment: &Moment) -> Self {
        Scope {
            config,
            image,
            now_ms: moment.now_ms,
            next_offset: moment.next_offset,
            layers: OnceCell::new(),
        }
    }

    /// The settings of the controller's node with the dynamic ones: what topics inherit.
    pub fn layers(&self) -> &Layers {
        self.layers.get_or_init(|| Layers {
            file: Arc::clone(&self.config.file),
            dynamic_default: self.stored(&ConfigResource::broker_default()),
            dynamic_broker: self.stored(&ConfigResource::broker(self.config.node_id)),
        })
    }

    /// The stored settings of a resource.
    pub fn stored(&self, resource: &ConfigResource) -> Overrides {
        self.image.configs.overrides(resource)
    }

    /// Every setting of a topic with these overrides, by name.
    pub fn effective_topic_configs(&self, own: &Overrides) -> Vec<Described> {
        kavka_config::source::describe_topic(self.layers(), own)
    }

    /// min.insync.replicas of a topic, but never more than there are replicas.
    pub fn effective_min_insync_replicas(&self, topic: &str, replicas: &[NodeId]) -> usize {
        let own = self
            .image
            .configs
            .topic(topic)
            .and_then(|configs| configs.get("min.insync.replicas"));
        let configured = match own.and_then(|text| text.trim().parse().ok()) {
            Some(own) => own,
            None => match self.layers().value("min.insync.replicas") {
                Value::Int(inherited) => usize::try_from(inherited).unwrap_or(1),
                _ => 1,
            },
        };
        configured.min(replicas.len())
    }

    pub fn is_unclean_election_enabled(&self, topic: &str) -> bool {
        const KEY: &str = "unclean.leader.election.enable";
        match self
            .image
            .configs
            .topic(topic)
            .and_then(|configs| configs.get(KEY))
        {
            Some(own) => own.trim().eq_ignore_ascii_case("true"),
            None => matches!(self.layers().value(KEY), Value::Boolean(true)),
        }
    }

    /// Brokers that may get replicas of new partitions.
    pub fn usable_brokers(&self) -> Vec<UsableBroker> {
        self.image
            .cluster
            .brokers
            .values()
            .filter(|broker| !broker.in_controlled_shutdown && !all_cordoned(broker))
            .map(|broker| UsableBroker {
                broker_id: broker.broker_id,
                rack: broker.rack.clone(),
                fenced: broker.fenced,
            })
            .collect()
    }

    /// The directory of a new replica: the broker's only one, or the broker will choose.
    pub fn default_directory(&self, broker_id: NodeId) -> Uuid {
        match self
            .image
            .cluster
            .broker(broker_id)
            .map(|broker| &broker.directories[..])
        {
            Some([only]) => *only,
            Some([_, _, ..]) => Uuid::DIR_UNASSIGNED,
            Some([]) | None => Uuid::DIR_MIGRATING,
        }
    }

    /// The registration, if the request comes from its broker in its present life.
    pub fn check_broker_epoch(
        &self,
        broker_id: NodeId,
        broker_epoch: BrokerEpoch,
    ) -> Result<&'a Arc<BrokerRegistration>, ApiError> {
        match self.image.cluster.broker(broker_id) {
            None => Err(ApiError::new(
                ErrorCode::StaleBrokerEpoch,
                format!("No broker registration found for broker id {broker_id}"),
            )),
            Some(broker) if broker.broker_epoch != broker_epoch => Err(ApiError::new(
                ErrorCode::StaleBrokerEpoch,
                format!(
                    "Expected broker epoch {}, but got broker epoch {broker_epoch}",
                    broker.broker_epoch
                ),
            )),
            Some(broker) => Ok(broker),
        }
    }

    /// A refusal with the message that Kafka gives when there is nothing particular to say.
    pub fn default_message(&self, error: ErrorCode) -> ApiError {
        ApiError::new(error, error.message())
    }
}

fn all_cordoned(broker: &BrokerRegistration) -> bool {
    let Some(cordoned) = &broker.cordoned_directories else {
        return false;
    };
    !broker.directories.is_empty()
        && broker
            .directories
            .iter()
            .all(|directory| cordoned.contains(directory))
}

/// The controller's core. Without state of its own: hard state is the image, soft state comes in.
#[derive(Clone, Debug)]
pub struct Controller {
    pub config: ControllerConfig,
}

impl Controller {
    pub fn new(config: ControllerConfig) -> Self {
        Controller { config }
    }

    /// The soft state to begin an active term with.
    pub fn activate(&self, image: &MetadataImage, now_ms: i64) -> Soft {
        Soft::on_activation(image, now_ms)
    }

    /// Decides a request. Only soft state changes here; hard state does when the records are replayed.
    pub fn handle(
        &self,
        image: &MetadataImage,
        soft: &mut Soft,
        moment: &Moment,
        api_version: i16,
        request: &AnyRequest,
    ) -> Result<Outcome, UnsupportedRequest> {
        let scope = Scope::new(&self.config, image, moment);
        let random = &mut Random::from_seed(moment.seed);
        macro_rules! outcome {
            ($kind:ident, $result:expr) => {{
                let (records, response) = $result;
                Outcome {
                    records,
                    response: AnyResponse::$kind(response),
                }
            }};
        }
        let outcome = match request {
            AnyRequest::CreateTopics(request) => {
                outcome!(
                    CreateTopics,
                    topics::create::handle(&scope, random, request)
                )
            }
            AnyRequest::DeleteTopics(request) => {
                outcome!(
                    DeleteTopics,
                    topics::delete::handle(&scope, api_version, request)
                )
            }
            AnyRequest::CreatePartitions(request) => {
                outcome!(
                    CreatePartitions,
                    topics::create_partitions::handle(&scope, random, request)
                )
            }
            AnyRequest::AlterConfigs(request) => {
                outcome!(AlterConfigs, configs::requests::legacy(&scope, request))
            }
            AnyRequest::IncrementalAlterConfigs(request) => {
                outcome!(
                    IncrementalAlterConfigs,
                    configs::requests::incremental(&scope, request)
                )
            }
            AnyRequest::BrokerRegistration(request) => {
                outcome!(
                    BrokerRegistration,
                    brokers::registration::handle(&scope, soft, request)
                )
            }
            AnyRequest::BrokerHeartbeat(request) => {
                outcome!(
                    BrokerHeartbeat,
                    brokers::heartbeat::handle(&scope, soft, request)
                )
            }
            AnyRequest::UnregisterBroker(request) => {
                outcome!(
                    UnregisterBroker,
                    brokers::unregister::handle(&scope, soft, request)
                )
            }
            AnyRequest::AlterPartition(request) => {
                outcome!(
                    AlterPartition,
                    replication::alter_partition::handle(&scope, request)
                )
            }
            AnyRequest::ElectLeaders(request) => {
                outcome!(
                    ElectLeaders,
                    replication::elect_leaders::handle(&scope, request)
                )
            }
            AnyRequest::AlterPartitionReassignments(request) => outcome!(
                AlterPartitionReassignments,
                replication::reassignment::alter(&scope, request)
            ),
            AnyRequest::ListPartitionReassignments(request) => outcome!(
                ListPartitionReassignments,
                (Vec::new(), replication::reassignment::list(&scope, request))
            ),
            AnyRequest::AssignReplicasToDirs(request) => {
                outcome!(
                    AssignReplicasToDirs,
                    replication::directories::assign(&scope, request)
                )
            }
            AnyRequest::AllocateProducerIds(request) => {
                outcome!(AllocateProducerIds, producer_ids::handle(&scope, request))
            }
            AnyRequest::AlterClientQuotas(request) => {
                outcome!(AlterClientQuotas, quotas::handle(&scope, request))
            }
            AnyRequest::UpdateFeatures(request) => {
                outcome!(
                    UpdateFeatures,
                    features::handle(&scope, api_version, request)
                )
            }
            AnyRequest::ControllerRegistration(request) => {
                outcome!(ControllerRegistration, controllers::handle(&scope, request))
            }
            other => return Err(UnsupportedRequest(other.api_key())),
        };
        Ok(outcome)
    }

    /// Fences a broker whose process is known to be gone, without waiting for its session to lapse.
    pub fn fence_broker(
        &self,
        image: &MetadataImage,
        soft: &mut Soft,
        moment: &Moment,
        broker_id: NodeId,
        broker_epoch: BrokerEpoch,
    ) -> Vec<MetadataRecord> {
        let scope = Scope::new(&self.config, image, moment);
        match scope.check_broker_epoch(broker_id, broker_epoch) {
            Ok(broker) if !broker.fenced => brokers::heartbeat::fence(&scope, soft, broker),
            Ok(_) | Err(_) => Vec::new(),
        }
    }

    /// Work that time brings. Call again at once while it returns records, else at `next_deadline_ms`.
    pub fn on_tick(
        &self,
        image: &MetadataImage,
        soft: &mut Soft,
        moment: &Moment,
    ) -> Vec<MetadataRecord> {
        let scope = Scope::new(&self.config, image, moment);
        // One broker at a time: each one's partitions are decided with the earlier one already out.
        if let Some(broker) = brokers::heartbeat::find_stale(&scope, soft) {
            return brokers::heartbeat::fence(&scope, soft, broker);
        }
        if let Some(interval_ms) = self.config.leader_rebalance_interval_ms {
            let due_ms = *soft
                .next_leader_rebalance_ms
                .get_or_insert(moment.now_ms + interval_ms);
            if moment.now_ms >= due_ms {
                soft.next_leader_rebalance_ms = Some(moment.now_ms + interval_ms);
                let records = replication::elect_leaders::rebalance(&scope);
                if !records.is_empty() {
                    return records;
                }
            }
        }
        let interval_ms = self.config.unclean_election_interval_ms;
        let due_ms = *soft
            .next_unclean_election_ms
            .get_or_insert(moment.now_ms + interval_ms);
        if moment.now_ms >= due_ms {
            soft.next_unclean_election_ms = Some(moment.now_ms + interval_ms);
            return replication::elect_leaders::unclean_elections(&scope);
        }
        Vec::new()
    }

    /// When `on_tick` has something to do next.
    pub fn next_deadline_ms(&self, image: &MetadataImage, soft: &Soft) -> Option<i64> {
        let sessions = image.cluster.unfenced_brokers().filter_map(|broker| {
            let session = soft.sessions.get(&broker.broker_id)?;
            Some(session.last_contact_ms + self.config.session_timeout_ms + 1)
        });
        let periodic = [soft.next_leader_rebalance_ms, soft.next_unclean_election_ms];
        sessions.chain(periodic.into_iter().flatten()).min()
    }

    /// What a new active controller appends before anything else: on an empty log the records of a new cluster
    /// (`bootstrap` is what the bootstrap checkpoint holds, or `kavka_metadata::bootstrap::format_records`), and an end
    /// to a transaction that a predecessor left open.
    pub fn activation_records(
        &self,
        image: &MetadataImage,
        bootstrap: Vec<MetadataRecord>,
    ) -> Vec<MetadataRecord> {
        if image.in_transaction() {
            return vec![MetadataRecord::AbortTransaction(
                kavka_protocol::messages::AbortTransactionRecord {
                    reason: Some("controller failover".into()),
                    ..Default::default()
                },
            )];
        }
        if image.features.metadata_version().is_none() {
            return kavka_metadata::bootstrap::activation_records(
                bootstrap,
                self.config.file.int("min.insync.replicas"),
            );
        }
        Vec::new()
    }

    /// Applies committed records: the only way that hard state changes.
    pub fn replay(
        image: &MetadataImage,
        last_offset: Offset,
        epoch: LeaderEpoch,
        records: &[MetadataRecord],
    ) -> Result<MetadataImage, kavka_metadata::ReplayError> {
        image
            .apply(last_offset, epoch, records)
            .map(|(image, _)| image)
    }
}

#[cfg(test)]
#[path = "brokers_test.rs"]
mod brokers_test;

#[cfg(test)]
#[path = "directories_test.rs"]
mod directories_test;
#[cfg(test)]
#[path = "invariants_test.rs"]
mod invariants_test;
#[cfg(test)]
#[path = "settings_test.rs"]
mod settings_test;
#[cfg(test)]
#[path = "test_cluster.rs"]
mod test_cluster;
#[cfg(test)]
#[path = "topics_test.rs"]
mod topics_test;
