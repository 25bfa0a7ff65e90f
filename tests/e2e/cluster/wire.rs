//! Requests between brokers and controllers that are cut, swallowed or late, beside those of clients; slow links.
//! Not here: the same to one broker alone (e2e/wire_faults), partitions.
//! Faults F17 and F20 to F22. Kafka: KIP-903 (late AlterPartition), KIP-227 (fetch sessions), KAFKA-14884.

use super::{Ordeal, rounds};
use kavka_protocol::ApiKey;
use kavka_testkit::{ClusterSpec, Host, Mischief, Sandbox};

#[test]
fn requests_between_nodes_are_cut_swallowed_and_late() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient().proxied();
    let mut ordeal = Ordeal::begin(&sandbox, "requests_between_nodes_are_cut", &spec);
    let apis = [
        ApiKey::Fetch,
        ApiKey::Fetch,
        ApiKey::Produce,
        ApiKey::AlterPartition,
        ApiKey::BrokerHeartbeat,
        // between the members of the quorum
        ApiKey::Envelope,
        ApiKey::OffsetForLeaderEpoch,
        ApiKey::AllocateProducerIds,
    ];
    for _ in 0..rounds(12, 150) {
        let after_bytes = usize::try_from(ordeal.seed.between(0, 400)).expect("small");
        let ms = ordeal.seed.between(100, 4_000);
        let mischief = ordeal.seed.pick(&[
            Mischief::SwallowResponse,
            Mischief::CutBeforeResponse,
            Mischief::CutRequest { after_bytes },
            Mischief::CutResponse { after_bytes },
            Mischief::HoldRequest { ms },
        ]);
        let api = ordeal.seed.pick(&apis);
        let times = u32::try_from(ordeal.seed.between(1, 3)).expect("small");
        ordeal
            .cluster
            .network()
            .plan(None, None, api, mischief, times);
        ordeal.go_on(30);
    }
    // A broker that is killed sends AlterPartition and registers anew, which the mischief gets hold of.
    let leader = ordeal.leader_of(0);
    for api in [ApiKey::AlterPartition, ApiKey::BrokerRegistration] {
        let network = ordeal.cluster.network();
        network.plan(None, None, api, Mischief::SwallowResponse, 1);
        network.plan(None, None, api, Mischief::HoldRequest { ms: 1_500 }, 1);
    }
    ordeal.cluster.kill(leader);
    ordeal.go_on(50);
    ordeal.cluster.start_node(leader);
    ordeal.go_on(50);
    let fired = ordeal.cluster.network().fired();
    println!("{}: mischief was done {fired} times", ordeal.context);
    assert!(fired >= 8, "{}: only {fired} times", ordeal.context);
    ordeal.cluster.network().heal();
    ordeal.end(400);
}

#[test]
fn slow_links_do_not_shrink_the_isr() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::combined(3).impatient().proxied();
    let ordeal = Ordeal::begin(&sandbox, "slow_links", &spec);
    let brokers = ordeal.cluster.brokers();
    for a in &brokers {
        for b in brokers.iter().filter(|b| *b > a) {
            let network = ordeal.cluster.network();
            network.delay(Host::Node(*a), Host::Node(*b), 60, 100);
        }
    }
    ordeal.go_on(u64::from(rounds(100, 2_000)));
    let view = ordeal.cluster.describe(super::TOPIC).expect("a view");
    let full = view.iter().all(|p| p.isr.len() == 3);
    assert!(full, "{}: {view:?}", ordeal.context);
    ordeal.cluster.network().heal();
    ordeal.end(150);
}
