//! Checked assignments of replicas to brokers, and the registrations of new partitions made from them.
//! Not here: the placement algorithm (`replication::placement`).
//! Pure. Kafka: ReplicationControlManager.validateManualPartitionAssignment, buildPartitionRegistration.

use crate::api_error::ApiError;
use crate::controller::Scope;
use kavka_common::{LeaderEpoch, NodeId, PartitionEpoch};
use kavka_metadata::{LeaderRecoveryState, PartitionRegistration};
use kavka_protocol::ErrorCode;

/// Refuses what no partition may be assigned to. `replication_factor` is that of the partitions before.
pub fn validate_manual_assignment(
    scope: &Scope<'_>,
    replicas: &[NodeId],
    replication_factor: Option<usize>,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return refuse("The manual partition assignment includes an empty replica list.".into());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    for (index, broker_id) in sorted.iter().enumerate() {
        if scope.image.cluster.broker(*broker_id).is_none() {
            return refuse(format!(
                "The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            ));
        }
        if index > 0 && sorted[index - 1] == *broker_id {
            return refuse(format!(
                "The manual partition assignment includes the broker {broker_id} more than once."
            ));
        }
    }
    match replication_factor {
        Some(factor) if factor != replicas.len() => refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with previous partitions, which have {factor} replica(s).",
            replicas.len()
        )),
        _ => Ok(()),
    }
}

/// The first registration of a partition, `None` when none of its brokers is active. Only active brokers are in sync.
pub fn new_partition(scope: &Scope<'_>, replicas: Vec<NodeId>) -> Option<PartitionRegistration> {
    let isr: Vec<NodeId> = replicas
        .iter()
        .copied()
        .filter(|broker_id| scope.image.cluster.is_active(*broker_id))
        .collect();
    let leader = *isr.first()?;
    Some(PartitionRegistration {
        directories: replicas
            .iter()
            .map(|broker_id| scope.default_directory(*broker_id))
            .collect(),
        replicas,
        isr,
        elr: Vec::new(),
        last_known_elr: Vec::new(),
        removing_replicas: Vec::new(),
        adding_replicas: Vec::new(),
        leader,
        leader_recovery_state: LeaderRecoveryState::Recovered,
        leader_epoch: LeaderEpoch::INITIAL,
        partition_epoch: PartitionEpoch::INITIAL,
    })
}
