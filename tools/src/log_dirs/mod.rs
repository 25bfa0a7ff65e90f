//! kafka-log-dirs: what lies in the log directories of brokers.
//! Not here: options (options), asking (kavka-client).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.LogDirsCommand; KIP-113.

mod options;

use crate::exit;
use crate::java::{execution_failure, hash_map_order, hash_order, integer_order, partition_order};
use crate::json::{self, Format};
use crate::output;
use crate::session::{BOOTSTRAP_SERVER, Session};
use crate::table::{Align, Table};
use kavka_client::admin::log_dirs::{self, LogDir, Replica};
use kavka_client::admin::nodes;
use kavka_client::{ClientError, Cluster};
use kavka_common::NodeId;
use options::{Plan, Refusal};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

const CLIENT_ID: [(&str, &str); 1] = [("client.id", "log-dirs-tool")];

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let plan = match options::parse(arguments.into_iter().skip(1)) {
        Ok(plan) => plan,
        Err(Refusal::Stop(stop)) => return stop.report(&options::OPTIONS),
        Err(Refusal::Escaped(failure)) => return exit::escaped(&failure),
    };
    let config = plan.command_config.as_deref();
    let mut session = match Session::open_with(&plan.servers, BOOTSTRAP_SERVER, config, &CLIENT_ID)
    {
        Ok(session) => session,
        Err(error) => return exit::escaped(&error.into()),
    };
    match session.run(async |cluster| run(cluster, &plan).await) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Terse(text)) => {
            output::error(&format!("{text}\n"));
            ExitCode::FAILURE
        }
        Err(Trouble::Client(error)) => {
            let code = exit::escaped(&execution_failure(&error));
            session.explain(&error);
            code
        }
    }
}

#[derive(Debug)]
enum Trouble {
    Terse(String),
    Client(ClientError),
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        Trouble::Client(error)
    }
}

fn joined(ids: Vec<i32>) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(",")
}

async fn run(cluster: &mut Cluster, plan: &Plan) -> Result<(), Trouble> {
    let alive: BTreeSet<i32> = nodes::live_brokers(cluster)
        .await?
        .into_iter()
        .map(|broker| broker.id.0)
        .collect();
    let missing: Vec<i32> = plan.brokers.difference(&alive).copied().collect();
    if !missing.is_empty() {
        return Err(Trouble::Terse(format!(
            "ERROR: The given brokers do not exist from --broker-list: {}. Current existent brokers: {}",
            joined(integer_order(missing)),
            joined(integer_order(alive))
        )));
    }
    let asked = if plan.brokers.is_empty() {
        alive
    } else {
        plan.brokers.clone()
    };
    let text = plan.format == Format::Text;
    if text {
        output::print("Querying brokers for log directories information\n");
    }
    let mut found = Vec::with_capacity(asked.len());
    for id in &asked {
        let dirs = log_dirs::describe(cluster, NodeId(*id), None).await?;
        found.push((*id, of_topics(dirs, &plan.topics)));
    }
    if text {
        output::print(&format!(
            "Received log directory information from brokers {}\n",
            joined(integer_order(asked))
        ));
    }
    output::print(&match plan.format {
        Format::Text => format!("{}\n", java_document(found)),
        Format::Table => table(&found),
        Format::Json => json::document(&document(&found)),
    });
    Ok(())
}

/// Directories with the replicas of the given topics only; none given: all.
fn of_topics(mut dirs: Vec<LogDir>, topics: &BTreeSet<String>) -> Vec<LogDir> {
    for dir in &mut dirs {
        dir.replicas
            .retain(|replica| topics.is_empty() || topics.contains(&*replica.partition.topic));
    }
    dirs
}

/// Apache's line, its items in the order of Java's hash tables.
fn java_document(brokers: Vec<(i32, Vec<LogDir>)>) -> Value {
    let count = brokers.len();
    let brokers: Vec<Value> = hash_order(brokers, Some(count), |(id, _)| *id)
        .into_iter()
        .map(|(id, dirs)| {
            let count = dirs.len();
            let dirs: Vec<Value> = hash_map_order(dirs, Some(count), |dir| &dir.path)
                .into_iter()
                .map(|dir| {
                    let error = dir.error.map(|code| {
                        code.exception()
                            .unwrap_or("org.apache.kafka.common.errors.UnknownServerException")
                    });
                    let replicas: Vec<Value> =
                        partition_order(dir.replicas, |replica: &Replica| &replica.partition)
                            .into_iter()
                            .map(|replica| {
                                json!({
                                    "partition": replica.partition.to_string(),
                                    "size": replica.size_bytes,
                                    "offsetLag": replica.offset_lag,
                                    "isFuture": replica.is_future,
                                })
                            })
                            .collect();
                    json!({"partitions": replicas, "error": error, "logDir": dir.path})
                })
                .collect();
            json!({"broker": id, "logDirs": dirs})
        })
        .collect();
    json!({"brokers": brokers, "version": 1})
}

fn sorted(dir: &LogDir) -> Vec<&Replica> {
    let mut replicas: Vec<&Replica> = dir.replicas.iter().collect();
    replicas.sort_by_key(|replica| (&replica.partition, replica.is_future));
    replicas
}

/// The document of `--output json`.
fn document(brokers: &[(i32, Vec<LogDir>)]) -> Value {
    let brokers: Vec<Value> = brokers
        .iter()
        .map(|(id, dirs)| {
            let dirs: Vec<Value> = dirs
                .iter()
                .map(|dir| {
                    let replicas: Vec<Value> = sorted(dir)
                        .into_iter()
                        .map(|replica| {
                            json!({
                                "topic": &*replica.partition.topic,
                                "partition": replica.partition.partition,
                                "size_bytes": replica.size_bytes,
                                "offset_lag": replica.offset_lag,
                                "is_future": replica.is_future,
                            })
                        })
                        .collect();
                    json!({
                        "log_dir": dir.path,
                        "error": dir.error.map(|code| code.name()),
                        "total_bytes": dir.total_bytes,
                        "usable_bytes": dir.usable_bytes,
                        "replicas": replicas,
                    })
                })
                .collect();
            json!({"broker": id, "log_dirs": dirs})
        })
        .collect();
    json!({ "brokers": brokers })
}

/// The table of `--output table`: a row for each replica, and one for a directory that holds none or is broken.
fn table(brokers: &[(i32, Vec<LogDir>)]) -> String {
    let mut table = Table::new(&[
        ("broker", Align::Right),
        ("log dir", Align::Left),
        ("topic", Align::Left),
        ("partition", Align::Right),
        ("size bytes", Align::Right),
        ("offset lag", Align::Right),
        ("state", Align::Left),
    ]);
    for (id, dirs) in brokers {
        for dir in dirs {
            let row = |replica: [String; 4], state: &str| {
                let mut cells = vec![id.to_string(), dir.path.clone()];
                cells.extend(replica);
                cells.push(state.to_owned());
                cells
            };
            if dir.replicas.is_empty() {
                let state = dir.error.map_or("empty", |code| code.name());
                table.row(row(Default::default(), state));
            }
            for replica in sorted(dir) {
                table.row(row(
                    [
                        replica.partition.topic.to_string(),
                        replica.partition.partition.to_string(),
                        replica.size_bytes.to_string(),
                        replica.offset_lag.to_string(),
                    ],
                    if replica.is_future {
                        "moving here"
                    } else {
                        "current"
                    },
                ));
            }
        }
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_common::TopicPartition;
    use kavka_protocol::ErrorCode;

    fn dir(path: &str, replicas: &[(&str, i32)]) -> LogDir {
        LogDir {
            path: path.into(),
            error: None,
            total_bytes: Some(1000),
            usable_bytes: None,
            replicas: replicas
                .iter()
                .map(|(topic, partition)| Replica {
                    partition: TopicPartition::new(*topic, *partition),
                    size_bytes: 101,
                    offset_lag: 0,
                    is_future: false,
                })
                .collect(),
        }
    }

    /// What Apache's tool printed.
    #[test]
    fn the_line_is_javas() {
        let dirs = of_topics(
            vec![dir("/d", &[("t", 0), ("t", 1), ("u", 0)])],
            &BTreeSet::from(["t".to_owned()]),
        );
        assert_eq!(
            java_document(vec![(1, dirs)]).to_string(),
            r#"{"brokers":[{"broker":1,"logDirs":[{"partitions":[{"partition":"t-1","size":101,"offsetLag":0,"isFuture":false},{"partition":"t-0","size":101,"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/d"}]}],"version":1}"#
        );
        let all = [
            ("__consumer_offsets", 0),
            ("__consumer_offsets", 1),
            ("__consumer_offsets", 2),
            ("__consumer_offsets", 3),
            ("__consumer_offsets", 4),
            ("t", 0),
            ("t", 1),
            ("u", 0),
        ];
        let document = java_document(vec![(1, vec![dir("/d", &all)])]);
        let names: Vec<&str> = document["brokers"][0]["logDirs"][0]["partitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|replica| replica["partition"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "__consumer_offsets-0",
                "t-1",
                "t-0",
                "u-0",
                "__consumer_offsets-3",
                "__consumer_offsets-4",
                "__consumer_offsets-1",
                "__consumer_offsets-2"
            ]
        );
    }

    #[test]
    fn a_broken_directory_is_shown() {
        let broken = LogDir {
            error: Some(ErrorCode::KafkaStorageError),
            ..dir("/broken", &[])
        };
        let brokers = [(1, vec![broken.clone()])];
        assert!(table(&brokers).contains("KAFKA_STORAGE_ERROR"));
        assert_eq!(
            document(&brokers)["brokers"][0]["log_dirs"][0]["error"],
            "KAFKA_STORAGE_ERROR"
        );
        let line = java_document(vec![(1, vec![broken])]).to_string();
        assert!(line.contains(r#""error":"org.apache.kafka.common.errors.KafkaStorageException""#));
    }
}
