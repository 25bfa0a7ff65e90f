//! kafka-broker-api-versions: which APIs each broker serves, and which version of them this client would speak.
//! Not here: asking (kavka-client).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.BrokerApiVersionsCommand, NodeApiVersions.toString; KIP-35.

use crate::args::{ArgumentError, Kind, Options, Parsed, Spec, flag, option};
use crate::exit::{self, Stop};
use crate::java::{Exception, Failure};
use crate::json::{self, Format};
use crate::output;
use crate::session::{BOOTSTRAP_SERVER, Session};
use crate::table::{Align, Table};
use kavka_client::ClientError;
use kavka_client::admin::ItemResult;
use kavka_client::admin::nodes::{self, Broker};
use kavka_protocol::ApiKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

const SPECS: &[Spec] = &[
    option(
        &["command-config"],
        Kind::String,
        "command config property file",
        "File with settings of the client.",
    ),
    option(
        &[BOOTSTRAP_SERVER],
        Kind::String,
        "server(s) to use for bootstrapping",
        "REQUIRED: Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
    ),
    json::OUTPUT,
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

const OPTIONS: Options = Options::new(SPECS);
const PURPOSE: &str = "This tool helps to retrieve broker version information.";

/// Why the command line is refused.
#[derive(Debug)]
enum Refusal {
    Stop(Stop),
    Escaped(Failure),
}

impl From<ArgumentError> for Refusal {
    fn from(error: ArgumentError) -> Refusal {
        Refusal::Escaped(error.into())
    }
}

/// The APIs of one broker: key, lowest and highest version.
type Served = Vec<(i16, i16, i16)>;

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let (parsed, format) = match parse(arguments.into_iter().skip(1)) {
        Ok(parsed) => parsed,
        Err(Refusal::Stop(stop)) => return stop.report(&OPTIONS),
        Err(Refusal::Escaped(failure)) => return exit::escaped(&failure),
    };
    let (servers, mut session) = match open(&parsed) {
        Ok(opened) => opened,
        Err(failure) => return exit::escaped(&failure),
    };
    let found = session.run(async |cluster| {
        let mut brokers = nodes::live_brokers(cluster).await?;
        brokers.sort_by_key(|broker| broker.id);
        let mut found: Vec<(Broker, ItemResult<Served>)> = Vec::with_capacity(brokers.len());
        for broker in brokers {
            let served = nodes::api_versions(cluster, broker.id).await;
            found.push((broker, served));
        }
        Ok::<_, ClientError>(found)
    });
    match found {
        Ok(found) => {
            output::print(&match format {
                Format::Text => found.iter().map(text).collect(),
                Format::Table => table(&found),
                Format::Json => json::document(&document(&found)),
            });
            ExitCode::SUCCESS
        }
        Err(error) => {
            let nodes: Vec<String> = servers
                .split(',')
                .enumerate()
                .map(|(at, server)| {
                    format!("{server} (id: -{} rack: null isFenced: false)", at + 1)
                })
                .collect();
            let text = format!("Request METADATA failed on brokers [{}]", nodes.join(", "));
            let code = exit::escaped(&Exception::new("java.lang.RuntimeException", text).into());
            session.explain(&error);
            code
        }
    }
}

fn parse<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<(Parsed, Format), Refusal> {
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
    parsed.require(&[BOOTSTRAP_SERVER]).map_err(usage)?;
    let format = Format::parse(parsed.value("output")?).map_err(usage)?;
    Ok((parsed, format))
}

fn open(parsed: &Parsed) -> Result<(String, Session), Failure> {
    let servers = parsed.value(BOOTSTRAP_SERVER)?.unwrap_or_default();
    let config = parsed.value("command-config")?;
    let session = Session::open(servers, BOOTSTRAP_SERVER, config)?;
    Ok((servers.to_owned(), session))
}

fn api(key: i16) -> Option<ApiKey> {
    ApiKey::ALL.into_iter().find(|api| api.code() == key)
}

/// The highest version that both sides know; `None`: there is none, or the API is unknown to us.
fn usable(key: i16, min: i16, max: i16) -> Option<i16> {
    let ours = api(key)?.versions()?;
    let version = max.min(*ours.end());
    (version >= min && version >= *ours.start()).then_some(version)
}

/// `0 to 3`, or `0` where both are the same.
fn range(min: i16, max: i16) -> String {
    if min == max {
        min.to_string()
    } else {
        format!("{min} to {max}")
    }
}

fn line(key: i16, served: Option<(i16, i16)>) -> String {
    let name = api(key).map_or("UNKNOWN", ApiKey::name);
    let Some((min, max)) = served else {
        return format!("{name}({key}): UNSUPPORTED");
    };
    let mut line = format!("{name}({key}): {}", range(min, max));
    if let Some(ours) = api(key).and_then(ApiKey::versions) {
        line.push_str(&match usable(key, min, max) {
            Some(version) => format!(" [usable: {version}]"),
            None if *ours.end() < min => " [unusable: node too new]".to_owned(),
            None => " [unusable: node too old]".to_owned(),
        });
    }
    line
}

/// What a broker serves, with what it does not of those that brokers are there for.
fn rows(served: &Served) -> BTreeMap<i16, Option<(i16, i16)>> {
    let mut rows: BTreeMap<i16, Option<(i16, i16)>> = ApiKey::ALL
        .into_iter()
        .filter(|api| api.on_broker() && api.versions().is_some())
        .map(|api| (api.code(), None))
        .collect();
    rows.extend(
        served
            .iter()
            .map(|(key, min, max)| (*key, Some((*min, *max)))),
    );
    rows
}

/// Apache's lines for one broker.
fn text((broker, served): &(Broker, ItemResult<Served>)) -> String {
    let rack = broker.rack.as_deref().unwrap_or("null");
    let node = format!(
        "{} (id: {} rack: {rack} isFenced: false)",
        broker.address, broker.id
    );
    match served {
        Ok(served) => {
            let lines: Vec<String> = rows(served)
                .into_iter()
                .map(|(key, served)| format!("\t{}", line(key, served)))
                .collect();
            format!("{node} -> (\n{}\n)\n", lines.join(",\n"))
        }
        Err(error) => format!("{node} -> ERROR: {}\n", Exception::from(error).trace()),
    }
}

fn table(found: &[(Broker, ItemResult<Served>)]) -> String {
    let mut table = Table::new(&[
        ("broker", Align::Right),
        ("api", Align::Left),
        ("key", Align::Right),
        ("versions", Align::Left),
        ("usable", Align::Right),
    ]);
    for (broker, served) in found {
        let Ok(served) = served else {
            continue;
        };
        for (key, served) in rows(served) {
            let (versions, version) = match served {
                Some((min, max)) => (range(min, max), usable(key, min, max)),
                None => ("unsupported".to_owned(), None),
            };
            table.row(vec![
                broker.id.to_string(),
                api(key).map_or("UNKNOWN", ApiKey::name).to_owned(),
                key.to_string(),
                versions,
                version
                    .map(|version| version.to_string())
                    .unwrap_or_default(),
            ]);
        }
    }
    let mut out = table.render();
    for (broker, served) in found {
        if let Err(error) = served {
            out.push_str(&format!("Broker {}: {error}\n", broker.id));
        }
    }
    out
}

fn document(found: &[(Broker, ItemResult<Served>)]) -> Value {
    let brokers: Vec<Value> = found
        .iter()
        .map(|(broker, served)| {
            let apis: Vec<Value> = served
                .iter()
                .flatten()
                .map(|(key, min, max)| {
                    json!({
                        "api_key": key,
                        "name": api(*key).map(ApiKey::name),
                        "min_version": min,
                        "max_version": max,
                        "usable_version": usable(*key, *min, *max),
                    })
                })
                .collect();
            json!({
                "id": broker.id.0,
                "host": broker.address.host,
                "port": broker.address.port,
                "rack": broker.rack,
                "apis": apis,
                "error": served.as_ref().err().map(ToString::to_string),
            })
        })
        .collect();
    json!({ "brokers": brokers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_client::BrokerAddress;
    use kavka_common::NodeId;

    #[test]
    fn lines_are_javas() {
        assert_eq!(line(0, Some((0, 13))), "Produce(0): 0 to 13 [usable: 13]");
        assert_eq!(
            line(46, Some((0, 0))),
            "ListPartitionReassignments(46): 0 [usable: 0]"
        );
        assert_eq!(line(71, None), "GetTelemetrySubscriptions(71): UNSUPPORTED");
        assert_eq!(line(9999, Some((1, 2))), "UNKNOWN(9999): 1 to 2");
        assert_eq!(
            line(1, Some((0, 1))),
            "Fetch(1): 0 to 1 [unusable: node too old]"
        );
        assert_eq!(
            line(1, Some((99, 100))),
            "Fetch(1): 99 to 100 [unusable: node too new]"
        );
        assert_eq!(line(0, Some((0, 99))), "Produce(0): 0 to 99 [usable: 13]");
    }

    #[test]
    fn a_broker_has_all_its_apis() {
        let broker = Broker {
            id: NodeId(1),
            address: BrokerAddress::new("127.0.0.1", 19092),
            rack: None,
        };
        let shown = text(&(broker.clone(), Ok(vec![(0, 0, 13), (18, 0, 4)])));
        assert!(shown.starts_with(
            "127.0.0.1:19092 (id: 1 rack: null isFenced: false) -> (\n\tProduce(0): 0 to 13 [usable: 13],\n\tFetch(1): UNSUPPORTED,\n"
        ));
        assert!(shown.ends_with("\tDeleteShareGroupOffsets(92): UNSUPPORTED\n)\n"));
        // Those of controllers among themselves are no affair of clients.
        assert!(!shown.contains("Vote(52)") && !shown.contains("(4)"));
        let gone = Err(ClientError::Config("gone".into()));
        let found = [(broker, gone)];
        assert!(text(&found[0]).contains(" -> ERROR: "));
        assert!(table(&found).contains("Broker 1: gone"));
        assert_eq!(document(&found)["brokers"][0]["error"], "gone");
    }
}
