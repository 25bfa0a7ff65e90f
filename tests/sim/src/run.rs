//! One schedule from its seed to its end: chaos, healing, and the state in which a healed cluster has to come to rest.
//! Not here: the parts.
//! Pure but for the panics of cores, which count as violations. Kafka: none.

use crate::invariants::r8_nothing_lost;
use crate::plan::Plan;
use crate::report::{Stats, Violation};
use crate::world::{Client, World};
use kavka_common::Guard;
use kavka_common::guards::switch_off;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a schedule ended.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    pub trace_hash: u64,
    pub stats: Stats,
    pub violation: Option<Violation>,
}

/// Runs the schedule of a seed, with one guard switched off if that is asked for.
pub fn run(seed: u64, without: Option<Guard>, print: bool) -> Outcome {
    run_plan(Plan::from_seed(seed), without, print)
}

pub fn run_plan(plan: Plan, without: Option<Guard>, print: bool) -> Outcome {
    let seed = plan.seed;
    let mut world = World::new(plan);
    world.trace.print = print;
    world.oracle.print = print;
    switch_off(without);
    let ended = catch_unwind(AssertUnwindSafe(|| schedule(&mut world)));
    switch_off(None);
    if let Err(panic) = ended {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let now = world.now;
        let message = text.unwrap_or_else(|| "a panic without words".into());
        world.oracle.fail(now, "assertion", Err(message));
    }
    world.stats.truncations = world.oracle.truncations;
    world.stats.leaderships = world.oracle.leaderships;
    world.stats.isr_changes = world.oracle.isr_changes;
    world.stats.simulated_ms = world.now;
    Outcome {
        seed,
        trace_hash: world.trace.hash,
        stats: world.stats,
        violation: world.oracle.violation,
    }
}

fn run_until(world: &mut World, until_ms: i64) -> bool {
    while world.oracle.violation.is_none() {
        if !world.step(until_ms) {
            return true;
        }
    }
    false
}

fn schedule(world: &mut World) {
    // first a whole cluster with its topic, then faults
    world.fault_at(1_000);
    let chaos_ms = world.plan.chaos_ms;
    if !run_until(world, chaos_ms) {
        return;
    }
    world.network.calm();
    world.resume_all();
    for client in world.clients.values_mut() {
        if let Client::Producer(producer) = client {
            producer.heal();
        }
    }
    let deadline_ms = chaos_ms + world.plan.heal_ms_max;
    let mut stopped = false;
    loop {
        let next_ms = world.now + 100;
        if !run_until(world, next_ms) {
            return;
        }
        let open = unsettled(world);
        if open.is_none() {
            return;
        }
        if !stopped && written(world) {
            stopped = true;
            for client in world.clients.values_mut() {
                if let Client::Producer(producer) = client {
                    producer.stop();
                }
            }
        }
        if world.now >= deadline_ms {
            let now = world.now;
            world
                .oracle
                .fail(now, "liveness", Err(open.unwrap_or_default()));
            return;
        }
    }
}

/// Every producer has written to every partition since the healing.
fn written(world: &World) -> bool {
    world.clients.values().all(|client| match client {
        Client::Producer(producer) => producer.has_written_after_heal(),
        Client::Consumer(_) => true,
    })
}

/// What is not as it should be at rest; `None` when everything is.
fn unsettled(world: &World) -> Option<String> {
    if !world.admin.is_idle() {
        return Some("the operator waits for an answer".into());
    }
    let registered = world.registered();
    if registered.is_empty() {
        return Some("there is no topic".into());
    }
    for (key, registration) in &registered {
        let whole = registration.has_leader()
            && registration.isr.len() == registration.replicas.len()
            && !registration.is_reassigning();
        if !whole {
            return Some(format!(
                "partition {} is not whole: {registration:?}",
                key.1
            ));
        }
    }
    if !written(world) {
        return Some("a partition takes no records".into());
    }
    for client in world.clients.values() {
        match client {
            Client::Producer(producer) if !producer.is_drained() => {
                return Some("a producer waits for an acknowledgement".into());
            }
            Client::Consumer(consumer) => {
                for (key, _) in &registered {
                    let end = world.oracle.truth(*key).map_or(0, |truth| truth.end);
                    let offset = consumer.offset(key.1);
                    if offset != end {
                        return Some(format!(
                            "a consumer is at {offset}, committed is up to {end}"
                        ));
                    }
                }
            }
            Client::Producer(_) => {}
        }
    }
    for (key, registration) in &registered {
        let Some(truth) = world.oracle.truth(*key) else {
            return Some("nothing was ever committed".into());
        };
        for id in &registration.isr {
            let Some(replica) = world.oracle.replicas.get(&(*key, id.get())) else {
                return Some(format!("broker {id} has no replica"));
            };
            if let Err(message) = r8_nothing_lost::at_rest(id.get(), truth, replica) {
                return Some(message);
            }
        }
    }
    for (value, (key, offset)) in &world.oracle.acked {
        let committed = world
            .oracle
            .truth(*key)
            .and_then(|truth| truth.by_offset.get(offset));
        if committed != Some(value) {
            return Some(format!("acknowledged value {value} is not at {offset}"));
        }
    }
    None
}
