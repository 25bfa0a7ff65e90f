//! One small file per running server of this user, by which the stop programs find it, and only it.
//! Not here: locks on log directories (crates/storage); signals to other users' processes.
//! Written by the server when it starts, removed when it stops; a stale one is recognised by the process's start time.
//! Kafka: bin/kafka-server-stop.sh, which greps the process list; wishes.md.

#![allow(clippy::disallowed_methods)] // files of the program itself, not of the broker's storage

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Overrides the folder of the pid files.
pub const FOLDER_VARIABLE: &str = "KAVKA_RUN_DIR";

/// A server that runs, or ran when its file was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `kafka-server-start` or `zookeeper-server-start`.
    pub program: String,
    pub pid: u32,
    /// Clock ticks after boot at which the process started: a later process with the same id differs.
    pub started_ticks: u64,
    pub node_id: Option<i32>,
    /// `process.roles`, as far as known.
    pub roles: String,
    /// Absolute.
    pub properties_file: PathBuf,
}

impl Entry {
    /// This process.
    pub fn of_this_process(
        program: &str,
        properties_file: &Path,
        node_id: Option<i32>,
        roles: &str,
    ) -> Entry {
        let pid = std::process::id();
        Entry {
            program: program.to_owned(),
            pid,
            started_ticks: started_ticks(pid).unwrap_or(0),
            node_id,
            roles: roles.to_owned(),
            properties_file: absolute(properties_file),
        }
    }

    fn to_text(&self) -> String {
        format!(
            "program={}\npid={}\nstarted={}\nnode.id={}\nprocess.roles={}\nproperties={}\n",
            self.program,
            self.pid,
            self.started_ticks,
            self.node_id.map(|id| id.to_string()).unwrap_or_default(),
            self.roles,
            self.properties_file.display()
        )
    }

    fn from_text(text: &str) -> Option<Entry> {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        };
        Some(Entry {
            program: value("program")?.to_owned(),
            pid: value("pid")?.parse().ok()?,
            started_ticks: value("started")?.parse().ok()?,
            node_id: value("node.id")?.parse().ok(),
            roles: value("process.roles")?.to_owned(),
            properties_file: value("properties")?.into(),
        })
    }

    /// Whether the process still runs, and is the one that wrote the file.
    pub fn is_running(&self) -> bool {
        started_ticks(self.pid) == Some(self.started_ticks)
    }
}

/// The file of this process; gone with the value.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    pub fn write(entry: &Entry) -> io::Result<PidFile> {
        let folder = folder();
        open_folder(&folder)?;
        let path = folder.join(format!("{}-{}.pid", entry.program, entry.pid));
        let mut file = fs::File::create(&path)?;
        file.write_all(entry.to_text().as_bytes())?;
        Ok(PidFile { path })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A file that stays is recognised as stale.
        let _ = fs::remove_file(&self.path);
    }
}

/// The running servers of this user. Stale files are removed on the way.
pub fn running(program: &str) -> Vec<Entry> {
    let folder = folder();
    if open_folder(&folder).is_err() {
        return Vec::new();
    }
    let Ok(files) = fs::read_dir(&folder) else {
        return Vec::new();
    };
    let mut entries: Vec<Entry> = files
        .filter_map(|file| {
            let path = file.ok()?.path();
            let entry = Entry::from_text(&fs::read_to_string(&path).ok()?)?;
            if entry.is_running() {
                Some(entry)
            } else {
                let _ = fs::remove_file(&path);
                None
            }
        })
        .filter(|entry| entry.program == program)
        .collect();
    entries.sort_by_key(|entry| entry.pid);
    entries
}

/// The path as it is compared: links resolved where the file exists.
pub fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        return folder.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => PathBuf::from(runtime).join("kavka"),
        _ => std::env::temp_dir().join(format!("kavka-{}", rustix::process::getuid().as_raw())),
    }
}

/// Makes the folder for this user alone; a folder that somebody else could have planted is not used.
fn open_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    if fs::symlink_metadata(folder)?.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} belongs to another user", folder.display()),
        ));
    }
    Ok(())
}

/// Field 22 of /proc/<pid>/stat. `None` when there is no such process, or it has ended and waits for its parent.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_file() {
        let entry = Entry::of_this_process(
            "kafka-server-start",
            Path::new("/no/such file.properties"),
            Some(7),
            "broker,controller",
        );
        assert!(entry.started_ticks > 0);
        assert!(entry.is_running());
        assert_eq!(Entry::from_text(&entry.to_text()), Some(entry.clone()));
        let other = Entry {
            started_ticks: entry.started_ticks + 1,
            ..entry
        };
        assert!(!other.is_running());
    }

    #[test]
    fn damaged_files_are_no_entries() {
        assert_eq!(Entry::from_text(""), None);
        assert_eq!(Entry::from_text("program=x\npid=abc\n"), None);
    }
}
