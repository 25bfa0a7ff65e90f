//! The throttles of a reassignment: which replicas and brokers they are for, setting them, taking them back.
//! Not here: what a broker does with them. Runs on the tool's task.
//! Kafka: ReassignPartitionsCommand.{calculateProposedMoveMap, modifyReassignmentThrottle, clearAllThrottles}; KIP-73, KIP-113.

use super::assignment::Assignment;
use crate::java::{Exception, Failure, hash_map_order, integer_order};
use kavka_client::admin::configs::{self, Change, Operation, Resource, ResourceType};
use kavka_client::admin::nodes::{self, Reassignment};
use kavka_client::{ClientError, Cluster};
use kavka_common::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";
const LOG_DIRS_RATE: &str = "replica.alter.log.dirs.io.max.bytes.per.second";
const LEADER_REPLICAS: &str = "leader.replication.throttled.replicas";
const FOLLOWER_REPLICAS: &str = "follower.replication.throttled.replicas";

/// Where a partition's records come from and go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Move {
    pub sources: BTreeSet<i32>,
    pub destinations: BTreeSet<i32>,
}

/// Moves by partition.
pub type Moves = BTreeMap<TopicPartition, Move>;

/// The moves under way and those that are proposed.
pub fn moves(
    under_way: &BTreeMap<(String, i32), Reassignment>,
    proposed: &Assignment,
    current: &Assignment,
) -> Result<Moves, Failure> {
    let mut moves = Moves::new();
    for ((topic, partition), moving) in under_way {
        let destinations: BTreeSet<i32> = moving.adding_replicas.iter().copied().collect();
        let replicas = moving.replicas.iter().copied();
        let sources = replicas.filter(|id| !destinations.contains(id)).collect();
        moves.insert(
            TopicPartition::new(topic.as_str(), *partition),
            Move {
                sources,
                destinations,
            },
        );
    }
    for (partition, replicas) in proposed {
        let sources: BTreeSet<i32> = match (moves.get(partition), current.get(partition)) {
            (Some(under_way), _) => under_way.sources.clone(),
            (None, Some(current)) => current.iter().copied().collect(),
            (None, None) => {
                return Err(Exception::new(
                    "java.lang.RuntimeException",
                    format!("Trying to reassign a topic partition {partition} with 0 replicas"),
                )
                .into());
            }
        };
        let destinations = replicas
            .iter()
            .copied()
            .filter(|id| !sources.contains(id))
            .collect();
        moves.insert(
            partition.clone(),
            Move {
                sources,
                destinations,
            },
        );
    }
    Ok(moves)
}

/// `partition:broker` pairs, sorted as text, by topic.
fn throttled<'a>(
    moves: &'a Moves,
    brokers: impl Fn(&'a Move) -> &'a BTreeSet<i32>,
) -> BTreeMap<&'a str, String> {
    let mut topics: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (partition, moving) in moves {
        let pairs = topics.entry(&partition.topic).or_default();
        for broker in brokers(moving) {
            pairs.insert(format!("{}:{broker}", partition.partition));
        }
    }
    topics
        .into_iter()
        .map(|(topic, pairs)| (topic, pairs.into_iter().collect::<Vec<_>>().join(",")))
        .collect()
}

fn set(name: &str, value: String) -> Change {
    Change {
        name: name.into(),
        operation: Operation::Set,
        value: Some(value),
    }
}

fn delete(name: &str) -> Change {
    Change {
        name: name.into(),
        operation: Operation::Delete,
        value: None,
    }
}

fn broker(id: i32) -> Resource {
    Resource {
        resource_type: ResourceType::Broker,
        name: id.to_string(),
    }
}

async fn alter(
    cluster: &mut Cluster,
    changes: &[(Resource, Vec<Change>)],
) -> Result<(), ClientError> {
    for (_, outcome) in configs::alter(cluster, changes, false).await? {
        outcome?;
    }
    Ok(())
}

/// Throttles the moves at the brokers that take part in them.
pub async fn throttle_moves(
    cluster: &mut Cluster,
    moves: &Moves,
    bytes_per_second: i64,
) -> Result<(), ClientError> {
    let leaders = throttled(moves, |moving| &moving.sources);
    let mut followers = throttled(moves, |moving| &moving.destinations);
    let topics: Vec<_> = leaders
        .into_iter()
        .map(|(topic, replicas)| {
            let mut changes = vec![set(LEADER_REPLICAS, replicas)];
            changes.extend(
                followers
                    .remove(topic)
                    .map(|replicas| set(FOLLOWER_REPLICAS, replicas)),
            );
            (Resource::topic(topic), changes)
        })
        .collect();
    alter(cluster, &topics).await?;
    let ids: BTreeSet<i32> = moves
        .values()
        .flat_map(|moving| moving.sources.union(&moving.destinations))
        .copied()
        .collect();
    let rate = bytes_per_second.to_string();
    let brokers: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let changes = vec![
                set(LEADER_RATE, rate.clone()),
                set(FOLLOWER_RATE, rate.clone()),
            ];
            (broker(id), changes)
        })
        .collect();
    alter(cluster, &brokers).await
}

/// Throttles moves between the log directories of these brokers.
pub async fn throttle_log_dirs(
    cluster: &mut Cluster,
    brokers: &BTreeSet<i32>,
    bytes_per_second: i64,
) -> Result<(), ClientError> {
    let changes: Vec<_> = brokers
        .iter()
        .map(|id| {
            (
                broker(*id),
                vec![set(LOG_DIRS_RATE, bytes_per_second.to_string())],
            )
        })
        .collect();
    alter(cluster, &changes).await
}

/// Takes back every throttle of all brokers and of the topics of the targets: nobody knows any more which brokers the
/// replicas came from. `say` is told what is about to be done.
pub async fn clear(
    cluster: &mut Cluster,
    targets: &[(TopicPartition, Vec<i32>)],
    say: impl Fn(String),
) -> Result<(), ClientError> {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut ids: BTreeSet<i32> = nodes::node_ids(cluster).await?.into_iter().collect();
    ids.extend(targets.iter().flat_map(|(_, replicas)| replicas));
    let shown: Vec<String> = integer_order(ids.iter().copied())
        .iter()
        .map(ToString::to_string)
        .collect();
    say(format!(
        "Clearing broker-level throttles on broker{} {}\n",
        plural(shown.len()),
        shown.join(",")
    ));
    let brokers: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let changes = [LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE].map(delete);
            (broker(id), changes.to_vec())
        })
        .collect();
    alter(cluster, &brokers).await?;
    let names: BTreeSet<&str> = targets
        .iter()
        .map(|(partition, _)| &*partition.topic)
        .collect();
    let names = hash_map_order(names.into_iter().collect(), None, |name| *name);
    say(format!(
        "Clearing topic-level throttles on topic{} {}\n",
        plural(names.len()),
        names.join(",")
    ));
    let topics: Vec<_> = names
        .into_iter()
        .map(|name| {
            let changes = [LEADER_REPLICAS, FOLLOWER_REPLICAS].map(delete);
            (Resource::topic(name), changes.to_vec())
        })
        .collect();
    alter(cluster, &topics).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    /// The settings that Apache's tool made of the same reassignment.
    #[test]
    fn sources_lead_and_destinations_follow() {
        let current = Assignment::from([
            (at(0), vec![3, 1]),
            (at(1), vec![2, 1]),
            (at(2), vec![3, 1]),
        ]);
        let proposed = Assignment::from([
            (at(0), vec![2, 1]),
            (at(1), vec![2, 3]),
            (at(2), vec![2, 1]),
        ]);
        let moves = moves(&BTreeMap::new(), &proposed, &current).unwrap();
        assert_eq!(
            throttled(&moves, |moving| &moving.sources)["t"],
            "0:1,0:3,1:1,1:2,2:1,2:3"
        );
        assert_eq!(
            throttled(&moves, |moving| &moving.destinations)["t"],
            "0:2,1:3,2:2"
        );
    }

    #[test]
    fn a_move_under_way_keeps_its_sources() {
        let under_way = BTreeMap::from([(
            ("t".to_owned(), 0),
            Reassignment {
                replicas: vec![2, 1, 3],
                adding_replicas: vec![2],
                removing_replicas: vec![3],
            },
        )]);
        let current = Assignment::from([(at(0), vec![2, 1, 3])]);
        let proposed = Assignment::from([(at(0), vec![2, 1])]);
        let all = moves(&under_way, &proposed, &current).unwrap();
        assert_eq!(
            all[&at(0)],
            Move {
                sources: BTreeSet::from([1, 3]),
                destinations: BTreeSet::from([2])
            }
        );
        assert!(moves(&under_way, &proposed, &Assignment::new()).is_ok());
        assert!(moves(&BTreeMap::new(), &proposed, &Assignment::new()).is_err());
    }
}
