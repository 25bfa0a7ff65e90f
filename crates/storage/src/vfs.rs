//! The file system as the log sees it: positioned reads and writes, fsync, rename, listing, lock files.
//! Not here: formats of files, retry policies (a failed write is never retried).
//! Any thread; files are shared as `Arc` and positioned calls need no lock. The only user of `std::fs` in this crate.
//! Kafka: FileRecords, Utils.atomicMoveWithFallback, Utils.flushDir, FileLock.

use kavka_common::RegionSource;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod real;
pub use real::RealVfs;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Must exist; reads only.
    Read,
    /// Must exist; reads and writes.
    Write,
    /// Made when absent; reads and writes, content kept.
    CreateOrWrite,
    /// Made or emptied; reads and writes.
    CreateEmpty,
}

/// An open file. Every call names its position; there is no cursor.
pub trait File: RegionSource {
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;
    /// Writes the slices one after the other, in one system call where the machine allows.
    fn write_all_vectored_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()>;
    /// Reads what there is, up to `buf.len()`; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// As `read_exact_at`, but answers with `WouldBlock` instead of waiting for the disk, where the machine can tell.
    fn read_exact_cached_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        self.read_exact_at(buf, position)
    }
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Makes content and length durable.
    fn sync_data(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// What a directory holds under one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
    pub length: u64,
}

/// Room on the volume of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total_bytes: u64,
    pub usable_bytes: u64,
}

/// Held for as long as this process owns a directory.
pub trait DirLock: Send + Sync + Debug {}

/// A file system.
pub trait Vfs: Send + Sync + Debug {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Replaces `to` in one step; durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The entries, sorted by name. Names that are not UTF-8 are left out: nothing of ours is called so.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// When the content last changed; `None` when the file system does not say.
    fn modified_ms(&self, path: &Path) -> io::Result<Option<i64>>;
    fn space(&self, dir: &Path) -> io::Result<Space>;
    /// Takes the lock file, made when absent; `None` when another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DirLock>>>;
}

/// Reads a whole file of at most `length_max` bytes.
pub fn read_file(vfs: &dyn Vfs, path: &Path, length_max: u64) -> io::Result<Vec<u8>> {
    let file = vfs.open(path, OpenMode::Read)?;
    let length = file.len()?;
    if length > length_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{} has {length} bytes, more than {length_max}",
                path.display()
            ),
        ));
    }
    let mut content = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

/// Whether `replace_file` waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On return the new content survives a power loss.
    Synced,
    /// Survives the end of the process; a power loss may leave either content, or a torn one.
    PageCache,
}

/// Replaces a small file: writes a temporary one beside it, then renames that over `path`. A durable and a quick
/// replacement may run at the same time: each has a temporary name of its own.
pub fn replace_file(
    vfs: &dyn Vfs,
    path: &Path,
    content: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(match durability {
        Durability::Synced => ".synced.tmp",
        Durability::PageCache => ".tmp",
    });
    let temporary = PathBuf::from(temporary);
    let file = vfs.open(&temporary, OpenMode::CreateEmpty)?;
    file.write_all_at(content, 0)?;
    if durability == Durability::Synced {
        file.sync_data()?;
    }
    vfs.rename(&temporary, path)?;
    if durability == Durability::Synced {
        vfs.sync_dir(path.parent().unwrap_or(Path::new(".")))?;
    }
    Ok(())
}
