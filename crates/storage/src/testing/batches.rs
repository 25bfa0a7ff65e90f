//! Small record batches for tests.
//! Not here: the simulated disk.
//! Pure functions. Kafka: TestUtils.records, LogTestUtils.

use kavka_common::{Offset, ProducerEpoch, ProducerId};
use kavka_records::{BatchBuilder, BatchOptions, ControlRecordType, EndTxnMarker};

/// A batch of `count` records with the given timestamp and a value of `value_bytes`, written with `options`.
pub fn batch_with(
    options: BatchOptions,
    count: usize,
    timestamp: i64,
    value_bytes: usize,
) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options);
    for at in 0..count {
        let value = vec![b'a' + (at % 26) as u8; value_bytes];
        builder
            .append(timestamp, None, Some(&value), [])
            .expect("a small record fits");
    }
    builder.build().expect("a small batch fits").to_vec()
}

/// A batch without a producer.
pub fn batch(count: usize, timestamp: i64, value_bytes: usize) -> Vec<u8> {
    batch_with(BatchOptions::default(), count, timestamp, value_bytes)
}

/// A batch without a producer that a leader has given its place.
pub fn placed_batch(base_offset: Offset, epoch: i32, count: usize, timestamp: i64) -> Vec<u8> {
    let options = BatchOptions {
        base_offset,
        partition_leader_epoch: epoch.into(),
        ..BatchOptions::default()
    };
    batch_with(options, count, timestamp, 10)
}

/// A batch of an idempotent producer.
pub fn producer_batch(
    producer_id: i64,
    epoch: i16,
    sequence: i32,
    count: usize,
    timestamp: i64,
) -> Vec<u8> {
    batch_with(
        producer(producer_id, epoch, sequence, false),
        count,
        timestamp,
        10,
    )
}

/// A batch inside a transaction.
pub fn txn_batch(
    producer_id: i64,
    epoch: i16,
    sequence: i32,
    count: usize,
    timestamp: i64,
) -> Vec<u8> {
    batch_with(
        producer(producer_id, epoch, sequence, true),
        count,
        timestamp,
        10,
    )
}

/// The marker that ends a transaction.
pub fn marker(
    producer_id: i64,
    epoch: i16,
    coordinator_epoch: i32,
    commit: bool,
    timestamp: i64,
) -> Vec<u8> {
    let options = BatchOptions {
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(epoch),
        ..BatchOptions::default()
    };
    let marker = EndTxnMarker {
        control_type: if commit {
            ControlRecordType::Commit
        } else {
            ControlRecordType::Abort
        },
        coordinator_epoch,
    };
    BatchBuilder::end_txn_marker(options, timestamp, marker)
        .expect("a marker is small")
        .to_vec()
}

fn producer(producer_id: i64, epoch: i16, base_sequence: i32, transactional: bool) -> BatchOptions {
    BatchOptions {
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence,
        transactional,
        ..BatchOptions::default()
    }
}
