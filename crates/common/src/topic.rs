//! Names of partitions: by topic name, and by topic id.
//! Not here: topic metadata (crates/metadata), name rules of the log folders (crates/storage).
//! Pure data. Kafka: org.apache.kafka.common.{TopicPartition, TopicIdPartition, internals.Topic}; KIP-516.

use crate::Uuid;
use std::fmt;
use std::sync::Arc;

/// The topic that holds group offsets and group metadata.
pub const GROUP_METADATA_TOPIC: &str = "__consumer_offsets";
/// The topic that holds the state of transactions.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";
/// The topic that holds the state of share groups.
pub const SHARE_GROUP_STATE_TOPIC: &str = "__share_group_state";
/// The log of the metadata quorum. It is not a topic that clients may create.
pub const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";
/// Longest legal topic name.
pub const TOPIC_NAME_MAX_BYTES: usize = 249;

/// A partition of a topic, by name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: Arc<str>,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        TopicPartition {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    /// `topic-partition`, as Kafka names folders and log lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A partition with the id of its topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicIdPartition {
    pub topic_id: Uuid,
    pub topic_partition: TopicPartition,
}

/// Why a topic name is not legal, in Kafka's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTopicName(pub String);

impl fmt::Display for InvalidTopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidTopicName {}

/// Kafka's rule for topic names (org.apache.kafka.common.internals.Topic.validate): 1 to 249 characters of
/// `[a-zA-Z0-9._-]`, neither `.` nor `..`.
pub fn validate_topic_name(name: &str) -> Result<(), InvalidTopicName> {
    if name.is_empty() {
        return Err(InvalidTopicName(
            "Topic name is invalid: the empty string is not allowed".into(),
        ));
    }
    if name == "." || name == ".." {
        return Err(InvalidTopicName(format!(
            "Topic name is invalid: '{name}' is not allowed"
        )));
    }
    if name.len() > TOPIC_NAME_MAX_BYTES {
        return Err(InvalidTopicName(format!(
            "Topic name is invalid: the length of '{name}' is longer than the max allowed length {TOPIC_NAME_MAX_BYTES}"
        )));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.chars().all(legal) {
        return Err(InvalidTopicName(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )));
    }
    Ok(())
}

/// Whether two topics would share metric names: `.` and `_` count as the same character.
pub fn topic_names_collide(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && a.bytes()
            .zip(b.bytes())
            .all(|(x, y)| x == y || (matches!(x, b'.' | b'_') && matches!(y, b'.' | b'_')))
}

/// Whether a topic is one of Kafka's own (Topic.INTERNAL_TOPICS).
pub fn is_internal(name: &str) -> bool {
    matches!(
        name,
        GROUP_METADATA_TOPIC | TRANSACTION_STATE_TOPIC | SHARE_GROUP_STATE_TOPIC
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rule() {
        for good in ["a", "a.b_c-D9", "...", &"x".repeat(249)] {
            assert_eq!(validate_topic_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a b", "é", "a/b", &"x".repeat(250)] {
            assert!(validate_topic_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn period_and_underscore_collide() {
        assert!(topic_names_collide("a.b", "a_b"));
        assert!(topic_names_collide("a.b", "a.b"));
        assert!(!topic_names_collide("a.b", "a-b"));
        assert!(!topic_names_collide("a.b", "a.bc"));
    }
}
