//! Readers that are assigned all partitions and go on where they were, whatever happens to the brokers.
//! Not here: finding the leader (route), groups (their consumers are real ones, in tests/interop).
//! Tasks of the workload's runtime. Kafka: KafkaConsumer.assign, Fetcher.

use super::Shared;
use super::route::Route;
use crate::wait::DEADLINE;
use kavka_client::ClientError;
use kavka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kavka_protocol::messages::fetch_response::PartitionData;
use kavka_protocol::messages::{FetchRequest, FetchResponse};
use kavka_protocol::{ApiKey, ErrorCode};
use kavka_records::batches;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Version 13 names topics by id.
const VERSION_MAX: i16 = 12;
const WAIT_MS: i32 = 50;
const PARTITION_BYTES_MAX: i32 = 1 << 20;
const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;
const PAUSE: Duration = Duration::from_millis(20);

/// One partition's answer: records and the offset behind them, or why there are none.
enum Fetched {
    Records {
        records: Vec<(i64, u64)>,
        next_offset: i64,
        high_watermark: i64,
    },
    NotNow,
    Absurd(String),
}

/// Reads until the workload stops.
pub(super) async fn run(shared: Arc<Shared>, number: u32) {
    let mut route = Route::new(Arc::clone(&shared), "workload-reader");
    let mut offsets: BTreeMap<i32, i64> = BTreeMap::new();
    while !shared.stopping() {
        for partition in 0..shared.spec.partitions {
            let offset = offsets.entry(partition).or_insert(0);
            match fetch(&shared, &mut route, partition, *offset).await {
                Fetched::Records {
                    records,
                    next_offset,
                    ..
                } => {
                    *offset = next_offset;
                    if !records.is_empty() {
                        shared.recorder.polled(number, partition, false, records);
                    }
                }
                Fetched::NotNow => sleep(PAUSE).await,
                Fetched::Absurd(what) => {
                    shared.recorder.surprise(what);
                    return;
                }
            }
        }
    }
}

/// A partition from its beginning up to and with the record at `end`, or to the high watermark.
pub(super) async fn whole(
    shared: &Arc<Shared>,
    partition: i32,
    end: Option<i64>,
) -> Result<Vec<(i64, u64)>, String> {
    let deadline = Instant::now() + DEADLINE;
    let mut route = Route::new(Arc::clone(shared), "workload-final-reader");
    let mut all = Vec::new();
    let mut offset = 0;
    loop {
        match fetch(shared, &mut route, partition, offset).await {
            Fetched::Records {
                records,
                next_offset,
                high_watermark,
            } => {
                all.extend(records);
                offset = next_offset;
                if offset > end.unwrap_or(high_watermark - 1) {
                    return Ok(all);
                }
            }
            Fetched::NotNow => sleep(PAUSE).await,
            Fetched::Absurd(what) => return Err(what),
        }
        if Instant::now() >= deadline {
            return Err(format!(
                "partition {partition} could be read to offset {offset} only, not to {end:?}"
            ));
        }
    }
}

async fn fetch(shared: &Shared, route: &mut Route, partition: i32, offset: i64) -> Fetched {
    let request = FetchRequest {
        replica_id: -1,
        max_wait_ms: WAIT_MS,
        min_bytes: 1,
        max_bytes: PARTITION_BYTES_MAX,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: shared.spec.topic.as_str().into(),
            partitions: vec![FetchPartition {
                partition,
                current_leader_epoch: -1,
                fetch_offset: offset,
                last_fetched_epoch: -1,
                log_start_offset: -1,
                partition_max_bytes: PARTITION_BYTES_MAX,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let Ok((leader, connection)) = route.leader_of(partition).await else {
        return Fetched::NotNow;
    };
    let version = connection
        .version_of(ApiKey::Fetch)
        .unwrap_or(VERSION_MAX)
        .min(VERSION_MAX);
    let answer: Result<FetchResponse, ClientError> =
        connection.call_version(&request, version).await;
    let Ok(answer) = answer else {
        route.lost(leader, partition);
        return Fetched::NotNow;
    };
    let found = answer
        .responses
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .find(|p| p.partition_index == partition);
    let Some(found) = found else {
        return Fetched::Absurd("an empty answer to Fetch".into());
    };
    match ErrorCode::from(found.error_code) {
        ErrorCode::None => records(&found, offset),
        // Nothing is deleted and no client is ahead of the high watermark.
        ErrorCode::OffsetOutOfRange => Fetched::Absurd(format!(
            "offset {offset} of partition {partition} is out of range at node {leader}: {found:?}"
        )),
        _ => {
            let hint = &found.current_leader;
            route.hint(partition, (hint.leader_id, hint.leader_epoch), None);
            Fetched::NotNow
        }
    }
}

fn records(found: &PartitionData, offset: i64) -> Fetched {
    let mut records = Vec::new();
    let mut next_offset = offset;
    let bytes = found.records.as_ref().and_then(|r| r.as_bytes());
    // The last batch may be cut off by the fetch's size.
    for batch in bytes
        .into_iter()
        .flat_map(|b| batches(b))
        .map_while(Result::ok)
    {
        let place = format!("partition {}, offset {next_offset}", found.partition_index);
        if let Err(error) = batch.verify_crc() {
            return Fetched::Absurd(format!("{place}: {error}"));
        }
        next_offset = batch.header().next_offset();
        if batch.header().is_control() {
            continue;
        }
        let read = match batch.records(DECOMPRESSED_BYTES_MAX) {
            Ok(read) => read,
            Err(error) => return Fetched::Absurd(format!("{place}: {error}")),
        };
        for record in read {
            let number = record.ok().and_then(|record| {
                let value = record.value.clone().unwrap_or_default();
                let text = String::from_utf8_lossy(&value).into_owned();
                Some((record.offset, text.split(' ').next()?.parse().ok()?))
            });
            match number {
                Some((at, value)) if at >= offset => records.push((at, value)),
                // The batch began before the offset that was asked for.
                Some(_) => {}
                None => return Fetched::Absurd(format!("{place}: not one of our records")),
            }
        }
    }
    Fetched::Records {
        records,
        next_offset,
        high_watermark: found.high_watermark,
    }
}
