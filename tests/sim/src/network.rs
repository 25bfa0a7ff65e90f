//! The simulated network: who reaches whom, how long a message takes, what is lost, late or delivered twice.
//! Not here: when links are cut (faults.rs).
//! Pure: draws from the schedule's random numbers. Messages between two nodes may overtake each other.

use crate::message::Address;
use crate::plan::Plan;
use kavka_controller::Random;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct Network {
    cut: BTreeSet<(Address, Address)>,
    calm: bool,
}

/// What becomes of one message: the delay of each copy that arrives.
pub type Copies = [Option<i64>; 2];

impl Network {
    /// Cuts what goes from one node to the other.
    pub fn cut(&mut self, from: Address, to: Address) {
        self.cut.insert((from, to));
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// From now on nothing is lost, late or doubled.
    pub fn calm(&mut self) {
        self.heal();
        self.calm = true;
    }

    pub fn reaches(&self, from: Address, to: Address) -> bool {
        !self.cut.contains(&(from, to))
    }

    pub fn route(&self, plan: &Plan, random: &mut Random, from: Address, to: Address) -> Copies {
        let delay = |random: &mut Random| {
            let span = usize::try_from(plan.delay_ms_max.max(1)).unwrap_or(1);
            1 + i64::try_from(random.below(span)).unwrap_or(0)
        };
        if !self.reaches(from, to) {
            return [None, None];
        }
        if self.calm {
            return [Some(1 + (delay(random) - 1).min(4)), None];
        }
        if random.below(1000) < plan.drop_permille {
            return [None, None];
        }
        let first = if random.below(1000) < plan.late_permille {
            // as a segment that a switch held back: long after everybody has given the request up
            Some(200 + 20 * delay(random))
        } else {
            Some(delay(random))
        };
        let second = (random.below(1000) < plan.duplicate_permille)
            .then(|| delay(random) * (1 + i64::try_from(random.below(100)).unwrap_or(0)));
        [first, second]
    }
}
