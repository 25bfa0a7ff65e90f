//! Whether replication of this partition is throttled, as leader or as follower, and what it has used.
//! Not here: the limits (replica/throttle.rs, kavka_replication::Throttle).
//! The limit's mutex is taken inside the partition's, and for throttled replicas only.
//! Kafka: ReplicaManager.shouldLeaderThrottle, ReplicaFetcherThread.shouldFollowerThrottle; KIP-73.

use super::{FetchingReplica, Partition, Role};

/// How soon a lifted limit is noticed.
const HOLD_MS_MAX: i64 = 500;

impl Partition {
    fn throttles_as_leader(&self) -> bool {
        let partition = self.id.topic_partition.partition;
        let settings = self.settings.load();
        settings
            .leader_throttled
            .contains(partition, self.local.get())
    }

    fn throttles_as_follower(&self) -> bool {
        let partition = self.id.topic_partition.partition;
        let settings = self.settings.load();
        settings
            .follower_throttled
            .contains(partition, self.local.get())
    }

    /// Whether a follower gets no records now. Those in sync do: `acks=all` waits for them.
    pub(super) fn is_held_back(&self, replica: Option<FetchingReplica>, role: &Role) -> bool {
        let (Some(replica), Role::Leader(leader)) = (replica, role) else {
            return false;
        };
        self.throttles_as_leader()
            && !leader.registration().isr.contains(&replica.replica_id)
            && self
                .throttles
                .leader
                .lock()
                .is_exceeded(self.clock.monotonic_ms())
    }

    /// Followers were given so much.
    pub fn charge_leader(&self, bytes: usize) {
        if bytes > 0 && self.throttles_as_leader() {
            let now_ms = self.clock.monotonic_ms();
            self.throttles.leader.lock().charge(now_ms, bytes);
        }
    }

    /// This follower was given so much.
    pub fn charge_follower(&self, bytes: usize) {
        if bytes > 0 && self.throttles_as_follower() {
            let now_ms = self.clock.monotonic_ms();
            self.throttles.follower.lock().charge(now_ms, bytes);
        }
    }

    /// Until when this replica fetches nothing if it lags; `None` while it may. Never far ahead: the limit may be lifted.
    pub fn follower_held_until(&self) -> Option<i64> {
        if !self.throttles_as_follower() {
            return None;
        }
        let now_ms = self.clock.monotonic_ms();
        let resume_ms = self.throttles.follower.lock().resume_ms(now_ms);
        (resume_ms > now_ms).then_some(resume_ms.min(now_ms + HOLD_MS_MAX))
    }
}
