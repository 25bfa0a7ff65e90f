//! The envelopes of records in Kafka's own logs: metadata records, control records, prefixes of coordinator records.
//! Not here: record batches around them (crates/records), what they mean (crates/metadata, crates/coordinator).
//! Pure. Kafka: AbstractApiMessageSerde, ControlRecordUtils, MessageUtil; KIP-595, KIP-631, KIP-853.

use crate::Message;
use crate::error::{DecodeError, EncodeError, Fault};
use crate::messages::{
    EndTxnMarker, KRaftVersionRecord, LeaderChangeMessage, MetadataRecord, SnapshotFooterRecord,
    SnapshotHeaderRecord, VotersRecord,
};
use crate::wire::{Encoder, Reader};
use bytes::Bytes;

/// The version of the frame around a metadata record.
pub const METADATA_FRAME_VERSION: u32 = 1;

impl MetadataRecord {
    /// The value of a record in `__cluster_metadata`: frame version, type, version, body.
    pub fn encode_value(&self, version: i16) -> Result<Bytes, EncodeError> {
        let mut out = Encoder::new();
        out.put_unsigned_varint(METADATA_FRAME_VERSION);
        out.put_unsigned_varint(u32::from(self.record_type().unsigned_abs()));
        out.put_unsigned_varint(u32::from(version.unsigned_abs()));
        self.encode(&mut out, version)?;
        out.into_bytes().map_err(|e| e.in_message(self.name()))
    }

    /// Reads a record's value to its end.
    pub fn decode_value(buf: &mut Bytes) -> Result<Self, DecodeError> {
        Self::decode_value_with_version(buf).map(|(record, _)| record)
    }

    /// As `decode_value`, with the version that was found.
    pub fn decode_value_with_version(buf: &mut Bytes) -> Result<(Self, i16), DecodeError> {
        const NAME: &str = "MetadataRecord";
        let named = |e: DecodeError| e.in_message(NAME);
        let mut reader = Reader::new(std::mem::take(buf), 0, true);
        let frame_version = reader.unsigned_varint().map_err(named)?;
        let record_type = reader.unsigned_varint().map_err(named)?;
        let version = reader.unsigned_varint().map_err(named)?;
        *buf = reader.into_rest();
        if frame_version != METADATA_FRAME_VERSION {
            return Err(DecodeError::of(
                NAME,
                Fault::UnknownFrameVersion(frame_version),
            ));
        }
        let unknown = DecodeError::of(NAME, Fault::UnknownRecordType(i64::from(record_type)));
        let record_type = i16::try_from(record_type).map_err(|_| unknown)?;
        let too_new = DecodeError::of(NAME, Fault::UnsupportedVersion(i16::MAX));
        let version = i16::try_from(version).map_err(|_| too_new)?;
        let record = MetadataRecord::decode(record_type, version, buf)?;
        match buf.len() {
            0 => Ok((record, version)),
            rest => Err(DecodeError::of(record.name(), Fault::TrailingBytes(rest))),
        }
    }
}

/// A record of a control batch, in any log.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRecord {
    Abort(EndTxnMarker),
    Commit(EndTxnMarker),
    LeaderChange(LeaderChangeMessage),
    SnapshotHeader(SnapshotHeaderRecord),
    SnapshotFooter(SnapshotFooterRecord),
    KRaftVersion(KRaftVersionRecord),
    KRaftVoters(VotersRecord),
}

impl ControlRecord {
    /// The version of the key.
    pub const KEY_VERSION: i16 = 0;

    /// The type in the key (ControlRecordType).
    pub fn record_type(&self) -> i16 {
        match self {
            ControlRecord::Abort(_) => 0,
            ControlRecord::Commit(_) => 1,
            ControlRecord::LeaderChange(_) => 2,
            ControlRecord::SnapshotHeader(_) => 3,
            ControlRecord::SnapshotFooter(_) => 4,
            ControlRecord::KRaftVersion(_) => 5,
            ControlRecord::KRaftVoters(_) => 6,
        }
    }

    /// Key and value. Transaction markers have their version in front; the others have it as their first field, and
    /// are written in that version.
    pub fn encode(&self) -> Result<(Bytes, Bytes), EncodeError> {
        let mut key = Vec::with_capacity(4);
        key.extend_from_slice(&Self::KEY_VERSION.to_be_bytes());
        key.extend_from_slice(&self.record_type().to_be_bytes());
        let value = match self {
            ControlRecord::Abort(m) | ControlRecord::Commit(m) => encode_with_prefix(0, m, 0),
            ControlRecord::LeaderChange(m) => m.encode_to_bytes(m.version),
            ControlRecord::SnapshotHeader(m) => m.encode_to_bytes(m.version),
            ControlRecord::SnapshotFooter(m) => m.encode_to_bytes(m.version),
            ControlRecord::KRaftVersion(m) => m.encode_to_bytes(m.version),
            ControlRecord::KRaftVoters(m) => m.encode_to_bytes(m.version),
        }?;
        Ok((Bytes::from(key), value))
    }

    /// Reads key and value. A type that is not known is an error of its own (`Fault::UnknownRecordType`): readers skip
    /// such records, as Kafka's do.
    pub fn decode(key: &Bytes, value: &Bytes) -> Result<Self, DecodeError> {
        const NAME: &str = "ControlRecord";
        let mut key = key.clone();
        let key_version = decode_i16(&mut key, NAME)?;
        if key_version < Self::KEY_VERSION {
            return Err(DecodeError::of(
                NAME,
                Fault::UnsupportedVersion(key_version),
            ));
        }
        let record_type = decode_i16(&mut key, NAME)?;
        let mut value = value.clone();
        if matches!(record_type, 0 | 1) {
            let version = decode_i16(&mut value, NAME)?;
            // A later version only adds fields behind those of version 0.
            let marker = EndTxnMarker::decode(&mut value, version.min(EndTxnMarker::MAX_VERSION))?;
            return Ok(match record_type {
                0 => ControlRecord::Abort(marker),
                _ => ControlRecord::Commit(marker),
            });
        }
        let version = decode_i16(&mut value.clone(), NAME)?;
        match record_type {
            2 => Message::decode_exact(&value, version).map(ControlRecord::LeaderChange),
            3 => Message::decode_exact(&value, version).map(ControlRecord::SnapshotHeader),
            4 => Message::decode_exact(&value, version).map(ControlRecord::SnapshotFooter),
            5 => Message::decode_exact(&value, version).map(ControlRecord::KRaftVersion),
            6 => Message::decode_exact(&value, version).map(ControlRecord::KRaftVoters),
            _ => Err(DecodeError::of(
                NAME,
                Fault::UnknownRecordType(i64::from(record_type)),
            )),
        }
    }
}

/// Takes a big-endian number from the front.
pub(crate) fn decode_i16(buf: &mut Bytes, name: &'static str) -> Result<i16, DecodeError> {
    match buf.first_chunk::<2>().copied() {
        Some(bytes) => {
            let _ = buf.split_to(2);
            Ok(i16::from_be_bytes(bytes))
        }
        None => {
            let (needed, remaining) = (2, buf.len());
            Err(DecodeError::of(
                name,
                Fault::Truncated { needed, remaining },
            ))
        }
    }
}

/// A message behind a 16-bit number: its version, or the type of a coordinator's key.
pub fn encode_with_prefix<M: Message>(
    prefix: i16,
    message: &M,
    version: i16,
) -> Result<Bytes, EncodeError> {
    let mut out = Encoder::new();
    out.put_slice(&prefix.to_be_bytes());
    message.encode(&mut out, version)?;
    out.into_bytes().map_err(|e| e.in_message(M::NAME))
}

/// Reads a message behind its 16-bit version, to its end: consumer protocol blobs and other embedded data.
pub fn decode_with_version_prefix<M: Message>(bytes: &Bytes) -> Result<(M, i16), DecodeError> {
    let mut buf = bytes.clone();
    let version = decode_i16(&mut buf, M::NAME)?;
    M::decode_exact(&buf, version).map(|message| (message, version))
}
