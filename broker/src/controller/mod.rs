//! The controller of this node: runs the pure core (crates/controller) on the metadata quorum, and the way to reach the
//! active controller from anywhere.
//! Not here: decisions (crates/controller), replication of records (quorum/), listeners (api/).
//! One task owns the active controller; requests reach it through a bounded queue.
//! Kafka: org.apache.kafka.controller.QuorumController, kafka.server.NodeToControllerChannelManager; KIP-500, KIP-631.

mod batching;
mod bootstrap;
mod channel;
mod liveness;
mod refusal;
mod registration;
mod remote;
mod shell;
mod voters;

#[cfg(test)]
mod remote_test;
#[cfg(test)]
mod shell_test;

pub use bootstrap::bootstrap_records;
pub use channel::{ChannelError, ControllerAnswer, ControllerChannel, HIGHEST_VERSION};
pub use refusal::{assert_refusable, expect_response, is_not_controller, refuse};
pub use registration::{register_controller, update_voter};
pub use remote::{RemoteController, RemoteError, SeedOrigin, Seeds};
pub use shell::{ControllerError, ControllerHandle, Handled, ShellSettings};
