//! Which topics a pattern means, and where a read between two moments begins and ends.
//! Not here: the loop, printing. Asks the cluster through the consumer it is given.
//! Runs on the tool's thread. Kafka: SubscriptionPattern; the window has no counterpart.

use super::options::{Source, Window};
use crate::client_events::Printer;
use kavka_client::consumer::{Consumer, Received, Start, Timestamp};
use kavka_client::librdkafka::JavaError;
use regex::Regex;
use std::collections::HashMap;
use std::time::Duration;

/// How often topics that have appeared are looked for.
const REFRESH_MS: i64 = 30_000;
const INTERNAL: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];

/// The topics of a pattern, followed as they come and go.
pub(super) struct Topics {
    pattern: Option<Regex>,
    subscribed: Vec<String>,
    next_refresh_ms: i64,
}

impl Topics {
    /// Fails with a Java exception when the pattern is none.
    pub(super) fn new(source: &Source) -> Result<Topics, String> {
        let pattern = match source {
            Source::Matching(pattern) => Some(
                Regex::new(&format!("^(?:{pattern})$"))
                    .map_err(|e| pattern_error(pattern, &e.to_string()))?,
            ),
            Source::Topic(_) | Source::Partition(..) => None,
        };
        Ok(Topics {
            pattern,
            subscribed: Vec::new(),
            next_refresh_ms: i64::MIN,
        })
    }

    fn matching(
        &self,
        consumer: &Consumer<Printer>,
        wait: Duration,
    ) -> Result<Vec<String>, JavaError> {
        let Some(pattern) = &self.pattern else {
            return Ok(Vec::new());
        };
        let mut names: Vec<String> = consumer
            .topic_names(wait)?
            .into_iter()
            .filter(|name| pattern.is_match(name) && !INTERNAL.contains(&name.as_str()))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Subscribes anew when the set of matching topics has changed.
    pub(super) fn refresh(&mut self, consumer: &Consumer<Printer>, now_ms: i64) {
        if self.pattern.is_none() || now_ms < self.next_refresh_ms {
            return;
        }
        match self.matching(consumer, Duration::from_secs(1)) {
            Ok(names) => {
                self.next_refresh_ms = now_ms.saturating_add(REFRESH_MS);
                if names != self.subscribed
                    && (names.is_empty() || consumer.subscribe_all(&names).is_ok())
                {
                    self.subscribed = names;
                }
            }
            // Nobody answers yet; the next tick asks again.
            Err(_) => self.next_refresh_ms = now_ms,
        }
    }
}

/// Java's exception for a pattern: what, where, the pattern, a caret.
fn pattern_error(pattern: &str, error: &str) -> String {
    let what = error
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "))
        .unwrap_or("not a regular expression");
    let what = match what {
        "unclosed character class" => "Unclosed character class",
        "unclosed group" => "Unclosed group",
        other => other,
    };
    // The library's caret stands below the pattern as we wrapped it, indented by four.
    let at = error
        .lines()
        .find_map(|line| line.find('^').filter(|_| line.trim() == "^"))
        .map_or(0, |column| column.saturating_sub(4 + "^(?:".len()));
    format!(
        "java.util.regex.PatternSyntaxException: {what} near index {at}\n{pattern}\n{}^",
        " ".repeat(at)
    )
}

/// Where a partition is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Before this offset.
    Offset(i64),
    /// When records are newer than the window.
    Time,
}

/// What is read before the tool ends by itself.
pub(super) struct Plan {
    /// `None`: no end.
    left: Option<HashMap<(String, i32), Until>>,
    to_ms: Option<i64>,
    /// How often the end of a partition with this number was reported; the reports have no topic.
    ends: HashMap<i32, usize>,
}

impl Plan {
    pub(super) fn endless() -> Plan {
        Plan {
            left: None,
            to_ms: None,
            ends: HashMap::new(),
        }
    }

    /// Finds the offsets of the window's edges and assigns the partitions.
    pub(super) fn within(
        window: Window,
        source: &Source,
        topics: &Topics,
        consumer: &Consumer<Printer>,
        now_ms: i64,
        wait: Duration,
    ) -> Result<Plan, JavaError> {
        let mut partitions = Vec::new();
        match source {
            Source::Partition(topic, partition, _) => partitions.push((topic.clone(), *partition)),
            Source::Topic(topic) => {
                for partition in consumer.partitions(topic, wait)? {
                    partitions.push((topic.clone(), partition));
                }
            }
            Source::Matching(_) => {
                for topic in topics.matching(consumer, wait)? {
                    for partition in consumer.partitions(&topic, wait)? {
                        partitions.push((topic.clone(), partition));
                    }
                }
            }
        }
        if partitions.is_empty()
            && let Source::Topic(topic) = source
        {
            return Err(JavaError::new(
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
                format!("Topic {topic} does not exist."),
            ));
        }
        let mut assignment = Vec::new();
        let mut left = HashMap::new();
        for (topic, partition) in partitions {
            let (first, end) = consumer.watermarks(&topic, partition, wait)?;
            let start = match window.from_ms {
                None => first,
                Some(from) => consumer
                    .offset_for_time(&topic, partition, from, wait)?
                    .unwrap_or(end),
            };
            if let Some(to_ms) = window.to_ms {
                let after = to_ms.saturating_add(1);
                let until = match consumer.offset_for_time(&topic, partition, after, wait)? {
                    Some(offset) => Until::Offset(offset),
                    None if to_ms > now_ms => Until::Time,
                    None => Until::Offset(end),
                };
                if matches!(until, Until::Offset(offset) if offset <= start) {
                    continue;
                }
                left.insert((topic.clone(), partition), until);
            }
            assignment.push((topic, partition, Start::At(start)));
        }
        consumer.assign(&assignment)?;
        Ok(Plan {
            left: window.to_ms.map(|_| left),
            to_ms: window.to_ms,
            ends: HashMap::new(),
        })
    }

    /// Is everything read?
    pub(super) fn complete(&self) -> bool {
        self.left.as_ref().is_some_and(HashMap::is_empty)
    }

    /// Has the window's end passed, with nothing to read at the moment?
    pub(super) fn over(&self, now_ms: i64) -> bool {
        self.left
            .as_ref()
            .is_some_and(|left| left.values().all(|until| *until == Until::Time))
            && self.to_ms.is_some_and(|to_ms| now_ms > to_ms)
    }

    /// Does the record belong to what is read? Notes how far its partition is.
    pub(super) fn wants(&mut self, record: &Received<'_>) -> bool {
        let Some(left) = &mut self.left else {
            return true;
        };
        let place = (record.topic().to_owned(), record.partition());
        match left.get(&place) {
            None => false,
            Some(Until::Offset(end)) => {
                let wanted = record.offset() < *end;
                if record.offset() + 1 >= *end {
                    left.remove(&place);
                }
                wanted
            }
            Some(Until::Time) => match record.timestamp() {
                Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => {
                    self.to_ms.is_none_or(|to_ms| ms <= to_ms)
                }
                Timestamp::NotAvailable => true,
            },
        }
    }

    /// All of a partition is read. The last offsets may be control records, which are never delivered.
    pub(super) fn partition_end(&mut self, partition: i32) {
        let Some(left) = &mut self.left else {
            return;
        };
        let reports = self.ends.entry(partition).or_default();
        *reports += 1;
        let candidates = left
            .iter()
            .filter(|((_, p), until)| *p == partition && **until != Until::Time)
            .count();
        if *reports >= candidates {
            left.retain(|(_, p), until| *p != partition || *until == Until::Time);
        }
    }
}
