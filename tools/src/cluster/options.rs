//! The subcommands of kafka-cluster and their options.
//! Not here: what they do. Pure data, read once at start.
//! Kafka: ClusterTool.execute.

use crate::args::argparse::{self, Arg, Command};
use crate::json;

const PROGRAM: &str = "kafka-cluster";

pub const ROOT: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...",
    args: &[],
};

/// In the order of the usage.
pub const SUBCOMMANDS: [(&str, &str); 3] = [
    ("cluster-id", "Shows the id of a cluster."),
    ("unregister", "Has the controllers forget a broker."),
    (
        "list-endpoints",
        "Shows where brokers or controllers are reached.",
    ),
];

const SERVER: Arg = Arg::option(
    &["--bootstrap-server", "-b"],
    "BOOTSTRAP_SERVER",
    "Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
)
.group(1)
.required();
const CONTROLLER: Arg = Arg::option(
    &["--bootstrap-controller", "-C"],
    "BOOTSTRAP_CONTROLLER",
    "Controllers to ask in place of brokers.",
)
.group(1)
.required();
const CONFIG: Arg = Arg::option(
    &["--config"],
    "CONFIG",
    "The earlier name of --command-config.",
);
const COMMAND_CONFIG: Arg = Arg::option(
    &["--command-config", "-c"],
    "COMMAND_CONFIG",
    "File with settings of the client.",
);
const OUTPUT: Arg = Arg::option(&["--output"], "OUTPUT", json::OUTPUT.description);

pub const CLUSTER_ID: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-cluster cluster-id [-h] [--config CONFIG]
                     [--command-config COMMAND_CONFIG]
                     (--bootstrap-server BOOTSTRAP_SERVER |
                     --bootstrap-controller BOOTSTRAP_CONTROLLER)",
    args: &[SERVER, CONTROLLER, CONFIG, COMMAND_CONFIG, OUTPUT],
};

pub const UNREGISTER: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-cluster unregister [-h] [--config CONFIG]
                     [--command-config COMMAND_CONFIG] --id ID
                     (--bootstrap-server BOOTSTRAP_SERVER |
                     --bootstrap-controller BOOTSTRAP_CONTROLLER)",
    args: &[
        SERVER,
        CONTROLLER,
        CONFIG,
        COMMAND_CONFIG,
        Arg::option(&["--id", "-i"], "ID", "The id of the broker to forget.").required(),
        OUTPUT,
    ],
};

pub const LIST_ENDPOINTS: Command = Command {
    program: PROGRAM,
    usage: "usage: kafka-cluster list-endpoints [-h] [--config CONFIG]
                     [--command-config COMMAND_CONFIG]
                     [--include-fenced-brokers]
                     (--bootstrap-server BOOTSTRAP_SERVER |
                     --bootstrap-controller BOOTSTRAP_CONTROLLER)",
    args: &[
        SERVER,
        CONTROLLER,
        CONFIG,
        COMMAND_CONFIG,
        Arg::flag(
            &["--include-fenced-brokers"],
            "Shows brokers that are registered but not alive, too.",
        ),
        OUTPUT,
    ],
};

/// `kafka-cluster -h`.
pub fn help() -> String {
    format!(
        "{}\n\nLooks at a cluster and forgets brokers.\n\n{}\noptional arguments:\n{}",
        ROOT.usage,
        argparse::subcommands(&SUBCOMMANDS),
        argparse::entry("-h, --help", "show this help message and exit")
    )
}
