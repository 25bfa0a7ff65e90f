//! kafka-replica-verification: reads every replica of topics and says where they differ, until it is stopped.
//! Not here: options (options), the comparison (compare), reading a replica (kavka-client).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.ReplicaVerificationTool.

mod compare;
mod options;

use crate::exit;
use crate::java::execution_failure;
use crate::output::{self, Level};
use crate::session::{BOOTSTRAP_SERVER, Session};
use compare::Answer;
use kavka_client::admin::describe_topics::{self, PARTITIONS_PER_RESPONSE};
use kavka_client::admin::offsets::{self, Absent, OffsetSpec};
use kavka_client::admin::replicas::{self, Limits};
use kavka_client::admin::topics;
use kavka_client::{ClientError, Cluster};
use kavka_common::clock::{Clock, SystemClock};
use kavka_common::{NodeId, TopicPartition};
use kavka_protocol::ErrorCode;
use options::{Plan, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

const LOGGER: &str = "org.apache.kafka.tools.ReplicaVerificationTool";
const DEPRECATED: &str = "This tool is deprecated and may be removed in a future major release.";
/// After a broker did not answer.
const RETRY: Duration = Duration::from_secs(1);

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    output::log(Level::Warn, DEPRECATED, LOGGER);
    let plan = match options::parse(arguments.into_iter().skip(1)) {
        Ok(plan) => plan,
        Err(Refusal::Stop(stop)) => return stop.report(&options::OPTIONS),
        Err(Refusal::Escaped(failure)) => return exit::escaped(&failure),
    };
    let mut session = match Session::open(&plan.servers, BOOTSTRAP_SERVER, None) {
        Ok(session) => session,
        Err(error) => return exit::escaped(&error.into()),
    };
    let began = session.run(async |cluster| begin(cluster, &plan).await);
    let verification = match began {
        Ok(Some(verification)) => verification,
        Ok(None) => {
            output::log(
                Level::Error,
                "No topics found. [topics-include] if specified, is either filtering out all topics or there is no topic.",
                LOGGER,
            );
            return ExitCode::FAILURE;
        }
        Err(error) => {
            let code = exit::escaped(&execution_failure(&error));
            session.explain(&error);
            return code;
        }
    };
    output::print(&format!("{}: verification process is started\n", time()));
    session.run_for_long(async |cluster| verify(cluster, &plan, verification).await)
}

fn time() -> String {
    output::date_time(SystemClock::new().wall_ms())
}

/// What is compared, and how far it is.
#[derive(Debug, Default)]
struct Verification {
    offsets: BTreeMap<TopicPartition, i64>,
    /// Partitions by the brokers that hold a replica.
    brokers: BTreeMap<i32, Vec<TopicPartition>>,
}

/// The brokers that hold replicas of these topics, with the partitions.
async fn brokers(
    cluster: &mut Cluster,
    names: &[String],
) -> Result<BTreeMap<i32, Vec<TopicPartition>>, ClientError> {
    let mut brokers: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
    for (name, topic) in describe_topics::by_name(cluster, names, PARTITIONS_PER_RESPONSE).await? {
        let topic = match topic {
            Ok(topic) => topic,
            // Deleted since it was listed.
            Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => continue,
            Err(error) => return Err(error),
        };
        for partition in topic.partitions {
            let at = TopicPartition::new(name.as_str(), partition.partition);
            for broker in partition.replicas {
                brokers.entry(broker).or_default().push(at.clone());
            }
        }
    }
    Ok(brokers)
}

/// Finds the partitions and where to begin; `None`: there are none.
async fn begin(cluster: &mut Cluster, plan: &Plan) -> Result<Option<Verification>, ClientError> {
    let names: Vec<String> = topics::list(cluster)
        .await?
        .into_iter()
        .map(|topic| topic.name)
        .filter(|name| plan.topics.matches(name))
        .collect();
    let mut found = Verification {
        brokers: brokers(cluster, &names).await?,
        ..Default::default()
    };
    let partitions: BTreeSet<&TopicPartition> = found.brokers.values().flatten().collect();
    let wanted: Vec<_> = partitions
        .into_iter()
        .map(|at| (at.clone(), plan.begin))
        .collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut beyond = Vec::new();
    for (partition, listed) in offsets::list(cluster, &wanted, Absent::Await).await? {
        match listed?.offset {
            Some(offset) => {
                found.offsets.insert(partition, offset);
            }
            None => beyond.push((partition, OffsetSpec::Latest)),
        }
    }
    // Nothing is as young as the time: what comes next is.
    for (partition, listed) in offsets::list(cluster, &beyond, Absent::Await).await? {
        found
            .offsets
            .insert(partition, listed?.offset.unwrap_or_default());
    }
    Ok(Some(found))
}

/// Replicas move: asks anew who holds them. Partitions that are gone are no longer compared.
async fn refresh(
    cluster: &mut Cluster,
    verification: &mut Verification,
) -> Result<(), ClientError> {
    let names: BTreeSet<String> = verification
        .offsets
        .keys()
        .map(|partition| partition.topic.to_string())
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    verification.brokers = brokers(cluster, &names).await?;
    Ok(())
}

/// One answer of every replica of every partition.
async fn round(
    cluster: &mut Cluster,
    plan: &Plan,
    verification: &Verification,
) -> Result<BTreeMap<TopicPartition, BTreeMap<i32, Answer>>, (i32, ClientError)> {
    let mut answers: BTreeMap<TopicPartition, BTreeMap<i32, Answer>> = BTreeMap::new();
    for (at, (broker, partitions)) in verification.brokers.iter().enumerate() {
        let offsets = partitions
            .iter()
            .filter_map(|partition| {
                let offset = verification.offsets.get(partition)?;
                Some((partition.clone(), *offset))
            })
            .collect();
        let limits = Limits {
            partition_bytes: plan.fetch_bytes,
            // When the first has nothing new, there is nothing to wait for at the others either.
            max_wait_ms: if at == 0 { plan.max_wait_ms } else { 0 },
        };
        let fetched = replicas::fetch(cluster, NodeId(*broker), &offsets, limits)
            .await
            .map_err(|error| (*broker, error))?;
        for (partition, fetched) in fetched {
            // A replica that moved away, or does not know yet that it is one: its partition is left out of this round.
            let Ok(fetched) = fetched else {
                continue;
            };
            answers.entry(partition).or_default().insert(
                *broker,
                Answer {
                    high_watermark: fetched.high_watermark,
                    records: fetched.records,
                },
            );
        }
    }
    Ok(answers)
}

async fn verify(cluster: &mut Cluster, plan: &Plan, mut verification: Verification) -> ExitCode {
    let clock = SystemClock::new();
    let mut reported_ms = clock.wall_ms();
    let mut trouble: Option<String> = None;
    loop {
        let answers = match round(cluster, plan, &verification).await {
            Ok(answers) => answers,
            Err((broker, error)) => {
                let text = format!("Broker {broker} cannot be read: {error}");
                if trouble.as_ref() != Some(&text) {
                    output::hint(&text);
                    trouble = Some(text);
                }
                tokio::time::sleep(RETRY).await;
                // Who cannot be asked for it is told in the next round.
                let _ = refresh(cluster, &mut verification).await;
                continue;
            }
        };
        trouble = None;
        let mut expected: BTreeMap<TopicPartition, usize> = BTreeMap::new();
        for partition in verification.brokers.values().flatten() {
            *expected.entry(partition.clone()).or_default() += 1;
        }
        let full = |partition: &TopicPartition, answers: &BTreeMap<i32, Answer>| {
            expected.get(partition) == Some(&answers.len())
        };
        let is_stale = answers.len() < expected.len()
            || answers
                .iter()
                .any(|(partition, answers)| !full(partition, answers));
        let mut worst: Option<(i64, TopicPartition)> = None;
        for (partition, answers) in answers {
            if !full(&partition, &answers) {
                continue;
            }
            let Some(offset) = verification.offsets.get_mut(&partition) else {
                continue;
            };
            let verdict = compare::compare(&answers, *offset);
            for finding in &verdict.findings {
                output::print(&format!("{}\n", finding.text(&time(), &partition)));
                if finding.is_final() {
                    return ExitCode::FAILURE;
                }
            }
            *offset = verdict.next_offset;
            if worst.as_ref().is_none_or(|(lag, _)| verdict.lag > *lag) {
                worst = Some((verdict.lag, partition));
            }
        }
        if is_stale {
            tokio::time::sleep(RETRY).await;
            let _ = refresh(cluster, &mut verification).await;
        }
        let now_ms = clock.wall_ms();
        if now_ms - reported_ms > plan.report_ms
            && let Some((lag, partition)) = worst
        {
            let offset = verification.offsets.get(&partition).copied();
            output::print(&format!(
                "{}: max lag is {lag} for partition {partition} at offset {} among {} partitions\n",
                time(),
                offset.unwrap_or_default(),
                verification.offsets.len()
            ));
            reported_ms = now_ms;
        }
    }
}
