//! The files of a log's folder, and what an interrupted deletion, compaction or replacement left among them.
//! Not here: what the segments hold (open.rs).
//! Before anybody uses the log. Repeating it after a crash in its middle gives the same result.
//! Kafka: LogLoader.{removeTempFilesAndCollectSwapFiles, completeSwapOperations}.

use super::RecoveryReport;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::names;
use crate::scan::HeaderScanner;
use crate::segment::FileLengths;
use kavka_common::Offset;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a folder holds, by base offset.
pub(super) struct Listing {
    pub(super) segments: BTreeMap<Offset, FileLengths>,
    pub(super) snapshots: BTreeSet<Offset>,
}

/// Lists the folder, finishes or undoes what a crash interrupted, and removes what belongs to no segment.
pub(super) fn list(
    disk: &Disk,
    dir: &Path,
    report: &mut RecoveryReport,
) -> Result<Listing, StorageError> {
    finish_swaps(disk, dir, report)?;
    let mut segments: BTreeMap<Offset, FileLengths> = BTreeMap::new();
    let mut snapshots = BTreeSet::new();
    for entry in disk.list(dir)? {
        if entry.is_dir {
            continue;
        }
        let unfinished = [names::DELETED, names::CLEANED, names::TEMPORARY];
        if unfinished.iter().any(|suffix| entry.name.ends_with(suffix)) {
            disk.remove(&dir.join(&entry.name))?;
            report.left_overs_removed += 1;
            continue;
        }
        let Some((offset, suffix)) = names::parse_offset_file(&entry.name) else {
            continue;
        };
        match suffix {
            names::LOG => segments.entry(offset).or_default().log = Some(entry.length),
            names::INDEX => segments.entry(offset).or_default().offset_index = Some(entry.length),
            names::TIME_INDEX => {
                segments.entry(offset).or_default().time_index = Some(entry.length)
            }
            names::TXN_INDEX => segments.entry(offset).or_default().txn_index = Some(entry.length),
            names::PRODUCER_SNAPSHOT => {
                snapshots.insert(offset);
            }
            _ => {}
        }
    }
    // An index without its log is what an interrupted removal leaves.
    let orphans: Vec<Offset> = segments
        .iter()
        .filter(|(_, lengths)| lengths.log.is_none())
        .map(|(offset, _)| *offset)
        .collect();
    for offset in orphans {
        segments.remove(&offset);
        for suffix in [names::INDEX, names::TIME_INDEX, names::TXN_INDEX] {
            disk.remove(&dir.join(names::offset_file(offset, suffix)))?;
        }
        report.left_overs_removed += 1;
    }
    Ok(Listing {
        segments,
        snapshots,
    })
}

/// Compaction and splitting write `.cleaned` files, rename them to `.swap` once all are durable, then replace the
/// originals. A `.swap` behind a `.cleaned` belongs to a set that was not complete.
fn finish_swaps(disk: &Disk, dir: &Path, report: &mut RecoveryReport) -> Result<(), StorageError> {
    let entries = disk.list(dir)?;
    let offset_with = |suffix: &str| {
        let full = move |name: &str| {
            name.strip_suffix(suffix)
                .and_then(names::parse_offset_file)
                .map(|(offset, _)| offset)
        };
        entries
            .iter()
            .filter_map(move |entry| full(&entry.name).map(|offset| (offset, entry)))
            .collect::<Vec<_>>()
    };
    let cleaned_min = offset_with(names::CLEANED)
        .iter()
        .map(|(offset, _)| *offset)
        .min();
    let swaps = offset_with(names::SWAP);
    for (offset, swap) in &swaps {
        let path = dir.join(&swap.name);
        if cleaned_min.is_some_and(|cleaned_min| *offset >= cleaned_min) {
            disk.remove(&path)?;
            report.left_overs_removed += 1;
            continue;
        }
        if swap.name.ends_with(".log.swap") {
            let end = swap_end(disk, &path, *offset, swap.length)?;
            for original in &entries {
                let Some((base_offset, names::LOG)) = names::parse_offset_file(&original.name)
                else {
                    continue;
                };
                if base_offset > *offset && base_offset < end {
                    for suffix in [
                        names::LOG,
                        names::INDEX,
                        names::TIME_INDEX,
                        names::TXN_INDEX,
                    ] {
                        disk.remove(&dir.join(names::offset_file(base_offset, suffix)))?;
                    }
                    report.left_overs_removed += 1;
                }
            }
        }
    }
    for (_, swap) in &swaps {
        let path = dir.join(&swap.name);
        if disk.exists(&path)? {
            let target = swap.name.trim_end_matches(names::SWAP);
            disk.rename(&path, &dir.join(target))?;
            report.left_overs_removed += 1;
        }
    }
    Ok(())
}

/// The offset behind the last batch of a `.swap` file.
fn swap_end(
    disk: &Disk,
    path: &Path,
    base_offset: Offset,
    length: u64,
) -> Result<Offset, StorageError> {
    let length = u32::try_from(length)
        .map_err(|_| StorageError::corrupt(path, "larger than a segment can be"))?;
    let file = disk.open(path, crate::vfs::OpenMode::Read)?;
    let mut scanner = HeaderScanner::new(path, &*file, 0, length, base_offset);
    let mut end = base_offset;
    while let Some(batch) = scanner.next().map_err(|error| error.into_storage(path))? {
        end = batch.header.next_offset();
    }
    Ok(end)
}
