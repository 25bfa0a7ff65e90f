//! Group flush of one partition: concurrent callers share one fsync.
//! Not here: what is fsynced (kavka_storage::FlushTicket), when (append.rs by `flush.messages`, maintenance.rs by `flush.ms`).
//! The ticket is taken and completed under the partition's lock; the fsync runs on the blocking pool outside it.
//! Kafka: UnifiedLog.flush; KAFKA-15046.

use super::Partition;
use crate::replica::error::ReplicaError;
use crate::replica::purgatory::Waiter;
use kavka_common::Offset;
use kavka_storage::{FlushTicket, StorageError};
use std::sync::Arc;

impl Partition {
    /// Makes everything below `offset` durable. Concurrent callers share one fsync, which runs on the blocking pool and
    /// goes on when its caller is gone.
    pub async fn flush_to(self: &Arc<Self>, offset: Offset) -> Result<(), ReplicaError> {
        let waiter = Waiter::new();
        loop {
            let ticket = {
                let mut guard = self.state.lock();
                let state = &mut *guard;
                let log = state
                    .log
                    .as_mut()
                    .ok_or(ReplicaError::NotLeaderOrFollower)?;
                if log.recovery_point() >= offset.min(log.log_end_offset()) {
                    return Ok(());
                }
                if state.flushing {
                    state.flush_waiters.add(&waiter);
                    None
                } else {
                    let ticket = log.begin_flush()?;
                    state.flushing = true;
                    Some(ticket)
                }
            };
            let Some(ticket) = ticket else {
                waiter.wait().await;
                continue;
            };
            let this = Arc::clone(self);
            match tokio::task::spawn_blocking(move || this.run_flush(ticket)).await {
                Ok(outcome) => outcome?,
                // the runtime is shutting down; nothing was promised
                Err(_) => return Err(ReplicaError::NotLeaderOrFollower),
            }
        }
    }

    /// Makes everything that is in the log now durable, on a thread that may block. Does nothing while another flush is
    /// under way.
    pub fn flush_blocking(&self) -> Result<(), ReplicaError> {
        let ticket = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            let log = state
                .log
                .as_mut()
                .ok_or(ReplicaError::NotLeaderOrFollower)?;
            if state.flushing {
                return Ok(());
            }
            let ticket = log.begin_flush()?;
            state.flushing = true;
            ticket
        };
        Ok(self.run_flush(ticket)?)
    }

    fn run_flush(&self, ticket: FlushTicket) -> Result<(), StorageError> {
        let outcome = ticket.run();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.flushing = false;
        state.last_flush_ms = self.clock.monotonic_ms();
        match (&outcome, &mut state.log) {
            (Ok(()), Some(log)) => log.complete_flush(ticket),
            (Err(e), Some(log)) => log.note_failed_flush(&ticket, e),
            (Ok(()) | Err(_), None) => {}
        }
        let woken = state.flush_waiters.take();
        drop(guard);
        woken.wake();
        outcome
    }

    /// Whether `flush.ms` has passed over unflushed records.
    pub(in crate::replica) fn flush_is_due(&self) -> Option<Offset> {
        let now_ms = self.clock.monotonic_ms();
        let state = self.state.lock();
        let log = state.log.as_ref()?;
        let due =
            log.unflushed_records() > 0 && now_ms - state.last_flush_ms >= log.config().flush_ms;
        due.then(|| log.log_end_offset())
    }
}
