//! The requests of Kafka's protocol: one file per API, named after its schema, and one row each in `table`.
//! Not here: sockets and framing (network/), decisions (the pure cores), disk (replica/).
//! Handlers run in the task of the connection; they are thin and never block.
//! Kafka: kafka.server.{KafkaApis, ControllerApis}.

pub mod acls;
pub mod alter_configs;
pub mod api_versions;
pub mod auto_create;
pub mod cluster_view;
pub mod context;
pub mod decide;
pub mod delete_groups;
pub mod delete_records;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_topic_partitions;
pub mod dispatch;
pub mod envelope;
pub mod errors;
pub mod fetch;
pub mod find_coordinator;
pub mod forward;
pub mod heartbeat;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod settings;
pub mod sync_group;
pub mod table;
#[cfg(test)]
pub(crate) mod test_image;

pub use context::{Principal, RequestContext};
pub use dispatch::{ApiTable, Authorization, BOTH, BROKER, CONTROLLER, ClusterOperation, Row};
