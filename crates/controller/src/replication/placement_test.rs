use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn broker(id: i32, rack: Option<&str>, fenced: bool) -> UsableBroker {
    UsableBroker {
        broker_id: NodeId(id),
        rack: rack.map(Arc::from),
        fenced,
    }
}

#[test]
fn refusals_are_kafkas() {
    let three = [
        broker(1, None, false),
        broker(2, None, false),
        broker(3, None, false),
    ];
    let mut random = Random::from_seed([1; 32]);
    for (brokers, factor, message) in [
        (
            &three[..],
            0,
            "Invalid replication factor 0: the replication factor must be positive.",
        ),
        (
            &three[..],
            4,
            "The target replication factor of 4 cannot be reached because only 3 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            &[broker(1, None, true)][..],
            1,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        ),
        (
            &[][..],
            1,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        ),
    ] {
        assert_eq!(
            place(brokers, 1, factor, &mut random)
                .unwrap_err()
                .to_string(),
            message
        );
    }
}

#[test]
fn leaders_take_turns() {
    let three = [
        broker(1, None, false),
        broker(2, None, false),
        broker(3, None, false),
    ];
    let placed = place(&three, 3, 2, &mut Random::from_seed([7; 32])).unwrap();
    let leaders: BTreeSet<_> = placed.iter().map(|replicas| replicas[0]).collect();
    assert_eq!(leaders.len(), 3, "{placed:?}");
}

#[test]
fn replicas_are_spread_over_racks() {
    let brokers = [
        broker(1, Some("a"), false),
        broker(2, Some("a"), false),
        broker(3, Some("b"), false),
        broker(4, Some("b"), false),
        broker(5, Some("c"), false),
        broker(6, Some("c"), false),
    ];
    let rack_of = |id: NodeId| {
        brokers
            .iter()
            .find(|broker| broker.broker_id == id)
            .unwrap()
            .rack
            .clone()
    };
    for replicas in place(&brokers, 24, 3, &mut Random::from_seed([3; 32])).unwrap() {
        let racks: BTreeSet<_> = replicas.iter().map(|id| rack_of(*id)).collect();
        assert_eq!(racks.len(), 3, "{replicas:?}");
    }
}

proptest! {
    #[test]
    fn placements_hold_the_rules(
        brokers in prop::collection::vec((prop::option::of(0..3u8), any::<bool>()), 1..9),
        partitions in 1usize..40,
        factor in 1i16..9,
        seed: [u8; 32],
    ) {
        let brokers: Vec<UsableBroker> = brokers
            .iter()
            .zip(1..)
            .map(|((rack, fenced), id)| broker(id, rack.map(|rack| ["a", "b", "c"][usize::from(rack)]), *fenced))
            .collect();
        match place(&brokers, partitions, factor, &mut Random::from_seed(seed)) {
            Ok(placed) => {
                prop_assert_eq!(placed.len(), partitions);
                for replicas in placed {
                    prop_assert_eq!(replicas.len(), usize::try_from(factor).unwrap());
                    let unique: BTreeSet<_> = replicas.iter().collect();
                    prop_assert_eq!(unique.len(), replicas.len());
                    let leader = brokers.iter().find(|broker| broker.broker_id == replicas[0]).unwrap();
                    prop_assert!(!leader.fenced);
                }
            }
            Err(_) => {
                let unfenced = brokers.iter().filter(|broker| !broker.fenced).count();
                prop_assert!(unfenced == 0 || usize::try_from(factor).unwrap() > brokers.len());
            }
        }
    }
}
