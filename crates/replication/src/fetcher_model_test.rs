//! A leader and a follower with a real session cache between them: their logs become equal whatever is lost.
//! Not here: single steps of the fetcher (fetcher_test.rs). KIP-101, KIP-227, KIP-595.

use super::fetcher_test::{Bench, at, good};
use super::*;
use crate::fetch_session::{
    FetchSessionCache, FetchSessionError, PartitionOutcome, SessionPartition, SessionRequest,
    SessionTopic,
};
use crate::follower::Follower;
use kavka_common::{NodeId, Uuid};
use proptest::prelude::*;

/// A log as epochs by offset: what two replicas must agree about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelLog {
    start: Offset,
    epochs: Vec<i32>,
}

impl ModelLog {
    fn end(&self) -> Offset {
        self.start + self.epochs.len() as i64
    }

    fn latest(&self) -> i32 {
        self.epochs.last().copied().unwrap_or(-1)
    }

    /// The largest epoch not above `epoch`, and where it ends; here every epoch has a record.
    fn epoch_end(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let upto = self.epochs.iter().filter(|e| **e <= epoch.get()).count();
        let floor = self.epochs[..upto].last().copied();
        if upto == self.epochs.len() && floor != Some(epoch.get()) {
            return None;
        }
        Some(EpochEnd {
            leader_epoch: LeaderEpoch(floor.unwrap_or(epoch.get())),
            end_offset: self.start + upto as i64,
        })
    }

    fn truncate(&mut self, to: Offset) {
        if to < self.start {
            *self = ModelLog {
                start: to,
                epochs: Vec::new(),
            };
        }
        self.epochs
            .truncate(usize::try_from(to - self.start).unwrap());
    }

    fn position(&self, leader_epoch: i32) -> FetchPosition {
        FetchPosition {
            log_start_offset: self.start,
            ..at(leader_epoch, self.end(), self.latest())
        }
    }
}

const PARTITIONS: usize = 3;

/// A leader and a follower with a real session cache between them.
struct Pair {
    bench: Bench,
    cache: FetchSessionCache,
    leader: Vec<ModelLog>,
    follower: Vec<ModelLog>,
    epoch: i32,
    session_ids: i32,
}

impl Pair {
    /// One round: request, answer, actions; `lose` drops the request (1), or the answer (2).
    fn round(&mut self, lose: u8, batch: usize) {
        let Some(plan) = self.bench.plan() else {
            self.bench.now_ms += 1000;
            return;
        };
        if lose == 1 {
            self.bench.event(FetcherEvent::Lost { back_off: false });
            return;
        }
        let (answer, records) = self.serve(&plan, batch);
        if lose == 2 {
            self.bench.event(FetcherEvent::Lost { back_off: true });
            return;
        }
        let mut actions = self.bench.event(FetcherEvent::Answered(answer));
        while let Some(action) = actions.pop() {
            let at = action.partition.topic_partition.partition as usize;
            let log = &mut self.follower[at];
            match action.kind {
                ActionKind::Append {
                    answer,
                    fetch_offset,
                    ..
                } => {
                    assert_eq!(fetch_offset, log.end());
                    log.epochs.extend_from_slice(&records[answer]);
                }
                ActionKind::Truncate(leader_end) => {
                    let follower = Follower::start(NodeId(1), action.leader_epoch, 0);
                    let ours = log.clone();
                    let cut = follower
                        .truncation(Some(leader_end), log.end(), |epoch| ours.epoch_end(epoch));
                    log.truncate(cut.to_offset);
                }
                ActionKind::TruncateTo(offset) => log.truncate(offset),
                ActionKind::StartAt(offset) => {
                    *log = ModelLog {
                        start: offset,
                        epochs: Vec::new(),
                    };
                }
                ActionKind::LookUpRange => {
                    let range = LeaderRange {
                        log_start_offset: self.leader[at].start,
                        log_end_offset: self.leader[at].end(),
                    };
                    actions.extend(self.bench.event(FetcherEvent::Range {
                        partition: action.partition,
                        leader_epoch: action.leader_epoch,
                        range,
                    }));
                    continue;
                }
            }
            let position = log.position(action.leader_epoch.get());
            self.bench.event(FetcherEvent::Acted {
                partition: action.partition,
                leader_epoch: action.leader_epoch,
                outcome: Outcome::Done(position),
            });
        }
    }

    fn serve(&mut self, plan: &FetchPlan, batch: usize) -> (FetchAnswer, Vec<Vec<i32>>) {
        let topic = || SessionTopic::Id(Uuid::from_bytes([1; 16]));
        let request = SessionRequest {
            session_id: plan.session_id,
            session_epoch: plan.session_epoch,
            uses_topic_ids: true,
            privileged: true,
            partitions: plan
                .partitions
                .iter()
                .map(|(id, position)| SessionPartition {
                    topic: topic(),
                    partition: id.topic_partition.partition,
                    current_leader_epoch: position.leader_epoch,
                    fetch_offset: position.fetch_offset,
                    last_fetched_epoch: position.last_fetched_epoch,
                    log_start_offset: position.log_start_offset,
                    max_bytes: 100,
                    high_watermark: i64::MAX,
                })
                .collect(),
            forgotten: plan
                .forgotten
                .iter()
                .map(|id| (topic(), id.topic_partition.partition))
                .collect(),
        };
        let refused = |fault| {
            let answer = FetchAnswer {
                fault: Some(fault),
                ..FetchAnswer::default()
            };
            (answer, Vec::new())
        };
        let context = match self.cache.begin(self.bench.now_ms, request) {
            Ok(context) => context,
            Err(FetchSessionError::SessionIdNotFound) => return refused(SessionFault::NotFound),
            Err(_) => return refused(SessionFault::OutOfStep),
        };
        let mut answers = Vec::new();
        let mut records = Vec::new();
        let mut outcomes = Vec::new();
        for asked in &context.partitions {
            let log = &self.leader[asked.partition as usize];
            let mut answer = PartitionAnswer {
                high_watermark: log.end(),
                log_start_offset: log.start,
                ..good(asked.partition)
            };
            let mut given = Vec::new();
            if asked.current_leader_epoch.get() < self.epoch {
                answer.fault = Some(FetchFault::FencedLeaderEpoch);
            } else if asked.current_leader_epoch.get() > self.epoch {
                answer.fault = Some(FetchFault::UnknownLeaderEpoch);
            } else {
                let end = log.epoch_end(asked.last_fetched_epoch);
                match end {
                    None if asked.last_fetched_epoch != LeaderEpoch::UNKNOWN => {
                        answer.fault = Some(FetchFault::OffsetOutOfRange);
                    }
                    Some(end)
                        if asked.last_fetched_epoch != LeaderEpoch::UNKNOWN
                            && (end.leader_epoch < asked.last_fetched_epoch
                                || end.end_offset < asked.fetch_offset) =>
                    {
                        answer.diverging = Some(end);
                    }
                    _ if asked.fetch_offset < log.start || asked.fetch_offset > log.end() => {
                        answer.fault = Some(FetchFault::OffsetOutOfRange);
                    }
                    _ => {
                        let from = (asked.fetch_offset - log.start) as usize;
                        given = log.epochs[from..].iter().copied().take(batch).collect();
                    }
                }
            }
            outcomes.push(PartitionOutcome {
                records_bytes: given.len(),
                is_error: answer.fault.is_some(),
                is_notice: answer.diverging.is_some(),
                high_watermark: answer.high_watermark,
                log_start_offset: answer.log_start_offset,
            });
            answers.push(answer);
            records.push(given);
        }
        let session_ids = &mut self.session_ids;
        let (session_id, include) = self
            .cache
            .complete(self.bench.now_ms, &context, &outcomes, || {
                *session_ids += 1;
                *session_ids
            })
            .unwrap();
        let mut kept = include.iter();
        answers.retain(|_| *kept.next().unwrap());
        let mut kept = include.iter();
        records.retain(|_| *kept.next().unwrap());
        let answer = FetchAnswer {
            fault: None,
            session_id,
            partitions: answers,
        };
        (answer, records)
    }

    fn follow_all(&mut self) {
        for at in 0..PARTITIONS {
            let position = self.follower[at].position(self.epoch);
            self.bench.follow(at as i32, position);
        }
    }
}

#[test]
fn a_poll_that_is_given_up_leaves_no_session_behind() {
    let empty = ModelLog {
        start: 0,
        epochs: Vec::new(),
    };
    let mut pair = Pair {
        bench: Bench::following(&[]),
        cache: FetchSessionCache::new(1000),
        leader: vec![empty.clone(); PARTITIONS],
        follower: vec![empty; PARTITIONS],
        epoch: 1,
        session_ids: 0,
    };
    pair.follow_all();
    for _ in 0..5 {
        pair.round(0, 1);
        pair.round(0, 1);
        assert_eq!(pair.cache.len(), 1);
        // once, and once more before the leader has heard of the first time
        pair.round(1, 1);
        pair.round(1, 1);
    }
}

proptest! {
    /// Whatever diverged, was lost or was evicted: when the faults end, each follower's log becomes its leader's.
    #[test]
    fn logs_become_equal(steps in proptest::collection::vec((0u8..8, 0usize..PARTITIONS, 1i64..6), 1..120)) {
        let empty = ModelLog { start: 0, epochs: Vec::new() };
        let mut pair = Pair {
            bench: Bench::following(&[]),
            cache: FetchSessionCache::new(2),
            leader: vec![empty.clone(); PARTITIONS],
            follower: vec![empty; PARTITIONS],
            epoch: 1,
            session_ids: 0,
        };
        pair.follow_all();
        for (kind, at, amount) in steps {
            pair.bench.now_ms += amount;
            match kind {
                0 => {
                    let epoch = pair.epoch;
                    let log = &mut pair.leader[at];
                    log.epochs.extend((0..amount).map(|_| epoch));
                }
                1..=3 => pair.round(0, amount as usize),
                4 => pair.round(1, 1),
                5 => pair.round(2, 1),
                6 => {
                    // a new leadership: of the other replica's log, or of a shorter one (unclean)
                    pair.epoch += 1;
                    if amount > 3 {
                        std::mem::swap(&mut pair.leader[at], &mut pair.follower[at]);
                    }
                    let epoch = pair.epoch;
                    for log in &mut pair.leader {
                        // as every leader notes the start of its epoch, even before it appends
                        log.epochs.push(epoch);
                    }
                    if amount != 2 {
                        pair.follow_all();
                    }
                }
                _ => {
                    let log = &mut pair.leader[at];
                    let gone = (amount as usize).min(log.epochs.len().saturating_sub(1));
                    log.epochs.drain(..gone);
                    log.start += gone as i64;
                }
            }
        }
        pair.follow_all();
        for _ in 0..400 {
            pair.round(0, 5);
        }
        for at in 0..PARTITIONS {
            let leader = &pair.leader[at];
            let follower = &pair.follower[at];
            prop_assert_eq!(leader.end(), follower.end());
            let common = leader.start.max(follower.start);
            let tail = |log: &ModelLog| log.epochs[(common - log.start) as usize..].to_vec();
            prop_assert_eq!(tail(leader), tail(follower));
        }
    }
}
