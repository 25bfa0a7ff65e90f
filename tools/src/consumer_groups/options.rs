//! The options of kafka-consumer-groups, and which of them go together.
//! Not here: what their values mean (plan).
//! Pure; runs before anything is connected. Kafka: org.apache.kafka.tools.consumer.group.ConsumerGroupCommandOptions.

use crate::args::{Kind, Options, Parsed, Spec, flag, option};
use crate::exit::Stop;
use crate::java::Exception;
use crate::json;
use crate::output;
use std::ffi::OsString;

const SPECS: &[Spec] = &[
    option(
        &["bootstrap-server"],
        Kind::String,
        "server to connect to",
        "Brokers to ask first, as HOST1:PORT1,HOST2:PORT2. REQUIRED except for --validate-regex.",
    ),
    option(
        &["group"],
        Kind::String,
        "consumer group",
        "The group; may be repeated.",
    ),
    option(
        &["topic"],
        Kind::String,
        "topic",
        "A topic whose offsets are reset or deleted; t:0,1 means two of its partitions. May be repeated.",
    ),
    flag(
        &["all-topics"],
        "With --reset-offsets: every topic that the group committed offsets for.",
    ),
    flag(&["list"], "Show the names of groups."),
    flag(
        &["describe"],
        "Show where groups stand in their partitions, and how far behind (lag) they are.",
    ),
    flag(&["all-groups"], "In place of --group: every group."),
    flag(
        &["delete"],
        "Delete groups without members, with everything that they committed.",
    ),
    option(
        &["timeout"],
        Kind::Long,
        "timeout (ms)",
        "How long to wait for the brokers, or for a group that is rebalancing.",
    )
    .default("30000"),
    option(
        &["command-config"],
        Kind::String,
        "command config property file",
        "File with settings of the client.",
    ),
    flag(
        &["reset-offsets"],
        "Move a group without members to other offsets. Without --execute only the plan is shown. How is told by one of --to-datetime, --by-duration, --to-earliest, --to-latest, --shift-by, --from-file, --to-current, --to-offset; what is told by --all-topics or --topic, or by the file.",
    ),
    flag(
        &["delete-offsets"],
        "Forget what a group committed for topics.",
    ),
    flag(
        &["dry-run"],
        "With --reset-offsets: show the plan, change nothing.",
    ),
    flag(&["execute"], "With --reset-offsets: carry the plan out."),
    flag(
        &["export"],
        "With --reset-offsets: print the plan as CSV, for --from-file.",
    ),
    option(&["to-offset"], Kind::Long, "offset", "Reset to this offset."),
    option(
        &["from-file"],
        Kind::String,
        "path to CSV file",
        "Reset to the offsets of a file that --export made.",
    ),
    option(
        &["to-datetime"],
        Kind::String,
        "datetime",
        "Reset to the first record at or after a time, YYYY-MM-DDThh:mm:ss.sss with an optional zone (Z, +hh, +hhmm, +hh:mm); UTC without.",
    ),
    option(
        &["by-duration"],
        Kind::String,
        "duration",
        "Reset to the first record at or after the time that lies this long in the past, PnDTnHnMnS.",
    ),
    flag(&["to-earliest"], "Reset to the first offset there is."),
    flag(&["to-latest"], "Reset to the end."),
    flag(
        &["to-current"],
        "Reset to what is committed, or to the end where nothing is.",
    ),
    option(
        &["shift-by"],
        Kind::Long,
        "number-of-offsets",
        "Reset by so many offsets forwards, or backwards when negative.",
    ),
    flag(&["members"], "With --describe: the group's members."),
    flag(
        &["verbose"],
        "With --describe: more columns.",
    ),
    flag(
        &["offsets"],
        "With --describe: partitions, offsets and lag, as without this option.",
    ),
    option(
        &["state"],
        Kind::String,
        "",
        "With --describe: the group's state. With --list: the states of groups, or only groups in the given ones, as in --state stable,empty.",
    )
    .optional_argument(),
    option(
        &["type"],
        Kind::String,
        "",
        "With --list: the types of groups, or only groups of the given ones, as in --type classic,consumer.",
    )
    .optional_argument(),
    option(
        &["validate-regex"],
        Kind::String,
        "regex",
        "Say whether a regular expression can be subscribed to (RE2's syntax).",
    ),
    json::OUTPUT,
    flag(
        &["strict"],
        "Exit with 1 when something that was asked for was not done, 2 for a wrong command line, 3 when no broker answers, 4 when access is denied.",
    ),
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

pub const OPTIONS: Options = Options::new(SPECS);

const ACTIONS: [&str; 6] = [
    "list",
    "describe",
    "delete",
    "reset-offsets",
    "delete-offsets",
    "validate-regex",
];

/// How offsets are reset, in the order in which Java's messages name them.
pub const SCENARIOS: [&str; 8] = [
    "to-datetime",
    "by-duration",
    "to-latest",
    "to-current",
    "to-earliest",
    "to-offset",
    "shift-by",
    "from-file",
];

const NO_EXECUTE: &str = "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are scripting this command and want to keep the current default behavior without prompting.\n";

/// Why the command line is refused.
#[derive(Debug)]
pub enum Refusal {
    Stop(Stop),
    /// Escapes `main` in Java.
    Uncaught(Exception),
}

fn usage(text: impl Into<String>) -> Refusal {
    Refusal::Stop(Stop::Usage(text.into()))
}

/// Parses the command line and checks which options go together.
pub fn parse<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Parsed, Refusal> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let nothing = arguments.is_empty();
    let parsed = OPTIONS
        .parse(arguments)
        .map_err(|e| Refusal::Uncaught(Exception::new(e.exception(), e.to_string())))?;
    if nothing || parsed.has("help") {
        return Err(usage(
            "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset consumer group offsets.",
        ));
    }
    if parsed.has("version") {
        return Err(Refusal::Stop(Stop::Version));
    }
    check(&parsed).map_err(usage)?;
    if ACTIONS.iter().filter(|action| parsed.has(action)).count() != 1 {
        return Err(usage(format!(
            "Command must include exactly one action: {}",
            ACTIONS.map(|action| format!("--{action}")).join(", ")
        )));
    }
    Ok(parsed)
}

fn check(parsed: &Parsed) -> Result<(), String> {
    if !parsed.has("validate-regex") {
        parsed.require(&["bootstrap-server"])?;
    }
    let scoped = parsed.has("group") || parsed.has("all-groups");
    let needs_scope = |action: &str| {
        if scoped {
            return Ok(());
        }
        Err(format!(
            "Option [{action}] takes one of these options: [group], [all-groups]"
        ))
    };
    if parsed.has("describe") {
        needs_scope("describe")?;
        let views = ["members", "offsets", "state"];
        if views.iter().filter(|view| parsed.has(view)).count() > 1 {
            return Err(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
                    .into(),
            );
        }
        if parsed.has_argument("state") {
            return Err("Option [describe] does not take a value for [state]".into());
        }
    }
    if parsed.has("delete") {
        needs_scope("delete")?;
        if parsed.has("topic") {
            return Err(
                "The consumer does not support topic-specific offset deletion from a consumer group."
                    .into(),
            );
        }
    }
    if parsed.has("delete-offsets") && !(parsed.has("group") && parsed.has("topic")) {
        return Err("Option [delete-offsets] takes the following options: [group], [topic]".into());
    }
    if parsed.has("reset-offsets") {
        if parsed.has("dry-run") && parsed.has("execute") {
            return Err(
                "Option [reset-offsets] only accepts one of [execute] and [dry-run]".into(),
            );
        }
        if !parsed.has("dry-run") && !parsed.has("execute") {
            output::error(NO_EXECUTE);
        }
        needs_scope("reset-offsets")?;
        for scenario in [
            "to-offset",
            "to-datetime",
            "by-duration",
            "to-earliest",
            "to-latest",
            "to-current",
            "shift-by",
            "from-file",
        ] {
            parsed.forbid(scenario, &without(&SCENARIOS, &[scenario]))?;
        }
    }
    const GROUP_ACTIONS: [&str; 4] = ["list", "describe", "delete", "reset-offsets"];
    parsed.forbid("group", &["all-groups"])?;
    parsed.forbid(
        "group",
        &without(&GROUP_ACTIONS, &["describe", "delete", "reset-offsets"]),
    )?;
    parsed.forbid(
        "topic",
        &without(&GROUP_ACTIONS, &["delete", "reset-offsets"]),
    )
}

fn without<'a>(all: &[&'a str], left_out: &[&str]) -> Vec<&'a str> {
    all.iter()
        .copied()
        .filter(|name| !left_out.contains(name))
        .collect()
}
