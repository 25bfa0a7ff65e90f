//! Whether the replicas of a partition hold the same bytes, once their brokers are stopped.
//! Not here: what the records say (log_walk).
//! Runs in the test's thread. Kafka: kafka-replica-verification, on files; invariant R1 of faults.md §5.

use std::path::{Path, PathBuf};

/// All segments of a partition, one after the other: where one ends and the next begins may differ.
fn bytes(folder: &Path) -> Result<Vec<u8>, String> {
    let files = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut segments: Vec<PathBuf> = files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .collect();
    segments.sort();
    let mut all = Vec::new();
    for segment in segments {
        all.extend(std::fs::read(&segment).map_err(|e| format!("{}: {e}", segment.display()))?);
    }
    Ok(all)
}

/// Panics unless the partition is the same, byte for byte, in every data directory.
#[track_caller]
pub fn expect_identical(directories: &[PathBuf], topic: &str, partition: i32, context: &str) {
    let folder = format!("{topic}-{partition}");
    let contents: Vec<(&PathBuf, Vec<u8>)> = directories
        .iter()
        .map(|directory| {
            let bytes =
                bytes(&directory.join(&folder)).unwrap_or_else(|e| panic!("{context}: {e}"));
            (directory, bytes)
        })
        .collect();
    let (first, expected) = contents.first().expect("a replica");
    assert!(!expected.is_empty(), "{context}: {folder} is empty");
    for (directory, found) in &contents[1..] {
        let same = expected
            .iter()
            .zip(found)
            .take_while(|(a, b)| a == b)
            .count();
        assert!(
            found == expected,
            "{context}: {folder} differs from byte {same} on: {} bytes in {}, {} in {}",
            expected.len(),
            first.display(),
            found.len(),
            directory.display()
        );
    }
}
