//! Formatters of the coordinators' topics: records of the wanted types as JSON, without a newline between them.
//! Not here: the records' schemas (kavka-protocol). Pure.
//! Kafka: org.apache.kafka.tools.consumer.CoordinatorRecordMessageFormatter and its subclasses.

use super::{FormatError, Record};
use bytes::Bytes;
use kavka_protocol::messages::{
    GroupRecordKey, GroupRecordValue, ShareRecordKey, ShareRecordValue, TransactionRecordKey,
    TransactionRecordValue,
};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorFormatter {
    Offsets,
    GroupMetadata,
    Transactions,
    ShareGroupState,
    /// As 2.x printed committed offsets.
    OldOffsets,
}

/// A record's key and value as JSON.
struct Decoded {
    record_type: i16,
    key: Value,
    value: Option<(i16, Value)>,
}

impl CoordinatorFormatter {
    pub(super) fn write(self, record: &impl Record, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let Some(key) = record.key() else {
            return Ok(());
        };
        let Some(record_type) = key.first_chunk::<2>().copied().map(i16::from_be_bytes) else {
            return Ok(());
        };
        if !self.wants(record_type) {
            return Ok(());
        }
        let decoded = self
            .decode(
                &Bytes::copy_from_slice(key),
                record.value().map(Bytes::copy_from_slice),
            )
            .map_err(|message| FormatError {
                class: "java.lang.RuntimeException",
                message: format!(
                    "Could not read {}-{} at offset {}: {message}",
                    record.topic(),
                    record.partition(),
                    record.offset()
                ),
            })?;
        if self == CoordinatorFormatter::OldOffsets {
            old_offsets(&decoded, out);
            return Ok(());
        }
        let json = json!({
            "key": {"type": decoded.record_type, "data": decoded.key},
            "value": match decoded.value {
                None => Value::Null,
                Some((version, data)) => json!({"version": version, "data": data}),
            },
        });
        out.extend_from_slice(json.to_string().as_bytes());
        Ok(())
    }

    fn wants(self, record_type: i16) -> bool {
        match self {
            CoordinatorFormatter::Offsets | CoordinatorFormatter::OldOffsets => {
                matches!(record_type, 0 | 1)
            }
            CoordinatorFormatter::GroupMetadata => record_type == 2,
            CoordinatorFormatter::Transactions => record_type == 0,
            CoordinatorFormatter::ShareGroupState => matches!(record_type, 0 | 1),
        }
    }

    fn decode(self, key: &Bytes, value: Option<Bytes>) -> Result<Decoded, String> {
        macro_rules! decode {
            ($key:ident, $value:ident) => {{
                let key = $key::decode(&mut key.clone()).map_err(|e| e.to_string())?;
                let record_type = key.record_type();
                let value = match value {
                    None => None,
                    Some(mut bytes) => {
                        let (value, version) = $value::decode_with_version(record_type, &mut bytes)
                            .map_err(|e| e.to_string())?;
                        Some((version, value.to_json(version)))
                    }
                };
                Ok(Decoded {
                    record_type,
                    key: key.to_json(0),
                    value,
                })
            }};
        }
        match self {
            CoordinatorFormatter::Offsets
            | CoordinatorFormatter::GroupMetadata
            | CoordinatorFormatter::OldOffsets => decode!(GroupRecordKey, GroupRecordValue),
            CoordinatorFormatter::Transactions => {
                decode!(TransactionRecordKey, TransactionRecordValue)
            }
            CoordinatorFormatter::ShareGroupState => decode!(ShareRecordKey, ShareRecordValue),
        }
    }
}

/// `[group,topic,0]::OffsetAndMetadata(…)`
fn old_offsets(decoded: &Decoded, out: &mut Vec<u8>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = format!(
        "[{},{},{}]",
        text(&decoded.key["group"]),
        text(&decoded.key["topic"]),
        decoded.key["partition"]
    );
    let value = match &decoded.value {
        None => "NULL".to_owned(),
        Some((_, value)) => {
            let optional = |field: &Value, none: &str| match field.as_i64() {
                Some(number) if number >= 0 => number.to_string(),
                _ => none.to_owned(),
            };
            let epoch = match value["leaderEpoch"].as_i64() {
                Some(epoch) if epoch >= 0 => format!("Optional[{epoch}]"),
                _ => "Optional.empty".to_owned(),
            };
            let expire = match optional(&value["expireTimestamp"], "") {
                none if none.is_empty() => "None".to_owned(),
                ms => format!("Some({ms})"),
            };
            format!(
                "OffsetAndMetadata(offset={}, leaderEpoch={epoch}, metadata={}, commitTimestamp={}, expireTimestamp={expire})",
                value["offset"],
                text(&value["metadata"]),
                value["commitTimestamp"]
            )
        }
    };
    out.extend_from_slice(format!("{key}::{value}\n").as_bytes());
}
