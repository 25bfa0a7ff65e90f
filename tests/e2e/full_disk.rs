//! A log directory that runs full: its writes are refused, other directories go on, and it is valid when there is room.
//! Not here: every write of a log on a full disk (crates/storage has that). Needs the right to mount a tmpfs.
//! Fault F33. Kafka: LogDirFailureChannel; KIP-112; KAFKA-13773.

use crate::load::{Kind, Load, PARTITIONS, judge, numbers};
use crate::{produce, read_partition, text};
use kavka_testkit::{Sandbox, SmallDisk, eventually, walk};
use std::path::Path;

#[test]
fn a_full_directory_is_refused_and_recovers_when_there_is_room() {
    let sandbox = Sandbox::new();
    let small = sandbox.path("small");
    let _disk = match SmallDisk::mount(&small, 64) {
        Ok(disk) => disk,
        Err(why) => {
            println!("left out: no tmpfs can be mounted here: {}", why.trim());
            return;
        }
    };
    let roomy = sandbox.path("roomy");
    let broker = sandbox
        .broker()
        .with("log.dirs", format!("{},{}", text(&roomy), text(&small)))
        .with("metadata.log.dir", text(&roomy))
        .with("log.segment.bytes", "16777216");
    let server = broker.start(&sandbox);
    let bootstrap = broker.bootstrap();
    // New logs go to the directory with the fewest; topics are made until one of them lies as a whole in the small one.
    let create = |topic: &str, partition_count: &str| {
        sandbox
            .tool(
                "kafka-topics",
                &[
                    "--create",
                    "--topic",
                    topic,
                    "--partitions",
                    partition_count,
                    "--bootstrap-server",
                    &bootstrap,
                ],
            )
            .success()
    };
    create("a", "1");
    create("b", "1");
    let lies_in = |dir: &Path, topic: &str| dir.join(format!("{topic}-0")).is_dir();
    let (full, other) = match lies_in(&small, "a") {
        true => ("a", "b"),
        false => ("b", "a"),
    };
    assert!(
        lies_in(&small, full) && lies_in(&roomy, other),
        "one topic in each directory"
    );
    create("load", &PARTITIONS.to_string());
    let in_small: Vec<i32> = (0..i32::try_from(PARTITIONS).expect("few"))
        .filter(|partition| small.join(format!("load-{partition}")).is_dir())
        .collect();
    assert!(
        !in_small.is_empty(),
        "a partition of the load in the small directory"
    );

    produce(&sandbox, &bootstrap, full, "before\n");
    produce(&sandbox, &bootstrap, other, "before\n");
    let load = Load::start(
        &bootstrap,
        "load",
        Kind::Idempotent,
        &[
            ("delivery.timeout.ms", "4000"),
            ("request.timeout.ms", "2000"),
            ("max.block.ms", "4000"),
        ],
    );
    eventually("the load goes on", || match load.handed_over() {
        enough if enough > 1_000 => Ok(()),
        few => Err(few.to_string()),
    });
    // Something else takes all the room that is left.
    let ballast = small.join("ballast");
    let mut file = std::fs::File::create(&ballast).expect("a file");
    let block = vec![0; 1 << 16];
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    eventually("something is refused", || match load.refused() {
        0 => Err(server.output()),
        some => Ok(some),
    });

    // The other directory serves on.
    produce(&sandbox, &bootstrap, other, "while the other is full\n");
    let read = read_partition(&sandbox, &bootstrap, other, 2);
    assert_eq!(read, "before\nwhile the other is full\n");
    let produced = load.finish();
    assert!(!produced.failed.is_empty(), "nothing was refused");
    let said = server.output();
    let words = format!("no space left for {}", text(&small));
    assert!(said.contains(&words), "{said}");
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());

    // Room again.
    drop(file);
    std::fs::remove_file(&ballast).expect("the ballast");
    let server = broker.start(&sandbox);
    produce(&sandbox, &bootstrap, full, "after\n");
    assert_eq!(
        read_partition(&sandbox, &bootstrap, full, 2),
        "before\nafter\n"
    );
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    for partition in 0..i32::try_from(PARTITIONS).expect("few") {
        let data = if in_small.contains(&partition) {
            &small
        } else {
            &roomy
        };
        let walked = walk(data, "load", partition).expect("a valid log");
        judge(
            Kind::Idempotent,
            partition,
            &produced,
            &numbers(&walked.records),
        );
    }
}
