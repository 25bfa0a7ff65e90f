//! kafka-topics: create, list, describe, alter and delete topics.
//! Not here: options and their values (options, plan), the layout of descriptions (describe), 2.x's ways (two_x).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.TopicCommand.

mod describe;
mod options;
pub(crate) mod plan;
#[cfg(test)]
mod topics_test;
mod two_x;

use crate::args::Parsed;
use crate::java::{Exception, copied_capacity, hash_map_order};
use crate::json::{self, Format};
use crate::output::{self, Level};
use crate::session::{OpenError, Session};
use crate::table::{Align, Table};
use describe::{Described, Style, View};
use kavka_client::admin::configs::{self, Resource};
use kavka_client::admin::describe_topics::{self, TopicDescription};
use kavka_client::admin::topics::{self, NewPartitions, NewTopic, TopicListing};
use kavka_client::admin::{ItemResult, nodes};
use kavka_client::{ClientError, Cluster};
use kavka_common::Uuid;
use kavka_protocol::ErrorCode;
use options::Refusal;
use plan::{Action, DescribePlan, Failure, IncludeList, Plan, TopicPlan};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

const LOGGER: &str = "org.apache.kafka.tools.TopicCommand";
const COLLISIONS: &str = "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid issues it is best to use either, but not both.\n";

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let parsed = match options::parse(arguments.into_iter().skip(1)) {
        Ok(parsed) => parsed,
        Err(Refusal::Stop(stop)) => return stop.report(&options::OPTIONS),
        Err(Refusal::Exception(exception)) => {
            return escaped(&exception.message, &exception.trace());
        }
        Err(Refusal::Uncaught(exception)) => {
            output::error(&format!(
                "Exception in thread \"main\" {}\n",
                exception.trace()
            ));
            return ExitCode::FAILURE;
        }
    };
    if parsed.has("zookeeper") {
        return two_x::run(&parsed);
    }
    match open(&parsed, "bootstrap-server") {
        Err(code) => code,
        Ok(mut session) => match Plan::of(&parsed) {
            Err(failure) => report(&failure, LOGGER),
            Ok(plan) => finish(&mut session, LOGGER, |session| {
                session.run(async |cluster| run(cluster, &plan).await)
            }),
        },
    }
}

/// What a failed piece of work came of.
#[derive(Debug)]
enum Trouble {
    Client(ClientError),
    Told(Failure),
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        Trouble::Client(error)
    }
}

impl From<Exception> for Trouble {
    fn from(exception: Exception) -> Trouble {
        Trouble::Told(exception.into())
    }
}

fn open(parsed: &Parsed, option: &'static str) -> Result<Session, ExitCode> {
    let value = |name| {
        parsed.value(name).map_err(|error| {
            escaped(
                &error.to_string(),
                &format!("{}: {error}", error.exception()),
            )
        })
    };
    let servers = value(option)?.unwrap_or_default();
    Session::open(servers, option, value("command-config")?)
        .map_err(|error: OpenError| escaped(&error.exception.message, &error.trace()))
}

/// An exception that leaves Java's `execute`: its message, its trace, an empty line.
fn escaped(message: &str, trace: &str) -> ExitCode {
    output::error(&format!("{message}\n{trace}\n\n"));
    ExitCode::FAILURE
}

/// An exception that the tool itself reports.
fn report(failure: &Failure, logger: &str) -> ExitCode {
    output::print(&format!(
        "Error while executing topic command : {}\n",
        failure.exception.message
    ));
    let mut trace = failure.exception.trace();
    for cause in &failure.causes {
        trace.push_str(&format!("\nCaused by: {}", cause.trace()));
    }
    output::log(Level::Error, &format!("{trace}\n"), logger);
    ExitCode::FAILURE
}

fn finish(
    session: &mut Session,
    logger: &str,
    work: impl FnOnce(&mut Session) -> Result<(), Trouble>,
) -> ExitCode {
    match work(session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Told(failure)) => report(&failure, logger),
        Err(Trouble::Client(error)) => {
            let code = report(&Exception::from(&error).into(), logger);
            session.explain(&error);
            code
        }
    }
}

async fn run(cluster: &mut Cluster, plan: &Plan) -> Result<(), Trouble> {
    match &plan.action {
        Action::Create(topic) => create(cluster, plan, topic).await,
        Action::List => list(cluster, plan).await,
        Action::Describe(describe) => show(cluster, plan, describe).await,
        Action::Alter(topic) => alter(cluster, plan, topic).await,
        Action::Delete => delete(cluster, plan).await,
    }
}

/// The one item of an answer about one topic.
fn only<T>(items: Vec<(String, ItemResult<T>)>) -> ItemResult<T> {
    match items.into_iter().next() {
        Some((_, result)) => result,
        None => Err(ClientError::Refused {
            code: ErrorCode::UnknownServerError,
            message: Some("The broker's answer does not name the topic.".into()),
        }),
    }
}

fn new_topic(topic: &TopicPlan) -> NewTopic {
    NewTopic {
        name: topic.name.clone(),
        partitions: topic.partitions,
        replication_factor: topic
            .replication_factor
            .and_then(|factor| i16::try_from(factor).ok()),
        assignment: topic.assignment.clone(),
        configs: topic.configs.clone(),
    }
}

async fn create(cluster: &mut Cluster, plan: &Plan, topic: &TopicPlan) -> Result<(), Trouble> {
    let text = plan.format == Format::Text;
    if text && plan::has_collision_chars(&topic.name) {
        output::print(COLLISIONS);
    }
    plan::check_numbers(topic)?;
    if topic.name.is_empty() {
        return Err(Exception::new(
            "org.apache.kafka.common.errors.InvalidTopicException",
            "The given topic name '' cannot be represented in a request.",
        )
        .into());
    }
    let outcome = only(topics::create(cluster, &[new_topic(topic)], false).await?);
    let created = match outcome {
        Ok(created) => Some(created),
        Err(error)
            if topic.if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) =>
        {
            None
        }
        Err(error) => return Err(error.into()),
    };
    topics::settle(cluster, &[(&topic.name, 1)]).await;
    match (plan.format, created) {
        (Format::Json, created) => output::print(&json::document(&json!({
            "topic": topic.name,
            "created": created.is_some(),
            "topic_id": created.as_ref().map(|c| c.topic_id.to_string()),
            "partition_count": created.as_ref().map(|c| c.partitions),
            "replication_factor": created.as_ref().map(|c| c.replication_factor),
        }))),
        (Format::Text | Format::Table, Some(_)) => {
            output::print(&format!("Created topic {}.\n", topic.name));
        }
        (Format::Text | Format::Table, None) => {}
    }
    Ok(())
}

/// The topics that `--topic` means, sorted by name.
async fn selected(cluster: &mut Cluster, plan: &Plan) -> Result<Vec<TopicListing>, Trouble> {
    let all = topics::list(cluster).await?;
    let filter = match &plan.topic {
        Some(text) => Some(IncludeList::new(text)?),
        None => None,
    };
    Ok(all
        .into_iter()
        .filter(|topic| filter.as_ref().is_none_or(|f| f.matches(&topic.name)))
        .filter(|topic| !(plan.exclude_internal && plan::is_internal(&topic.name)))
        .collect())
}

/// A topic that was named must exist, unless `--if-exists` says otherwise.
fn ensure_exists(plan: &Plan, found: &[TopicListing]) -> Result<(), Exception> {
    match &plan.topic {
        Some(topic) if found.is_empty() && !plan.if_exists => Err(Exception::illegal_argument(
            format!("Topic '{topic}' does not exist as expected"),
        )),
        _ => Ok(()),
    }
}

async fn list(cluster: &mut Cluster, plan: &Plan) -> Result<(), Trouble> {
    let topics = selected(cluster, plan).await?;
    output::print(&match plan.format {
        Format::Text => {
            let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
            format!("{}\n", names.join("\n"))
        }
        Format::Table => {
            let mut table = Table::new(&[
                ("topic", Align::Left),
                ("topic id", Align::Left),
                ("internal", Align::Left),
            ]);
            for topic in &topics {
                table.row(vec![
                    topic.name.clone(),
                    topic.topic_id.to_string(),
                    if topic.is_internal { "yes" } else { "no" }.into(),
                ]);
            }
            table.render()
        }
        Format::Json => {
            let topics: Vec<_> = topics
                .iter()
                .map(|topic| {
                    json!({
                        "name": topic.name,
                        "topic_id": topic.topic_id.to_string(),
                        "is_internal": topic.is_internal,
                    })
                })
                .collect();
            json::document(&json!({ "topics": topics }))
        }
    });
    Ok(())
}

/// Descriptions in the order in which Java's tool prints them: three hash tables, one copied from the other.
fn java_order(topics: Vec<TopicDescription>) -> Vec<TopicDescription> {
    let count = topics.len();
    let name = |topic: &TopicDescription| topic.name.clone();
    [count, copied_capacity(count), count]
        .into_iter()
        .fold(
            topics
                .into_iter()
                .map(|topic| (name(&topic), topic))
                .collect::<Vec<_>>(),
            |topics, capacity| hash_map_order(topics, Some(capacity), |(name, _)| name),
        )
        .into_iter()
        .map(|(_, topic)| topic)
        .collect()
}

/// Descriptions without the topics that were deleted since they were listed.
fn present<K>(
    described: Vec<(K, ItemResult<TopicDescription>)>,
) -> Result<Vec<TopicDescription>, ClientError> {
    described
        .into_iter()
        .map(|(_, topic)| topic)
        .filter(|topic| !is_gone(topic))
        .collect()
}

fn is_gone<T>(result: &ItemResult<T>) -> bool {
    matches!(
        result.as_ref().err().and_then(ClientError::code),
        Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)
    )
}

async fn by_id(
    cluster: &mut Cluster,
    plan: &Plan,
    id: Uuid,
) -> Result<Vec<TopicDescription>, Trouble> {
    let known = topics::list(cluster).await?.into_iter().any(|topic| {
        topic.topic_id == id && !(plan.exclude_internal && plan::is_internal(&topic.name))
    });
    if known {
        return Ok(present(describe_topics::by_id(cluster, &[id]).await?)?);
    }
    if plan.if_exists {
        return Ok(Vec::new());
    }
    Err(Exception::illegal_argument(format!("TopicId '{id}' does not exist as expected")).into())
}

async fn show(cluster: &mut Cluster, plan: &Plan, describe: &DescribePlan) -> Result<(), Trouble> {
    let topics = match describe.topic_id {
        Some(id) => by_id(cluster, plan, id).await?,
        None => {
            let found = selected(cluster, plan).await?;
            ensure_exists(plan, &found)?;
            let names: Vec<String> = found.into_iter().map(|topic| topic.name).collect();
            let described =
                describe_topics::by_name(cluster, &names, describe.partitions_per_response).await?;
            java_order(present(described)?)
        }
    };
    let (topics, view) = with_details(cluster, topics, describe, Style::Current).await?;
    output::print(&match plan.format {
        Format::Text => topics.iter().map(|topic| topic.text(&view)).collect(),
        Format::Table => describe::table(&topics, &view),
        Format::Json => json::document(&describe::document(&topics, &view)),
    });
    Ok(())
}

/// Adds settings, moves under way, and who is alive.
async fn with_details(
    cluster: &mut Cluster,
    topics: Vec<TopicDescription>,
    describe: &DescribePlan,
    style: Style,
) -> Result<(Vec<Described>, View), Trouble> {
    let mut view = View {
        style,
        reports: describe.reports,
        live_brokers: Default::default(),
    };
    if topics.is_empty() {
        return Ok((Vec::new(), view));
    }
    let resources: Vec<Resource> = topics
        .iter()
        .map(|topic| Resource::topic(&topic.name))
        .collect();
    let mut settings: BTreeMap<String, Vec<configs::ConfigEntry>> = BTreeMap::new();
    for (resource, entries) in configs::describe(cluster, &resources, false).await? {
        if !is_gone(&entries) {
            settings.insert(resource.name, entries?);
        }
    }
    view.live_brokers = nodes::live_brokers(cluster)
        .await?
        .iter()
        .map(|broker| broker.id.0)
        .collect();
    let mut moving = reassignments(cluster, &topics).await?;
    let described = topics
        .into_iter()
        .filter_map(|topic| {
            Some(Described {
                configs: settings.remove(&topic.name)?,
                reassignments: moving.remove(&topic.name).unwrap_or_default(),
                topic,
            })
        })
        .collect();
    Ok((described, view))
}

type Moves = BTreeMap<String, BTreeMap<i32, nodes::Reassignment>>;

/// Moves under way, by topic. Not every broker tells, and not everybody may know.
async fn reassignments(
    cluster: &mut Cluster,
    topics: &[TopicDescription],
) -> Result<Moves, ClientError> {
    let partitions: BTreeMap<String, Vec<i32>> = topics
        .iter()
        .map(|topic| {
            let indexes = topic.partitions.iter().map(|p| p.partition).collect();
            (topic.name.clone(), indexes)
        })
        .collect();
    let found = match nodes::reassignments(cluster, Some(&partitions)).await {
        Ok(found) => found,
        Err(ClientError::UnsupportedApi { .. }) => return Ok(Moves::new()),
        Err(error)
            if matches!(
                error.code(),
                Some(
                    ErrorCode::ClusterAuthorizationFailed
                        | ErrorCode::UnsupportedVersion
                        | ErrorCode::UnknownTopicOrPartition
                )
            ) =>
        {
            return Ok(Moves::new());
        }
        Err(error) => return Err(error),
    };
    let mut moves = Moves::new();
    for ((topic, partition), reassignment) in found {
        moves
            .entry(topic)
            .or_default()
            .insert(partition, reassignment);
    }
    Ok(moves)
}

/// `--alter`: the same number of partitions for every topic that is meant.
async fn alter(cluster: &mut Cluster, plan: &Plan, topic: &TopicPlan) -> Result<(), Trouble> {
    let found = selected(cluster, plan).await?;
    ensure_exists(plan, &found)?;
    let names: Vec<String> = found.into_iter().map(|topic| topic.name).collect();
    if !names.is_empty() {
        for (_, outcome) in add_partitions(cluster, &names, topic).await? {
            outcome?;
        }
        let count = usize::try_from(topic.partitions.unwrap_or_default()).unwrap_or_default();
        let expected: Vec<_> = names.iter().map(|name| (name.as_str(), count)).collect();
        topics::settle(cluster, &expected).await;
    }
    if plan.format == Format::Json {
        output::print(&json::document(&json!({
            "altered": names,
            "partition_count": topic.partitions,
        })));
    }
    Ok(())
}

async fn add_partitions(
    cluster: &mut Cluster,
    names: &[String],
    topic: &TopicPlan,
) -> Result<Vec<(String, ItemResult<()>)>, ClientError> {
    let mut existing: BTreeMap<String, usize> = BTreeMap::new();
    if topic.assignment.is_some() {
        let limit = describe_topics::PARTITIONS_PER_RESPONSE;
        for (name, described) in describe_topics::by_name(cluster, names, limit).await? {
            existing.insert(name, described?.partitions.len());
        }
    }
    let requests: Vec<NewPartitions> = names
        .iter()
        .map(|name| NewPartitions {
            topic: name.clone(),
            total_count: topic.partitions.unwrap_or_default(),
            // The assignment tells of all partitions, the request only of those to add.
            assignment: topic.assignment.as_ref().map(|all| {
                let skip = existing.get(name).copied().unwrap_or_default();
                all.iter().skip(skip).cloned().collect()
            }),
        })
        .collect();
    topics::create_partitions(cluster, &requests).await
}

async fn delete(cluster: &mut Cluster, plan: &Plan) -> Result<(), Trouble> {
    let found = selected(cluster, plan).await?;
    ensure_exists(plan, &found)?;
    let names: Vec<String> = found.into_iter().map(|topic| topic.name).collect();
    if !names.is_empty() {
        for (_, outcome) in topics::delete(cluster, &names).await? {
            outcome?;
        }
        let expected: Vec<_> = names.iter().map(|name| (name.as_str(), 0)).collect();
        topics::settle(cluster, &expected).await;
    }
    if plan.format == Format::Json {
        output::print(&json::document(&json!({ "deleted": names })));
    }
    Ok(())
}
