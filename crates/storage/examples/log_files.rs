//! Writes a log folder for Apache's dump tool to judge, or opens one that Apache wrote and walks all of it.
//! Not here: the judgement (run `kafka-dump-log` on the files; scripts/interop does). Kafka: DumpLogSegments.
//!
//! `log_files write FOLDER` · `log_files read DATA_DIR TOPIC-PARTITION...` · `log_files open DATA_DIR` (opens all, and
//! says how long that took)

#![allow(clippy::disallowed_methods)] // a development tool: it may name its arguments and print

use kavka_common::{LeaderEpoch, TopicPartition};
use kavka_records::batches;
use kavka_storage::testing::batches::{batch, marker, producer_batch, txn_batch};
use kavka_storage::vfs::{RealVfs, Vfs};
use kavka_storage::{AppendOrigin, Log, LogConfig, LogDir, OpenOptions};
use std::path::Path;
use std::sync::Arc;

const NOW_MS: i64 = 1_796_128_313_000;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => write(Path::new(folder)),
        ["read", data_dir, ref logs @ ..] => read(Path::new(data_dir), logs),
        ["open", data_dir] => open(Path::new(data_dir)),
        _ => Err("use: log_files write FOLDER | log_files read DATA_DIR TOPIC-PARTITION... | log_files open DATA_DIR".into()),
    }
}

fn write(folder: &Path) -> Outcome {
    let config = LogConfig {
        segment_bytes: 64 << 10,
        index_interval_bytes: 1024,
        ..LogConfig::default()
    };
    let (mut log, _) = Log::open(Arc::new(RealVfs), folder, config, OpenOptions::new(NOW_MS))?;
    let mut sequence = 0;
    let mut txn_sequence = 0;
    for round in 0..200i64 {
        let epoch = LeaderEpoch((round / 50) as i32);
        let now_ms = NOW_MS + round * 10;
        log.append_as_leader(&batch(5, now_ms, 100), epoch, AppendOrigin::Client, now_ms)?;
        let idempotent = producer_batch(1001, 2, sequence, 3, now_ms - 3);
        log.append_as_leader(&idempotent, epoch, AppendOrigin::Client, now_ms)?;
        sequence += 3;
        log.append_as_leader(
            &txn_batch(2002, 0, txn_sequence, 2, now_ms),
            epoch,
            AppendOrigin::Client,
            now_ms,
        )?;
        txn_sequence += 2;
        if round % 4 == 3 {
            let end = marker(2002, 0, 7, round % 8 == 3, now_ms);
            log.append_as_leader(&end, epoch, AppendOrigin::Coordinator, now_ms)?;
        }
    }
    println!(
        "{} offsets in {} segments, {} bytes",
        log.log_end_offset(),
        log.segment_count(),
        log.size_bytes()
    );
    log.close()?;
    Ok(())
}

fn read(data_dir: &Path, logs: &[&str]) -> Outcome {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let dir = LogDir::open(vfs.clone(), data_dir)?;
    println!(
        "{:?} clean={} broker epoch={:?} logs={:?}",
        dir.meta(),
        dir.was_clean_shutdown(),
        dir.previous_broker_epoch(),
        dir.logs()
    );
    for name in logs {
        let (topic, partition) = name.rsplit_once('-').ok_or("not TOPIC-PARTITION")?;
        let topic_partition = TopicPartition::new(topic, partition.parse()?);
        let options = dir.open_options(&topic_partition, NOW_MS);
        let topic_id = kavka_storage::meta_properties::read_partition_metadata(
            &*vfs,
            &dir.log_path(&topic_partition),
        )?;
        let (mut log, report) = Log::open(
            vfs.clone(),
            &dir.log_path(&topic_partition),
            LogConfig::default(),
            options,
        )?;
        let end = log.log_end_offset();
        log.update_high_watermark(end);
        let (mut next, mut count, mut bytes) = (log.log_start_offset(), 0u64, 0u64);
        while next < end {
            let region = log.read(next, 1 << 20, end, true)?.region.ok_or("a hole")?;
            for batch in batches(&region.read()?).map_while(Result::ok) {
                batch.verify_crc()?;
                count += 1;
                bytes += batch.header().size_bytes() as u64;
                next = batch.header().next_offset();
            }
        }
        println!(
            "{name} {topic_id:?}: [{}, {end}) in {} segments, {count} batches, {bytes} of {} bytes",
            log.log_start_offset(),
            log.segment_count(),
            log.size_bytes()
        );
        println!("  {report:?}");
        println!(
            "  stable {} aborted {} epochs {:?}",
            log.last_stable_offset(),
            log.aborted_transactions(0, end)?.len(),
            log.leader_epochs().entries()
        );
        println!("  greatest timestamp at {:?}", log.max_timestamp_offset()?);
        for producer in log.active_producers(NOW_MS) {
            println!("  {producer:?}");
        }
        log.close()?;
    }
    dir.mark_clean_shutdown(None)?;
    Ok(())
}

fn open(data_dir: &Path) -> Outcome {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let started = std::time::Instant::now();
    let dir = LogDir::open(vfs.clone(), data_dir)?;
    let mut logs = Vec::new();
    for topic_partition in dir.logs() {
        let options = dir.open_options(topic_partition, NOW_MS);
        logs.push(Log::open(
            vfs.clone(),
            &dir.log_path(topic_partition),
            LogConfig::default(),
            options,
        )?);
    }
    let checked: u64 = logs.iter().map(|(_, report)| report.bytes_checked).sum();
    println!(
        "{} logs in {:?}, clean={}, {checked} bytes checked",
        logs.len(),
        started.elapsed(),
        dir.was_clean_shutdown()
    );
    Ok(())
}
