//! The controller's decisions: a request and the image go in, records and a response come out.
//! Not here: appending, replicating or committing records (broker/src/quorum), sockets, clocks, random numbers, logs.
//! Pure; the active controller's task owns the `Soft` state and calls one function at a time.
//! Kafka: org.apache.kafka.controller.*; KIP-500, KIP-631.

pub mod api_error;
pub mod brokers;
pub mod configs;
pub mod controller;
pub mod controllers;
pub mod features;
pub mod producer_ids;
pub mod quotas;
pub mod random;
pub mod replication;
pub mod soft;
pub mod topics;

pub use api_error::ApiError;
pub use controller::{Controller, ControllerConfig, Moment, Outcome, UnsupportedRequest};
pub use random::Random;
pub use soft::Soft;
