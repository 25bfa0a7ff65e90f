//! What many small logs cost: time to make, open and close them, memory, descriptors. `many_logs FOLDER [COUNT [WIDTH]]`.
//! Not here: the broker's share of a partition.
//! Threads of its own. Run by hand: a measurement, not a test.
//! Kafka: none; LogManager.loadLogs and shutdown are what it stands for.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // measures the clock and the process itself

use kavka_common::LeaderEpoch;
use kavka_storage::testing::batches::batch;
use kavka_storage::vfs::RealVfs;
use kavka_storage::{AppendOrigin, Log, LogConfig, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn status(key: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key));
    line.unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .collect()
}

fn report(what: &str, since: Instant, count: usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count());
    let ms = since.elapsed().as_millis();
    println!(
        "{what}: {count} logs, {ms} ms, {descriptors} descriptors, {} resident",
        status("VmRSS")
    );
}

fn open(path: &Path, clean_shutdown: bool) -> Log {
    let options = OpenOptions {
        clean_shutdown,
        recovery_point: i64::from(clean_shutdown),
        ..OpenOptions::new(0)
    };
    let opened = Log::open(Arc::new(RealVfs), path, LogConfig::default(), options);
    opened.expect("a log").0
}

fn append(log: &mut Log) {
    log.append_as_leader(&batch(1, 0, 100), LeaderEpoch(0), AppendOrigin::Client, 0)
        .expect("an append");
}

fn side_by_side<T: Send>(width: usize, items: Vec<T>, work: impl Fn(T) + Sync) {
    let items: Vec<_> = items
        .into_iter()
        .map(|item| std::sync::Mutex::new(Some(item)))
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item.lock().expect("no panic").take().expect("taken once"));
                }
            });
        }
    });
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder"));
    let mut number = |default| {
        arguments
            .next()
            .map_or(default, |n| n.parse().expect("a number"))
    };
    let count = number(3000);
    let width = number(16);
    let paths: Vec<PathBuf> = (0..count)
        .map(|at| folder.join(format!("t-{at}")))
        .collect();
    let since = Instant::now();
    let mut logs: Vec<Log> = paths.iter().map(|path| open(path, false)).collect();
    report("made", since, count);
    let since = Instant::now();
    logs.iter_mut().for_each(append);
    report("appended to", since, count);
    let since = Instant::now();
    side_by_side(width, logs, |log| {
        log.close().expect("closed");
    });
    report("closed dirty", since, count);
    let since = Instant::now();
    let logs: Vec<Log> = paths.iter().map(|path| open(path, true)).collect();
    report("opened clean", since, count);
    let since = Instant::now();
    side_by_side(width, logs, |log| {
        log.close().expect("closed");
    });
    report("closed untouched", since, count);
    let since = Instant::now();
    let logs: Vec<Log> = paths.iter().map(|path| open(path, false)).collect();
    report("recovered", since, count);
    drop(logs);
}
