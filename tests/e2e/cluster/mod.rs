//! Clusters of real processes under a workload: killed, paused, parted, out of disk; a checker judges what clients saw.
//! Not here: schedules on a simulated network and disk (tests/sim), the proxies and the checker (crates/testkit).
//! One cluster at a time. A short form of each test belongs to scripts/test; `KAVKA_FAULTS=long` is for scripts/faults.
//! Kafka: tests/kafkatest/tests/core/replication_test.py, round_trip_fault_test.py; faults.md §2, fault by fault.

mod crash;
mod disk;
mod failover_times;
mod kills;
mod partition;
mod pause;
mod stop;
mod wire;

use kavka_testkit::history::History;
use kavka_testkit::{
    Cluster, ClusterSpec, Host, PartitionView, Sandbox, Seed, Workload, WorkloadSpec, eventually,
    expect_identical,
};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) const TOPIC: &str = "exactly";
pub(crate) const PARTITIONS: i32 = 3;

/// Several processes for each test are enough for a small machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// `short` in the test command, `long` where somebody asks for it.
pub(crate) fn rounds(short: u32, long: u32) -> u32 {
    match std::env::var("KAVKA_FAULTS").as_deref() {
        Ok("long") => long,
        _ => short,
    }
}

/// A cluster with a replicated topic and clients at work.
pub(crate) struct Ordeal<'s> {
    pub(crate) cluster: Cluster<'s>,
    pub(crate) workload: Workload,
    pub(crate) seed: Seed,
    /// What to type to have it again.
    pub(crate) context: String,
    began: Instant,
    _turn: MutexGuard<'static, ()>,
}

impl<'s> Ordeal<'s> {
    pub(crate) fn begin(sandbox: &'s Sandbox, test: &str, spec: &ClusterSpec) -> Ordeal<'s> {
        Ordeal::with_workload(sandbox, test, spec, WorkloadSpec::of(TOPIC, PARTITIONS))
    }

    pub(crate) fn with_workload(
        sandbox: &'s Sandbox,
        test: &str,
        spec: &ClusterSpec,
        workload: WorkloadSpec,
    ) -> Ordeal<'s> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = Seed::from_environment();
        let context = format!("{seed} scripts/faults {test}");
        let cluster = Cluster::start(sandbox, spec);
        cluster.create_topic(TOPIC, PARTITIONS, 3);
        let workload = Workload::start(cluster.addresses(), workload);
        let ordeal = Ordeal {
            cluster,
            workload,
            seed,
            context,
            began: Instant::now(),
            _turn: turn,
        };
        ordeal.go_on(100);
        ordeal
    }

    /// Tells how far the test is, and when.
    pub(crate) fn tell(&self, what: &str) {
        let at = self.began.elapsed().as_secs_f64();
        println!("{at:7.2} s: {what}");
    }

    /// Waits until every replica is in sync.
    #[track_caller]
    pub(crate) fn in_sync(&self) {
        self.cluster.await_full_isr(TOPIC);
        self.tell("all replicas are in sync");
    }

    /// Waits until so many more records are acknowledged.
    #[track_caller]
    pub(crate) fn go_on(&self, records: u64) {
        self.workload.await_more(records, || {
            format!(
                "{}; {:?}{}",
                self.context,
                self.cluster.describe(TOPIC),
                self.cluster.last_words()
            )
        });
        self.tell(&format!("{records} more records acknowledged"));
    }

    /// The broker that leads the partition.
    #[track_caller]
    pub(crate) fn leader_of(&self, partition: usize) -> i32 {
        eventually("a leader", || {
            let view = self.cluster.describe(TOPIC)?;
            match view.get(partition) {
                Some(p) if p.leader >= 0 => Ok(p.leader),
                other => Err(format!("{other:?}")),
            }
        })
    }

    #[track_caller]
    pub(crate) fn active_controller(&self) -> i32 {
        eventually("an active controller", || self.cluster.active_controller())
    }

    /// Waits until a broker other than this one says that this one leads nothing, and gives what it said: another may
    /// not have heard of it yet.
    #[track_caller]
    pub(crate) fn await_leaders_without(&self, node: i32) -> Vec<PartitionView> {
        let others = self.cluster.brokers().into_iter().filter(|id| *id != node);
        let others: Vec<i32> = others.collect();
        let words = format!("{}: node {node} leads nothing", self.context);
        let view = eventually(&words, || {
            let mut why = String::from("nobody to ask");
            for other in &others {
                match self.cluster.describe_at(*other, TOPIC) {
                    Ok(view) if view.iter().all(|p| p.leader >= 0 && p.leader != node) => {
                        return Ok(view);
                    }
                    Ok(view) => why = format!("{view:?}{}", self.cluster.last_words()),
                    Err(error) => why = error,
                }
            }
            Err(why)
        });
        self.tell(&format!("node {node} leads nothing"));
        view
    }

    /// Parts a node from all others, both ways; clients still reach it.
    pub(crate) fn isolate(&self, node: i32) {
        for other in self.cluster.nodes.keys().filter(|other| **other != node) {
            self.cluster
                .network()
                .part(Host::Node(node), Host::Node(*other));
        }
    }

    /// Everything is well again: all replicas come in sync, the workload ends, nothing is wrong with its history, and
    /// the replicas are the same byte for byte. At least so many records have to be acknowledged.
    #[track_caller]
    pub(crate) fn end(mut self, acknowledged: usize) -> History {
        self.in_sync();
        self.go_on(50);
        let history = self.workload.finish_sound(acknowledged, &self.context);
        self.cluster.await_full_isr(TOPIC);
        self.cluster.terminate_all();
        println!(
            "{:7.2} s: all are stopped",
            self.began.elapsed().as_secs_f64()
        );
        let directories: Vec<PathBuf> = self
            .cluster
            .brokers()
            .iter()
            .map(|id| self.cluster.nodes[id].data.clone())
            .collect();
        for partition in 0..PARTITIONS {
            expect_identical(&directories, TOPIC, partition, &self.context);
        }
        history
    }
}
