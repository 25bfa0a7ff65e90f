//! Chance that can be had again: what a fault test draws comes from one number, which it prints.
//! Not here: the programs' own randomness and the scheduler's, which no seed of ours reaches.
//! Owned by one test. The generator is SplitMix64, which is public domain and the same everywhere.

/// Names the seed for the next run.
const VARIABLE: &str = "KAVKA_SEED";

#[derive(Clone, Debug)]
pub struct Seed {
    first: u64,
    state: u64,
}

impl Seed {
    /// `KAVKA_SEED`, or a fresh one.
    pub fn from_environment() -> Seed {
        let given = std::env::var(VARIABLE).ok();
        let seed = given.and_then(|text| text.parse().ok());
        Seed::new(seed.unwrap_or_else(|| {
            let mut bytes = [0; 4];
            getrandom::fill(&mut bytes).expect("random bytes");
            u64::from(u32::from_le_bytes(bytes))
        }))
    }

    pub fn new(seed: u64) -> Seed {
        Seed {
            first: seed,
            state: seed,
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// One of several.
    #[track_caller]
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).expect("an index")]
    }

    pub fn shuffled<T>(&mut self, mut of: Vec<T>) -> Vec<T> {
        for last in (1..of.len()).rev() {
            let at = self.below(last as u64 + 1);
            of.swap(last, usize::try_from(at).expect("an index"));
        }
        of
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{VARIABLE}={}", self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |mut seed: Seed| (seed.below(1000), seed.shuffled(vec![1, 2, 3, 4, 5]));
        assert_eq!(draw(Seed::new(7)), draw(Seed::new(7)));
        assert_ne!(draw(Seed::new(7)), draw(Seed::new(8)));
        assert_eq!(Seed::new(7).to_string(), "KAVKA_SEED=7");
    }
}
