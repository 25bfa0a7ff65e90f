//! A simulated disk: content that was not synced is lost or torn by a crash; any step can fail, fill the disk or be the
//! last one. Not here: slow disks (nothing here knows time).
//! Deterministic: the same calls, faults and seed give the same files. One lock inside, tests use it from one thread.
//! Kafka: nothing like it; the idea is that of LazyFS and of other databases' simulated disks.

use crate::vfs::{DirEntry, DirLock, File, OpenMode, Space, Vfs};
use kavka_common::RegionSource;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a crash does to changes that no fsync has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them are gone: a power loss at the worst moment.
    Unsynced,
    /// None is gone: the process died, the machine did not.
    Nothing,
    /// Each write is kept, lost, torn or filled with zeros, by the seed; folder changes survive up to some point.
    Random(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since the last fsync, in order.
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Clone, Debug)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Changes of names since the fsync of their folder, in order.
    unsynced_names: Vec<NameChange>,
    dirs: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    steps: u64,
    crash_at: Option<u64>,
    fail_at: Option<(u64, Fault)>,
    crashed: bool,
    capacity_bytes: usize,
    /// `None`: nobody wants to read it.
    trace: Option<Vec<String>>,
}

/// A simulated disk; clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimVfs {
    state: Arc<Mutex<State>>,
}

impl Default for SimVfs {
    fn default() -> Self {
        SimVfs::new()
    }
}

/// A small generator: the same seed gives the same disk.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }
}

impl SimVfs {
    pub fn new() -> Self {
        SimVfs {
            state: Arc::new(Mutex::new(State {
                inodes: Vec::new(),
                names: BTreeMap::new(),
                durable_names: BTreeMap::new(),
                unsynced_names: Vec::new(),
                dirs: BTreeSet::from([PathBuf::from("/")]),
                locked: BTreeSet::new(),
                steps: 0,
                crash_at: None,
                fail_at: None,
                crashed: false,
                capacity_bytes: usize::MAX,
                trace: Some(Vec::new()),
            })),
        }
    }

    /// One that keeps no trace: for tests whose runs are long and many.
    pub fn untraced() -> Self {
        let disk = SimVfs::new();
        disk.state.lock().trace = None;
        disk
    }

    /// Mutating steps so far: writes, truncations, fsyncs, renames, removals, creations.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// The machine stops in the middle of this step (the first one is 0): a write may be done in part.
    pub fn crash_at(&self, step: u64) {
        self.state.lock().crash_at = Some(step);
    }

    /// This step fails with an error of that kind, once. A failed fsync loses what it should have kept, and later ones
    /// do not notice: as Linux does it.
    pub fn fail_at(&self, step: u64, kind: io::ErrorKind) {
        self.state.lock().fail_at = Some((step, Fault::Kind(kind)));
    }

    /// This step finds no file descriptor left, once.
    pub fn out_of_descriptors_at(&self, step: u64) {
        self.state.lock().fail_at = Some((step, Fault::OutOfDescriptors));
    }

    /// The volume holds this many bytes.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        self.state.lock().capacity_bytes = capacity_bytes;
    }

    pub fn used_bytes(&self) -> usize {
        self.state.lock().used_bytes()
    }

    pub fn crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// The mutating steps, for a failed test's message.
    pub fn trace(&self) -> Vec<String> {
        self.state.lock().trace.clone().unwrap_or_default()
    }

    /// The disk as the next process finds it.
    pub fn after_crash(&self, loss: Loss) -> SimVfs {
        let mut state = self.state.lock().clone();
        let mut random = Seeded::new(match loss {
            Loss::Random(seed) => seed,
            Loss::Unsynced | Loss::Nothing => 0,
        });
        match loss {
            Loss::Nothing => {}
            Loss::Unsynced => {
                state.names = state.durable_names.clone();
                for inode in &mut state.inodes {
                    inode.content = inode.durable.clone();
                }
            }
            Loss::Random(_) => {
                // A journal keeps changes of names in order.
                let keep = random.below(state.unsynced_names.len() + 1);
                state.names = state.durable_names.clone();
                for change in state.unsynced_names.iter().take(keep) {
                    apply_name(&mut state.names, change);
                }
                for inode in &mut state.inodes {
                    let mut content = inode.durable.clone();
                    for change in &inode.unsynced {
                        match (change, random.below(5)) {
                            (_, 0) => {}
                            (Change::Write { position, bytes }, 1) => {
                                let cut = random.below(bytes.len() + 1);
                                write(&mut content, *position, &bytes[..cut]);
                            }
                            (Change::Write { position, bytes }, 2) => {
                                write(&mut content, *position, &vec![0; bytes.len()]);
                            }
                            (change, _) => apply(&mut content, change),
                        }
                    }
                    inode.content = content;
                }
            }
        }
        for inode in &mut state.inodes {
            inode.durable = inode.content.clone();
            inode.unsynced.clear();
        }
        state.durable_names = state.names.clone();
        state.unsynced_names.clear();
        state.locked.clear();
        state.steps = 0;
        state.crash_at = None;
        state.fail_at = None;
        state.crashed = false;
        state.capacity_bytes = usize::MAX;
        if let Some(trace) = &mut state.trace {
            trace.clear();
        }
        SimVfs {
            state: Arc::new(Mutex::new(state)),
        }
    }
}

fn write(content: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    let end = position + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[position..end].copy_from_slice(bytes);
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { position, bytes } => write(content, *position, bytes),
        Change::Length(length) => content.resize(*length, 0),
    }
}

fn apply_name(names: &mut BTreeMap<PathBuf, usize>, change: &NameChange) {
    match change {
        NameChange::Set(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        NameChange::Rename(from, to, inode) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
        NameChange::Remove(path) => {
            names.remove(path);
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the simulated machine has stopped")
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, path.display().to_string())
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kind(io::ErrorKind),
    OutOfDescriptors,
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> io::Error {
        match fault {
            Fault::Kind(kind) => kind.into(),
            Fault::OutOfDescriptors => rustix::io::Errno::MFILE.into(),
        }
    }
}

/// What is to be done with a step.
enum Step {
    Go,
    /// The machine stops in it.
    Last,
    Fail(Fault),
}

impl State {
    fn step(&mut self, what: impl FnOnce() -> String) -> io::Result<Step> {
        if self.crashed {
            return Err(stopped());
        }
        let step = self.steps;
        self.steps += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
        if self.crash_at == Some(step) {
            self.crashed = true;
            return Ok(Step::Last);
        }
        match self.fail_at {
            Some((at, fault)) if at == step => Ok(Step::Fail(fault)),
            _ => Ok(Step::Go),
        }
    }

    /// A step that is done whole or not at all.
    fn whole_step(&mut self, what: impl FnOnce() -> String) -> io::Result<()> {
        match self.step(what)? {
            Step::Go => Ok(()),
            Step::Last => Err(stopped()),
            Step::Fail(fault) => Err(fault.into()),
        }
    }

    fn used_bytes(&self) -> usize {
        let live: BTreeSet<usize> = self.names.values().copied().collect();
        live.iter()
            .map(|inode| self.inodes[*inode].content.len())
            .sum()
    }

    fn change_name(&mut self, change: NameChange) {
        apply_name(&mut self.names, &change);
        self.unsynced_names.push(change);
    }

    fn change(&mut self, inode: usize, change: Change) {
        apply(&mut self.inodes[inode].content, &change);
        self.inodes[inode].unsynced.push(change);
    }
}

#[derive(Debug)]
struct SimFile {
    state: Arc<Mutex<State>>,
    inode: usize,
    path: PathBuf,
    writable: bool,
}

impl RegionSource for SimFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        let read = self.read_at(buf, position)?;
        if read < buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn raw_fd(&self) -> Option<i32> {
        None
    }
}

impl File for SimFile {
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_vectored_at(&mut [IoSlice::new(bytes)], position)
    }

    fn write_all_vectored_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let bytes: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        let position = position as usize;
        let mut state = self.state.lock();
        let step =
            state.step(|| format!("write {} {position}+{}", self.path.display(), bytes.len()))?;
        let room = {
            let grows =
                (position + bytes.len()).saturating_sub(state.inodes[self.inode].content.len());
            // what is used takes a walk over all files, which only a limit is worth
            let left = match state.capacity_bytes {
                usize::MAX => usize::MAX,
                capacity_bytes => capacity_bytes.saturating_sub(state.used_bytes()),
            };
            bytes.len() - grows.saturating_sub(left).min(bytes.len())
        };
        let (done, error) = match step {
            Step::Go if room == bytes.len() => (bytes.len(), None),
            Step::Go => (room, Some(io::ErrorKind::StorageFull.into())),
            Step::Last => (bytes.len() / 2, Some(stopped())),
            Step::Fail(fault) => (bytes.len() / 3, Some(fault.into())),
        };
        let bytes = bytes[..done].to_vec();
        state.change(self.inode, Change::Write { position, bytes });
        error.map_or(Ok(()), Err)
    }

    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.state.lock();
        if state.crashed {
            return Err(stopped());
        }
        let content = &state.inodes[self.inode].content;
        let from = (position as usize).min(content.len());
        let length = buf.len().min(content.len() - from);
        buf[..length].copy_from_slice(&content[from..from + length]);
        Ok(length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut state = self.state.lock();
        state.whole_step(|| format!("set length {} {length}", self.path.display()))?;
        state.change(self.inode, Change::Length(length as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let outcome = state.whole_step(|| format!("fsync {}", self.path.display()));
        if !state.crashed {
            let inode = &mut state.inodes[self.inode];
            if outcome.is_ok() {
                inode.durable = inode.content.clone();
            }
            // After an error the pages count as clean all the same: nobody will write them again.
            inode.unsynced.clear();
        }
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.state.lock();
        Ok(state.inodes[self.inode].content.len() as u64)
    }
}

#[derive(Debug)]
struct SimLock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

impl DirLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.state.lock().locked.remove(&self.path);
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        if state.crashed {
            return Err(stopped());
        }
        let inode = match (state.names.get(path).copied(), mode) {
            (Some(inode), OpenMode::CreateEmpty) => {
                state.whole_step(|| format!("empty {}", path.display()))?;
                state.change(inode, Change::Length(0));
                inode
            }
            (Some(inode), _) => inode,
            (None, OpenMode::Read | OpenMode::Write) => return Err(not_found(path)),
            (None, OpenMode::CreateOrWrite | OpenMode::CreateEmpty) => {
                if !path
                    .parent()
                    .is_some_and(|parent| state.dirs.contains(parent))
                {
                    return Err(not_found(path));
                }
                state.whole_step(|| format!("create {}", path.display()))?;
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.change_name(NameChange::Set(path.to_owned(), inode));
                inode
            }
        };
        Ok(Arc::new(SimFile {
            state: self.state.clone(),
            inode,
            path: path.to_owned(),
            writable: mode != OpenMode::Read,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.dirs.contains(from) {
            state.whole_step(|| format!("rename folder {} {}", from.display(), to.display()))?;
            let moved = |path: &PathBuf| path.strip_prefix(from).ok().map(|rest| to.join(rest));
            state.dirs = state
                .dirs
                .iter()
                .map(|dir| moved(dir).unwrap_or(dir.clone()))
                .collect();
            let rename = |names: &BTreeMap<PathBuf, usize>| {
                names
                    .iter()
                    .map(|(path, inode)| (moved(path).unwrap_or(path.clone()), *inode))
                    .collect()
            };
            state.names = rename(&state.names);
            state.durable_names = rename(&state.durable_names);
            return Ok(());
        }
        let inode = state
            .names
            .get(from)
            .copied()
            .ok_or_else(|| not_found(from))?;
        state.whole_step(|| format!("rename {} {}", from.display(), to.display()))?;
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.names.contains_key(path) {
            return Err(not_found(path));
        }
        state.whole_step(|| format!("remove {}", path.display()))?;
        state.change_name(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.whole_step(|| format!("remove folder {}", path.display()))?;
        let doomed: Vec<PathBuf> = state
            .names
            .keys()
            .filter(|name| name.starts_with(path))
            .cloned()
            .collect();
        for name in doomed {
            state.change_name(NameChange::Remove(name));
        }
        state.dirs.retain(|dir| !dir.starts_with(path));
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.whole_step(|| format!("make folder {}", path.display()))?;
        for dir in path.ancestors() {
            state.dirs.insert(dir.to_owned());
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state.lock();
        if state.crashed {
            return Err(stopped());
        }
        if !state.dirs.contains(dir) {
            return Err(not_found(dir));
        }
        let name_in = |path: &Path| {
            (path.parent() == Some(dir)).then(|| {
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            })
        };
        let files = state.names.iter().filter_map(|(path, inode)| {
            Some(DirEntry {
                name: name_in(path)?,
                is_dir: false,
                length: state.inodes[*inode].content.len() as u64,
            })
        });
        let dirs = state.dirs.iter().filter_map(|path| {
            Some(DirEntry {
                name: name_in(path)?,
                is_dir: true,
                length: 0,
            })
        });
        let mut entries: Vec<DirEntry> = files.chain(dirs).collect();
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.dirs.contains(dir) {
            return Err(not_found(dir));
        }
        state.whole_step(|| format!("fsync folder {}", dir.display()))?;
        let changes = std::mem::take(&mut state.unsynced_names);
        for change in changes {
            let (NameChange::Set(path, _)
            | NameChange::Rename(_, path, _)
            | NameChange::Remove(path)) = &change;
            if path.parent() == Some(dir) {
                apply_name(&mut state.durable_names, &change);
            } else {
                state.unsynced_names.push(change);
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state.lock();
        if state.crashed {
            return Err(stopped());
        }
        Ok(state.names.contains_key(path) || state.dirs.contains(path))
    }

    fn modified_ms(&self, _path: &Path) -> io::Result<Option<i64>> {
        Ok(None)
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let state = self.state.lock();
        let used = state.used_bytes();
        Ok(Space {
            total_bytes: state.capacity_bytes as u64,
            usable_bytes: state.capacity_bytes.saturating_sub(used) as u64,
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        let mut state = self.state.lock();
        if !state.locked.insert(path.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(SimLock {
            state: self.state.clone(),
            path: path.to_owned(),
        })))
    }
}
