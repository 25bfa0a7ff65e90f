//! Kills in a row under load, of leaders and of active controllers at random, in clusters of both shapes and both ages.
//! Not here: what a single kill has to show (crash).
//! Fault F01, fifty times with `KAVKA_FAULTS=long`. Kafka: replication_test.py, hard_bounce.

use super::{Ordeal, rounds};
use kavka_testkit::{ClusterSpec, Sandbox};

/// Kills, with a node down for a while in between; the killed one comes back before or after the next one goes.
fn torment(ordeal: &mut Ordeal<'_>, kills: u32) {
    let mut down: Option<i32> = None;
    for kill in 0..kills {
        // A controller that is alone is not killed: nobody would decide anything until it is back.
        let controllers = ordeal.cluster.controllers().len() > 1 && ordeal.seed.below(3) == 0;
        let victim = if controllers {
            ordeal.active_controller()
        } else {
            let partition = usize::try_from(ordeal.seed.below(3)).expect("small");
            ordeal.leader_of(partition)
        };
        // A majority and min.insync.replicas have to be left; who is down comes back first.
        if let Some(down) = down.take() {
            ordeal.cluster.start_node(down);
            ordeal.in_sync();
        }
        ordeal.cluster.kill(victim);
        let records = ordeal.seed.between(5, 120);
        ordeal.go_on(records);
        if ordeal.seed.below(2) == 0 {
            ordeal.cluster.start_node(victim);
            ordeal.in_sync();
        } else {
            down = Some(victim);
        }
        println!("{}: kill {} was node {victim}", ordeal.context, kill + 1);
    }
    if let Some(down) = down {
        ordeal.cluster.start_node(down);
    }
}

#[test]
fn kills_in_a_row_with_controllers_of_their_own() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::dedicated(3, 3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "kills_in_a_row_with_controllers", &spec);
    torment(&mut ordeal, rounds(4, 50));
    ordeal.end(100);
}

#[test]
fn kills_in_a_row_of_nodes_that_are_both() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "kills_in_a_row_of_nodes_that_are_both", &spec);
    torment(&mut ordeal, rounds(3, 50));
    ordeal.end(100);
}

#[test]
fn kills_in_a_row_in_the_manner_of_the_zookeeper_age() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::of_zookeeper(3).impatient();
    let mut ordeal = Ordeal::begin(&sandbox, "kills_in_a_row_in_the_manner", &spec);
    torment(&mut ordeal, rounds(2, 20));
    ordeal.end(100);
}
