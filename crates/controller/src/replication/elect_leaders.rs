//! ElectLeaders, and the periodic elections: back to preferred leaders, and unclean ones where a topic allows them.
//! Not here: choosing the leader (`partition_change`).
//! Pure. Kafka: ReplicationControlManager.electLeaders, maybeBalancePartitionLeaders, maybeElectUncleanLeaders; KIP-460.

use crate::api_error::ApiError;
use crate::controller::Scope;
use crate::replication::partition_change::{Election, PartitionChange};
use kavka_metadata::MetadataRecord;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kavka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use std::collections::BTreeSet;

/// Most elections of one periodic run; the next run goes on.
const ELECTIONS_PER_RUN_MAX: usize = 1_000;

pub fn handle(
    scope: &Scope<'_>,
    request: &ElectLeadersRequest,
) -> (Vec<MetadataRecord>, ElectLeadersResponse) {
    let mut records = Vec::new();
    let mut answer = ElectLeadersResponse::default();
    let election = match request.election_type {
        0 => Election::Preferred,
        1 => Election::Unclean,
        _ => {
            answer.error_code = ErrorCode::InvalidRequest.code();
            return (records, answer);
        }
    };
    match &request.topic_partitions {
        None => {
            for topic in scope.image.topics.iter() {
                let results = topic
                    .partitions
                    .keys()
                    .filter_map(|partition| {
                        let result = elect(scope, &topic.name, *partition, election, &mut records);
                        // Asked for all, nobody wants to read about those that are fine.
                        let needed = !matches!(&result, Err(refused) if refused.error == ErrorCode::ElectionNotNeeded);
                        needed.then(|| partition_result(*partition, result))
                    })
                    .collect();
                answer.replica_election_results.push(ReplicaElectionResult {
                    topic: (&*topic.name).into(),
                    partition_result: results,
                    ..Default::default()
                });
            }
        }
        Some(topics) => {
            let mut seen = BTreeSet::new();
            for topic in topics {
                let results = topic
                    .partitions
                    .iter()
                    .filter(|partition| seen.insert((topic.topic.clone(), **partition)))
                    .map(|partition| {
                        let result = elect(scope, &topic.topic, *partition, election, &mut records);
                        partition_result(*partition, result)
                    })
                    .collect();
                answer.replica_election_results.push(ReplicaElectionResult {
                    topic: topic.topic.clone(),
                    partition_result: results,
                    ..Default::default()
                });
            }
        }
    }
    (records, answer)
}

fn partition_result(partition: i32, result: Result<(), ApiError>) -> PartitionResult {
    let (error, message) = match result {
        Ok(()) => (ErrorCode::None, None),
        Err(refused) => (refused.error, refused.message),
    };
    PartitionResult {
        partition_id: partition,
        error_code: error.code(),
        error_message: message.map(Into::into),
        ..Default::default()
    }
}

fn elect(
    scope: &Scope<'_>,
    topic: &str,
    partition: i32,
    election: Election,
    records: &mut Vec<MetadataRecord>,
) -> Result<(), ApiError> {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let image = scope
        .image
        .topics
        .by_name(topic)
        .ok_or_else(|| ApiError::new(unknown, format!("No such topic as {topic}")))?;
    let registration = image.partition(partition).ok_or_else(|| {
        ApiError::new(unknown, format!("No such partition as {topic}-{partition}"))
    })?;
    let is_needed = match election {
        Election::Preferred => registration.leader != registration.preferred_replica(),
        Election::Unclean | Election::Online => !registration.has_leader(),
    };
    if !is_needed {
        return Err(scope.default_message(ErrorCode::ElectionNotNeeded));
    }
    let record = PartitionChange::new(scope, topic, image.id, partition, registration)
        .election(election)
        .build();
    match record {
        Some(record) => {
            records.push(record);
            Ok(())
        }
        None if election == Election::Preferred => {
            Err(scope.default_message(ErrorCode::PreferredLeaderNotAvailable))
        }
        None => Err(scope.default_message(ErrorCode::EligibleLeadersNotAvailable)),
    }
}

/// Moves leaderships back to the preferred replicas that can take them.
pub fn rebalance(scope: &Scope<'_>) -> Vec<MetadataRecord> {
    periodic(scope, |topic, partition| {
        let registration = topic.partition(partition)?;
        if registration.leader == registration.preferred_replica() {
            return None;
        }
        PartitionChange::new(scope, &topic.name, topic.id, partition, registration)
            .election(Election::Preferred)
            .build()
    })
}

/// Finds leaders for partitions that have none, in topics that allow unclean elections.
pub fn unclean_elections(scope: &Scope<'_>) -> Vec<MetadataRecord> {
    periodic(scope, |topic, partition| {
        let registration = topic.partition(partition)?;
        if registration.has_leader() || !scope.is_unclean_election_enabled(&topic.name) {
            return None;
        }
        PartitionChange::new(scope, &topic.name, topic.id, partition, registration)
            .election(Election::Unclean)
            .build()
    })
}

fn periodic(
    scope: &Scope<'_>,
    elect: impl Fn(&kavka_metadata::TopicImage, i32) -> Option<MetadataRecord>,
) -> Vec<MetadataRecord> {
    scope
        .image
        .topics
        .iter()
        .flat_map(|topic| {
            topic
                .partitions
                .keys()
                .map(move |partition| (topic, *partition))
        })
        .filter_map(|(topic, partition)| elect(topic, partition))
        .take(ELECTIONS_PER_RUN_MAX)
        .collect()
}
