//! What a node has around it while it handles one event: the time, random numbers, and a place for what it sends.
//! Not here: delivery (world.rs).
//! Lives for one event. Kafka: none.

use crate::message::{Address, Message, Timer};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::report::Stats;
use kavka_controller::Random;

#[derive(Debug)]
pub enum Output {
    Send { to: Address, message: Message },
    Timer { after_ms: i64, timer: Timer },
}

pub struct Context<'a> {
    pub now: i64,
    pub address: Address,
    pub plan: &'a Plan,
    pub random: &'a mut Random,
    pub oracle: &'a mut Oracle,
    pub stats: &'a mut Stats,
    pub out: &'a mut Vec<Output>,
    pub correlations: &'a mut u64,
    /// The node gave its vote in this event.
    pub voted: bool,
    /// The node's process ends with this event.
    pub exits: bool,
}

impl Context<'_> {
    pub fn send(&mut self, to: Address, message: Message) {
        self.out.push(Output::Send { to, message });
    }

    pub fn timer(&mut self, after_ms: i64, timer: Timer) {
        self.out.push(Output::Timer { after_ms, timer });
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: i64) -> i64 {
        let bound = usize::try_from(bound.max(1)).unwrap_or(1);
        i64::try_from(self.random.below(bound)).unwrap_or(0)
    }

    pub fn chance(&mut self, permille: usize) -> bool {
        self.random.below(1000) < permille
    }

    pub fn correlation(&mut self) -> u64 {
        *self.correlations += 1;
        *self.correlations
    }

    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        for chunk in seed.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.random.next_u64().to_le_bytes());
        }
        seed
    }
}
