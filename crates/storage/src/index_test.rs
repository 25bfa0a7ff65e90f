//! Tests of the sparse indexes: lookup equals a linear scan, file and memory agree, zeros at the end are cut.
//! Not here: which batches get entries. Run by `cargo test`. Kafka: OffsetIndexTest, TimeIndexTest.

use super::*;
use crate::error::FailureLatch;
use crate::vfs::{RealVfs, read_file};
use proptest::prelude::*;

fn disk(dir: &Path) -> Disk {
    Disk {
        vfs: Arc::new(RealVfs),
        latch: FailureLatch::new(dir),
    }
}

#[test]
fn entries_have_kafkas_layout() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    let mut offsets = Index::create(dir.path().join("i"), 100);
    offsets.push(OffsetPosition {
        offset: 101,
        position: 7,
    });
    offsets.push(OffsetPosition {
        offset: 300,
        position: 0x8000_0000,
    });
    offsets.write_out(&disk).unwrap();
    assert_eq!(
        read_file(&RealVfs, &dir.path().join("i"), 100).unwrap(),
        [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 200, 0x80, 0, 0, 0]
    );
    let mut times = Index::create(dir.path().join("t"), 100);
    times.push(TimestampOffset {
        timestamp: 258,
        offset: 101,
    });
    times.write_out(&disk).unwrap();
    assert_eq!(
        read_file(&RealVfs, &dir.path().join("t"), 100).unwrap(),
        [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1]
    );
}

#[test]
fn preallocated_zeros_are_cut_on_load() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path());
    let path = dir.path().join("i");
    let mut index = Index::create(path.clone(), 0);
    index.push(OffsetPosition {
        offset: 9,
        position: 50,
    });
    index.write_out(&disk).unwrap();
    let file = disk.open(&path, OpenMode::Write).unwrap();
    file.set_len(800).unwrap();
    let mut index: Index<OffsetPosition> = Index::sealed(path.clone(), 0, 800).unwrap();
    index.load(&disk).unwrap();
    assert_eq!(index.len(), 1);
    assert_eq!(file.len().unwrap(), 8);
    assert!(Index::<OffsetPosition>::sealed(path, 0, 801).is_none());
}

proptest! {
    #[test]
    fn floor_equals_a_linear_scan(steps in proptest::collection::vec(1i64..50, 0..80), keys in proptest::collection::vec(0i64..2500, 1..40), cut in 0i64..2500) {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk(dir.path());
        let mut index = Index::create(dir.path().join("i"), 0);
        let mut model = Vec::new();
        let mut offset = 0;
        for (at, step) in steps.iter().enumerate() {
            offset += step;
            let entry = OffsetPosition { offset, position: at as u32 };
            index.push(entry);
            model.push(entry);
            if at % 7 == 0 {
                index.write_out(&disk).unwrap();
            }
        }
        index.truncate(&disk, |entry| entry.offset < cut).unwrap();
        model.retain(|entry| entry.offset < cut);
        let linear = |key| model.iter().rev().find(|entry| entry.offset <= key).copied();
        for &key in &keys {
            prop_assert_eq!(index.floor(&disk, key).unwrap(), linear(key));
        }
        index.seal(&disk).unwrap();
        for &key in &keys {
            prop_assert_eq!(index.floor(&disk, key).unwrap(), linear(key));
        }
        index.load(&disk).unwrap();
        prop_assert_eq!(index.len(), model.len());
        prop_assert_eq!(index.last(&disk).unwrap(), model.last().copied());
    }
}
