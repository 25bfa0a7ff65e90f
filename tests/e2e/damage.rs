//! A torn or soiled end of a log after a crash: it is cut to the last valid batch, and the log goes on from there.
//! Not here: every byte of it (crates/storage has that), bit rot below the recovery point.
//! Fault F38. Kafka: LogSegment.recover.

use crate::crash::{copied, crashed};
use crate::{consume, produce, read_partition};
use kavka_testkit::{Broker, Sandbox, walk};
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

fn last_segment(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("the partition's folder");
    files
        .map(|file| file.expect("a file").path())
        .filter(|file| file.extension().is_some_and(|e| e == "log"))
        .max()
        .expect("a segment")
}

enum Damage {
    Shortened(u64),
    Appended(Vec<u8>),
    /// The last batch again, without its last bytes.
    HalfABatch,
    /// One bit in the middle of the last batch.
    Flipped,
}

/// Position of the last batch of a file.
fn last_batch(bytes: &[u8]) -> usize {
    let (mut at, mut last) = (0, 0);
    while at < bytes.len() {
        last = at;
        let length = bytes[at + 8..at + 12].try_into().expect("four bytes");
        at += 12 + usize::try_from(i32::from_be_bytes(length)).expect("a length");
    }
    last
}

impl Damage {
    fn apply(&self, file: &Path) {
        let bytes = std::fs::read(file).expect("a segment");
        let last = last_batch(&bytes);
        let mut open = OpenOptions::new()
            .write(true)
            .open(file)
            .expect("a segment");
        match self {
            Damage::Shortened(by) => {
                open.set_len(bytes.len() as u64 - by).expect("a length");
            }
            Damage::Appended(more) => {
                open.seek(SeekFrom::End(0)).expect("the end");
                open.write_all(more).expect("more bytes");
            }
            Damage::HalfABatch => {
                open.seek(SeekFrom::End(0)).expect("the end");
                open.write_all(&bytes[last..bytes.len() - 3])
                    .expect("more bytes");
            }
            Damage::Flipped => {
                let at = (last + bytes.len()) / 2;
                open.seek(SeekFrom::Start(at as u64)).expect("a position");
                open.write_all(&[bytes[at] ^ 1]).expect("one byte");
            }
        }
    }

    /// Whether records that were whole before are gone.
    fn loses(&self) -> bool {
        matches!(self, Damage::Shortened(_) | Damage::Flipped)
    }
}

#[test]
fn a_damaged_end_is_cut_to_the_last_valid_batch() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    crashed(&sandbox, &broker, 2_000);
    let whole = walk(&copied(&sandbox, &broker, "whole"), "exactly", 0).expect("a valid log");
    let cases = [
        ("one byte short", Damage::Shortened(1)),
        ("no header left", Damage::Shortened(90)),
        ("zeros", Damage::Appended(vec![0; 4096])),
        (
            "garbage",
            Damage::Appended((0..=255).cycle().skip(7).take(5000).collect()),
        ),
        ("one byte more", Damage::Appended(vec![1])),
        ("half a batch", Damage::HalfABatch),
        ("a flipped bit", Damage::Flipped),
    ];
    for (name, damage) in cases {
        let data = copied(&sandbox, &broker, name);
        damage.apply(&last_segment(&data.join("exactly-0")));
        let damaged = Broker {
            data: data.clone(),
            ..broker.clone()
        }
        .with("log.dirs", data.display().to_string());
        let server = damaged.start(&sandbox);
        let report = server.line("Recovered exactly-0");
        assert!(!report.contains("bytes_cut: 0,"), "{name}: {report}");
        // it is served, and goes on
        produce(
            &sandbox,
            &damaged.bootstrap(),
            "exactly",
            "0 afterwards\n1 afterwards\n2 afterwards\n",
        );
        let expected = read_partition(&sandbox, &damaged.bootstrap(), "exactly", 3);
        assert_eq!(expected.lines().count(), 3, "{name}");
        assert_eq!(
            server.terminate().code(),
            Some(143),
            "{name}: {}",
            server.output()
        );

        let walked = walk(&data, "exactly", 0).unwrap_or_else(|e| panic!("{name}: {e}"));
        let is_new = |(_, value): &&(i64, String)| value.ends_with("afterwards");
        let old: Vec<_> = walked
            .records
            .iter()
            .filter(|r| !is_new(r))
            .cloned()
            .collect();
        assert!(whole.records.starts_with(&old), "{name}: not a prefix");
        assert_eq!(old.len() < whole.records.len(), damage.loses(), "{name}");
        if damage.loses() {
            // no more than the damaged batch is gone
            assert!(
                old.len() * 10 > whole.records.len() * 9 || whole.records.len() - old.len() < 1000,
                "{name}"
            );
        }
    }
    // the original is untouched by all this, and whole
    let server = broker.start(&sandbox);
    let read = consume(&sandbox, &broker.bootstrap(), "exactly", 2_000);
    assert_eq!(read.lines().count(), 2_000);
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
}
