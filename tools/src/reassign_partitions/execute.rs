//! `--execute`: throttles, then the moves, then those between directories; and with `--wait`, until all is done.
//! Not here: what a file asks for (assignment), how far a move is (states). Runs on the tool's task.
//! Kafka: ReassignPartitionsCommand.{executeAssignment, executeMoves}.

use super::assignment::{self, Assignment, COMMAND_FAILED, Reassignment, ReplicaDirs};
use super::inquiry::{self, Replicas};
use super::options::Execute;
use super::transfer::{self, Bytes, Transfer};
use super::{Tool, Trouble, plural, throttles};
use crate::java::{Exception, Failure, execution_failure, integer_order};
use crate::json::{self, Format};
use crate::output;
use crate::table::{Align, Table};
use kavka_client::Cluster;
use kavka_client::admin::{log_dirs, nodes, reassignments};
use kavka_common::clock::{Clock, SystemClock};
use kavka_common::{NodeId, TopicPartition};
use kavka_protocol::ErrorCode;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::time::Duration;

const EXISTING: &str = "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition assignment in addition to the existing one. The --additional flag can also be used to change the throttle by resubmitting the current reassignment.";
const VERIFY_LATER: &str = "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed.\n";
/// Between two tries to begin a move to another directory.
const RETRY_MS: u64 = 100;
/// Between two looks at a reassignment under way.
const LOOK_MS: u64 = 1_000;

pub async fn execute(tool: Tool, cluster: &mut Cluster, plan: &Execute) -> Result<(), Trouble> {
    let reassignment = assignment::parse(&plan.reassignment)?;
    reassignment.check()?;
    let targets = reassignment.targets();
    let under_way = nodes::reassignments(cluster, None).await?;
    if !plan.additional && !under_way.is_empty() {
        return Err(Trouble::Terse(EXISTING.into()));
    }
    check_brokers(cluster, &targets).await?;
    let current = inquiry::of_partitions(cluster, targets.keys()).await?;
    let replicas = inquiry::replicas_of(cluster, &current).await?;
    let rollback = assignment::document(&current, &inquiry::dirs(&replicas));
    tool.say(format!(
        "Current partition replica assignment\n\n{rollback}\n\nSave this to use as the --reassignment-json-file option during rollback\n"
    ));
    let table = plan_table(&current, &targets, &replicas);
    match tool.format {
        Format::Table => output::print(&table),
        Format::Text if io::stderr().is_terminal() => output::error(&format!("\n{table}\n")),
        Format::Text | Format::Json => {}
    }
    let throttled = plan.throttle_bytes_per_second >= 0;
    let dirs_throttled = plan.log_dirs_throttle_bytes_per_second >= 0;
    if throttled || dirs_throttled {
        if !plan.wait {
            tool.say(VERIFY_LATER.into());
        }
        if throttled {
            let rate = plan.throttle_bytes_per_second;
            let moves = throttles::moves(&under_way, &targets, &current)?;
            throttles::throttle_moves(cluster, &moves, rate).await?;
            tool.say(format!(
                "The inter-broker throttle limit was set to {rate} B/s\n"
            ));
        }
        if dirs_throttled {
            let rate = plan.log_dirs_throttle_bytes_per_second;
            let brokers = reassignment
                .log_dirs
                .keys()
                .map(|(broker, _)| *broker)
                .collect();
            throttles::throttle_log_dirs(cluster, &brokers, rate).await?;
            tool.say(format!(
                "The replica-alter-dir throttle limit was set to {rate} B/s\n"
            ));
        }
    }
    start(cluster, &targets, plan.allow_replication_factor_change).await?;
    let names: Vec<String> = targets.keys().map(ToString::to_string).collect();
    tool.say(format!(
        "Successfully started partition reassignment{} for {}\n",
        plural(names.len()),
        names.join(",")
    ));
    move_dirs(tool, cluster, &reassignment.log_dirs, plan.timeout_ms).await?;
    let mut document = json!({
        "rollback": rollback,
        "started": assignment::document(&targets, &reassignment.log_dirs),
        "throttle_bytes_per_second": throttled.then_some(plan.throttle_bytes_per_second),
        "replica_alter_log_dirs_throttle_bytes_per_second":
            dirs_throttled.then_some(plan.log_dirs_throttle_bytes_per_second),
    });
    if plan.wait {
        wait(cluster, &reassignment).await?;
        let progress = inquiry::progress(cluster, &reassignment).await?;
        tool.say(progress.text(&reassignment.log_dirs));
        throttles::clear(cluster, &reassignment.partitions, |text| tool.say(text)).await?;
        document["partitions"] = progress.partitions_document();
        document["log_dirs"] = progress.dirs_document(&reassignment.log_dirs);
    }
    if tool.format == Format::Json {
        output::print(&json::document(&document));
    }
    Ok(())
}

async fn check_brokers(cluster: &mut Cluster, targets: &Assignment) -> Result<(), Trouble> {
    let alive: BTreeSet<i32> = nodes::node_ids(cluster).await?.into_iter().collect();
    let asked: BTreeSet<i32> = targets.values().flatten().copied().collect();
    match integer_order(asked)
        .into_iter()
        .find(|id| !alive.contains(id))
    {
        None => Ok(()),
        Some(id) => {
            let text = format!("Unknown broker id {id}");
            Err(Failure::from(Exception::new(COMMAND_FAILED, text)).into())
        }
    }
}

async fn start(
    cluster: &mut Cluster,
    targets: &Assignment,
    allow_replication_factor_change: bool,
) -> Result<(), Trouble> {
    let wanted: BTreeMap<TopicPartition, Option<Vec<i32>>> = targets
        .iter()
        .map(|(partition, replicas)| (partition.clone(), Some(replicas.clone())))
        .collect();
    let outcomes = reassignments::alter(cluster, &wanted, allow_replication_factor_change).await?;
    match super::refusals(outcomes) {
        None => Ok(()),
        Some((_, lines)) => Err(Trouble::Terse(format!(
            "Error reassigning partition(s):\n{lines}"
        ))),
    }
}

/// Begins moves to directories; a replica that is only being made on its broker is tried again until the time is over.
pub async fn move_dirs(
    tool: Tool,
    cluster: &mut Cluster,
    targets: &ReplicaDirs,
    timeout_ms: i64,
) -> Result<(), Trouble> {
    let clock = SystemClock::new();
    let deadline_ms = clock.wall_ms().saturating_add(timeout_ms);
    let mut pending = targets.clone();
    loop {
        let mut brokers: BTreeMap<i32, BTreeMap<TopicPartition, String>> = BTreeMap::new();
        for ((broker, partition), dir) in &pending {
            let partitions = brokers.entry(*broker).or_default();
            partitions.insert(partition.clone(), dir.clone());
        }
        for (broker, partitions) in brokers {
            for (partition, outcome) in
                log_dirs::alter_replicas(cluster, NodeId(broker), &partitions).await?
            {
                match outcome {
                    Ok(()) => {
                        let replica = (broker, partition);
                        let dir = pending.remove(&replica).unwrap_or_default();
                        let partition = replica.1;
                        tool.say(format!(
                            "Successfully started moving log directory to {dir} for replica {partition} with broker {broker} \n"
                        ));
                    }
                    Err(error) if error.code() == Some(ErrorCode::ReplicaNotAvailable) => {}
                    Err(error) => {
                        let mut failure = Failure::from(Exception::new(
                            COMMAND_FAILED,
                            format!("Failed to alter dir for {partition}-{broker}"),
                        ));
                        failure.chain.extend(execution_failure(&error).chain);
                        return Err(failure.into());
                    }
                }
            }
        }
        if pending.is_empty() {
            return Ok(());
        }
        if clock.wall_ms() >= deadline_ms {
            let names: Vec<String> = pending
                .keys()
                .map(|(broker, partition)| format!("{partition}-{broker}"))
                .collect();
            return Err(Trouble::Terse(format!(
                "Timed out before log directory move{} could be started for: {}",
                plural(names.len()),
                names.join(",")
            )));
        }
        tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
    }
}

/// Waits until the targets are reached or given up, with a line that is kept up to date on a terminal.
pub async fn wait(cluster: &mut Cluster, reassignment: &Reassignment) -> Result<(), Trouble> {
    let shown = io::stderr().is_terminal();
    let clock = SystemClock::new();
    let mut transfer = Transfer::default();
    // What every copy that was ever seen is to have; a finished one has it.
    let mut wanted: BTreeMap<(i32, TopicPartition), u64> = BTreeMap::new();
    loop {
        let progress = inquiry::progress(cluster, reassignment).await?;
        if progress.targets_are_done() {
            break;
        }
        if shown {
            let bytes = copied(cluster, reassignment, &mut wanted).await?;
            transfer.observe(clock.wall_ms(), bytes);
            let all = progress.partitions.len();
            let done = progress
                .partitions
                .values()
                .filter(|state| state.done)
                .count();
            output::error(&format!("\r{}\x1b[K", transfer.line((done, all))));
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
    if shown {
        output::error("\r\x1b[K");
    }
    Ok(())
}

/// What the copies under way have, and are to have.
async fn copied(
    cluster: &mut Cluster,
    reassignment: &Reassignment,
    wanted: &mut BTreeMap<(i32, TopicPartition), u64>,
) -> Result<Bytes, Trouble> {
    let under_way = nodes::reassignments(cluster, None).await?;
    let moving: BTreeMap<TopicPartition, &nodes::Reassignment> = reassignment
        .partitions
        .iter()
        .filter_map(|(partition, _)| {
            let key = (partition.topic.to_string(), partition.partition);
            Some((partition.clone(), under_way.get(&key)?))
        })
        .collect();
    let assignment: Assignment = moving
        .iter()
        .map(|(partition, moving)| (partition.clone(), moving.replicas.clone()))
        .collect();
    let sizes = inquiry::replicas_of(cluster, &assignment).await?;
    let mut have: BTreeMap<(i32, TopicPartition), u64> = wanted.clone();
    for (partition, moving) in moving {
        let size = |broker: i32| {
            let found = sizes.get(&(broker, partition.clone()));
            found.map_or(0, |found| found.size_bytes)
        };
        let (new, old): (Vec<i32>, Vec<i32>) = moving
            .replicas
            .iter()
            .partition(|id| moving.adding_replicas.contains(id));
        let full = old.into_iter().map(size).max().unwrap_or_default();
        for broker in new {
            wanted.insert((broker, partition.clone()), full);
            have.insert((broker, partition.clone()), size(broker).min(full));
        }
    }
    Ok(Bytes {
        have: have.values().sum(),
        want: wanted.values().sum(),
    })
}

fn ids(ids: impl IntoIterator<Item = i32>) -> String {
    let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    ids.join(",")
}

/// What a reassignment changes, a row for each partition.
pub fn plan_table(current: &Assignment, targets: &Assignment, replicas: &Replicas) -> String {
    let mut table = Table::new(&[
        ("topic", Align::Left),
        ("partition", Align::Right),
        ("replicas", Align::Left),
        ("new replicas", Align::Left),
        ("adding", Align::Left),
        ("removing", Align::Left),
        ("to copy", Align::Right),
    ]);
    let mut sum = 0u64;
    for (partition, new) in targets {
        let old = current.get(partition).map_or(&[][..], Vec::as_slice);
        let adding: Vec<i32> = new.iter().copied().filter(|id| !old.contains(id)).collect();
        let removing = old.iter().copied().filter(|id| !new.contains(id));
        let sizes = old
            .iter()
            .filter_map(|id| replicas.get(&(*id, partition.clone())))
            .map(|found| found.size_bytes);
        let copies = u64::try_from(adding.len()).unwrap_or_default();
        let bytes = sizes.max().unwrap_or_default().saturating_mul(copies);
        sum = sum.saturating_add(bytes);
        table.row(vec![
            partition.topic.to_string(),
            partition.partition.to_string(),
            ids(old.iter().copied()),
            ids(new.iter().copied()),
            ids(adding),
            ids(removing),
            transfer::size(bytes),
        ]);
    }
    format!(
        "{}To copy in all: {}\n",
        table.render(),
        transfer::size(sum)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use inquiry::Found;

    #[test]
    fn the_plan_says_what_is_copied() {
        let at = |partition| TopicPartition::new("t", partition);
        let current = Assignment::from([(at(0), vec![1, 2]), (at(1), vec![2, 3])]);
        let targets = Assignment::from([(at(0), vec![3, 1]), (at(1), vec![3, 2])]);
        let found = |size_bytes| Found {
            size_bytes,
            ..Default::default()
        };
        let replicas = Replicas::from([((1, at(0)), found(1_500_000)), ((2, at(0)), found(900))]);
        assert_eq!(
            plan_table(&current, &targets, &replicas),
            "topic  partition  replicas  new replicas  adding  removing  to copy
-----  ---------  --------  ------------  ------  --------  -------
t              0  1,2       3,1           3       2          1.5 MB
t              1  2,3       3,2                                 0 B
To copy in all: 1.5 MB
"
        );
    }
}
