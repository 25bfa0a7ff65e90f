//! The subcommands of kafka-metadata-quorum and their options.
//! Not here: what they do. Pure data, read once at start.
//! Kafka: MetadataQuorumCommand.execute.

use crate::args::argparse::{self, Arg, Command};
use crate::json;

const PROGRAM: &str = "kafka-metadata-quorum";

pub const ROOT: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-metadata-quorum [-h] [--command-config COMMAND_CONFIG]
                             (--bootstrap-server BOOTSTRAP_SERVER |
                             --bootstrap-controller BOOTSTRAP_CONTROLLER)
                             {describe,add-controller,remove-controller}
                             ...",
    args: &[
        Arg::option(
            &["--bootstrap-server"],
            "BOOTSTRAP_SERVER",
            "Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
        )
        .group(1)
        .required(),
        Arg::option(
            &["--bootstrap-controller"],
            "BOOTSTRAP_CONTROLLER",
            "Controllers to ask in place of brokers.",
        )
        .group(1)
        .required(),
        Arg::option(
            &["--command-config"],
            "COMMAND_CONFIG",
            "File with settings of the client; for add-controller, that of the controller to add.",
        ),
    ],
};

/// In the order of the usage.
pub const SUBCOMMANDS: [(&str, &str); 3] = [
    (
        "describe",
        "Shows who is in the quorum and how far each is.",
    ),
    ("add-controller", "Gives a controller a vote."),
    ("remove-controller", "Takes a controller's vote away."),
];

const DRY_RUN: Arg = Arg::flag(
    &["--dry-run"],
    "Says what would be done, and does not do it.",
);

pub const DESCRIBE: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-metadata-quorum (--bootstrap-server BOOTSTRAP_SERVER |
                             --bootstrap-controller BOOTSTRAP_CONTROLLER)
                             describe [-h] [--status] [--replication]
                             [--human-readable]",
    args: &[
        Arg::flag(&["--status"], "The leader, its epoch, and the members."),
        Arg::flag(&["--replication"], "How far each member is."),
        Arg::flag(
            &["--human-readable"],
            "With --replication: how long ago, in place of times.",
        ),
        Arg::option(&["--output"], "OUTPUT", json::OUTPUT.description),
    ],
};

pub const ADD_CONTROLLER: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-metadata-quorum (--bootstrap-server BOOTSTRAP_SERVER |
                             --bootstrap-controller BOOTSTRAP_CONTROLLER)
                             add-controller [-h] [--dry-run]",
    args: &[DRY_RUN],
};

pub const REMOVE_CONTROLLER: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-metadata-quorum (--bootstrap-server BOOTSTRAP_SERVER |
                             --bootstrap-controller BOOTSTRAP_CONTROLLER)
                             remove-controller [-h]
                             --controller-id CONTROLLER_ID
                             --controller-directory-id CONTROLLER_DIRECTORY_ID
                             [--dry-run]",
    args: &[
        Arg::option(
            &["--controller-id", "-i"],
            "CONTROLLER_ID",
            "The id of the controller.",
        )
        .required(),
        Arg::option(
            &["--controller-directory-id", "-d"],
            "CONTROLLER_DIRECTORY_ID",
            "The id of its directory; describe --replication shows it.",
        )
        .required(),
        DRY_RUN,
    ],
};

/// `kafka-metadata-quorum -h`.
pub fn help() -> String {
    let mut out = format!(
        "{}\n\nShows and changes the quorum of controllers.\n\n{}\noptional arguments:\n{}",
        ROOT.usage,
        argparse::subcommands(&SUBCOMMANDS),
        argparse::entry("-h, --help", "show this help message and exit")
    );
    for arg in ROOT.args {
        out.push_str(&arg.entry());
    }
    out
}
