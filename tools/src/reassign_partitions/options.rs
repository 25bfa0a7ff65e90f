//! The options of kafka-reassign-partitions, which go with which action, and what they ask for.
//! Not here: the files that they name (assignment), the work (the parent module).
//! Pure but for reading the file. Kafka: ReassignPartitionsCommandOptions, ReassignPartitionsCommand.validateAndParseArgs.

use crate::args::{ArgumentError, Kind, Options, Parsed, Spec, flag, option};
use crate::exit::Stop;
use crate::java::Failure;
use crate::json::{self, Format};
use crate::json_input;
use crate::session::{BOOTSTRAP_CONTROLLER, BOOTSTRAP_SERVER};
use std::ffi::OsString;

const SPECS: &[Spec] = &[
    flag(
        &["verify"],
        "Say how far the reassignment of --reassignment-json-file is. When no reassignment is under way any more, the throttles are removed, unless --preserve-throttles is given.",
    ),
    flag(
        &["generate"],
        "Propose an assignment for the topics of --topics-to-move-json-file on the brokers of --broker-list. Nothing is changed.",
    ),
    flag(
        &["execute"],
        "Begin the reassignment of --reassignment-json-file.",
    ),
    flag(
        &["cancel"],
        "Give up what is under way of the reassignment of --reassignment-json-file.",
    ),
    flag(&["list"], "Show all reassignments that are under way."),
    option(
        &[BOOTSTRAP_SERVER],
        Kind::String,
        "Server(s) to use for bootstrapping",
        "Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
    )
    .optional_argument(),
    option(
        &["command-config"],
        Kind::String,
        "Admin client property file",
        "File with settings of the client.",
    ),
    option(
        &["reassignment-json-file"],
        Kind::String,
        "manual assignment json file path",
        "File with the replicas that partitions are to have:\n{\"partitions\":\n\t[{\"topic\": \"foo\",\n\t  \"partition\": 1,\n\t  \"replicas\": [1,2,3],\n\t  \"log_dirs\": [\"dir1\",\"dir2\",\"dir3\"] }],\n\"version\":1\n}\n\"log_dirs\" may be left out; each is \"any\", or the path of a log directory of that replica's broker to which it is moved.",
    ),
    option(
        &["topics-to-move-json-file"],
        Kind::String,
        "topics to reassign json file path",
        "File with the topics for which --generate proposes an assignment:\n{\"topics\":\n\t[{\"topic\": \"foo\"},{\"topic\": \"foo1\"}],\n\"version\":1\n}",
    ),
    option(
        &["broker-list"],
        Kind::String,
        "brokerlist",
        "The brokers that --generate spreads the partitions over, as \"0,1,2\".",
    ),
    option(
        &[BOOTSTRAP_CONTROLLER],
        Kind::String,
        "bootstrap controller to connect to",
        "Controllers to ask in place of brokers; with --cancel and --list.",
    )
    .optional_argument(),
    flag(
        &["disable-rack-aware"],
        "Let --generate take no notice of racks.",
    ),
    option(
        &["throttle"],
        Kind::Long,
        "throttle",
        "Bytes per second that replicas on the move may take between brokers; with --execute. To change it, give the same file again with --additional.",
    )
    .default("-1"),
    option(
        &["replica-alter-log-dirs-throttle"],
        Kind::Long,
        "replicaAlterLogDirsThrottle",
        "Bytes per second that replicas on the move may take between log directories of a broker; with --execute. To change it, give the same file again with --additional.",
    )
    .default("-1"),
    option(
        &["timeout"],
        Kind::Long,
        "timeout",
        "Milliseconds to wait until moves between log directories have begun.",
    )
    .default("10000"),
    flag(
        &["additional"],
        "Let --execute begin although other reassignments are under way, or change the throttle of one.",
    ),
    flag(
        &["preserve-throttles"],
        "Leave the throttles of brokers and topics alone.",
    ),
    flag(
        &["disallow-replication-factor-change"],
        "Refuse to give a partition another number of replicas.",
    ),
    flag(
        &["wait"],
        "With --execute and --verify: wait until the reassignment is done, showing its progress on a terminal, and remove the throttles then.",
    ),
    json::OUTPUT,
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

pub const OPTIONS: Options = Options::new(SPECS);
const PURPOSE: &str = "This tool helps to move topic partitions between replicas.";

/// In the order in which Java's message names them: action, what it needs, what else it takes.
const ACTIONS: [(&str, &[&str], &[&str]); 5] = [
    (
        "generate",
        &["topics-to-move-json-file", "broker-list"],
        &[
            BOOTSTRAP_SERVER,
            "command-config",
            "disable-rack-aware",
            "output",
        ],
    ),
    (
        "execute",
        &["reassignment-json-file"],
        &[
            BOOTSTRAP_SERVER,
            "command-config",
            "additional",
            "throttle",
            "replica-alter-log-dirs-throttle",
            "timeout",
            "disallow-replication-factor-change",
            "wait",
            "output",
        ],
    ),
    (
        "verify",
        &["reassignment-json-file"],
        &[
            BOOTSTRAP_SERVER,
            "command-config",
            "preserve-throttles",
            "wait",
            "output",
        ],
    ),
    (
        "cancel",
        &["reassignment-json-file"],
        &[
            BOOTSTRAP_SERVER,
            BOOTSTRAP_CONTROLLER,
            "command-config",
            "preserve-throttles",
            "timeout",
            "output",
        ],
    ),
    (
        "list",
        &[],
        &[
            BOOTSTRAP_SERVER,
            BOOTSTRAP_CONTROLLER,
            "command-config",
            "output",
        ],
    ),
];

/// Why the command line is refused.
#[derive(Debug)]
pub enum Refusal {
    Stop(Stop),
    /// Escapes Java's `main`.
    Uncaught(Failure),
}

impl From<ArgumentError> for Refusal {
    fn from(error: ArgumentError) -> Refusal {
        Refusal::Uncaught(error.into())
    }
}

/// Parses the command line and checks which options go together.
pub fn parse<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Parsed, Refusal> {
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
    let given: Vec<_> = ACTIONS
        .iter()
        .filter(|(name, _, _)| parsed.has(name))
        .collect();
    let [(action, required, permitted)] = given[..] else {
        return Err(usage(format!(
            "Command must include exactly one action: {}",
            ACTIONS.map(|(name, _, _)| format!("--{name}")).join(", ")
        )));
    };
    match (
        parsed.has(BOOTSTRAP_SERVER),
        parsed.has(BOOTSTRAP_CONTROLLER),
    ) {
        (true, true) => {
            return Err(usage(
                "Please don't specify both --bootstrap-server and --bootstrap-controller".into(),
            ));
        }
        (false, false) => {
            return Err(usage(
                "Please specify either --bootstrap-server or --bootstrap-controller".into(),
            ));
        }
        (true, false) | (false, true) => {}
    }
    parsed.require(required).map_err(usage)?;
    for (spec, _) in parsed.in_order() {
        let name = spec.names[0];
        if name != *action && !required.contains(&name) && !permitted.contains(&name) {
            return Err(usage(format!(
                "Option \"[{name}]\" can't be used with action \"[{action}]\""
            )));
        }
    }
    Format::parse(parsed.last("output")).map_err(usage)?;
    Ok(parsed)
}

/// What is to be done; the texts of files are not looked into yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Generate {
        topics: String,
        brokers: String,
        rack_aware: bool,
    },
    Execute(Execute),
    Verify {
        reassignment: String,
        preserve_throttles: bool,
        wait: bool,
    },
    Cancel {
        reassignment: String,
        preserve_throttles: bool,
        timeout_ms: i64,
    },
    List,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execute {
    pub reassignment: String,
    pub additional: bool,
    /// Below zero: none.
    pub throttle_bytes_per_second: i64,
    pub log_dirs_throttle_bytes_per_second: i64,
    pub timeout_ms: i64,
    pub allow_replication_factor_change: bool,
    pub wait: bool,
}

/// Reads the values, files included. In Java this happens after the client was made.
pub fn action(parsed: &Parsed) -> Result<Action, Failure> {
    let file = |name| json_input::read(parsed.value(name)?.unwrap_or_default());
    let long = |name| Ok::<_, Failure>(parsed.long(name)?.unwrap_or_default());
    Ok(if parsed.has("generate") {
        Action::Generate {
            topics: file("topics-to-move-json-file")?,
            brokers: parsed.value("broker-list")?.unwrap_or_default().to_owned(),
            rack_aware: !parsed.has("disable-rack-aware"),
        }
    } else if parsed.has("execute") {
        Action::Execute(Execute {
            reassignment: file("reassignment-json-file")?,
            additional: parsed.has("additional"),
            throttle_bytes_per_second: long("throttle")?,
            log_dirs_throttle_bytes_per_second: long("replica-alter-log-dirs-throttle")?,
            timeout_ms: long("timeout")?,
            allow_replication_factor_change: !parsed.has("disallow-replication-factor-change"),
            wait: parsed.has("wait"),
        })
    } else if parsed.has("verify") {
        Action::Verify {
            reassignment: file("reassignment-json-file")?,
            preserve_throttles: parsed.has("preserve-throttles"),
            wait: parsed.has("wait"),
        }
    } else if parsed.has("cancel") {
        Action::Cancel {
            reassignment: file("reassignment-json-file")?,
            preserve_throttles: parsed.has("preserve-throttles"),
            timeout_ms: long("timeout")?,
        }
    } else {
        Action::List
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        match parse(line.split_whitespace().map(OsString::from)).unwrap_err() {
            Refusal::Stop(Stop::Usage(text)) => text,
            Refusal::Stop(other) => format!("{other:?}"),
            Refusal::Uncaught(failure) => failure.trace(),
        }
    }

    /// What Apache's tool printed.
    #[test]
    fn refusals_are_javas() {
        for (line, text) in [
            ("", PURPOSE),
            (
                "--nonsense",
                "joptsimple.UnrecognizedOptionException: nonsense is not a recognized option",
            ),
            (
                "--bootstrap-server b:1",
                "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list",
            ),
            (
                "--list",
                "Please specify either --bootstrap-server or --bootstrap-controller",
            ),
            (
                "--list --bootstrap-server b:1 --bootstrap-controller c:1",
                "Please don't specify both --bootstrap-server and --bootstrap-controller",
            ),
            (
                "--list --bootstrap-server b:1 --throttle 3",
                "Option \"[throttle]\" can't be used with action \"[list]\"",
            ),
            (
                "--execute --bootstrap-server b:1",
                "Missing required argument \"[reassignment-json-file]\"",
            ),
            (
                "--execute --bootstrap-controller b:1 --reassignment-json-file f",
                "Option \"[bootstrap-controller]\" can't be used with action \"[execute]\"",
            ),
        ] {
            assert_eq!(refused(line), text, "{line}");
        }
    }

    #[test]
    fn a_bad_number_is_told_as_java_does() {
        let parsed = parse(
            "--execute --bootstrap-server b:1 --reassignment-json-file /dev/null --throttle x"
                .split_whitespace()
                .map(OsString::from),
        )
        .unwrap();
        assert_eq!(
            action(&parsed).unwrap_err().trace(),
            "joptsimple.OptionArgumentConversionException: Cannot parse argument 'x' of option throttle\nCaused by: joptsimple.internal.ReflectionException: java.lang.NumberFormatException: For input string: \"x\"\nCaused by: java.lang.NumberFormatException: For input string: \"x\""
        );
    }
}
