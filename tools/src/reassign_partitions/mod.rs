//! kafka-reassign-partitions: moves replicas between brokers and between log directories.
//! Not here: options, files and proposals (options, assignment, placement), `--execute` (execute), throttles, asking (inquiry).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.reassign.ReassignPartitionsCommand; KIP-455, KIP-73, KIP-113.

mod assignment;
mod execute;
mod inquiry;
mod options;
mod placement;
mod states;
mod throttles;
mod transfer;

use crate::args::Parsed;
use crate::exit;
use crate::java::{Exception, Failure, execution_failure};
use crate::json::{self, Format};
use crate::output;
use crate::session::{BOOTSTRAP_CONTROLLER, BOOTSTRAP_SERVER, Session};
use crate::table::{Align, Table};
use assignment::{Assignment, OPERATION, ReplicaDirs};
use kavka_client::admin::nodes::{self, Broker};
use kavka_client::admin::{ItemResult, reassignments};
use kavka_client::{ClientError, Cluster};
use kavka_common::TopicPartition;
use options::{Action, Refusal};
use placement::Usable;
use serde_json::json;
use states::DirState;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

const CLIENT_ID: [(&str, &str); 1] = [("client.id", "reassign-partitions-tool")];

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let parsed = match options::parse(arguments.into_iter().skip(1)) {
        Ok(parsed) => parsed,
        Err(Refusal::Stop(stop)) => return stop.report(&options::OPTIONS),
        Err(Refusal::Uncaught(failure)) => return exit::uncaught(&failure),
    };
    let tool = Tool {
        format: Format::parse(parsed.last("output")).unwrap_or_default(),
    };
    let (mut session, action) = match open(&parsed) {
        Ok(opened) => opened,
        Err(failure) => return tool.fail(&failure),
    };
    let work = async |cluster: &mut Cluster| run(tool, cluster, &action).await;
    let done = if parsed.has("wait") {
        session.run_for_long(work)
    } else {
        session.run(work)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Terse(text)) => {
            tool.complain(&format!("{text}\n"));
            ExitCode::FAILURE
        }
        Err(Trouble::Told(failure)) => tool.fail(&failure),
        Err(Trouble::Client(error)) => {
            let code = tool.fail(&execution_failure(&error));
            session.explain(&error);
            code
        }
    }
}

fn open(parsed: &Parsed) -> Result<(Session, Action), Failure> {
    let option = if parsed.has(BOOTSTRAP_CONTROLLER) {
        BOOTSTRAP_CONTROLLER
    } else {
        BOOTSTRAP_SERVER
    };
    let servers = parsed.value(option)?.unwrap_or_default();
    let config = parsed.value("command-config")?;
    let session = Session::open_with(servers, option, config, &CLIENT_ID)?;
    Ok((session, options::action(parsed)?))
}

/// How the tool speaks: as Apache's does, or in a document on standard output with its complaints on standard error.
#[derive(Clone, Copy, Debug)]
struct Tool {
    format: Format,
}

impl Tool {
    /// A line of Apache's, which has no place beside a document.
    fn say(self, text: String) {
        if self.format == Format::Text {
            output::print(&text);
        }
    }

    fn complain(self, text: &str) {
        match self.format {
            Format::Text => output::print(text),
            Format::Table | Format::Json => output::error(text),
        }
    }

    fn fail(self, failure: &Failure) -> ExitCode {
        let text = format!("Error: {}\n{}\n\n", failure.message(), failure.trace());
        self.complain(&text);
        ExitCode::FAILURE
    }
}

/// What a failed piece of work came of.
#[derive(Debug)]
enum Trouble {
    /// A sentence without a trace.
    Terse(String),
    Told(Failure),
    Client(ClientError),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Told(failure)
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        Trouble::Client(error)
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A line for each partition that was refused, and how many there are.
fn refusals(outcomes: Vec<(TopicPartition, ItemResult<()>)>) -> Option<(usize, String)> {
    let refused: BTreeMap<TopicPartition, ClientError> = outcomes
        .into_iter()
        .filter_map(|(partition, outcome)| Some((partition, outcome.err()?)))
        .collect();
    let lines: Vec<String> = refused
        .iter()
        .map(|(partition, error)| format!("{partition}: {error}"))
        .collect();
    (!lines.is_empty()).then(|| (lines.len(), lines.join("\n")))
}

async fn run(tool: Tool, cluster: &mut Cluster, action: &Action) -> Result<(), Trouble> {
    match action {
        Action::Generate {
            topics,
            brokers,
            rack_aware,
        } => generate(tool, cluster, topics, brokers, *rack_aware).await,
        Action::Execute(plan) => execute::execute(tool, cluster, plan).await,
        Action::Verify {
            reassignment,
            preserve_throttles,
            wait,
        } => verify(tool, cluster, reassignment, *preserve_throttles, *wait).await,
        Action::Cancel {
            reassignment,
            preserve_throttles,
            timeout_ms,
        } => {
            cancel(
                tool,
                cluster,
                reassignment,
                *preserve_throttles,
                *timeout_ms,
            )
            .await
        }
        Action::List => list(tool, cluster).await,
    }
}

/// The brokers that may be given replicas, with their racks where racks are to count.
fn usable(all: Vec<Broker>, listed: &[i32], rack_aware: bool) -> Result<Vec<Usable>, Failure> {
    let usable: Vec<Usable> = all
        .into_iter()
        .filter(|broker| listed.contains(&broker.id.0))
        .map(|broker| Usable {
            id: broker.id.0,
            rack: broker.rack.filter(|_| rack_aware),
        })
        .collect();
    let without = usable.iter().filter(|broker| broker.rack.is_none()).count();
    if rack_aware && without != 0 && without != usable.len() {
        return Err(Exception::new(
            OPERATION,
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack information.",
        )
        .into());
    }
    Ok(usable)
}

fn random() -> Result<usize, Failure> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::from(Exception::new(
            "java.lang.IllegalStateException",
            format!("The machine gives no random bytes: {error}"),
        ))
    })?;
    Ok(usize::try_from(u32::from_ne_bytes(bytes)).unwrap_or_default())
}

async fn generate(
    tool: Tool,
    cluster: &mut Cluster,
    topics: &str,
    brokers: &str,
    rack_aware: bool,
) -> Result<(), Trouble> {
    let (listed, topics) = assignment::parse_generate(topics, brokers)?;
    let names = topics.iter().map(String::as_str).collect();
    let current = inquiry::of_topics(cluster, names).await?;
    let usable = usable(nodes::live_brokers(cluster).await?, &listed, rack_aware)?;
    let mut proposed = Assignment::new();
    for topic in &topics {
        let partitions: Vec<(&TopicPartition, &Vec<i32>)> = current
            .iter()
            .filter(|(partition, _)| &*partition.topic == topic.as_str())
            .collect();
        let factor = partitions.first().map_or(0, |(_, replicas)| replicas.len());
        let placed = placement::place(partitions.len(), factor, &usable, (random()?, random()?))?;
        for ((partition, _), replicas) in partitions.into_iter().zip(placed) {
            proposed.insert(partition.clone(), replicas);
        }
    }
    let replicas = inquiry::replicas_of(cluster, &current).await?;
    let now = assignment::document(&current, &inquiry::dirs(&replicas));
    let then = assignment::document(&proposed, &ReplicaDirs::new());
    output::print(&match tool.format {
        Format::Text => format!(
            "Current partition replica assignment\n{now}\n\nProposed partition reassignment configuration\n{then}\n"
        ),
        Format::Table => execute::plan_table(&current, &proposed, &replicas),
        Format::Json => json::document(&json!({"current": now, "proposed": then})),
    });
    Ok(())
}

async fn verify(
    tool: Tool,
    cluster: &mut Cluster,
    file: &str,
    preserve_throttles: bool,
    wait: bool,
) -> Result<(), Trouble> {
    let reassignment = assignment::parse(file)?;
    if wait {
        execute::wait(cluster, &reassignment).await?;
    }
    let progress = inquiry::progress(cluster, &reassignment).await?;
    tool.say(progress.text(&reassignment.log_dirs));
    if tool.format == Format::Table {
        output::print(&progress.table(&reassignment.log_dirs));
    }
    let clear = progress.is_done() && !preserve_throttles;
    if clear {
        throttles::clear(cluster, &reassignment.partitions, |text| tool.say(text)).await?;
    }
    if tool.format == Format::Json {
        output::print(&json::document(&json!({
            "partitions": progress.partitions_document(),
            "log_dirs": progress.dirs_document(&reassignment.log_dirs),
            "throttles_cleared": clear,
        })));
    }
    Ok(())
}

async fn cancel(
    tool: Tool,
    cluster: &mut Cluster,
    file: &str,
    preserve_throttles: bool,
    timeout_ms: i64,
) -> Result<(), Trouble> {
    let reassignment = assignment::parse(file)?;
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (partition, _) in &reassignment.partitions {
        let partitions = topics.entry(partition.topic.to_string()).or_default();
        partitions.push(partition.partition);
    }
    let under_way: BTreeMap<TopicPartition, Option<Vec<i32>>> =
        nodes::reassignments(cluster, Some(&topics))
            .await?
            .into_keys()
            .map(|(topic, partition)| (TopicPartition::new(topic, partition), None))
            .collect();
    if under_way.is_empty() {
        tool.say("None of the specified partition reassignments are active.\n".into());
    } else {
        let outcomes = reassignments::alter(cluster, &under_way, true).await?;
        if let Some((count, lines)) = refusals(outcomes) {
            return Err(Trouble::Terse(format!(
                "Error cancelling partition reassignment{} for:\n{lines}",
                plural(count)
            )));
        }
        let names: Vec<String> = under_way.keys().map(ToString::to_string).collect();
        tool.say(format!(
            "Successfully cancelled partition reassignment{} for: {}\n",
            plural(names.len()),
            names.join(",")
        ));
    }
    let back: ReplicaDirs = inquiry::dir_states(cluster, &reassignment.log_dirs)
        .await?
        .into_iter()
        .filter_map(|(replica, state)| match state {
            DirState::Active { current, .. } => Some((replica, current)),
            DirState::MissingReplica
            | DirState::MissingDir
            | DirState::Cancelled { .. }
            | DirState::Completed => None,
        })
        .collect();
    if back.is_empty() {
        // Apache's tool ends the line with what comes next.
        tool.say("None of the specified partition moves are active.".into());
    } else {
        execute::move_dirs(tool, cluster, &back, timeout_ms).await?;
    }
    if !preserve_throttles {
        throttles::clear(cluster, &reassignment.partitions, |text| tool.say(text)).await?;
    }
    match tool.format {
        Format::Text => {}
        Format::Table => {
            let mut table = Table::new(&[("topic", Align::Left), ("partition", Align::Right)]);
            for partition in under_way.keys() {
                table.row(vec![
                    partition.topic.to_string(),
                    partition.partition.to_string(),
                ]);
            }
            output::print(&table.render());
        }
        Format::Json => {
            let partition =
                |p: &TopicPartition| json!({"topic": &*p.topic, "partition": p.partition});
            let cancelled: Vec<_> = under_way.keys().map(partition).collect();
            let moves: Vec<_> = back
                .iter()
                .map(|((broker, p), dir)| {
                    json!({"topic": &*p.topic, "partition": p.partition, "broker": broker, "log_dir": dir})
                })
                .collect();
            output::print(&json::document(&json!({
                "cancelled": cancelled,
                "cancelled_log_dirs": moves,
                "throttles_cleared": !preserve_throttles,
            })));
        }
    }
    Ok(())
}

async fn list(tool: Tool, cluster: &mut Cluster) -> Result<(), Trouble> {
    let found = nodes::reassignments(cluster, None).await?;
    let ids = |ids: &[i32]| {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        ids.join(",")
    };
    output::print(&match tool.format {
        Format::Text if found.is_empty() => "No partition reassignments found.\n".to_owned(),
        Format::Text => {
            let mut out = "Current partition reassignments:\n".to_owned();
            for ((topic, partition), moving) in &found {
                out.push_str(&format!(
                    "{topic}-{partition}: replicas: {}.",
                    ids(&moving.replicas)
                ));
                if !moving.adding_replicas.is_empty() {
                    out.push_str(&format!(" adding: {}.", ids(&moving.adding_replicas)));
                }
                if !moving.removing_replicas.is_empty() {
                    out.push_str(&format!(" removing: {}.", ids(&moving.removing_replicas)));
                }
                out.push('\n');
            }
            out
        }
        Format::Table => {
            let mut table = Table::new(&[
                ("topic", Align::Left),
                ("partition", Align::Right),
                ("replicas", Align::Left),
                ("adding", Align::Left),
                ("removing", Align::Left),
            ]);
            for ((topic, partition), moving) in &found {
                table.row(vec![
                    topic.clone(),
                    partition.to_string(),
                    ids(&moving.replicas),
                    ids(&moving.adding_replicas),
                    ids(&moving.removing_replicas),
                ]);
            }
            table.render()
        }
        Format::Json => {
            let all: Vec<_> = found
                .iter()
                .map(|((topic, partition), moving)| {
                    json!({
                        "topic": topic,
                        "partition": partition,
                        "replicas": moving.replicas,
                        "adding_replicas": moving.adding_replicas,
                        "removing_replicas": moving.removing_replicas,
                    })
                })
                .collect();
            json::document(&json!({ "reassignments": all }))
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_client::BrokerAddress;
    use kavka_common::NodeId;

    fn broker(id: i32, rack: Option<&str>) -> Broker {
        Broker {
            id: NodeId(id),
            address: BrokerAddress::new("b", 1),
            rack: rack.map(str::to_owned),
        }
    }

    #[test]
    fn racks_count_for_all_or_for_none() {
        let all = || vec![broker(1, Some("a")), broker(2, None), broker(3, Some("b"))];
        assert!(
            usable(all(), &[1, 2], true)
                .unwrap_err()
                .message()
                .contains("--disable-rack-aware")
        );
        assert_eq!(usable(all(), &[1, 3], true).unwrap().len(), 2);
        let blind = usable(all(), &[1, 2, 9], false).unwrap();
        assert!(blind.len() == 2 && blind.iter().all(|broker| broker.rack.is_none()));
    }
}
