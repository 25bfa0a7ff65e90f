//! Entries of the engine as batches of Kafka's format, and back.
//! Not here: where batches are stored, who assigns offsets.
//! Pure. A blank entry is a LeaderChange control record. A membership entry is KRaftVersion and KRaftVoters control
//! records; what the engine must keep beyond Kafka's voters (joint configurations, learners, the raft index in a
//! snapshot) lies in tagged fields of KRaftVoters, which Kafka's readers and tools skip by the rules of KIP-482.
//! Kafka: org.apache.kafka.raft.internals.{BatchBuilder, RecordsIterator}, MetadataRecordSerde; KIP-595, KIP-853.

use super::types::{
    Entry, Membership, Payload, RaftLogIdOf, RaftNodeId, StoredMembership, VoterEndpoint,
    VoterNode, leader_epoch, term,
};
use bytes::{Bytes, BytesMut};
use kavka_common::{LeaderEpoch, Uuid};
use kavka_protocol::messages::{
    KRaftVersionRecord, LeaderChangeMessage, NoOpRecord, VotersRecord, leader_change_message,
    voters_record,
};
use kavka_protocol::{EncodeError, Message, MetadataRecord, RawTaggedField};
use kavka_records::{
    BatchBuilder, BatchError, BatchHeader, BatchOptions, ControlRecordType, RecordBatch,
};
use openraft::{CommittedLeaderId, LogId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Tag of KRaftVoters under which the engine's membership lies. Kafka's own tags count up from 0.
const ENGINE_TAG: u32 = 10_000;
/// `kraft.version` with voters in the log (KIP-853).
pub const KRAFT_VERSION: i16 = 1;
/// No batch of the metadata log comes near this; a larger one is damage.
pub const BATCH_MAX_BYTES: usize = 64 << 20;

/// A batch of the metadata log that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error("metadata record: {0}")]
    Decode(#[from] kavka_protocol::DecodeError),
    #[error("metadata record: {0}")]
    Encode(#[from] EncodeError),
    #[error("the engine's part of a voters record: {0}")]
    EngineTag(serde_json::Error),
    #[error("a metadata record without a value at offset {0}")]
    NoValue(i64),
}

/// What a voters record says to the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineTag {
    pub membership: Membership,
    /// In a snapshot: the entry that brought the membership, and the last entry that the snapshot contains.
    pub membership_log_id: Option<RaftLogIdOf>,
    pub last_log_id: Option<RaftLogIdOf>,
}

/// What a control batch holds, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct ControlContent {
    pub leader_change: bool,
    pub kraft_version: Option<i16>,
    pub voters: Option<EngineTag>,
}

/// A data batch without offset and epoch.
pub fn encode_records(records: &[Bytes], timestamp_ms: i64) -> Result<Bytes, CodecError> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for value in records {
        builder.append(timestamp_ms, None, Some(value), [])?;
    }
    Ok(builder.build()?.freeze())
}

/// A data batch that changes nothing.
pub fn encode_no_op(timestamp_ms: i64) -> Result<BytesMut, CodecError> {
    let value = MetadataRecord::NoOp(NoOpRecord::default()).encode_value(0)?;
    Ok(BytesMut::from(&encode_records(&[value], timestamp_ms)?[..]))
}

/// The batch of an entry as the log will hold it, but for base offset and epoch.
pub fn encode_entry(
    entry: &Entry,
    leader: Option<RaftNodeId>,
    voters: &Membership,
    timestamp_ms: i64,
) -> Result<BytesMut, CodecError> {
    if !entry.batch.is_empty() {
        return Ok(BytesMut::from(&entry.batch[..]));
    }
    let mut builder = BatchBuilder::new(BatchOptions {
        partition_leader_epoch: leader_epoch(entry.term()),
        control: true,
        ..BatchOptions::default()
    });
    match &entry.payload {
        Payload::Blank => append_leader_change(&mut builder, leader, voters, timestamp_ms)?,
        Payload::Membership(membership) => {
            let tag = EngineTag {
                membership: membership.clone(),
                membership_log_id: None,
                last_log_id: None,
            };
            append_voters(&mut builder, &tag, timestamp_ms)?;
        }
        Payload::Records => {
            return Err(CodecError::Batch(BatchError::Malformed(
                "a records entry without a batch",
            )));
        }
    }
    Ok(builder.build()?)
}

fn append_leader_change(
    builder: &mut BatchBuilder,
    leader: Option<RaftNodeId>,
    voters: &Membership,
    timestamp_ms: i64,
) -> Result<(), CodecError> {
    let voter = |id: RaftNodeId| leader_change_message::Voter {
        voter_id: wire_id(id),
        ..Default::default()
    };
    let message = LeaderChangeMessage {
        version: 0,
        leader_id: leader.map_or(-1, wire_id),
        voters: voters.voter_ids().map(voter).collect(),
        granting_voters: leader.into_iter().map(voter).collect(),
        ..Default::default()
    };
    builder.append_control(
        timestamp_ms,
        ControlRecordType::LeaderChange,
        &message.encode_to_bytes(0)?,
    )?;
    Ok(())
}

/// Appends `kraft.version` and the voters.
pub fn append_voters(
    builder: &mut BatchBuilder,
    tag: &EngineTag,
    timestamp_ms: i64,
) -> Result<(), CodecError> {
    let version = KRaftVersionRecord {
        version: 0,
        kraft_version: KRAFT_VERSION,
        ..Default::default()
    };
    builder.append_control(
        timestamp_ms,
        ControlRecordType::KRaftVersion,
        &version.encode_to_bytes(0)?,
    )?;
    let voter_ids: BTreeSet<RaftNodeId> = tag.membership.voter_ids().collect();
    let record = VotersRecord {
        version: 0,
        voters: voter_ids
            .iter()
            .map(|id| {
                let node = tag.membership.get_node(id).cloned().unwrap_or_default();
                voters_record::Voter {
                    voter_id: wire_id(*id),
                    voter_directory_id: node.directory_id.parse().unwrap_or(Uuid::ZERO),
                    endpoints: node
                        .endpoints
                        .iter()
                        .map(|endpoint| voters_record::Endpoint {
                            name: endpoint.name.as_str().into(),
                            host: endpoint.host.as_str().into(),
                            port: endpoint.port,
                            ..Default::default()
                        })
                        .collect(),
                    kraft_version_feature: voters_record::KRaftVersionFeature {
                        min_supported_version: 0,
                        max_supported_version: KRAFT_VERSION,
                        ..Default::default()
                    },
                    ..Default::default()
                }
            })
            .collect(),
        unknown_tagged_fields: vec![RawTaggedField {
            tag: ENGINE_TAG,
            data: serde_json::to_vec(tag)
                .map_err(CodecError::EngineTag)?
                .into(),
        }],
        ..Default::default()
    };
    builder.append_control(
        timestamp_ms,
        ControlRecordType::KRaftVoters,
        &record.encode_to_bytes(0)?,
    )?;
    Ok(())
}

/// Reads the control records of a batch.
pub fn decode_control(batch: &RecordBatch<'_>) -> Result<ControlContent, CodecError> {
    let mut content = ControlContent::default();
    for record in batch.records(BATCH_MAX_BYTES)? {
        let record = record?;
        let kind = ControlRecordType::parse_key(&record.key.unwrap_or_default())?;
        let value = record.value.unwrap_or_default();
        match kind {
            ControlRecordType::LeaderChange => content.leader_change = true,
            ControlRecordType::KRaftVersion => {
                content.kraft_version =
                    Some(KRaftVersionRecord::decode_exact(&value, 0)?.kraft_version);
            }
            ControlRecordType::KRaftVoters => {
                content.voters = Some(engine_tag(&VotersRecord::decode_exact(&value, 0)?)?);
            }
            ControlRecordType::SnapshotHeader
            | ControlRecordType::SnapshotFooter
            | ControlRecordType::Abort
            | ControlRecordType::Commit
            | ControlRecordType::Unknown(_) => {}
        }
    }
    Ok(content)
}

fn engine_tag(record: &VotersRecord) -> Result<EngineTag, CodecError> {
    if let Some(field) = record
        .unknown_tagged_fields
        .iter()
        .find(|field| field.tag == ENGINE_TAG)
    {
        return serde_json::from_slice(&field.data).map_err(CodecError::EngineTag);
    }
    // Written by Kafka: its voters are the only configuration.
    let nodes: BTreeMap<RaftNodeId, VoterNode> = record
        .voters
        .iter()
        .filter_map(|voter| {
            let node = VoterNode {
                directory_id: voter.voter_directory_id.to_string(),
                endpoints: voter
                    .endpoints
                    .iter()
                    .map(|endpoint| VoterEndpoint {
                        name: endpoint.name.to_string(),
                        host: endpoint.host.to_string(),
                        port: endpoint.port,
                    })
                    .collect(),
            };
            Some((u64::try_from(voter.voter_id).ok()?, node))
        })
        .collect();
    Ok(EngineTag {
        membership: Membership::new(vec![nodes.keys().copied().collect()], nodes),
        membership_log_id: None,
        last_log_id: None,
    })
}

/// A stored batch as the entry with this index.
pub fn decode_entry(index: u64, bytes: Bytes) -> Result<(BatchHeader, Entry), CodecError> {
    let batch = RecordBatch::parse(&bytes)?;
    batch.verify_crc()?;
    let header = *batch.header();
    let payload = if header.is_control() {
        let content = decode_control(&batch)?;
        match content.voters {
            Some(tag) => Payload::Membership(tag.membership),
            None if content.leader_change => Payload::Blank,
            None => Payload::Records,
        }
    } else {
        Payload::Records
    };
    let log_id = log_id(header.partition_leader_epoch, index);
    let entry = Entry {
        log_id,
        payload,
        batch: bytes,
    };
    Ok((header, entry))
}

/// The metadata records of a batch: none for a control batch.
pub fn decode_records(bytes: &[u8]) -> Result<Vec<MetadataRecord>, CodecError> {
    let batch = RecordBatch::parse(bytes)?;
    if batch.header().is_control() {
        return Ok(Vec::new());
    }
    let mut records = Vec::new();
    for record in batch.records(BATCH_MAX_BYTES)? {
        let record = record?;
        let mut value = record.value.ok_or(CodecError::NoValue(record.offset))?;
        records.push(MetadataRecord::decode_value(&mut value)?);
    }
    Ok(records)
}

/// The log id of an entry in the engine's single-leader-per-term mode.
pub fn log_id(epoch: LeaderEpoch, index: u64) -> RaftLogIdOf {
    LogId::new(CommittedLeaderId::new(term(epoch), 0), index)
}

/// A membership of the given voters and nobody else.
pub fn membership_of(voters: BTreeMap<RaftNodeId, VoterNode>) -> Membership {
    Membership::new(vec![voters.keys().copied().collect()], voters)
}

/// What a snapshot remembers of the membership.
pub fn stored_membership(tag: &EngineTag) -> StoredMembership {
    StoredMembership::new(tag.membership_log_id, tag.membership.clone())
}

pub fn wire_id(id: RaftNodeId) -> i32 {
    i32::try_from(id).expect("node ids come from configurations of type int")
}
