//! UnregisterBroker: an operator removes a broker for good.
//! Not here: moving its replicas elsewhere (a reassignment does).
//! Pure. Kafka: ReplicationControlManager.unregisterBroker; KIP-631.

use crate::controller::Scope;
use crate::replication::broker_changes;
use crate::soft::Soft;
use kavka_common::NodeId;
use kavka_metadata::MetadataRecord;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{
    UnregisterBrokerRecord, UnregisterBrokerRequest, UnregisterBrokerResponse,
};

pub fn handle(
    scope: &Scope<'_>,
    soft: &mut Soft,
    request: &UnregisterBrokerRequest,
) -> (Vec<MetadataRecord>, UnregisterBrokerResponse) {
    let broker_id = NodeId(request.broker_id);
    let Some(broker) = scope.image.cluster.broker(broker_id) else {
        return (
            Vec::new(),
            UnregisterBrokerResponse {
                error_code: ErrorCode::BrokerIdNotRegistered.code(),
                error_message: Some(
                    format!("Broker ID {broker_id} is not currently registered").into(),
                ),
                ..Default::default()
            },
        );
    };
    let mut records = Vec::new();
    broker_changes::remove_everywhere(scope, broker_id, &mut records);
    records.push(MetadataRecord::UnregisterBroker(UnregisterBrokerRecord {
        broker_id: broker_id.get(),
        broker_epoch: broker.broker_epoch.get(),
        ..Default::default()
    }));
    soft.sessions.remove(&broker_id);
    (records, UnregisterBrokerResponse::default())
}
