//! Tables of what producers may append: sequences, epochs, duplicates, markers, stable offsets.
//! Not here: the same through a log and its files (log_test.rs). Run by `cargo test`. Kafka: ProducerStateManagerTest.

use super::*;
use crate::testing::batches::{marker, producer_batch, txn_batch};
use kavka_records::{RecordBatch, patch_header};

struct Fixture {
    state: ProducerStateManager,
    next_offset: Offset,
}

impl Fixture {
    fn new() -> Self {
        Fixture {
            state: ProducerStateManager::new(0),
            next_offset: 0,
        }
    }

    fn append(
        &mut self,
        mut bytes: Vec<u8>,
        origin: AppendOrigin,
    ) -> Result<Vec<AbortedTxn>, ProducerError> {
        patch_header(&mut bytes, self.next_offset, kavka_common::LeaderEpoch(0));
        let batch = RecordBatch::parse(&bytes).unwrap();
        let marker = end_txn_marker(&batch).unwrap();
        let mut pending = Pending::default();
        self.state
            .check(&mut pending, batch.header(), marker, origin)?;
        self.next_offset = batch.header().next_offset();
        Ok(self.state.apply(pending, self.next_offset))
    }

    fn client(&mut self, epoch: i16, sequence: i32, count: usize) -> Result<(), ProducerError> {
        self.append(
            producer_batch(1, epoch, sequence, count, 100),
            AppendOrigin::Client,
        )
        .map(|_| ())
    }
}

fn out_of_order(result: Result<(), ProducerError>) -> bool {
    matches!(result, Err(ProducerError::OutOfOrderSequence { .. }))
}

#[test]
fn sequences_must_follow() {
    let mut f = Fixture::new();
    // KIP-360: the first batch of a producer that is not known may have any sequence.
    f.client(0, 7, 3).unwrap();
    assert!(out_of_order(f.client(0, 11, 1)));
    assert!(out_of_order(f.client(0, 9, 1)));
    f.client(0, 10, 1).unwrap();
    assert!(out_of_order(f.client(1, 5, 1)), "a new epoch starts at 0");
    f.client(1, 0, 1).unwrap();
    assert!(matches!(
        f.client(0, 11, 1),
        Err(ProducerError::InvalidProducerEpoch { .. })
    ));
    f.client(1, 1, 1).unwrap();
}

#[test]
fn sequences_wrap() {
    let mut f = Fixture::new();
    f.client(0, i32::MAX - 1, 2).unwrap();
    f.client(0, 0, 1).unwrap();
    f.client(0, 1, 1).unwrap();
}

#[test]
fn the_last_five_batches_are_recognised() {
    let mut f = Fixture::new();
    for at in 0..7 {
        f.client(0, at * 2, 2).unwrap();
    }
    for at in 0..7 {
        let bytes = producer_batch(1, 0, at * 2, 2, 100);
        let batch = RecordBatch::parse(&bytes).unwrap();
        let duplicate = f.state.find_duplicate(batch.header());
        assert_eq!(duplicate.is_some(), at >= 2, "batch {at}");
        if let Some(duplicate) = duplicate {
            assert_eq!(duplicate.first_offset(), i64::from(at) * 2);
        }
    }
    let part = producer_batch(1, 0, 12, 1, 100);
    assert_eq!(
        f.state
            .find_duplicate(RecordBatch::parse(&part).unwrap().header()),
        None
    );
}

#[test]
fn a_refused_batch_changes_nothing() {
    let mut f = Fixture::new();
    f.client(0, 0, 1).unwrap();
    let before = f.state.producer(ProducerId(1)).copied();
    assert!(f.client(0, 5, 1).is_err());
    assert!(f.client(3, 5, 1).is_err());
    assert_eq!(f.state.producer(ProducerId(1)).copied(), before);
    f.client(0, 1, 1).unwrap();
}

#[test]
fn transactions_hold_the_stable_offset() {
    let mut f = Fixture::new();
    f.append(txn_batch(1, 0, 0, 2, 1), AppendOrigin::Client)
        .unwrap();
    f.append(txn_batch(2, 0, 0, 2, 1), AppendOrigin::Client)
        .unwrap();
    assert!(
        f.state
            .has_ongoing_transaction(ProducerId(1), ProducerEpoch(0))
    );
    assert_eq!(f.state.first_unstable_offset(), Some(0));
    assert!(matches!(
        f.append(producer_batch(2, 0, 2, 1, 1), AppendOrigin::Client),
        Err(ProducerError::InvalidTxnState { .. })
    ));
    let aborted = f
        .append(marker(1, 0, 0, false, 2), AppendOrigin::Coordinator)
        .unwrap();
    let expected = AbortedTxn {
        producer_id: ProducerId(1),
        first_offset: 0,
        last_offset: 4,
        last_stable_offset: 2,
    };
    assert_eq!(aborted, [expected]);
    // Not replicated yet: the marker decides nothing for readers.
    assert_eq!(f.state.first_unstable_offset(), Some(0));
    f.state.on_high_watermark(5);
    assert_eq!(f.state.first_unstable_offset(), Some(2));
    assert_eq!(
        f.append(marker(2, 0, 0, true, 2), AppendOrigin::Coordinator)
            .unwrap(),
        []
    );
    f.state.on_high_watermark(6);
    assert_eq!(f.state.first_unstable_offset(), None);
}

#[test]
fn markers_are_fenced_by_epochs() {
    let mut f = Fixture::new();
    f.append(txn_batch(1, 3, 0, 1, 1), AppendOrigin::Client)
        .unwrap();
    assert!(matches!(
        f.append(marker(1, 2, 0, true, 1), AppendOrigin::Coordinator),
        Err(ProducerError::InvalidProducerEpoch { .. })
    ));
    f.append(marker(1, 4, 5, true, 1), AppendOrigin::Coordinator)
        .unwrap();
    assert!(matches!(
        f.append(marker(1, 4, 4, true, 1), AppendOrigin::Coordinator),
        Err(ProducerError::TransactionCoordinatorFenced { .. })
    ));
    // A follower takes what its leader took.
    f.append(marker(1, 2, 4, true, 1), AppendOrigin::Replication)
        .unwrap();
}

#[test]
fn silent_producers_expire_unless_in_a_transaction() {
    let mut f = Fixture::new();
    f.client(0, 0, 1).unwrap();
    f.append(txn_batch(2, 0, 0, 1, 100), AppendOrigin::Client)
        .unwrap();
    f.state.remove_expired(150, 51);
    assert_eq!(f.state.producers().count(), 2);
    f.state.remove_expired(150, 50);
    assert_eq!(
        f.state
            .producers()
            .map(|e| e.producer_id)
            .collect::<Vec<_>>(),
        [ProducerId(2)]
    );
}
