//! Dynamic settings: who may set what, and the records that set it.
//! Not here: definitions and values (crates/config), whether a running broker takes a setting (that broker checks).
//! Pure. Kafka: ConfigurationControlManager, ControllerConfigurationValidator; KIP-226, KIP-339, KIP-714, KIP-848.

pub mod alter;
pub mod requests;
pub mod validate;
