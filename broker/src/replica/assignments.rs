//! Tells the controller in which log directory each replica lies, when the registration says otherwise.
//! Not here: choosing the directory (placement.rs), directories that fail (log_dirs.rs; heartbeats tell of them).
//! What has to be told is found wherever metadata is applied or a replica changes its place; one task tells it, one
//! request at a time, until the controller has it. What is told is decided when it is sent, from the newest metadata,
//! so that a change of controller or a late answer does no harm.
//! Kafka: AssignmentsManager, ReplicaManager.maybeNotifyPartitionAssignedToDirectory; KIP-858.

use crate::controller::ControllerChannel;
use crate::replica::manager::{Hosted, ReplicaManager};
use kavka_common::{BrokerEpoch, TopicPartition, Uuid};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::assign_replicas_to_dirs_request::{
    DirectoryData, PartitionData, TopicData,
};
use kavka_protocol::messages::{AssignReplicasToDirsRequest, AssignReplicasToDirsResponse};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tracing::{debug, warn};

const LOGGER: &str = "org.apache.kafka.server.AssignmentsManager";
/// Replicas in one request. Kafka: AssignmentsManager.MAX_ASSIGNMENTS_PER_REQUEST.
const REPLICAS_PER_REQUEST_MAX: usize = 2250;
/// First pause before what failed is told again.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// A replica of this broker: its topic's id and its partition.
type Replica = (Uuid, i32);
/// Which replicas lie in which directory.
type Told = BTreeMap<Uuid, BTreeSet<Replica>>;

/// Replicas whose registration may say another directory than they lie in.
#[derive(Debug, Default)]
pub(super) struct Unassigned {
    replicas: Mutex<BTreeSet<Replica>>,
    changed: Notify,
}

impl Unassigned {
    pub(super) fn add(&self, replicas: impl IntoIterator<Item = Replica>) {
        let mut known = self.replicas.lock();
        let before = known.len();
        known.extend(replicas);
        if known.len() > before {
            self.changed.notify_one();
        }
    }

    fn take(&self, count: usize) -> Vec<Replica> {
        let mut replicas = self.replicas.lock();
        let taken: Vec<Replica> = replicas.iter().copied().take(count).collect();
        for replica in &taken {
            replicas.remove(replica);
        }
        taken
    }

    async fn wait(&self) {
        while self.replicas.lock().is_empty() {
            self.changed.notified().await;
        }
    }
}

/// Where a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    In(Uuid),
    /// It cannot be served until a restart; the id of its directory, where that has failed as a whole.
    Offline(Option<Uuid>),
}

/// What the controller has to be told of a replica that is registered in `registered`, or nothing. `is_online`: the
/// controller counts that directory as one that works.
fn to_tell(lies: Lies, registered: Uuid, is_online: bool) -> Option<Uuid> {
    let directory = match lies {
        Lies::In(directory) => directory,
        Lies::Offline(_) if !is_online => return None,
        // a heartbeat tells of the directory, and the next start finds the replica where it is registered
        Lies::Offline(Some(failed)) => failed,
        Lies::Offline(None) => Uuid::DIR_LOST,
    };
    (directory != registered).then_some(directory)
}

impl ReplicaManager {
    /// Has the controller told where a replica lies, if it does not know.
    pub(super) fn check_assignment(&self, topic_id: Uuid, tp: &TopicPartition) {
        if self.assignment(topic_id, tp.partition).is_some() {
            self.unassigned.add([(topic_id, tp.partition)]);
        }
    }

    /// As `check_assignment`, for all replicas.
    pub(super) fn check_assignments(&self) {
        let hosted: Vec<Replica> = {
            let topics = self.topics.read();
            topics
                .values()
                .flat_map(|topic| {
                    let partitions = topic.partitions.keys();
                    partitions.map(|partition| (topic.topic_id, *partition))
                })
                .collect()
        };
        let unknown = hosted
            .into_iter()
            .filter(|(topic_id, partition)| self.assignment(*topic_id, *partition).is_some());
        self.unassigned.add(unknown.collect::<Vec<_>>());
    }

    /// The directory that the controller has to be told for a replica.
    fn assignment(&self, topic_id: Uuid, partition: i32) -> Option<Uuid> {
        let image = self.image.load();
        if !image
            .features
            .metadata_version_or_minimum()
            .is_directory_assignment_supported()
        {
            return None;
        }
        let local = self.context.local;
        let topic = image.topics.get(&topic_id)?;
        let registered = topic.partition(partition)?.directory(local)?;
        let lies = {
            let topics = self.topics.read();
            let hosted = topics.get(&topic.name)?;
            if hosted.topic_id != topic_id {
                return None;
            }
            match hosted.partitions.get(&partition)? {
                Hosted::Online(partition) => {
                    let dir = self.log_dir(partition.log_dir())?;
                    match dir.is_failed() {
                        true => Lies::Offline(dir.directory_id()),
                        false => Lies::In(dir.directory_id()?),
                    }
                }
                Hosted::Offline { directory_id, .. } => Lies::Offline(*directory_id),
            }
        };
        let is_online = image
            .cluster
            .broker(local)
            .is_some_and(|broker| broker.has_online_directory(&registered));
        to_tell(lies, registered, is_online)
    }

    /// Takes the next replicas to tell of, by directory.
    fn take_assignments(&self) -> Told {
        let mut told = Told::new();
        for (topic_id, partition) in self.unassigned.take(REPLICAS_PER_REQUEST_MAX) {
            if let Some(directory) = self.assignment(topic_id, partition) {
                let replicas = told.entry(directory).or_default();
                replicas.insert((topic_id, partition));
            }
        }
        told
    }
}

/// The task; ends when it is aborted.
pub async fn run(
    replicas: Arc<ReplicaManager>,
    channel: Arc<ControllerChannel>,
    broker_epoch: watch::Receiver<BrokerEpoch>,
) {
    let mut retry = RETRY;
    loop {
        replicas.unassigned.wait().await;
        let told = replicas.take_assignments();
        if told.is_empty() {
            continue;
        }
        let epoch = *broker_epoch.borrow();
        let request = request(replicas.local().get(), epoch, &told);
        let failed = match channel.call(request).await {
            Ok(response) => not_assigned(&told, &response),
            Err(e) => Err(e.to_string()),
        };
        let failed = failed.unwrap_or_else(|reason| {
            warn!(target: LOGGER, "The directories of {} replicas are not registered yet: {reason}", told.values().map(BTreeSet::len).sum::<usize>());
            told.values().flatten().copied().collect()
        });
        if failed.is_empty() {
            debug!(target: LOGGER, "Registered the directories of {told:?}");
            retry = RETRY;
        } else {
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
            replicas.unassigned.add(failed);
        }
    }
}

fn request(broker_id: i32, broker_epoch: BrokerEpoch, told: &Told) -> AssignReplicasToDirsRequest {
    let directories = told.iter().map(|(directory, replicas)| {
        let mut topics: Vec<TopicData> = Vec::new();
        for (topic_id, partition) in replicas {
            // sorted by topic id
            if topics.last().map(|topic| topic.topic_id) != Some(*topic_id) {
                topics.push(TopicData {
                    topic_id: *topic_id,
                    ..Default::default()
                });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(PartitionData {
                    partition_index: *partition,
                    ..Default::default()
                });
            }
        }
        DirectoryData {
            id: *directory,
            topics,
            ..Default::default()
        }
    });
    AssignReplicasToDirsRequest {
        broker_id,
        broker_epoch: broker_epoch.get(),
        directories: directories.collect(),
        ..Default::default()
    }
}

/// Those of `told` that the controller has not taken over and must be told again.
fn not_assigned(
    told: &Told,
    response: &AssignReplicasToDirsResponse,
) -> Result<BTreeSet<Replica>, String> {
    match ErrorCode::from(response.error_code) {
        ErrorCode::None => {}
        code => return Err(format!("the controller answers {}", code.name())),
    }
    let mut open: BTreeSet<Replica> = told.values().flatten().copied().collect();
    for topic in response.directories.iter().flat_map(|dir| &dir.topics) {
        for partition in &topic.partitions {
            match ErrorCode::from(partition.error_code) {
                // the last three: the replica is not this broker's any more, which the metadata will say
                ErrorCode::None
                | ErrorCode::UnknownTopicId
                | ErrorCode::UnknownTopicOrPartition
                | ErrorCode::NotLeaderOrFollower => {
                    open.remove(&(topic.topic_id, partition.partition_index));
                }
                _ => {}
            }
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_protocol::messages::assign_replicas_to_dirs_response as response;

    const A: Uuid = Uuid::from_bytes([1; 16]);
    const B: Uuid = Uuid::from_bytes([2; 16]);

    #[test]
    fn only_what_the_controller_does_not_know_is_told() {
        let unassigned = Uuid::DIR_UNASSIGNED;
        assert_eq!(to_tell(Lies::In(A), A, true), None);
        assert_eq!(to_tell(Lies::In(A), unassigned, true), Some(A));
        assert_eq!(to_tell(Lies::In(A), B, true), Some(A));
        assert_eq!(to_tell(Lies::In(A), Uuid::DIR_LOST, false), Some(A));
        // a heartbeat says that A has failed
        assert_eq!(to_tell(Lies::Offline(Some(A)), A, true), None);
        assert_eq!(to_tell(Lies::Offline(Some(A)), unassigned, true), Some(A));
        // one log is damaged, its directory is not
        let lost = Some(Uuid::DIR_LOST);
        assert_eq!(to_tell(Lies::Offline(None), A, true), lost);
        assert_eq!(to_tell(Lies::Offline(None), A, false), None);
    }

    #[test]
    fn what_is_not_confirmed_is_told_again() {
        let told = Told::from([
            (A, BTreeSet::from([(B, 0), (B, 1)])),
            (B, BTreeSet::from([(B, 2), (B, 3)])),
        ]);
        let request = request(1, BrokerEpoch(7), &told);
        assert_eq!(request.directories.len(), 2);
        assert_eq!(request.directories[0].topics.len(), 1);
        assert_eq!(request.directories[0].topics[0].partitions.len(), 2);
        let answered = |index, error: ErrorCode| response::PartitionData {
            partition_index: index,
            error_code: error.code(),
            ..Default::default()
        };
        let mut answer = AssignReplicasToDirsResponse {
            directories: vec![response::DirectoryData {
                id: A,
                topics: vec![response::TopicData {
                    topic_id: B,
                    partitions: vec![
                        answered(0, ErrorCode::None),
                        answered(1, ErrorCode::NotController),
                        answered(2, ErrorCode::UnknownTopicOrPartition),
                    ],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let open = not_assigned(&told, &answer).unwrap();
        assert_eq!(open, BTreeSet::from([(B, 1), (B, 3)]));
        answer.error_code = ErrorCode::StaleBrokerEpoch.code();
        assert!(not_assigned(&told, &answer).is_err());
    }
}
