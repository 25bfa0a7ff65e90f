//! Some thousands of schedules, none of which may violate an invariant; and the same seed twice, which has to give the same.
//! Not here: that violations are found at all (mutants.rs).
//! KAVKA_SIM_SCHEDULES says how many, KAVKA_SIM_FIRST_SEED which is the first. scripts/sim runs more of them, faster.
//! Kafka: RaftEventSimulationTest.

use kavka_sim::{Stats, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => otherwise,
    }
}

#[test]
fn no_schedule_violates_an_invariant() {
    let first = number("KAVKA_SIM_FIRST_SEED", 1);
    let count = number("KAVKA_SIM_SCHEDULES", 1_500);
    let next = AtomicU64::new(first);
    let found = Mutex::new((Stats::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = run(seed, None, false);
                    let mut found = found.lock().unwrap();
                    found.0.add(&outcome.stats);
                    if let Some(violation) = outcome.violation {
                        found.1.push(format!("seed {seed}: {violation}"));
                    }
                }
            });
        }
    });
    let (stats, mut violations) = found.into_inner().unwrap();
    println!("{stats}");
    violations.sort();
    assert!(
        violations.is_empty(),
        "{} of {count} schedules:\n{}",
        violations.len(),
        violations.join("\n")
    );
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1..=25 {
        let (one, other) = (run(seed, None, false), run(seed, None, false));
        assert_eq!(one.trace_hash, other.trace_hash, "seed {seed}");
        assert_eq!(one.stats, other.stats, "seed {seed}");
        assert_ne!(one.trace_hash, run(seed + 1_000, None, false).trace_hash);
    }
}
