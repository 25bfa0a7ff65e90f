//! The rows: each API that this server serves, sorted by key. What has no row is not advertised.
//! Not here: the handlers (one file per API), how a row works (dispatch.rs).
//! Built once by server.rs, which hands over the services that the handlers need.
//! Kafka: kafka.server.KafkaApis.handle, ControllerApis.handle.

use crate::api::dispatch::{Authorization, BROKER, CONTROLLER, ClusterOperation, Row};
use crate::api::forward::Forwarding;
use crate::api::metadata::MetadataApi;
use crate::api::{
    acls, alter_configs, decide, delete_groups, delete_records, describe_client_quotas,
    describe_cluster, describe_configs, describe_groups, describe_log_dirs, describe_producers,
    describe_topic_partitions, fetch, find_coordinator, heartbeat, init_producer_id, join_group,
    leave_group, list_config_resources, list_groups, list_offsets, offset_commit, offset_delete,
    offset_fetch, offset_for_leader_epoch, produce, sync_group,
};
use crate::controller::{ControllerHandle, assert_refusable};
use crate::coordinator::GroupCoordinator;
use crate::metadata::MetadataCache;
use crate::network::ListenerKind;
use crate::quorum::Observers;
use crate::replica::{ProducerIds, ReplicaManager};
use kavka_common::NodeId;
use kavka_config::BrokerConfig;
use kavka_protocol::messages::{
    AddRaftVoterRequest, AlterClientQuotasRequest, AlterConfigsRequest,
    AlterPartitionReassignmentsRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteTopicsRequest, DescribeQuorumRequest, ElectLeadersRequest,
    IncrementalAlterConfigsRequest, ListPartitionReassignmentsRequest, RemoveRaftVoterRequest,
    UnregisterBrokerRequest, UpdateFeaturesRequest,
};
use kavka_protocol::{AnyRequest, AnyResponse, Request};
use std::sync::Arc;

/// What listeners of controllers serve: the requests that the controller decides, the metadata log, and who is there.
pub fn controller_rows(
    controller: &ControllerHandle,
    observers: &Arc<Observers>,
    cache: &Arc<MetadataCache>,
    config: &Arc<BrokerConfig>,
    cluster_id: &Arc<str>,
    active_controller: impl Fn() -> NodeId + Send + Sync + 'static,
) -> Vec<Row> {
    let mut rows = decide::rows(controller, observers);
    rows.push(describe_cluster(
        CONTROLLER,
        cache,
        config,
        cluster_id,
        active_controller,
    ));
    rows.push(Row::now(CONTROLLER, Authorization::PerResource, {
        let (cache, config) = (Arc::clone(cache), Arc::clone(config));
        move |context, request| describe_configs::handle(&cache, &config, context, request)
    }));
    rows
}

fn describe_cluster(
    listeners: &'static [ListenerKind],
    cache: &Arc<MetadataCache>,
    config: &Arc<BrokerConfig>,
    cluster_id: &Arc<str>,
    active_controller: impl Fn() -> NodeId + Send + Sync + 'static,
) -> Row {
    let (cache, config) = (Arc::clone(cache), Arc::clone(config));
    let cluster_id = Arc::clone(cluster_id);
    Row::now(
        listeners,
        Authorization::Cluster(ClusterOperation::Describe),
        move |context, request| {
            describe_cluster::handle(
                &cache,
                &config,
                &cluster_id,
                &active_controller,
                context,
                request,
            )
        },
    )
}

/// DescribeQuorum on a broker's listener: answered by the quorum's member on this node, or by the active controller.
pub fn quorum_row(observers: Option<Arc<Observers>>, forwarding: &Forwarding) -> Row {
    assert_refusable::<DescribeQuorumRequest>();
    let forwarding = forwarding.clone();
    Row::later(
        BROKER,
        Authorization::Cluster(ClusterOperation::Describe),
        move |context, request: DescribeQuorumRequest| {
            let (observers, forwarding) = (observers.clone(), forwarding.clone());
            async move {
                match observers {
                    // Only the leader knows how far the others are.
                    Some(observers) if observers.leads() => {
                        observers.describe(context.api_version, &request)
                    }
                    Some(_) | None => forwarding.forward(context, request).await,
                }
            }
        },
    )
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

/// The rows about the cluster's metadata.
pub fn cluster_rows(metadata: &MetadataApi, forwarding: &Forwarding) -> Vec<Row> {
    let cache = || Arc::clone(&metadata.cache);
    let config = || Arc::clone(&metadata.config);
    let describe = Authorization::Cluster(ClusterOperation::Describe);
    let alter = Authorization::Cluster(ClusterOperation::Alter);
    // Those that are forwarded by handlers of their own.
    assert_refusable::<AlterConfigsRequest>();
    assert_refusable::<IncrementalAlterConfigsRequest>();
    vec![
        Row::pending(BROKER, Authorization::PerResource, {
            let metadata = metadata.clone();
            move |context, request| metadata.handle(context, request)
        }),
        Row::pending(BROKER, Authorization::PerResource, {
            let metadata = metadata.clone();
            move |context, request| find_coordinator::handle(&metadata, context, request)
        }),
        Row::now(BROKER, Authorization::PerResource, {
            let (cache, config) = (cache(), config());
            move |context, request| {
                describe_topic_partitions::handle(&cache, &config, context, request)
            }
        }),
        describe_cluster(
            BROKER,
            &metadata.cache,
            &metadata.config,
            &metadata.cluster_id,
            // Clients of brokers are shown a broker instead.
            || NodeId::NONE,
        ),
        Row::now(BROKER, Authorization::PerResource, {
            let (cache, config) = (cache(), config());
            move |context, request| describe_configs::handle(&cache, &config, context, request)
        }),
        Row::now(BROKER, Authorization::PerResource, {
            let cache = cache();
            move |context, request| list_config_resources::handle(&cache, context, request)
        }),
        Row::later(BROKER, Authorization::PerResource, {
            let (forwarding, config) = (forwarding.clone(), config());
            move |context, request| {
                alter_configs::legacy(forwarding.clone(), Arc::clone(&config), context, request)
            }
        }),
        Row::later(BROKER, Authorization::PerResource, {
            let (forwarding, config) = (forwarding.clone(), config());
            move |context, request| {
                alter_configs::incremental(
                    forwarding.clone(),
                    Arc::clone(&config),
                    context,
                    request,
                )
            }
        }),
        forwarded::<CreateTopicsRequest>(forwarding, Authorization::PerResource),
        forwarded::<DeleteTopicsRequest>(forwarding, Authorization::PerResource),
        forwarded::<CreatePartitionsRequest>(forwarding, Authorization::PerResource),
        forwarded::<ElectLeadersRequest>(forwarding, alter),
        forwarded::<AlterPartitionReassignmentsRequest>(forwarding, alter),
        forwarded::<ListPartitionReassignmentsRequest>(forwarding, describe),
        forwarded::<UpdateFeaturesRequest>(forwarding, alter),
        forwarded::<UnregisterBrokerRequest>(forwarding, alter),
        forwarded::<AddRaftVoterRequest>(forwarding, alter),
        forwarded::<RemoveRaftVoterRequest>(forwarding, alter),
        forwarded::<AlterClientQuotasRequest>(
            forwarding,
            Authorization::Cluster(ClusterOperation::AlterConfigs),
        ),
        Row::now(
            BROKER,
            Authorization::Cluster(ClusterOperation::DescribeConfigs),
            {
                let cache = cache();
                move |context, request| describe_client_quotas::handle(&cache, context, request)
            },
        ),
        Row::now(BROKER, describe, acls::describe),
        Row::now(BROKER, alter, acls::create),
        Row::now(BROKER, alter, acls::delete),
    ]
}

/// A request that the controller decides and this broker only carries.
fn forwarded<R>(forwarding: &Forwarding, authorization: Authorization) -> Row
where
    R: Request + Into<AnyRequest> + Send + 'static,
    R::Response: TryFrom<AnyResponse> + Send,
{
    assert_refusable::<R>();
    let forwarding = forwarding.clone();
    Row::later(BROKER, authorization, move |context, request: R| {
        let forwarding = forwarding.clone();
        async move { forwarding.forward(context, request).await }
    })
}
