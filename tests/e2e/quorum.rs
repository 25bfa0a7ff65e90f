//! Quorums of three and five controllers as real processes: killed, paused, started again, and brokers that join late.
//! Not here: who may join (joining), changes of the voters (voters), records of partitions (replication).
//! Faults F01, F09, F12. Kafka: kafkatest.tests.core.controlled shutdown and quorum tests, KafkaRaftClient.

use kavka_testkit::{Cluster, ClusterSpec, Sandbox, cluster_view, eventually};
use std::time::{Duration, Instant};

/// A broker's session; what takes this long was noticed by the session, not by the dropped connection.
const SESSION: Duration = Duration::from_secs(9);

/// Creates a topic, and says how long that took from now on.
#[track_caller]
fn decided(cluster: &Cluster<'_>, topic: &str) -> Duration {
    let begin = Instant::now();
    eventually(&format!("topic {topic} is created"), || {
        cluster_view::create_topic(&cluster.addresses(), topic, 1, 1)
    });
    begin.elapsed()
}

#[track_caller]
fn active(cluster: &Cluster<'_>) -> i32 {
    eventually("there is an active controller", || {
        cluster.active_controller()
    })
}

/// Controllers that run and do not lead.
fn others(cluster: &Cluster<'_>, leader: i32) -> Vec<i32> {
    let running = cluster.controllers().into_iter();
    running
        .filter(|id| *id != leader && cluster.nodes[id].is_running())
        .collect()
}

#[test]
fn three_controllers_outlive_each_of_them() {
    let sandbox = Sandbox::new();
    let mut cluster = Cluster::start(&sandbox, &ClusterSpec::dedicated(3, 1));
    decided(&cluster, "before");
    for round in 0..3 {
        let leader = active(&cluster);
        cluster.kill(leader);
        let took = decided(&cluster, &format!("without-leader-{round}"));
        println!("round {round}: without controller {leader} decided again after {took:?}");
        assert!(took < SESSION, "{took:?}{}", cluster.last_words());
        cluster.start_node(leader);

        let leader = active(&cluster);
        let follower = others(&cluster, leader)[0];
        cluster.kill(follower);
        let took = decided(&cluster, &format!("without-follower-{round}"));
        assert!(took < SESSION, "{took:?}");
        assert_eq!(active(&cluster), leader, "a follower's death moves nothing");
        cluster.start_node(follower);
    }
    cluster.terminate_all();
    cluster.launch_all();
    cluster.await_all();
    decided(&cluster, "after");
    for topic in ["before", "without-leader-2", "without-follower-2", "after"] {
        let partitions = eventually(topic, || cluster.describe(topic));
        assert_eq!(partitions.len(), 1, "{topic}");
    }
}

#[test]
fn five_controllers_outlive_two() {
    let sandbox = Sandbox::new();
    let mut cluster = Cluster::start(&sandbox, &ClusterSpec::dedicated(5, 1));
    let leader = active(&cluster);
    let follower = others(&cluster, leader)[0];
    cluster.kill(leader);
    cluster.kill(follower);
    let took = decided(&cluster, "with-three-of-five");
    assert!(took < SESSION, "{took:?}{}", cluster.last_words());
    cluster.start_node(leader);
    cluster.start_node(follower);
    decided(&cluster, "with-all");
}

#[test]
fn a_process_that_was_controller_and_leader_is_replaced_in_both() {
    let sandbox = Sandbox::new();
    let mut cluster = Cluster::start(&sandbox, &ClusterSpec::combined(3));
    cluster.create_topic("replicated", 3, 3);
    for round in 0..3 {
        let victim = active(&cluster);
        cluster.kill(victim);
        let killed = Instant::now();
        eventually("everything is led by others", || {
            let view = cluster.describe("replicated")?;
            match view
                .iter()
                .find(|p| p.leader < 0 || p.leader == victim || p.isr.contains(&victim))
            {
                None => Ok(()),
                Some(partition) => Err(format!("{partition:?}{}", cluster.last_words())),
            }
        });
        let took = killed.elapsed();
        println!("round {round}: without node {victim} everything is led after {took:?}");
        assert!(took < SESSION, "{took:?}{}", cluster.last_words());
        cluster.start_node(victim);
        cluster.await_full_isr("replicated");
    }
}

#[test]
fn a_paused_controller_is_replaced_and_steps_down() {
    let sandbox = Sandbox::new();
    let mut cluster = Cluster::start(&sandbox, &ClusterSpec::dedicated(3, 1));
    let paused = active(&cluster);
    cluster.pause(paused);
    let took = decided(&cluster, "without-it");
    println!("without the paused controller decided again after {took:?}");
    cluster.resume(paused);
    let server = cluster.nodes[&paused].server();
    server.line("Renouncing the leadership");
    decided(&cluster, "with-it-as-follower");
    assert_ne!(active(&cluster), paused);
    let view = eventually("the topics are there", || cluster.describe("without-it"));
    assert_eq!(view[0].leader, 1, "the broker was never fenced for long");
    cluster.terminate_all();
}

#[test]
fn a_paused_broker_is_fenced_by_its_session_and_returns() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::dedicated(1, 3).impatient();
    let mut cluster = Cluster::start(&sandbox, &spec);
    cluster.create_topic("replicated", 1, 3);
    let paused = eventually("a leader", || cluster.describe("replicated"))[0].leader;
    let witness = if paused == 1 { 2 } else { 1 };
    cluster.pause(paused);
    eventually("another leads", || {
        let view = cluster.describe_at(witness, "replicated")?;
        if view[0].leader >= 0 && view[0].leader != paused && !view[0].isr.contains(&paused) {
            Ok(())
        } else {
            Err(format!("{view:?}"))
        }
    });
    cluster.resume(paused);
    cluster.await_full_isr("replicated");
    cluster.terminate_all();
}

/// Where the metadata log of a node starts, by its files.
fn log_start(cluster: &Cluster<'_>, id: i32) -> i64 {
    let folder = cluster.nodes[&id].data.join("__cluster_metadata-0");
    let files = std::fs::read_dir(folder).expect("the metadata log");
    files
        .filter_map(|file| {
            let name = file.expect("a file").file_name().into_string().ok()?;
            name.strip_suffix(".log")?.parse::<i64>().ok()
        })
        .min()
        .expect("a segment")
}

#[test]
fn late_comers_start_from_a_snapshot() {
    let sandbox = Sandbox::new();
    let spec = ClusterSpec::dedicated(3, 2)
        .with("metadata.log.max.record.bytes.between.snapshots", "2000")
        .with("metadata.max.retention.bytes", "1000")
        .with("internal.metadata.log.segment.bytes", "2000")
        .with("internal.metadata.delete.delay.millis", "0");
    let mut cluster = Cluster::prepare(&sandbox, &spec);
    for id in [101, 102, 103, 1] {
        cluster.launch(id);
    }
    cluster.await_all();
    let late = others(&cluster, active(&cluster))[0];
    cluster.kill(late);
    for topic in 0..60 {
        decided(&cluster, &format!("topic-{topic}"));
    }
    let leader = active(&cluster);
    eventually("the log's beginning is gone", || {
        match log_start(&cluster, leader) {
            0 => Err("it starts at 0".to_owned()),
            _ => Ok(()),
        }
    });
    cluster.start_node(2);
    let view = eventually("the new broker knows everything", || {
        cluster.describe_at(2, "topic-0")
    });
    assert_eq!(view[0].leader, 1);
    cluster.launch(late);
    eventually("the late controller has the snapshot", || {
        match log_start(&cluster, late) {
            0 => Err(format!("its log starts at 0{}", cluster.last_words())),
            _ => Ok(()),
        }
    });
    // It counts as one of two, so it has everything.
    let third = others(&cluster, leader)
        .into_iter()
        .find(|id| *id != late)
        .expect("three controllers");
    cluster.kill(third);
    decided(&cluster, "at-the-end");
}
