//! Log directories: replicas assigned to them, and directories that went offline.
//! Not here: directories at registration (`brokers::registration`).
//! Pure. Kafka: ReplicationControlManager.handleAssignReplicasToDirs, handleDirectoriesOffline; KIP-858.

use crate::controller::Scope;
use crate::replication::broker_changes::change_where;
use crate::replication::partition_change::{PartitionChange, Standing};
use kavka_common::{BrokerEpoch, NodeId, Uuid};
use kavka_metadata::{BrokerRegistration, MetadataRecord};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::assign_replicas_to_dirs_response as response;
use kavka_protocol::messages::{
    AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, BrokerRegistrationChangeRecord,
};
use std::collections::BTreeSet;

pub fn assign(
    scope: &Scope<'_>,
    request: &AssignReplicasToDirsRequest,
) -> (Vec<MetadataRecord>, AssignReplicasToDirsResponse) {
    let mut records = Vec::new();
    let mut answer = AssignReplicasToDirsResponse::default();
    if !scope
        .image
        .features
        .metadata_version_or_minimum()
        .is_directory_assignment_supported()
    {
        answer.error_code = ErrorCode::UnsupportedVersion.code();
        return (records, answer);
    }
    let broker_id = NodeId(request.broker_id);
    let broker = match scope.check_broker_epoch(broker_id, BrokerEpoch(request.broker_epoch)) {
        Ok(broker) => broker,
        Err(refused) => {
            answer.error_code = refused.error.code();
            return (records, answer);
        }
    };
    let mut seen = BTreeSet::new();
    for directory in &request.directories {
        let mut directory_answer = response::DirectoryData {
            id: directory.id,
            ..Default::default()
        };
        for topic in &directory.topics {
            let partitions = topic
                .partitions
                .iter()
                .map(|asked| {
                    let partition = asked.partition_index;
                    let error = if seen.insert((topic.topic_id, partition)) {
                        assign_one(
                            scope,
                            broker,
                            topic.topic_id,
                            partition,
                            directory.id,
                            &mut records,
                        )
                    } else {
                        ErrorCode::InvalidRequest
                    };
                    response::PartitionData {
                        partition_index: partition,
                        error_code: error.code(),
                        ..Default::default()
                    }
                })
                .collect();
            directory_answer.topics.push(response::TopicData {
                topic_id: topic.topic_id,
                partitions,
                ..Default::default()
            });
        }
        answer.directories.push(directory_answer);
    }
    (records, answer)
}

fn assign_one(
    scope: &Scope<'_>,
    broker: &BrokerRegistration,
    topic_id: Uuid,
    partition: i32,
    directory: Uuid,
    records: &mut Vec<MetadataRecord>,
) -> ErrorCode {
    let Some(topic) = scope.image.topics.get(&topic_id) else {
        return ErrorCode::UnknownTopicId;
    };
    let Some(registration) = topic.partition(partition) else {
        return ErrorCode::UnknownTopicOrPartition;
    };
    if !registration.replicas.contains(&broker.broker_id) {
        return ErrorCode::NotLeaderOrFollower;
    }
    let mut change = PartitionChange::new(scope, &topic.name, topic_id, partition, registration)
        .directory(broker.broker_id, directory);
    if !broker.has_online_directory(&directory) {
        // The replica lies in a directory that is gone: it can neither lead nor be in sync.
        let isr = registration
            .isr
            .iter()
            .copied()
            .filter(|id| *id != broker.broker_id)
            .collect();
        change = change
            .election_of_topic()
            .standing(Standing {
                leaving: Some(broker.broker_id),
                ..Standing::default()
            })
            .isr(isr);
    }
    records.extend(change.build());
    ErrorCode::None
}

/// Appends what follows from directories that a heartbeat reports as offline: leaders and in-sync sets of the
/// partitions in them, and the broker's remaining directories.
pub fn offline(
    scope: &Scope<'_>,
    broker: &BrokerRegistration,
    reported: &[Uuid],
    records: &mut Vec<MetadataRecord>,
) {
    let gone: BTreeSet<Uuid> = broker
        .directories
        .iter()
        .copied()
        .filter(|id| reported.contains(id))
        .collect();
    if gone.is_empty() {
        return;
    }
    let standing = Standing {
        leaving: Some(broker.broker_id),
        ..Standing::default()
    };
    change_where(scope, standing, records, |partition| {
        partition
            .directory(broker.broker_id)
            .is_some_and(|directory| gone.contains(&directory))
    });
    let online: Vec<Uuid> = broker
        .directories
        .iter()
        .copied()
        .filter(|id| !gone.contains(id))
        .collect();
    records.push(MetadataRecord::BrokerRegistrationChange(
        BrokerRegistrationChangeRecord {
            broker_id: broker.broker_id.get(),
            broker_epoch: broker.broker_epoch.get(),
            log_dirs: online,
            ..Default::default()
        },
    ));
}
