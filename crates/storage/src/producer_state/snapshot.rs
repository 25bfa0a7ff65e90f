//! Producer snapshot files: version, CRC-32C, one entry per producer.
//! Not here: when snapshots are taken and dropped (log.rs, recovery.rs).
//! Called under the log owner's lock; fsynced later by a flush ticket. A torn one is found by its CRC.
//! Kafka: ProducerStateManager.{writeSnapshot, readSnapshot}, ProducerSnapshot.json.

use super::{BATCHES_KEPT, ProducerBatch, ProducerEntry, ProducerStateManager, SnapshotResult};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::vfs::{Durability, read_file};
use kavka_common::{ProducerEpoch, ProducerId};
use kavka_records::NO_SEQUENCE;
use std::path::Path;

const VERSION: i16 = 1;
const CRC_AT: usize = 2;
const CONTENT_AT: usize = 6;
const ENTRIES_AT: usize = 10;
const ENTRY_BYTES: usize = 46;
const NONE: i64 = -1;
/// Ten million producers.
const FILE_BYTES_MAX: u64 = 460_000_000;

fn crc(content: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, content) as u32
}

fn encode(state: &ProducerStateManager) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENTRIES_AT + state.producers.len() * ENTRY_BYTES);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    let count = i32::try_from(state.producers.len()).expect("fewer producers than an i32 counts");
    out.extend_from_slice(&count.to_be_bytes());
    for entry in state.producers.values() {
        let last = entry.last_batch();
        out.extend_from_slice(&entry.producer_id.get().to_be_bytes());
        out.extend_from_slice(&entry.producer_epoch.get().to_be_bytes());
        out.extend_from_slice(&entry.last_sequence().to_be_bytes());
        out.extend_from_slice(&last.map_or(NONE, |batch| batch.last_offset).to_be_bytes());
        out.extend_from_slice(&last.map_or(0, |batch| batch.offset_delta).to_be_bytes());
        out.extend_from_slice(&entry.last_timestamp.to_be_bytes());
        out.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
        out.extend_from_slice(&entry.current_txn_first_offset.unwrap_or(NONE).to_be_bytes());
    }
    let crc = crc(&out[CONTENT_AT..]);
    out[CRC_AT..CONTENT_AT].copy_from_slice(&crc.to_be_bytes());
    out
}

fn decode(content: &[u8]) -> Result<Vec<ProducerEntry>, String> {
    let header: &[u8; ENTRIES_AT] = content.first_chunk().ok_or("shorter than its header")?;
    let version = i16::from_be_bytes([header[0], header[1]]);
    if version != VERSION {
        return Err(format!("version {version} is not known"));
    }
    let stored = u32::from_be_bytes([header[2], header[3], header[4], header[5]]);
    let computed = crc(&content[CONTENT_AT..]);
    if stored != computed {
        return Err(format!("stored crc {stored}, computed crc {computed}"));
    }
    let count = i32::from_be_bytes([header[6], header[7], header[8], header[9]]);
    let entries = &content[ENTRIES_AT..];
    if usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(ENTRY_BYTES))
        != Some(entries.len())
    {
        return Err(format!("{} bytes for {count} entries", entries.len()));
    }
    Ok(entries
        .chunks_exact(ENTRY_BYTES)
        .map(decode_entry)
        .collect())
}

fn decode_entry(mut bytes: &[u8]) -> ProducerEntry {
    let mut take = |length: usize| -> i64 {
        let (field, rest) = bytes.split_at(length);
        bytes = rest;
        // Sign-extends a big-endian integer of `length` bytes.
        let negative = field[0] & 0x80 != 0;
        field
            .iter()
            .fold(if negative { -1 } else { 0 }, |value: i64, byte| {
                (value << 8) | i64::from(*byte)
            })
    };
    let producer_id = ProducerId(take(8));
    let producer_epoch = ProducerEpoch(take(2) as i16);
    let last_sequence = take(4) as i32;
    let last_offset = take(8);
    let offset_delta = take(4) as i32;
    let last_timestamp = take(8);
    let coordinator_epoch = take(4) as i32;
    let current_txn_first_offset = take(8);
    let mut batches = [None; BATCHES_KEPT];
    if last_offset >= 0 && last_sequence != NO_SEQUENCE {
        batches[0] = Some(ProducerBatch {
            last_sequence,
            last_offset,
            offset_delta,
            timestamp: last_timestamp,
        });
    }
    ProducerEntry {
        producer_id,
        producer_epoch,
        coordinator_epoch,
        last_timestamp,
        current_txn_first_offset: (current_txn_first_offset >= 0)
            .then_some(current_txn_first_offset),
        batches,
    }
}

/// Writes the state, not durably.
pub(crate) fn write_snapshot(
    disk: &Disk,
    path: &Path,
    state: &ProducerStateManager,
) -> SnapshotResult<()> {
    disk.replace(path, &encode(state), Durability::PageCache)
}

/// Reads a snapshot; `Corrupt` when it is torn or of an unknown version.
pub(crate) fn read_snapshot(disk: &Disk, path: &Path) -> SnapshotResult<Vec<ProducerEntry>> {
    let content = read_file(&*disk.vfs, path, FILE_BYTES_MAX)
        .map_err(|error| StorageError::io("read", path, error))?;
    decode(&content).map_err(|reason| StorageError::corrupt(path, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn reads_what_kafkas_class_wrote() {
        // An entry as ProducerSnapshot wrote it (random1 of the recorded bytes), with the CRC that Kafka would add.
        let entry = "000000000000003a00260000005d000000000000004e0000002c000000000000001a0000001e000000000000000a";
        let entry: Vec<u8> = (0..entry.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&entry[at..at + 2], 16).unwrap())
            .collect();
        let decoded = decode_entry(&entry);
        assert_eq!(decoded.producer_id, ProducerId(58));
        assert_eq!(decoded.producer_epoch, ProducerEpoch(38));
        assert_eq!(decoded.coordinator_epoch, 30);
        assert_eq!(decoded.last_timestamp, 26);
        assert_eq!(decoded.current_txn_first_offset, Some(10));
        let last = *decoded.last_batch().unwrap();
        assert_eq!(
            (last.last_sequence, last.last_offset, last.offset_delta),
            (93, 78, 44)
        );
        let state = ProducerStateManager {
            producers: BTreeMap::from([(58, decoded)]),
            ..Default::default()
        };
        let encoded = encode(&state);
        assert_eq!(encoded[..2], [0, 1]);
        assert_eq!(encoded[ENTRIES_AT..], entry);
        assert_eq!(decode(&encoded).unwrap(), [decoded]);
    }

    #[test]
    fn torn_snapshots_are_found() {
        let state = ProducerStateManager {
            producers: (0..3)
                .map(|id| (id, ProducerEntry::empty(ProducerId(id))))
                .collect(),
            ..Default::default()
        };
        let encoded = encode(&state);
        assert_eq!(decode(&encoded).unwrap().len(), 3);
        for length in 0..encoded.len() {
            assert!(decode(&encoded[..length]).is_err(), "{length}");
        }
        for at in 0..encoded.len() {
            let mut flipped = encoded.clone();
            flipped[at] ^= 0x10;
            assert!(decode(&flipped).is_err(), "{at}");
        }
    }
}
