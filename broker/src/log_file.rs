//! The log file of a daemon: `server.log`, set aside each hour as `server.log.<year>-<month>-<day>-<hour>`.
//! Not here: what a line looks like (logging.rs), where the file lies (daemon.rs).
//! Behind one lock, taken for each line by whoever logs. Kafka: config/log4j2.yaml, appender KafkaAppender (RollingFile by
//! time), which keeps all files for ever; here the oldest go when there are more than a month's.

#![allow(clippy::disallowed_methods)] // a file of the program itself, not of the broker's storage

use chrono::{DateTime, Datelike, Local, NaiveDateTime, Timelike};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files set aside that are kept: those of 31 days with lines in every hour.
const SET_ASIDE_FILES_MAX: usize = 31 * 24;
/// The console file repeats all lines; it is emptied at the turn of an hour once it is larger than this.
const CONSOLE_BYTES_MAX: i64 = 64 << 20;

/// Milliseconds since the epoch as the machine's time zone shows them, as log4j does.
pub fn local_time(ms: i64) -> NaiveDateTime {
    DateTime::from_timestamp_millis(ms)
        .unwrap_or_default()
        .with_timezone(&Local)
        .naive_local()
}

/// An hour of local time; its text is the suffix of the file with its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hour {
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
}

impl Hour {
    fn of(time: NaiveDateTime) -> Hour {
        Hour {
            year: time.year(),
            month: time.month(),
            day: time.day(),
            hour: time.hour(),
        }
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hour {
            year,
            month,
            day,
            hour,
        } = self;
        write!(f, "{year:04}-{month:02}-{day:02}-{hour:02}")
    }
}

/// The open log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    /// Of the lines in it.
    hour: Hour,
}

impl LogFile {
    /// Opens it for appending. Lines of an earlier hour, which an earlier process left, are set aside first.
    pub fn open(path: &Path, now: NaiveDateTime) -> io::Result<LogFile> {
        let file = open_for_append(path)?;
        let metadata = file.metadata()?;
        let written = metadata.modified().ok().filter(|_| metadata.len() > 0);
        let mut log_file = LogFile {
            path: path.to_owned(),
            file,
            hour: Hour::of(written.map_or(now, |at| DateTime::<Local>::from(at).naive_local())),
        };
        log_file.turn_to(now);
        Ok(log_file)
    }

    /// Writes lines of this moment.
    pub fn write(&mut self, lines: &[u8], now: NaiveDateTime) -> io::Result<()> {
        if self.turn_to(now) {
            empty_large_console();
        }
        self.file.write_all(lines)
    }

    /// Sets the file aside when its hour is over. When that fails, lines go on into the file as it is.
    fn turn_to(&mut self, now: NaiveDateTime) -> bool {
        let hour = Hour::of(now);
        if hour == self.hour {
            return false;
        }
        let ended = std::mem::replace(&mut self.hour, hour);
        if self.set_aside(ended).is_ok() {
            self.remove_oldest();
        }
        true
    }

    fn set_aside(&mut self, ended: Hour) -> io::Result<()> {
        let target = self.free_name(ended);
        std::fs::rename(&self.path, target)?;
        self.file = open_for_append(&self.path)?;
        Ok(())
    }

    /// A clock that was set back, or the hour that summer time repeats, must not overwrite what is there.
    fn free_name(&self, ended: Hour) -> PathBuf {
        let named = |number: u32| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{ended}"));
            if number > 0 {
                name.push(format!(".{number}"));
            }
            PathBuf::from(name)
        };
        (0..)
            .map(named)
            .find(|path| !path.exists())
            .unwrap_or_else(|| named(0))
    }

    fn remove_oldest(&self) {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return;
        };
        let prefix = format!("{}.", name.to_string_lossy());
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        // Names sort by time.
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.strip_prefix(&prefix).is_some_and(is_hour))
            .collect();
        names.sort();
        let excess = names.len().saturating_sub(SET_ASIDE_FILES_MAX);
        for name in &names[..excess] {
            // One that cannot be removed is tried again in an hour.
            let _ = std::fs::remove_file(folder.join(name));
        }
    }
}

/// Whether a suffix is one that this program gives: nothing else in the folder is ever removed.
fn is_hour(suffix: &str) -> bool {
    let shape = suffix
        .bytes()
        .map(|b| if b.is_ascii_digit() { b'0' } else { b });
    let shape: Vec<u8> = shape.collect();
    shape.starts_with(b"0000-00-00-00") && shape[13..].iter().all(|b| matches!(b, b'0' | b'.'))
}

fn open_for_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Empties the console file of a daemon when it has grown large; its lines are in the log files. It is opened for
/// appending, so that the next line begins at its start.
fn empty_large_console() {
    let console = io::stdout();
    let Ok(stat) = rustix::fs::fstat(&console) else {
        return;
    };
    let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    if is_file && stat.st_size > CONSOLE_BYTES_MAX {
        // What cannot be cut stays.
        let _ = rustix::fs::ftruncate(&console, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> NaiveDateTime {
        text.parse().unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_hour_that_is_over_is_set_aside_under_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        let mut log = LogFile::open(&path, at("2026-12-01T05:59:58")).unwrap();
        log.write(b"one\n", at("2026-12-01T05:59:59")).unwrap();
        log.write(b"two\n", at("2026-12-01T06:00:00")).unwrap();
        // set back by an hour, and on again
        log.write(b"three\n", at("2026-12-01T05:30:00")).unwrap();
        log.write(b"four\n", at("2026-12-01T06:00:00")).unwrap();
        let content = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            names(dir.path()),
            [
                "server.log",
                "server.log.2026-12-01-05",
                "server.log.2026-12-01-05.1",
                "server.log.2026-12-01-06"
            ]
        );
        assert_eq!(content("server.log.2026-12-01-05"), "one\n");
        assert_eq!(content("server.log.2026-12-01-06"), "two\n");
        assert_eq!(content("server.log.2026-12-01-05.1"), "three\n");
        assert_eq!(content("server.log"), "four\n");
    }

    #[test]
    fn what_an_earlier_process_left_is_set_aside_or_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        std::fs::write(&path, "old\n").unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let written = DateTime::<Local>::from(modified).naive_local();
        drop(LogFile::open(&path, written).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\n");
        drop(LogFile::open(&path, written + chrono::TimeDelta::hours(1)).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        assert_eq!(names(dir.path()).len(), 2);
    }

    #[test]
    fn the_oldest_of_too_many_files_go_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        let keep = [
            "server.log.bak",
            "server.log.2026-12-01",
            "server.log.2026-12-01-05.gz",
        ];
        for name in keep {
            std::fs::write(dir.path().join(name), "mine").unwrap();
        }
        let mut log = LogFile::open(&path, at("2026-01-01T00:00:00")).unwrap();
        let mut now = at("2026-01-01T00:00:00");
        for _ in 0..SET_ASIDE_FILES_MAX + 3 {
            log.write(b"line\n", now).unwrap();
            now += chrono::TimeDelta::hours(1);
        }
        let names = names(dir.path());
        assert_eq!(names.len(), SET_ASIDE_FILES_MAX + 1 + keep.len());
        assert!(!names.contains(&"server.log.2026-01-01-01".to_owned()));
        assert!(names.contains(&"server.log.2026-01-01-02".to_owned()));
        for name in keep {
            assert!(names.contains(&name.to_owned()), "{name}");
        }
    }
}
