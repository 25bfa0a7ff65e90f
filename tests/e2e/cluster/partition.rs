//! Partitions: whole, one way, from the controllers only, between brokers only, a bridge, a flapping link, a dead machine.
//! Not here: cut frames (wire), paused processes (pause).
//! Faults F11 to F16 and F23. Kafka: KAFKA-15489, KAFKA-6361; round_trip_fault_test.py.

use super::{Ordeal, PARTITIONS, TOPIC, rounds};
use kavka_testkit::{ClusterSpec, Host, Sandbox, eventually};

fn combined() -> ClusterSpec {
    ClusterSpec::combined(3).impatient().proxied()
}

#[test]
fn a_leader_that_is_cut_off_cannot_acknowledge() {
    let sandbox = Sandbox::new();
    let mut ordeal = Ordeal::begin(&sandbox, "a_leader_that_is_cut_off", &combined());
    for _ in 0..rounds(1, 6) {
        let partition = usize::try_from(ordeal.seed.below(3)).expect("small");
        let leader = ordeal.leader_of(partition);
        // Clients still reach it, and it may take their records; nobody may believe that they are safe.
        ordeal.isolate(leader);
        ordeal.await_leaders_without(leader);
        ordeal.go_on(50);
        ordeal.cluster.network().heal();
        ordeal.tell("healed");
        ordeal.in_sync();
    }
    ordeal.end(150);
}

#[test]
fn an_active_controller_that_is_not_heard_is_replaced() {
    let sandbox = Sandbox::new();
    let ordeal = Ordeal::begin(
        &sandbox,
        "an_active_controller_that_is_not_heard",
        &combined(),
    );
    for _ in 0..rounds(1, 6) {
        let mute = ordeal.active_controller();
        for other in ordeal.cluster.brokers() {
            if other != mute {
                let network = ordeal.cluster.network();
                network.block(Host::Node(mute), Host::Node(other));
            }
        }
        let words = format!("{}: another active controller", ordeal.context);
        eventually(&words, || {
            for id in ordeal
                .cluster
                .brokers()
                .into_iter()
                .filter(|id| *id != mute)
            {
                let view = ordeal.cluster.describe_at(id, TOPIC)?;
                if view.iter().any(|p| p.leader == mute) {
                    return Err(format!("{view:?}{}", ordeal.cluster.last_words()));
                }
            }
            Ok(())
        });
        ordeal.go_on(50);
        ordeal.cluster.network().heal();
        ordeal.tell("healed");
        ordeal.in_sync();
    }
    ordeal.end(150);
}

#[test]
fn a_broker_that_is_cut_from_the_controllers_is_fenced() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::dedicated(3, 3).impatient().proxied();
    let ordeal = Ordeal::begin(&sandbox, "a_broker_that_is_cut_from_the_controllers", &spec);
    for _ in 0..rounds(1, 6) {
        let leader = ordeal.leader_of(0);
        for controller in ordeal.cluster.controllers() {
            let network = ordeal.cluster.network();
            network.part(Host::Node(leader), Host::Node(controller));
        }
        ordeal.await_leaders_without(leader);
        ordeal.go_on(50);
        ordeal.cluster.network().heal();
        ordeal.tell("healed");
        ordeal.in_sync();
    }
    ordeal.end(150);
}

#[test]
fn brokers_that_do_not_reach_each_other_keep_to_min_isr() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::dedicated(3, 3).impatient().proxied();
    let ordeal = Ordeal::begin(&sandbox, "brokers_that_do_not_reach_each_other", &spec);
    for _ in 0..rounds(1, 6) {
        for a in ordeal.cluster.brokers() {
            for b in ordeal.cluster.brokers() {
                if a < b {
                    ordeal.cluster.network().part(Host::Node(a), Host::Node(b));
                }
            }
        }
        // Every leader is alone: its followers leave the ISR, and acks=all is refused.
        let words = format!("{}: no followers in sync", ordeal.context);
        eventually(&words, || {
            let view = ordeal.cluster.describe(TOPIC)?;
            match view.iter().find(|p| p.isr.len() != 1) {
                None => Ok(()),
                Some(p) => Err(format!("{p:?}")),
            }
        });
        let alone = ordeal.workload.acknowledged();
        eventually("writes are refused", || {
            let trouble = ordeal.workload.trouble();
            match trouble.contains("NOT_ENOUGH_REPLICAS") {
                true => Ok(()),
                false => Err(trouble),
            }
        });
        assert_eq!(
            ordeal.workload.acknowledged(),
            alone,
            "{}: acknowledged by less than min.insync.replicas",
            ordeal.context
        );
        ordeal.cluster.network().heal();
        ordeal.tell("healed");
        ordeal.in_sync();
    }
    ordeal.end(150);
}

#[test]
fn with_a_bridge_between_two_that_do_not_see_each_other() {
    let sandbox = Sandbox::new();
    let mut ordeal = Ordeal::begin(&sandbox, "with_a_bridge", &combined());
    for _ in 0..rounds(1, 6) {
        let order = ordeal.seed.shuffled(ordeal.cluster.brokers());
        let network = ordeal.cluster.network();
        network.part(Host::Node(order[0]), Host::Node(order[2]));
        // Leaders at either end lose a follower, not more; there is one active controller, and progress.
        ordeal.go_on(300);
        ordeal.active_controller();
        ordeal.cluster.network().heal();
        ordeal.tell("healed");
        ordeal.in_sync();
    }
    ordeal.end(400);
}

#[test]
fn a_link_goes_up_and_down() {
    let sandbox = Sandbox::new();
    let mut ordeal = Ordeal::begin(&sandbox, "a_link_goes_up_and_down", &combined());
    for _ in 0..rounds(6, 60) {
        let order = ordeal.seed.shuffled(ordeal.cluster.brokers());
        let (a, b) = (Host::Node(order[0]), Host::Node(order[1]));
        let records = ordeal.seed.between(10, 150);
        match ordeal.seed.below(3) {
            0 => ordeal.cluster.network().block(a, b),
            1 => ordeal.cluster.network().part(a, b),
            _ => ordeal.isolate(order[0]),
        }
        ordeal.go_on(records);
        ordeal.cluster.network().heal();
        let reset = ordeal.seed.below(2) == 0;
        if reset {
            ordeal.cluster.network().reset(a, b);
        }
        let records = ordeal.seed.between(10, 150);
        ordeal.go_on(records);
    }
    let before: Vec<i32> = ordeal
        .cluster
        .describe(TOPIC)
        .expect("a view")
        .iter()
        .map(|p| p.leader_epoch)
        .collect();
    assert_eq!(before.len(), usize::try_from(PARTITIONS).expect("few"));
    ordeal.end(150);
}

#[test]
fn a_machine_that_dies_without_a_word_is_noticed() {
    let sandbox = Sandbox::new();
    let mut ordeal = Ordeal::begin(&sandbox, "a_machine_that_dies_without_a_word", &combined());
    for _ in 0..rounds(1, 4) {
        let leader = ordeal.leader_of(0);
        // No FIN and no RST reaches anybody, clients included; connections stay half open.
        ordeal.isolate(leader);
        let network = ordeal.cluster.network();
        network.part(Host::Node(leader), Host::Client);
        ordeal.cluster.kill_unheard(leader);
        ordeal.await_leaders_without(leader);
        ordeal.go_on(50);
        ordeal.cluster.network().heal();
        ordeal.tell("healed");
        ordeal.cluster.start_node(leader);
        ordeal.in_sync();
    }
    ordeal.end(150);
}
