//! The machine's file system with two faults that tests switch on: folders that cannot be renamed, and a cold, slow disk.
//! Not here: lost and torn writes (kavka_storage::testing has a simulated disk for those). For tests only.
//! Any thread. A read of the slow disk waits until the fault is switched off.
//! Kafka: MockDirectory and the like of its log tests.

use kavka_common::RegionSource;
use kavka_storage::vfs::{DirEntry, DirLock, File, OpenMode, RealVfs, Space, Vfs};
use parking_lot::{Condvar, Mutex};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(super) struct SpoiltVfs {
    pub(super) stuck: AtomicBool,
    pub(super) disk: Arc<SlowDisk>,
}

/// While `slow`, nothing is cached, and reads do not end.
#[derive(Debug, Default)]
pub(super) struct SlowDisk {
    slow: Mutex<bool>,
    changed: Condvar,
    waiting: Mutex<usize>,
}

impl SlowDisk {
    pub(super) fn set_slow(&self, slow: bool) {
        *self.slow.lock() = slow;
        self.changed.notify_all();
    }

    /// Reads that wait for the disk.
    pub(super) fn waiting(&self) -> usize {
        *self.waiting.lock()
    }

    fn wait(&self) {
        let mut slow = self.slow.lock();
        if *slow {
            *self.waiting.lock() += 1;
            self.changed.wait_while(&mut slow, |slow| *slow);
            *self.waiting.lock() -= 1;
        }
    }
}

#[derive(Debug)]
struct SpoiltFile {
    file: Arc<dyn File>,
    disk: Arc<SlowDisk>,
}

impl RegionSource for SpoiltFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        self.disk.wait();
        self.file.read_exact_at(buf, position)
    }
    fn raw_fd(&self) -> Option<i32> {
        self.file.raw_fd()
    }
}

impl File for SpoiltFile {
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, position)
    }
    fn write_all_vectored_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.file.write_all_vectored_at(slices, position)
    }
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.disk.wait();
        self.file.read_at(buf, position)
    }
    fn read_exact_cached_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        if *self.disk.slow.lock() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.read_exact_at(buf, position)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Vfs for SpoiltVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SpoiltFile {
            file: RealVfs.open(path, mode)?,
            disk: Arc::clone(&self.disk),
        }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let folder = to.extension().is_some_and(|e| {
            let e = e.to_string_lossy();
            e.ends_with("-stray") || e.ends_with("-delete")
        });
        if folder && self.stuck.load(Ordering::Relaxed) {
            return Err(io::Error::other("the folder is stuck"));
        }
        RealVfs.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealVfs.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        RealVfs.remove_dir_all(path)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealVfs.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealVfs.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealVfs.sync_dir(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealVfs.exists(path)
    }
    fn modified_ms(&self, path: &Path) -> io::Result<Option<i64>> {
        RealVfs.modified_ms(path)
    }
    fn space(&self, dir: &Path) -> io::Result<Space> {
        RealVfs.space(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        RealVfs.lock(path)
    }
}
