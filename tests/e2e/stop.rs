//! SIGTERM under load: everything is closed in order, the marker of a clean stop comes last, and nothing needs recovery.
//! Not here: kill -9 (crash), the stop commands (walkthrough_*). Fault F06.
//! Kafka: KafkaRaftServer.shutdown; KIP-966.

use crate::crash::{busy_broker, create_topic};
use crate::load::{Kind, Load, PARTITIONS, judge, numbers};
use kavka_testkit::{Sandbox, eventually, walk};
use rustix::process::Signal;
use std::path::Path;
use std::time::SystemTime;

/// The newest change below a folder, apart from one file.
fn newest(folder: &Path, apart_from: &Path) -> Option<(SystemTime, String)> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries
        .filter_map(|entry| {
            let path = entry.expect("an entry").path();
            if path == apart_from {
                return None;
            }
            if path.is_dir() {
                return newest(&path, apart_from);
            }
            let changed = path.metadata().expect("a file").modified().expect("a time");
            Some((changed, path.display().to_string()))
        })
        .max()
}

#[test]
fn stopped_in_order_under_load() {
    let sandbox = Sandbox::new();
    let broker = busy_broker(&sandbox);
    let mut server = broker.start(&sandbox);
    create_topic(&sandbox, &broker, "exactly", &[]);
    let load = Load::start(&broker.bootstrap(), "exactly", Kind::Idempotent, &[]);
    for round in 0..3 {
        let goal = load.handed_over() + 3_000;
        eventually("the load goes on", || match load.handed_over() {
            enough if enough >= goal => Ok(()),
            few => Err(format!("{few} of {goal}")),
        });
        server.signal(Signal::TERM);
        // the second and third time while it stops
        server.line("shutting down");
        server.signal(Signal::TERM);
        server.signal(Signal::TERM);
        assert_eq!(server.ended().code(), Some(143), "{}", server.output());
        assert!(
            server.output().contains("shut down completed"),
            "{}",
            server.output()
        );

        let marker = broker.data.join(".kafka_cleanshutdown");
        let marked = marker
            .metadata()
            .unwrap_or_else(|e| panic!("round {round}: no marker: {e}\n{}", server.output()))
            .modified()
            .expect("a time");
        // The metadata log is the controller's, which outlives the broker it serves.
        let logs = std::fs::read_dir(&broker.data)
            .expect("the data")
            .filter_map(|entry| {
                let path = entry.expect("an entry").path();
                let name = path.file_name()?.to_str()?.to_owned();
                (path.is_dir() && name != "__cluster_metadata-0").then_some(path)
            });
        for log in logs {
            let (changed, file) = newest(&log, &marker).expect("files");
            assert!(
                changed <= marked,
                "{file} was changed after the marker was written"
            );
        }

        server = broker.start(&sandbox);
        let said = server.output();
        assert!(
            !said.contains("Recovered exactly"),
            "recovery after a clean stop:\n{said}"
        );
        assert!(!marker.exists(), "the marker outlives the start");
    }
    let produced = load.finish();
    assert_eq!(produced.failed, []);
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    for partition in 0..i32::try_from(PARTITIONS).expect("few") {
        let walked = walk(&broker.data, "exactly", partition).expect("a valid log");
        // opening the directory for the first of them takes the marker away
        assert_eq!(walked.clean_shutdown, partition == 0);
        assert_eq!(walked.recovery_point, walked.log_end_offset);
        let found = numbers(&walked.records);
        judge(Kind::Idempotent, partition, &produced, &found);
        assert_eq!(found, produced.acknowledged(partition));
    }
}
