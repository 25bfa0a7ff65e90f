//! Names of the files of a log and of the folders of a log directory.
//! Not here: what is inside them.
//! Pure data.
//! Kafka: org.apache.kafka.storage.internals.log.LogFileUtils, UnifiedLog.parseTopicPartitionName.

use kavka_common::topic::TOPIC_NAME_MAX_BYTES;
use kavka_common::{Offset, TopicPartition, Uuid};

pub const LOG: &str = ".log";
pub const INDEX: &str = ".index";
pub const TIME_INDEX: &str = ".timeindex";
pub const TXN_INDEX: &str = ".txnindex";
pub const PRODUCER_SNAPSHOT: &str = ".snapshot";
/// Appended to a file that is to be removed after `file.delete.delay.ms`.
pub const DELETED: &str = ".deleted";
/// Appended to the output of a compaction or split that did not end.
pub const CLEANED: &str = ".cleaned";
/// Appended to the output of a compaction or split that replaces its originals.
pub const SWAP: &str = ".swap";
/// Appended to a file that is being written and will be renamed.
pub const TEMPORARY: &str = ".tmp";

pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
pub const PARTITION_METADATA: &str = "partition.metadata";
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
pub const LOG_START_CHECKPOINT: &str = "log-start-offset-checkpoint";
pub const HIGH_WATERMARK_CHECKPOINT: &str = "replication-offset-checkpoint";
pub const META_PROPERTIES: &str = "meta.properties";
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
pub const LOCK: &str = ".lock";

/// `00000000000000000042.log` for offset 42 and suffix `.log`.
pub fn offset_file(offset: Offset, suffix: &str) -> String {
    format!("{offset:020}{suffix}")
}

/// The offset and the rest of a name that starts with 20 digits and a dot.
pub fn parse_offset_file(name: &str) -> Option<(Offset, &str)> {
    let digits = name.get(..20)?;
    let suffix = name.get(20..)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) || !suffix.starts_with('.') {
        return None;
    }
    Some((digits.parse().ok()?, suffix))
}

/// What a folder of a log directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// `topic-0`
    Log(TopicPartition),
    /// `topic-0.<32 hex>-future`: a copy that is being moved into this directory.
    Future(TopicPartition),
    /// `topic-0.<32 hex>-delete`: to be removed.
    Delete,
    /// `topic-0.<32 hex>-stray`: set aside, the metadata does not know it.
    Stray,
    /// Not a log.
    Foreign,
}

/// The longest folder name; longer topic names are cut in `-delete` and `-stray` names.
const FOLDER_NAME_MAX_BYTES: usize = 255;

/// `topic-0`
pub fn folder(topic_partition: &TopicPartition) -> String {
    topic_partition.to_string()
}

/// `topic-0.<32 hex>-delete`; `unique` is any fresh id.
pub fn delete_folder(topic_partition: &TopicPartition, unique: Uuid) -> String {
    suffixed_folder(topic_partition, unique, "-delete")
}

/// `topic-0.<32 hex>-future`
pub fn future_folder(topic_partition: &TopicPartition, unique: Uuid) -> String {
    suffixed_folder(topic_partition, unique, "-future")
}

/// `topic-0.<32 hex>-stray`
pub fn stray_folder(topic_partition: &TopicPartition, unique: Uuid) -> String {
    suffixed_folder(topic_partition, unique, "-stray")
}

fn suffixed_folder(topic_partition: &TopicPartition, unique: Uuid, suffix: &str) -> String {
    let hex: String = unique
        .as_bytes()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let tail = format!("-{}.{hex}{suffix}", topic_partition.partition);
    let topic_length = topic_partition
        .topic
        .len()
        .min(FOLDER_NAME_MAX_BYTES - tail.len());
    format!("{}{tail}", &topic_partition.topic[..topic_length])
}

/// Classifies a folder of a log directory.
pub fn parse_folder(name: &str) -> Folder {
    if let Some(base) = name.strip_suffix("-delete") {
        return if parse_suffixed(base).is_some() {
            Folder::Delete
        } else {
            Folder::Foreign
        };
    }
    if let Some(base) = name.strip_suffix("-stray") {
        return if parse_suffixed(base).is_some() {
            Folder::Stray
        } else {
            Folder::Foreign
        };
    }
    if let Some(base) = name.strip_suffix("-future") {
        return match parse_suffixed(base) {
            Some(topic_partition) => Folder::Future(topic_partition),
            None => Folder::Foreign,
        };
    }
    match parse_topic_partition(name) {
        Some(topic_partition) => Folder::Log(topic_partition),
        None => Folder::Foreign,
    }
}

/// `topic-0.<unique>`; the id has no dot, the topic may have some.
fn parse_suffixed(base: &str) -> Option<TopicPartition> {
    let (topic_partition, _unique) = base.rsplit_once('.')?;
    parse_topic_partition(topic_partition)
}

fn parse_topic_partition(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let plain = !partition.is_empty() && partition.bytes().all(|b| b.is_ascii_digit());
    if topic.is_empty() || topic.len() > TOPIC_NAME_MAX_BYTES || !plain {
        return None;
    }
    Some(TopicPartition::new(topic, partition.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_files() {
        assert_eq!(offset_file(42, LOG), "00000000000000000042.log");
        assert_eq!(
            parse_offset_file("00000000000000000042.log"),
            Some((42, ".log"))
        );
        assert_eq!(
            parse_offset_file("00000000000000000042.log.deleted"),
            Some((42, ".log.deleted"))
        );
        for foreign in [
            "42.log",
            "leader-epoch-checkpoint",
            "0000000000000000004x.log",
            "99999999999999999999.log",
        ] {
            assert_eq!(parse_offset_file(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn folders() {
        let tp = TopicPartition::new("a.b-c", 3);
        let id = Uuid::from_bytes([0xab; 16]);
        assert_eq!(parse_folder("a.b-c-3"), Folder::Log(tp.clone()));
        let delete = delete_folder(&tp, id);
        assert_eq!(delete, format!("a.b-c-3.{}-delete", "ab".repeat(16)));
        assert_eq!(parse_folder(&delete), Folder::Delete);
        assert_eq!(
            parse_folder(&future_folder(&tp, id)),
            Folder::Future(tp.clone())
        );
        assert_eq!(parse_folder(&stray_folder(&tp, id)), Folder::Stray);
        for foreign in ["a", "a-", "-1", "a-x", "lost+found", "a-99999999999"] {
            assert_eq!(parse_folder(foreign), Folder::Foreign, "{foreign}");
        }
        let long = TopicPartition::new("x".repeat(249), 0);
        assert!(delete_folder(&long, id).len() <= 255);
    }
}
