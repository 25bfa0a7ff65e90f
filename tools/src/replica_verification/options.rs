//! The options of kafka-replica-verification and what they ask for.
//! Not here: the verification (the parent module).
//! Pure. Kafka: ReplicaVerificationTool.ReplicaVerificationToolOptions.

use crate::args::{ArgumentError, Kind, Options, Spec, flag, option};
use crate::exit::Stop;
use crate::java::Failure;
use crate::topics::plan::IncludeList;
use kavka_client::BrokerAddress;
use kavka_client::admin::offsets::OffsetSpec;
use std::ffi::OsString;

const SPECS: &[Spec] = &[
    option(
        &["broker-list"],
        Kind::String,
        "hostname:port,...,hostname:port",
        "REQUIRED: Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
    ),
    option(
        &["fetch-size"],
        Kind::Integer,
        "bytes",
        "How much of a partition is read at once.",
    )
    .default("1048576"),
    option(
        &["max-wait-ms"],
        Kind::Integer,
        "ms",
        "How long a broker waits for new records.",
    )
    .default("1000"),
    option(
        &["topics-include"],
        Kind::String,
        "Java regex (String)",
        "The topics to verify; a regular expression that the whole name matches, with commas between alternatives.",
    )
    .default(".*"),
    option(
        &["time"],
        Kind::Long,
        "timestamp/-1(latest)/-2(earliest)",
        "Where to begin: a time in ms, or an end of the log.",
    )
    .default("-1"),
    option(
        &["report-interval-ms"],
        Kind::Long,
        "ms",
        "How often to say how far the comparison is.",
    )
    .default("30000"),
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

pub const OPTIONS: Options = Options::new(SPECS);
const PURPOSE: &str = "Validate that all replicas for a set of topics have the same data.";

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
#[derive(Clone, Debug)]
pub struct Plan {
    pub servers: String,
    pub fetch_bytes: i32,
    pub max_wait_ms: i32,
    pub topics: IncludeList,
    pub begin: OffsetSpec,
    pub report_ms: i64,
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
    parsed.require(&["broker-list"]).map_err(usage)?;
    let servers = parsed.value("broker-list")?.unwrap_or_default();
    if BrokerAddress::parse_list(servers).is_err() {
        return Err(usage(
            "Please provide valid host:port like host1:9091,host2:9092\n ".into(),
        ));
    }
    let topics = parsed.value("topics-include")?.unwrap_or_default();
    Ok(Plan {
        servers: servers.to_owned(),
        fetch_bytes: parsed.int("fetch-size")?.unwrap_or_default(),
        max_wait_ms: parsed.int("max-wait-ms")?.unwrap_or_default(),
        topics: IncludeList::new(topics).map_err(|exception| Refusal::Escaped(exception.into()))?,
        begin: match parsed.long("time")?.unwrap_or_default() {
            -1 => OffsetSpec::Latest,
            -2 => OffsetSpec::Earliest,
            time => OffsetSpec::Timestamp(time),
        },
        report_ms: parsed.long("report-interval-ms")?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Plan, Refusal> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn defaults_and_values() {
        let plan = parsed("--broker-list b:1").unwrap();
        assert_eq!(
            (plan.fetch_bytes, plan.max_wait_ms, plan.report_ms),
            (1_048_576, 1000, 30_000)
        );
        assert_eq!(plan.begin, OffsetSpec::Latest);
        assert!(plan.topics.matches("anything"));
        let plan = parsed("--broker-list b:1 --topics-include t,u --time -2").unwrap();
        assert_eq!(plan.begin, OffsetSpec::Earliest);
        assert!(plan.topics.matches("u") && !plan.topics.matches("v"));
    }

    #[test]
    fn refusals() {
        for (line, told) in [
            ("", PURPOSE),
            ("--time 1", "Missing required argument \"[broker-list]\""),
            (
                "--broker-list nohost",
                "Please provide valid host:port like host1:9091,host2:9092\n ",
            ),
        ] {
            let Err(Refusal::Stop(Stop::Usage(text))) = parsed(line) else {
                panic!("{line}")
            };
            assert_eq!(text, told);
        }
        assert!(matches!(
            parsed("--broker-list b:1 --topics-include ("),
            Err(Refusal::Escaped(_))
        ));
    }
}
