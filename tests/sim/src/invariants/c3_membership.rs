//! C3: no fenced broker is in an ISR, a leader is in its ISR, and eligible replicas are none of the ISR's: with enough
//! members in sync there are no eligible ones.
//! Not here: which replicas hold what (r3_candidate_completeness).
//! Pure. Source: KIP-841; kip_966_properties.tla, ValidISR, LeaderInISR, ELRDisjoint; KIP-966.

use super::{Checked, MetadataStep, require};

pub fn check(step: &MetadataStep<'_>) -> Checked {
    let every = !step.delta.brokers.is_empty();
    for topic in step.after.topics.iter() {
        for (partition, registration) in &topic.partitions {
            let touched = step
                .delta
                .partitions
                .get(&topic.id)
                .is_some_and(|changed| changed.contains(partition));
            if !every && !touched {
                continue;
            }
            let place = || format!("{}-{partition}: {registration:?}", topic.name);
            for id in &registration.isr {
                require(step.after.cluster.is_active(*id), || {
                    format!("broker {id} is in sync, and fenced or leaving: {}", place())
                })?;
                require(registration.replicas.contains(id), || {
                    format!("broker {id} is in sync and no replica: {}", place())
                })?;
                require(!registration.elr.contains(id), || {
                    format!("broker {id} is in sync and eligible at once: {}", place())
                })?;
            }
            require(
                !registration.has_leader() || registration.isr.contains(&registration.leader),
                || format!("the leader is not in sync: {}", place()),
            )?;
            let enough = step.min_isr.min(registration.replicas.len());
            require(
                registration.isr.len() < enough || registration.elr.is_empty(),
                || format!("enough are in sync, and others eligible: {}", place()),
            )?;
        }
    }
    Ok(())
}
