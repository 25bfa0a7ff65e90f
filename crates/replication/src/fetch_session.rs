//! Fetch sessions: full, incremental and sessionless requests, the cache's slots and their eviction.
//! Not here: reading partitions; resolving topic ids; drawing session ids (the shell passes a random one).
//! Runs under the session cache's lock (broker/src/api/fetch.rs); never while reading or waiting.
//! Kafka: FetchManager, FetchSessionCache, FetchContext; KIP-227, KIP-516.

use kavka_common::{LeaderEpoch, Offset, Uuid};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// `session_id` of a response or request without session.
pub const INVALID_SESSION_ID: SessionId = 0;
/// `session_epoch` of a request that wants a new session.
pub const INITIAL_EPOCH: i32 = 0;
/// `session_epoch` of a request that wants none, and closes the one it names.
pub const FINAL_EPOCH: i32 = -1;
/// How long a session is safe from eviction (FetchSession: MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
pub const EVICTION_MS_MIN: i64 = 120_000;
/// More partitions than one broker could host; beyond, the session is dropped and the client starts anew.
const PARTITIONS_MAX: usize = 1_000_000;

pub type SessionId = i32;

/// A topic as the request's version names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionTopic {
    Name(Arc<str>),
    Id(Uuid),
}

/// What one partition of a fetch asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPartition {
    pub topic: SessionTopic,
    pub partition: i32,
    pub current_leader_epoch: LeaderEpoch,
    pub fetch_offset: Offset,
    pub last_fetched_epoch: LeaderEpoch,
    pub log_start_offset: Offset,
    pub max_bytes: i32,
    /// What a follower believes the high watermark to be (KIP-1166); consumers send `i64::MAX`.
    pub high_watermark: Offset,
}

type Key = (SessionTopic, i32);

impl SessionPartition {
    fn key(&self) -> Key {
        (self.topic.clone(), self.partition)
    }
}

/// The session fields of a Fetch request.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    pub session_id: SessionId,
    pub session_epoch: i32,
    pub uses_topic_ids: bool,
    /// Followers may take the slots of consumers.
    pub privileged: bool,
    pub partitions: Vec<SessionPartition>,
    pub forgotten: Vec<(SessionTopic, i32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchSessionError {
    SessionIdNotFound,
    InvalidSessionEpoch,
    TopicIdMismatch,
}

/// What a request fetches, and how its response will be told.
#[derive(Clone, Debug)]
pub struct FetchContext {
    pub partitions: Vec<SessionPartition>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sessionless,
    Full {
        uses_topic_ids: bool,
        privileged: bool,
    },
    Incremental {
        session_id: SessionId,
        /// The session's epoch after this request; another one means that a later request overtook.
        epoch: i32,
    },
}

/// What came out for one partition, in the order of the context's partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOutcome {
    pub records_bytes: usize,
    pub is_error: bool,
    /// Something the client must see although nothing was fetched: a diverging epoch, a preferred replica.
    pub is_notice: bool,
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
}

#[derive(Clone, Debug)]
struct Cached {
    partition: SessionPartition,
    high_watermark: Offset,
    log_start_offset: Offset,
}

#[derive(Clone, Debug)]
struct Session {
    uses_topic_ids: bool,
    privileged: bool,
    created_ms: i64,
    last_used_ms: i64,
    epoch: i32,
    /// In the order in which they are served; one that got data goes to the end.
    order: BTreeMap<u64, Cached>,
    places: HashMap<Key, u64>,
    place_next: u64,
}

impl Session {
    fn insert(&mut self, cached: Cached) {
        self.places.insert(cached.partition.key(), self.place_next);
        self.order.insert(self.place_next, cached);
        self.place_next += 1;
    }

    fn update(&mut self, partition: SessionPartition) {
        match self.places.get(&partition.key()) {
            Some(place) => {
                if let Some(cached) = self.order.get_mut(place) {
                    cached.partition = partition;
                    // A follower that names a partition again may have passed over what it was told last, because its
                    // log or its leader's epoch had changed meanwhile: the high watermark is news to it once more.
                    if self.privileged {
                        cached.high_watermark = -1;
                    }
                }
            }
            None => self.insert(Cached {
                partition,
                high_watermark: -1,
                log_start_offset: -1,
            }),
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.order.remove(&place);
        }
    }

    /// As `told`, and a partition that gave records goes to the end: those that gave none come first next time.
    fn answer(&mut self, key: &Key, outcome: PartitionOutcome) -> bool {
        let respond = self.told(key, outcome);
        if outcome.records_bytes > 0
            && let Some(place) = self.places.remove(key)
            && let Some(cached) = self.order.remove(&place)
        {
            self.insert(cached);
        }
        respond
    }

    /// Whether the response must name the partition; notes what it tells.
    fn told(&mut self, key: &Key, outcome: PartitionOutcome) -> bool {
        let place = self.places.get(key);
        let Some(cached) = place.and_then(|place| self.order.get_mut(place)) else {
            return false;
        };
        let mut respond = outcome.records_bytes > 0 || outcome.is_notice || outcome.is_error;
        respond |= cached.high_watermark != outcome.high_watermark;
        respond |= cached.log_start_offset != outcome.log_start_offset;
        cached.log_start_offset = outcome.log_start_offset;
        // after an error the next good answer must be sent whatever it says
        cached.high_watermark = if outcome.is_error {
            -1
        } else {
            outcome.high_watermark
        };
        respond
    }
}

/// All incremental sessions of a broker.
#[derive(Debug)]
pub struct FetchSessionCache {
    /// `max.incremental.fetch.session.cache.slots`.
    slots_max: usize,
    sessions: HashMap<SessionId, Session>,
    evictions: u64,
    /// When silent followers were last looked for.
    reaped_ms: i64,
}

impl FetchSessionCache {
    pub fn new(slots_max: usize) -> Self {
        FetchSessionCache {
            slots_max,
            sessions: HashMap::new(),
            evictions: 0,
            reaped_ms: i64::MIN,
        }
    }

    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Sessions that lost their slot to another.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Reads a request's session fields and gives what to fetch.
    pub fn begin(
        &mut self,
        now_ms: i64,
        request: SessionRequest,
    ) -> Result<FetchContext, FetchSessionError> {
        let sessionless = |partitions| FetchContext {
            partitions,
            kind: Kind::Sessionless,
        };
        if request.session_epoch == INITIAL_EPOCH || request.session_epoch == FINAL_EPOCH {
            self.sessions.remove(&request.session_id);
            if request.session_epoch == FINAL_EPOCH {
                return Ok(sessionless(request.partitions));
            }
            return Ok(FetchContext {
                partitions: request.partitions,
                kind: Kind::Full {
                    uses_topic_ids: request.uses_topic_ids,
                    privileged: request.privileged,
                },
            });
        }
        let session = self
            .sessions
            .get_mut(&request.session_id)
            .ok_or(FetchSessionError::SessionIdNotFound)?;
        if session.epoch != request.session_epoch {
            return Err(FetchSessionError::InvalidSessionEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(FetchSessionError::TopicIdMismatch);
        }
        for partition in request.partitions {
            session.update(partition);
        }
        for key in &request.forgotten {
            session.forget(key);
        }
        if session.order.is_empty() || session.order.len() > PARTITIONS_MAX {
            let overflow = !session.order.is_empty();
            self.sessions.remove(&request.session_id);
            return if overflow {
                Err(FetchSessionError::SessionIdNotFound)
            } else {
                Ok(sessionless(Vec::new()))
            };
        }
        session.last_used_ms = now_ms;
        session.epoch = next_epoch(session.epoch);
        Ok(FetchContext {
            partitions: session
                .order
                .values()
                .map(|cached| cached.partition.clone())
                .collect(),
            kind: Kind::Incremental {
                session_id: request.session_id,
                epoch: session.epoch,
            },
        })
    }

    /// Decides which partitions the response names, and under which session. `random_id` draws candidate ids.
    pub fn complete(
        &mut self,
        now_ms: i64,
        context: &FetchContext,
        outcomes: &[PartitionOutcome],
        random_id: impl FnMut() -> SessionId,
    ) -> Result<(SessionId, Vec<bool>), FetchSessionError> {
        assert!(context.partitions.len() == outcomes.len());
        match context.kind {
            Kind::Sessionless => Ok((INVALID_SESSION_ID, vec![true; outcomes.len()])),
            Kind::Full {
                uses_topic_ids,
                privileged,
            } => {
                let session_id = self.create(
                    now_ms,
                    context,
                    outcomes,
                    (uses_topic_ids, privileged),
                    random_id,
                );
                Ok((session_id, vec![true; outcomes.len()]))
            }
            Kind::Incremental { session_id, epoch } => {
                let session = self
                    .sessions
                    .get_mut(&session_id)
                    .filter(|session| session.epoch == epoch)
                    .ok_or(FetchSessionError::InvalidSessionEpoch)?;
                let include = context
                    .partitions
                    .iter()
                    .zip(outcomes)
                    .map(|(partition, outcome)| session.answer(&partition.key(), *outcome))
                    .collect();
                Ok((session_id, include))
            }
        }
    }

    fn create(
        &mut self,
        now_ms: i64,
        context: &FetchContext,
        outcomes: &[PartitionOutcome],
        (uses_topic_ids, privileged): (bool, bool),
        mut random_id: impl FnMut() -> SessionId,
    ) -> SessionId {
        self.reap(now_ms);
        if self.sessions.len() >= self.slots_max
            && !self.try_evict(now_ms, privileged, context.partitions.len())
        {
            return INVALID_SESSION_ID;
        }
        let mut session = Session {
            uses_topic_ids,
            privileged,
            created_ms: now_ms,
            last_used_ms: now_ms,
            epoch: next_epoch(INITIAL_EPOCH),
            order: BTreeMap::new(),
            places: HashMap::new(),
            place_next: 0,
        };
        for (partition, outcome) in context.partitions.iter().zip(outcomes) {
            session.forget(&partition.key());
            session.insert(Cached {
                partition: partition.clone(),
                high_watermark: -1,
                log_start_offset: -1,
            });
            session.told(&partition.key(), *outcome);
        }
        // a few draws find a free positive id; a broken source of numbers costs a session, not a loop
        for _ in 0..64 {
            let id = random_id() & i32::MAX;
            if id != INVALID_SESSION_ID && !self.sessions.contains_key(&id) {
                self.sessions.insert(id, session);
                return id;
            }
        }
        INVALID_SESSION_ID
    }

    /// Drops the sessions of followers that are gone: a follower that lives asks within its long poll. Without that they
    /// would keep their slots, and their partitions in memory, until all slots are taken. Consumers may be silent for long.
    fn reap(&mut self, now_ms: i64) {
        if now_ms.saturating_sub(self.reaped_ms) < EVICTION_MS_MIN / 4 {
            return;
        }
        self.reaped_ms = now_ms;
        let before = self.sessions.len();
        self.sessions.retain(|_, session| {
            !session.privileged || now_ms - session.last_used_ms <= EVICTION_MS_MIN
        });
        self.evictions += (before - self.sessions.len()) as u64;
    }

    /// Makes room: a session idle for long; else, for a follower, a consumer's; else an old and smaller one.
    fn try_evict(&mut self, now_ms: i64, privileged: bool, partitions: usize) -> bool {
        let idle = self
            .sessions
            .iter()
            .min_by_key(|(_, session)| session.last_used_ms)
            .filter(|(_, session)| now_ms - session.last_used_ms > EVICTION_MS_MIN)
            .map(|(id, _)| *id);
        let victim = idle.or_else(|| {
            self.sessions
                .iter()
                .filter(|(_, session)| {
                    let old = now_ms - session.created_ms > EVICTION_MS_MIN;
                    let smaller = old && session.order.len() < partitions;
                    match (privileged, session.privileged) {
                        (true, false) => true,
                        (false, true) => false,
                        (true, true) | (false, false) => smaller,
                    }
                })
                .min_by_key(|(_, session)| (session.privileged, session.order.len()))
                .map(|(id, _)| *id)
        });
        match victim {
            Some(id) => {
                self.sessions.remove(&id);
                self.evictions += 1;
                true
            }
            None => false,
        }
    }
}

fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        i32::MAX => 1,
        epoch if epoch < 0 => FINAL_EPOCH,
        epoch => epoch + 1,
    }
}

#[cfg(test)]
#[path = "fetch_session_test.rs"]
mod fetch_session_test;
