//! A limit on the bytes of replication in a second: what was sent is charged, and while there is debt nothing is sent.
//! Not here: which replicas it holds for (the topics' settings), measuring bytes.
//! Under its owner's lock. Kafka: ReplicationQuotaManager; KIP-73. There an average over sliding windows, here a bucket that
//! fills at the rate and holds one window's worth: the same rate in the long run, and no burst after a quiet time.

/// In thousandths of a byte, so that each millisecond adds something at any rate.
const MILLI: i128 = 1000;

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// `None`: no limit.
    bytes_per_second: Option<u64>,
    window_ms: u32,
    /// Negative while more was sent than the rate allows.
    balance: i128,
    filled_ms: i64,
}

impl Throttle {
    /// Without a limit. `window_ms` is `replication.quota.window.size.seconds`.
    pub fn new(window_ms: u32) -> Throttle {
        Throttle {
            bytes_per_second: None,
            window_ms,
            balance: 0,
            filled_ms: 0,
        }
    }

    pub fn set_rate(&mut self, now_ms: i64, bytes_per_second: Option<u64>) {
        if bytes_per_second == self.bytes_per_second {
            return;
        }
        // debts of another rate are not this one's
        self.bytes_per_second = bytes_per_second;
        self.balance = self.capacity();
        self.filled_ms = now_ms;
    }

    pub fn is_limited(&self) -> bool {
        self.bytes_per_second.is_some()
    }

    /// `bytes` have been sent or received.
    pub fn charge(&mut self, now_ms: i64, bytes: usize) {
        if self.is_limited() {
            self.fill(now_ms);
            self.balance -= MILLI * i128::try_from(bytes).unwrap_or(i128::MAX / MILLI);
        }
    }

    /// Whether nothing may be sent now.
    pub fn is_exceeded(&mut self, now_ms: i64) -> bool {
        self.fill(now_ms);
        self.is_limited() && self.balance <= 0
    }

    /// When something may be sent again; now, unless the limit is exceeded.
    pub fn resume_ms(&mut self, now_ms: i64) -> i64 {
        if !self.is_exceeded(now_ms) {
            return now_ms;
        }
        match self.bytes_per_second {
            Some(rate) if rate > 0 => {
                let wait_ms = -self.balance / i128::from(rate) + 1;
                now_ms.saturating_add(i64::try_from(wait_ms).unwrap_or(i64::MAX))
            }
            Some(_) | None => i64::MAX,
        }
    }

    fn capacity(&self) -> i128 {
        i128::from(self.bytes_per_second.unwrap_or(0)) * i128::from(self.window_ms)
    }

    fn fill(&mut self, now_ms: i64) {
        let passed_ms = i128::from(now_ms.saturating_sub(self.filled_ms).max(0));
        let added = i128::from(self.bytes_per_second.unwrap_or(0)) * passed_ms;
        self.balance = self.balance.saturating_add(added).min(self.capacity());
        self.filled_ms = self.filled_ms.max(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn debt_is_waited_for() {
        let mut throttle = Throttle::new(1000);
        throttle.charge(0, 1 << 40);
        assert!(!throttle.is_exceeded(0), "no limit yet");
        throttle.set_rate(100, Some(1000));
        throttle.charge(100, 900);
        assert!(!throttle.is_exceeded(100));
        throttle.charge(100, 600);
        assert!(throttle.is_exceeded(100));
        assert_eq!(throttle.resume_ms(100), 601);
        assert!(throttle.is_exceeded(600));
        assert!(!throttle.is_exceeded(601));
        // a quiet hour is not saved up
        throttle.charge(3_600_000, 2000);
        assert_eq!(throttle.resume_ms(3_600_000), 3_601_001);
        // the same rate once more forgives nothing, another one does
        throttle.set_rate(3_600_000, Some(1000));
        assert!(throttle.is_exceeded(3_600_000));
        throttle.set_rate(3_600_000, Some(0));
        assert_eq!(throttle.resume_ms(3_600_000), i64::MAX);
        throttle.set_rate(3_600_000, None);
        assert!(!throttle.is_exceeded(3_600_000));
    }

    proptest! {
        /// Whoever sends only when allowed stays at the rate, but for a window and one step.
        #[test]
        fn the_rate_holds(rate in 1u64..100_000, steps in proptest::collection::vec((0i64..50, 0usize..5_000), 1..300)) {
            let mut throttle = Throttle::new(1000);
            throttle.set_rate(0, Some(rate));
            let (mut now_ms, mut sent, mut largest) = (0, 0, 0);
            for (wait_ms, bytes) in steps {
                now_ms += wait_ms;
                if throttle.is_exceeded(now_ms) {
                    now_ms = throttle.resume_ms(now_ms);
                    prop_assert!(!throttle.is_exceeded(now_ms));
                }
                throttle.charge(now_ms, bytes);
                sent += bytes as u64;
                largest = largest.max(bytes as u64);
            }
            prop_assert!(sent <= rate * (now_ms as u64 + 1000) / 1000 + largest + 1);
        }
    }
}
