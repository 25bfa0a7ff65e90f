//! For tests, here and in other crates: batches to append, and a simulated disk that loses, tears, fills and fails.
//! Not here: anything that a running broker uses.
//! One thread at a time. Kafka: LogTestUtils.

pub mod batches;
pub mod sim_vfs;

pub use sim_vfs::{Loss, Seeded, SimVfs};
