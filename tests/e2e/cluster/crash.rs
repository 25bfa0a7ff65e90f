//! `kill -9`: of leaders, of followers, of all at once, and again while they start.
//! Not here: fifty in a row (kills), SIGTERM (stop). A kill does not test fsync: the page cache survives it.
//! Faults F01, F02, F03 and F07. Kafka: replication_test.py, hard_bounce; KAFKA-10101.

use super::{Ordeal, TOPIC, rounds};
use kavka_testkit::{ClusterSpec, Sandbox, eventually};

#[test]
fn the_leader_is_killed_and_comes_back() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "the_leader_is_killed", &spec);
    for _ in 0..rounds(2, 10) {
        let partition = usize::try_from(ordeal.seed.below(3)).expect("small");
        let leader = ordeal.leader_of(partition);
        let before = ordeal.cluster.describe(TOPIC).expect("a view");
        ordeal.cluster.kill(leader);
        let after = ordeal.await_leaders_without(leader);
        for (before, after) in before.iter().zip(&after) {
            assert!(
                before.isr.contains(&after.leader),
                "{}: {before:?}, then {after:?}",
                ordeal.context
            );
            if before.leader == leader {
                assert!(after.leader_epoch > before.leader_epoch, "{after:?}");
            }
        }
        ordeal.go_on(100);
        ordeal.cluster.start_node(leader);
        ordeal.in_sync();
    }
    ordeal.end(300);
}

#[test]
fn a_follower_is_killed_and_writes_go_on() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "a_follower_is_killed", &spec);
    for _ in 0..rounds(1, 5) {
        let leader = ordeal.leader_of(0);
        let view = ordeal.cluster.describe(TOPIC).expect("a view");
        let followers = view[0].replicas.iter().copied().filter(|id| *id != leader);
        let followers: Vec<i32> = followers.collect();
        let follower = ordeal.seed.pick(&followers);
        ordeal.cluster.kill(follower);
        ordeal.go_on(100);
        let words = format!("{}: the killed follower leaves the ISR", ordeal.context);
        eventually(&words, || {
            let view = ordeal.cluster.describe(TOPIC)?;
            match view.iter().find(|p| p.isr.contains(&follower)) {
                None => Ok(()),
                Some(p) => Err(format!("{p:?}")),
            }
        });
        ordeal.cluster.start_node(follower);
        ordeal.in_sync();
    }
    ordeal.end(200);
}

#[test]
fn all_are_killed_at_once_and_start_in_any_order() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "all_are_killed", &spec);
    for _ in 0..rounds(1, 10) {
        ordeal.cluster.kill_all();
        let order = ordeal.seed.shuffled(ordeal.cluster.brokers());
        for id in order {
            ordeal.cluster.launch(id);
        }
        ordeal.cluster.await_all();
        ordeal.go_on(100);
    }
    ordeal.end(200);
}

#[test]
fn killed_again_and_again_while_starting() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "killed_again_and_again_while_starting", &spec);
    let victim = ordeal.leader_of(0);
    ordeal.cluster.kill(victim);
    // What a start says on its way.
    let moments = [
        "Cluster ID",
        "Awaiting socket",
        "Recovered",
        "registered broker",
    ];
    for _ in 0..rounds(3, 20) {
        ordeal.cluster.launch(victim);
        let moment = ordeal.seed.pick(&moments);
        ordeal.cluster.nodes[&victim].server().line(moment);
        ordeal.cluster.kill(victim);
        ordeal.go_on(20);
    }
    ordeal.cluster.start_node(victim);
    ordeal.end(150);
}
