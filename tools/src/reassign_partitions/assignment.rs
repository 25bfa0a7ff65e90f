//! Assignments as files: what is read of them, and how they are written.
//! Not here: how one is found (placement). Pure.
//! Kafka: ReassignPartitionsCommand.{parsePartitionReassignmentData, parseExecuteAssignmentArgs,
//! parseGenerateAssignmentArgs, formatAsReassignmentJson}; KIP-113.

use crate::java::{Exception, Failure, partition_order};
use crate::json_input::{self, field, int, items, optional, string};
use kavka_common::TopicPartition;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub const COMMAND_FAILED: &str = "org.apache.kafka.tools.AdminCommandFailedException";
pub const OPERATION: &str = "org.apache.kafka.tools.AdminOperationException";
const VERSION: i32 = 1;
/// A replica that may lie in any directory of its broker.
const ANY: &str = "any";

/// Replicas by partition.
pub type Assignment = BTreeMap<TopicPartition, Vec<i32>>;
/// Directories by broker and partition.
pub type ReplicaDirs = BTreeMap<(i32, TopicPartition), String>;

/// What a reassignment file asks for, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reassignment {
    pub partitions: Vec<(TopicPartition, Vec<i32>)>,
    /// Only of replicas that are to lie in a certain directory.
    pub log_dirs: ReplicaDirs,
}

fn command_failed(text: String) -> Failure {
    Exception::new(COMMAND_FAILED, text).into()
}

fn unsupported(version: i32) -> Failure {
    Exception::new(
        OPERATION,
        format!("Not supported version field value {version}"),
    )
    .into()
}

fn version(document: &Value) -> Result<i32, Failure> {
    optional(document, "version")?.map_or(Ok(VERSION), int)
}

/// Reads a reassignment file.
pub fn parse(text: &str) -> Result<Reassignment, Failure> {
    let document = json_input::parse(text).ok_or_else(|| Failure::from(no_json(text)))?;
    match version(&document)? {
        VERSION => {}
        other => return Err(unsupported(other)),
    }
    let mut reassignment = Reassignment::default();
    let Some(list) = optional(&document, "partitions")? else {
        return Ok(reassignment);
    };
    for item in items(list)? {
        let partition = TopicPartition::new(
            string(field(item, "topic")?)?,
            int(field(item, "partition")?)?,
        );
        let replicas = items(field(item, "replicas")?)?
            .iter()
            .map(int)
            .collect::<Result<Vec<i32>, Failure>>()?;
        let dirs = match optional(item, "log_dirs")? {
            None => vec![ANY; replicas.len()],
            Some(dirs) => items(dirs)?
                .iter()
                .map(string)
                .collect::<Result<Vec<&str>, Failure>>()?,
        };
        if dirs.len() != replicas.len() {
            return Err(command_failed(format!(
                "Size of replicas list {replicas:?} is different from size of log dirs list [{}] for partition {partition}",
                dirs.join(", ")
            )));
        }
        for (broker, dir) in replicas.iter().zip(dirs) {
            if dir != ANY {
                reassignment
                    .log_dirs
                    .insert((*broker, partition.clone()), dir.to_owned());
            }
        }
        reassignment.partitions.push((partition, replicas));
    }
    Ok(reassignment)
}

fn no_json(text: &str) -> Exception {
    let fault = json_input::fault(text);
    Exception::new(
        OPERATION,
        fault.unwrap_or_else(|| "The input string is not a valid JSON".into()),
    )
}

/// Items that come again, once each.
fn twice<T: Clone + Ord>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let (mut seen, mut again) = (BTreeSet::new(), BTreeSet::new());
    for item in all {
        if !seen.insert(item.clone()) {
            again.insert(item);
        }
    }
    again.into_iter().collect()
}

fn joined<T: ToString>(items: &[T], separator: &str) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(separator)
}

impl Reassignment {
    /// What `--execute` wants of a file.
    pub fn check(&self) -> Result<(), Failure> {
        if self.partitions.is_empty() {
            return Err(command_failed(
                "Partition reassignment list cannot be empty".into(),
            ));
        }
        if self
            .partitions
            .iter()
            .any(|(_, replicas)| replicas.is_empty())
        {
            return Err(command_failed(
                "Partition replica list cannot be empty".into(),
            ));
        }
        let again = twice(
            self.partitions
                .iter()
                .map(|(partition, _)| partition.clone()),
        );
        if !again.is_empty() {
            let again = partition_order(again, |partition| partition);
            return Err(command_failed(format!(
                "Partition reassignment contains duplicate topic partitions: {}",
                joined(&again, ",")
            )));
        }
        let doubled: Vec<String> = self
            .partitions
            .iter()
            .map(|(partition, replicas)| (partition, twice(replicas.iter().copied())))
            .filter(|(_, again)| !again.is_empty())
            .map(|(partition, again)| {
                format!(
                    "{partition} contains multiple entries for {}",
                    joined(&again, ",")
                )
            })
            .collect();
        if !doubled.is_empty() {
            return Err(command_failed(format!(
                "Partition replica lists may not contain duplicate entries: {}",
                doubled.join(". ")
            )));
        }
        Ok(())
    }

    /// By partition; of one that comes twice, the last.
    pub fn targets(&self) -> Assignment {
        self.partitions.iter().cloned().collect()
    }
}

/// The arguments of `--generate`: brokers and topics, in their order.
pub fn parse_generate(topics: &str, brokers: &str) -> Result<(Vec<i32>, Vec<String>), Failure> {
    let brokers = brokers
        .split(',')
        .map(|id| {
            id.parse().map_err(|_| {
                Failure::from(Exception::new(
                    "java.lang.NumberFormatException",
                    format!("For input string: \"{id}\""),
                ))
            })
        })
        .collect::<Result<Vec<i32>, Failure>>()?;
    let again = twice(brokers.iter().copied());
    if !again.is_empty() {
        return Err(command_failed(format!(
            "Broker list contains duplicate entries: [{}]",
            joined(&again, ", ")
        )));
    }
    let document = json_input::parse(topics).ok_or_else(|| {
        Failure::from(Exception::new(
            OPERATION,
            "The input string is not a valid JSON",
        ))
    })?;
    match version(&document)? {
        VERSION => {}
        other => return Err(unsupported(other)),
    }
    let names = match optional(&document, "topics")? {
        None => Vec::new(),
        Some(list) => items(list)?
            .iter()
            .map(|item| Ok(string(field(item, "topic")?)?.to_owned()))
            .collect::<Result<Vec<String>, Failure>>()?,
    };
    let again = twice(names.iter().cloned());
    if !again.is_empty() {
        return Err(command_failed(format!(
            "List of topics to reassign contains duplicate entries: [{}]",
            again.join(", ")
        )));
    }
    Ok((brokers, names))
}

/// The document of a reassignment file, partitions sorted.
pub fn document(assignment: &Assignment, dirs: &ReplicaDirs) -> Value {
    let partitions: Vec<Value> = assignment
        .iter()
        .map(|(partition, replicas)| {
            let dirs: Vec<&str> = replicas
                .iter()
                .map(|broker| {
                    dirs.get(&(*broker, partition.clone()))
                        .map_or(ANY, String::as_str)
                })
                .collect();
            json!({
                "topic": &*partition.topic,
                "partition": partition.partition,
                "replicas": replicas,
                "log_dirs": dirs,
            })
        })
        .collect();
    json!({"version": VERSION, "partitions": partitions})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(topic, partition)
    }

    #[test]
    fn files_are_read_and_written() {
        let text = r#"{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,1],"log_dirs":["/d","any"]},{"topic":"t","partition":0,"replicas":[3]}]}"#;
        let read = parse(text).unwrap();
        assert_eq!(
            read.partitions,
            [(at("t", 1), vec![2, 1]), (at("t", 0), vec![3])]
        );
        assert_eq!(
            read.log_dirs,
            ReplicaDirs::from([((2, at("t", 1)), "/d".into())])
        );
        assert_eq!(read.check(), Ok(()));
        assert_eq!(
            document(&read.targets(), &read.log_dirs).to_string(),
            r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3],"log_dirs":["any"]},{"topic":"t","partition":1,"replicas":[2,1],"log_dirs":["/d","any"]}]}"#
        );
    }

    /// What Apache's tool printed.
    #[test]
    fn faults_are_told_in_javas_words() {
        let fault = |text: &str| match parse(text) {
            Err(failure) => failure.message().to_owned(),
            Ok(read) => read.check().unwrap_err().message().to_owned(),
        };
        for (text, told) in [
            (
                r#"{"partitions":[{"topic":"t"}]}"#,
                "No such field exists: `partition`",
            ),
            (
                r#"{"version":2,"partitions":[]}"#,
                "Not supported version field value 2",
            ),
            (
                r#"{"version":1,"partitions":[]}"#,
                "Partition reassignment list cannot be empty",
            ),
            (
                r#"{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[1]}]}"#,
                "Partition reassignment contains duplicate topic partitions: t-0",
            ),
            (
                r#"{"partitions":[{"topic":"u","partition":0,"replicas":[1,1,2,2]},{"topic":"t","partition":1,"replicas":[3,3]}]}"#,
                "Partition replica lists may not contain duplicate entries: u-0 contains multiple entries for 1,2. t-1 contains multiple entries for 3",
            ),
            (
                r#"{"version":1,"partitions":[{"topic":"u","partition":0,"replicas":[1],"log_dirs":["a","b"]}]}"#,
                "Size of replicas list [1] is different from size of log dirs list [a, b] for partition u-0",
            ),
        ] {
            assert_eq!(fault(text), told, "{text}");
        }
        assert!(parse("not").unwrap_err().trace().starts_with(OPERATION));
        let generate = |topics: &str, brokers: &str| {
            parse_generate(topics, brokers)
                .unwrap_err()
                .message()
                .to_owned()
        };
        let topics =
            r#"{"topics":[{"topic":"a"},{"topic":"b"},{"topic":"a"},{"topic":"b"}],"version":1}"#;
        assert_eq!(
            generate(topics, "1,2,1,2"),
            "Broker list contains duplicate entries: [1, 2]"
        );
        assert_eq!(
            generate(topics, "1,2"),
            "List of topics to reassign contains duplicate entries: [a, b]"
        );
        assert_eq!(generate(topics, "1,x"), "For input string: \"x\"");
        assert_eq!(generate("not", "1"), "The input string is not a valid JSON");
    }
}
