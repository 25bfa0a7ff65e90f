//! Looking up offsets: by timestamp, by the special timestamps, and where a leader epoch ends.
//! Not here: the wire (api/list_offsets.rs).
//! On the blocking pool. Decided under the partition's lock; a lookup by time searches the log's files outside it.
//! Kafka: Partition.fetchOffsetForTimestamp, UnifiedLog.fetchOffsetByTimestamp; KIP-79, KIP-207, KIP-734, KIP-405, KIP-1005.

use crate::replica::error::ReplicaError;
use crate::replica::partition::{FetchIsolation, Partition};
use kavka_common::{LeaderEpoch, Offset};
use kavka_replication::Leader;
use kavka_storage::{Log, LookupError, TimestampLookup};

/// What ListOffsets asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    Latest,
    Earliest,
    MaxTimestamp,
    EarliestLocal,
    LatestTiered,
    EarliestPendingUpload,
    Timestamp(i64),
}

impl OffsetSpec {
    /// The special timestamps and the first ListOffsets version that knows each.
    pub fn from_wire(timestamp: i64, version: i16) -> Result<OffsetSpec, ReplicaError> {
        let (spec, since) = match timestamp {
            -1 => (OffsetSpec::Latest, 0),
            -2 => (OffsetSpec::Earliest, 0),
            -3 => (OffsetSpec::MaxTimestamp, 7),
            -4 => (OffsetSpec::EarliestLocal, 8),
            -5 => (OffsetSpec::LatestTiered, 9),
            -6 => (OffsetSpec::EarliestPendingUpload, 11),
            at if at < 0 => return Err(ReplicaError::UnsupportedVersion),
            at => (OffsetSpec::Timestamp(at), 0),
        };
        if version >= since {
            Ok(spec)
        } else {
            Err(ReplicaError::UnsupportedVersion)
        }
    }
}

/// An answer of ListOffsets; -1 stands for what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    pub timestamp: i64,
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
}

impl FoundOffset {
    pub const NONE: FoundOffset = FoundOffset {
        timestamp: -1,
        offset: -1,
        leader_epoch: LeaderEpoch::UNKNOWN,
    };
}

/// Looks an offset up. `isolation` bounds what the caller may learn (KAFKA-5522: by time too).
pub fn find_offset(
    partition: &Partition,
    spec: OffsetSpec,
    isolation: FetchIsolation,
    current_leader_epoch: LeaderEpoch,
    leader_only: bool,
) -> Result<FoundOffset, ReplicaError> {
    let looked = partition.with_log(current_leader_epoch, leader_only, |log, leader| {
        look(log, leader, spec, isolation)
    })?;
    let by_time = match looked {
        Looked::Found(found) => return Ok(found),
        Looked::ByTime(by_time) => by_time,
    };
    let found = match by_time.lookup.run() {
        Ok(found) => found,
        // an index that needs repair, or a file that went with its segment: what it is shows under the lock
        Err(LookupError::Again | LookupError::Cold) => {
            partition.with_log(current_leader_epoch, leader_only, |log, _| match spec {
                OffsetSpec::Timestamp(at) => {
                    Ok(log.offset_for_timestamp(at, by_time.last_fetchable)?)
                }
                _ => Ok(log.max_timestamp_offset()?),
            })?
        }
    };
    match found {
        Some(found) if found.offset < by_time.last_fetchable => Ok(FoundOffset {
            timestamp: found.timestamp,
            offset: found.offset,
            leader_epoch: found.leader_epoch,
        }),
        Some(_) | None => refuse_if_lagging(by_time.lags, FoundOffset::NONE),
    }
}

/// What a look under the lock gave.
enum Looked {
    Found(FoundOffset),
    ByTime(ByTime),
}

struct ByTime {
    lookup: TimestampLookup,
    last_fetchable: Offset,
    lags: bool,
}

fn refuse_if_lagging(lags: bool, found: FoundOffset) -> Result<FoundOffset, ReplicaError> {
    match lags {
        true => Err(ReplicaError::OffsetNotAvailable),
        false => Ok(found),
    }
}

fn look(
    log: &Log,
    leader: Option<&Leader>,
    spec: OffsetSpec,
    isolation: FetchIsolation,
) -> Result<Looked, ReplicaError> {
    let last_fetchable = match isolation {
        FetchIsolation::LogEnd => log.log_end_offset(),
        FetchIsolation::HighWatermark => log.high_watermark(),
        FetchIsolation::TxnCommitted => log.last_stable_offset(),
    };
    // KIP-207: until the new leader has committed up to its start, its watermark may lie behind what was told before
    let lags = isolation != FetchIsolation::LogEnd
        && leader.is_some_and(|leader| leader.epoch_start_offset() > leader.high_watermark());
    let by_time = |lookup| {
        Looked::ByTime(ByTime {
            lookup,
            last_fetchable,
            lags,
        })
    };
    Ok(match spec {
        OffsetSpec::Latest => Looked::Found(refuse_if_lagging(
            lags,
            FoundOffset {
                timestamp: -1,
                offset: last_fetchable,
                leader_epoch: leader.map_or_else(
                    || log.latest_epoch().unwrap_or(LeaderEpoch::UNKNOWN),
                    |leader| leader.leader_epoch(),
                ),
            },
        )?),
        // without tiered storage the local log is all there is
        OffsetSpec::Earliest | OffsetSpec::EarliestLocal => Looked::Found(FoundOffset {
            timestamp: -1,
            offset: log.log_start_offset(),
            leader_epoch: log
                .leader_epochs()
                .epoch_at(log.log_start_offset())
                .unwrap_or(LeaderEpoch::UNKNOWN),
        }),
        OffsetSpec::LatestTiered | OffsetSpec::EarliestPendingUpload => {
            Looked::Found(FoundOffset::NONE)
        }
        OffsetSpec::MaxTimestamp => by_time(log.plan_max_timestamp()),
        OffsetSpec::Timestamp(at) => by_time(log.plan_timestamp(at, last_fetchable)),
    })
}
