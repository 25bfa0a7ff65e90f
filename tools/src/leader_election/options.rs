//! The options of kafka-leader-election and what they ask for.
//! Not here: the election (the parent module).
//! Pure but for the file of partitions. Kafka: LeaderElectionCommand.LeaderElectionCommandOptions, parseReplicaElectionData.

use crate::args::{ArgumentError, Kind, Options, Parsed, Spec, flag, option};
use crate::exit::Stop;
use crate::java::{Exception, Failure, partition_order};
use crate::json::{self, Format};
use crate::json_input;
use kavka_client::admin::elections::ElectionType;
use kavka_common::TopicPartition;
use std::ffi::OsString;

const SPECS: &[Spec] = &[
    option(
        &["bootstrap-server"],
        Kind::String,
        "host:port",
        "REQUIRED: Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
    )
    .separated_by(','),
    option(
        &["admin.config"],
        Kind::String,
        "config file",
        "The earlier name of --command-config.",
    ),
    option(
        &["command-config"],
        Kind::String,
        "Config file",
        "File with settings of the client.",
    ),
    option(
        &["path-to-json-file"],
        Kind::String,
        "Path to JSON file",
        "File with the partitions that are to get a leader:\n{\"partitions\":\n\t[{\"topic\": \"foo\", \"partition\": 1},\n\t {\"topic\": \"foobar\", \"partition\": 2}]\n}\nNot together with --topic or --all-topic-partitions.",
    ),
    option(
        &["topic"],
        Kind::String,
        "topic name",
        "The topic of the one partition that is to get a leader; with --partition.",
    ),
    option(
        &["partition"],
        Kind::Integer,
        "partition id",
        "REQUIRED if --topic is given: the number of the partition.",
    ),
    flag(
        &["all-topic-partitions"],
        "Every partition that needs the election.",
    ),
    option(
        &["election-type"],
        Kind::Choice("[PREFERRED,UNCLEAN]"),
        "election type",
        "REQUIRED: \"preferred\" makes the first replica the leader, where it is in sync and another one leads; \"unclean\" makes a living replica the leader of a partition without one, and may lose records.",
    ),
    json::OUTPUT,
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

pub const OPTIONS: Options = Options::new(SPECS);
const PURPOSE: &str = "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are preferred replicas and unclean replicas.";
const COMMAND_FAILED: &str = "org.apache.kafka.tools.AdminCommandFailedException";
const OPERATION: &str = "org.apache.kafka.tools.AdminOperationException";

/// Why the command line is refused.
#[derive(Debug)]
pub enum Refusal {
    Stop(Stop),
    Escaped(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal::Escaped(failure)
    }
}

impl From<ArgumentError> for Refusal {
    fn from(error: ArgumentError) -> Refusal {
        Refusal::Escaped(error.into())
    }
}

/// The whole command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub servers: String,
    pub command_config: Option<String>,
    /// `--admin.config` was used.
    pub old_config_option: bool,
    pub election_type: ElectionType,
    /// `None`: all that need it.
    pub partitions: Option<Vec<TopicPartition>>,
    pub format: Format,
}

fn failed(text: String) -> Refusal {
    Refusal::Escaped(Exception::new(COMMAND_FAILED, text).into())
}

pub fn parse<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Plan, Refusal> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let nothing = arguments.is_empty();
    let parsed = OPTIONS.parse(arguments)?;
    if nothing || parsed.has("help") {
        return Err(Refusal::Stop(Stop::Usage(PURPOSE.into())));
    }
    if parsed.has("version") {
        return Err(Refusal::Stop(Stop::Version));
    }
    validate(&parsed)?;
    let format =
        Format::parse(parsed.value("output")?).map_err(|text| Refusal::Stop(Stop::Usage(text)))?;
    let election_type = election_type(&parsed)?;
    let partitions = match (parsed.value("path-to-json-file")?, parsed.value("topic")?) {
        (Some(path), _) => Some(election_data(
            &json_input::read(path)
                .map_err(|failure| Failure::wrapped("java.lang.RuntimeException", failure))?,
        )?),
        (None, Some(topic)) => Some(vec![TopicPartition::new(
            topic,
            parsed.int("partition")?.unwrap_or_default(),
        )]),
        (None, None) => None,
    };
    parsed
        .forbid("admin.config", &["command-config"])
        .map_err(|text| Refusal::Stop(Stop::Usage(text)))?;
    let old_config = parsed.value("admin.config")?;
    Ok(Plan {
        servers: parsed.values("bootstrap-server").join(","),
        command_config: parsed
            .value("command-config")?
            .or(old_config)
            .map(str::to_owned),
        old_config_option: old_config.is_some(),
        election_type,
        partitions,
        format,
    })
}

fn validate(parsed: &Parsed) -> Result<(), Refusal> {
    let missing: Vec<&str> = ["bootstrap-server", "election-type"]
        .into_iter()
        .filter(|name| !parsed.has(name))
        .collect();
    if !missing.is_empty() {
        return Err(failed(format!(
            "Missing required option(s): {}",
            missing.join(", ")
        )));
    }
    const EXCLUSIVE: [&str; 3] = ["topic", "all-topic-partitions", "path-to-json-file"];
    if EXCLUSIVE.iter().filter(|name| parsed.has(name)).count() != 1 {
        return Err(failed(format!(
            "One and only one of the following options is required: {}",
            EXCLUSIVE.join(", ")
        )));
    }
    match (parsed.has("topic"), parsed.has("partition")) {
        (true, false) => Err(failed("Missing required option(s): partition".into())),
        (false, true) => Err(failed(
            "Option partition is only allowed if topic is used".into(),
        )),
        (true, true) | (false, false) => Ok(()),
    }
}

fn election_type(parsed: &Parsed) -> Result<ElectionType, Refusal> {
    let text = parsed.value("election-type")?.unwrap_or_default();
    [ElectionType::Preferred, ElectionType::Unclean]
        .into_iter()
        .find(|kind| kind.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            Refusal::Escaped(Failure {
                chain: vec![
                    Exception::new(
                        "joptsimple.OptionArgumentConversionException",
                        format!("Cannot parse argument '{text}' of option election-type"),
                    ),
                    Exception::new(
                        "joptsimple.ValueConversionException",
                        format!("Value [{text}] is not one of [[PREFERRED,UNCLEAN]]"),
                    ),
                ],
            })
        })
}

/// The partitions of the file.
fn election_data(text: &str) -> Result<Vec<TopicPartition>, Failure> {
    let operation = |text: String| Failure::from(Exception::new(OPERATION, text));
    // Java wraps what its parser's objects throw.
    let mapped = |failure| Failure::wrapped("java.lang.RuntimeException", failure);
    let document = json_input::parse(text)
        .ok_or_else(|| operation("Replica election data is empty".into()))?;
    let list = json_input::optional(&document, "partitions")
        .map_err(mapped)?
        .ok_or_else(|| operation("Replica election data is missing \"partitions\" field".into()))?;
    let mut partitions: Vec<TopicPartition> = Vec::new();
    let mut twice: Vec<TopicPartition> = Vec::new();
    for item in json_input::items(list).map_err(mapped)? {
        let topic = json_input::field(item, "topic").and_then(json_input::string);
        let partition = json_input::field(item, "partition").and_then(json_input::int);
        let partition = TopicPartition::new(topic.map_err(mapped)?, partition.map_err(mapped)?);
        if !partitions.contains(&partition) {
            partitions.push(partition);
        } else if !twice.contains(&partition) {
            twice.push(partition);
        }
    }
    if !twice.is_empty() {
        let names: Vec<String> = partition_order(twice, |partition| partition)
            .iter()
            .map(ToString::to_string)
            .collect();
        return Err(operation(format!(
            "Replica election data contains duplicate partitions: [{}]",
            names.join(", ")
        )));
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Plan, Refusal> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn refused(line: &str) -> String {
        match parsed(&format!("--bootstrap-server b:1,c:2 {line}")).unwrap_err() {
            Refusal::Stop(Stop::Usage(text)) => text,
            Refusal::Stop(other) => format!("{other:?}"),
            Refusal::Escaped(failure) => failure.trace(),
        }
    }

    #[test]
    fn command_lines_become_plans() {
        let plan = parsed(
            "--bootstrap-server b:1,c:2 --election-type unclean --topic t --partition 3 --admin.config f",
        )
        .unwrap();
        assert_eq!(plan.servers, "b:1,c:2");
        assert_eq!(plan.election_type, ElectionType::Unclean);
        assert_eq!(plan.partitions, Some(vec![TopicPartition::new("t", 3)]));
        assert_eq!(plan.command_config.as_deref(), Some("f"));
        assert!(plan.old_config_option);
        let all = parsed("--bootstrap-server b:1 --election-type PREFERRED --all-topic-partitions");
        assert_eq!(all.unwrap().partitions, None);
    }

    /// What Apache's tool printed.
    #[test]
    fn refusals_are_javas() {
        let failed = "org.apache.kafka.tools.AdminCommandFailedException: ";
        for (line, text) in [
            ("--topic t --partition 1", format!("{failed}Missing required option(s): election-type")),
            ("--election-type preferred", format!("{failed}One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file")),
            ("--election-type preferred --topic t", format!("{failed}Missing required option(s): partition")),
            ("--election-type preferred --all-topic-partitions --partition 1", format!("{failed}Option partition is only allowed if topic is used")),
            ("--election-type nonsense --all-topic-partitions", "joptsimple.OptionArgumentConversionException: Cannot parse argument 'nonsense' of option election-type\nCaused by: joptsimple.ValueConversionException: Value [nonsense] is not one of [[PREFERRED,UNCLEAN]]".into()),
            ("--election-type preferred --all-topic-partitions --admin.config a --command-config b", "Option \"[admin.config]\" can't be used with option \"[command-config]\"".into()),
        ] {
            assert_eq!(refused(line), text, "{line}");
        }
    }

    #[test]
    fn files_are_checked() {
        let fault = |text: &str| election_data(text).unwrap_err().message().to_owned();
        assert_eq!(
            election_data(r#"{"partitions":[{"topic":"t","partition":1}]}"#).unwrap(),
            [TopicPartition::new("t", 1)]
        );
        assert_eq!(fault("not json"), "Replica election data is empty");
        assert_eq!(
            fault(r#"{"x":[]}"#),
            "Replica election data is missing \"partitions\" field"
        );
        assert_eq!(
            fault(r#"{"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":0}]}"#),
            "Replica election data contains duplicate partitions: [t-0]"
        );
        assert_eq!(
            fault(r#"{"partitions":[{"topic":"t"}]}"#),
            "com.fasterxml.jackson.databind.JsonMappingException: No such field exists: `partition`"
        );
    }
}
