//! The machine's file system.
//! Not here: anything a log knows.
//! Any thread; system calls block, so callers on an async runtime keep to page-cache sized work or a blocking pool.
//! Kafka: FileChannel, Utils.flushDir.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the seam itself: std::fs stops here

use super::{DirEntry, DirLock, File, OpenMode, Space, Vfs};
use kavka_common::RegionSource;
use rustix::io::{Errno, ReadWriteFlags};
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Linux takes at most this many slices in one call (IOV_MAX).
const SLICES_MAX: usize = 1024;

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealVfs;

#[derive(Debug)]
struct RealFile {
    file: fs::File,
}

#[derive(Debug)]
struct RealLock {
    /// The lock lives as long as the descriptor.
    _file: fs::File,
}

impl DirLock for RealLock {}

impl RegionSource for RealFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, position)
    }

    fn raw_fd(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}

impl File for RealFile {
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, position)
    }

    fn write_all_vectored_at(
        &self,
        slices: &mut [IoSlice<'_>],
        mut position: u64,
    ) -> io::Result<()> {
        let mut rest = slices;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let count = rest.len().min(SLICES_MAX);
            match rustix::io::pwritev(&self.file, &rest[..count], position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    position += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn read_exact_cached_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            let at = position + filled as u64;
            let mut rest = [IoSliceMut::new(&mut buf[filled..])];
            match rustix::io::preadv2(&self.file, &mut rest, at, ReadWriteFlags::NOWAIT) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                // not every file system can tell
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    return self.file.read_exact_at(&mut buf[filled..], at);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl Vfs for RealVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::CreateOrWrite => {
                options.write(true).create(true).truncate(false);
            }
            OpenMode::CreateEmpty => {
                options.write(true).create(true).truncate(true);
            }
        }
        Ok(Arc::new(RealFile {
            file: options.open(path)?,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // Follows links: an operator may have moved a partition's folder to another volume.
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            entries.push(DirEntry {
                name,
                is_dir: metadata.is_dir(),
                length: metadata.len(),
            });
        }
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn modified_ms(&self, path: &Path) -> io::Result<Option<i64>> {
        let modified = fs::metadata(path)?.modified()?;
        Ok(modified
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|since| i64::try_from(since.as_millis()).ok()))
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(Space {
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            usable_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(RealLock { _file: file }))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{Durability, read_file, replace_file};

    #[test]
    fn vectored_writes_land_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = RealVfs.open(&path, OpenMode::CreateEmpty).unwrap();
        let parts: Vec<Vec<u8>> = (0..3000u32).map(|i| i.to_be_bytes().to_vec()).collect();
        let mut slices: Vec<IoSlice> = parts.iter().map(|p| IoSlice::new(p)).collect();
        file.write_all_vectored_at(&mut slices, 5).unwrap();
        let content = read_file(&RealVfs, &path, 1 << 20).unwrap();
        assert_eq!(content.len(), 5 + 12000);
        assert_eq!(&content[5..], parts.concat());
    }

    #[test]
    fn a_lock_is_exclusive_until_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let held = RealVfs.lock(&path).unwrap();
        assert!(held.is_some());
        assert!(RealVfs.lock(&path).unwrap().is_none());
        drop(held);
        assert!(RealVfs.lock(&path).unwrap().is_some());
    }

    #[test]
    fn replacing_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        replace_file(&RealVfs, &path, b"one", Durability::Synced).unwrap();
        replace_file(&RealVfs, &path, b"two", Durability::PageCache).unwrap();
        assert_eq!(read_file(&RealVfs, &path, 10).unwrap(), b"two");
        assert!(read_file(&RealVfs, &path, 2).is_err());
        assert_eq!(RealVfs.list(dir.path()).unwrap().len(), 1);
    }
}
