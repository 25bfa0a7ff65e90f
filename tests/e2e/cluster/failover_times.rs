//! How long nobody acknowledges: after `kill -9` of a leader, of one that is the active controller too, and after SIGTERM.
//! Not here: Apache's times (scripts/bench-failover has them measured in the same run).
//! Left out unless it is asked for: it measures, and a busy machine would fail it. Kafka: reference transcript `failover`.

use super::{ONE_AT_A_TIME, TOPIC};
use kavka_testkit::{Cluster, ClusterSpec, Sandbox, Workload, WorkloadSpec, eventually};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let all: Vec<String> = times
        .iter()
        .map(|t| format!("{:.3}", t.as_secs_f64()))
        .collect();
    let median = times[times.len() / 2].as_secs_f64();
    println!(
        "{what}: median {median:.3} s of {} ({})",
        times.len(),
        all.join(" ")
    );
}

#[test]
#[ignore = "scripts/bench-failover"]
fn failover_times() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let times_wanted = std::env::var("KAVKA_BENCH_TIMES").ok();
    let times_wanted: usize = times_wanted.and_then(|n| n.parse().ok()).unwrap_or(10);
    let mut sandbox = Sandbox::new();
    if let Some(programs) = std::env::var_os("KAVKA_BENCH_BIN") {
        sandbox.programs = Some(PathBuf::from(programs));
    }
    // Every timeout has its default.
    let mut cluster = Cluster::start(&sandbox, &ClusterSpec::combined(3));
    cluster.create_topic(TOPIC, 1, 3);
    let mut spec = WorkloadSpec::of(TOPIC, 1);
    spec.producers = 1;
    spec.readers = 0;
    spec.batch_records_max = 1;
    spec.pause = Duration::from_millis(1);
    let workload = Workload::start(cluster.addresses(), spec);
    let (mut plain, mut both, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..times_wanted * 20 {
        if plain.len() >= times_wanted
            && both.len() >= times_wanted
            && stopped.len() >= times_wanted
        {
            break;
        }
        cluster.await_full_isr(TOPIC);
        workload.await_more(50, || cluster.last_words());
        let leader = cluster.describe(TOPIC).expect("a view")[0].leader;
        let controller = eventually("an active controller", || cluster.active_controller());
        let times = if leader == controller {
            &mut both
        } else {
            &mut plain
        };
        if times.len() < times_wanted {
            cluster.kill(leader);
            times.push(workload.time_to_acknowledge());
        } else if stopped.len() < times_wanted && leader != controller {
            let began = std::time::Instant::now();
            cluster.terminate(leader);
            stopped.push(workload.longest_pause_since(began));
        } else {
            // Another one leads, or decides, next time.
            let next = if stopped.len() < times_wanted || plain.len() < times_wanted {
                controller
            } else {
                leader
            };
            cluster.kill(next);
            cluster.start_node(next);
            continue;
        }
        println!(
            "{} + {} + {} measured",
            plain.len(),
            both.len(),
            stopped.len()
        );
        cluster.start_node(leader);
    }
    report(
        "kill -9 of a leader to the next acknowledged acks=all record",
        plain,
    );
    report("the same, of one that is the active controller too", both);
    report(
        "SIGTERM of a leader: longest time without an acknowledgement",
        stopped,
    );
    workload.finish_sound(1_000, "failover_times");
}
