//! The subcommands of kafka-storage and their options.
//! Not here: what they do. Pure data, read once at start.
//! Kafka: kafka.tools.StorageTool.parseArguments.

use crate::args::argparse::{self, Arg, Command};

const PROGRAM: &str = "kafka-storage";

pub const ROOT: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-storage [-h]
                     {info,format,version-mapping,feature-dependencies,random-uuid}
                     ...",
    args: &[],
};

/// In the order of the usage.
pub const SUBCOMMANDS: [(&str, &str); 5] = [
    (
        "info",
        "Shows what the log directories of this node say of themselves.",
    ),
    ("format", "Makes log directories ready for a node."),
    (
        "version-mapping",
        "Shows the levels of all features that go with a metadata version, by default the newest.",
    ),
    (
        "feature-dependencies",
        "Shows which other features a level of a feature needs.",
    ),
    (
        "random-uuid",
        "Prints a random id, for a cluster or a directory.",
    ),
];

const CONFIG: Arg = Arg::option(
    &["--config", "-c"],
    "CONFIG",
    "The properties file of the server.",
)
.required();

pub const INFO: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-storage info [-h] --config CONFIG",
    args: &[CONFIG],
};

pub const FORMAT: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-storage format [-h] --config CONFIG --cluster-id CLUSTER_ID
                     [--add-scram ADD_SCRAM] [--ignore-formatted]
                     [--release-version RELEASE_VERSION]
                     [--feature FEATURE] [--standalone |
                     --no-initial-controllers |
                     --initial-controllers INITIAL_CONTROLLERS]",
    args: &[
        CONFIG,
        Arg::option(&["--cluster-id", "-t"], "CLUSTER_ID", "The id of the cluster that the directories are for; the same on every node.").required(),
        Arg::option(&["--add-scram", "-S"], "ADD_SCRAM", "A SCRAM credential to begin with. Not supported yet."),
        Arg::flag(&["--ignore-formatted", "-g"], "Formats the directories that are not formatted yet, instead of refusing when some are."),
        Arg::option(&["--release-version", "-r"], "RELEASE_VERSION", "The release whose metadata version and features a new cluster begins with, from 3.3-IV3 on; 4.3-IV0 by default."),
        Arg::option(&["--feature", "-f"], "FEATURE", "The level of one feature that a new cluster begins with, as name=level; may be repeated."),
        Arg::flag(&["--standalone", "-s"], "This node alone is the quorum, to which others may be added. Needs controller.quorum.bootstrap.servers in place of controller.quorum.voters.").group(1),
        Arg::flag(&["--no-initial-controllers", "-N"], "This node learns the quorum from the others.").group(1),
        Arg::option(&["--initial-controllers", "-I"], "INITIAL_CONTROLLERS", "The nodes of the quorum as id@host:port:directory, with commas between; the same on every node.").group(1),
    ],
};

pub const VERSION_MAPPING: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-storage version-mapping [-h]
                     [--release-version RELEASE_VERSION]",
    args: &[Arg::option(
        &["--release-version", "-r"],
        "RELEASE_VERSION",
        "The release to show, from 3.3-IV3 on; 4.3-IV0 by default.",
    )],
};

pub const FEATURE_DEPENDENCIES: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-storage feature-dependencies [-h] --feature FEATURE",
    args: &[Arg::option(
        &["--feature", "-f"],
        "FEATURE",
        "A feature and its level, as name=level; may be repeated.",
    )
    .required()],
};

pub const RANDOM_UUID: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-storage random-uuid [-h]",
    args: &[],
};

/// `kafka-storage -h`.
pub fn help() -> String {
    let mut out = format!(
        "{}\n\nMakes a node's log directories ready, and looks at them.\n\npositional arguments:\n  {{info,format,version-mapping,feature-dependencies,random-uuid}}\n",
        ROOT.usage
    );
    for (name, description) in SUBCOMMANDS {
        out.push_str(&argparse::entry(&format!("  {name}"), description));
    }
    out.push_str("\noptional arguments:\n");
    out.push_str(&argparse::entry(
        "-h, --help",
        "show this help message and exit",
    ));
    out.push_str(&argparse::entry("--version", "show the version and exit"));
    out
}
