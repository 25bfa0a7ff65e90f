//! R7: what comes from an earlier leader epoch, partition epoch or broker epoch changes nothing.
//! Not here: requests to partitions, whose refusals are looked at where they are served (broker_requests.rs).
//! Pure. Source: KIP-320, KIP-497, KIP-841, KIP-903; KAFKA-15221, KAFKA-14154.

use super::{Checked, require};
use kavka_broker::replica::{PartitionView, ViewedRole};
use kavka_common::{LeaderEpoch, NodeId};
use kavka_metadata::{MetadataImage, MetadataRecord};
use kavka_protocol::AnyRequest;

pub fn decided(image: &MetadataImage, request: &AnyRequest, records: &[MetadataRecord]) -> Checked {
    let epoch_of = |id: i32| {
        let broker = image.cluster.broker(NodeId(id));
        broker.map(|broker| broker.broker_epoch.get())
    };
    match request {
        AnyRequest::BrokerHeartbeat(heartbeat) => require(
            epoch_of(heartbeat.broker_id) == Some(heartbeat.broker_epoch) || records.is_empty(),
            || format!("a stale heartbeat changes something: {heartbeat:?}"),
        ),
        AnyRequest::AlterPartition(request) => {
            require(
                epoch_of(request.broker_id) == Some(request.broker_epoch) || records.is_empty(),
                || format!("a stale broker changes an ISR: {request:?}"),
            )?;
            for topic in &request.topics {
                for partition in &topic.partitions {
                    let current = image
                        .topics
                        .get(&topic.topic_id)
                        .and_then(|topic| topic.partition(partition.partition_index));
                    let fits = current.is_some_and(|current| {
                        current.leader_epoch.get() == partition.leader_epoch
                            && current.partition_epoch.get() == partition.partition_epoch
                    });
                    let changed = records.iter().any(|record| {
                        matches!(record, MetadataRecord::PartitionChange(change)
                            if change.topic_id == topic.topic_id
                                && change.partition_id == partition.partition_index)
                    });
                    require(fits || !changed, || {
                        format!(
                            "a stale leader changes an ISR: {partition:?}, registered is {current:?}"
                        )
                    })?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A replica's fetch that names a leader epoch was served: the leader is in that epoch.
pub fn served(view: &PartitionView, asked: LeaderEpoch) -> Checked {
    let leads_in = match &view.role {
        ViewedRole::Leader { registration, .. } => Some(registration.leader_epoch),
        ViewedRole::Follower { .. } | ViewedRole::None => None,
    };
    require(
        asked == LeaderEpoch::UNKNOWN || leads_in == Some(asked),
        || format!("a fetch for epoch {asked} is served by {view:?}"),
    )
}

/// A request was refused for its epoch: the replica is as it was.
pub fn refused<T: PartialEq + std::fmt::Debug>(before: &T, after: &T) -> Checked {
    require(before == after, || {
        format!("a refused request changed a replica from {before:?} to {after:?}")
    })
}
