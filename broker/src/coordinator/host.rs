//! One shard on its partition: appends what it writes, replays what is committed, answers who waits.
//! Not here: which partitions are hosted (groups), reading the log back (loader).
//! Calls run under the host's lock, briefly and never across `.await`; the driver task runs timers and waits for the
//! high watermark. Lock order: host → partition.
//! Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime (CoordinatorContext, deferred events).

use crate::coordinator::record::LogRecord;
use crate::coordinator::{failed_write, write_error};
use crate::replica::{Acks, InDoubt, Partition, acknowledged};
use kavka_common::{Clock, LeaderEpoch};
use kavka_coordinator::{Now, Outcome, Shard, Token, Write, WriteId};
use kavka_protocol::ErrorCode;
use kavka_records::{BatchBuilder, BatchOptions};
use kavka_replication::AcksState;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Records that are in the log and not committed yet.
struct InFlight<R> {
    id: WriteId,
    records: Vec<R>,
    append: InDoubt,
    deadline_ms: i64,
}

enum Phase {
    /// The log is being read; requests are told to come again.
    Loading,
    Active,
    /// Another broker's, a later leadership's of this broker, or nobody's.
    Gone,
}

struct HostState<S: Shard> {
    shard: S,
    phase: Phase,
    next_token: u64,
    waiting: BTreeMap<Token, oneshot::Sender<S::Response>>,
    in_flight: VecDeque<InFlight<S::Record>>,
}

/// A shard with its partition.
pub struct Host<S: Shard> {
    partition: Arc<Partition>,
    /// The leadership that this host belongs to: it reads and writes in no other epoch, because what the log holds
    /// after a later election may differ from what was replayed here.
    leader_epoch: LeaderEpoch,
    clock: Arc<dyn Clock>,
    /// `offsets.commit.timeout.ms`: how long a write may stay uncommitted.
    commit_timeout_ms: i64,
    state: Mutex<HostState<S>>,
    changed: Notify,
}

impl<S> Host<S>
where
    S: Shard + Send + 'static,
    S::Record: LogRecord,
    S::Response: Send + 'static,
{
    /// In the phase of loading: see [`Host::activate`].
    pub fn new(
        shard: S,
        partition: Arc<Partition>,
        leader_epoch: LeaderEpoch,
        clock: Arc<dyn Clock>,
        commit_timeout_ms: i64,
    ) -> Arc<Self> {
        Arc::new(Host {
            partition,
            leader_epoch,
            clock,
            commit_timeout_ms,
            state: Mutex::new(HostState {
                shard,
                phase: Phase::Loading,
                next_token: 0,
                waiting: BTreeMap::new(),
                in_flight: VecDeque::new(),
            }),
            changed: Notify::new(),
        })
    }

    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    fn now(&self) -> Now {
        Now {
            wall_ms: self.clock.wall_ms(),
            monotonic_ms: self.clock.monotonic_ms(),
        }
    }

    /// Hands a request to the shard; the answer comes through the receiver. Requests are decided in the order of
    /// these calls.
    pub fn submit(&self, request: S::Request) -> Result<oneshot::Receiver<S::Response>, ErrorCode> {
        let (sender, receiver) = oneshot::channel();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        match state.phase {
            Phase::Active => {}
            Phase::Loading => return Err(ErrorCode::CoordinatorLoadInProgress),
            Phase::Gone => return Err(ErrorCode::NotCoordinator),
        }
        let token = Token(state.next_token);
        state.next_token += 1;
        state.waiting.insert(token, sender);
        let outcome = state.shard.handle(self.now(), token, request);
        self.settle(state, outcome);
        drop(guard);
        self.changed.notify_one();
        Ok(receiver)
    }

    /// Looks at the shard.
    pub fn read<T>(&self, look: impl FnOnce(&S) -> T) -> Result<T, ErrorCode> {
        let state = self.state.lock();
        match state.phase {
            Phase::Active => Ok(look(&state.shard)),
            Phase::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Phase::Gone => Err(ErrorCode::NotCoordinator),
        }
    }

    /// Applies a record that was read from the log. False when nobody needs it any more.
    pub(super) fn replay(&self, record: S::Record) -> bool {
        let mut state = self.state.lock();
        let loading = matches!(state.phase, Phase::Loading);
        if loading {
            state.shard.replay(record);
        }
        loading
    }

    /// The log is read: requests are served from now on. False when the leadership ended meanwhile.
    pub(super) fn activate(&self) -> bool {
        let now = self.now();
        let mut state = self.state.lock();
        let loading = matches!(state.phase, Phase::Loading);
        if loading {
            state.shard.loaded(now);
            state.phase = Phase::Active;
        }
        drop(state);
        self.changed.notify_one();
        loading
    }

    /// The partition is led elsewhere or gone: who waits is told, the driver ends.
    pub fn unload(&self) {
        Self::end(&mut self.state.lock());
        self.changed.notify_one();
    }

    fn end(state: &mut HostState<S>) {
        state.phase = Phase::Gone;
        state.in_flight.clear();
        for (token, response) in state.shard.unload() {
            if let Some(sender) = state.waiting.remove(&token) {
                // The connection may be gone.
                let _ = sender.send(response);
            }
        }
        // Dropped senders tell the rest that the coordinator is not here.
        state.waiting.clear();
    }

    /// Sends what is decided and appends what is to be written, until nothing more follows from it.
    fn settle(&self, state: &mut HostState<S>, outcome: Outcome<S::Record, S::Response>) {
        let mut outcomes = VecDeque::from([outcome]);
        let mut fenced = false;
        while let Some(outcome) = outcomes.pop_front() {
            for (token, response) in outcome.replies {
                if let Some(sender) = state.waiting.remove(&token) {
                    let _ = sender.send(response);
                }
            }
            for write in outcome.writes {
                if let Some((id, result)) = self.append(state, write) {
                    fenced |= ends_leadership(result);
                    outcomes.push_back(state.shard.write_done(self.now(), id, result));
                }
            }
        }
        if fenced {
            Self::end(state);
        }
    }

    /// Appends records. Gives the result if it is known at once.
    fn append(
        &self,
        state: &mut HostState<S>,
        write: Write<S::Record>,
    ) -> Option<(WriteId, Result<(), ErrorCode>)> {
        let appended = match self.append_batch(&write.records) {
            Ok(appended) => appended,
            Err(code) => return Some((write.id, Err(code))),
        };
        let committed = state.in_flight.is_empty()
            && !appended.must_flush
            && matches!(
                self.partition
                    .acks_state(appended.required_offset, appended.leader_epoch, None),
                Ok(AcksState::Done)
            );
        if committed {
            for record in write.records {
                state.shard.replay(record);
            }
            return Some((write.id, Ok(())));
        }
        state.in_flight.push_back(InFlight {
            id: write.id,
            records: write.records,
            append: appended,
            deadline_ms: self.clock.monotonic_ms() + self.commit_timeout_ms,
        });
        None
    }

    /// The error is as a client is told it.
    fn append_batch(&self, records: &[S::Record]) -> Result<InDoubt, ErrorCode> {
        let now_ms = self.clock.wall_ms();
        let settings = self.partition.settings();
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for record in records {
            let (key, value) = record.to_log().map_err(|e| {
                tracing::error!(target: "kafka.coordinator", "A record for {} cannot be encoded: {e}", self.partition.topic_partition());
                ErrorCode::UnknownServerError
            })?;
            builder
                .append(now_ms, Some(&key), value.as_deref(), [])
                .map_err(|_| ErrorCode::UnknownServerError)?;
        }
        let batch = builder.build().map_err(|_| ErrorCode::UnknownServerError)?;
        if batch.len() > settings.max_message_bytes {
            return Err(write_error(ErrorCode::RecordListTooLarge));
        }
        let appended = self
            .partition
            .append_as_coordinator(&batch, self.leader_epoch, now_ms)
            .map_err(|e| failed_write(&e))?;
        Ok(InDoubt {
            partition: Arc::clone(&self.partition),
            required_offset: appended.info.last_offset + 1,
            leader_epoch: appended.leader_epoch,
            must_flush: appended.must_flush,
        })
    }

    /// Runs timers and commits until the host is unloaded. One task per host.
    pub async fn drive(self: Arc<Self>) {
        loop {
            let (deadline_ms, front) = {
                let state = self.state.lock();
                match state.phase {
                    Phase::Gone => return,
                    Phase::Loading => (None, None),
                    Phase::Active => (
                        state.shard.next_deadline_ms(),
                        state
                            .in_flight
                            .front()
                            .map(|write| (write.append.clone(), write.deadline_ms)),
                    ),
                }
            };
            let now_ms = self.clock.monotonic_ms();
            let until =
                |due_ms: i64| Duration::from_millis(u64::try_from(due_ms - now_ms).unwrap_or(0));
            let timer = async {
                match deadline_ms {
                    Some(due_ms) => tokio::time::sleep(until(due_ms)).await,
                    None => std::future::pending().await,
                }
            };
            let commit = async {
                match front {
                    Some((append, due_ms)) => {
                        acknowledged(&[append], Acks::All, (due_ms - now_ms).max(0)).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = timer => self.on_deadline(),
                results = commit => {
                    let result = results.into_iter().next().unwrap_or(Ok(()));
                    self.front_done(result.map_err(|e| failed_write(&e)));
                }
            }
        }
    }

    fn on_deadline(&self) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if matches!(state.phase, Phase::Active) {
            let outcome = state.shard.on_deadline(self.now());
            self.settle(state, outcome);
        }
    }

    fn front_done(&self, result: Result<(), ErrorCode>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if ends_leadership(result) {
            // Nobody here can know what becomes of the write: the next leader's log decides. Whoever loads it replays
            // what is in it.
            Self::end(state);
            return;
        }
        let Some(write) = state.in_flight.pop_front() else {
            return;
        };
        // A write that times out may still be committed later. Its records are replayed then too, because what the
        // log holds is what counts; only the caller is told that the outcome is unknown.
        for record in write.records {
            state.shard.replay(record);
        }
        let outcome = state.shard.write_done(self.now(), write.id, result);
        self.settle(state, outcome);
    }
}

/// Whether a write failed because this broker leads the partition no more, or has lost its log. The metadata may not
/// have said so yet.
fn ends_leadership(result: Result<(), ErrorCode>) -> bool {
    // As `failed_write` puts it.
    result == Err(ErrorCode::NotCoordinator)
}
