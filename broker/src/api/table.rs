//! The rows: each API that this server serves, sorted by key. What has no row is not advertised.
//! Not here: the handlers (one file per API), how a row works (dispatch.rs).
//! Built once by server.rs, which hands over the services that the handlers need.
//! Kafka: kafka.server.KafkaApis.handle, ControllerApis.handle.

use crate::api::dispatch::{Authorization, BROKER, ClusterOperation, Row};
use crate::api::{
    delete_groups, delete_records, describe_groups, describe_log_dirs, describe_producers, fetch,
    heartbeat, init_producer_id, join_group, leave_group, list_groups, list_offsets, offset_commit,
    offset_delete, offset_fetch, offset_for_leader_epoch, produce, sync_group,
};
use crate::coordinator::GroupCoordinator;
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

/// The rows about the groups whose shards this broker hosts.
pub fn group_rows(groups: &Arc<GroupCoordinator>) -> Vec<Row> {
    let with = || Arc::clone(groups);
    vec![
        Row::pending(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| offset_commit::handle(&groups, context, request)
        }),
        Row::now(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| offset_fetch::handle(&groups, context, &request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| join_group::handle(&groups, context, request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| heartbeat::handle(&groups, context, request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| leave_group::handle(&groups, context, request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| sync_group::handle(&groups, context, request)
        }),
        Row::now(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| describe_groups::handle(&groups, context, &request)
        }),
        Row::now(BROKER, Authorization::PerResource, {
            let groups = with();
            move |_, request| list_groups::handle(&groups, &request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| delete_groups::handle(&groups, context, request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let groups = with();
            move |context, request| offset_delete::handle(&groups, context, request)
        }),
    ]
}
