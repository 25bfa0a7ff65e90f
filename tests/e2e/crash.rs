//! `kill -9` under load, again and again; and in the middle of recovery: nothing acknowledged is lost, nothing is doubled.
//! Not here: stopping in order (stop), damaged files (damage). The page cache survives a kill: this does not test fsync.
//! Faults F01 and F07. Kafka: LogLoader; KAFKA-10101 (the recovery point never runs ahead).

use crate::load::{Kind, Load, PARTITIONS, judge, numbers};
use kavka_testkit::{Broker, Sandbox, Server, eventually, walk};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("random bytes");
    u64::from_le_bytes(bytes) % below
}

pub(crate) fn create_topic(sandbox: &Sandbox, broker: &Broker, topic: &str, more: &[&str]) {
    let (bootstrap, partitions) = (broker.bootstrap(), PARTITIONS.to_string());
    let mut arguments = vec!["--create", "--topic", topic, "--partitions", &partitions];
    arguments.extend(["--bootstrap-server", &bootstrap]);
    arguments.extend(more);
    sandbox.tool("kafka-topics", &arguments).success();
}

/// A broker that flushes often, and notes its recovery points often.
pub(crate) fn busy_broker(sandbox: &Sandbox) -> Broker {
    sandbox
        .broker()
        .with("log.initial.task.delay.ms", "0")
        .with("log.flush.offset.checkpoint.interval.ms", "100")
        .with("log.flush.interval.messages", "500")
}

/// `recovery-point-offset-checkpoint`: partition folder and offset.
fn recovery_points(data: &Path) -> BTreeMap<String, i64> {
    let file = data.join("recovery-point-offset-checkpoint");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let points = text.lines().skip(2).filter_map(|line| {
        let mut fields = line.split(' ');
        let (topic, partition, offset) = (fields.next()?, fields.next()?, fields.next()?);
        Some((format!("{topic}-{partition}"), offset.parse().ok()?))
    });
    points.collect()
}

/// Base offset and size of each segment of a partition.
fn segments(folder: &Path) -> BTreeMap<i64, u64> {
    let files = std::fs::read_dir(folder).expect("the partition's folder");
    let segments = files.filter_map(|file| {
        let file = file.ok()?;
        let base = file
            .file_name()
            .to_str()?
            .strip_suffix(".log")?
            .parse()
            .ok()?;
        Some((base, file.metadata().ok()?.len()))
    });
    segments.collect()
}

/// The number before `words`, as in `1 segments and 812 bytes checked`.
fn figure(report: &str, words: &str) -> u64 {
    let before = report
        .split(words)
        .next()
        .filter(|_| report.contains(words));
    let before = before.unwrap_or_else(|| panic!("no {words} in {report}"));
    let number = before.split_whitespace().next_back();
    number
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no number in {report}"))
}

/// What may be read on the next start, for each partition: the segment of its recovery point and what is behind it.
struct Bounds(BTreeMap<String, (u64, u64)>);

impl Bounds {
    fn of(data: &Path) -> Bounds {
        let points = recovery_points(data);
        let folders = std::fs::read_dir(data)
            .expect("the data")
            .filter_map(|folder| {
                let name = folder.ok()?.file_name().to_str()?.to_owned();
                (name.starts_with("exactly-") || name.starts_with("leader-")).then_some(name)
            });
        let bounds = folders.map(|name| {
            let segments = segments(&data.join(&name));
            let point = points.get(&name).copied().unwrap_or(0);
            let first = segments
                .range(..=point)
                .next_back()
                .map_or(0, |(base, _)| *base);
            let behind: u64 = segments.range(first..).map(|(_, size)| size).sum();
            (name, (behind, segments.values().sum()))
        });
        Bounds(bounds.collect())
    }

    /// Compares with what the broker says it has read. Returns how many partitions were spared something.
    fn check(&self, output: &str) -> usize {
        let mut spared = 0;
        for line in output.lines() {
            let Some(line) = line.split("Recovered ").nth(1) else {
                continue;
            };
            let (name, report) = line.split_once(": ").expect("a report");
            let Some((behind, all)) = self.0.get(name) else {
                continue;
            };
            let checked = figure(report, "bytes checked");
            assert!(
                checked <= *behind,
                "{name}: {behind} bytes at most, but {line}"
            );
            spared += usize::from(checked < *all);
        }
        spared
    }
}

#[test]
fn killed_twenty_times_under_load() {
    let sandbox = Sandbox::new();
    let broker = busy_broker(&sandbox);
    let mut server = broker.start(&sandbox);
    create_topic(&sandbox, &broker, "exactly", &[]);
    create_topic(&sandbox, &broker, "leader", &[]);
    let bootstrap = broker.bootstrap();
    let loads = [("exactly", Kind::Idempotent), ("leader", Kind::Leader)]
        .map(|(topic, kind)| (topic, kind, Load::start(&bootstrap, topic, kind, &[])));
    let mut spared = 0;
    for round in 0..20 {
        let goals = loads
            .each_ref()
            .map(|(_, _, load)| load.handed_over() + random(2_000));
        eventually("the load goes on", || {
            match loads
                .iter()
                .zip(goals)
                .find(|((_, _, load), goal)| load.handed_over() < *goal)
            {
                None => Ok(()),
                Some(((topic, _, load), goal)) => Err(format!(
                    "round {round}, {topic}: {} of {goal}\n{}",
                    load.handed_over(),
                    server.output()
                )),
            }
        });
        server.kill();
        let bounds = Bounds::of(&broker.data);
        server = broker.start(&sandbox);
        spared += bounds.check(&server.output());
    }
    assert!(
        spared > 0,
        "recovery points never spared anything: they are not written"
    );
    let produced = loads.map(|(topic, kind, load)| (topic, kind, load.finish()));
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    for (topic, kind, produced) in produced {
        assert_eq!(produced.failed, [], "{topic}");
        println!("{topic}: {} records", produced.handed_over);
        for partition in 0..i32::try_from(PARTITIONS).expect("few") {
            let walked = walk(&broker.data, topic, partition).expect("a valid log");
            judge(kind, partition, &produced, &numbers(&walked.records));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for file in std::fs::read_dir(from).expect("a folder") {
        let file = file.expect("a file").path();
        let target = to.join(file.file_name().expect("a name"));
        if file.is_dir() {
            copy(&file, &target);
        } else {
            std::fs::copy(&file, &target).expect("a copy");
        }
    }
}

/// A copy of the data, as it is on disk now.
pub(crate) fn copied(sandbox: &Sandbox, broker: &Broker, name: &str) -> PathBuf {
    let target = sandbox.path(name);
    copy(&broker.data, &target);
    target
}

/// Data that needs a recovery: written under load, then killed.
pub(crate) fn crashed(sandbox: &Sandbox, broker: &Broker, records: u64) {
    let server = broker.start(sandbox);
    create_topic(sandbox, broker, "exactly", &[]);
    let load = Load::start(&broker.bootstrap(), "exactly", Kind::Idempotent, &[]);
    eventually("the load goes on", || match load.handed_over() {
        enough if enough >= records => Ok(()),
        few => Err(format!("{few} of {records}")),
    });
    let produced = load.finish();
    assert_eq!(produced.failed, []);
    server.kill();
}

fn contents(data: &Path) -> Vec<Vec<(i64, String)>> {
    let partitions = 0..i32::try_from(PARTITIONS).expect("few");
    partitions
        .map(|partition| {
            walk(data, "exactly", partition)
                .expect("a valid log")
                .records
        })
        .collect()
}

#[test]
fn killed_again_and_again_while_it_recovers() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    crashed(&sandbox, &broker, 20_000);
    let before = contents(&copied(&sandbox, &broker, "before"));
    let points = recovery_points(&broker.data);
    // What a start says on its way, in this order; the recovery lies between.
    let moments = [
        "Cluster ID",
        "Becoming the active controller",
        "Recovered",
        "Awaiting socket",
    ];
    for round in 0..10 {
        let server = broker.launch(&sandbox);
        server.line(moments[round % moments.len()]);
        server.kill();
        for (name, point) in recovery_points(&broker.data) {
            let end = before.iter().map(Vec::len).max().unwrap_or(0);
            let known = points.get(&name).copied().unwrap_or(0);
            assert!(point >= known, "{name}: {point} after {known}");
            assert!(!name.starts_with("exactly-") || point <= i64::try_from(end).expect("few"));
        }
    }
    let server: Server = broker.start(&sandbox);
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    assert!(
        contents(&broker.data) == before,
        "the records are not those from before"
    );
}
