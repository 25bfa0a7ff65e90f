//! The registrations of brokers.
//! Not here: which brokers there are (nodes).
//! Runs on the caller's task. Kafka: Admin.unregisterBroker; KIP-500.

use super::outcome;
use crate::{ClientError, Cluster};
use kavka_common::BrokerId;
use kavka_protocol::messages::UnregisterBrokerRequest;

/// Has the controller forget a broker.
pub async fn unregister(cluster: &mut Cluster, broker: BrokerId) -> Result<(), ClientError> {
    let request = UnregisterBrokerRequest {
        broker_id: broker.0,
        ..Default::default()
    };
    cluster
        .retrying("unregisterBroker", async |cluster| {
            let answer = cluster
                .call_any_or_active_controller("unregisterBroker", &request)
                .await?;
            outcome(answer.error_code, answer.error_message.as_ref())
        })
        .await
}
