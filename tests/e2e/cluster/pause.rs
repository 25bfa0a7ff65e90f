//! SIGSTOP: a process that is neither dead nor alive, and comes back believing that it still leads.
//! Not here: a network that stops (partition).
//! Faults F09 and F10. Kafka: round_trip_fault_test.py; KAFKA-13636.

use super::{Ordeal, rounds};
use kavka_testkit::{ClusterSpec, Sandbox};
use std::time::{Duration, Instant};

#[test]
fn a_paused_leader_is_replaced_and_cannot_acknowledge_when_it_wakes() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "a_paused_leader_is_replaced", &spec);
    for _ in 0..rounds(1, 8) {
        let partition = usize::try_from(ordeal.seed.below(3)).expect("small");
        let leader = ordeal.leader_of(partition);
        ordeal.cluster.pause(leader);
        ordeal.await_leaders_without(leader);
        ordeal.go_on(50);
        ordeal.cluster.resume(leader);
        ordeal.in_sync();
    }
    ordeal.end(200);
}

#[test]
fn all_are_paused_longer_than_their_sessions() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient();
    let ordeal = Ordeal::begin(&sandbox, "all_are_paused", &spec);
    for _ in 0..rounds(1, 3) {
        for id in ordeal.cluster.brokers() {
            ordeal.cluster.pause(id);
        }
        // Nothing can be asked meanwhile: only time tells that the sessions are over.
        let end = Instant::now() + Duration::from_secs(u64::from(rounds(5, 30)));
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        for id in ordeal.cluster.brokers() {
            ordeal.cluster.resume(id);
        }
        ordeal.go_on(100);
    }
    ordeal.end(200);
}
