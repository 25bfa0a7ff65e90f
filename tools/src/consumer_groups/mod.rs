//! kafka-consumer-groups: list, describe, delete groups; reset and delete what they committed.
//! Not here: options and their values (options, plan, reset), layouts (describe), the work of a reset (resetting).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.

#[cfg(test)]
mod consumer_groups_test;
mod deleting;
mod describe;
mod options;
mod plan;
mod regex;
mod reset;
mod resetting;
mod times;

use crate::args::Parsed;
use crate::exit::{Stop, Strict, is_strict};
use crate::java::{Exception, hash_map_order};
use crate::json::{self, Format};
use crate::output;
use crate::session::{OpenError, Session};
use crate::table::{Align, Table};
use describe::OffsetRow;
use kavka_client::admin::groups::{self, GroupDescription, GroupListing};
use kavka_client::admin::offsets::{self, Absent, OffsetSpec};
use kavka_client::{ClientError, Cluster};
use kavka_common::TopicPartition;
use kavka_common::clock::{Clock, SystemClock};
use options::Refusal;
use plan::{Action, Failure, ListPlan, Plan, State, TYPES, View};
use reset::{GroupReset, ResetPlan};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::ExitCode;

const EXECUTION: &str = "java.util.concurrent.ExecutionException";
const RUNTIME: &str = "java.lang.RuntimeException";

/// How a run tells how it went.
#[derive(Clone, Copy)]
struct Manner {
    format: Format,
    strict: bool,
}

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().skip(1).collect();
    let mut manner = Manner {
        format: Format::Text,
        strict: is_strict(&arguments),
    };
    let parsed = match options::parse(arguments) {
        Ok(parsed) => parsed,
        Err(Refusal::Stop(stop)) => return stop.report_as(&options::OPTIONS, manner.strict),
        Err(Refusal::Uncaught(exception)) => {
            output::error(&format!(
                "Exception in thread \"main\" {}\n",
                exception.trace()
            ));
            return if manner.strict {
                Strict::Usage.into()
            } else {
                ExitCode::FAILURE
            };
        }
    };
    if let Some(text) = parsed.last("validate-regex") {
        let fault = regex::fault(text);
        output::print(&match &fault {
            None => format!("The regular expression `{text}` is valid.\n"),
            Some(fault) => format!("The regular expression `{text}` is invalid: {fault}.\n"),
        });
        return if fault.is_some() && manner.strict {
            Strict::Failed.into()
        } else {
            ExitCode::SUCCESS
        };
    }
    let plan = match Plan::of(&parsed, SystemClock::new().wall_ms()) {
        Ok(plan) => plan,
        Err(failure) => return report(&failure, manner, Strict::Failed),
    };
    manner.format = plan.format;
    let mut session = match open(&parsed, &plan) {
        Ok(session) => session,
        Err(failure) => return report(&failure, manner, Strict::Failed),
    };
    match session.run(async |cluster| run(cluster, &plan).await) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => undone(manner, Strict::Failed),
        Err(Trouble::Told(failure)) => report(&failure, manner, Strict::Failed),
        Err(Trouble::Client(error)) => {
            let code = report(&failed(EXECUTION, &error), manner, Strict::of(&error));
            session.explain(&error);
            code
        }
        Err(Trouble::Both(failure, error)) => {
            let code = report(&failure, manner, Strict::of(&error));
            session.explain(&error);
            code
        }
    }
}

fn open(parsed: &Parsed, plan: &Plan) -> Result<Session, Failure> {
    let servers = parsed.value("bootstrap-server")?.unwrap_or_default();
    let config = parsed.value("command-config")?;
    let mut session =
        Session::open(servers, "bootstrap-server", config).map_err(|error: OpenError| {
            let mut failure = Failure::from(error.exception);
            failure.chain.extend(error.cause);
            failure
        })?;
    session.cluster.set_api_timeout_ms(plan.timeout_ms);
    Ok(session)
}

/// What a failed piece of work came of.
#[derive(Debug)]
enum Trouble {
    Client(ClientError),
    Told(Failure),
    /// An error that Java's tool tells otherwise.
    Both(Failure, ClientError),
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        Trouble::Client(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Told(failure)
    }
}

impl From<Exception> for Trouble {
    fn from(exception: Exception) -> Trouble {
        Trouble::Told(exception.into())
    }
}

/// An error of the client inside an exception that only wraps it.
fn failed(outer: &str, error: &ClientError) -> Failure {
    Failure::wrapped(outer, Exception::from(error).into())
}

/// Java's tool reports nearly everything on standard output and ends with 0; with `--output` that would be neither
/// data nor success.
fn report(failure: &Failure, manner: Manner, status: Strict) -> ExitCode {
    if plan::is_usage(failure) {
        return Stop::Usage(failure.message().to_owned())
            .report_as(&options::OPTIONS, manner.strict);
    }
    complain(
        &format!(
            "Executing consumer group command failed due to {}",
            failure.message()
        ),
        manner.format,
    );
    output::error(&format!("{}\n", failure.trace()));
    undone(manner, status)
}

fn undone(manner: Manner, status: Strict) -> ExitCode {
    match manner.format {
        _ if manner.strict => status.into(),
        Format::Text => ExitCode::SUCCESS,
        Format::Table | Format::Json => ExitCode::FAILURE,
    }
}

fn complain(text: &str, format: Format) {
    match format {
        Format::Text => output::print(&format!("\nError: {text}\n")),
        Format::Table | Format::Json => output::error(&format!("Error: {text}\n")),
    }
}

/// Says whether everything that was asked for was done.
async fn run(cluster: &mut Cluster, plan: &Plan) -> Result<bool, Trouble> {
    match &plan.action {
        Action::List(list) => show_list(cluster, list, plan.format).await,
        Action::Describe { view, verbose } => {
            let group_ids = group_ids(cluster, plan).await?;
            show(cluster, &group_ids, *view, *verbose, plan.format).await
        }
        Action::Delete => {
            let group_ids = group_ids(cluster, plan).await?;
            deleting::groups(cluster, &group_ids, plan.format).await
        }
        Action::Reset(reset) => {
            let group_ids = group_ids(cluster, plan).await?;
            let (resets, done) = resetting::reset(cluster, &group_ids, reset, plan.format).await?;
            show_reset(&resets, reset, plan.format);
            Ok(done)
        }
        Action::DeleteOffsets { group, topics } => {
            deleting::offsets(cluster, group, topics, plan.format).await
        }
    }
}

/// What Java says when there is nobody to ask for groups.
fn unlisted(error: ClientError, wrapped: bool) -> Trouble {
    let mut failure = Failure::from(Exception::from(&error));
    if let ClientError::NoBroker { .. } = &error {
        failure.chain.insert(
            0,
            Exception::new(
                "org.apache.kafka.common.KafkaException",
                "Failed to find brokers to send ListGroups",
            ),
        );
    }
    let mut failure = Failure::wrapped(EXECUTION, failure);
    if wrapped {
        failure = Failure::wrapped(RUNTIME, failure);
    }
    Trouble::Both(failure, error)
}

/// Groups in the order of Java's hash tables.
async fn list(
    cluster: &mut Cluster,
    plan: &ListPlan,
    wrapped: bool,
) -> Result<Vec<GroupListing>, Trouble> {
    let states: Vec<&str> = plan.states.iter().map(|state| state.name()).collect();
    let types: &[&str] = if plan.types.is_empty() {
        &TYPES
    } else {
        &plan.types
    };
    let found = groups::list_consumer_groups(cluster, &states, types)
        .await
        .map_err(|error| unlisted(error, wrapped))?;
    Ok(hash_map_order(found, None, |group| &group.group_id))
}

async fn group_ids(cluster: &mut Cluster, plan: &Plan) -> Result<Vec<String>, Trouble> {
    match &plan.groups {
        Some(groups) => {
            // Groups named twice are one.
            let mut known = BTreeSet::new();
            Ok(groups
                .iter()
                .filter(|group| known.insert(*group))
                .cloned()
                .collect())
        }
        None => {
            let found = list(cluster, &ListPlan::default(), true).await?;
            Ok(found.into_iter().map(|group| group.group_id).collect())
        }
    }
}

async fn show_list(
    cluster: &mut Cluster,
    plan: &ListPlan,
    format: Format,
) -> Result<bool, Trouble> {
    let found = list(cluster, plan, !plan.with_state && !plan.with_type).await?;
    output::print(&match format {
        Format::Text => describe::listing(&found, plan),
        Format::Table => describe::listing_table(&found),
        Format::Json => json::document(&describe::listing_document(&found)),
    });
    Ok(true)
}

/// `--describe`, in the order of names.
async fn show(
    cluster: &mut Cluster,
    group_ids: &[String],
    view: View,
    verbose: bool,
    format: Format,
) -> Result<bool, Trouble> {
    let mut described = Vec::with_capacity(group_ids.len());
    for (_, group) in groups::describe_consumer_groups(cluster, group_ids).await? {
        let group = group.map_err(|error| failed(EXECUTION, &error))?;
        let rows = match (view, format) {
            (View::Offsets, _) | (_, Format::Json) => offset_rows(cluster, &group).await?,
            (View::Members | View::State, Format::Text | Format::Table) => Vec::new(),
        };
        described.push((group, rows));
    }
    described.sort_by(|(a, _), (b, _)| a.group_id.cmp(&b.group_id));
    let all_alive = !described
        .iter()
        .any(|(group, _)| matches!(State::parse(&group.state), State::Dead));
    match format {
        Format::Json => output::print(&json::document(&describe::document(&described))),
        Format::Table => output::print(&match view {
            View::Offsets => describe::offsets_table(&described),
            View::Members => describe::members_table(&described),
            View::State => describe::states_table(&described),
        }),
        Format::Text => {
            for (group, rows) in &described {
                let alive = remark(group)?;
                match view {
                    View::Offsets if alive && !rows.is_empty() => {
                        output::print(&describe::offsets(&group.group_id, rows, verbose));
                    }
                    View::Members => output::print(&describe::members(group, verbose)),
                    View::State if alive => output::print(&describe::state(group, verbose)),
                    View::Offsets | View::State => {}
                }
            }
        }
    }
    Ok(all_alive)
}

/// What is to be said of a group's state; `false` when there is nothing else to show.
fn remark(group: &GroupDescription) -> Result<bool, Failure> {
    let id = &group.group_id;
    match State::parse(&group.state) {
        State::Stable => {}
        State::Empty => {
            output::error(&format!("\nConsumer group '{id}' has no active members.\n"));
        }
        State::PreparingRebalance
        | State::CompletingRebalance
        | State::Assigning
        | State::Reconciling => {
            output::error(&format!(
                "\nWarning: Consumer group '{id}' is rebalancing.\n"
            ));
        }
        State::Dead => {
            complain(
                &format!("Consumer group '{id}' does not exist."),
                Format::Text,
            );
            return Ok(false);
        }
        State::Unknown => {
            return Err(Exception::new(
                "org.apache.kafka.common.KafkaException",
                format!(
                    "Expected a valid consumer group state, but found '{}'.",
                    group.state
                ),
            )
            .into());
        }
    }
    Ok(true)
}

/// Members with the most partitions first, then what nobody reads.
async fn offset_rows(
    cluster: &mut Cluster,
    group: &GroupDescription,
) -> Result<Vec<OffsetRow>, Trouble> {
    let committed = offsets::committed(cluster, &group.group_id)
        .await
        .map_err(|error| failed(EXECUTION, &error))?;
    let mut members: Vec<_> = group
        .members
        .iter()
        .filter(|m| !m.assignment.is_empty())
        .collect();
    members.sort_by_key(|member| std::cmp::Reverse(member.assignment.len()));
    let assigned: BTreeSet<&TopicPartition> = members
        .iter()
        .flat_map(|member| &member.assignment)
        .collect();
    let wanted: Vec<(TopicPartition, OffsetSpec)> = assigned
        .iter()
        .copied()
        .chain(
            committed
                .keys()
                .filter(|partition| !assigned.contains(partition)),
        )
        .map(|partition| (partition.clone(), OffsetSpec::Latest))
        .collect();
    // A deleted topic, or a partition without a leader, is no reason to hide the others.
    let ends: BTreeMap<TopicPartition, Option<i64>> =
        offsets::list(cluster, &wanted, Absent::Report)
            .await?
            .into_iter()
            .map(|(partition, listed)| (partition, listed.ok().and_then(|listed| listed.offset)))
            .collect();
    let row = |partition: &TopicPartition, member: Option<[String; 3]>| {
        let committed = committed.get(partition);
        OffsetRow {
            partition: partition.clone(),
            leader_epoch: committed.and_then(|committed| committed.leader_epoch),
            offset: committed.map(|committed| committed.offset),
            log_end_offset: ends.get(partition).copied().flatten(),
            member,
        }
    };
    let read = members.iter().flat_map(|member| {
        let id = [&member.member_id, &member.host, &member.client_id].map(String::clone);
        member
            .assignment
            .iter()
            .map(move |partition| (partition, Some(id.clone())))
    });
    let unread = committed
        .keys()
        .filter(|partition| !assigned.contains(partition));
    Ok(read
        .chain(unread.map(|partition| (partition, None)))
        .map(|(partition, member)| row(partition, member))
        .collect())
}

fn show_reset(resets: &[GroupReset], plan: &ResetPlan, format: Format) {
    output::print(&match format {
        _ if plan.export => reset::csv(resets, plan.single_group),
        Format::Text => reset::text(resets),
        Format::Table => {
            let mut table = Table::new(&[
                ("group", Align::Left),
                ("topic", Align::Left),
                ("partition", Align::Right),
                (if plan.execute { "before" } else { "now" }, Align::Right),
                (if plan.execute { "after" } else { "planned" }, Align::Right),
                ("change", Align::Right),
            ]);
            for group in resets {
                for reset in &group.offsets {
                    table.row(vec![
                        group.group.clone(),
                        reset.partition.topic.to_string(),
                        reset.partition.partition.to_string(),
                        reset
                            .current
                            .map_or_else(|| "-".into(), |offset| offset.to_string()),
                        reset.new.to_string(),
                        reset.current.map_or_else(
                            || "-".into(),
                            |current| format!("{:+}", reset.new.saturating_sub(current)),
                        ),
                    ]);
                }
            }
            table.render()
        }
        Format::Json => {
            let groups: Vec<Value> = resets
                .iter()
                .map(|group| {
                    let partitions: Vec<Value> = group
                        .offsets
                        .iter()
                        .map(|reset| {
                            json!({
                                "topic": &*reset.partition.topic,
                                "partition": reset.partition.partition,
                                "current_offset": reset.current,
                                "new_offset": reset.new,
                            })
                        })
                        .collect();
                    json!({ "group": group.group, "partitions": partitions })
                })
                .collect();
            json::document(&json!({ "executed": plan.execute, "groups": groups }))
        }
    });
}
