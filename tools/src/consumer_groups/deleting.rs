//! `--delete` and `--delete-offsets`: done at once, with an outcome for each group or partition.
//! Not here: which options go with them (options).
//! Runs on the caller's task. Kafka: ConsumerGroupService.{deleteGroups, deleteOffsets}; KIP-229, KIP-496.

use super::reset::TopicArgument;
use super::resetting::known_partitions;
use super::{Trouble, complain};
use crate::java::{Exception, hash_map_order};
use crate::json::{self, Format};
use crate::output;
use crate::table::{Align, Table};
use kavka_client::admin::{ItemResult, groups, offsets};
use kavka_client::{ClientError, Cluster};
use kavka_common::TopicPartition;
use kavka_protocol::ErrorCode;
use serde_json::json;
use std::collections::BTreeMap;

/// Deletes groups; says whether all are gone.
pub async fn groups(
    cluster: &mut Cluster,
    group_ids: &[String],
    format: Format,
) -> Result<bool, Trouble> {
    let results = groups::delete(cluster, group_ids).await?;
    let results: Vec<(String, Option<String>)> = hash_map_order(results, None, |(group, _)| group)
        .into_iter()
        .map(|(group, result)| (group, result.err().map(|e| Exception::from(&e).trace())))
        .collect();
    output::print(&match format {
        Format::Text => groups_text(&results),
        Format::Table => {
            let mut table = Table::new(&[("group", Align::Left), ("outcome", Align::Left)]);
            for (group, error) in &results {
                table.row(vec![
                    group.clone(),
                    error.clone().unwrap_or("deleted".into()),
                ]);
            }
            table.render()
        }
        Format::Json => {
            let groups: Vec<_> = results
                .iter()
                .map(|(group, error)| {
                    json!({ "group": group, "deleted": error.is_none(), "error": error })
                })
                .collect();
            json::document(&json!({ "groups": groups }))
        }
    });
    Ok(results.iter().all(|(_, error)| error.is_none()))
}

pub fn groups_text(results: &[(String, Option<String>)]) -> String {
    let deleted: Vec<String> = results
        .iter()
        .filter(|(_, error)| error.is_none())
        .map(|(group, _)| format!("'{group}'"))
        .collect();
    let deleted_list = deleted.join(", ");
    if deleted.len() == results.len() {
        return format!("Deletion of requested consumer groups ({deleted_list}) was successful.\n");
    }
    let mut text = String::from("\nError: Deletion of some consumer groups failed:\n");
    for (group, error) in results {
        if let Some(error) = error {
            text.push_str(&format!(
                "* Group '{group}' could not be deleted due to: {error}\n"
            ));
        }
    }
    if !deleted.is_empty() {
        text.push_str(&format!(
            "\nThese consumer groups were deleted successfully: {deleted_list}\n"
        ));
    }
    text
}

/// Deletes a group's offsets for topics; says whether all are gone.
pub async fn offsets(
    cluster: &mut Cluster,
    group: &str,
    topics: &[TopicArgument],
    format: Format,
) -> Result<bool, Trouble> {
    // A partition, or -1 for a topic that does not exist, and what it came to.
    let mut outcomes: BTreeMap<(String, i32), Option<String>> = BTreeMap::new();
    let mut partitions = Vec::new();
    let whole: Vec<&str> = topics
        .iter()
        .filter(|t| t.partitions.is_none())
        .map(|t| &*t.topic)
        .collect();
    let mut known = known_partitions(cluster, &whole).await?;
    for argument in topics {
        let indexes = match &argument.partitions {
            Some(indexes) => indexes.clone(),
            None => match known.remove(&argument.topic) {
                Some(Ok(indexes)) => indexes.into_keys().collect(),
                Some(Err(error)) => {
                    outcomes.insert((argument.topic.clone(), -1), Some(error.trace()));
                    continue;
                }
                None => continue,
            },
        };
        partitions.extend(
            indexes
                .into_iter()
                .map(|index| TopicPartition::new(&*argument.topic, index)),
        );
    }
    partitions.sort();
    partitions.dedup();
    let answer = offsets::delete(cluster, group, &partitions).await?;
    let summary = summary(&answer);
    let trace = |error: &ClientError| Exception::from(error).trace();
    let mut add = |partition: &TopicPartition, error| {
        outcomes.insert((partition.topic.to_string(), partition.partition), error);
    };
    match &answer {
        Err(error) => partitions.iter().for_each(|p| add(p, Some(trace(error)))),
        Ok(results) => results
            .iter()
            .for_each(|(p, r)| add(p, r.as_ref().err().map(trace))),
    }
    match (&summary, format) {
        (None, Format::Text) => output::print(&format!(
            "Request succeeded for deleting offsets from group {group}.\n"
        )),
        (Some(text), _) => complain(text, format),
        (None, Format::Table | Format::Json) => {}
    }
    output::print(&match format {
        Format::Text => offsets_text(&outcomes),
        Format::Table => {
            let mut table = Table::new(&[
                ("topic", Align::Left),
                ("partition", Align::Right),
                ("outcome", Align::Left),
            ]);
            for ((topic, partition), error) in &outcomes {
                let outcome = error.clone().unwrap_or("deleted".into());
                table.row(vec![topic.clone(), index_text(*partition), outcome]);
            }
            table.render()
        }
        Format::Json => {
            let partitions: Vec<_> = outcomes
                .iter()
                .map(|((topic, partition), error)| {
                    json!({
                        "topic": topic,
                        "partition": (*partition >= 0).then_some(partition),
                        "deleted": error.is_none(),
                        "error": error,
                    })
                })
                .collect();
            json::document(&json!({ "group": group, "partitions": partitions }))
        }
    });
    Ok(summary.is_none() && outcomes.values().all(Option::is_none))
}

/// What is told of the whole, when it is not success.
fn summary(answer: &ItemResult<Vec<(TopicPartition, ItemResult<()>)>>) -> Option<String> {
    let error = match answer {
        Err(error) => error,
        Ok(results) => results
            .iter()
            .find_map(|(_, result)| result.as_ref().err())?,
    };
    Some(match error.code() {
        Some(
            code @ (ErrorCode::InvalidGroupId
            | ErrorCode::GroupIdNotFound
            | ErrorCode::GroupAuthorizationFailed
            | ErrorCode::NonEmptyGroup),
        ) => code.message().to_owned(),
        Some(
            ErrorCode::GroupSubscribedToTopic
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::UnknownTopicOrPartition,
        ) => "Encountered some partition-level error, see the follow-up details.".into(),
        Some(code) => format!("Encountered some unknown error: {}", code.name()),
        None => format!("Encountered some unknown error: {error}"),
    })
}

fn index_text(partition: i32) -> String {
    if partition < 0 {
        "-".into()
    } else {
        partition.to_string()
    }
}

pub fn offsets_text(outcomes: &BTreeMap<(String, i32), Option<String>>) -> String {
    let topics = outcomes.keys().map(|(topic, _)| topic.chars().count());
    let topic_width = topics.max().unwrap_or(0).max(15);
    let line = |topic: &str, partition: &str, status: &str| {
        format!("\n{topic:<topic_width$} {partition:<10} {status:<15}")
    };
    // Java sorts by the texts put together.
    let mut sorted: Vec<_> = outcomes.iter().collect();
    sorted.sort_by_key(|((topic, partition), _)| format!("{topic}{partition}"));
    let mut text = line("TOPIC", "PARTITION", "STATUS");
    for ((topic, partition), error) in sorted {
        let status = match error {
            None => "Successful".to_owned(),
            Some(error) => format!("Error: {error}"),
        };
        text.push_str(&line(topic, &index_text(*partition), &status));
    }
    text + "\n"
}
