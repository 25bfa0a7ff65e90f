//! Reads a partition of a stopped broker from its files, as a broker would, and checks every byte of it.
//! Not here: repairing anything; opening is the same code as the broker's and cuts what a broker would cut.
//! Runs in the test's thread while no server holds the directory.

use kavka_common::TopicPartition;
use kavka_common::clock::{Clock, SystemClock};
use kavka_records::batches;
use kavka_storage::vfs::{RealVfs, Vfs};
use kavka_storage::{Log, LogConfig, LogDir, RecoveryReport};
use std::path::Path;
use std::sync::Arc;

const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;

/// What a partition holds.
#[derive(Debug)]
pub struct WalkedLog {
    /// Offset and value of each data record, in the order of the file.
    pub records: Vec<(i64, String)>,
    pub log_start_offset: i64,
    pub log_end_offset: i64,
    pub recovery_point: i64,
    pub clean_shutdown: bool,
    pub report: RecoveryReport,
}

/// Opens the partition and reads it from end to end: each CRC right, each offset there once, in order.
pub fn walk(data: &Path, topic: &str, partition: i32) -> Result<WalkedLog, String> {
    let words = |e: &dyn std::fmt::Display| format!("{topic}-{partition}: {e}");
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let dir = LogDir::open(Arc::clone(&vfs), data).map_err(|e| words(&e))?;
    let topic_partition = TopicPartition::new(topic, partition);
    let options = dir.open_options(&topic_partition, SystemClock::new().wall_ms());
    let recovery_point = options.recovery_point;
    let path = dir.log_path(&topic_partition);
    let (mut log, report) =
        Log::open(vfs, &path, LogConfig::default(), options).map_err(|e| words(&e))?;
    let end = log.log_end_offset();
    log.update_high_watermark(end);
    let mut next = log.log_start_offset();
    let mut records = Vec::new();
    while next < end {
        let found = log
            .read(next, 1 << 20, end, true)
            .map_err(|e| words(&format!("{e:?}")))?;
        let region = found
            .region
            .ok_or_else(|| words(&format!("nothing at {next}")))?;
        let bytes = region.read().map_err(|e| words(&e))?;
        let before = next;
        for batch in batches(&bytes).map_while(Result::ok) {
            batch.verify_crc().map_err(|e| words(&e))?;
            let header = batch.header();
            if header.base_offset != next {
                return Err(words(&format!(
                    "a batch at {} where {next} was expected",
                    header.base_offset
                )));
            }
            next = header.next_offset();
            if header.is_control() {
                continue;
            }
            for record in batch
                .records(DECOMPRESSED_BYTES_MAX)
                .map_err(|e| words(&e))?
            {
                let record = record.map_err(|e| words(&e))?;
                let value = record.value.unwrap_or_default();
                records.push((record.offset, String::from_utf8_lossy(&value).into_owned()));
            }
        }
        if next == before {
            return Err(words(&format!("no whole batch at {next}")));
        }
    }
    Ok(WalkedLog {
        records,
        log_start_offset: log.log_start_offset(),
        log_end_offset: end,
        recovery_point,
        clean_shutdown: dir.was_clean_shutdown(),
        report,
    })
}
