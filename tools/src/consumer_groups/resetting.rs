//! `--reset-offsets` at work: asks for what the plan needs, gives new offsets, commits them.
//! Not here: the plan itself and its layout (reset).
//! Runs on the caller's task. Kafka: org.apache.kafka.tools.OffsetsUtils, ConsumerGroupService.resetOffsets; KIP-122.

use super::plan::{Failure, State};
use super::reset::{
    GroupReset, PartitionReset, ResetPlan, Scope, Target, TopicArgument, into_range, java_order,
};
use super::{EXECUTION, RUNTIME, Trouble, complain, failed};
use crate::java::{Exception, hash_map_order};
use crate::json::Format;
use crate::output::{self, Level};
use kavka_client::admin::groups;
use kavka_client::admin::offsets::{self, Absent, CommittedOffset, OffsetSpec};
use kavka_client::{ClientError, Cluster};
use kavka_common::{NodeId, TopicPartition};
use kavka_protocol::ErrorCode;
use std::collections::BTreeMap;

const LOGGER: &str = "org.apache.kafka.tools.OffsetsUtils";

/// Resets groups, or says what would be done. The second value: was everything done?
pub async fn reset(
    cluster: &mut Cluster,
    group_ids: &[String],
    plan: &ResetPlan,
    format: Format,
) -> Result<(Vec<GroupReset>, bool), Trouble> {
    let described = groups::describe_consumer_groups(cluster, group_ids).await?;
    let described = hash_map_order(described, None, |(group, _)| group);
    let mut resets = Vec::with_capacity(described.len());
    let mut all_done = true;
    for (group, description) in described {
        let state = match description {
            Ok(description) => State::parse(&description.state),
            // A group that does not exist is made by committing.
            Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => State::Dead,
            Err(error) => {
                return Err(Failure::wrapped(RUNTIME, failed(EXECUTION, &error)).into());
            }
        };
        let offsets = if matches!(state, State::Empty | State::Dead) {
            reset_group(cluster, &group, plan, format).await?
        } else {
            all_done = false;
            complain(
                &format!(
                    "Assignments can only be reset if the group '{group}' is inactive, but the current state is {}.",
                    state.name()
                ),
                format,
            );
            Some(Vec::new())
        };
        all_done &= offsets.is_some();
        resets.push(GroupReset {
            group,
            offsets: offsets.unwrap_or_default(),
        });
    }
    let resets = hash_map_order(resets, None, |reset| &reset.group);
    Ok((resets, all_done))
}

async fn reset_group(
    cluster: &mut Cluster,
    group: &str,
    plan: &ResetPlan,
    format: Format,
) -> Result<Option<Vec<PartitionReset>>, Trouble> {
    let needs_committed = plan.scope == Scope::AllTopics
        || matches!(plan.target, Target::Current | Target::ShiftBy(_))
        || format != Format::Text;
    let committed = if needs_committed {
        offsets::committed(cluster, group)
            .await
            .map_err(|error| failed(EXECUTION, &error))?
    } else {
        BTreeMap::new()
    };
    let partitions = match &plan.scope {
        Scope::AllTopics => committed.keys().cloned().collect(),
        Scope::Topics(topics) => partitions(cluster, topics).await?,
        Scope::File => Vec::new(),
    };
    let partitions = java_order(partitions, |partition| partition);
    let Some(new) = new_offsets(cluster, group, plan, partitions, &committed, format).await? else {
        return Ok(None);
    };
    if plan.execute && !new.is_empty() {
        let commits: Vec<(TopicPartition, CommittedOffset)> = new
            .iter()
            .map(|(partition, offset)| {
                (
                    partition.clone(),
                    CommittedOffset {
                        offset: *offset,
                        ..Default::default()
                    },
                )
            })
            .collect();
        for (_, result) in offsets::commit(cluster, group, &commits).await? {
            result.map_err(|error| failed(EXECUTION, &error))?;
        }
    }
    Ok(Some(
        new.into_iter()
            .map(|(partition, new)| PartitionReset {
                current: committed.get(&partition).map(|committed| committed.offset),
                partition,
                new,
            })
            .collect(),
    ))
}

/// The partitions that arguments mean; each must exist and have a leader.
async fn partitions(
    cluster: &mut Cluster,
    topics: &[TopicArgument],
) -> Result<Vec<TopicPartition>, Trouble> {
    let mut found: Vec<TopicPartition> = Vec::new();
    let names: Vec<&str> = topics.iter().map(|topic| &*topic.topic).collect();
    let known = known_partitions(cluster, &names).await?;
    for argument in topics {
        let all = match known.get(&argument.topic) {
            Some(topic) => topic.clone()?.into_keys().collect(),
            None => Vec::new(),
        };
        let indexes = argument.partitions.clone().unwrap_or(all);
        found.extend(
            indexes
                .into_iter()
                .map(|index| TopicPartition::new(&*argument.topic, index)),
        );
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Partitions by topic and index, with whether they have a leader; or why there are none.
type Known = BTreeMap<String, Result<BTreeMap<i32, bool>, Exception>>;

pub async fn known_partitions(
    cluster: &mut Cluster,
    topics: &[&str],
) -> Result<Known, ClientError> {
    let mut names = topics.to_vec();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(Known::new());
    }
    let metadata = cluster.metadata("describeTopics", Some(&names)).await?;
    Ok(metadata
        .topics
        .into_iter()
        .map(|topic| {
            let name = topic.name.as_deref().unwrap_or_default().to_owned();
            let result = ClientError::check(topic.error_code, None)
                .map_err(|error| Exception::from(&error))
                .map(|()| {
                    let led = |leader| NodeId(leader) != NodeId::NONE;
                    let partitions = topic.partitions.iter();
                    partitions
                        .map(|p| (p.partition_index, led(p.leader_id)))
                        .collect()
                });
            (name, result)
        })
        .collect())
}

/// Refuses partitions that are missing or have no leader.
async fn check(cluster: &mut Cluster, partitions: &[TopicPartition]) -> Result<(), Trouble> {
    let names: Vec<&str> = partitions
        .iter()
        .map(|partition| &*partition.topic)
        .collect();
    let known = known_partitions(cluster, &names).await?;
    let led = |partition: &TopicPartition| {
        let topic = known.get(&*partition.topic)?.as_ref().ok()?;
        topic.get(&partition.partition).copied()
    };
    let list = |wanted: Option<bool>| -> String {
        let found: Vec<String> = partitions
            .iter()
            .filter(|partition| led(partition) == wanted)
            .map(TopicPartition::to_string)
            .collect();
        found.join(",")
    };
    let missing = list(None);
    if !missing.is_empty() {
        return Err(Exception::new(
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
            format!("The partitions \"{missing}\" do not exist"),
        )
        .into());
    }
    let leaderless = list(Some(false));
    if !leaderless.is_empty() {
        return Err(Exception::new(
            "org.apache.kafka.common.errors.LeaderNotAvailableException",
            format!("The partitions \"{leaderless}\" have no leader"),
        )
        .into());
    }
    Ok(())
}

type Offsets = Vec<(TopicPartition, i64)>;

/// `None`: the file has nothing for this group.
async fn new_offsets(
    cluster: &mut Cluster,
    group: &str,
    plan: &ResetPlan,
    partitions: Vec<TopicPartition>,
    committed: &BTreeMap<TopicPartition, CommittedOffset>,
    format: Format,
) -> Result<Option<Offsets>, Trouble> {
    check(cluster, &partitions).await?;
    Ok(Some(match &plan.target {
        Target::Earliest => ends(cluster, partitions, OffsetSpec::Earliest).await?,
        Target::Latest => ends(cluster, partitions, OffsetSpec::Latest).await?,
        Target::Offset(offset) => {
            let wanted = partitions
                .into_iter()
                .map(|partition| (partition, *offset))
                .collect();
            within_logs(cluster, wanted).await?
        }
        Target::ShiftBy(shift) => {
            let wanted = partitions
                .into_iter()
                .map(|partition| match committed.get(&partition) {
                    Some(committed) => Ok((partition, committed.offset.saturating_add(*shift))),
                    None => Err(Exception::illegal_argument(format!(
                        "Cannot shift offset for partition {partition} since there is no current committed offset"
                    ))),
                })
                .collect::<Result<_, _>>()?;
            within_logs(cluster, wanted).await?
        }
        Target::Timestamp(timestamp) => by_time(cluster, partitions, *timestamp, format).await?,
        Target::Current => {
            let uncommitted: Vec<TopicPartition> = partitions
                .iter()
                .filter(|partition| !committed.contains_key(partition))
                .cloned()
                .collect();
            let mut new: Offsets = partitions
                .into_iter()
                .filter_map(|partition| {
                    let offset = committed.get(&partition)?.offset;
                    Some((partition, offset))
                })
                .collect();
            new.extend(ends(cluster, uncommitted, OffsetSpec::Latest).await?);
            new
        }
        Target::File(file) => {
            let own = file
                .get(&Some(group.to_owned()))
                .or_else(|| file.get(&None));
            let Some(wanted) = own else {
                complain(&format!("No reset plan for group {group} found"), format);
                return Ok(None);
            };
            let wanted = java_order(wanted.clone(), |(partition, _)| partition);
            let named: Vec<TopicPartition> = wanted
                .iter()
                .map(|(partition, _)| partition.clone())
                .collect();
            check(cluster, &named).await?;
            within_logs(cluster, wanted).await?
        }
    }))
}

async fn listed(
    cluster: &mut Cluster,
    partitions: &[TopicPartition],
    spec: OffsetSpec,
) -> Result<Vec<(TopicPartition, Option<i64>)>, Trouble> {
    let wanted: Vec<(TopicPartition, OffsetSpec)> = partitions
        .iter()
        .map(|partition| (partition.clone(), spec))
        .collect();
    offsets::list(cluster, &wanted, Absent::Await)
        .await?
        .into_iter()
        .map(|(partition, result)| match result {
            Ok(listed) => Ok((partition, listed.offset)),
            Err(error) => Err(Failure::wrapped(RUNTIME, failed(EXECUTION, &error)).into()),
        })
        .collect()
}

/// The first or last offsets of logs.
async fn ends(
    cluster: &mut Cluster,
    partitions: Vec<TopicPartition>,
    spec: OffsetSpec,
) -> Result<Offsets, Trouble> {
    let end = match spec {
        OffsetSpec::Earliest => "starting",
        OffsetSpec::Latest | OffsetSpec::Timestamp(_) | OffsetSpec::MaxTimestamp => "ending",
    };
    listed(cluster, &partitions, spec)
        .await?
        .into_iter()
        .map(|(partition, offset)| match offset {
            Some(offset) => Ok((partition, offset)),
            None => Err(Exception::illegal_argument(format!(
                "Error getting {end} offset of topic partition: {partition}"
            ))
            .into()),
        })
        .collect()
}

/// Offsets cut to what the logs have, with a warning for each that is.
async fn within_logs(cluster: &mut Cluster, wanted: Offsets) -> Result<Offsets, Trouble> {
    let partitions: Vec<TopicPartition> = wanted
        .iter()
        .map(|(partition, _)| partition.clone())
        .collect();
    let starts = ends(cluster, partitions.clone(), OffsetSpec::Earliest).await?;
    let ends = ends(cluster, partitions, OffsetSpec::Latest).await?;
    Ok(wanted
        .into_iter()
        .zip(starts.into_iter().zip(ends))
        .map(|((partition, offset), ((_, start), (_, end)))| {
            let (offset, warning) = into_range(&partition, offset, (start, end));
            if let Some(warning) = warning {
                output::log(Level::Warn, &warning, LOGGER);
            }
            (partition, offset)
        })
        .collect())
}

/// The first records at or after a time; where there are none, the end.
async fn by_time(
    cluster: &mut Cluster,
    partitions: Vec<TopicPartition>,
    timestamp: i64,
    format: Format,
) -> Result<Offsets, Trouble> {
    let found = listed(cluster, &partitions, OffsetSpec::Timestamp(timestamp)).await?;
    let mut without = Vec::new();
    for (partition, offset) in &found {
        if offset.is_none() {
            let text = format!(
                "\nWarn: Partition {} from topic {} is empty. Falling back to latest known offset.\n",
                partition.partition, partition.topic
            );
            match format {
                Format::Text => output::print(&text),
                Format::Table | Format::Json => output::error(text.trim_start()),
            }
            without.push(partition.clone());
        }
    }
    let ends: BTreeMap<TopicPartition, i64> = ends(cluster, without, OffsetSpec::Latest)
        .await?
        .into_iter()
        .collect();
    Ok(found
        .into_iter()
        .filter_map(|(partition, offset)| {
            let offset = offset.or_else(|| ends.get(&partition).copied())?;
            Some((partition, offset))
        })
        .collect())
}
