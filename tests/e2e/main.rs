//! End to end: our built programs as real processes, started through `bin/` with the files of `config/`.
//! Not here: other people's clients (tests/interop), what one crate can test alone.
//! Every test has folders and ports of its own, so that they run side by side. scripts/test builds the programs first.

// Tests of processes and files: the seams are for the programs under test.
#![allow(clippy::disallowed_methods)]

mod bad_starts;
mod cluster;
#[cfg(feature = "rdkafka")]
mod crash;
#[cfg(feature = "rdkafka")]
mod damage;
mod faults;
#[cfg(feature = "rdkafka")]
mod full_disk;
mod joining;
#[cfg(feature = "rdkafka")]
mod load;
mod log_dirs;
#[cfg(feature = "rdkafka")]
mod output;
mod quorum;
#[cfg(feature = "rdkafka")]
mod replication;
#[cfg(feature = "rdkafka")]
mod stop;
mod voters;
#[cfg(feature = "rdkafka")]
mod walkthrough_cluster;
#[cfg(feature = "rdkafka")]
mod walkthrough_kraft;
#[cfg(feature = "rdkafka")]
mod walkthrough_places;
#[cfg(feature = "rdkafka")]
mod walkthrough_zookeeper;
mod wire_faults;

#[cfg(feature = "rdkafka")]
use kavka_testkit::Sandbox;
use std::path::Path;

/// A temporary file's or folder's name as an argument.
fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[cfg(feature = "rdkafka")]
/// Lines, sorted: for the records of a topic with several partitions.
fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Sends lines with kafka-console-producer.
#[cfg(feature = "rdkafka")]
#[track_caller]
fn produce(sandbox: &Sandbox, bootstrap: &str, topic: &str, lines: &str) {
    sandbox
        .tool_with_input(
            "kafka-console-producer",
            &["--bootstrap-server", bootstrap, "--topic", topic],
            lines,
        )
        .success();
}

/// Reads a topic from its beginning with kafka-console-consumer, until it has `count` records.
#[cfg(feature = "rdkafka")]
#[track_caller]
fn consume(sandbox: &Sandbox, bootstrap: &str, topic: &str, count: usize) -> String {
    let count = count.to_string();
    sandbox
        .tool(
            "kafka-console-consumer",
            &[
                "--bootstrap-server",
                bootstrap,
                "--topic",
                topic,
                "--from-beginning",
                "--max-messages",
                &count,
                "--timeout-ms",
                "30000",
            ],
        )
        .success()
}

/// Reads the beginning of a partition without a group, which would need `__consumer_offsets`.
#[cfg(feature = "rdkafka")]
#[track_caller]
fn read_partition(sandbox: &Sandbox, bootstrap: &str, topic: &str, count: usize) -> String {
    let count = count.to_string();
    sandbox
        .tool(
            "kafka-console-consumer",
            &[
                "--bootstrap-server",
                bootstrap,
                "--topic",
                topic,
                "--partition",
                "0",
                "--offset",
                "earliest",
                "--max-messages",
                &count,
                "--timeout-ms",
                "30000",
            ],
        )
        .success()
}
