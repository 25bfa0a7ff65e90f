//! Control records: the key that names their type, and the transaction marker's value.
//! Not here: values of the quorum's control records (generated messages in crates/protocol; pass their bytes).
//! Pure data. Kafka: ControlRecordType, EndTransactionMarker; KIP-98, KIP-595, KIP-630, KIP-853.

use crate::error::BatchError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlRecordType {
    Abort,
    Commit,
    LeaderChange,
    SnapshotHeader,
    SnapshotFooter,
    KRaftVersion,
    KRaftVoters,
    /// A type of a later version; readers skip it.
    Unknown(i16),
}

const KEY_VERSION: i16 = 0;

impl ControlRecordType {
    pub fn id(self) -> i16 {
        match self {
            ControlRecordType::Abort => 0,
            ControlRecordType::Commit => 1,
            ControlRecordType::LeaderChange => 2,
            ControlRecordType::SnapshotHeader => 3,
            ControlRecordType::SnapshotFooter => 4,
            ControlRecordType::KRaftVersion => 5,
            ControlRecordType::KRaftVoters => 6,
            ControlRecordType::Unknown(id) => id,
        }
    }

    pub fn from_id(id: i16) -> ControlRecordType {
        match id {
            0 => ControlRecordType::Abort,
            1 => ControlRecordType::Commit,
            2 => ControlRecordType::LeaderChange,
            3 => ControlRecordType::SnapshotHeader,
            4 => ControlRecordType::SnapshotFooter,
            5 => ControlRecordType::KRaftVersion,
            6 => ControlRecordType::KRaftVoters,
            other => ControlRecordType::Unknown(other),
        }
    }

    /// The record's key: version and type.
    pub fn key(self) -> [u8; 4] {
        let mut key = [0; 4];
        key[..2].copy_from_slice(&KEY_VERSION.to_be_bytes());
        key[2..].copy_from_slice(&self.id().to_be_bytes());
        key
    }

    /// Reads a control record's key. Later key versions may be longer.
    pub fn parse_key(key: &[u8]) -> Result<ControlRecordType, BatchError> {
        let bytes = key.first_chunk::<4>().ok_or(BatchError::Malformed(
            "control record key is shorter than 4 bytes",
        ))?;
        if i16::from_be_bytes([bytes[0], bytes[1]]) < 0 {
            return Err(BatchError::Malformed(
                "control record key has a negative version",
            ));
        }
        Ok(Self::from_id(i16::from_be_bytes([bytes[2], bytes[3]])))
    }
}

/// The value of an abort or commit marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxnMarker {
    pub control_type: ControlRecordType,
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    pub fn value(&self) -> [u8; 6] {
        let mut value = [0; 6];
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        value
    }

    /// Reads a marker from its record. Later value versions may be longer.
    pub fn parse(key: &[u8], value: &[u8]) -> Result<EndTxnMarker, BatchError> {
        let control_type = ControlRecordType::parse_key(key)?;
        if !matches!(
            control_type,
            ControlRecordType::Abort | ControlRecordType::Commit
        ) {
            return Err(BatchError::Malformed(
                "control record is no transaction marker",
            ));
        }
        let bytes = value.first_chunk::<6>().ok_or(BatchError::Malformed(
            "transaction marker is shorter than 6 bytes",
        ))?;
        if i16::from_be_bytes([bytes[0], bytes[1]]) < 0 {
            return Err(BatchError::Malformed(
                "transaction marker has a negative version",
            ));
        }
        Ok(EndTxnMarker {
            control_type,
            coordinator_epoch: i32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_markers_round_trip() {
        for id in -1..9 {
            let control_type = ControlRecordType::from_id(id);
            assert_eq!(
                ControlRecordType::parse_key(&control_type.key()),
                Ok(control_type)
            );
        }
        let marker = EndTxnMarker {
            control_type: ControlRecordType::Commit,
            coordinator_epoch: 7,
        };
        assert_eq!(
            EndTxnMarker::parse(&marker.control_type.key(), &marker.value()),
            Ok(marker)
        );
        assert!(EndTxnMarker::parse(&[0, 0, 0, 2], &marker.value()).is_err());
        assert!(EndTxnMarker::parse(&[0, 0, 0], &marker.value()).is_err());
        assert!(EndTxnMarker::parse(&[0, 0, 0, 1], &[0; 5]).is_err());
    }
}
