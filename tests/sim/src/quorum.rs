//! A model of the consensus engine behind the metadata quorum: terms, votes, a replicated log whose tails get lost.
//! Not here: what the records mean (controller_node.rs). The engine itself is openraft, which has tests of its own; the
//! votes go through the broker's own vote file on the simulated disk.
//! One node's share; driven by messages and timers. Kafka: KafkaRaftClient; the algorithm is Raft (Ongaro, Ousterhout).

use crate::context::Context;
use crate::message::{Address, Message, Timer};
use kavka_broker::quorum::types::Vote;
use kavka_broker::quorum::vote_file::VoteFile;
use kavka_common::{LeaderEpoch, Offset};
use kavka_metadata::MetadataRecord;
use kavka_storage::testing::{Loss, SimVfs};
use kavka_storage::vfs::Vfs;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/metadata";
pub const HEARTBEAT_MS: i64 = 60;
const ELECTION_MS_MIN: i64 = 200;

/// One batch of the metadata log. A leader's first entry has no records, and takes an offset all the same.
#[derive(Debug, PartialEq)]
pub struct Entry {
    pub term: u64,
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub records: Vec<MetadataRecord>,
}

impl Entry {
    pub fn epoch(&self) -> LeaderEpoch {
        LeaderEpoch(i32::try_from(self.term).unwrap_or(i32::MAX))
    }
}

#[derive(Clone, Debug)]
pub enum RaftMessage {
    RequestVote {
        term: u64,
        last_term: u64,
        log_end_offset: Offset,
    },
    Voted {
        term: u64,
        granted: bool,
    },
    Append {
        term: u64,
        previous_term: u64,
        previous_end: Offset,
        entries: Vec<Arc<Entry>>,
        committed_end: Offset,
    },
    /// `end` is how far the logs agree, or where the leader should try next.
    Appended {
        term: u64,
        success: bool,
        end: Offset,
    },
}

impl RaftMessage {
    pub fn digest(&self) -> (&'static str, i64, i64) {
        let wide = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        match self {
            RaftMessage::RequestVote {
                term,
                log_end_offset,
                ..
            } => ("request-vote", wide(*term), *log_end_offset),
            RaftMessage::Voted { term, granted } => ("voted", wide(*term), i64::from(*granted)),
            RaftMessage::Append {
                term,
                previous_end,
                entries,
                ..
            } => (
                "append-entries",
                wide(*term),
                *previous_end * 100 + i64::try_from(entries.len()).unwrap_or(0),
            ),
            RaftMessage::Appended { term, success, end } => (
                "appended-entries",
                wide(*term),
                *end * 2 + i64::from(*success),
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Follower,
    Candidate,
    Leader,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    next: Offset,
    matched: Offset,
}

/// One member of the quorum.
#[derive(Debug)]
pub struct Quorum {
    pub id: Address,
    voters: Vec<Address>,
    disk: SimVfs,
    pub term: u64,
    voted_for: Option<u64>,
    /// Entries are durable when appended: the model has no page cache under its log.
    pub log: Vec<Arc<Entry>>,
    pub committed_end: Offset,
    pub role: Role,
    pub leader: Option<Address>,
    votes: BTreeSet<Address>,
    peers: BTreeMap<Address, Peer>,
    heard_ms: i64,
    election_after_ms: i64,
}

fn raw(id: Address) -> u64 {
    u64::try_from(id).unwrap_or(0)
}

impl Quorum {
    pub fn new(id: Address, voters: Vec<Address>) -> Quorum {
        let disk = SimVfs::untraced();
        // a simulated disk that is new takes what it is given
        let _ = disk.create_dir_all(Path::new(DIR));
        let _ = disk.sync_dir(Path::new("/"));
        Quorum {
            id,
            voters,
            disk,
            term: 0,
            voted_for: None,
            log: Vec::new(),
            committed_end: 0,
            role: Role::Follower,
            leader: None,
            votes: BTreeSet::new(),
            peers: BTreeMap::new(),
            heard_ms: 0,
            election_after_ms: 0,
        }
    }

    fn vote_file(&self) -> VoteFile {
        VoteFile::new(Arc::new(self.disk.clone()), Path::new(DIR))
    }

    pub fn log_end_offset(&self) -> Offset {
        self.log.last().map_or(0, |entry| entry.last_offset + 1)
    }

    fn last_term(&self) -> u64 {
        self.log.last().map_or(0, |entry| entry.term)
    }

    /// Comes up after a crash with this loss, or for the first time.
    pub fn start(&mut self, context: &mut Context<'_>, loss: Loss) {
        self.disk = self.disk.after_crash(loss);
        let vote = self.vote_file().read().unwrap_or(None);
        self.term = vote
            .map_or(0, |vote| vote.leader_id.term)
            .max(self.last_term());
        self.voted_for = vote
            .filter(|vote| vote.leader_id.term == self.term)
            .and_then(|vote| vote.leader_id.voted_for);
        self.role = Role::Follower;
        self.leader = None;
        self.committed_end = 0;
        self.peers.clear();
        self.wait_for_leader(context);
        context.timer(10, Timer::Election);
    }

    fn wait_for_leader(&mut self, context: &mut Context<'_>) {
        self.heard_ms = context.now;
        self.election_after_ms = ELECTION_MS_MIN + context.below(context.plan.election_spread_ms);
    }

    fn store_vote(&mut self, vote: &Vote) {
        // the model's disk has neither errors nor limits
        assert!(self.vote_file().write(vote).is_ok());
    }

    pub fn on_timer(&mut self, context: &mut Context<'_>, timer: Timer) {
        match timer {
            Timer::Election => {
                if self.role != Role::Leader
                    && context.now - self.heard_ms >= self.election_after_ms
                {
                    self.stand(context);
                }
                let again_ms = 20 + context.below(10);
                context.timer(again_ms, Timer::Election);
            }
            Timer::RaftHeartbeat if self.role == Role::Leader => {
                self.replicate(context);
                context.timer(HEARTBEAT_MS, Timer::RaftHeartbeat);
            }
            _ => {}
        }
    }

    fn stand(&mut self, context: &mut Context<'_>) {
        self.term += 1;
        self.role = Role::Candidate;
        self.leader = None;
        self.voted_for = Some(raw(self.id));
        self.store_vote(&Vote::new(self.term, raw(self.id)));
        self.votes = BTreeSet::from([self.id]);
        self.wait_for_leader(context);
        let request = RaftMessage::RequestVote {
            term: self.term,
            last_term: self.last_term(),
            log_end_offset: self.log_end_offset(),
        };
        self.send_all(context, &request);
        self.count_votes(context);
    }

    fn send_all(&self, context: &mut Context<'_>, message: &RaftMessage) {
        for voter in self.voters.iter().filter(|voter| **voter != self.id) {
            context.send(*voter, Message::Raft(message.clone()));
        }
    }

    fn is_majority(&self, count: usize) -> bool {
        count * 2 > self.voters.len()
    }

    fn count_votes(&mut self, context: &mut Context<'_>) {
        if self.role != Role::Candidate || !self.is_majority(self.votes.len()) {
            return;
        }
        self.role = Role::Leader;
        self.leader = Some(self.id);
        context.oracle.led(context.now, self.term, self.id);
        let end = self.log_end_offset();
        let others = self.voters.iter().filter(|voter| **voter != self.id);
        self.peers = others
            .map(|voter| {
                let peer = Peer {
                    next: end,
                    matched: 0,
                };
                (*voter, peer)
            })
            .collect();
        self.append(context, Vec::new());
        context.timer(HEARTBEAT_MS, Timer::RaftHeartbeat);
    }

    /// A leader's next entry.
    pub fn append(&mut self, context: &mut Context<'_>, records: Vec<MetadataRecord>) {
        assert!(self.role == Role::Leader);
        let base_offset = self.log_end_offset();
        let count = Offset::try_from(records.len().max(1)).unwrap_or(1);
        self.log.push(Arc::new(Entry {
            term: self.term,
            base_offset,
            last_offset: base_offset + count - 1,
            records,
        }));
        self.commit();
        self.replicate(context);
    }

    /// How many entries end at or before `end`.
    fn entries_before(&self, end: Offset) -> usize {
        self.log.partition_point(|entry| entry.last_offset < end)
    }

    fn term_before(&self, end: Offset) -> Option<u64> {
        match self.entries_before(end) {
            0 => (end == 0).then_some(0),
            count => {
                let entry = &self.log[count - 1];
                (entry.last_offset + 1 == end).then_some(entry.term)
            }
        }
    }

    fn replicate(&mut self, context: &mut Context<'_>) {
        for (address, peer) in &self.peers {
            let from = self.entries_before(peer.next);
            let entries = self.log[from..].iter().take(8).cloned().collect();
            let message = RaftMessage::Append {
                term: self.term,
                previous_term: self.term_before(peer.next).unwrap_or(0),
                previous_end: peer.next,
                entries,
                committed_end: self.committed_end,
            };
            context.send(*address, Message::Raft(message));
        }
    }

    fn commit(&mut self) {
        let mut ends: Vec<Offset> = self.peers.values().map(|peer| peer.matched).collect();
        ends.push(self.log_end_offset());
        ends.sort_unstable();
        // the highest end that a majority has
        let agreed = ends[(ends.len() - 1) / 2];
        // Raft, 5.4.2: only entries of the own term are counted, those before come along
        if agreed > self.committed_end && self.term_before(agreed) == Some(self.term) {
            self.committed_end = agreed;
        }
    }

    fn step_down(&mut self, context: &mut Context<'_>, term: u64) {
        if term > self.term {
            self.term = term;
            self.voted_for = None;
        }
        if self.role != Role::Follower {
            self.role = Role::Follower;
            self.wait_for_leader(context);
        }
    }

    pub fn on_message(&mut self, context: &mut Context<'_>, from: Address, message: RaftMessage) {
        match message {
            RaftMessage::RequestVote {
                term,
                last_term,
                log_end_offset,
            } => {
                if term > self.term {
                    self.leader = None;
                    self.step_down(context, term);
                }
                let up_to_date =
                    (last_term, log_end_offset) >= (self.last_term(), self.log_end_offset());
                let free = self.voted_for.is_none_or(|voted| voted == raw(from));
                let granted =
                    term == self.term && self.role == Role::Follower && free && up_to_date;
                if granted {
                    self.voted_for = Some(raw(from));
                    self.store_vote(&Vote::new(self.term, raw(from)));
                    self.wait_for_leader(context);
                    context.voted = true;
                }
                let term = self.term;
                context.send(from, Message::Raft(RaftMessage::Voted { term, granted }));
            }
            RaftMessage::Voted { term, granted } => {
                if term > self.term {
                    self.step_down(context, term);
                } else if term == self.term && granted {
                    self.votes.insert(from);
                    self.count_votes(context);
                }
            }
            RaftMessage::Append {
                term,
                previous_term,
                previous_end,
                entries,
                committed_end,
            } => {
                let newer = term > self.term;
                if newer || (term == self.term && self.role != Role::Leader) {
                    self.follow(context, from, term);
                }
                let (success, end) = if term < self.term || self.role == Role::Leader {
                    (false, self.log_end_offset())
                } else {
                    self.take(previous_term, previous_end, &entries, committed_end)
                };
                let term = self.term;
                context.send(
                    from,
                    Message::Raft(RaftMessage::Appended { term, success, end }),
                );
            }
            RaftMessage::Appended { term, success, end } => {
                if term > self.term {
                    self.step_down(context, term);
                    return;
                }
                if term < self.term || self.role != Role::Leader {
                    return;
                }
                let log_end = self.log_end_offset();
                let Some(peer) = self.peers.get_mut(&from) else {
                    return;
                };
                if success {
                    peer.matched = peer.matched.max(end);
                    peer.next = peer.next.max(peer.matched);
                    self.commit();
                } else {
                    peer.next = end.min(log_end).max(peer.matched);
                }
                if self.peers[&from].next < self.log_end_offset() {
                    self.replicate(context);
                }
            }
        }
    }

    fn follow(&mut self, context: &mut Context<'_>, leader: Address, term: u64) {
        self.step_down(context, term);
        self.wait_for_leader(context);
        if self.leader != Some(leader) || self.voted_for != Some(raw(leader)) {
            self.leader = Some(leader);
            self.voted_for = Some(raw(leader));
            // before anything is acknowledged to this leader: an earlier one must not be followed after a restart
            self.store_vote(&Vote::new_committed(self.term, raw(leader)));
        }
    }

    fn take(
        &mut self,
        previous_term: u64,
        previous_end: Offset,
        entries: &[Arc<Entry>],
        committed_end: Offset,
    ) -> (bool, Offset) {
        if self.term_before(previous_end) != Some(previous_term) {
            // one entry back, or to our end
            let count = self.entries_before(previous_end);
            let back = match count {
                0 => 0,
                count => self.log[count - 1].base_offset,
            };
            return (false, back.min(self.log_end_offset()));
        }
        let mut end = previous_end;
        for entry in entries {
            let at = self.entries_before(end);
            match self.log.get(at) {
                Some(ours) if ours.term == entry.term => {
                    assert!(**ours == **entry, "one term, one leader, one log");
                }
                _ => {
                    self.log.truncate(at);
                    self.log.push(Arc::clone(entry));
                }
            }
            end = entry.last_offset + 1;
        }
        self.committed_end = self.committed_end.max(committed_end.min(end));
        (true, end)
    }

    /// Committed entries from this offset on.
    pub fn committed_from(&self, offset: Offset) -> &[Arc<Entry>] {
        let until = self.entries_before(self.committed_end);
        let from = self.entries_before(offset).min(until);
        &self.log[from..until]
    }

    /// Whether an entry of that term at that offset is in the log.
    pub fn holds(&self, base_offset: Offset, term: u64) -> bool {
        let at = self
            .log
            .partition_point(|entry| entry.base_offset < base_offset);
        self.log
            .get(at)
            .is_some_and(|entry| entry.base_offset == base_offset && entry.term == term)
    }
}
