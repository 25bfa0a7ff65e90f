//! TCP ports that nobody uses, and that stay free while a server is down between two starts.
//! Not here: which listener gets which port (sandbox.rs).
//! Ports come from below the range that the kernel gives to outgoing connections, each to one process at a time.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
/// Linux gives out ports from 32768 on.
const COUNT: u32 = 22_000;
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port that nobody listens at. Two test processes start at different places, so that they rarely ask for the same.
pub fn free_port() -> u16 {
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + start.wrapping_add(step) % COUNT).expect("below 65536");
        if TcpListener::bind(("0.0.0.0", port)).is_ok() && TcpListener::bind(("::", port)).is_ok() {
            return port;
        }
    }
    panic!("no port between {FIRST} and {} is free", FIRST + COUNT);
}
