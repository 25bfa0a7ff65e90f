//! A sparse index file: fixed-size entries that grow in their key, `.index` by offset and `.timeindex` by timestamp.
//! Not here: which batches get an entry (segment.rs), the aborted transactions (txn_index.rs).
//! Inside a segment, under the log owner's lock, but for `SealedIndex` and `Floor`. Hot path: an append pushes to memory; the file follows at flush, roll
//! and close. Entries past the recovery point are rebuilt after a crash anyway, so nothing is lost by writing late.
//! Kafka: AbstractIndex, OffsetIndex, TimeIndex. Kafka maps a preallocated file; here the file is as long as its content,
//! which is what Kafka leaves behind on roll and close.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::lazy_file::LazyFile;
use crate::scan::Reading;
use crate::vfs::{File, OpenMode};
use kavka_common::Offset;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An entry of a fixed size whose key grows within one file.
pub(crate) trait Entry: Copy + std::fmt::Debug + PartialEq {
    const SIZE: usize;
    type Key: Ord + Copy;
    fn key(&self) -> Self::Key;
    fn parse(bytes: &[u8], base_offset: Offset) -> Self;
    fn write(&self, base_offset: Offset, out: &mut Vec<u8>);
    /// Whether `next` may stand after `self`.
    fn may_precede(&self, next: &Self) -> bool;
}

/// The batch whose last offset is `offset` starts at `position` of the log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetPosition {
    pub(crate) offset: Offset,
    pub(crate) position: u32,
}

impl Entry for OffsetPosition {
    const SIZE: usize = 8;
    type Key = Offset;

    fn key(&self) -> Offset {
        self.offset
    }

    fn parse(bytes: &[u8], base_offset: Offset) -> Self {
        let (offset, position) = bytes.split_at(4);
        OffsetPosition {
            offset: base_offset
                + i64::from(i32::from_be_bytes(offset.try_into().expect("4 bytes"))),
            position: u32::from_be_bytes(position.try_into().expect("4 bytes")),
        }
    }

    fn write(&self, base_offset: Offset, out: &mut Vec<u8>) {
        out.extend_from_slice(&relative(self.offset, base_offset).to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn may_precede(&self, next: &Self) -> bool {
        self.offset < next.offset && self.position < next.position
    }
}

/// No batch up to the one that holds `offset` has a timestamp above `timestamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimestampOffset {
    pub(crate) timestamp: i64,
    pub(crate) offset: Offset,
}

impl Entry for TimestampOffset {
    const SIZE: usize = 12;
    type Key = i64;

    fn key(&self) -> i64 {
        self.timestamp
    }

    fn parse(bytes: &[u8], base_offset: Offset) -> Self {
        let (timestamp, offset) = bytes.split_at(8);
        TimestampOffset {
            timestamp: i64::from_be_bytes(timestamp.try_into().expect("8 bytes")),
            offset: base_offset
                + i64::from(i32::from_be_bytes(offset.try_into().expect("4 bytes"))),
        }
    }

    fn write(&self, base_offset: Offset, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&relative(self.offset, base_offset).to_be_bytes());
    }

    fn may_precede(&self, next: &Self) -> bool {
        self.timestamp < next.timestamp && self.offset <= next.offset
    }
}

fn relative(offset: Offset, base_offset: Offset) -> i32 {
    i32::try_from(offset - base_offset)
        .expect("the segment rolls before offsets leave the range of an i32")
}

#[derive(Debug)]
enum Content<E> {
    /// A segment that is not written: looked up in the file.
    Sealed { entries: usize },
    /// A segment that is written: all entries in memory, the first `written` of them in the file too.
    Resident { entries: Vec<E>, written: usize },
}

#[derive(Debug)]
pub(crate) struct Index<E> {
    base_offset: Offset,
    file: Arc<LazyFile>,
    content: Content<E>,
}

impl<E: Entry> Index<E> {
    /// A new index without entries; the file is made by the first write-out.
    pub(crate) fn create(path: PathBuf, base_offset: Offset) -> Self {
        Index {
            base_offset,
            file: LazyFile::new(path),
            content: Content::Resident {
                entries: Vec::new(),
                written: 0,
            },
        }
    }

    /// An index of which only the length is known. `None` when it is no multiple of the entry size.
    pub(crate) fn sealed(path: PathBuf, base_offset: Offset, length: u64) -> Option<Self> {
        let length = usize::try_from(length).ok()?;
        length.is_multiple_of(E::SIZE).then(|| Index {
            base_offset,
            file: LazyFile::new(path),
            content: Content::Sealed {
                entries: length / E::SIZE,
            },
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn len(&self) -> usize {
        match &self.content {
            Content::Sealed { entries } => *entries,
            Content::Resident { entries, .. } => entries.len(),
        }
    }

    fn file(&self, disk: &Disk) -> Result<Arc<dyn File>, StorageError> {
        self.file.open(disk, OpenMode::CreateOrWrite).cloned()
    }

    /// The index of a segment that is not written, to be searched outside the lock.
    fn as_sealed(&self, entries: usize) -> SealedIndex<E> {
        SealedIndex {
            file: Arc::clone(&self.file),
            base_offset: self.base_offset,
            entries,
            entry: PhantomData,
        }
    }

    /// The index in its file, of a segment that is not written.
    pub(crate) fn sealed_part(&self) -> Option<SealedIndex<E>> {
        match &self.content {
            Content::Resident { .. } => None,
            Content::Sealed { entries } => Some(self.as_sealed(*entries)),
        }
    }

    fn resident(&self) -> &[E] {
        match &self.content {
            Content::Resident { entries, .. } => entries,
            Content::Sealed { .. } => &[],
        }
    }

    /// The first entry above `key` of an index that is in memory.
    pub(crate) fn resident_after(&self, key: E::Key) -> Option<E> {
        let entries = self.resident();
        let at = entries.partition_point(|entry| entry.key() <= key);
        entries.get(at).copied()
    }

    /// The first entry of an index in memory for which `reached` holds; it holds for all after that one too.
    pub(crate) fn resident_reached(&self, reached: impl Fn(&E) -> bool) -> Option<E> {
        let entries = self.resident();
        let at = entries.partition_point(|entry| !reached(entry));
        entries.get(at).copied()
    }

    /// The last entry whose key is not above `key`, or what is needed to look for it.
    pub(crate) fn floor_later(&self, key: E::Key) -> Floor<E> {
        match &self.content {
            Content::Resident { entries, .. } => {
                let below = entries.partition_point(|entry| entry.key() <= key);
                Floor::Known(below.checked_sub(1).map(|at| entries[at]))
            }
            Content::Sealed { entries } => Floor::InFile(self.as_sealed(*entries)),
        }
    }

    /// Brings all entries into memory, up to the first that does not grow: a preallocated file ends in zeros.
    pub(crate) fn load(&mut self, disk: &Disk) -> Result<(), StorageError> {
        let Content::Sealed { entries: count } = self.content else {
            return Ok(());
        };
        let mut bytes = vec![0; count * E::SIZE];
        let file = self.file(disk)?;
        disk.read_exact_at(self.file.path(), &*file, &mut bytes, 0)?;
        let mut entries: Vec<E> = Vec::with_capacity(count);
        for chunk in bytes.chunks_exact(E::SIZE) {
            let entry = E::parse(chunk, self.base_offset);
            if entries.last().is_some_and(|last| !last.may_precede(&entry)) {
                break;
            }
            entries.push(entry);
        }
        let written = entries.len();
        self.content = Content::Resident { entries, written };
        if written < count {
            disk.set_len(self.file.path(), &*file, (written * E::SIZE) as u64)?;
        } else {
            // A log that nobody writes to keeps one open file, not three.
            self.file = LazyFile::new(self.file.path().to_owned());
        }
        Ok(())
    }

    /// Adds an entry behind all others. The index must be resident.
    pub(crate) fn push(&mut self, entry: E) {
        let Content::Resident { entries, .. } = &mut self.content else {
            unreachable!(
                "only the segment that is written gets entries, and its indexes are resident"
            );
        };
        if let Some(last) = entries.last() {
            assert!(last.may_precede(&entry), "{last:?} before {entry:?}");
        }
        entries.push(entry);
    }

    pub(crate) fn entry(&self, disk: &Disk, at: usize) -> Result<E, StorageError> {
        match &self.content {
            Content::Resident { entries, .. } => Ok(entries[at]),
            Content::Sealed { entries } => self.as_sealed(*entries).entry(disk, at, Reading::Waits),
        }
    }

    /// The last entry of an index that is in memory.
    pub(crate) fn resident_last(&self) -> Option<E> {
        match &self.content {
            Content::Resident { entries, .. } => entries.last().copied(),
            Content::Sealed { .. } => None,
        }
    }

    pub(crate) fn last(&self, disk: &Disk) -> Result<Option<E>, StorageError> {
        match self.len().checked_sub(1) {
            None => Ok(None),
            Some(at) => self.entry(disk, at).map(Some),
        }
    }

    /// The last entry whose key is not above `key`.
    pub(crate) fn floor(&self, disk: &Disk, key: E::Key) -> Result<Option<E>, StorageError> {
        self.floor_later(key).find(disk, key, Reading::Waits)
    }

    /// The first entry for which `reached` holds; it holds for all entries after that one too.
    pub(crate) fn first_reached(
        &self,
        disk: &Disk,
        reached: impl Fn(&E) -> bool,
    ) -> Result<Option<E>, StorageError> {
        first_where(self.len(), |at| self.entry(disk, at), reached)
    }

    /// Drops the entries for which `keep` is false; they are the last ones. The index must be resident.
    pub(crate) fn truncate(
        &mut self,
        disk: &Disk,
        keep: impl Fn(&E) -> bool,
    ) -> Result<(), StorageError> {
        let Content::Resident { entries, written } = &mut self.content else {
            unreachable!("truncation makes the segment the one that is written");
        };
        let length = entries.partition_point(keep);
        entries.truncate(length);
        if *written > length {
            *written = length;
            let file = self.file(disk)?;
            disk.set_len(self.file.path(), &*file, (length * E::SIZE) as u64)?;
        }
        Ok(())
    }

    /// Writes what the file lacks, not yet durably. Makes the file where there is none.
    pub(crate) fn write_out(&mut self, disk: &Disk) -> Result<(), StorageError> {
        if matches!(self.content, Content::Sealed { .. }) {
            return Ok(());
        }
        let file = self.file(disk)?;
        let Content::Resident { entries, written } = &mut self.content else {
            return Ok(());
        };
        if *written == entries.len() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity((entries.len() - *written) * E::SIZE);
        for entry in &entries[*written..] {
            entry.write(self.base_offset, &mut bytes);
        }
        disk.write_all_at(
            self.file.path(),
            &*file,
            &bytes,
            (*written * E::SIZE) as u64,
        )?;
        *written = entries.len();
        Ok(())
    }

    /// Writes out and leaves memory.
    pub(crate) fn seal(&mut self, disk: &Disk) -> Result<(), StorageError> {
        self.write_out(disk)?;
        self.content = Content::Sealed {
            entries: self.len(),
        };
        Ok(())
    }

    /// The open file, for an fsync after `write_out`.
    pub(crate) fn opened(&self) -> Option<(PathBuf, Arc<dyn File>)> {
        let file = self.file.opened()?;
        Some((self.file.path().to_owned(), Arc::clone(file)))
    }

    /// Empties the index; the content is about to be rebuilt from the log.
    pub(crate) fn reset(&mut self, disk: &Disk) -> Result<(), StorageError> {
        let file = self.file(disk)?;
        disk.set_len(self.file.path(), &*file, 0)?;
        self.content = Content::Resident {
            entries: Vec::new(),
            written: 0,
        };
        Ok(())
    }

    /// The folder was renamed; an open file stays the same file.
    pub(crate) fn set_path(&mut self, path: PathBuf) {
        self.file = self.file.moved(path);
    }
}

/// The first entry of `length` for which `reached` holds; it holds for all after that one too.
fn first_where<E>(
    length: usize,
    entry: impl Fn(usize) -> Result<E, StorageError>,
    reached: impl Fn(&E) -> bool,
) -> Result<Option<E>, StorageError> {
    let (mut low, mut high) = (0, length);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let at = entry(middle)?;
        if reached(&at) {
            found = Some(at);
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(found)
}

/// An index that is searched in its file; nobody writes to it any more.
#[derive(Debug)]
pub(crate) struct SealedIndex<E> {
    file: Arc<LazyFile>,
    base_offset: Offset,
    entries: usize,
    entry: PhantomData<E>,
}

impl<E: Entry> SealedIndex<E> {
    fn entry(&self, disk: &Disk, at: usize, reading: Reading) -> Result<E, StorageError> {
        // Entries are at most 12 bytes.
        let mut bytes = [0; 16];
        let file = reading.open(disk, &self.file)?;
        let position = (at * E::SIZE) as u64;
        reading.read_exact_at(self.file.path(), &**file, &mut bytes[..E::SIZE], position)?;
        Ok(E::parse(&bytes[..E::SIZE], self.base_offset))
    }

    pub(crate) fn last(&self, disk: &Disk, reading: Reading) -> Result<Option<E>, StorageError> {
        match self.entries.checked_sub(1) {
            None => Ok(None),
            Some(at) => self.entry(disk, at, reading).map(Some),
        }
    }

    /// The first entry for which `reached` holds; it holds for all entries after that one too.
    pub(crate) fn first_reached(
        &self,
        disk: &Disk,
        reading: Reading,
        reached: impl Fn(&E) -> bool,
    ) -> Result<Option<E>, StorageError> {
        first_where(self.entries, |at| self.entry(disk, at, reading), reached)
    }
}

/// The last entry that is not above a key.
#[derive(Debug)]
pub(crate) enum Floor<E> {
    /// The index was in memory, and this is what it said.
    Known(Option<E>),
    InFile(SealedIndex<E>),
}

impl<E: Entry> Floor<E> {
    /// `key` is the one that it was asked for.
    pub(crate) fn find(
        &self,
        disk: &Disk,
        key: E::Key,
        reading: Reading,
    ) -> Result<Option<E>, StorageError> {
        let index = match self {
            Floor::Known(entry) => return Ok(*entry),
            Floor::InFile(index) => index,
        };
        let (mut low, mut high) = (0, index.entries);
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = index.entry(disk, middle, reading)?;
            if entry.key() <= key {
                found = Some(entry);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
#[path = "index_test.rs"]
mod tests;
