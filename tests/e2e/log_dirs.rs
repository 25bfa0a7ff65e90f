//! A broker with two log directories: one is taken away while it runs, stays away over a restart, and comes back.
//! Not here: a directory that is full (full_disk.rs), the last directory that fails (faults.rs).
//! Kafka: log_dir_failure_test.py; KIP-112, KIP-858, KAFKA-16234.

use crate::text;
use kavka_testkit::{Cluster, ClusterSpec, Sandbox, eventually};
use std::path::Path;

const TOPIC: &str = "two-dirs";
const PARTITIONS: i32 = 6;

fn partitions_in(dir: &Path) -> Vec<i32> {
    let lies_here = |partition: &i32| dir.join(format!("{TOPIC}-{partition}")).is_dir();
    (0..PARTITIONS).filter(lies_here).collect()
}

/// Waits until the partitions of `gone` are led and held by broker 2 alone, and the others by both.
#[track_caller]
fn await_offline(cluster: &Cluster<'_>, gone: &[i32]) {
    eventually("only these partitions are offline on broker 1", || {
        let views = cluster.describe_at(2, TOPIC)?;
        for view in &views {
            let is_gone = gone.contains(&view.partition);
            let expected: &[i32] = if is_gone { &[2] } else { &[1, 2] };
            if view.isr != expected || (is_gone && view.leader != 2) {
                return Err(format!("{views:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn a_directory_that_goes_takes_only_its_partitions_with_it() {
    let sandbox = Sandbox::new();
    let (stays, goes) = (sandbox.path("stays"), sandbox.path("goes"));
    let both = format!("{},{}", text(&stays), text(&goes));
    let spec = ClusterSpec::dedicated(1, 2)
        .impatient()
        .with_node(1, "log.dirs", &both);
    let mut cluster = Cluster::start(&sandbox, &spec);
    cluster.create_topic(TOPIC, PARTITIONS, 2);
    cluster.await_full_isr(TOPIC);
    let (kept, gone) = (partitions_in(&stays), partitions_in(&goes));
    assert_eq!((kept.len(), gone.len()), (3, 3), "spread evenly");

    let away = sandbox.path("away");
    std::fs::rename(&goes, &away).expect("the directory goes");
    await_offline(&cluster, &gone);
    assert!(cluster.nodes[&1].is_running(), "{}", cluster.last_words());

    // It starts without the directory, too, and makes nothing empty in its place.
    cluster.kill(1);
    std::fs::write(&goes, "no directory").expect("a file");
    cluster.start_node(1);
    await_offline(&cluster, &gone);
    assert_eq!(partitions_in(&stays), kept);

    assert_eq!(cluster.terminate(1).code(), Some(143));
    std::fs::remove_file(&goes).expect("the file");
    std::fs::rename(&away, &goes).expect("the directory is back");
    cluster.start_node(1);
    cluster.await_full_isr(TOPIC);
    assert_eq!(partitions_in(&goes), gone);
}

#[test]
fn without_the_directory_of_the_metadata_log_it_ends() {
    let sandbox = Sandbox::new();
    let (metadata, other) = (sandbox.path("metadata"), sandbox.path("other"));
    let broker = sandbox
        .broker()
        .with("log.dirs", format!("{},{}", text(&metadata), text(&other)))
        .with("metadata.log.dir", text(&metadata))
        .with("replica.high.watermark.checkpoint.interval.ms", "100");
    let server = broker.start(&sandbox);
    std::fs::rename(&metadata, sandbox.path("away")).expect("the directory goes");
    assert_eq!(server.ended().code(), Some(1), "{}", server.output());
    let said = server.output();
    assert!(said.contains("Halting: the metadata"), "{said}");
}
