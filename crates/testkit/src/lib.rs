//! What the end-to-end tests share: our real programs, started through `bin/` in folders and on ports of their own.
//! Not here: the tests (tests/e2e), in-process fakes (each crate has its own). Nothing here sleeps for a fixed time: every
//! wait has a condition and a deadline, and says at its end what it saw instead.
//! Every process that is started is ended by its id, at the latest when its value is dropped.

// Files, clocks and pauses are the subject here; the seams are for the programs under test.
#![allow(clippy::disallowed_methods)]

pub mod cluster;
pub mod cluster_view;
pub mod history;
pub mod log_walk;
pub mod network;
pub mod ports;
pub mod process;
pub mod replicas;
pub mod sandbox;
pub mod seed;
pub mod small_disk;
pub mod wait;
pub mod workload;

pub use cluster::{Cluster, ClusterSpec, Role};
pub use cluster_view::PartitionView;
pub use log_walk::{WalkedLog, walk};
pub use network::{Host, Mischief, Network};
pub use ports::free_port;
pub use process::{Finished, Server, run};
pub use replicas::expect_identical;
pub use sandbox::{Broker, Sandbox};
pub use seed::Seed;
pub use small_disk::SmallDisk;
pub use wait::{DEADLINE, eventually};
pub use workload::{Workload, WorkloadSpec};
