//! A log on a simulated disk: a crash at every mutating step, with unsynced data lost, torn or kept; full and failing disks.
//! Not here: what recovery does with damage that no crash makes (damage_test.rs). Run by `cargo test`; a failure prints
//! seed, step and loss. Invariants: L1, L2, L4, L5, L6, L7, L9 of the log.

use super::*;
use crate::producer_state::AppendOrigin;
use crate::testing::batches::{marker, producer_batch, txn_batch};
use crate::testing::{Loss, Seeded, SimVfs};
use kavka_records::{BatchHeader, batches};
use std::collections::BTreeMap;
use std::io;

const DIR: &str = "/data/t-0";
const NOW_MS: i64 = 1_000_000;

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 120,
        segment_index_bytes: 4096,
        retention_ms: -1,
        file_delete_delay_ms: 0,
        producer_id_expiration_ms: i64::MAX,
        ..LogConfig::default()
    }
}

/// What the log should hold, and what of it must survive.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Accepted batches: offset of the first record, offset after the last one, CRC.
    batches: Vec<(Offset, Offset, u32)>,
    log_start: Offset,
    /// What `recovery-point-offset-checkpoint` and `log-start-offset-checkpoint` say.
    stored_recovery_point: Offset,
    stored_log_start: Offset,
    /// Offsets below are durable.
    durable: Offset,
    /// A truncation that may or may not have happened when the machine stopped.
    truncating: Option<Offset>,
}

fn open_with(
    vfs: &SimVfs,
    model: &Model,
    clean_shutdown: bool,
) -> Result<(Log, RecoveryReport), StorageError> {
    let options = OpenOptions {
        recovery_point: model.stored_recovery_point,
        log_start_offset: model.stored_log_start,
        clean_shutdown,
        ..OpenOptions::new(NOW_MS)
    };
    Log::open(Arc::new(vfs.clone()), Path::new(DIR), config(), options)
}

/// Runs `operations` until one fails. The model follows what was accepted.
fn work(
    log: &mut Log,
    model: &mut Model,
    operations: usize,
    random: &mut Seeded,
) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut sequences = BTreeMap::new();
    let mut open_txn = false;
    let mut epoch = log.latest_epoch().map_or(0, LeaderEpoch::get);
    for _ in 0..operations {
        let choice = random.below(20);
        match choice {
            0..=9 => {
                let producer_id = random.below(2) as i64;
                let count = 1 + random.below(3);
                let sequence = sequences.entry(producer_id).or_insert_with(|| {
                    let known = log.producer_state().producer(ProducerId(producer_id));
                    known.map_or(0, |entry| entry.last_sequence() + 1)
                });
                let bytes = producer_batch(producer_id, 0, *sequence, count, NOW_MS);
                append(log, model, &bytes, epoch, AppendOrigin::Client)?;
                *sequence += count as i32;
            }
            10 | 11 => {
                let known = log.producer_state().producer(ProducerId(7)).copied();
                let sequence = known.map_or(0, |entry| entry.last_sequence() + 1);
                append(
                    log,
                    model,
                    &txn_batch(7, 0, sequence, 1, NOW_MS),
                    epoch,
                    AppendOrigin::Client,
                )?;
                open_txn = true;
            }
            12 if std::mem::take(&mut open_txn) => {
                let bytes = marker(7, 0, 0, random.below(2) == 0, NOW_MS);
                append(log, model, &bytes, epoch, AppendOrigin::Coordinator)?;
            }
            13 | 14 => {
                let ticket = log.begin_flush().map_err(|error| text(&error))?;
                ticket.run().map_err(|error| text(&error))?;
                log.complete_flush(ticket);
                model.durable = model.durable.max(log.recovery_point());
                if random.below(2) == 0 {
                    model.stored_recovery_point = log.recovery_point();
                }
            }
            15 => log.roll(NOW_MS).map_err(|error| text(&error))?,
            16 => {
                epoch += 1;
                log.assign_epoch_start(LeaderEpoch(epoch), log.log_end_offset())
                    .map_err(|error| text(&error))?;
            }
            17 if model.batches.len() > 3 => {
                let at = model.batches.len() - 1 - random.below(3);
                let offset = model.batches[at].0;
                if offset < log.log_start_offset() {
                    continue;
                }
                model.durable = model.durable.min(offset);
                model.truncating = Some(offset);
                log.truncate_to(offset, NOW_MS)
                    .map_err(|error| text(&error))?;
                model.truncating = None;
                model.batches.truncate(at);
                model.stored_recovery_point = model.stored_recovery_point.min(offset);
                open_txn = log
                    .producer_state()
                    .producer(ProducerId(7))
                    .is_some_and(|entry| entry.current_txn_first_offset.is_some());
                sequences.clear();
            }
            18 if model.batches.len() > 6 => {
                let offset = model.batches[random.below(model.batches.len())].0;
                log.update_high_watermark(log.log_end_offset());
                model.log_start = model.log_start.max(offset);
                model.stored_log_start = model.log_start;
                log.increment_log_start_offset(offset)
                    .map_err(|error| text(&error))?;
            }
            19 => {
                let high_watermark = log.log_end_offset();
                log.delete_old_segments(NOW_MS, high_watermark)
                    .map_err(|error| text(&error))?;
                log.due_deletions(NOW_MS)
                    .run()
                    .map_err(|error| text(&error))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn append(
    log: &mut Log,
    model: &mut Model,
    bytes: &[u8],
    epoch: i32,
    origin: AppendOrigin,
) -> Result<(), String> {
    let before = (
        log.log_end_offset(),
        log.producer_state()
            .producers()
            .copied()
            .collect::<Vec<_>>(),
    );
    match log.append_as_leader(bytes, LeaderEpoch(epoch), origin, NOW_MS) {
        Ok(info) => {
            let crc = BatchHeader::parse(bytes).unwrap().crc;
            assert_eq!(info.first_offset, before.0);
            model
                .batches
                .push((info.first_offset, info.last_offset + 1, crc));
            Ok(())
        }
        Err(error) => {
            // L7: a refused append changes nothing.
            let after = (
                log.log_end_offset(),
                log.producer_state()
                    .producers()
                    .copied()
                    .collect::<Vec<_>>(),
            );
            assert_eq!(before, after, "{error}");
            Err(error.to_string())
        }
    }
}

/// All batches that a reader sees from the log's start on.
fn contents(log: &mut Log) -> Vec<(Offset, Offset, u32, LeaderEpoch)> {
    let mut found = Vec::new();
    let mut next = log.log_start_offset();
    let end = log.log_end_offset();
    while next < end {
        let region = log.read(next, 200, end, true).unwrap().region;
        let Some(region) = region else { break };
        for batch in batches(&region.read().unwrap()).map_while(Result::ok) {
            batch.verify_crc().unwrap();
            let header = batch.header();
            found.push((
                header.base_offset,
                header.next_offset(),
                header.crc,
                header.partition_leader_epoch,
            ));
            next = header.next_offset();
        }
    }
    found
}

/// Checks a recovered log against the model.
fn check(log: &mut Log, model: &Model, why: &str) {
    let found = contents(log);
    let plain: Vec<(Offset, Offset, u32)> = found
        .iter()
        .map(|(base, next, crc, _)| (*base, *next, *crc))
        .collect();
    let first = model
        .batches
        .partition_point(|(_, next, _)| *next <= log.log_start_offset());
    let expected = &model.batches[first.min(model.batches.len())..];
    let kept = expected.get(..plain.len());
    assert_eq!(
        kept,
        Some(&plain[..]),
        "{why}: not a prefix of what was accepted"
    );
    let end = log.log_end_offset();
    assert!(
        end >= model.durable,
        "{why}: ends at {end}, durable up to {}",
        model.durable
    );
    let read_end = plain
        .last()
        .map_or(log.log_start_offset(), |(_, next, _)| *next);
    assert_eq!(
        read_end.max(log.log_start_offset()),
        end,
        "{why}: the batches end before the log does"
    );
    assert!(log.log_start_offset() <= end, "{why}");
    // L4: every offset leads to its batch.
    for (base, next, _, _) in &found {
        for offset in (*base).max(log.log_start_offset())..*next {
            let result = log.read(offset, 1, end, true).unwrap();
            assert_eq!(result.first_offset, *base, "{why}: offset {offset}");
        }
    }
    // L5: epochs grow, lie inside the log, and are those of the batches.
    let epochs = log.leader_epochs().clone();
    assert!(
        epochs.entries().windows(2).all(
            |pair| pair[0].epoch < pair[1].epoch && pair[0].start_offset < pair[1].start_offset
        ),
        "{why}: {epochs:?}"
    );
    assert!(
        epochs
            .entries()
            .iter()
            .all(|entry| entry.start_offset <= end),
        "{why}: {epochs:?} beyond {end}"
    );
    for (base, _, _, epoch) in &found {
        let at = (*base).max(log.log_start_offset());
        assert_eq!(
            epochs.epoch_at(at),
            Some(*epoch),
            "{why}: epoch of {base} in {epochs:?} {model:?} {found:?}"
        );
    }
    // L6: the producers are those of the batches. Snapshots keep one batch of each, so the last one is compared.
    let mut last = BTreeMap::new();
    for header in headers(log) {
        if header.has_producer_id() && !header.is_control() {
            last.insert(
                header.producer_id.get(),
                (header.last_sequence(), header.last_offset()),
            );
        }
    }
    for (producer_id, expected) in last {
        let entry = *log
            .producer_state()
            .producer(ProducerId(producer_id))
            .unwrap();
        let state = entry
            .last_batch()
            .map(|batch| (batch.last_sequence, batch.last_offset));
        assert_eq!(state, Some(expected), "{why}: producer {producer_id}");
    }
}

fn headers(log: &mut Log) -> Vec<BatchHeader> {
    let mut found = Vec::new();
    let mut next = log.log_start_offset();
    let end = log.log_end_offset();
    while next < end {
        let Some(region) = log.read(next, 400, end, true).unwrap().region else {
            break;
        };
        for batch in batches(&region.read().unwrap()).map_while(Result::ok) {
            found.push(*batch.header());
            next = batch.header().next_offset();
        }
    }
    found
}

/// The models between which a crash may have fallen.
fn candidates(model: &Model) -> Vec<Model> {
    let Some(offset) = model.truncating else {
        return vec![model.clone()];
    };
    // Nothing was cut, or something behind the offset.
    let mut cut = model.clone();
    cut.batches.retain(|(_, next, _)| *next <= offset);
    vec![model.clone(), cut]
}

fn reopen_and_check(vfs: &SimVfs, model: &Model, why: &str) {
    // The machine may stop again in the middle of recovery, wherever that is.
    let steps = {
        let probe = vfs.after_crash(Loss::Nothing);
        let opened = open_with(&probe, model, false);
        assert!(opened.is_ok(), "{why}: {:?}", opened.err());
        probe.steps()
    };
    let mut disk = vfs.after_crash(Loss::Nothing);
    if steps > 0 {
        disk.crash_at(steps / 2);
        let _ = open_with(&disk, model, false);
        disk = disk.after_crash(Loss::Random(steps));
    }
    let (mut log, _) =
        open_with(&disk, model, false).unwrap_or_else(|error| panic!("{why}: {error}"));
    let model = &candidates(model)[0];
    check(&mut log, model, why);
    // It goes on from there, and a clean stop keeps everything.
    let mut model = model.clone();
    model.truncating = None;
    model
        .batches
        .retain(|(_, next, _)| *next <= log.log_end_offset());
    model.stored_recovery_point = model.stored_recovery_point.min(log.log_end_offset());
    model.durable = model.durable.min(log.log_end_offset());
    let mut random = Seeded::new(99);
    work(&mut log, &mut model, 10, &mut random).unwrap_or_else(|error| panic!("{why}: {error}"));
    let end = log.log_end_offset();
    let closed = log.close().unwrap();
    assert_eq!(closed.recovery_point, end, "{why}");
    model.stored_recovery_point = end;
    model.stored_log_start = closed.log_start_offset;
    model.durable = end;
    let disk = disk.after_crash(Loss::Unsynced);
    let (mut log, report) =
        open_with(&disk, &model, true).unwrap_or_else(|error| panic!("{why}: {error}"));
    assert_eq!(report.bytes_checked, 0, "{why}: {report:?}");
    assert_eq!(log.log_end_offset(), end, "{why}");
    check(&mut log, &model, why);
}

/// Runs a workload on a fresh disk with a fault; gives the disk, the model, and the error that ended it.
fn run(
    seed: u64,
    operations: usize,
    fault: impl FnOnce(&SimVfs),
) -> (SimVfs, Model, Option<String>) {
    let vfs = SimVfs::new();
    fault(&vfs);
    let mut model = Model::default();
    let outcome = open_with(&vfs, &model, false)
        .map_err(|error| error.to_string())
        .and_then(|(mut log, _)| work(&mut log, &mut model, operations, &mut Seeded::new(seed)));
    (vfs, model, outcome.err())
}

#[test]
fn a_crash_at_any_step_loses_nothing_durable() {
    let mut crashes = 0;
    // Seed 10 once left a hole: a removed segment came back behind a shortened one.
    for seed in (1..=6).chain([10]) {
        let (whole, _, error) = run(seed, 60, |_| {});
        assert_eq!(error, None);
        for step in 0..whole.steps() {
            let (vfs, model, _) = run(seed, 60, |vfs| vfs.crash_at(step));
            assert!(vfs.crashed());
            crashes += 1;
            for loss in [
                Loss::Unsynced,
                Loss::Nothing,
                Loss::Random(step),
                Loss::Random(step + 1_000_000),
            ] {
                let why = format!(
                    "seed {seed} step {step} {loss:?} at {:?}",
                    vfs.trace().last()
                );
                reopen_and_check(&vfs.after_crash(loss), &model, &why);
            }
        }
    }
    assert!(crashes > 300, "{crashes}");
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let (a, model_a, _) = run(5, 80, |_| {});
    let (b, model_b, _) = run(5, 80, |_| {});
    assert_eq!(a.trace(), b.trace());
    assert_eq!(model_a.batches, model_b.batches);
}

#[test]
fn a_failed_step_is_never_acknowledged() {
    for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
        for seed in 1..=3 {
            let (whole, _, _) = run(seed, 60, |_| {});
            for step in 0..whole.steps() {
                let (vfs, model, error) = run(seed, 60, |vfs| vfs.fail_at(step, kind));
                let why = format!(
                    "seed {seed} step {step} {kind:?} {error:?} at {:?}",
                    vfs.trace().last()
                );
                // What was acknowledged as durable is there even if everything unsynced is lost with the failure.
                reopen_and_check(&vfs.after_crash(Loss::Unsynced), &model, &why);
                reopen_and_check(&vfs.after_crash(Loss::Nothing), &model, &why);
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    for seed in 1..=20 {
        let vfs = SimVfs::new();
        let mut model = Model::default();
        let (mut log, _) = open_with(&vfs, &model, false).unwrap();
        let mut random = Seeded::new(seed);
        work(&mut log, &mut model, 20, &mut random).unwrap();
        vfs.set_capacity(vfs.used_bytes() + random.below(400));
        let refused = work(&mut log, &mut model, 200, &mut random);
        let error = refused.expect_err("the disk is full");
        assert!(error.contains("no space left"), "seed {seed}: {error}");
        assert!(!log.failure_latch().is_failed(), "seed {seed}: {error}");
        check(&mut log, &model, "full");
        vfs.set_capacity(usize::MAX);
        work(&mut log, &mut model, 20, &mut random).unwrap();
        check(&mut log, &model, "room again");
        drop(log);
        reopen_and_check(
            &vfs.after_crash(Loss::Random(seed)),
            &model,
            &format!("full, seed {seed}"),
        );
    }
}

#[test]
fn after_a_failed_fsync_nothing_is_written() {
    let vfs = SimVfs::new();
    let mut model = Model::default();
    let (mut log, _) = open_with(&vfs, &model, false).unwrap();
    append(
        &mut log,
        &mut model,
        &producer_batch(1, 0, 0, 1, 1),
        0,
        AppendOrigin::Client,
    )
    .unwrap();
    let ticket = log.begin_flush().unwrap();
    vfs.fail_at(vfs.steps(), io::ErrorKind::Other);
    assert!(matches!(ticket.run(), Err(StorageError::Poisoned { .. })));
    let error = append(
        &mut log,
        &mut model,
        &producer_batch(1, 0, 1, 1, 1),
        0,
        AppendOrigin::Client,
    );
    assert!(error.unwrap_err().contains("not used until a restart"));
    assert!(ticket.run().is_err(), "no second try");
    assert!(log.begin_flush().is_err());
    assert_eq!(log.recovery_point(), 0);
}

/// Descriptors come back; nothing was lost by not having one.
#[test]
fn a_folder_that_cannot_be_opened_has_not_failed() {
    let to_flush = |vfs: &SimVfs| {
        let mut model = Model::default();
        let (mut log, _) = open_with(vfs, &model, false).unwrap();
        let bytes = producer_batch(1, 0, 0, 1, 1);
        append(&mut log, &mut model, &bytes, 0, AppendOrigin::Client).unwrap();
        let ticket = log.begin_flush().unwrap();
        (log, ticket)
    };
    let other = SimVfs::new();
    let (_log, ticket) = to_flush(&other);
    ticket.run().unwrap();
    let steps = other.trace();
    let at = steps
        .iter()
        .rposition(|step| step.starts_with("fsync folder"));

    let vfs = SimVfs::new();
    let (mut log, ticket) = to_flush(&vfs);
    vfs.out_of_descriptors_at(at.unwrap() as u64);
    let flushed = ticket.run();
    assert!(
        matches!(flushed, Err(StorageError::Io { .. })),
        "{flushed:?}"
    );
    assert!(!log.failure_latch().is_failed());
    let ticket = log.begin_flush().unwrap();
    ticket.run().unwrap();
    log.complete_flush(ticket);
    assert_eq!(log.recovery_point(), 1);

    // a truncation finds it out before it changes anything
    vfs.out_of_descriptors_at(vfs.steps());
    let cut = log.truncate_to(0, 0);
    assert!(matches!(cut, Err(StorageError::Io { .. })), "{cut:?}");
    assert_eq!(
        (log.log_end_offset(), log.failure_latch().is_failed()),
        (1, false)
    );
    assert!(log.truncate_to(0, 0).unwrap());

    // a renamed folder is renamed
    let parent = log.dir().parent().unwrap().to_owned();
    vfs.out_of_descriptors_at(vfs.steps() + 1);
    log.rename_dir("t-0.deleted").unwrap();
    assert_eq!(log.dir(), parent.join("t-0.deleted"));
    assert!(!log.failure_latch().is_failed());
}

#[test]
fn a_flush_says_nothing_about_what_came_after_a_truncation() {
    let vfs = SimVfs::new();
    let mut model = Model::default();
    let (mut log, _) = open_with(&vfs, &model, false).unwrap();
    for sequence in 0..4 {
        let bytes = producer_batch(1, 0, sequence, 1, 1);
        append(&mut log, &mut model, &bytes, 0, AppendOrigin::Client).unwrap();
    }
    let ticket = log.begin_flush().unwrap();
    ticket.run().unwrap();
    log.truncate_to(1, NOW_MS).unwrap();
    for sequence in 1..6 {
        let bytes = producer_batch(1, 0, sequence, 1, 2);
        append(&mut log, &mut model, &bytes, 1, AppendOrigin::Client).unwrap();
    }
    log.complete_flush(ticket);
    assert_eq!(log.recovery_point(), 0);
    let ticket = log.begin_flush().unwrap();
    ticket.run().unwrap();
    log.complete_flush(ticket);
    assert_eq!(log.recovery_point(), 6);
}

/// Killed between write and fsync, started again, flushed, and only then the power fails.
#[test]
fn what_a_killed_process_left_is_durable_after_the_next_ones_flush() {
    let vfs = SimVfs::new();
    let (mut killed, _) = open_with(&vfs, &Model::default(), false).unwrap();
    for (epoch, sequence) in [(1, 0), (2, 2), (4, 4)] {
        let bytes = producer_batch(3, 0, sequence, 2, NOW_MS);
        killed
            .append_as_leader(&bytes, LeaderEpoch(epoch), AppendOrigin::Client, NOW_MS)
            .unwrap();
        killed.roll(NOW_MS).unwrap();
    }
    drop(killed);
    let (mut next, _) = open_with(&vfs, &Model::default(), false).unwrap();
    let ticket = next.begin_flush().unwrap();
    ticket.run().unwrap();
    next.complete_flush(ticket);
    let model = Model {
        stored_recovery_point: next.recovery_point(),
        ..Model::default()
    };
    let (found, _) = open_with(&vfs.after_crash(Loss::Unsynced), &model, false).unwrap();
    assert_eq!(found.log_end_offset(), 6);
    assert_eq!(
        found.leader_epochs().entries(),
        next.leader_epochs().entries()
    );
    // A snapshot holds only the last batch of a producer.
    let producer = found.producer_state().producer(ProducerId(3)).unwrap();
    assert_eq!(producer.last_sequence(), 5);
}
