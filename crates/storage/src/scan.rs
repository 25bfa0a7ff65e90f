//! Walking the batches of a log file: headers only (lookups, producer state), or whole batches with their CRC (recovery).
//! Not here: what follows from a bad batch (recovery.rs, read.rs).
//! Hot path: a lookup walks at most `index.interval.bytes` plus one batch from an index entry.
//! Kafka: FileRecords.batches, FileLogInputStream, LogSegment.recover.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::lazy_file::LazyFile;
use crate::vfs::{File, OpenMode};
use kavka_common::Offset;
use kavka_records::{BATCH_OVERHEAD_BYTES, BatchHeader, RecordBatch};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A batch of a log file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchAt {
    pub(crate) header: BatchHeader,
    pub(crate) position: u32,
}

impl BatchAt {
    /// Where the next batch starts.
    pub(crate) fn end_position(&self) -> u32 {
        // The scanner checked that the batch ends inside the file, whose length is a u32.
        self.position + u32::try_from(self.header.size_bytes()).expect("checked by the scanner")
    }
}

#[derive(Debug)]
pub(crate) enum ScanError {
    /// The bytes at `position` are no batch that could follow the ones before.
    Invalid {
        position: u32,
        reason: String,
    },
    Storage(StorageError),
}

impl From<StorageError> for ScanError {
    fn from(error: StorageError) -> Self {
        ScanError::Storage(error)
    }
}

impl ScanError {
    /// For a scan of bytes that were valid once.
    pub(crate) fn into_storage(self, path: &Path) -> StorageError {
        match self {
            ScanError::Storage(error) => error,
            ScanError::Invalid { position, reason } => StorageError::corrupt(
                path,
                format!("invalid batch at position {position}: {reason}"),
            ),
        }
    }
}

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Waits,
    /// What the page cache does not hold is an error of kind `WouldBlock`; so is a file that is not open yet.
    CachedOnly,
}

impl Reading {
    pub(crate) fn open<'f>(
        self,
        disk: &Disk,
        file: &'f LazyFile,
    ) -> Result<&'f Arc<dyn File>, StorageError> {
        match (self, file.opened()) {
            (_, Some(opened)) => Ok(opened),
            (Reading::Waits, None) => file.open(disk, OpenMode::Write),
            (Reading::CachedOnly, None) => Err(StorageError::io(
                "open",
                file.path(),
                io::ErrorKind::WouldBlock.into(),
            )),
        }
    }

    pub(crate) fn read_exact_at(
        self,
        path: &Path,
        file: &dyn File,
        buf: &mut [u8],
        position: u64,
    ) -> Result<(), StorageError> {
        match self {
            Reading::Waits => file.read_exact_at(buf, position),
            Reading::CachedOnly => file.read_exact_cached_at(buf, position),
        }
        .map_err(|error| StorageError::io("read", path, error))
    }
}

/// Bytes read at once for headers: a few small batches, or the header of one large batch.
const CHUNK_BYTES: usize = 1024;

/// Walks headers from `position` to `end`.
pub(crate) struct HeaderScanner<'a> {
    path: &'a Path,
    file: &'a dyn File,
    position: u32,
    end: u32,
    /// Offsets below are out of order.
    offset_min: Offset,
    chunk: [u8; CHUNK_BYTES],
    chunk_position: u32,
    chunk_length: usize,
    reading: Reading,
    /// What was read, for reports.
    pub(crate) bytes_read: u64,
}

impl<'a> HeaderScanner<'a> {
    pub(crate) fn new(
        path: &'a Path,
        file: &'a dyn File,
        position: u32,
        end: u32,
        offset_min: Offset,
    ) -> Self {
        HeaderScanner {
            path,
            file,
            position,
            end,
            offset_min,
            chunk: [0; CHUNK_BYTES],
            chunk_position: 0,
            chunk_length: 0,
            reading: Reading::Waits,
            bytes_read: 0,
        }
    }

    pub(crate) fn reading(self, reading: Reading) -> Self {
        HeaderScanner { reading, ..self }
    }

    pub(crate) fn position(&self) -> u32 {
        self.position
    }

    fn header_bytes(&mut self) -> Result<&[u8], ScanError> {
        let available = (self.end - self.position) as usize;
        let wanted = available.min(BATCH_OVERHEAD_BYTES);
        let inside = self
            .position
            .checked_sub(self.chunk_position)
            .map(|skip| skip as usize)
            .filter(|skip| skip + wanted <= self.chunk_length);
        if let Some(skip) = inside {
            return Ok(&self.chunk[skip..skip + wanted]);
        }
        let length = available.min(CHUNK_BYTES);
        self.reading.read_exact_at(
            self.path,
            self.file,
            &mut self.chunk[..length],
            u64::from(self.position),
        )?;
        self.bytes_read += length as u64;
        self.chunk_position = self.position;
        self.chunk_length = length;
        Ok(&self.chunk[..wanted])
    }

    /// The next batch; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<BatchAt>, ScanError> {
        if self.position == self.end {
            return Ok(None);
        }
        let position = self.position;
        let invalid = |reason: String| ScanError::Invalid { position, reason };
        let header =
            BatchHeader::parse(self.header_bytes()?).map_err(|error| invalid(error.to_string()))?;
        check_place(&header, position, self.end, self.offset_min).map_err(invalid)?;
        let batch = BatchAt { header, position };
        self.position = batch.end_position();
        self.offset_min = header.next_offset();
        Ok(Some(batch))
    }
}

fn check_place(
    header: &BatchHeader,
    position: u32,
    end: u32,
    offset_min: Offset,
) -> Result<(), String> {
    let available = (end - position) as usize;
    if header.size_bytes() > available {
        return Err(format!(
            "its {} bytes do not fit into the {available} that are left",
            header.size_bytes()
        ));
    }
    if header.last_offset_delta < 0 || header.base_offset < offset_min {
        return Err(format!(
            "offsets {} to {} come after {offset_min}",
            header.base_offset,
            header.last_offset()
        ));
    }
    Ok(())
}

/// Bytes read at once when every batch is checked.
const WINDOW_BYTES: usize = 256 << 10;

/// Walks whole batches from `position` to `end` and checks their CRC.
pub(crate) struct BatchScanner<'a> {
    path: &'a Path,
    file: &'a dyn File,
    position: u32,
    end: u32,
    offset_min: Offset,
    /// Bytes of the file; the batch at `position` starts at `consumed`.
    window: Vec<u8>,
    consumed: usize,
    pub(crate) bytes_read: u64,
}

impl<'a> BatchScanner<'a> {
    pub(crate) fn new(
        path: &'a Path,
        file: &'a dyn File,
        position: u32,
        end: u32,
        offset_min: Offset,
    ) -> Self {
        BatchScanner {
            path,
            file,
            position,
            end,
            offset_min,
            window: Vec::new(),
            consumed: 0,
            bytes_read: 0,
        }
    }

    /// Makes `length` bytes from `position` available; they lie before `end`.
    fn fill(&mut self, length: usize) -> Result<(), StorageError> {
        let have = self.window.len() - self.consumed;
        if have >= length {
            return Ok(());
        }
        self.window.drain(..self.consumed);
        self.consumed = 0;
        let left = (self.end - self.position) as usize;
        self.window.resize(length.max(WINDOW_BYTES).min(left), 0);
        self.file
            .read_exact_at(
                &mut self.window[have..],
                u64::from(self.position) + have as u64,
            )
            .map_err(|error| StorageError::io("read", self.path, error))?;
        self.bytes_read += (self.window.len() - have) as u64;
        Ok(())
    }

    /// The next batch with its bytes; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(BatchAt, RecordBatch<'_>)>, ScanError> {
        if self.position == self.end {
            return Ok(None);
        }
        let position = self.position;
        let invalid = |reason: String| ScanError::Invalid { position, reason };
        let available = (self.end - position) as usize;
        self.fill(available.min(BATCH_OVERHEAD_BYTES))?;
        let header = BatchHeader::parse(&self.window[self.consumed..])
            .map_err(|error| invalid(error.to_string()))?;
        // Only now is the length believed: it ends inside the file.
        check_place(&header, position, self.end, self.offset_min).map_err(invalid)?;
        self.fill(header.size_bytes())?;
        let start = self.consumed;
        let batch = RecordBatch::parse(&self.window[start..])
            .map_err(|error| invalid(error.to_string()))?;
        batch
            .verify_crc()
            .map_err(|error| invalid(error.to_string()))?;
        let at = BatchAt { header, position };
        self.position = at.end_position();
        self.consumed += header.size_bytes();
        self.offset_min = header.next_offset();
        Ok(Some((at, batch)))
    }
}
