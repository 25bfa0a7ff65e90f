//! A replica whose disk is full, or whose log ends in garbage: the others go on, and it becomes like them again.
//! Not here: the same to a broker alone (e2e/full_disk, e2e/damage), every write of a log (crates/storage).
//! Faults F33 and F38. F33 needs the right to mount a tmpfs. Kafka: LogDirFailureChannel, KAFKA-13773; LogSegment.recover.

use super::{Ordeal, TOPIC, rounds};
use kavka_testkit::{ClusterSpec, Sandbox, SmallDisk, eventually};
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

#[test]
fn a_replica_whose_disk_is_full_leaves_and_comes_back() {
    let sandbox = Sandbox::new();
    let small = sandbox.path("node-3");
    let _disk = match SmallDisk::mount(&small, 64) {
        Ok(disk) => disk,
        Err(why) => {
            println!("left out: no tmpfs can be mounted here: {}", why.trim());
            return;
        }
    };
    // The metadata has room; only the records' directory runs full.
    let spec = ClusterSpec::dedicated(1, 3)
        .impatient()
        .with("log.segment.bytes", "4194304");
    let ordeal = Ordeal::begin(&sandbox, "a_replica_whose_disk_is_full", &spec);
    let ballast = small.join("ballast");
    let mut file = std::fs::File::create(&ballast).expect("a file");
    let block = vec![0; 1 << 16];
    while file.write_all(&block).is_ok() {}
    let words = format!("{}: node 3 follows nobody any more", ordeal.context);
    eventually(&words, || {
        let view = ordeal.cluster.describe(TOPIC)?;
        match view.iter().find(|p| p.leader != 3 && p.isr.contains(&3)) {
            None => Ok(()),
            Some(p) => Err(format!("{p:?}")),
        }
    });
    ordeal.tell("node 3 follows nobody any more");
    // What it leads is refused, and goes on when there is room; nothing has to be started again.
    drop(file);
    std::fs::remove_file(&ballast).expect("the ballast");
    ordeal.in_sync();
    ordeal.go_on(100);
    ordeal.end(200);
}

fn last_segment(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("the partition's folder");
    files
        .map(|file| file.expect("a file").path())
        .filter(|file| file.extension().is_some_and(|e| e == "log"))
        .max()
        .expect("a segment")
}

#[test]
fn a_torn_end_is_cut_and_fetched_again() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::dedicated(1, 3)
        .impatient()
        .with("log.flush.offset.checkpoint.interval.ms", "600000");
    let mut ordeal = Ordeal::begin(&sandbox, "a_torn_end_is_cut", &spec);
    for _ in 0..rounds(2, 12) {
        let victim = ordeal.leader_of(0);
        ordeal.cluster.kill(victim);
        let data = ordeal.cluster.nodes[&victim].data.clone();
        for partition in 0..super::PARTITIONS {
            let file = last_segment(&data.join(format!("{TOPIC}-{partition}")));
            let length = std::fs::metadata(&file).expect("a segment").len();
            let mut open = OpenOptions::new()
                .write(true)
                .open(&file)
                .expect("a segment");
            match ordeal.seed.below(3) {
                0 => {
                    let by = ordeal.seed.between(1, 200).min(length);
                    open.set_len(length - by).expect("a length");
                }
                1 => {
                    let zeros =
                        vec![0; usize::try_from(ordeal.seed.between(1, 5_000)).expect("small")];
                    open.seek(SeekFrom::End(0)).expect("the end");
                    open.write_all(&zeros).expect("more bytes");
                }
                _ => {
                    open.seek(SeekFrom::End(0)).expect("the end");
                    open.write_all(b"\0\0\0\0\0\0\0\x07\0\0\0\x40 half a batch")
                        .expect("more bytes");
                }
            }
        }
        ordeal.await_leaders_without(victim);
        ordeal.go_on(50);
        ordeal.cluster.start_node(victim);
        ordeal.in_sync();
    }
    ordeal.end(150);
}
