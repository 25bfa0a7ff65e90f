//! The two snapshots that a format writes: `bootstrap.checkpoint`, and the quorum's first voter set.
//! Not here: which records (format), later snapshots (the quorum). Pure: bytes out of records.
//! Kafka: BootstrapDirectory, RecordsSnapshotWriter, Formatter.writeDynamicQuorumSnapshot; KIP-630, KIP-853.

use super::voters::Voter;
use kavka_common::LeaderEpoch;
use kavka_protocol::MetadataRecord;
use kavka_protocol::messages::voters_record::{self, Endpoint, KRaftVersionFeature};
use kavka_protocol::messages::{
    KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord,
};
use kavka_protocol::record_frame::ControlRecord;
use kavka_records::builder::{BatchBuilder, BatchOptions};

/// `None` cannot happen for records of our own making; callers report it as a fault of the tool.
pub(super) type Encoded = Option<Vec<u8>>;

fn batch(base_offset: i64, control: bool) -> BatchBuilder {
    BatchBuilder::new(BatchOptions {
        base_offset,
        partition_leader_epoch: LeaderEpoch(0),
        control,
        ..BatchOptions::default()
    })
}

fn push_controls(
    file: &mut Vec<u8>,
    base_offset: i64,
    now_ms: i64,
    records: &[ControlRecord],
) -> Option<i64> {
    let mut builder = batch(base_offset, true);
    for record in records {
        let (key, value) = record.encode().ok()?;
        builder.append(now_ms, Some(&key), Some(&value), []).ok()?;
    }
    let next_offset = builder.next_offset();
    file.extend_from_slice(&builder.build().ok()?);
    Some(next_offset)
}

fn header(last_contained_log_timestamp: i64) -> ControlRecord {
    ControlRecord::SnapshotHeader(SnapshotHeaderRecord {
        last_contained_log_timestamp,
        ..Default::default()
    })
}

fn footer() -> ControlRecord {
    ControlRecord::SnapshotFooter(SnapshotFooterRecord::default())
}

/// The content of `bootstrap.checkpoint`.
pub(super) fn bootstrap(records: &[MetadataRecord], now_ms: i64) -> Encoded {
    let mut file = Vec::new();
    let next = push_controls(&mut file, 0, now_ms, &[header(0)])?;
    let mut builder = batch(next, false);
    for record in records {
        let value = record.encode_value(0).ok()?;
        builder.append(now_ms, None, Some(&value), []).ok()?;
    }
    let next = builder.next_offset();
    file.extend_from_slice(&builder.build().ok()?);
    push_controls(&mut file, next, now_ms, &[footer()])?;
    Some(file)
}

/// The content of the metadata log's first snapshot: who votes.
pub(super) fn voter_set(
    voters: &[Voter],
    listener: &str,
    kraft_version: i16,
    now_ms: i64,
) -> Encoded {
    let voters = VotersRecord {
        voters: voters
            .iter()
            .map(|voter| voters_record::Voter {
                voter_id: voter.id,
                voter_directory_id: voter.directory_id,
                endpoints: vec![Endpoint {
                    name: listener.into(),
                    host: voter.host.as_str().into(),
                    port: voter.port,
                    ..Default::default()
                }],
                kraft_version_feature: KRaftVersionFeature {
                    min_supported_version: 0,
                    max_supported_version: 1,
                    ..Default::default()
                },
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let kraft_version = KRaftVersionRecord {
        kraft_version,
        ..Default::default()
    };
    let mut file = Vec::new();
    let records = [
        header(now_ms),
        ControlRecord::KRaftVersion(kraft_version),
        ControlRecord::KRaftVoters(voters),
    ];
    let next = push_controls(&mut file, 0, now_ms, &records)?;
    push_controls(&mut file, next, now_ms, &[footer()])?;
    Some(file)
}
