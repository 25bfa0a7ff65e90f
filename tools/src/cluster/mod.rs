//! kafka-cluster: the id of a cluster, its endpoints, brokers to forget.
//! Not here: options (options).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.ClusterTool; KIP-919, KIP-1073.

mod options;

use crate::args::argparse::{Command, Problem, Values};
use crate::exit;
use crate::java::{Exception, Failure, execution_failure, hash_order};
use crate::json::{self, Format};
use crate::output::{self, Level};
use crate::session::{BOOTSTRAP_CONTROLLER, BOOTSTRAP_SERVER, Session};
use crate::table::{Align, Table};
use kavka_client::ClientError;
use kavka_client::admin::brokers;
use kavka_client::admin::nodes::{self, Node};
use kavka_common::NodeId;
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

const OLD_CONFIG_OPTION: &str = "Option --config has been deprecated and will be removed in a future version. Use --command-config instead.\n";
/// Where nobody has a rack, the column is as wide as its neighbours.
const RACK_WIDTH: usize = 10;
const HOST_WIDTH: usize = 100;

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let arguments: Vec<String> = arguments
        .into_iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Arguments(Problem::Help(text))) => {
            output::print(&text);
            // Apache's tool takes a call for help for a fault, too.
            ExitCode::FAILURE
        }
        Err(Trouble::Arguments(Problem::Refused(text))) => {
            output::error(&text);
            ExitCode::FAILURE
        }
        Err(Trouble::Told(failure)) => exit::escaped(&failure),
    }
}

#[derive(Debug)]
enum Trouble {
    Arguments(Problem),
    Told(Failure),
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        Trouble::Arguments(problem)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Told(failure)
    }
}

fn run(arguments: &[String]) -> Result<(), Trouble> {
    if let Some("-h" | "--help") = arguments.first().map(String::as_str) {
        return Err(Problem::Help(options::help()).into());
    }
    let names = options::SUBCOMMANDS.map(|(name, _)| name);
    let (_, name, rest) = options::ROOT.parse_before(&names, arguments)?;
    match name {
        "cluster-id" => {
            let (_, format, mut session) = open(&options::CLUSTER_ID, rest)?;
            cluster_id(&mut session, format)
        }
        "unregister" => {
            let (values, format, mut session) = open(&options::UNREGISTER, rest)?;
            let id = options::UNREGISTER
                .int(&values, "--id")?
                .unwrap_or_default();
            unregister(&mut session, id, format)
        }
        _ => {
            let (values, format, mut session) = open(&options::LIST_ENDPOINTS, rest)?;
            let fenced = values.has("--include-fenced-brokers");
            if fenced && session.cluster.is_of_controllers() {
                return Err(Failure::from(Exception::illegal_argument(
                    "The option --include-fenced-brokers is only supported with --bootstrap-server option",
                ))
                .into());
            }
            list_endpoints(&mut session, fenced, format)
        }
    }
}

fn open(command: &Command, arguments: &[String]) -> Result<(Values, Format, Session), Trouble> {
    let values = command.parse(arguments)?;
    if values.has("--id") {
        command.int(&values, "--id")?;
    }
    let format = Format::parse(values.value("--output")).map_err(|text| command.refuse(&text))?;
    let (old, new) = (values.value("--config"), values.value("--command-config"));
    if old.is_some() && new.is_some() {
        return Err(Failure::from(Exception::new(
            "net.sourceforge.argparse4j.inf.ArgumentParserException",
            "--config and --command-config cannot be specified together.",
        ))
        .into());
    }
    if old.is_some() {
        match format {
            Format::Text => output::print(OLD_CONFIG_OPTION),
            Format::Table | Format::Json => output::error(OLD_CONFIG_OPTION),
        }
    }
    let (option, servers) = match values.value("--bootstrap-controller") {
        Some(controllers) => (BOOTSTRAP_CONTROLLER, controllers),
        None => (
            BOOTSTRAP_SERVER,
            values.value("--bootstrap-server").unwrap_or_default(),
        ),
    };
    let session = Session::open(servers, option, new.or(old)).map_err(Failure::from)?;
    Ok((values, format, session))
}

/// An error of a call, after what is said of its cause.
fn failed(session: &Session, error: &ClientError) -> Trouble {
    session.explain(error);
    Trouble::Told(execution_failure(error))
}

fn cluster_id(session: &mut Session, format: Format) -> Result<(), Trouble> {
    let described = session
        .run(async |cluster| nodes::describe_cluster(cluster, false).await)
        .map_err(|error| failed(session, &error))?;
    output::print(&match (format, described.cluster_id) {
        (Format::Json, id) => json::document(&json!({ "cluster_id": id })),
        (Format::Text | Format::Table, Some(id)) => format!("Cluster ID: {id}\n"),
        (Format::Text | Format::Table, None) => {
            "No cluster ID found. The Kafka version is probably too old.\n".to_owned()
        }
    });
    Ok(())
}

fn unregister(session: &mut Session, id: i32, format: Format) -> Result<(), Trouble> {
    match session.run(async |cluster| brokers::unregister(cluster, NodeId(id)).await) {
        Ok(()) => {
            output::print(&match format {
                Format::Json => json::document(&json!({ "unregistered": id })),
                Format::Text | Format::Table => format!("Broker {id} is no longer registered.\n"),
            });
            Ok(())
        }
        Err(ClientError::UnsupportedApi { .. }) => {
            let text = "The target cluster does not support the broker unregistration API.\n";
            match format {
                Format::Text => output::print(text),
                Format::Table | Format::Json => output::error(text),
            }
            Ok(())
        }
        Err(error) => {
            if let ClientError::Refused { .. } = &error {
                output::log(
                    Level::Error,
                    &format!(
                        "[AdminClient clientId={}] Unregister broker request for broker ID {id} failed: {error}",
                        session.cluster.config().client_id
                    ),
                    "org.apache.kafka.clients.admin.KafkaAdminClient",
                );
            }
            Err(failed(session, &error))
        }
    }
}

fn state(node: &Node) -> &'static str {
    if node.is_fenced { "fenced" } else { "unfenced" }
}

fn list_endpoints(
    session: &mut Session,
    include_fenced: bool,
    format: Format,
) -> Result<(), Trouble> {
    let described = session
        .run(async |cluster| nodes::describe_cluster(cluster, include_fenced).await)
        .map_err(|error| failed(session, &error))?;
    let controllers = session.cluster.is_of_controllers();
    let kind = if controllers { "controller" } else { "broker" };
    let nodes = hash_order(described.nodes, None, |node| node.id);
    output::print(&match format {
        Format::Text => text(&nodes, controllers),
        Format::Table => {
            let mut table = Table::new(&[
                ("id", Align::Right),
                ("host", Align::Left),
                ("port", Align::Right),
                ("rack", Align::Left),
                ("state", Align::Left),
                ("endpoint type", Align::Left),
            ]);
            for node in &nodes {
                table.row(vec![
                    node.id.to_string(),
                    node.host.clone(),
                    node.port.to_string(),
                    node.rack.clone().unwrap_or_default(),
                    state(node).to_owned(),
                    kind.to_owned(),
                ]);
            }
            table.render()
        }
        Format::Json => {
            let endpoints: Vec<_> = nodes
                .iter()
                .map(|node| {
                    json!({
                        "id": node.id,
                        "host": node.host,
                        "port": node.port,
                        "rack": node.rack,
                        "state": state(node),
                        "endpoint_type": kind,
                    })
                })
                .collect();
            json::document(&json!({ "endpoints": endpoints }))
        }
    });
    Ok(())
}

/// Apache's lines. Of controllers they say nothing of a state.
fn text(nodes: &[Node], controllers: bool) -> String {
    let widest = |length: &dyn Fn(&Node) -> Option<usize>, otherwise| {
        nodes.iter().filter_map(length).max().unwrap_or(otherwise)
    };
    let host = widest(&|node| Some(node.host.chars().count()), HOST_WIDTH);
    let rack = widest(
        &|node| node.rack.as_ref().map(|rack| rack.chars().count()),
        RACK_WIDTH,
    );
    let line = |cells: [&str; 6]| {
        let [id, name, port, on, state, kind] = cells;
        let state = if controllers {
            String::new()
        } else {
            format!("{state:<10} ")
        };
        format!("{id:<10} {name:<host$} {port:<10} {on:<rack$} {state}{kind:<15}\n")
    };
    let mut out = line(["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]);
    for node in nodes {
        out.push_str(&line([
            &node.id.to_string(),
            &node.host,
            &node.port.to_string(),
            node.rack.as_deref().unwrap_or("null"),
            state(node),
            if controllers { "controller" } else { "broker" },
        ]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match run(&words).unwrap_err() {
            Trouble::Arguments(Problem::Refused(text) | Problem::Help(text)) => text,
            Trouble::Told(failure) => failure.trace(),
        }
    }

    /// What Apache's tool printed.
    #[test]
    fn refusals_are_javas() {
        assert_eq!(
            refused(""),
            "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...\nkafka-cluster: error: too few arguments\n"
        );
        assert!(refused("cluster-id").ends_with(
            "kafka-cluster:  error:  one  of   the  arguments  --bootstrap-server/-b  --\nbootstrap-controller/-C is required\n"
        ));
        assert!(refused("unregister -b h:1").ends_with("error: argument --id/-i is required\n"));
        assert!(refused("unregister -b h:1 --id x").ends_with(
            "kafka-cluster: error: argument --id/-i:  could  not  convert 'x' to Integer\n(For input string: \"x\")\n"
        ));
        assert_eq!(
            refused("cluster-id -b 127.0.0.1:1 --config x --command-config y"),
            "net.sourceforge.argparse4j.inf.ArgumentParserException: --config and --command-config cannot be specified together."
        );
        assert_eq!(
            refused("list-endpoints --bootstrap-controller 127.0.0.1:1 --include-fenced-brokers"),
            "java.lang.IllegalArgumentException: The option --include-fenced-brokers is only supported with --bootstrap-server option"
        );
    }

    #[test]
    fn endpoints_are_shown_as_by_java() {
        let node = |id| Node {
            id,
            host: "127.0.0.1".into(),
            port: 19091 + id,
            rack: None,
            is_fenced: id == 2,
        };
        assert_eq!(
            text(&[node(1), node(2)], false),
            "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  
1          127.0.0.1 19092      null       unfenced   broker         
2          127.0.0.1 19093      null       fenced     broker         
"
        );
        assert_eq!(
            text(&[node(1)], true),
            "ID         HOST      PORT       RACK       ENDPOINT_TYPE  
1          127.0.0.1 19092      null       controller     
"
        );
    }
}
