//! Sending a consumer to a follower in its own rack.
//! Not here: the choice (kavka_replication::replica_selector), the wire (api/fetch.rs).
//! Any task; one look at the partition under its lock for each fetch of a consumer that tells its rack.
//! Kafka: ReplicaManager.findPreferredReadReplica; KIP-392.

use crate::replica::manager::ReplicaManager;
use crate::replica::partition::Partition;
use kavka_common::{NodeId, Offset};
use kavka_config::BrokerConfig;
use kavka_replication::replica_selector::{ReplicaView, closest_follower};

/// `replica.selector.class`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaSelector {
    #[default]
    Leader,
    RackAware,
}

const LEADER_CLASS: &str = "org.apache.kafka.common.replica.LeaderSelector";
const RACK_AWARE_CLASS: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

impl ReplicaSelector {
    pub const KEY: &str = "replica.selector.class";

    /// The selectors that Kafka brings; the error is the name of a class of somebody else's.
    pub fn from_config(config: &BrokerConfig) -> Result<ReplicaSelector, String> {
        match config.text(Self::KEY).map(str::trim) {
            None | Some("" | LEADER_CLASS) => Ok(ReplicaSelector::Leader),
            Some(RACK_AWARE_CLASS) => Ok(ReplicaSelector::RackAware),
            Some(other) => Err(other.to_owned()),
        }
    }

    /// What may be written there.
    pub fn known_classes() -> [&'static str; 2] {
        [LEADER_CLASS, RACK_AWARE_CLASS]
    }
}

impl ReplicaManager {
    /// The follower from which a consumer in `rack` that came by `listener` should read; `None`: from here.
    pub fn closest_replica(
        &self,
        partition: &Partition,
        fetch_offset: Offset,
        rack: &str,
        listener: &str,
    ) -> Option<NodeId> {
        if rack.is_empty() || self.settings.replica_selector == ReplicaSelector::Leader {
            return None;
        }
        let followers = partition.followers_holding(fetch_offset)?;
        let image = self.image.load();
        let rack_of = |broker_id: NodeId| {
            let broker = image.cluster.broker(broker_id)?;
            // it must be there, and reachable by the same kind of listener
            if broker.fenced || broker.endpoint(listener).is_none() {
                return None;
            }
            broker.rack.as_deref()
        };
        let views: Vec<ReplicaView<'_>> = followers
            .iter()
            .map(|follower| ReplicaView {
                broker_id: follower.broker_id,
                rack: rack_of(follower.broker_id),
                log_end_offset: follower.log_end_offset,
                last_caught_up_ms: follower.last_caught_up_ms,
            })
            .collect();
        closest_follower(rack, rack_of(self.context.local), &views)
    }
}
