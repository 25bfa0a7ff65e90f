//! Reads from many partitions under one budget of bytes, and the wait for enough of them.
//! Not here: one partition's read (partition.rs), sessions (kavka_replication), the wire (api/fetch.rs).
//! Hot path. Awaited by the connection's task beside other requests; woken by appends, never polling.
//! Kafka: ReplicaManager.{fetchMessages, readFromLog}, DelayedFetch; KIP-74, KIP-392.

use crate::replica::error::ReplicaError;
use crate::replica::partition::{
    BegunRead, FetchIsolation, FetchingReplica, Partition, PartitionRead, ReadRequest,
};
use crate::replica::purgatory::Waiter;
use kavka_common::{LeaderEpoch, Offset};
use std::sync::Arc;
use std::time::Duration;

/// What holds for a whole fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchParams {
    pub replica: Option<FetchingReplica>,
    pub isolation: FetchIsolation,
    pub leader_only: bool,
    pub min_bytes: usize,
    pub max_bytes: usize,
    pub max_wait_ms: i64,
}

/// One partition of a fetch.
#[derive(Clone, Debug)]
pub struct FetchPartition {
    pub partition: Result<Arc<Partition>, ReplicaError>,
    pub fetch_offset: Offset,
    pub log_start_offset: Offset,
    pub current_leader_epoch: LeaderEpoch,
    pub last_fetched_epoch: LeaderEpoch,
    pub max_bytes: usize,
}

pub type FetchResult = Result<PartitionRead, ReplicaError>;

/// Reads until `min_bytes` are there, something has to be told at once, or the wait is over. Results are in the order
/// of `partitions`.
pub async fn fetch(params: &FetchParams, partitions: &[FetchPartition]) -> Vec<FetchResult> {
    let results = fetch_within(params, partitions).await;
    if params.replica.is_some() {
        charge(partitions, &results);
    }
    results
}

/// What followers are given counts against the leader's limit, where one holds.
fn charge(partitions: &[FetchPartition], results: &[FetchResult]) {
    for (fetch, result) in partitions.iter().zip(results) {
        if let (Ok(partition), Ok(read)) = (&fetch.partition, result) {
            partition.charge_leader(read.records_bytes());
        }
    }
}

async fn fetch_within(params: &FetchParams, partitions: &[FetchPartition]) -> Vec<FetchResult> {
    let (results, answer_now) = read_all(params, partitions, None).await;
    if answer_now || params.max_wait_ms <= 0 {
        return results;
    }
    let waiter = Waiter::new();
    let deadline = tokio::time::sleep(Duration::from_millis(
        u64::try_from(params.max_wait_ms).unwrap_or(0),
    ));
    tokio::pin!(deadline);
    loop {
        // registering and reading happen under the same lock: no append is missed
        let (results, answer_now) = read_all(params, partitions, Some(&waiter)).await;
        if answer_now {
            return results;
        }
        tokio::select! {
            () = waiter.wait() => {}
            () = &mut deadline => return results,
        }
    }
}

async fn read_all(
    params: &FetchParams,
    partitions: &[FetchPartition],
    waiter: Option<&Arc<Waiter>>,
) -> (Vec<FetchResult>, bool) {
    let mut left = params.max_bytes;
    let mut total = 0;
    let mut answer_now = partitions.is_empty();
    let mut results = Vec::with_capacity(partitions.len());
    for fetch in partitions {
        let request = ReadRequest {
            fetch_offset: fetch.fetch_offset,
            max_bytes: fetch.max_bytes.min(left),
            // KIP-74: the first partition with data gives a whole batch, so that a reader always gets on
            min_one_batch: total == 0,
            isolation: params.isolation,
            current_leader_epoch: fetch.current_leader_epoch,
            last_fetched_epoch: fetch.last_fetched_epoch,
            log_start_offset: fetch.log_start_offset,
            replica: params.replica,
            leader_only: params.leader_only,
        };
        let result = match &fetch.partition {
            Ok(partition) => read_one(partition, &request, waiter).await,
            Err(e) => Err(e.clone()),
        };
        match &result {
            Ok(read) => {
                total += read.records_bytes();
                left = left.saturating_sub(read.records_bytes());
                answer_now |= read.diverging.is_some();
            }
            Err(_) => answer_now = true,
        }
        results.push(result);
    }
    (results, answer_now || total >= params.min_bytes)
}

/// What is in the page cache is read at once; a cold disk is waited for on the blocking pool.
async fn read_one(
    partition: &Arc<Partition>,
    request: &ReadRequest,
    waiter: Option<&Arc<Waiter>>,
) -> FetchResult {
    let pending = match partition.begin_read(request, waiter)? {
        BegunRead::Done(read) => return Ok(read),
        BegunRead::Pending(pending) => pending,
    };
    if let Some(read) = partition.finish_read(&pending)? {
        return Ok(read);
    }
    let partition = Arc::clone(partition);
    tokio::task::spawn_blocking(move || partition.finish_read_waiting(&pending))
        .await
        // the runtime is stopping
        .unwrap_or(Err(ReplicaError::NotLeaderOrFollower))
}
