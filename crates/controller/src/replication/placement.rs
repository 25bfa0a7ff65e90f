//! Which brokers get the replicas of new partitions: striped over racks and over the brokers of each rack.
//! Not here: manual assignments (`topics::assignment`).
//! Pure; the random start comes in. Kafka: StripedReplicaPlacer, PlacementSpec; KIP-36, KIP-631.

use crate::random::Random;
use kavka_common::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A broker that may get replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsableBroker {
    pub broker_id: NodeId,
    pub rack: Option<Arc<str>>,
    pub fenced: bool,
}

/// Why no placement exists, in Kafka's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("Invalid replication factor {0}: the replication factor must be positive.")]
    NotPositive(i16),
    #[error("All brokers are currently fenced, or have all their log directories cordoned.")]
    AllFenced,
    #[error(
        "The target replication factor of {0} cannot be reached because only {1} broker(s) are registered or some brokers have all their log directories cordoned."
    )]
    TooFewBrokers(i16, usize),
}

/// Walks round a list of brokers; each new round starts one further.
#[derive(Debug, Default)]
struct Ring {
    brokers: Vec<NodeId>,
    round: usize,
    start: usize,
    taken: usize,
}

impl Ring {
    fn next(&mut self, round: usize) -> Option<NodeId> {
        if self.brokers.is_empty() {
            return None;
        }
        if self.round != round {
            self.round = round;
            self.taken = 0;
            self.start = (self.start + 1) % self.brokers.len();
        }
        if self.taken == self.brokers.len() {
            return None;
        }
        let broker_id = self.brokers[(self.start + self.taken) % self.brokers.len()];
        self.taken += 1;
        Some(broker_id)
    }

    fn begin_at_random(&mut self, random: &mut Random) {
        if !self.brokers.is_empty() {
            self.start = random.below(self.brokers.len());
        }
    }
}

#[derive(Debug, Default)]
struct Rack {
    unfenced: Ring,
    fenced: Ring,
}

impl Rack {
    fn next(&mut self, round: usize) -> Option<NodeId> {
        self.unfenced
            .next(round)
            .or_else(|| self.fenced.next(round))
    }
}

/// Replicas of `partitions` new partitions, preferred leader first. The first replica is never on a fenced broker;
/// no broker gets two replicas of a partition; racks are used in turn.
pub fn place(
    brokers: &[UsableBroker],
    partitions: usize,
    replication_factor: i16,
    random: &mut Random,
) -> Result<Vec<Vec<NodeId>>, PlacementError> {
    let replicas = usize::try_from(replication_factor)
        .ok()
        .filter(|factor| *factor > 0)
        .ok_or(PlacementError::NotPositive(replication_factor))?;
    let unfenced = brokers.iter().filter(|broker| !broker.fenced).count();
    if unfenced == 0 {
        return Err(PlacementError::AllFenced);
    }
    if replicas > brokers.len() {
        return Err(PlacementError::TooFewBrokers(
            replication_factor,
            brokers.len(),
        ));
    }
    let mut racks: BTreeMap<Option<Arc<str>>, Rack> = BTreeMap::new();
    for broker in brokers {
        let rack = racks.entry(broker.rack.clone()).or_default();
        let ring = if broker.fenced {
            &mut rack.fenced
        } else {
            &mut rack.unfenced
        };
        ring.brokers.push(broker.broker_id);
    }
    let mut racks: Vec<Rack> = racks.into_values().collect();
    for rack in &mut racks {
        rack.unfenced.brokers.sort_unstable();
        rack.fenced.brokers.sort_unstable();
        rack.unfenced.begin_at_random(random);
        rack.fenced.begin_at_random(random);
    }
    let mut start = random.below(racks.len());
    let mut round = 0;
    let mut placed = Vec::with_capacity(partitions);
    for _ in 0..partitions {
        // Every unfenced broker has led once: shuffle, or the same sets would repeat for ever.
        if round == unfenced && unfenced > 1 {
            random.shuffle(&mut racks);
            for rack in &mut racks {
                random.shuffle(&mut rack.unfenced.brokers);
                random.shuffle(&mut rack.fenced.brokers);
                rack.unfenced.round = 0;
                rack.fenced.round = 0;
                rack.unfenced.taken = 0;
                rack.fenced.taken = 0;
            }
            round = 0;
        }
        placed.push(place_one(&mut racks, start, round, replicas));
        start = (start + 1) % racks.len();
        round += 1;
    }
    Ok(placed)
}

/// One partition: the leader from the first rack, from `start`, that has an unfenced broker left, then one broker of
/// each rack in turn, skipping the leader's rack the first time round.
fn place_one(racks: &mut [Rack], start: usize, round: usize, replicas: usize) -> Vec<NodeId> {
    let mut chosen = Vec::with_capacity(replicas);
    let mut leader_rack = start;
    for step in 0..racks.len() {
        leader_rack = (start + step) % racks.len();
        if let Some(leader) = racks[leader_rack].unfenced.next(round) {
            chosen.push(leader);
            break;
        }
    }
    let mut skip = Some(leader_rack);
    let mut rack = start;
    let mut without_result = 0;
    while chosen.len() < replicas && without_result <= racks.len() + 1 {
        let next = if skip == Some(rack) {
            skip = None;
            None
        } else {
            racks[rack].next(round)
        };
        match next {
            Some(broker_id) => {
                chosen.push(broker_id);
                without_result = 0;
            }
            None => without_result += 1,
        }
        rack = (rack + 1) % racks.len();
    }
    assert_eq!(chosen.len(), replicas, "enough brokers were counted before");
    chosen
}

#[cfg(test)]
#[path = "placement_test.rs"]
mod placement_test;
