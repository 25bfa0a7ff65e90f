//! The rows: each API that this server serves, sorted by key. What has no row is not advertised.
//! Not here: the handlers (one file per API), how a row works (dispatch.rs).
//! Built once by server.rs, which hands over the services that the handlers need.
//! Kafka: kafka.server.KafkaApis.handle, ControllerApis.handle.

use crate::api::dispatch::{Authorization, BROKER, ClusterOperation, Row};
use crate::api::{
    delete_records, describe_log_dirs, describe_producers, fetch, init_producer_id, list_offsets,
    offset_for_leader_epoch, produce,
};
use crate::replica::{ProducerIds, ReplicaManager};
use std::sync::Arc;

/// What listeners of brokers serve.
pub fn broker_rows() -> Vec<Row> {
    vec![]
}

/// What listeners of controllers serve.
pub fn controller_rows() -> Vec<Row> {
    vec![]
}

/// The rows about the records of partitions that this broker hosts.
pub fn replica_rows(replicas: &Arc<ReplicaManager>, producer_ids: &Arc<ProducerIds>) -> Vec<Row> {
    let with = || Arc::clone(replicas);
    let producer_ids = Arc::clone(producer_ids);
    vec![
        Row::pending(BROKER, Authorization::PerResource, {
            let replicas = with();
            move |context, request| produce::handle(&replicas, context, request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let replicas = with();
            move |context, request| fetch::handle(&replicas, context, request)
        }),
        Row::later(BROKER, Authorization::PerResource, {
            let replicas = with();
            move |context, request| list_offsets::handle(Arc::clone(&replicas), context, request)
        }),
        Row::later(BROKER, Authorization::PerResource, {
            let replicas = with();
            move |context, request| delete_records::handle(Arc::clone(&replicas), context, request)
        }),
        Row::later(
            BROKER,
            Authorization::PerResource,
            move |context, request| {
                init_producer_id::handle(Arc::clone(&producer_ids), context, request)
            },
        ),
        Row::now(BROKER, Authorization::PerResource, {
            let replicas = with();
            move |context, request| offset_for_leader_epoch::handle(&replicas, context, request)
        }),
        Row::later(
            BROKER,
            Authorization::Cluster(ClusterOperation::Describe),
            {
                let replicas = with();
                move |context, request| {
                    describe_log_dirs::handle(Arc::clone(&replicas), context, request)
                }
            },
        ),
        Row::now(BROKER, Authorization::PerResource, {
            let replicas = with();
            move |context, request| describe_producers::handle(&replicas, context, request)
        }),
    ]
}
