//! The subcommands of kafka-features and their options.
//! Not here: what they do. Pure data, read once at start.
//! Kafka: FeatureCommand.execute.

use crate::args::argparse::{self, Arg, Command};
use crate::json;

const PROGRAM: &str = "kafka-features";

pub const ROOT: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-features [-h] [--command-config COMMAND_CONFIG]
                      [--bootstrap-server BOOTSTRAP_SERVER |
                      --bootstrap-controller BOOTSTRAP_CONTROLLER]
                      {describe,upgrade,downgrade,disable,version-mapping,feature-dependencies}
                      ...",
    args: &[
        Arg::option(
            &["--bootstrap-server"],
            "BOOTSTRAP_SERVER",
            "Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
        )
        .group(1),
        Arg::option(
            &["--bootstrap-controller"],
            "BOOTSTRAP_CONTROLLER",
            "Controllers to ask in place of brokers.",
        )
        .group(1),
        Arg::option(
            &["--command-config"],
            "COMMAND_CONFIG",
            "File with settings of the client.",
        ),
    ],
};

/// In the order of the usage.
pub const SUBCOMMANDS: [(&str, &str); 6] = [
    (
        "describe",
        "Shows the features of the cluster and their levels.",
    ),
    ("upgrade", "Raises levels."),
    ("downgrade", "Lowers levels."),
    ("disable", "Lowers levels to 0."),
    (
        "version-mapping",
        "Shows the levels of all features that go with a metadata version, by default the newest.",
    ),
    (
        "feature-dependencies",
        "Shows which other features a level of a feature needs.",
    ),
];

const METADATA: Arg = Arg::option(
    &["--metadata"],
    "METADATA",
    "The metadata version, as 3.3-IV3. Deprecated: --release-version and --feature metadata.version=level say it, too.",
);
const RELEASE_VERSION: Arg = Arg::option(
    &["--release-version"],
    "RELEASE_VERSION",
    "The release whose levels all features are to have, as 4.3-IV0; version-mapping shows them.",
);
const FEATURE: Arg = Arg::option(
    &["--feature"],
    "FEATURE",
    "A feature and its level, as name=level; may be repeated.",
);
const UNSAFE: Arg = Arg::flag(&["--unsafe"], "Does it even if metadata is lost by it.");
const DRY_RUN: Arg = Arg::flag(
    &["--dry-run"],
    "Says whether it could be done, and does not do it.",
);
const OUTPUT: Arg = Arg::option(&["--output"], "OUTPUT", json::OUTPUT.description);

pub const DESCRIBE: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-features describe [-h] [--node-id NODE_ID]",
    args: &[
        Arg::option(
            &["--node-id"],
            "NODE_ID",
            "The node to ask; any when not given.",
        ),
        OUTPUT,
    ],
};

pub const UPGRADE: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-features upgrade [-h] [--metadata METADATA]
                      [--release-version RELEASE_VERSION]
                      [--feature FEATURE] [--dry-run]",
    args: &[METADATA, RELEASE_VERSION, FEATURE, DRY_RUN, OUTPUT],
};

pub const DOWNGRADE: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-features downgrade [-h] [--metadata METADATA]
                      [--release-version RELEASE_VERSION]
                      [--feature FEATURE] [--unsafe] [--dry-run]",
    args: &[METADATA, RELEASE_VERSION, FEATURE, UNSAFE, DRY_RUN, OUTPUT],
};

pub const DISABLE: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-features disable [-h] [--feature FEATURE] [--unsafe]
                      [--dry-run]",
    args: &[
        Arg::option(&["--feature"], "FEATURE", "The feature; may be repeated."),
        UNSAFE,
        DRY_RUN,
        OUTPUT,
    ],
};

pub const VERSION_MAPPING: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-features version-mapping [-h]
                      [--release-version RELEASE_VERSION]",
    args: &[RELEASE_VERSION],
};

pub const FEATURE_DEPENDENCIES: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-features feature-dependencies [-h] --feature FEATURE",
    args: &[FEATURE.required()],
};

/// `kafka-features -h`.
pub fn help() -> String {
    let mut out = format!(
        "{}\n\nShows and changes the levels of features.\n\n{}\noptional arguments:\n{}",
        ROOT.usage,
        argparse::subcommands(&SUBCOMMANDS),
        argparse::entry("-h, --help", "show this help message and exit")
    );
    for arg in ROOT.args {
        out.push_str(&arg.entry());
    }
    out
}
