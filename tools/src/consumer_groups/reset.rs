//! The plan of `--reset-offsets`: which partitions, to where; its CSV; and the topics of `--delete-offsets`.
//! Not here: asking the brokers (resetting).
//! Pure, except for reading the file of `--from-file`. Kafka: org.apache.kafka.tools.OffsetsUtils, CsvUtils; KIP-122.

use super::options::SCENARIOS;
use super::plan::Failure;
use super::times;
use crate::args::Parsed;
use crate::java::Exception;
use kavka_common::TopicPartition;
use std::collections::BTreeMap;
use std::io;

/// `t`, or `t:0,1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicArgument {
    pub topic: String,
    /// `None`: all.
    pub partitions: Option<Vec<i32>>,
}

impl TopicArgument {
    pub fn parse_all(arguments: &[String]) -> Result<Vec<TopicArgument>, Exception> {
        arguments
            .iter()
            .map(|argument| TopicArgument::parse(argument))
            .collect()
    }

    fn parse(argument: &str) -> Result<TopicArgument, Exception> {
        let Some((topic, partitions)) = argument.split_once(':') else {
            return Ok(TopicArgument {
                topic: argument.to_owned(),
                partitions: None,
            });
        };
        if topic.is_empty() || partitions.is_empty() || partitions.contains(':') {
            return Err(Exception::illegal_argument(format!(
                "Invalid topic arg '{argument}', expected topic name and partitions"
            )));
        }
        let partitions = partitions
            .split(',')
            .map(|partition| {
                partition.parse().map_err(|_| {
                    Exception::illegal_argument(format!(
                        "Invalid partition '{partition}' specified in topic arg '{argument}''"
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(TopicArgument {
            topic: topic.to_owned(),
            partitions: Some(partitions),
        })
    }
}

/// Which partitions are reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that the group committed offsets for.
    AllTopics,
    Topics(Vec<TopicArgument>),
    /// Those of the file.
    File,
}

/// Offsets of a file, by group; those of a file without groups belong to the one that is reset.
pub type FilePlan = BTreeMap<Option<String>, Vec<(TopicPartition, i64)>>;

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Earliest,
    Latest,
    Current,
    Offset(i64),
    ShiftBy(i64),
    Timestamp(i64),
    File(FilePlan),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetPlan {
    pub scope: Scope,
    pub target: Target,
    pub execute: bool,
    pub export: bool,
    /// The CSV has no column for the group.
    pub single_group: bool,
}

impl ResetPlan {
    pub fn of(parsed: &Parsed, now_ms: i64) -> Result<ResetPlan, Failure> {
        let single_group = parsed.values("group").len() == 1;
        let scope = if parsed.has("all-topics") {
            Scope::AllTopics
        } else if parsed.has("topic") {
            Scope::Topics(TopicArgument::parse_all(parsed.values("topic"))?)
        } else if parsed.has("from-file") {
            Scope::File
        } else {
            return Err(Exception::illegal_argument(
                "One of the reset scopes should be defined: --all-topics, --topic.",
            )
            .into());
        };
        let runtime = |e: Exception| Failure::wrapped("java.lang.RuntimeException", e.into());
        let target = if let Some(offset) = parsed.long("to-offset")? {
            Target::Offset(offset)
        } else if parsed.has("to-earliest") {
            Target::Earliest
        } else if parsed.has("to-latest") {
            Target::Latest
        } else if let Some(text) = parsed.value("to-datetime")? {
            Target::Timestamp(times::date_time(text).map_err(runtime)?)
        } else if let Some(text) = parsed.value("by-duration")? {
            Target::Timestamp(now_ms.saturating_sub(times::duration(text)?))
        } else if let Some(shift) = parsed.long("shift-by")? {
            Target::ShiftBy(shift)
        } else if let Some(path) = parsed.value("from-file")? {
            Target::File(read_plan(path, single_group)?)
        } else if parsed.has("to-current") {
            Target::Current
        } else {
            let scenarios = SCENARIOS.map(|name| format!("[{name}]")).join(", ");
            return Err(Exception::illegal_argument(format!(
                "Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]"
            ))
            .into());
        };
        Ok(ResetPlan {
            scope,
            target,
            execute: parsed.has("execute"),
            export: parsed.has("export"),
            single_group,
        })
    }
}

fn read_plan(path: &str, single_group: bool) -> Result<FilePlan, Failure> {
    #[allow(clippy::disallowed_methods)]
    // a file of the person who called the tool, not one of the broker's
    let text = std::fs::read_to_string(path).map_err(|e| {
        let class = match e.kind() {
            io::ErrorKind::NotFound => "java.nio.file.NoSuchFileException",
            io::ErrorKind::PermissionDenied => "java.nio.file.AccessDeniedException",
            _ => "java.io.IOException",
        };
        let unreadable =
            Exception::new("java.io.IOException", format!("Unable to read file {path}"));
        let mut failure = Failure::wrapped("java.lang.RuntimeException", unreadable.into());
        failure.chain.push(Exception::new(class, path));
        failure
    })?;
    Ok(parse_plan(&text, single_group)?)
}

/// Lines of `topic,partition,offset`, or of `group,topic,partition,offset`.
pub fn parse_plan(text: &str, single_group: bool) -> Result<FilePlan, Exception> {
    let mut plan = FilePlan::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let wrong = || {
            let columns = if single_group {
                "topic,partition,offset or group,topic,partition,offset"
            } else {
                "group,topic,partition,offset"
            };
            Exception::illegal_argument(format!(
                "Line {} of the file is not {columns}: {line}",
                number + 1
            ))
        };
        let fields: Vec<&str> = line
            .split(',')
            .map(|field| field.trim().trim_matches('"'))
            .collect();
        let (group, topic, partition, offset) = match fields[..] {
            [topic, partition, offset] if single_group => (None, topic, partition, offset),
            [group, topic, partition, offset] => (Some(group.to_owned()), topic, partition, offset),
            _ => return Err(wrong()),
        };
        let partition = partition.parse().map_err(|_| wrong())?;
        let offset = offset.parse().map_err(|_| wrong())?;
        plan.entry(group)
            .or_default()
            .push((TopicPartition::new(topic, partition), offset));
    }
    Ok(plan)
}

/// What a group is reset to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReset {
    pub group: String,
    pub offsets: Vec<PartitionReset>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionReset {
    pub partition: TopicPartition,
    /// What is committed now, where that was asked.
    pub current: Option<i64>,
    pub new: i64,
}

pub use crate::java::partition_order as java_order;

/// An offset within a log; the second value is a warning.
pub fn into_range(
    partition: &TopicPartition,
    offset: i64,
    (start, end): (i64, i64),
) -> (i64, Option<String>) {
    if offset > end {
        let text = format!(
            "New offset ({offset}) is higher than latest offset for topic partition {partition}. Value will be set to {end}"
        );
        (end, Some(text))
    } else if offset < start {
        let text = format!(
            "New offset ({offset}) is lower than earliest offset for topic partition {partition}. Value will be set to {start}"
        );
        (start, Some(text))
    } else {
        (offset, None)
    }
}

/// Apache's table of a plan.
pub fn text(groups: &[GroupReset]) -> String {
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0).max(15);
    let group_width = longest(&mut groups.iter().map(|group| group.group.chars().count()));
    let topic_width = longest(
        &mut groups
            .iter()
            .flat_map(|group| &group.offsets)
            .map(|reset| reset.partition.topic.chars().count()),
    );
    let line = |group: &str, topic: &str, partition: &str, offset: &str| {
        format!("\n{group:<group_width$} {topic:<topic_width$} {partition:<10} {offset}")
    };
    let mut text = String::new();
    if !groups.is_empty() {
        text.push_str(&line("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"));
    }
    for group in groups {
        for reset in &group.offsets {
            text.push_str(&line(
                &group.group,
                &reset.partition.topic,
                &reset.partition.partition.to_string(),
                &reset.new.to_string(),
            ));
        }
    }
    text + "\n"
}

/// What `--export` prints; Java ends it with an empty line.
pub fn csv(groups: &[GroupReset], single_group: bool) -> String {
    let mut text = String::new();
    for group in groups {
        for reset in &group.offsets {
            if !single_group {
                text.push_str(&format!("{},", group.group));
            }
            let TopicPartition { topic, partition } = &reset.partition;
            text.push_str(&format!("{topic},{partition},{}\n", reset.new));
        }
    }
    text + "\n"
}
