//! How far a reassignment is: partitions that move between brokers, replicas that move between directories.
//! Not here: asking the cluster (the parent module). Pure.
//! Kafka: PartitionReassignmentState, LogDirMoveState and its kinds.

use super::assignment::ReplicaDirs;
use crate::table::{Align, Table};
use kavka_common::TopicPartition;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A partition between the replicas it has and those it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    pub current: Vec<i32>,
    pub target: Vec<i32>,
    /// No reassignment of it is under way.
    pub done: bool,
}

fn joined(ids: &[i32]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(",")
}

impl PartitionState {
    /// `completed`, `in_progress`, or `different` when it is neither.
    pub fn name(&self) -> &'static str {
        match (self.done, self.current == self.target) {
            (false, _) => "in_progress",
            (true, true) => "completed",
            (true, false) => "different",
        }
    }

    fn text(&self, partition: &TopicPartition) -> String {
        match (self.done, self.current == self.target) {
            (false, _) => format!("Reassignment of partition {partition} is still in progress."),
            (true, true) => format!("Reassignment of partition {partition} is completed."),
            (true, false) => format!(
                "There is no active reassignment of partition {partition}, but replica set is {} rather than {}.",
                joined(&self.current),
                joined(&self.target)
            ),
        }
    }
}

/// A replica between the directory where it lies and the one where it is to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirState {
    /// No directory of the broker that answered holds it.
    MissingReplica,
    /// The directories of the broker that answered may lack one that holds it.
    MissingDir,
    Active {
        current: String,
        future: String,
    },
    /// It is elsewhere, and no move is under way.
    Cancelled {
        current: String,
    },
    Completed,
}

/// Where a replica lies now, and where it will.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub current: Option<String>,
    pub future: Option<String>,
}

impl DirState {
    /// `place` is `None` when its broker did not answer.
    pub fn of(place: Option<&Place>, target: &str) -> DirState {
        match place {
            None => DirState::MissingReplica,
            Some(Place { current: None, .. }) => DirState::MissingDir,
            Some(Place {
                current: Some(current),
                future: Some(future),
            }) => DirState::Active {
                current: current.clone(),
                future: future.clone(),
            },
            Some(Place {
                current: Some(current),
                future: None,
            }) if current == target => DirState::Completed,
            Some(Place {
                current: Some(current),
                future: None,
            }) => DirState::Cancelled {
                current: current.clone(),
            },
        }
    }

    pub fn is_done(&self) -> bool {
        !matches!(self, DirState::Active { .. })
    }

    pub fn name(&self) -> &'static str {
        match self {
            DirState::MissingReplica | DirState::MissingDir => "missing",
            DirState::Active { .. } => "in_progress",
            DirState::Cancelled { .. } => "different",
            DirState::Completed => "completed",
        }
    }

    fn current<'a>(&'a self, target: &'a str) -> Option<&'a str> {
        match self {
            DirState::MissingReplica | DirState::MissingDir => None,
            DirState::Active { current, .. } | DirState::Cancelled { current } => Some(current),
            DirState::Completed => Some(target),
        }
    }

    fn text(&self, broker: i32, partition: &TopicPartition, target: &str) -> String {
        match self {
            DirState::MissingDir => format!(
                "Partition {partition} is not found in any live log dir on broker {broker}. There is likely an offline log directory on the broker."
            ),
            DirState::MissingReplica => format!(
                "Partition {partition} cannot be found in any live log directory on broker {broker}."
            ),
            DirState::Active { future, .. } if future == target => {
                format!("Reassignment of replica {partition}-{broker} is still in progress.")
            }
            DirState::Active { future, .. } => format!(
                "Partition {partition} on broker {broker} is being moved to log dir {future} instead of {target}."
            ),
            DirState::Cancelled { current } => format!(
                "Partition {partition} on broker {broker} is not being moved from log dir {current} to {target}."
            ),
            DirState::Completed => {
                format!("Reassignment of replica {partition}-{broker} completed successfully.")
            }
        }
    }
}

/// All that `--verify` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub partitions: BTreeMap<TopicPartition, PartitionState>,
    /// By broker and partition.
    pub dirs: BTreeMap<(i32, TopicPartition), DirState>,
    /// Some reassignment is under way, also one that was not asked about.
    pub any_under_way: bool,
}

impl Progress {
    pub fn is_done(&self) -> bool {
        !self.any_under_way && self.dirs.values().all(DirState::is_done)
    }

    /// Whether what was asked about is done, whatever else is under way.
    pub fn targets_are_done(&self) -> bool {
        self.partitions.values().all(|state| state.done)
            && self.dirs.values().all(DirState::is_done)
    }

    /// Apache's lines.
    pub fn text(&self, targets: &ReplicaDirs) -> String {
        let mut lines = vec!["Status of partition reassignment:".to_owned()];
        lines.extend(
            self.partitions
                .iter()
                .map(|(partition, state)| state.text(partition)),
        );
        // Of directories there is a line even when there is nothing to say.
        let dirs: Vec<String> = self
            .dirs
            .iter()
            .map(|(replica, state)| {
                let target = targets.get(replica).map_or("", String::as_str);
                state.text(replica.0, &replica.1, target)
            })
            .collect();
        lines.push(dirs.join("\n"));
        lines.join("\n") + "\n"
    }

    /// The table of `--output table`.
    pub fn table(&self, targets: &ReplicaDirs) -> String {
        let mut table = Table::new(&[
            ("topic", Align::Left),
            ("partition", Align::Right),
            ("state", Align::Left),
            ("now", Align::Left),
            ("target", Align::Left),
        ]);
        let mut row = |partition: &TopicPartition, state: &str, now: String, target: String| {
            table.row(vec![
                partition.topic.to_string(),
                partition.partition.to_string(),
                state.replace('_', " "),
                now,
                target,
            ]);
        };
        for (partition, state) in &self.partitions {
            let (now, target) = (joined(&state.current), joined(&state.target));
            row(partition, state.name(), now, target);
        }
        for (replica, state) in &self.dirs {
            let target = targets.get(replica).map_or("", String::as_str);
            let on = |dir: &str| format!("{dir} on broker {}", replica.0);
            let now = state.current(target).map(on).unwrap_or_default();
            row(&replica.1, state.name(), now, on(target));
        }
        table.render()
    }

    pub fn partitions_document(&self) -> Value {
        self.partitions
            .iter()
            .map(|(partition, state)| {
                json!({
                    "topic": &*partition.topic,
                    "partition": partition.partition,
                    "state": state.name(),
                    "replicas": state.current,
                    "target_replicas": state.target,
                })
            })
            .collect()
    }

    pub fn dirs_document(&self, targets: &ReplicaDirs) -> Value {
        self.dirs
            .iter()
            .map(|(replica, state)| {
                let target = targets.get(replica).map_or("", String::as_str);
                json!({
                    "topic": &*replica.1.topic,
                    "partition": replica.1.partition,
                    "broker": replica.0,
                    "state": state.name(),
                    "log_dir": state.current(target),
                    "target_log_dir": target,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(topic, partition)
    }

    fn state(current: &[i32], target: &[i32], done: bool) -> PartitionState {
        PartitionState {
            current: current.into(),
            target: target.into(),
            done,
        }
    }

    /// What Apache's tool printed.
    #[test]
    fn states_are_told_in_javas_words() {
        let mut progress = Progress {
            partitions: BTreeMap::from([
                (at("nosuch", 0), state(&[], &[1], true)),
                (at("t", 0), state(&[3, 1], &[3, 1], true)),
                (at("t", 1), state(&[2, 1, 3], &[2, 1], false)),
            ]),
            ..Default::default()
        };
        assert_eq!(
            progress.text(&ReplicaDirs::new()),
            "Status of partition reassignment:
There is no active reassignment of partition nosuch-0, but replica set is  rather than 1.
Reassignment of partition t-0 is completed.
Reassignment of partition t-1 is still in progress.

"
        );
        assert!(progress.is_done() && !progress.targets_are_done());
        progress.any_under_way = true;
        assert!(!progress.is_done());
    }

    #[test]
    fn replicas_move_between_directories() {
        let place = |current: &str, future: &str| Place {
            current: (!current.is_empty()).then(|| current.to_owned()),
            future: (!future.is_empty()).then(|| future.to_owned()),
        };
        let target = "/b";
        let text = |place: Option<Place>| {
            DirState::of(place.as_ref(), target).text(1, &at("t", 0), target)
        };
        assert!(text(None).contains("cannot be found in any live log directory on broker 1"));
        assert!(text(Some(place("", ""))).contains("likely an offline log directory"));
        assert_eq!(
            text(Some(place("/a", "/b"))),
            "Reassignment of replica t-0-1 is still in progress."
        );
        assert_eq!(
            text(Some(place("/a", "/c"))),
            "Partition t-0 on broker 1 is being moved to log dir /c instead of /b."
        );
        assert_eq!(
            text(Some(place("/a", ""))),
            "Partition t-0 on broker 1 is not being moved from log dir /a to /b."
        );
        assert_eq!(
            text(Some(place("/b", ""))),
            "Reassignment of replica t-0-1 completed successfully."
        );
    }
}
