//! A network that cuts frames, swallows answers and delivers requests late: whatever happens on the way, a record that
//! is acknowledged is there once, and in order.
//! Not here: partitions between brokers (partitions). Faults F19–F22.
//! Kafka: idempotence (KIP-98); librdkafka's tests 0047 and 0049.

use kavka_protocol::ApiKey;
use kavka_testkit::{Cluster, ClusterSpec, Host, Mischief, Sandbox, Seed, Workload, WorkloadSpec};

const TOPIC: &str = "exactly";
const PARTITIONS: i32 = 3;

#[test]
fn requests_and_answers_are_cut_swallowed_and_late() {
    let mut seed = Seed::from_environment();
    let context = format!("{seed} cargo test -p kavka-tests --test e2e wire_faults");
    let sandbox = Sandbox::new();
    let mut cluster = Cluster::start(&sandbox, &ClusterSpec::combined(1).proxied());
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let workload = Workload::start(cluster.addresses(), WorkloadSpec::of(TOPIC, PARTITIONS));
    workload.await_more(200, || cluster.last_words());
    let network = cluster.network();
    network.in_pieces(7);
    for _ in 0..12 {
        let after_bytes = usize::try_from(seed.between(0, 300)).expect("small");
        let mischief = seed.pick(&[
            Mischief::SwallowResponse,
            Mischief::CutBeforeResponse,
            Mischief::CutRequest { after_bytes },
            Mischief::CutResponse { after_bytes },
            Mischief::HoldRequest { ms: 800 },
        ]);
        let api = seed.pick(&[
            ApiKey::Produce,
            ApiKey::Produce,
            ApiKey::Fetch,
            ApiKey::InitProducerId,
            ApiKey::Metadata,
        ]);
        let times = u32::try_from(seed.between(1, 3)).expect("small");
        network.plan(Some(Host::Client), Some(1), api, mischief, times);
        workload.await_more(60, || format!("{context}: {mischief:?} to {api:?}"));
    }
    let fired = network.fired();
    assert!(
        fired >= 10,
        "{context}: mischief was done {fired} times only"
    );
    network.heal();
    workload.finish_sound(800, &context);
    cluster.terminate_all();
}
