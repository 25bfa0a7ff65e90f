//! The follower's end of a fetch session: which partitions the leader has on its list, and with which position.
//! Not here: the leader's end (fetch_session.rs), which partitions are worth fetching (fetcher.rs).
//! Inside a fetcher. Kafka: FetchSessionHandler; KIP-227.

use super::{FetchPlan, FetchPosition};
use crate::fetch_session::{FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID};
use kavka_common::TopicIdPartition;
use std::collections::{BTreeMap, BTreeSet};

/// Why the leader does not take a request as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFault {
    /// The session was evicted, or was another incarnation's.
    NotFound,
    /// The two ends disagree about the session.
    OutOfStep,
    /// Nothing that a session could be blamed for.
    Other,
}

pub(super) type Asked = BTreeMap<TopicIdPartition, FetchPosition>;

/// What the leader is believed to remember.
#[derive(Debug)]
pub(super) struct FollowerSession {
    session_id: i32,
    /// Of the next request.
    session_epoch: i32,
    /// What was last asked for each partition of the session.
    asked: Asked,
    /// Those of a full request, which its answer must name all.
    full_request: bool,
}

impl Default for FollowerSession {
    fn default() -> Self {
        FollowerSession {
            session_id: INVALID_SESSION_ID,
            session_epoch: INITIAL_EPOCH,
            asked: BTreeMap::new(),
            full_request: false,
        }
    }
}

impl FollowerSession {
    /// The next request begins a session.
    pub(super) fn is_new(&self) -> bool {
        self.session_epoch == INITIAL_EPOCH
    }

    /// Nobody knows how far the leader got with the last request.
    pub(super) fn lost(&mut self) {
        self.close_and_begin_anew();
    }

    pub(super) fn refused(&mut self, fault: SessionFault) {
        match fault {
            SessionFault::NotFound => *self = FollowerSession::default(),
            SessionFault::OutOfStep | SessionFault::Other => self.close_and_begin_anew(),
        }
    }

    /// The next full request names the session, so that the leader closes it: a follower's sessions leave their slots to
    /// no consumer, and would be left there one for each lost connection.
    fn close_and_begin_anew(&mut self) {
        self.session_epoch = INITIAL_EPOCH;
        self.asked.clear();
    }

    pub(super) fn full<'a>(
        &mut self,
        wanted: impl Iterator<Item = (&'a TopicIdPartition, FetchPosition)>,
    ) -> FetchPlan {
        self.asked = wanted
            .map(|(id, position)| (id.clone(), position))
            .collect();
        self.full_request = true;
        // the id is kept until the answer brings another: the leader may never see this request
        FetchPlan {
            session_id: self.session_id,
            session_epoch: INITIAL_EPOCH,
            wait_ms: 0,
            partitions: self.asked.iter().map(|(id, p)| (id.clone(), *p)).collect(),
            forgotten: Vec::new(),
        }
    }

    /// `changed` tells of each partition that may have changed what is wanted of it now, if anything.
    pub(super) fn incremental(
        &mut self,
        changed: impl Iterator<Item = (Option<FetchPosition>, TopicIdPartition)>,
    ) -> FetchPlan {
        let mut plan = FetchPlan {
            session_id: self.session_id,
            session_epoch: self.session_epoch,
            wait_ms: 0,
            partitions: Vec::new(),
            forgotten: Vec::new(),
        };
        for (wanted, id) in changed {
            match wanted {
                Some(position) => {
                    if self.asked.insert(id.clone(), position) != Some(position) {
                        plan.partitions.push((id, position));
                    }
                }
                None => {
                    if self.asked.remove(&id).is_some() {
                        plan.forgotten.push(id);
                    }
                }
            }
        }
        self.full_request = false;
        plan
    }

    /// A good answer: gives what each partition was asked for, to be given back by `keep`. An answer that does not fit
    /// what was asked shows that the two ends disagree: what it holds is still good, the session is not.
    pub(super) fn answered(
        &mut self,
        session_id: i32,
        named: &BTreeSet<&TopicIdPartition>,
    ) -> Asked {
        let strange = named.iter().any(|id| !self.asked.contains_key(*id));
        let missing = self.full_request && named.len() < self.asked.len();
        let other = !self.full_request && session_id != self.session_id;
        self.session_id = session_id;
        if session_id == INVALID_SESSION_ID || strange || missing || other {
            self.session_epoch = INITIAL_EPOCH;
        } else {
            self.session_epoch = match self.session_epoch {
                i32::MAX => 1,
                session_epoch => session_epoch + 1,
            };
            assert!(self.session_epoch != FINAL_EPOCH);
        }
        std::mem::take(&mut self.asked)
    }

    pub(super) fn keep(&mut self, asked: Asked) {
        self.asked = asked;
    }
}
