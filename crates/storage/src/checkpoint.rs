//! Kafka's checkpoint files: a version line, a count line, then one entry per line.
//! Not here: when they are written; what recovery concludes from them.
//! Whoever owns the directory or the log; written as a whole through a temporary file.
//! Kafka: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile.

use crate::error::StorageError;
use crate::vfs::{Durability, Vfs, read_file, replace_file};
use kavka_common::{LeaderEpoch, Offset, TopicPartition};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

const VERSION: &str = "0";
/// A checkpoint holds one short line per partition or epoch.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A leader epoch and the offset of its first batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: LeaderEpoch,
    pub start_offset: Offset,
}

/// The lines of a checkpoint, or `None` when the file is absent.
fn read_lines<T>(
    vfs: &dyn Vfs,
    path: &Path,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<Vec<T>>, StorageError> {
    let content = match read_file(vfs, path, FILE_BYTES_MAX) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StorageError::io("read", path, error)),
    };
    let text =
        std::str::from_utf8(&content).map_err(|_| StorageError::corrupt(path, "not UTF-8"))?;
    // The last line may be cut in the middle of a number and still look like one.
    if !text.ends_with('\n') {
        return Err(StorageError::corrupt(path, "the last line is not complete"));
    }
    let mut lines = text.lines();
    match lines.next() {
        Some(VERSION) => {}
        other => {
            return Err(StorageError::corrupt(
                path,
                format!("expected version {VERSION}, found {other:?}"),
            ));
        }
    }
    let count: usize = lines
        .next()
        .and_then(|line| line.parse().ok())
        .ok_or_else(|| StorageError::corrupt(path, "no number of entries in the second line"))?;
    let mut entries = Vec::new();
    for line in lines {
        let entry = parse(line)
            .ok_or_else(|| StorageError::corrupt(path, format!("malformed line '{line}'")))?;
        entries.push(entry);
    }
    if entries.len() != count {
        return Err(StorageError::corrupt(
            path,
            format!("expected {count} entries, found {}", entries.len()),
        ));
    }
    Ok(Some(entries))
}

/// Reads `topic partition offset` lines; an absent file is empty.
pub fn read_offsets(
    vfs: &dyn Vfs,
    path: &Path,
) -> Result<BTreeMap<TopicPartition, Offset>, StorageError> {
    let entries = read_lines(vfs, path, |line| {
        let mut words = line.split_whitespace();
        let topic = words.next()?;
        let partition: i32 = words.next()?.parse().ok()?;
        let offset: Offset = words.next()?.parse().ok()?;
        (words.next().is_none() && partition >= 0)
            .then(|| (TopicPartition::new(topic, partition), offset))
    })?;
    Ok(entries.unwrap_or_default().into_iter().collect())
}

/// Writes `topic partition offset` lines, durably.
pub fn write_offsets<'a>(
    vfs: &dyn Vfs,
    path: &Path,
    offsets: impl IntoIterator<Item = (&'a TopicPartition, Offset)>,
) -> io::Result<()> {
    let mut lines = String::new();
    let mut count = 0usize;
    for (topic_partition, offset) in offsets {
        lines.push_str(&format!(
            "{} {} {offset}\n",
            topic_partition.topic, topic_partition.partition
        ));
        count += 1;
    }
    let content = format!("{VERSION}\n{count}\n{lines}");
    replace_file(vfs, path, content.as_bytes(), Durability::Synced)
}

/// Reads `epoch startOffset` lines, which grow in both; `None` when the file is absent.
pub fn read_epochs(vfs: &dyn Vfs, path: &Path) -> Result<Option<Vec<EpochStart>>, StorageError> {
    let entries = read_lines(vfs, path, |line| {
        let (epoch, start_offset) = line.split_once(' ')?;
        let entry = EpochStart {
            epoch: LeaderEpoch(epoch.parse().ok()?),
            start_offset: start_offset.parse().ok()?,
        };
        (entry.epoch.get() >= 0 && entry.start_offset >= 0).then_some(entry)
    })?;
    let grow = |pair: &[EpochStart]| {
        pair[0].epoch < pair[1].epoch && pair[0].start_offset < pair[1].start_offset
    };
    if entries
        .as_ref()
        .is_some_and(|entries| !entries.windows(2).all(grow))
    {
        return Err(StorageError::corrupt(path, "epochs or offsets do not grow"));
    }
    Ok(entries)
}

/// Writes `epoch startOffset` lines.
pub fn write_epochs(
    vfs: &dyn Vfs,
    path: &Path,
    epochs: &[EpochStart],
    durability: Durability,
) -> io::Result<()> {
    let mut content = format!("{VERSION}\n{}\n", epochs.len());
    for entry in epochs {
        content.push_str(&format!("{} {}\n", entry.epoch, entry.start_offset));
    }
    replace_file(vfs, path, content.as_bytes(), durability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::RealVfs;

    #[test]
    fn offsets_are_kafkas_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recovery-point-offset-checkpoint");
        assert!(read_offsets(&RealVfs, &path).unwrap().is_empty());
        let a = TopicPartition::new("a", 0);
        let b = TopicPartition::new("b.c-d", 12);
        write_offsets(&RealVfs, &path, [(&a, 7), (&b, 0)]).unwrap();
        assert_eq!(
            read_file(&RealVfs, &path, 100).unwrap(),
            b"0\n2\na 0 7\nb.c-d 12 0\n"
        );
        assert_eq!(
            read_offsets(&RealVfs, &path).unwrap(),
            BTreeMap::from([(a, 7), (b, 0)])
        );
    }

    #[test]
    fn a_malformed_checkpoint_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("leader-epoch-checkpoint");
        for bad in [
            "",
            "1\n0\n",
            "0\n",
            "0\n2\n1 2\n",
            "0\n1\n1\n",
            "0\n1\n-1 2\n",
            "0\n0\n1 2\n",
            "0\n1\n1 2",
            "0\n2\n1 20\n2 3\n",
        ] {
            replace_file(&RealVfs, &path, bad.as_bytes(), Durability::PageCache).unwrap();
            let error = read_epochs(&RealVfs, &path).unwrap_err().to_string();
            assert!(error.contains("leader-epoch-checkpoint"), "{error}");
        }
        let epochs = [EpochStart {
            epoch: LeaderEpoch(3),
            start_offset: 10,
        }];
        write_epochs(&RealVfs, &path, &epochs, Durability::Synced).unwrap();
        assert_eq!(read_epochs(&RealVfs, &path).unwrap().unwrap(), epochs);
    }
}
