//! The options of kafka-log-dirs and what they ask for.
//! Not here: asking the brokers (the parent module).
//! Pure. Kafka: LogDirsCommand.LogDirsCommandOptions.

use crate::args::{ArgumentError, Kind, Options, Spec, flag, option};
use crate::exit::Stop;
use crate::java::{Exception, Failure};
use crate::json::{self, Format};
use std::collections::BTreeSet;
use std::ffi::OsString;

const SPECS: &[Spec] = &[
    option(
        &["bootstrap-server"],
        Kind::String,
        "The server(s) to use for bootstrapping",
        "REQUIRED: Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
    ),
    option(
        &["command-config"],
        Kind::String,
        "Admin client property file",
        "File with settings of the client.",
    ),
    flag(&["describe"], "REQUIRED: Show the log directories."),
    option(
        &["topic-list"],
        Kind::String,
        "Topic list",
        "Only replicas of these topics, with commas between; all when not given.",
    )
    .default(""),
    option(
        &["broker-list"],
        Kind::String,
        "Broker list",
        "Only directories of these brokers, with commas between; all when not given.",
    )
    .default(""),
    json::OUTPUT,
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

pub const OPTIONS: Options = Options::new(SPECS);
const PURPOSE: &str = "This tool helps to query log directory usage on the specified brokers.";

/// Why the command line is refused.
#[derive(Debug)]
pub enum Refusal {
    Stop(Stop),
    Escaped(Failure),
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
    /// Empty: all.
    pub topics: BTreeSet<String>,
    pub brokers: BTreeSet<i32>,
    pub format: Format,
}

pub fn parse<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Plan, Refusal> {
    let usage = |text| Refusal::Stop(Stop::Usage(text));
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let nothing = arguments.is_empty();
    let parsed = OPTIONS.parse(arguments)?;
    if nothing || parsed.has("help") {
        return Err(usage(PURPOSE.into()));
    }
    if parsed.has("version") {
        return Err(Refusal::Stop(Stop::Version));
    }
    parsed
        .require(&["bootstrap-server", "describe"])
        .map_err(usage)?;
    let format = Format::parse(parsed.value("output")?).map_err(usage)?;
    let list = |name| -> Result<Vec<&str>, ArgumentError> {
        let text = parsed.value(name)?.unwrap_or_default();
        Ok(text.split(',').filter(|item| !item.is_empty()).collect())
    };
    let brokers = list("broker-list")?
        .into_iter()
        .map(|id| id.parse().map_err(|_| not_a_number(id)))
        .collect::<Result<_, _>>()
        .map_err(|exception| Refusal::Escaped(exception.into()))?;
    Ok(Plan {
        servers: parsed
            .value("bootstrap-server")?
            .unwrap_or_default()
            .to_owned(),
        command_config: parsed.value("command-config")?.map(str::to_owned),
        topics: list("topic-list")?.into_iter().map(str::to_owned).collect(),
        brokers,
        format,
    })
}

fn not_a_number(text: &str) -> Exception {
    Exception::new(
        "java.lang.NumberFormatException",
        format!("For input string: \"{text}\""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Plan, Refusal> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn lists_have_commas() {
        let plan = parsed("--describe --bootstrap-server b:1 --broker-list 2,1 --topic-list t,,u")
            .unwrap();
        assert_eq!(plan.brokers, BTreeSet::from([1, 2]));
        assert_eq!(plan.topics, BTreeSet::from(["t".into(), "u".into()]));
        let all = parsed("--describe --bootstrap-server b:1 --output json").unwrap();
        assert!(all.brokers.is_empty() && all.topics.is_empty());
        assert_eq!(all.format, Format::Json);
    }

    #[test]
    fn refusals_are_javas() {
        for (line, text) in [
            (
                "--describe",
                "Missing required argument \"[bootstrap-server]\"",
            ),
            (
                "--bootstrap-server b:1",
                "Missing required argument \"[describe]\"",
            ),
            ("--help", PURPOSE),
            ("", PURPOSE),
        ] {
            let Err(Refusal::Stop(Stop::Usage(told))) = parsed(line) else {
                panic!("{line}")
            };
            assert_eq!(told, text);
        }
        let Err(Refusal::Escaped(failure)) =
            parsed("--describe --bootstrap-server b:1 --broker-list x")
        else {
            panic!()
        };
        assert_eq!(
            failure.trace(),
            "java.lang.NumberFormatException: For input string: \"x\""
        );
    }
}
