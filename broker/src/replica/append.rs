//! Appends to many partitions, and the wait for their acknowledgement.
//! Not here: one partition's append (partition.rs), the wire (api/produce.rs).
//! Hot path. `append` runs to its end in the connection's task, in the order of requests; `acknowledged` is awaited
//! beside later requests. Kafka: ReplicaManager.appendRecords, DelayedProduce; KIP-98, KIP-679.

use crate::replica::error::ReplicaError;
use crate::replica::partition::{Appended, Partition};
use crate::replica::purgatory::Waiter;
use bytes::Bytes;
use kavka_common::{Clock, LeaderEpoch, Offset};
use kavka_records::{Compression, InvalidBatch, InvalidBatchKind, validate_produce};
use kavka_replication::AcksState;
use kavka_storage::AppendOrigin;
use std::sync::Arc;
use std::time::Duration;

/// `acks` of a Produce request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    None,
    Leader,
    All,
}

impl Acks {
    pub fn from_wire(acks: i16) -> Option<Acks> {
        match acks {
            0 => Some(Acks::None),
            1 => Some(Acks::Leader),
            -1 => Some(Acks::All),
            _ => None,
        }
    }
}

/// An append that waits for its acknowledgement.
#[derive(Clone, Debug)]
pub struct InDoubt {
    pub partition: Arc<Partition>,
    pub required_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub must_flush: bool,
}

/// Validates and appends what a client produced to one partition.
pub fn append_produced(
    partition: &Partition,
    produced: &Bytes,
    acks: Acks,
    zstd_allowed: bool,
    clock: &dyn Clock,
) -> Result<Appended, ReplicaError> {
    let now_ms = clock.wall_ms();
    let settings = partition.settings();
    let rules = settings.produce_rules(partition.topic_partition(), now_ms);
    // outside the partition's lock: this is where the time goes
    let valid = validate_produce(produced, &rules)?;
    if !zstd_allowed && valid.header().compression() == Compression::Zstd {
        return Err(InvalidBatch {
            kind: InvalidBatchKind::UnsupportedCompressionType,
            message:
                "Produce requests with version below 7 are not allowed to use ZStandard compression"
                    .into(),
            record_errors: Vec::new(),
        }
        .into());
    }
    let stored = valid.into_stored(produced);
    partition.append(&stored, acks == Acks::All, AppendOrigin::Client, now_ms)
}

/// Waits until each append is durable where the topic asks for it and, with acks=all, committed; or until the timeout.
/// The results are in the order of `appends`.
pub async fn acknowledged(
    appends: &[InDoubt],
    acks: Acks,
    timeout_ms: i64,
) -> Vec<Result<(), ReplicaError>> {
    let flushes = appends.iter().map(|append| async {
        if append.must_flush {
            append.partition.flush_to(append.required_offset).await
        } else {
            Ok(())
        }
    });
    let flushed = futures::future::join_all(flushes).await;
    let mut results: Vec<Option<Result<(), ReplicaError>>> = flushed
        .into_iter()
        .map(|flushed| match (flushed, acks) {
            (Err(e), _) => Some(Err(e)),
            (Ok(()), Acks::All) => None,
            (Ok(()), Acks::None | Acks::Leader) => Some(Ok(())),
        })
        .collect();
    let waiter = Waiter::new();
    let timeout = tokio::time::sleep(Duration::from_millis(
        u64::try_from(timeout_ms).unwrap_or(0),
    ));
    tokio::pin!(timeout);
    let mut registered = false;
    loop {
        for (append, result) in appends.iter().zip(&mut results) {
            if result.is_some() {
                continue;
            }
            let state = append.partition.acks_state(
                append.required_offset,
                append.leader_epoch,
                registered.then_some(&waiter),
            );
            *result = match state {
                Ok(AcksState::Pending) => None,
                Ok(AcksState::Done) => Some(Ok(())),
                Ok(AcksState::NotEnoughReplicas) => {
                    Some(Err(ReplicaError::NotEnoughReplicasAfterAppend))
                }
                Err(e) => Some(Err(e)),
            };
        }
        if results.iter().all(Option::is_some) {
            break;
        }
        if !registered {
            // look once more with the waiter in place, so that no step in between is missed
            registered = true;
            continue;
        }
        tokio::select! {
            () = waiter.wait() => {}
            () = &mut timeout => break,
        }
    }
    results
        .into_iter()
        .map(|result| result.unwrap_or(Err(ReplicaError::RequestTimedOut)))
        .collect()
}
