//! SIGTERM under load: leadership is handed over first, so that nobody waits for a session to end.
//! Not here: how long nobody leads (scripts/bench-failover), one broker alone (e2e/stop).
//! Fault F06. Kafka: replication_test.py, clean_bounce; controlled shutdown.

use super::{Ordeal, rounds};
use kavka_testkit::{ClusterSpec, Sandbox};
use rustix::process::Signal;

#[test]
fn brokers_are_stopped_in_turn() {
    let sandbox = Sandbox::new();
    // A session this long would be noticed: leadership has to move without it.
    let spec = ClusterSpec::combined(3)
        .impatient()
        .with("broker.session.timeout.ms", "60000");
    let mut ordeal = Ordeal::begin(&sandbox, "brokers_are_stopped_in_turn", &spec);
    for _ in 0..rounds(1, 5) {
        for id in ordeal.seed.shuffled(ordeal.cluster.brokers()) {
            // the second one is harmless
            ordeal.cluster.nodes[&id].server().signal(Signal::TERM);
            let status = ordeal.cluster.terminate(id);
            let output = ordeal.cluster.nodes[&id].output();
            assert_eq!(status.code(), Some(143), "{}: {output}", ordeal.context);
            let marker = ordeal.cluster.nodes[&id].data.join(".kafka_cleanshutdown");
            assert!(marker.exists(), "{}: {output}", ordeal.context);
            ordeal.await_leaders_without(id);
            ordeal.go_on(50);
            ordeal.cluster.start_node(id);
            ordeal.in_sync();
        }
    }
    ordeal.end(250);
}
