//! Follower side of one connection to a leader broker: what to ask next, and what an answer means for each partition.
//! Not here: the follower's session with the leader (session.rs beside), where to cut a log (follower.rs), logs, sockets.
//! Runs in the fetcher's task (broker/src/replica/fetcher). At most one request is under way.
//! Kafka: AbstractFetcherThread, ReplicaFetcherThread; KIP-101, KIP-227, KIP-320, KIP-595. KAFKA-7786: an answer counts only for
//! the epoch and the offset that were asked for.

mod session;

use crate::follower::EpochEnd;
use kavka_common::{LeaderEpoch, Offset, TopicIdPartition};
use session::FollowerSession;
pub use session::SessionFault;
use std::collections::{BTreeMap, BTreeSet};

/// First pause after a refusal: a leader that has not read the metadata yet needs a moment, not a second.
const BACKOFF_MS_MIN: i64 = 10;

/// The wait of a request that follows one that was given up, and is not given up itself: news that keep coming must not
/// keep large answers from arriving.
const HURRIED_WAIT_MS: i32 = 50;

/// The settings of a fetcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetcherConfig {
    /// `replica.fetch.wait.max.ms`.
    pub wait_ms_max: i32,
    /// `replica.fetch.min.bytes`.
    pub min_bytes: i32,
    /// `replica.fetch.response.max.bytes`.
    pub response_bytes_max: i32,
    /// `replica.fetch.max.bytes`: of one partition.
    pub partition_bytes_max: i32,
    /// `replica.fetch.backoff.ms`: the longest pause; the first ones are shorter.
    pub backoff_ms_max: i64,
}

/// How far a follower's log is, in the epoch in which it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPosition {
    /// The leadership that is followed.
    pub leader_epoch: LeaderEpoch,
    /// The end of the local log.
    pub fetch_offset: Offset,
    /// Epoch of the local log's end; unknown for a log that holds none.
    pub last_fetched_epoch: LeaderEpoch,
    pub log_start_offset: Offset,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPlan {
    pub session_id: i32,
    pub session_epoch: i32,
    /// How long the leader may hold the request: not beyond the moment when another partition's pause is over.
    pub wait_ms: i32,
    /// New to the session, or changed since it was last named.
    pub partitions: Vec<(TopicIdPartition, FetchPosition)>,
    pub forgotten: Vec<TopicIdPartition>,
}

/// Why the leader gives nothing for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFault {
    OffsetOutOfRange,
    /// The leader is in a later epoch: metadata that names it is on its way here.
    FencedLeaderEpoch,
    /// The leader is in an earlier epoch: metadata is on its way there.
    UnknownLeaderEpoch,
    NotLeader,
    /// Anything else: the topic is not known there, its disk failed.
    Other,
}

/// The leader's answer for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAnswer {
    pub partition: TopicIdPartition,
    pub fault: Option<FetchFault>,
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
    /// The logs part here, and nothing was read.
    pub diverging: Option<EpochEnd>,
}

/// The leader's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchAnswer {
    pub fault: Option<SessionFault>,
    pub session_id: i32,
    pub partitions: Vec<PartitionAnswer>,
}

/// Where a leader's log begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderRange {
    pub log_start_offset: Offset,
    pub log_end_offset: Offset,
}

/// How an action went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The log is now so far.
    Done(FetchPosition),
    /// The log is now so far, and nothing more is fetched for it before that time: replication is throttled. Then
    /// `held_and_due` names it.
    Held {
        position: FetchPosition,
        until_ms: i64,
    },
    /// Once more after a pause: bytes that are no batches, a look-up without answer. From where the log is now, when
    /// that is told: what failed may have been done in part.
    Again(Option<FetchPosition>),
    /// Never again under this leadership: the log is closed, its disk failed.
    GivenUp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetcherEvent {
    /// Fetch this partition from here on. An older epoch than the known one changes nothing.
    Follow {
        partition: TopicIdPartition,
        position: FetchPosition,
    },
    /// The partition is led by another broker, or gone.
    Remove(TopicIdPartition),
    Answered(FetchAnswer),
    /// The request under way has no answer: the connection failed, or was given up for more urgent news.
    Lost {
        back_off: bool,
    },
    /// What became of an action of that epoch.
    Acted {
        partition: TopicIdPartition,
        leader_epoch: LeaderEpoch,
        outcome: Outcome,
    },
    /// A held partition is held for longer.
    Hold {
        partition: TopicIdPartition,
        until_ms: i64,
    },
    /// The answer to [`ActionKind::LookUpRange`].
    Range {
        partition: TopicIdPartition,
        leader_epoch: LeaderEpoch,
        range: LeaderRange,
    },
}

/// What to do with a partition; its answer is [`FetcherEvent::Acted`], except for a look-up that succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetcherAction {
    pub partition: TopicIdPartition,
    pub leader_epoch: LeaderEpoch,
    pub kind: ActionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Append the records of `FetchAnswer::partitions[answer]`, if it has any, and follow the leader's offsets.
    Append {
        answer: usize,
        fetch_offset: Offset,
        high_watermark: Offset,
        log_start_offset: Offset,
    },
    /// The logs part here (KIP-595): cut ours as `Follower::truncation` says.
    Truncate(EpochEnd),
    /// Ask the leader where its log begins and ends: ours is not within.
    LookUpRange,
    /// The leader's log is shorter than ours: it was elected without having been in sync.
    TruncateTo(Offset),
    /// The leader's log begins behind the end of ours: drop ours and go on there.
    StartAt(Offset),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Asked for with the next request.
    Ready,
    /// An action is under way.
    Acting,
    Delayed {
        until_ms: i64,
    },
    /// Waits for metadata.
    Parked,
}

#[derive(Clone, Debug)]
struct Followed {
    position: FetchPosition,
    stage: Stage,
    /// Refusals in a row.
    failures: u32,
    /// Delayed by a throttle.
    held: bool,
}

/// The partitions that are fetched over one connection.
#[derive(Debug)]
pub struct Fetcher {
    config: FetcherConfig,
    partitions: BTreeMap<TopicIdPartition, Followed>,
    /// Those that may have to be named or forgotten in the next request.
    changed: BTreeSet<TopicIdPartition>,
    delayed: BTreeSet<(i64, TopicIdPartition)>,
    ready: usize,
    session: FollowerSession,
    in_flight: bool,
    /// The last request was given up for more urgent news.
    hurried: bool,
    /// No request before this time.
    resume_ms: i64,
    failures: u32,
}

impl Fetcher {
    pub fn new(config: FetcherConfig) -> Fetcher {
        Fetcher {
            config,
            partitions: BTreeMap::new(),
            changed: BTreeSet::new(),
            delayed: BTreeSet::new(),
            ready: 0,
            session: FollowerSession::default(),
            in_flight: false,
            hurried: false,
            resume_ms: i64::MIN,
            failures: 0,
        }
    }

    pub fn config(&self) -> &FetcherConfig {
        &self.config
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    pub fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Whether the request under way should be given up, because something waits to be asked for that it does not ask
    /// for. Never twice in a row.
    pub fn wants_another_request(&self) -> bool {
        let mut changed = self.changed.iter();
        !self.hurried
            && changed.any(|id| {
                self.partitions
                    .get(id)
                    .is_some_and(|followed| followed.stage == Stage::Ready)
            })
    }

    /// The partition's position, while it is followed here.
    pub fn position(&self, partition: &TopicIdPartition) -> Option<FetchPosition> {
        self.partitions
            .get(partition)
            .map(|followed| followed.position)
    }

    /// Held partitions that the next request would ask for: now is the time for another `Hold`.
    pub fn held_and_due(&self, now_ms: i64) -> Vec<TopicIdPartition> {
        let due = self.delayed.iter();
        due.take_while(|(until_ms, _)| *until_ms <= now_ms)
            .filter(|(_, id)| self.partitions.get(id).is_some_and(|p| p.held))
            .map(|(_, id)| id.clone())
            .collect()
    }

    /// The next request; none while one is under way, during a pause, or when there is nothing to ask for.
    pub fn next_request(&mut self, now_ms: i64) -> Option<FetchPlan> {
        self.end_delays(now_ms);
        if self.in_flight || now_ms < self.resume_ms || self.ready == 0 {
            return None;
        }
        let partitions = &self.partitions;
        let wanted = |id: &TopicIdPartition| {
            partitions
                .get(id)
                .filter(|followed| followed.stage == Stage::Ready)
                .map(|followed| followed.position)
        };
        let wait_ms = match self.delayed.first() {
            Some((until_ms, _)) => i32::try_from(until_ms - now_ms)
                .unwrap_or(i32::MAX)
                .min(self.config.wait_ms_max),
            None => self.config.wait_ms_max,
        };
        let mut plan = if self.session.is_new() {
            self.changed.clear();
            self.session
                .full(partitions.keys().filter_map(|id| Some((id, wanted(id)?))))
        } else {
            let changed = std::mem::take(&mut self.changed);
            self.session
                .incremental(changed.into_iter().map(|id| (wanted(&id), id)))
        };
        plan.wait_ms = match self.hurried {
            true => wait_ms.min(HURRIED_WAIT_MS),
            false => wait_ms,
        };
        self.in_flight = true;
        Some(plan)
    }

    /// When `next_request` may have something that it has not now.
    pub fn next_deadline(&self) -> Option<i64> {
        if self.in_flight {
            return None;
        }
        let delayed = self.delayed.first().map(|(until_ms, _)| *until_ms);
        let earliest = if self.ready > 0 { i64::MIN } else { delayed? };
        Some(earliest.max(self.resume_ms))
    }

    pub fn on_event(&mut self, now_ms: i64, event: FetcherEvent, out: &mut Vec<FetcherAction>) {
        match event {
            FetcherEvent::Follow {
                partition,
                position,
            } => self.follow(partition, position),
            FetcherEvent::Remove(partition) => self.remove(&partition),
            FetcherEvent::Answered(answer) => {
                // an answer to a request that was given up is nobody's
                if std::mem::take(&mut self.in_flight) {
                    self.hurried = false;
                    self.answered(now_ms, &answer, out);
                }
            }
            FetcherEvent::Lost { back_off } => {
                self.hurried = self.in_flight && !back_off;
                self.in_flight = false;
                self.session.lost();
                if back_off {
                    self.back_off(now_ms);
                }
            }
            FetcherEvent::Acted {
                partition,
                leader_epoch,
                outcome,
            } => self.acted(now_ms, partition, leader_epoch, outcome),
            FetcherEvent::Hold {
                partition,
                until_ms,
            } => self.hold(&partition, until_ms),
            FetcherEvent::Range {
                partition,
                leader_epoch,
                range,
            } => self.range(now_ms, partition, leader_epoch, range, out),
        }
    }

    fn follow(&mut self, partition: TopicIdPartition, position: FetchPosition) {
        if let Some(known) = self.partitions.get(&partition)
            && known.position.leader_epoch >= position.leader_epoch
        {
            return;
        }
        self.remove(&partition);
        self.changed.insert(partition.clone());
        self.partitions.insert(
            partition,
            Followed {
                position,
                stage: Stage::Ready,
                failures: 0,
                held: false,
            },
        );
        self.ready += 1;
    }

    fn remove(&mut self, partition: &TopicIdPartition) {
        self.enter(partition, Stage::Parked);
        self.partitions.remove(partition);
    }

    /// Moves a partition to a stage, and keeps the books that depend on it.
    fn enter(&mut self, partition: &TopicIdPartition, stage: Stage) {
        let Some(followed) = self.partitions.get_mut(partition) else {
            return;
        };
        match followed.stage {
            Stage::Ready => self.ready -= 1,
            Stage::Delayed { until_ms } => {
                self.delayed.remove(&(until_ms, partition.clone()));
            }
            Stage::Acting | Stage::Parked => {}
        }
        followed.stage = stage;
        followed.held = false;
        match stage {
            Stage::Ready => self.ready += 1,
            Stage::Delayed { until_ms } => {
                self.delayed.insert((until_ms, partition.clone()));
            }
            Stage::Acting | Stage::Parked => {}
        }
        self.changed.insert(partition.clone());
    }

    fn end_delays(&mut self, now_ms: i64) {
        while let Some((until_ms, partition)) = self.delayed.first()
            && *until_ms <= now_ms
        {
            let partition = partition.clone();
            self.enter(&partition, Stage::Ready);
        }
    }

    fn delay(&mut self, now_ms: i64, partition: &TopicIdPartition) {
        let Some(followed) = self.partitions.get_mut(partition) else {
            return;
        };
        followed.failures = followed.failures.saturating_add(1);
        let until_ms = now_ms + pause_ms(followed.failures, self.config.backoff_ms_max);
        self.enter(partition, Stage::Delayed { until_ms });
    }

    fn hold(&mut self, partition: &TopicIdPartition, until_ms: i64) {
        self.enter(partition, Stage::Delayed { until_ms });
        if let Some(followed) = self.partitions.get_mut(partition) {
            followed.held = true;
        }
    }

    fn back_off(&mut self, now_ms: i64) {
        self.failures = self.failures.saturating_add(1);
        self.resume_ms = now_ms + pause_ms(self.failures, self.config.backoff_ms_max);
    }

    fn answered(&mut self, now_ms: i64, answer: &FetchAnswer, out: &mut Vec<FetcherAction>) {
        if let Some(fault) = answer.fault {
            // a session that was evicted is begun anew at once; what fails twice in a row waits
            if self.failures > 0 || fault == SessionFault::Other {
                self.back_off(now_ms);
            } else {
                self.failures = 1;
            }
            self.session.refused(fault);
            return;
        }
        self.failures = 0;
        let named: BTreeSet<&TopicIdPartition> =
            answer.partitions.iter().map(|p| &p.partition).collect();
        let asked = self.session.answered(answer.session_id, &named);
        for (at, partition) in answer.partitions.iter().enumerate() {
            let Some(asked) = asked.get(&partition.partition) else {
                continue;
            };
            let current = self.partitions.get(&partition.partition);
            // KAFKA-7786: since the request was sent the partition got another leader, or was cut
            if current.is_some_and(|now| now.position == *asked && now.stage == Stage::Ready) {
                self.partition_answered(now_ms, at, partition, *asked, out);
            }
        }
        self.session.keep(asked);
    }

    fn partition_answered(
        &mut self,
        now_ms: i64,
        at: usize,
        answer: &PartitionAnswer,
        asked: FetchPosition,
        out: &mut Vec<FetcherAction>,
    ) {
        let id = &answer.partition;
        let kind = match (answer.fault, answer.diverging) {
            (Some(FetchFault::FencedLeaderEpoch), _) => {
                // that epoch never comes back: only newer metadata helps
                self.enter(id, Stage::Parked);
                return;
            }
            (Some(FetchFault::OffsetOutOfRange), _) => ActionKind::LookUpRange,
            (
                Some(FetchFault::UnknownLeaderEpoch | FetchFault::NotLeader | FetchFault::Other),
                _,
            ) => {
                self.delay(now_ms, id);
                return;
            }
            (None, Some(leader_end)) => ActionKind::Truncate(leader_end),
            (None, None) => ActionKind::Append {
                answer: at,
                fetch_offset: asked.fetch_offset,
                high_watermark: answer.high_watermark,
                log_start_offset: answer.log_start_offset,
            },
        };
        self.enter(id, Stage::Acting);
        out.push(FetcherAction {
            partition: id.clone(),
            leader_epoch: asked.leader_epoch,
            kind,
        });
    }

    /// The partition, if it still is in that epoch and waits for an action.
    fn acting(
        &mut self,
        partition: &TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> Option<&mut Followed> {
        self.partitions.get_mut(partition).filter(|followed| {
            followed.position.leader_epoch == leader_epoch && followed.stage == Stage::Acting
        })
    }

    fn acted(
        &mut self,
        now_ms: i64,
        partition: TopicIdPartition,
        leader_epoch: LeaderEpoch,
        outcome: Outcome,
    ) {
        let Some(followed) = self.acting(&partition, leader_epoch) else {
            return;
        };
        match outcome {
            Outcome::Done(position) => {
                assert!(position.leader_epoch == leader_epoch);
                followed.position = position;
                followed.failures = 0;
                self.enter(&partition, Stage::Ready);
            }
            Outcome::Held { position, until_ms } => {
                assert!(position.leader_epoch == leader_epoch);
                followed.position = position;
                followed.failures = 0;
                self.hold(&partition, until_ms);
            }
            Outcome::Again(position) => {
                if let Some(position) = position {
                    assert!(position.leader_epoch == leader_epoch);
                    followed.position = position;
                }
                self.delay(now_ms, &partition);
            }
            Outcome::GivenUp => self.enter(&partition, Stage::Parked),
        }
    }

    fn range(
        &mut self,
        now_ms: i64,
        partition: TopicIdPartition,
        leader_epoch: LeaderEpoch,
        range: LeaderRange,
        out: &mut Vec<FetcherAction>,
    ) {
        let Some(followed) = self.acting(&partition, leader_epoch) else {
            return;
        };
        let ours = followed.position.fetch_offset;
        let kind = if range.log_end_offset < ours {
            ActionKind::TruncateTo(range.log_end_offset)
        } else if range.log_start_offset > ours {
            ActionKind::StartAt(range.log_start_offset)
        } else {
            // it moved meanwhile, or does not know our epoch yet
            self.delay(now_ms, &partition);
            return;
        };
        out.push(FetcherAction {
            partition,
            leader_epoch,
            kind,
        });
    }
}

/// Doubles from a short pause to the longest.
fn pause_ms(failures: u32, longest_ms: i64) -> i64 {
    let doubled = BACKOFF_MS_MIN << failures.saturating_sub(1).min(16);
    doubled.min(longest_ms).max(1)
}

#[cfg(test)]
#[path = "fetcher_test.rs"]
mod fetcher_test;

#[cfg(test)]
#[path = "fetcher_model_test.rs"]
mod fetcher_model_test;
