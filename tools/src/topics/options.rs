//! The options of kafka-topics, from 2.x to 4.x, and which of them go together.
//! Not here: what their values mean (plan).
//! Pure; runs before anything is connected. Kafka: org.apache.kafka.tools.TopicCommand.TopicCommandOptions.

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
        "REQUIRED unless --zookeeper is given: Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
    ),
    option(
        &["zookeeper"],
        Kind::String,
        "hosts",
        "The 2.x way: the port of zookeeper-server-start, HOST1:PORT1,HOST2:PORT2; prints as 2.x did.",
    ),
    option(
        &["command-config"],
        Kind::String,
        "command config property file",
        "File with settings of the client.",
    ),
    flag(&["list"], "Show the names of topics."),
    flag(&["create"], "Create a topic."),
    flag(&["delete"], "Delete topics."),
    flag(
        &["alter"],
        "Add partitions to topics, and choose their replicas. Other settings are changed with kafka-configs (with --zookeeper here, too).",
    ),
    flag(
        &["describe"],
        "Show topics with their partitions, replicas and settings.",
    ),
    option(
        &["topic"],
        Kind::String,
        "topic",
        "The topic; a regular expression that the whole name matches, except for --create. Commas separate alternatives.",
    ),
    option(
        &["topic-id"],
        Kind::String,
        "topic-id",
        "The id of the topic to describe.",
    ),
    option(&["config"], Kind::String, "name=value", CONFIG),
    option(
        &["delete-config"],
        Kind::String,
        "name",
        "With --zookeeper: a setting of the topic to take back. Has no effect otherwise.",
    ),
    option(
        &["partitions"],
        Kind::Integer,
        "# of partitions",
        "How many partitions the topic is to have; the broker's default when it is created without. WARNING: more partitions change which one a key belongs to.",
    ),
    option(
        &["replication-factor"],
        Kind::Integer,
        "replication factor",
        "How many replicas each partition is to have; the broker's default when not given.",
    ),
    option(
        &["replica-assignment"],
        Kind::String,
        "broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , broker_id_for_part2_replica1 : broker_id_for_part2_replica2 , ...",
        "The brokers of each partition's replicas, in place of the two numbers.",
    ),
    flag(
        &["under-replicated-partitions"],
        "With --describe: only partitions that lack a replica in sync.",
    ),
    flag(
        &["unavailable-partitions"],
        "With --describe: only partitions without a living leader.",
    ),
    flag(
        &["under-min-isr-partitions"],
        "With --describe: only partitions with fewer replicas in sync than min.insync.replicas.",
    ),
    flag(
        &["at-min-isr-partitions"],
        "With --describe: only partitions with just min.insync.replicas replicas in sync.",
    ),
    flag(
        &["topics-with-overrides"],
        "With --describe: only topics with settings of their own, without partitions.",
    ),
    flag(
        &["if-exists"],
        "With --alter, --delete and --describe: a topic that is missing is no error.",
    ),
    flag(
        &["if-not-exists"],
        "With --create: a topic that is there already is no error.",
    ),
    flag(
        &["exclude-internal"],
        "With --list and --describe: leave out topics that Kafka made for itself.",
    ),
    option(
        &["partition-size-limit-per-response"],
        Kind::Integer,
        "maximum number of partitions per response",
        "How many partitions one answer to --describe may hold.",
    ),
    flag(&["force"], "Of 2.x; nothing is asked anyway."),
    flag(&["disable-rack-aware"], "Of 2.x; the controller decides."),
    json::OUTPUT,
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

const CONFIG: &str = "A setting of the topic that is created; may be repeated. Known are:
\tcleanup.policy
\tcompression.gzip.level
\tcompression.lz4.level
\tcompression.type
\tcompression.zstd.level
\tdelete.retention.ms
\tfile.delete.delay.ms
\tflush.messages
\tflush.ms
\tfollower.replication.throttled.replicas
\tindex.interval.bytes
\tleader.replication.throttled.replicas
\tlocal.retention.bytes
\tlocal.retention.ms
\tmax.compaction.lag.ms
\tmax.message.bytes
\tmessage.timestamp.after.max.ms
\tmessage.timestamp.before.max.ms
\tmessage.timestamp.type
\tmin.cleanable.dirty.ratio
\tmin.compaction.lag.ms
\tmin.insync.replicas
\tpreallocate
\tremote.log.copy.disable
\tremote.log.delete.on.disable
\tremote.storage.enable
\tretention.bytes
\tretention.ms
\tsegment.bytes
\tsegment.index.bytes
\tsegment.jitter.ms
\tsegment.ms
\tunclean.leader.election.enable
Settings of a topic that exists are changed with kafka-configs.";

pub const OPTIONS: Options = Options::new(SPECS);

const ACTIONS: [&str; 5] = ["create", "list", "alter", "describe", "delete"];
const TWO_ADDRESSES: &str = "Only one of --bootstrap-server or --zookeeper must be specified";

/// Why the command line is refused.
#[derive(Debug)]
pub enum Refusal {
    Stop(Stop),
    /// Escapes `main` in Java: message, then trace.
    Exception(Exception),
    /// Escaped `main` in 2.x.
    Uncaught(Exception),
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Refusal {
        Refusal::Stop(stop)
    }
}

fn usage(text: String) -> Refusal {
    Refusal::Stop(Stop::Usage(text))
}

/// Parses the command line and checks which options go together.
pub fn parse<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Parsed, Refusal> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let nothing = arguments.is_empty();
    let two_x = arguments
        .iter()
        .any(|a| a.to_str().is_some_and(|a| a.starts_with("--zookeeper")));
    let parsed = OPTIONS.parse(arguments).map_err(|e| {
        let exception = Exception::new(e.exception(), e.to_string());
        if two_x {
            Refusal::Uncaught(exception)
        } else {
            Refusal::Exception(exception)
        }
    })?;
    if nothing {
        return Err(usage("Create, delete, describe, or change a topic.".into()));
    }
    if parsed.has("help") {
        return Err(usage(
            "This tool helps to create, delete, describe, or change a topic.".into(),
        ));
    }
    if parsed.has("version") {
        return Err(Stop::Version.into());
    }
    let actions = ACTIONS.iter().filter(|action| parsed.has(action)).count();
    if actions != 1 {
        return Err(usage("Command must include exactly one action: --list, --describe, --create, --alter or --delete".into()));
    }
    match (parsed.has("bootstrap-server"), parsed.has("zookeeper")) {
        (true, true) => {
            return Err(Refusal::Uncaught(Exception::illegal_argument(
                TWO_ADDRESSES,
            )));
        }
        (false, false) => {
            return Err(Refusal::Exception(Exception::illegal_argument(
                "--bootstrap-server must be specified",
            )));
        }
        (true, false) => check_required(&parsed)?,
        (false, true) => check_required_2x(&parsed)?,
    }
    check_combinations(&parsed).map_err(usage)?;
    Ok(parsed)
}

fn check_required(parsed: &Parsed) -> Result<(), Refusal> {
    if parsed.has("delete-config") {
        output::error(
            "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed in future releases.\n",
        );
    }
    let named = parsed.has("topic") || parsed.has("topic-id");
    if parsed.has("describe") && parsed.has("if-exists") && !named {
        return Err(usage(
            "--topic or --topic-id is required to describe a topic".into(),
        ));
    }
    if parsed.has("topic") && parsed.has("topic-id") {
        output::print(
            "Only topic id will be used when both --topic and --topic-id are specified and topicId is not Uuid.ZERO_UUID\n",
        );
    }
    if !parsed.has("list") && !parsed.has("describe") {
        parsed.require(&["topic"]).map_err(usage)?;
    }
    if parsed.has("alter") {
        if parsed.has("config") {
            return Err(usage(
                "Option combination \"[[config], [bootstrap-server]]\" can't be used with option \"[alter]\" (To alter topic configurations, the kafka-configs tool can be used.)".into(),
            ));
        }
        parsed.require(&["partitions"]).map_err(usage)?;
    }
    Ok(())
}

/// 2.x by ZooKeeper: numbers must be given, settings may be altered.
fn check_required_2x(parsed: &Parsed) -> Result<(), Refusal> {
    if !parsed.has("list") && !parsed.has("describe") {
        parsed.require(&["topic"]).map_err(usage)?;
    }
    if parsed.has("create") && !parsed.has("replica-assignment") {
        parsed
            .require(&["partitions", "replication-factor"])
            .map_err(usage)?;
    }
    Ok(())
}

fn check_combinations(parsed: &Parsed) -> Result<(), String> {
    // An option of one or more actions is refused with the others.
    let only_with = |option: &str, actions: &[&str]| {
        let others: Vec<&str> = ACTIONS
            .into_iter()
            .filter(|action| !actions.contains(action))
            .collect();
        parsed.forbid(option, &others)
    };
    only_with("config", &["alter", "create"])?;
    only_with("partitions", &["alter", "create"])?;
    only_with("replication-factor", &["create"])?;
    only_with("replica-assignment", &["alter", "create"])?;
    if parsed.has("create") {
        parsed.forbid("replica-assignment", &["partitions", "replication-factor"])?;
    }
    const REPORTS: [&str; 4] = [
        "under-replicated-partitions",
        "under-min-isr-partitions",
        "at-min-isr-partitions",
        "unavailable-partitions",
    ];
    for report in REPORTS {
        only_with(report, &["describe"])?;
        parsed.forbid(report, &["topics-with-overrides"])?;
    }
    only_with("topics-with-overrides", &["describe"])?;
    parsed.forbid("topics-with-overrides", &REPORTS)?;
    only_with("if-exists", &["alter", "delete", "describe"])?;
    only_with("if-not-exists", &["create"])?;
    only_with("exclude-internal", &["list", "describe"])
}
