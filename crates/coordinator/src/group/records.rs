//! Records of `__consumer_offsets` that this shard writes and reads, and how they change hard state.
//! Not here: records of the newer group protocols (skipped, they belong to later rooms).
//! Pure. Kafka: GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde; schemas group-records/.

use super::{CommittedOffset, Hard};
use bytes::{BufMut, Bytes, BytesMut};
use kavka_protocol::messages::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
};
use kavka_protocol::{DecodeError, EncodeError, Encoder, Message, StrBytes};

/// Record types: the number in front of a key.
const LEGACY_OFFSET_COMMIT: i16 = 0;
const OFFSET_COMMIT: i16 = 1;
const GROUP_METADATA: i16 = 2;
/// Key schemas of the types above have one version.
const KEY_VERSION: i16 = 0;
/// As Kafka 4.3 writes them; version 1 alone can carry a client's own retention.
const OFFSET_VALUE_VERSION: i16 = 4;
const OFFSET_VALUE_VERSION_WITH_EXPIRY: i16 = 1;
const GROUP_VALUE_VERSION: i16 = 3;

/// A record; a value of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRecord {
    Group {
        group_id: StrBytes,
        value: Option<GroupMetadataValue>,
    },
    Offset {
        group_id: StrBytes,
        topic: StrBytes,
        partition: i32,
        value: Option<CommittedOffset>,
    },
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GroupRecordError {
    #[error("the key has no record type")]
    NoType,
    #[error("the key or value cannot be read: {0}")]
    Malformed(#[from] DecodeError),
}

impl GroupRecord {
    /// Key and value as they are stored.
    pub fn encode(&self) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        match self {
            GroupRecord::Group { group_id, value } => {
                let key = GroupMetadataKey {
                    group: group_id.clone(),
                    ..Default::default()
                };
                let value = value
                    .as_ref()
                    .map(|v| prefixed(GROUP_VALUE_VERSION, v, GROUP_VALUE_VERSION));
                Ok((
                    prefixed(GROUP_METADATA, &key, KEY_VERSION)?,
                    value.transpose()?,
                ))
            }
            GroupRecord::Offset {
                group_id,
                topic,
                partition,
                value,
            } => {
                let key = OffsetCommitKey {
                    group: group_id.clone(),
                    topic: topic.clone(),
                    partition: *partition,
                    ..Default::default()
                };
                let value = value.as_ref().map(|committed| {
                    let version = match committed.expire_timestamp_ms {
                        Some(_) => OFFSET_VALUE_VERSION_WITH_EXPIRY,
                        None => OFFSET_VALUE_VERSION,
                    };
                    prefixed(version, &committed.to_value(), version)
                });
                Ok((
                    prefixed(OFFSET_COMMIT, &key, KEY_VERSION)?,
                    value.transpose()?,
                ))
            }
        }
    }

    /// Reads a stored record; `None` for the types of other protocols.
    pub fn decode(mut key: Bytes, value: Option<Bytes>) -> Result<Option<Self>, GroupRecordError> {
        let record_type = take_version(&mut key)?;
        match record_type {
            LEGACY_OFFSET_COMMIT | OFFSET_COMMIT => {
                let key = OffsetCommitKey::decode(&mut key, KEY_VERSION)?;
                let value = match value {
                    Some(mut value) => {
                        let version = take_version(&mut value)?;
                        let value = OffsetCommitValue::decode(&mut value, version)?;
                        Some(CommittedOffset::from_value(value))
                    }
                    None => None,
                };
                Ok(Some(GroupRecord::Offset {
                    group_id: key.group,
                    topic: key.topic,
                    partition: key.partition,
                    value,
                }))
            }
            GROUP_METADATA => {
                let key = GroupMetadataKey::decode(&mut key, KEY_VERSION)?;
                let value = match value {
                    Some(mut value) => {
                        let version = take_version(&mut value)?;
                        Some(GroupMetadataValue::decode(&mut value, version)?)
                    }
                    None => None,
                };
                Ok(Some(GroupRecord::Group {
                    group_id: key.group,
                    value,
                }))
            }
            _ => Ok(None),
        }
    }
}

fn take_version(bytes: &mut Bytes) -> Result<i16, GroupRecordError> {
    if bytes.len() < 2 {
        return Err(GroupRecordError::NoType);
    }
    let head = bytes.split_to(2);
    Ok(i16::from_be_bytes([head[0], head[1]]))
}

fn prefixed(prefix: i16, message: &impl Message, version: i16) -> Result<Bytes, EncodeError> {
    let mut encoder = Encoder::new();
    message.encode(&mut encoder, version)?;
    let body = encoder.into_bytes()?;
    let mut bytes = BytesMut::with_capacity(2 + body.len());
    bytes.put_i16(prefix);
    bytes.put_slice(&body);
    Ok(bytes.freeze())
}

/// The only place where hard state changes.
pub(super) fn replay(hard: &mut Hard, record: GroupRecord) {
    match record {
        GroupRecord::Group {
            group_id,
            value: Some(value),
        } => {
            hard.groups.insert(group_id, value);
        }
        GroupRecord::Group {
            group_id,
            value: None,
        } => {
            hard.groups.remove(&group_id);
        }
        GroupRecord::Offset {
            group_id,
            topic,
            partition,
            value: Some(value),
        } => {
            hard.offsets
                .entry(group_id)
                .or_default()
                .entry(topic)
                .or_default()
                .insert(partition, value);
        }
        GroupRecord::Offset {
            group_id,
            topic,
            partition,
            value: None,
        } => {
            // Empty levels go too, so that a group without offsets looks the same after a reload.
            if let Some(topics) = hard.offsets.get_mut(&group_id) {
                if let Some(partitions) = topics.get_mut(&topic) {
                    partitions.remove(&partition);
                    if partitions.is_empty() {
                        topics.remove(&topic);
                    }
                }
                if topics.is_empty() {
                    hard.offsets.remove(&group_id);
                }
            }
        }
    }
}
