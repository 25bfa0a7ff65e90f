//! Which brokers `--generate` proposes: leaders spread evenly, replicas of a partition on different racks.
//! Not here: where a new topic goes (the controller decides by itself). Pure: random numbers are arguments.
//! Kafka: ReassignPartitionsCommand.calculateAssignment, StripedReplicaPlacer.

use crate::java::{Exception, Failure};

/// A broker that may be given replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    pub id: i32,
    pub rack: Option<String>,
}

/// Replicas for each of `partitions` partitions. `start` and `shift` say on which brokers the first leader and the
/// first followers lie.
pub fn place(
    partitions: usize,
    replication_factor: usize,
    brokers: &[Usable],
    (start, shift): (usize, usize),
) -> Result<Vec<Vec<i32>>, Failure> {
    if replication_factor > brokers.len() {
        return Err(Exception::new(
            "org.apache.kafka.common.errors.InvalidReplicationFactorException",
            format!(
                "The target replication factor of {replication_factor} cannot be reached because only {} broker(s) are registered.",
                brokers.len()
            ),
        )
        .into());
    }
    let ring = alternating(brokers);
    let count = ring.len();
    Ok((0..partitions)
        .map(|partition| {
            let first = (start % count + partition) % count;
            let mut chosen = vec![ring[first]];
            while chosen.len() < replication_factor {
                // Every round over all leaders pairs them with other followers.
                let turn = shift % count + partition / count;
                let next = (0..count - 1)
                    .map(|step| ring[(first + 1 + (turn + step) % (count - 1)) % count])
                    .filter(|broker| chosen.iter().all(|taken| taken.id != broker.id))
                    .min_by_key(|broker| {
                        let on_rack = chosen.iter().filter(|taken| taken.rack == broker.rack);
                        on_rack.count()
                    });
                match next {
                    Some(broker) => chosen.push(broker),
                    None => break,
                }
            }
            chosen.into_iter().map(|broker| broker.id).collect()
        })
        .collect())
}

/// Brokers in an order in which neighbours are on different racks, as far as there are any.
fn alternating(brokers: &[Usable]) -> Vec<&Usable> {
    let mut sorted: Vec<&Usable> = brokers.iter().collect();
    sorted.sort_by_key(|broker| (&broker.rack, broker.id));
    let mut seen: Vec<(&Option<String>, usize)> = Vec::new();
    let mut ranked: Vec<(usize, &Usable)> = Vec::with_capacity(sorted.len());
    for broker in sorted {
        match seen.last_mut() {
            Some((rack, count)) if *rack == &broker.rack => *count += 1,
            _ => seen.push((&broker.rack, 0)),
        }
        ranked.push((seen.last().map_or(0, |(_, count)| *count), broker));
    }
    // The first of each rack, then the second of each; the sort keeps racks in their order.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, broker)| broker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn brokers(racks: &[Option<&str>]) -> Vec<Usable> {
        racks
            .iter()
            .zip(1..)
            .map(|(rack, id)| Usable {
                id,
                rack: rack.map(str::to_owned),
            })
            .collect()
    }

    fn counts<'a>(ids: impl Iterator<Item = &'a i32>) -> BTreeMap<i32, usize> {
        let mut counts = BTreeMap::new();
        for id in ids {
            *counts.entry(*id).or_default() += 1;
        }
        counts
    }

    #[test]
    fn leaders_are_spread_evenly_and_replicas_are_different() {
        for start in 0..5 {
            let placed = place(20, 3, &brokers(&[None; 5]), (start, 3 * start + 1)).unwrap();
            let leaders = counts(placed.iter().map(|replicas| &replicas[0]));
            assert!(
                leaders.len() == 5 && leaders.values().all(|n| *n == 4),
                "{leaders:?}"
            );
            assert!(counts(placed.iter().flatten()).values().all(|n| *n == 12));
            for replicas in placed {
                assert_eq!(replicas.iter().collect::<BTreeSet<_>>().len(), 3);
            }
        }
        assert_eq!(place(2, 1, &brokers(&[None]), (7, 9)).unwrap(), [[1], [1]]);
    }

    #[test]
    fn replicas_are_on_different_racks() {
        let brokers = brokers(&[
            Some("a"),
            Some("a"),
            Some("b"),
            Some("b"),
            Some("c"),
            Some("c"),
        ]);
        let rack = |id: &i32| &brokers[usize::try_from(*id - 1).unwrap()].rack;
        for shift in 0..6 {
            for replicas in place(12, 3, &brokers, (shift, shift)).unwrap() {
                assert_eq!(replicas.iter().map(rack).collect::<BTreeSet<_>>().len(), 3);
            }
        }
    }

    #[test]
    fn too_few_brokers_are_refused() {
        let refused = place(1, 3, &brokers(&[None, None]), (0, 0)).unwrap_err();
        assert!(refused.message().contains("only 2 broker(s)"));
        assert!(place(1, 1, &[], (0, 0)).is_err());
    }
}
