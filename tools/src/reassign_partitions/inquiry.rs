//! What the tool asks the cluster: assignments, places of replicas, sizes, moves under way.
//! Not here: changing anything, words. Runs on the tool's task.
//! Kafka: ReassignPartitionsCommand.{getReplicaAssignmentForPartitions, getReplicaToLogDir, findPartitionReassignmentStates,
//! findLogDirMoveStates}.

use super::Trouble;
use super::assignment::{Assignment, Reassignment, ReplicaDirs};
use super::states::{DirState, PartitionState, Place, Progress};
use crate::java::{Exception, Failure};
use kavka_client::admin::describe_topics::{self, TopicDescription};
use kavka_client::admin::{ItemResult, log_dirs, nodes};
use kavka_client::{ClientError, Cluster};
use kavka_common::{NodeId, TopicPartition};
use kavka_protocol::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};

/// A replica as its broker tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    /// Of what counts now, without what a move between directories has copied.
    pub size_bytes: u64,
}

/// Replicas by broker and partition, as far as brokers answer.
pub type Replicas = BTreeMap<(i32, TopicPartition), Found>;

fn unknown(text: String) -> Failure {
    Failure::wrapped(
        "java.util.concurrent.ExecutionException",
        Exception::new(
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
            text,
        )
        .into(),
    )
}

async fn describe(
    cluster: &mut Cluster,
    topics: BTreeSet<&str>,
) -> Result<Vec<(String, ItemResult<TopicDescription>)>, ClientError> {
    let names: Vec<String> = topics.into_iter().map(str::to_owned).collect();
    describe_topics::by_name(cluster, &names, describe_topics::PARTITIONS_PER_RESPONSE).await
}

fn is_unknown(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::UnknownTopicOrPartition)
}

/// The replicas of every partition of these topics, which must exist.
pub async fn of_topics(
    cluster: &mut Cluster,
    topics: BTreeSet<&str>,
) -> Result<Assignment, Trouble> {
    let mut assignment = Assignment::new();
    for (name, described) in describe(cluster, topics).await? {
        let described = match described {
            Ok(described) => described,
            Err(error) if is_unknown(&error) => {
                return Err(unknown(format!("Topic {name} not found.")).into());
            }
            Err(error) => return Err(error.into()),
        };
        for partition in described.partitions {
            assignment.insert(
                TopicPartition::new(name.as_str(), partition.partition),
                partition.replicas,
            );
        }
    }
    Ok(assignment)
}

/// The replicas of these partitions, which must exist.
pub async fn of_partitions<'a>(
    cluster: &mut Cluster,
    partitions: impl Iterator<Item = &'a TopicPartition> + Clone,
) -> Result<Assignment, Trouble> {
    let topics = partitions.clone().map(|partition| &*partition.topic);
    let mut all = of_topics(cluster, topics.collect()).await?;
    partitions
        .map(|partition| {
            let replicas = all
                .remove(partition)
                .ok_or_else(|| unknown(format!("Unable to find partition: {partition}")))?;
            Ok((partition.clone(), replicas))
        })
        .collect()
}

/// Where these replicas lie. A broker that is not alive is left out: nobody could move replicas away from it otherwise.
pub async fn replicas(
    cluster: &mut Cluster,
    wanted: impl IntoIterator<Item = (i32, TopicPartition)>,
) -> Result<Replicas, ClientError> {
    let mut brokers: BTreeMap<i32, BTreeMap<String, Vec<i32>>> = BTreeMap::new();
    for (broker, partition) in wanted {
        let topics = brokers.entry(broker).or_default();
        let partitions = topics.entry(partition.topic.to_string()).or_default();
        partitions.push(partition.partition);
    }
    let mut found = Replicas::new();
    if brokers.is_empty() {
        return Ok(found);
    }
    let alive: BTreeSet<i32> = nodes::node_ids(cluster).await?.into_iter().collect();
    for (broker, topics) in brokers.into_iter().filter(|(id, _)| alive.contains(id)) {
        for (topic, partitions) in &topics {
            for partition in partitions {
                let partition = TopicPartition::new(topic.as_str(), *partition);
                found.insert((broker, partition), Found::default());
            }
        }
        for dir in log_dirs::describe(cluster, NodeId(broker), Some(&topics)).await? {
            for replica in dir.replicas {
                let Some(known) = found.get_mut(&(broker, replica.partition)) else {
                    continue;
                };
                if replica.is_future {
                    known.place.future = Some(dir.path.clone());
                } else {
                    known.place.current = Some(dir.path.clone());
                    known.size_bytes = u64::try_from(replica.size_bytes).unwrap_or_default();
                }
            }
        }
    }
    Ok(found)
}

/// The replicas of an assignment.
pub async fn replicas_of(
    cluster: &mut Cluster,
    assignment: &Assignment,
) -> Result<Replicas, ClientError> {
    let wanted = assignment.iter().flat_map(|(partition, replicas)| {
        replicas.iter().map(|broker| (*broker, partition.clone()))
    });
    replicas(cluster, wanted).await
}

/// The directories where replicas lie now.
pub fn dirs(replicas: &Replicas) -> ReplicaDirs {
    replicas
        .iter()
        .filter_map(|(replica, found)| Some((replica.clone(), found.place.current.clone()?)))
        .collect()
}

/// How far a reassignment is.
pub async fn progress(
    cluster: &mut Cluster,
    reassignment: &Reassignment,
) -> Result<Progress, ClientError> {
    let under_way = nodes::reassignments(cluster, None).await?;
    let targets = reassignment.targets();
    let moving = |partition: &TopicPartition| {
        under_way.get(&(partition.topic.to_string(), partition.partition))
    };
    let still = targets
        .keys()
        .filter(|partition| moving(partition).is_none());
    let mut described = BTreeMap::new();
    for (name, topic) in
        describe(cluster, still.map(|partition| &*partition.topic).collect()).await?
    {
        match topic {
            Ok(topic) => {
                described.insert(name, topic.partitions);
            }
            Err(error) if is_unknown(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let partitions = targets
        .into_iter()
        .map(|(partition, target)| {
            let state = match moving(&partition) {
                Some(moving) => PartitionState {
                    current: moving.replicas.clone(),
                    target,
                    done: false,
                },
                None => {
                    let known = described
                        .get(&*partition.topic)
                        .and_then(|all| all.iter().find(|p| p.partition == partition.partition));
                    PartitionState {
                        current: known.map(|p| p.replicas.clone()).unwrap_or_default(),
                        target,
                        done: true,
                    }
                }
            };
            (partition, state)
        })
        .collect();
    Ok(Progress {
        partitions,
        dirs: dir_states(cluster, &reassignment.log_dirs).await?,
        any_under_way: !under_way.is_empty(),
    })
}

/// How far moves to these directories are.
pub async fn dir_states(
    cluster: &mut Cluster,
    targets: &ReplicaDirs,
) -> Result<BTreeMap<(i32, TopicPartition), DirState>, ClientError> {
    let found = replicas(cluster, targets.keys().cloned()).await?;
    Ok(targets
        .iter()
        .map(|(replica, target)| {
            let place = found.get(replica).map(|found| &found.place);
            (replica.clone(), DirState::of(place, target))
        })
        .collect())
}
