//! What a change of a broker's standing does to partitions: leaders move, in-sync sets shrink, partitions come back.
//! Not here: the record about the broker itself (`brokers`).
//! Pure. Kafka: ReplicationControlManager.handleBroker*, generateLeaderAndIsrUpdates; KIP-841, KIP-966.

use crate::controller::Scope;
use crate::replication::partition_change::{PartitionChange, Standing};
use kavka_common::NodeId;
use kavka_common::guards::{Guard, holds};
use kavka_metadata::{MetadataRecord, PartitionRegistration, TopicImage};

/// Takes the broker out of all in-sync sets and leaderships: it is fenced or shuts down in an orderly way.
pub fn remove_from_isrs(scope: &Scope<'_>, broker_id: NodeId, records: &mut Vec<MetadataRecord>) {
    let standing = Standing {
        leaving: Some(broker_id),
        ..Standing::default()
    };
    change_where(scope, standing, records, |partition| {
        partition.isr.contains(&broker_id)
    });
}

/// As `remove_from_isrs`, and the broker is not eligible any more either: it is unregistered for good.
pub fn remove_everywhere(scope: &Scope<'_>, broker_id: NodeId, records: &mut Vec<MetadataRecord>) {
    let standing = Standing {
        leaving: Some(broker_id),
        ..Standing::default()
    };
    change_where(scope, standing, records, |partition| {
        partition.isr.contains(&broker_id) || partition.elr.contains(&broker_id)
    });
}

/// The broker registers anew. After an unclean shutdown it may lack records that it had acknowledged, so that it is
/// neither in sync nor eligible any more (KIP-966).
pub fn new_incarnation(
    scope: &Scope<'_>,
    broker_id: NodeId,
    is_clean_shutdown: bool,
    records: &mut Vec<MetadataRecord>,
) {
    if is_clean_shutdown || !holds(Guard::UncleanShutdown) || !scope.image.features.is_elr_enabled()
    {
        remove_from_isrs(scope, broker_id, records);
    } else {
        let standing = Standing {
            unclean: Some(broker_id),
            ..Standing::default()
        };
        change_where(scope, standing, records, |partition| {
            partition.isr.contains(&broker_id) || partition.elr.contains(&broker_id)
        });
    }
}

/// Partitions without a leader look whether the broker that now serves again can lead them.
pub fn unfenced(scope: &Scope<'_>, broker_id: NodeId, records: &mut Vec<MetadataRecord>) {
    let standing = Standing {
        joining: Some(broker_id),
        ..Standing::default()
    };
    change_where(scope, standing, records, |partition| {
        !partition.has_leader()
    });
}

/// Whether the broker leads anything.
pub fn has_leaderships(scope: &Scope<'_>, broker_id: NodeId) -> bool {
    scope.image.topics.iter().any(|topic| {
        topic
            .partitions
            .values()
            .any(|partition| partition.leader == broker_id)
    })
}

/// Appends the change of every partition that `concerns` picks, with the ISR cut by those who leave.
pub(crate) fn change_where(
    scope: &Scope<'_>,
    standing: Standing,
    records: &mut Vec<MetadataRecord>,
    concerns: impl Fn(&PartitionRegistration) -> bool,
) {
    for topic in scope.image.topics.iter() {
        for (partition, registration) in &topic.partitions {
            if concerns(registration) {
                records.extend(change(scope, standing, topic, *partition, registration));
            }
        }
    }
}

/// The change of one partition.
pub(crate) fn change(
    scope: &Scope<'_>,
    standing: Standing,
    topic: &TopicImage,
    partition: i32,
    registration: &PartitionRegistration,
) -> Option<MetadataRecord> {
    let isr = registration
        .isr
        .iter()
        .copied()
        .filter(|id| standing.leaving != Some(*id) && standing.unclean != Some(*id))
        .collect();
    PartitionChange::new(scope, &topic.name, topic.id, partition, registration)
        .election_of_topic()
        .standing(standing)
        .isr(isr)
        .build()
}
