//! A whole cluster in one thread: controllers, brokers, producers and consumers on the real cores, with simulated network,
//! clock and disks, driven by a seed through crashes, losses, partitions and pauses, and watched by invariants.
//! Not here: sockets and processes (tests/e2e), the consensus library (it is modelled; quorum.rs says how far).
//! Determinism comes from one queue of events, one generator of numbers, and cores without clocks or tasks.
//! Kafka: RaftEventSimulationTest for the quorum; nothing for the rest.
//!
//! # Layout
//! - `plan` what a seed decides; `world` nodes, time, queue, trace; `network`; `faults`
//! - `quorum`, `controller_node`; `broker_node`, `broker_requests`, `broker_follower`; `producer`, `consumer`, `admin`
//! - `oracle` what is true; `invariants/` what must hold, one file each
//! - `run` one schedule; `report` numbers

pub mod admin;
pub mod broker_follower;
pub mod broker_node;
pub mod broker_requests;
pub mod consumer;
pub mod context;
pub mod controller_node;
pub mod faults;
pub mod invariants;
pub mod message;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod producer;
pub mod quorum;
pub mod report;
pub mod run;
pub mod world;

pub use plan::Plan;
pub use report::{Stats, Violation};
pub use run::{Outcome, run};
