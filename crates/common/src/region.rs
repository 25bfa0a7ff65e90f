//! A range of an open file as a value: what `storage` hands out and `network` sends, without either knowing the other.
//! Not here: how it is read or sent.
//! Pure data; the source behind it is shared and immutable in the given range.
//! Kafka: FileRecords slices, TransferableRecords.

use std::fmt;
use std::io;
use std::sync::Arc;

/// An open file (or a simulated one) from which a region is read.
pub trait RegionSource: Send + Sync + fmt::Debug {
    /// Fills `buf` from `position`; an error of kind `UnexpectedEof` when the file is shorter.
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()>;

    /// The descriptor for `sendfile`, where there is one. Valid for as long as the source lives.
    fn raw_fd(&self) -> Option<i32>;
}

/// `length` bytes at `position` of a file that stays open while the region lives.
#[derive(Clone, Debug)]
pub struct FileRegion {
    pub source: Arc<dyn RegionSource>,
    pub position: u64,
    pub length: usize,
}

impl FileRegion {
    /// Reads the whole region into memory: for TLS, for tools, for tests.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut buf = vec![0; self.length];
        self.source.read_exact_at(&mut buf, self.position)?;
        Ok(buf)
    }
}
