//! InitProducerId of idempotent producers: a fresh producer id with epoch 0.
//! Not here: transactional producers, whose ids belong to the transaction coordinator.
//! Awaits a block of ids from the controller only when this broker's supply is used up. Kafka: KafkaApis.handleInitProducerIdRequest; KIP-98, KIP-360.

use crate::api::RequestContext;
use crate::replica::ProducerIds;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};
use std::sync::Arc;

pub async fn handle(
    producer_ids: Arc<ProducerIds>,
    _context: RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let refused = |error: ErrorCode| InitProducerIdResponse {
        error_code: error.code(),
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    // both or neither: an id without its epoch can not be fenced
    if (request.producer_id == -1) != (request.producer_epoch == -1) {
        return refused(ErrorCode::InvalidRequest);
    }
    match &request.transactional_id {
        Some(id) if id.is_empty() => return refused(ErrorCode::InvalidRequest),
        // No transaction coordinator runs here; who looks for one is told that nobody has one.
        Some(_) => return refused(ErrorCode::NotCoordinator),
        None => {}
    }
    match producer_ids.next().await {
        Ok(producer_id) => InitProducerIdResponse {
            producer_id: producer_id.get(),
            producer_epoch: 0,
            ..Default::default()
        },
        Err(e) => {
            tracing::warn!(target: "kafka.server.KafkaApis", "{e}");
            // Kafka's own answer when no block is at hand: clients retry it
            refused(ErrorCode::CoordinatorLoadInProgress)
        }
    }
}
