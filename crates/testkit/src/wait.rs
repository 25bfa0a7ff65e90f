//! Waiting for a condition until a deadline.
//! Not here: waiting for a process's words or end (process.rs), which needs no polling.
//! Runs in the test's own thread.

use std::time::{Duration, Instant};

/// For anything that takes well under a second on an idle machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// Asks again and again until the answer is `Ok`; panics with the last refusal when the deadline has passed.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let refusal = match ask() {
            Ok(answer) => return answer,
            Err(refusal) => refusal,
        };
        assert!(
            Instant::now() < deadline,
            "{what}: not within {DEADLINE:?}; at the end: {refusal}"
        );
        std::thread::sleep(PAUSE);
    }
}
