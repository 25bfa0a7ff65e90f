//! How kafka-topics shows topics: Apache's lines of 4.x and of 2.x, tables, JSON.
//! Not here: asking the cluster. Pure: text out of descriptions.
//! Kafka: TopicCommand.{TopicDescription, PartitionDescription, DescribeOptions}; KIP-966.

use super::plan::Reports;
use crate::java::hash_map_order;
use crate::table::{Align, Table};
use kavka_client::admin::configs::{ConfigEntry, Source};
use kavka_client::admin::describe_topics::{PartitionDescription, TopicDescription};
use kavka_client::admin::nodes::Reassignment;
use kavka_common::Uuid;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Whose lines are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Current,
    /// As 2.x printed by `--zookeeper`: no ids, no eligible leaders, only the topic's own settings.
    TwoX,
}

/// A topic with all that its lines need.
#[derive(Clone, Debug)]
pub struct Described {
    pub topic: TopicDescription,
    pub configs: Vec<ConfigEntry>,
    /// By partition.
    pub reassignments: BTreeMap<i32, Reassignment>,
}

/// What decides which lines there are.
#[derive(Clone, Debug)]
pub struct View {
    pub style: Style,
    pub reports: Reports,
    pub live_brokers: BTreeSet<i32>,
}

fn ids(list: &[i32]) -> String {
    let ids: Vec<String> = list.iter().map(ToString::to_string).collect();
    ids.join(",")
}

impl Described {
    /// Settings that differ from the default, in the order of Java's hash table.
    fn shown_configs(&self, style: Style) -> Vec<(&str, &str)> {
        let shown = |entry: &&ConfigEntry| match style {
            Style::Current => !entry.is_default(),
            Style::TwoX => entry.source == Source::DynamicTopic,
        };
        let all: Vec<&ConfigEntry> = self.configs.iter().collect();
        let ordered: Vec<&ConfigEntry> = match style {
            // The table holds every setting; which ones are shown is chosen afterwards.
            Style::Current => hash_map_order(all, None, |entry| &entry.name),
            Style::TwoX => {
                let own = all.into_iter().filter(shown).collect();
                hash_map_order(own, None, |entry: &&ConfigEntry| &entry.name)
            }
        };
        ordered
            .into_iter()
            .filter(shown)
            .map(|entry| {
                (
                    entry.name.as_str(),
                    entry.value.as_deref().unwrap_or("null"),
                )
            })
            .collect()
    }

    fn min_insync_replicas(&self) -> usize {
        self.configs
            .iter()
            .find(|entry| entry.name == "min.insync.replicas")
            .and_then(|entry| entry.value.as_deref()?.parse().ok())
            .unwrap_or(1)
    }

    /// Replicas that are only being moved here do not count.
    fn replication_factor(&self, partition: &PartitionDescription) -> usize {
        let adding = self
            .reassignments
            .get(&partition.partition)
            .map_or(0, |moving| moving.adding_replicas.len());
        partition.replicas.len().saturating_sub(adding)
    }

    fn topic_replication_factor(&self) -> usize {
        let first = self.topic.partitions.first();
        first.map_or(0, |partition| self.replication_factor(partition))
    }

    fn shows(&self, view: &View, partition: &PartitionDescription) -> bool {
        let reports = view.reports;
        let in_sync = partition.isr.len();
        let unavailable = partition
            .leader
            .is_none_or(|leader| !view.live_brokers.contains(&leader));
        !reports.only_partitions()
            || (reports.under_replicated && in_sync < self.replication_factor(partition))
            || (reports.unavailable && unavailable)
            || (reports.under_min_isr
                && (partition.leader.is_none() || in_sync < self.min_insync_replicas()))
            || (reports.at_min_isr && in_sync == self.min_insync_replicas())
    }

    /// Apache's lines, each with its newline.
    pub fn text(&self, view: &View) -> String {
        let mut out = String::new();
        if !view.reports.only_partitions() {
            let configs = self.shown_configs(view.style);
            if !view.reports.overridden_configs || !configs.is_empty() {
                out.push_str(&self.topic_line(view.style, &configs));
            }
        }
        if !view.reports.overridden_configs {
            for partition in &self.topic.partitions {
                if self.shows(view, partition) {
                    out.push_str(&self.partition_line(view.style, partition));
                }
            }
        }
        out
    }

    fn topic_line(&self, style: Style, configs: &[(&str, &str)]) -> String {
        let id = match style {
            Style::Current if self.topic.topic_id != Uuid::ZERO => {
                format!("\tTopicId: {}", self.topic.topic_id)
            }
            Style::Current | Style::TwoX => String::new(),
        };
        let configs: Vec<String> = configs.iter().map(|(k, v)| format!("{k}={v}")).collect();
        format!(
            "Topic: {}{id}\tPartitionCount: {}\tReplicationFactor: {}\tConfigs: {}\n",
            self.topic.name,
            self.topic.partitions.len(),
            self.topic_replication_factor(),
            configs.join(",")
        )
    }

    fn partition_line(&self, style: Style, partition: &PartitionDescription) -> String {
        let mut line = format!(
            "\tTopic: {}\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}",
            self.topic.name,
            partition.partition,
            partition
                .leader
                .map_or_else(|| "none".into(), |leader| leader.to_string()),
            ids(&partition.replicas),
            ids(&partition.isr)
        );
        if let Some(moving) = self.reassignments.get(&partition.partition) {
            line.push_str(&format!(
                "\tAdding Replicas: {}\tRemoving Replicas: {}",
                ids(&moving.adding_replicas),
                ids(&moving.removing_replicas)
            ));
        }
        if style == Style::Current {
            let or_unknown =
                |list: &Option<Vec<i32>>| list.as_deref().map_or_else(|| "N/A".into(), ids);
            line.push_str(&format!(
                "\tElr: {}\tLastKnownElr: {}",
                or_unknown(&partition.elr),
                or_unknown(&partition.last_known_elr)
            ));
        }
        line.push('\n');
        line
    }

    fn json(&self, view: &View) -> Value {
        let configs: serde_json::Map<String, Value> = self
            .shown_configs(view.style)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        let partitions: Vec<Value> = self
            .topic
            .partitions
            .iter()
            .filter(|partition| self.shows(view, partition))
            .map(|partition| {
                let moving = self.reassignments.get(&partition.partition);
                json!({
                    "partition": partition.partition,
                    "leader": partition.leader,
                    "replicas": partition.replicas,
                    "isr": partition.isr,
                    "elr": partition.elr,
                    "last_known_elr": partition.last_known_elr,
                    "adding_replicas": moving.map_or(&[][..], |m| &m.adding_replicas),
                    "removing_replicas": moving.map_or(&[][..], |m| &m.removing_replicas),
                })
            })
            .collect();
        json!({
            "name": self.topic.name,
            "topic_id": self.topic.topic_id.to_string(),
            "is_internal": self.topic.is_internal,
            "partition_count": self.topic.partitions.len(),
            "replication_factor": self.topic_replication_factor(),
            "configs": configs,
            "partitions": partitions,
        })
    }

    /// Whether any of it is asked for.
    fn is_shown(&self, view: &View) -> bool {
        if view.reports.overridden_configs {
            !self.shown_configs(view.style).is_empty()
        } else {
            !view.reports.only_partitions()
                || self.topic.partitions.iter().any(|p| self.shows(view, p))
        }
    }
}

/// The document of `--describe --output json`.
pub fn document(topics: &[Described], view: &View) -> Value {
    let topics: Vec<Value> = topics
        .iter()
        .filter(|topic| topic.is_shown(view))
        .map(|topic| topic.json(view))
        .collect();
    json!({ "topics": topics })
}

/// The table of `--describe --output table`: a row for each partition.
pub fn table(topics: &[Described], view: &View) -> String {
    let mut table = Table::new(&[
        ("topic", Align::Left),
        ("partition", Align::Right),
        ("leader", Align::Right),
        ("replicas", Align::Left),
        ("isr", Align::Left),
        ("elr", Align::Left),
        ("configs", Align::Left),
    ]);
    for topic in topics.iter().filter(|topic| topic.is_shown(view)) {
        let configs: Vec<String> = topic
            .shown_configs(view.style)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let configs = configs.join(",");
        for partition in topic
            .topic
            .partitions
            .iter()
            .filter(|partition| topic.shows(view, partition))
        {
            table.row(vec![
                topic.topic.name.clone(),
                partition.partition.to_string(),
                partition
                    .leader
                    .map_or_else(|| "none".into(), |leader| leader.to_string()),
                ids(&partition.replicas),
                ids(&partition.isr),
                ids(partition.elr.as_deref().unwrap_or_default()),
                configs.clone(),
            ]);
        }
    }
    table.render()
}
