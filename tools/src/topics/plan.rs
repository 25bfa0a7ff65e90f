//! What a command line of kafka-topics asks for, with every value checked that needs no broker.
//! Not here: which options go together (options), the work itself.
//! Pure. Kafka: TopicCommand.CommandTopicPartition, parseReplicaAssignment, parseTopicConfigsToBeAdded; TopicFilter.

use crate::args::{ArgumentError, Parsed};
use crate::java::Exception;
use crate::json::Format;
use kavka_client::admin::describe_topics::PARTITIONS_PER_RESPONSE;
use kavka_common::Uuid;
use kavka_config::topic::check_overrides;
use regex::Regex;
use std::collections::BTreeMap;

/// A failure that the tool reports by itself, with the exceptions behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exception: Exception,
    pub causes: Vec<Exception>,
}

impl From<Exception> for Failure {
    fn from(exception: Exception) -> Failure {
        Failure {
            exception,
            causes: Vec::new(),
        }
    }
}

impl From<ArgumentError> for Failure {
    fn from(error: ArgumentError) -> Failure {
        let causes = match &error {
            ArgumentError::Conversion { cause, .. } => {
                let (class, message) = cause.split_once(": ").unwrap_or((cause, ""));
                vec![
                    Exception::new("joptsimple.internal.ReflectionException", cause),
                    Exception::new(class, message),
                ]
            }
            ArgumentError::Unrecognized(_)
            | ArgumentError::MissingArgument(_)
            | ArgumentError::MultipleArguments(_)
            | ArgumentError::MissingRequired(_) => Vec::new(),
        };
        Failure {
            exception: Exception::new(error.exception(), error.to_string()),
            causes,
        }
    }
}

/// The topic of `--create`, or what `--alter` adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPlan {
    pub name: String,
    pub partitions: Option<i32>,
    pub replication_factor: Option<i32>,
    pub assignment: Option<Vec<Vec<i32>>>,
    pub configs: Vec<(String, String)>,
    /// Settings to take back; 2.x only.
    pub deleted_configs: Vec<String>,
    pub if_not_exists: bool,
}

/// Which partitions `--describe` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    pub under_replicated: bool,
    pub unavailable: bool,
    pub under_min_isr: bool,
    pub at_min_isr: bool,
    pub overridden_configs: bool,
}

impl Reports {
    /// Only certain partitions, so no lines about topics.
    pub fn only_partitions(self) -> bool {
        self.under_replicated || self.unavailable || self.under_min_isr || self.at_min_isr
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribePlan {
    /// `None` also for the zero id, which Kafka takes for "not given".
    pub topic_id: Option<Uuid>,
    pub reports: Reports,
    pub partitions_per_response: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Create(TopicPlan),
    List,
    Describe(DescribePlan),
    Alter(TopicPlan),
    Delete,
}

/// The whole command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub action: Action,
    pub topic: Option<String>,
    pub exclude_internal: bool,
    pub if_exists: bool,
    pub format: Format,
}

impl Plan {
    /// Reads the values. In Java this happens after the client was made.
    pub fn of(parsed: &Parsed) -> Result<Plan, Failure> {
        let format = Format::parse(parsed.value("output")?).map_err(Exception::illegal_argument)?;
        let action = if parsed.has("create") {
            Action::Create(topic_plan(parsed)?)
        } else if parsed.has("list") {
            Action::List
        } else if parsed.has("describe") {
            Action::Describe(describe_plan(parsed)?)
        } else if parsed.has("alter") {
            Action::Alter(topic_plan(parsed)?)
        } else {
            Action::Delete
        };
        Ok(Plan {
            action,
            topic: parsed.value("topic")?.map(str::to_owned),
            exclude_internal: parsed.has("exclude-internal"),
            if_exists: parsed.has("if-exists"),
            format,
        })
    }
}

fn topic_plan(parsed: &Parsed) -> Result<TopicPlan, Failure> {
    Ok(TopicPlan {
        name: parsed.value("topic")?.unwrap_or_default().to_owned(),
        partitions: parsed.int("partitions")?,
        replication_factor: parsed.int("replication-factor")?,
        assignment: match parsed.value("replica-assignment")? {
            None | Some("") => None,
            Some(text) => Some(parse_assignment(text)?),
        },
        configs: parse_configs(parsed.values("config"))?,
        deleted_configs: parsed.values("delete-config").to_vec(),
        if_not_exists: parsed.has("if-not-exists"),
    })
}

/// What the tool itself says of the numbers of a new topic.
pub fn check_numbers(topic: &TopicPlan) -> Result<(), Exception> {
    if topic
        .replication_factor
        .is_some_and(|factor| !(1..=i32::from(i16::MAX)).contains(&factor))
    {
        return Err(Exception::illegal_argument(
            "The replication factor must be between 1 and 32767 inclusive",
        ));
    }
    if topic.partitions.is_some_and(|partitions| partitions < 1) {
        return Err(Exception::illegal_argument(
            "The partitions must be greater than 0",
        ));
    }
    Ok(())
}

fn describe_plan(parsed: &Parsed) -> Result<DescribePlan, Failure> {
    let topic_id = match parsed.value("topic-id")? {
        None => None,
        Some(text) => Some(parse_uuid(text)?),
    };
    Ok(DescribePlan {
        topic_id: topic_id.filter(|id| *id != Uuid::ZERO),
        reports: Reports {
            under_replicated: parsed.has("under-replicated-partitions"),
            unavailable: parsed.has("unavailable-partitions"),
            under_min_isr: parsed.has("under-min-isr-partitions"),
            at_min_isr: parsed.has("at-min-isr-partitions"),
            overridden_configs: parsed.has("topics-with-overrides"),
        },
        partitions_per_response: parsed
            .int("partition-size-limit-per-response")?
            .unwrap_or(PARTITIONS_PER_RESPONSE),
    })
}

/// `Uuid.fromString`, with its complaints.
fn parse_uuid(text: &str) -> Result<Uuid, Exception> {
    const LENGTH_MAX: usize = 24;
    if text.chars().count() > LENGTH_MAX {
        let prefix: String = text.chars().take(LENGTH_MAX).collect();
        return Err(Exception::illegal_argument(format!(
            "Input string with prefix `{prefix}` is too long to be decoded as a base64 UUID"
        )));
    }
    let digits = text.trim_end_matches('=');
    if let Some(bad) = digits
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && *c != '-' && *c != '_')
    {
        return Err(Exception::illegal_argument(format!(
            "Illegal base64 character {:x}",
            u32::from(bad)
        )));
    }
    text.parse().map_err(|_| {
        Exception::illegal_argument(format!(
            "Input string `{text}` decoded as {} bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID",
            digits.len() * 6 / 8
        ))
    })
}

/// `1:2,2:3`: the replicas of each partition.
pub fn parse_assignment(text: &str) -> Result<Vec<Vec<i32>>, Exception> {
    let mut partitions: Vec<Vec<i32>> = Vec::new();
    for (partition, list) in text.trim_end_matches(',').split(',').enumerate() {
        let mut replicas = Vec::new();
        for id in list.split(':') {
            let id = id.trim();
            replicas.push(id.parse::<i32>().map_err(|_| {
                Exception::new(
                    "java.lang.NumberFormatException",
                    format!("For input string: \"{id}\""),
                )
            })?);
        }
        let mut seen: Vec<i32> = Vec::new();
        let mut twice: Vec<String> = Vec::new();
        for id in &replicas {
            if seen.contains(id) {
                twice.push(id.to_string());
            }
            seen.push(*id);
        }
        if !twice.is_empty() {
            twice.dedup();
            return Err(Exception::new(
                "org.apache.kafka.tools.AdminCommandFailedException",
                format!(
                    "Partition replica lists may not contain duplicate entries: {}",
                    twice.join(",")
                ),
            ));
        }
        if partitions
            .first()
            .is_some_and(|first| first.len() != replicas.len())
        {
            return Err(Exception::new(
                "org.apache.kafka.tools.AdminOperationException",
                format!("Partition {partition} has different replication factor: {replicas:?}"),
            ));
        }
        partitions.push(replicas);
    }
    Ok(partitions)
}

/// `name=value` settings: exactly one `=`, blanks around it do not count; checked as the broker would.
pub fn parse_configs(arguments: &[String]) -> Result<Vec<(String, String)>, Exception> {
    let mut configs = BTreeMap::new();
    for argument in arguments {
        let mut parts: Vec<&str> = argument.split('=').collect();
        // Java's split drops empty pieces at the end.
        while parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
        let [name, value] = parts[..] else {
            return Err(Exception::illegal_argument(
                "requirement failed: Invalid topic config: all configs to be added must be in the format \"key=val\".",
            ));
        };
        configs.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    let mut checked = configs.clone();
    // Whether it can be had is the broker's to say.
    checked.retain(|name, value| name != "remote.storage.enable" || value != "true");
    check_overrides(None, &checked)
        .map_err(|error| Exception::new(error.java_class(), error.message))?;
    Ok(configs.into_iter().collect())
}

/// Which topics `--topic` means: a regular expression for the whole name, commas between alternatives.
#[derive(Clone, Debug)]
pub struct IncludeList {
    regex: Option<Regex>,
    literal: Vec<String>,
}

impl IncludeList {
    pub fn new(text: &str) -> Result<IncludeList, Exception> {
        let cleaned = text.trim().replace(',', "|").replace(' ', "");
        let quote = ['"', '\''];
        let cleaned = cleaned.trim_start_matches(quote).trim_end_matches(quote);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '|');
        if cleaned.chars().all(plain) {
            return Ok(IncludeList {
                regex: None,
                literal: cleaned.split('|').map(str::to_owned).collect(),
            });
        }
        let regex = Regex::new(&format!("^(?:{cleaned})$")).map_err(|_| {
            Exception::new(
                "java.lang.RuntimeException",
                format!("{cleaned} is an invalid regex."),
            )
        })?;
        Ok(IncludeList {
            regex: Some(regex),
            literal: Vec::new(),
        })
    }

    pub fn matches(&self, topic: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(topic),
            None => self.literal.iter().any(|name| name == topic),
        }
    }
}

/// Names that metrics could mix up.
pub fn has_collision_chars(topic: &str) -> bool {
    topic.contains(['.', '_'])
}

/// Topics that Kafka keeps for itself.
pub fn is_internal(topic: &str) -> bool {
    matches!(
        topic,
        "__consumer_offsets" | "__transaction_state" | "__share_group_state"
    )
}
