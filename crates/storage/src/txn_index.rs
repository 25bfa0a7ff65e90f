//! The aborted transactions of one segment: `.txnindex`, entries of 34 bytes in the order of their markers.
//! Not here: open transactions and the last stable offset (producer_state.rs).
//! Inside a segment, under the log owner's lock. Written at once: an abort is rare.
//! Kafka: TransactionIndex, AbortedTxn; KIP-98.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::vfs::{File, OpenMode};
use kavka_common::{Offset, ProducerId};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENTRY_BYTES: usize = 34;
const VERSION: i16 = 0;

/// A transaction that ended with an abort marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxn {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
    /// Of the marker.
    pub last_offset: Offset,
    /// The last stable offset once this transaction had ended.
    pub last_stable_offset: Offset,
}

impl AbortedTxn {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_be_bytes());
        for field in [
            self.producer_id.get(),
            self.first_offset,
            self.last_offset,
            self.last_stable_offset,
        ] {
            out.extend_from_slice(&field.to_be_bytes());
        }
    }

    fn parse(bytes: &[u8]) -> Option<AbortedTxn> {
        let version = i16::from_be_bytes(bytes.get(..2)?.try_into().ok()?);
        // Later versions keep the fields of this one in front.
        if version < VERSION {
            return None;
        }
        let field = |at: usize| Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(AbortedTxn {
            producer_id: ProducerId(field(2)?),
            first_offset: field(10)?,
            last_offset: field(18)?,
            last_stable_offset: field(26)?,
        })
    }
}

/// The entries up to the first that cannot stand where it stands.
fn parse_valid(bytes: &[u8]) -> Vec<AbortedTxn> {
    let mut entries: Vec<AbortedTxn> = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
    for chunk in bytes.chunks_exact(ENTRY_BYTES) {
        match AbortedTxn::parse(chunk) {
            Some(entry)
                if entry.first_offset <= entry.last_offset
                    && entries
                        .last()
                        .is_none_or(|last| last.last_offset < entry.last_offset) =>
            {
                entries.push(entry);
            }
            _ => break,
        }
    }
    entries
}

#[derive(Debug)]
pub(crate) struct TxnIndex {
    path: PathBuf,
    file: Option<Arc<dyn File>>,
    /// `None`: there is a file that was not read yet.
    entries: Option<Vec<AbortedTxn>>,
}

impl TxnIndex {
    /// `length`: of the file, where there is one.
    pub(crate) fn new(path: PathBuf, length: Option<u64>) -> Self {
        TxnIndex {
            path,
            file: None,
            entries: match length {
                None | Some(0) => Some(Vec::new()),
                Some(_) => None,
            },
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The entries. A file that cannot be what was written is an error: its segment must be recovered.
    pub(crate) fn entries(&mut self, disk: &Disk) -> Result<&mut Vec<AbortedTxn>, StorageError> {
        if self.entries.is_none() {
            let file = disk.open(&self.path, OpenMode::Write)?;
            let length = disk.len(&self.path, &*file)?;
            if length % ENTRY_BYTES as u64 != 0 {
                return Err(StorageError::corrupt(
                    &self.path,
                    format!("{length} bytes are no multiple of {ENTRY_BYTES}"),
                ));
            }
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            disk.read_exact_at(&self.path, &*file, &mut bytes, 0)?;
            let entries = parse_valid(&bytes);
            if entries.len() * ENTRY_BYTES < bytes.len() {
                return Err(StorageError::corrupt(
                    &self.path,
                    "entries are not in order of their markers",
                ));
            }
            self.file = Some(file);
            self.entries = Some(entries);
        }
        Ok(self.entries.as_mut().expect("read above"))
    }

    pub(crate) fn append(&mut self, disk: &Disk, entry: AbortedTxn) -> Result<(), StorageError> {
        let position = (self.entries(disk)?.len() * ENTRY_BYTES) as u64;
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = disk.open(&self.path, OpenMode::CreateOrWrite)?;
                self.file = Some(file.clone());
                file
            }
        };
        let mut bytes = Vec::with_capacity(ENTRY_BYTES);
        entry.write(&mut bytes);
        disk.write_all_at(&self.path, &*file, &bytes, position)?;
        self.entries(disk)?.push(entry);
        Ok(())
    }

    /// Forgets aborts whose marker is at or after `offset`.
    pub(crate) fn truncate(&mut self, disk: &Disk, offset: Offset) -> Result<(), StorageError> {
        let entries = self.entries(disk)?;
        let keep = entries.partition_point(|entry| entry.last_offset < offset);
        if keep == entries.len() {
            return Ok(());
        }
        entries.truncate(keep);
        if let Some(file) = &self.file {
            disk.set_len(&self.path, &**file, (keep * ENTRY_BYTES) as u64)?;
        }
        Ok(())
    }

    /// Takes the entries up to the first that cannot be: recovery drops what a crash tore, and finds the rest of the
    /// aborts in the batches.
    pub(crate) fn load_valid(&mut self, disk: &Disk) -> Result<(), StorageError> {
        if self.entries.is_some() {
            return Ok(());
        }
        let file = disk.open(&self.path, OpenMode::Write)?;
        let length = disk.len(&self.path, &*file)?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        disk.read_exact_at(&self.path, &*file, &mut bytes, 0)?;
        let entries = parse_valid(&bytes);
        let valid = (entries.len() * ENTRY_BYTES) as u64;
        if valid < length {
            disk.set_len(&self.path, &*file, valid)?;
        }
        self.file = Some(file);
        self.entries = Some(entries);
        Ok(())
    }

    /// Empties the index; the content is about to be rebuilt from the log.
    pub(crate) fn reset(&mut self, disk: &Disk) -> Result<(), StorageError> {
        if self.file.is_none() && disk.exists(&self.path)? {
            self.file = Some(disk.open(&self.path, OpenMode::Write)?);
        }
        if let Some(file) = &self.file {
            disk.set_len(&self.path, &**file, 0)?;
        }
        self.entries = Some(Vec::new());
        Ok(())
    }

    /// The folder was renamed; an open file stays the same file.
    pub(crate) fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// The open file, for an fsync.
    pub(crate) fn opened(&self) -> Option<(PathBuf, Arc<dyn File>)> {
        self.file
            .as_ref()
            .map(|file| (self.path.clone(), file.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureLatch;
    use crate::vfs::{RealVfs, read_file};

    fn txn(producer_id: i64, first_offset: Offset, last_offset: Offset) -> AbortedTxn {
        AbortedTxn {
            producer_id: ProducerId(producer_id),
            first_offset,
            last_offset,
            last_stable_offset: last_offset + 1,
        }
    }

    #[test]
    fn entries_survive_and_are_cut() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk {
            vfs: Arc::new(RealVfs),
            latch: FailureLatch::new(dir.path()),
        };
        let path = dir.path().join("0.txnindex");
        let mut index = TxnIndex::new(path.clone(), None);
        index.append(&disk, txn(1, 0, 10)).unwrap();
        index.append(&disk, txn(2, 5, 20)).unwrap();
        let bytes = read_file(&RealVfs, &path, 1000).unwrap();
        assert_eq!(bytes.len(), 68);
        assert_eq!(bytes[..10], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let mut index = TxnIndex::new(path.clone(), Some(68));
        assert_eq!(
            *index.entries(&disk).unwrap(),
            [txn(1, 0, 10), txn(2, 5, 20)]
        );
        index.truncate(&disk, 20).unwrap();
        assert_eq!(read_file(&RealVfs, &path, 1000).unwrap().len(), 34);
        index.append(&disk, txn(3, 12, 30)).unwrap();
        let mut index = TxnIndex::new(path.clone(), Some(68));
        assert_eq!(
            *index.entries(&disk).unwrap(),
            [txn(1, 0, 10), txn(3, 12, 30)]
        );
        disk.open(&path, OpenMode::Write)
            .unwrap()
            .set_len(67)
            .unwrap();
        assert!(TxnIndex::new(path, Some(67)).entries(&disk).is_err());
    }
}
