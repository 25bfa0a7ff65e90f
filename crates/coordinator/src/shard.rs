//! The seam between a coordinator's decisions and the runtime that appends its records.
//! Not here: any coordinator's rules.
//! Pure. Kafka: org.apache.kafka.coordinator.common.runtime.{CoordinatorShard, CoordinatorResult}.

use kavka_protocol::ErrorCode;

/// Names a request that waits for its answer; the runtime chose the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Names records that were handed out to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// The two times that a decision may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For what is stored and compared with stored times.
    pub wall_ms: i64,
    /// For timers.
    pub monotonic_ms: i64,
}

/// Records to append as one batch, in the order of their ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Write<R> {
    pub id: WriteId,
    pub records: Vec<R>,
}

/// What a decision asks of the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<R, S> {
    /// To be appended; each is reported back by [`Shard::write_done`].
    pub writes: Vec<Write<R>>,
    /// To be sent at once; they do not depend on the writes.
    pub replies: Vec<(Token, S)>,
}

impl<R, S> Default for Outcome<R, S> {
    fn default() -> Self {
        Outcome {
            writes: Vec::new(),
            replies: Vec::new(),
        }
    }
}

/// A coordinator's share of the keys: what one partition of its log holds.
///
/// Loading and live traffic are the same code: hard state changes only in [`Shard::replay`], which the runtime calls for
/// each record once it is committed, in log order, before it reports the write as done.
pub trait Shard {
    type Request;
    type Response;
    type Record;

    /// Decides on a request. Its answer comes now, on a later call, or when a write is done.
    fn handle(
        &mut self,
        now: Now,
        token: Token,
        request: Self::Request,
    ) -> Outcome<Self::Record, Self::Response>;

    /// Runs what is due.
    fn on_deadline(&mut self, now: Now) -> Outcome<Self::Record, Self::Response>;

    /// The monotonic time at which [`Shard::on_deadline`] wants to run next.
    fn next_deadline_ms(&self) -> Option<i64>;

    /// Applies a committed record.
    fn replay(&mut self, record: Self::Record);

    /// A write is committed, or did not happen.
    fn write_done(
        &mut self,
        now: Now,
        id: WriteId,
        result: Result<(), ErrorCode>,
    ) -> Outcome<Self::Record, Self::Response>;

    /// All records were replayed; builds the soft state.
    fn loaded(&mut self, now: Now);

    /// The shard moves away: every waiting request is answered.
    fn unload(&mut self) -> Vec<(Token, Self::Response)>;
}
