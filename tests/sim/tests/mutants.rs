//! Each guard of common::guards switched off in turn: some schedule has to notice. A check that never failed proves nothing.
//! Not here: schedules with all guards in place (schedules.rs).
//! Prints which seed caught which guard, by which invariant; `scripts/sim --guard NAME --first SEED 1` repeats it.
//! Kafka: nothing like it; the idea is mutation testing.

use kavka_common::Guard;
use kavka_sim::run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Schedules that a guard may stay unnoticed for.
const SEEDS_MAX: u64 = 600;

#[test]
fn a_cluster_without_one_of_its_guards_is_found_out() {
    // what the cores' assertions say is among what is looked for
    std::panic::set_hook(Box::new(|_| {}));
    let next = AtomicUsize::new(0);
    let caught = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(guard) = Guard::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = (1..=SEEDS_MAX).find_map(|seed| {
                        let violation = run(seed, Some(*guard), false).violation?;
                        Some((seed, violation))
                    });
                    caught.lock().unwrap().push((*guard, found));
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    let mut caught = caught.into_inner().unwrap();
    caught.sort_by_key(|(guard, _)| *guard);
    for (guard, found) in &caught {
        match found {
            Some((seed, violation)) => println!("{guard:?}: seed {seed}: {violation}"),
            None => println!("{guard:?}: not noticed in {SEEDS_MAX} schedules"),
        }
    }
    let unnoticed: Vec<Guard> = caught
        .into_iter()
        .filter(|(_, found)| found.is_none())
        .map(|(guard, _)| guard)
        .collect();
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
