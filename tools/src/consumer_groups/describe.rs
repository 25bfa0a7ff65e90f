//! Layouts of `--list` and `--describe`: Apache's columns, tables, JSON.
//! Not here: where the facts come from (mod).
//! Pure. Kafka: ConsumerGroupCommand.ConsumerGroupService.{printGroupInfo, printOffsets, printMembers, printStates}.

use super::plan::{ListPlan, State, type_name};
use crate::table::{Align, Table};
use kavka_client::admin::groups::{GroupDescription, GroupListing, MemberDescription};
use kavka_common::TopicPartition;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What stands where nothing is known.
const MISSING: &str = "-";

/// A partition that a group reads, or has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetRow {
    pub partition: TopicPartition,
    pub leader_epoch: Option<i32>,
    pub offset: Option<i64>,
    pub log_end_offset: Option<i64>,
    /// Consumer's id, host and client id; `None` when nobody reads the partition.
    pub member: Option<[String; 3]>,
}

impl OffsetRow {
    pub fn lag(&self) -> Option<i64> {
        Some(self.log_end_offset? - self.offset?)
    }

    fn member(&self, part: usize) -> &str {
        self.member.as_ref().map_or(MISSING, |member| &member[part])
    }
}

fn or_missing(value: Option<impl ToString>) -> String {
    value.map_or_else(|| MISSING.to_owned(), |value| value.to_string())
}

/// The widest of some texts, but at least `least`; Java counts UTF-16 units.
fn width<'a>(least: usize, texts: impl Iterator<Item = &'a str>) -> usize {
    texts
        .map(|text| text.encode_utf16().count())
        .max()
        .unwrap_or(0)
        .max(least)
}

/// Groups as `--list` shows them.
pub fn listing(groups: &[GroupListing], plan: &ListPlan) -> String {
    if !plan.with_state && !plan.with_type {
        return groups
            .iter()
            .map(|group| format!("{}\n", group.group_id))
            .collect();
    }
    let name_width = 10 + width(15, groups.iter().map(|group| &*group.group_id));
    let line = |name: &str, group_type: &str, state: &str| {
        let mut line = format!("{name:<name_width$}");
        if plan.with_type {
            line.push_str(&format!(" {group_type:<20}"));
        }
        if plan.with_state {
            line.push_str(&format!(" {state:<20}"));
        }
        line + "\n"
    };
    let rows = groups.iter().map(|group| {
        line(
            &group.group_id,
            type_name(&group.group_type),
            State::parse(&group.state).name(),
        )
    });
    std::iter::once(line("GROUP", "TYPE", "STATE"))
        .chain(rows)
        .collect()
}

pub fn listing_table(groups: &[GroupListing]) -> String {
    let mut table = Table::new(&[
        ("group", Align::Left),
        ("type", Align::Left),
        ("state", Align::Left),
    ]);
    for group in groups {
        table.row(vec![
            group.group_id.clone(),
            type_name(&group.group_type).into(),
            State::parse(&group.state).name().into(),
        ]);
    }
    table.render()
}

pub fn listing_document(groups: &[GroupListing]) -> Value {
    let groups: Vec<Value> = groups
        .iter()
        .map(|group| {
            json!({
                "group": group.group_id,
                "type": type_name(&group.group_type),
                "state": State::parse(&group.state).name(),
                "protocol_type": group.protocol_type,
            })
        })
        .collect();
    json!({ "groups": groups })
}

/// `--describe --offsets`.
pub fn offsets(group: &str, rows: &[OffsetRow], verbose: bool) -> String {
    let group_width = width(15, [group].into_iter());
    let topic_width = width(15, rows.iter().map(|row| &*row.partition.topic));
    let consumer_width = width(15, rows.iter().map(|row| row.member(0)));
    let host_width = width(15, rows.iter().map(|row| row.member(1)));
    let line = |cells: [&str; 10]| {
        let [
            group,
            topic,
            partition,
            epoch,
            offset,
            end,
            lag,
            consumer,
            host,
            client,
        ] = cells;
        let epoch = if verbose {
            format!("{epoch:<15} ")
        } else {
            String::new()
        };
        format!(
            "\n{group:<group_width$} {topic:<topic_width$} {partition:<10} {epoch}{offset:<15} {end:<15} {lag:<15} {consumer:<consumer_width$} {host:<host_width$} {client}"
        )
    };
    let mut text = line([
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]);
    for row in rows {
        text.push_str(&line([
            group,
            &row.partition.topic,
            &row.partition.partition.to_string(),
            &or_missing(row.leader_epoch),
            &or_missing(row.offset),
            &or_missing(row.log_end_offset),
            &or_missing(row.lag()),
            row.member(0),
            row.member(1),
            row.member(2),
        ]));
    }
    text + "\n"
}

/// `t:0,1;u:0`, as Java writes an assignment.
fn assignment(partitions: &BTreeSet<TopicPartition>) -> String {
    if partitions.is_empty() {
        return MISSING.into();
    }
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics
            .entry(&partition.topic)
            .or_default()
            .push(partition.partition);
    }
    let mut topics: Vec<String> = topics
        .into_iter()
        .map(|(topic, partitions)| {
            // Java sorts them as numbers.
            let numbers: Vec<String> = partitions.iter().map(i32::to_string).collect();
            format!("{topic}:{}", numbers.join(","))
        })
        .collect();
    topics.sort();
    topics.join(";")
}

fn target(member: &MemberDescription) -> String {
    member
        .target_assignment
        .as_ref()
        .map_or_else(|| MISSING.into(), assignment)
}

/// `--describe --members`.
pub fn members(group: &GroupDescription, verbose: bool) -> String {
    let members = &group.members;
    let instance =
        |member: &MemberDescription| member.group_instance_id.clone().unwrap_or_default();
    let instances: Vec<String> = members.iter().map(instance).collect();
    let with_instance = instances.iter().any(|id| !id.is_empty());
    // A migrating group has members of both protocols.
    let with_upgraded = members.iter().any(|m| m.upgraded == Some(true))
        && members.iter().any(|m| m.upgraded == Some(false));
    let current: Vec<String> = members.iter().map(|m| assignment(&m.assignment)).collect();
    let targets: Vec<String> = members.iter().map(target).collect();
    let own = if members.is_empty() {
        ""
    } else {
        &*group.group_id
    };
    let group_width = width(15, [own].into_iter());
    let consumer_width = width(15, members.iter().map(|m| &*m.member_id));
    let instance_width = width(17, instances.iter().map(String::as_str));
    let host_width = width(15, members.iter().map(|m| &*m.host));
    let client_width = width(15, members.iter().map(|m| &*m.client_id));
    let current_width = width(20, current.iter().map(String::as_str));
    let target_width = width(20, targets.iter().map(String::as_str));
    let line = |cells: [&str; 11]| {
        let [
            group,
            consumer,
            instance,
            host,
            client,
            count,
            epoch,
            now,
            target_epoch,
            then,
            up,
        ] = cells;
        let instance = if with_instance {
            format!("{instance:<instance_width$} ")
        } else {
            String::new()
        };
        let mut line = format!(
            "{group:<group_width$} {consumer:<consumer_width$} {instance}{host:<host_width$} {client:<client_width$} {count:<15} "
        );
        if verbose {
            line.push_str(&format!(
                "{epoch:<15} {now:<current_width$} {target_epoch:<15} {then:<target_width$}"
            ));
            if with_upgraded {
                line.push_str(&format!(" {up}"));
            }
        }
        line + "\n"
    };
    let mut text = String::from("\n");
    text.push_str(&line([
        "GROUP",
        "CONSUMER-ID",
        "GROUP-INSTANCE-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
        "UPGRADED",
    ]));
    for (index, member) in members.iter().enumerate() {
        text.push_str(&line([
            &group.group_id,
            &member.member_id,
            &instances[index],
            &member.host,
            &member.client_id,
            &member.assignment.len().to_string(),
            &or_missing(member.member_epoch),
            &current[index],
            &or_missing(group.target_assignment_epoch),
            &targets[index],
            &or_missing(member.upgraded),
        ]));
    }
    text
}

/// `--describe --state`.
pub fn state(group: &GroupDescription, verbose: bool) -> String {
    let coordinator = format!("{}  ({})", group.coordinator, group.coordinator_id);
    let coordinator_width = width(25, [&*coordinator].into_iter());
    let group_width = width(15, [&*group.group_id].into_iter());
    let line = |cells: [&str; 7]| {
        let [
            group,
            coordinator,
            strategy,
            state,
            epoch,
            target_epoch,
            count,
        ] = cells;
        let epochs = if verbose {
            format!("{epoch:<15} {target_epoch:<25} ")
        } else {
            String::new()
        };
        format!(
            "\n{group:<group_width$} {coordinator:<coordinator_width$} {strategy:<20} {state:<20} {epochs}{count}"
        )
    };
    let strategy = if group.assignor.is_empty() {
        MISSING
    } else {
        &group.assignor
    };
    line([
        "GROUP",
        "COORDINATOR (ID)",
        "ASSIGNMENT-STRATEGY",
        "STATE",
        "GROUP-EPOCH",
        "TARGET-ASSIGNMENT-EPOCH",
        "#MEMBERS",
    ]) + &line([
        &group.group_id,
        &coordinator,
        strategy,
        State::parse(&group.state).name(),
        &or_missing(group.group_epoch),
        &or_missing(group.target_assignment_epoch),
        &group.members.len().to_string(),
    ]) + "\n"
}

/// Partitions of all groups in one table.
pub fn offsets_table(groups: &[(GroupDescription, Vec<OffsetRow>)]) -> String {
    let mut table = Table::new(&[
        ("group", Align::Left),
        ("topic", Align::Left),
        ("partition", Align::Right),
        ("committed", Align::Right),
        ("log end", Align::Right),
        ("lag", Align::Right),
        ("consumer id", Align::Left),
        ("host", Align::Left),
        ("client id", Align::Left),
    ]);
    for (group, rows) in groups {
        for row in rows {
            table.row(vec![
                group.group_id.clone(),
                row.partition.topic.to_string(),
                row.partition.partition.to_string(),
                or_missing(row.offset),
                or_missing(row.log_end_offset),
                or_missing(row.lag()),
                row.member(0).into(),
                row.member(1).into(),
                row.member(2).into(),
            ]);
        }
    }
    table.render()
}

pub fn members_table(groups: &[(GroupDescription, Vec<OffsetRow>)]) -> String {
    let mut table = Table::new(&[
        ("group", Align::Left),
        ("consumer id", Align::Left),
        ("instance id", Align::Left),
        ("host", Align::Left),
        ("client id", Align::Left),
        ("partitions", Align::Right),
        ("assignment", Align::Left),
    ]);
    for (group, _) in groups {
        for member in &group.members {
            table.row(vec![
                group.group_id.clone(),
                member.member_id.clone(),
                member.group_instance_id.clone().unwrap_or_default(),
                member.host.clone(),
                member.client_id.clone(),
                member.assignment.len().to_string(),
                assignment(&member.assignment),
            ]);
        }
    }
    table.render()
}

pub fn states_table(groups: &[(GroupDescription, Vec<OffsetRow>)]) -> String {
    let mut table = Table::new(&[
        ("group", Align::Left),
        ("coordinator", Align::Left),
        ("id", Align::Right),
        ("strategy", Align::Left),
        ("state", Align::Left),
        ("members", Align::Right),
    ]);
    for (group, _) in groups {
        table.row(vec![
            group.group_id.clone(),
            group.coordinator.to_string(),
            group.coordinator_id.to_string(),
            group.assignor.clone(),
            State::parse(&group.state).name().into(),
            group.members.len().to_string(),
        ]);
    }
    table.render()
}

fn assignment_document(partitions: &BTreeSet<TopicPartition>) -> Value {
    partitions
        .iter()
        .map(|p| json!({ "topic": &*p.topic, "partition": p.partition }))
        .collect()
}

/// Everything about groups, whatever the view.
pub fn document(groups: &[(GroupDescription, Vec<OffsetRow>)]) -> Value {
    let groups: Vec<Value> = groups
        .iter()
        .map(|(group, rows)| {
            let members: Vec<Value> = group
                .members
                .iter()
                .map(|member| {
                    json!({
                        "consumer_id": member.member_id,
                        "group_instance_id": member.group_instance_id,
                        "host": member.host,
                        "client_id": member.client_id,
                        "member_epoch": member.member_epoch,
                        "assignment": assignment_document(&member.assignment),
                        "target_assignment":
                            member.target_assignment.as_ref().map(assignment_document),
                    })
                })
                .collect();
            let partitions: Vec<Value> = rows
                .iter()
                .map(|row| {
                    json!({
                        "topic": &*row.partition.topic,
                        "partition": row.partition.partition,
                        "current_offset": row.offset,
                        "leader_epoch": row.leader_epoch,
                        "log_end_offset": row.log_end_offset,
                        "lag": row.lag(),
                        "consumer_id": row.member.as_ref().map(|member| &member[0]),
                    })
                })
                .collect();
            json!({
                "group": group.group_id,
                "state": State::parse(&group.state).name(),
                "coordinator": group.coordinator.to_string(),
                "coordinator_id": group.coordinator_id.0,
                "assignment_strategy": group.assignor,
                "group_epoch": group.group_epoch,
                "target_assignment_epoch": group.target_assignment_epoch,
                "members": members,
                "partitions": partitions,
            })
        })
        .collect();
    json!({ "groups": groups })
}
