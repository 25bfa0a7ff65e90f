//! The rows: each API that this server serves, sorted by key. What has no row is not advertised.
//! Not here: the handlers (one file per API), how a row works (dispatch.rs).
//! Built once by server.rs, which hands over the services that the handlers need.
//! Kafka: kafka.server.KafkaApis.handle, ControllerApis.handle.

use crate::api::dispatch::Row;

/// What listeners of brokers serve.
pub fn broker_rows() -> Vec<Row> {
    vec![]
}

/// What listeners of controllers serve.
pub fn controller_rows() -> Vec<Row> {
    vec![]
}
