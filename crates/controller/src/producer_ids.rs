//! AllocateProducerIds: blocks of ids for idempotent and transactional producers.
//! Not here: handing out single ids (broker).
//! Pure. Kafka: ProducerIdControlManager, ProducerIdsBlock; KIP-730.

use crate::controller::Scope;
use kavka_common::{BrokerEpoch, NodeId};
use kavka_metadata::MetadataRecord;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, ProducerIdsRecord,
};

/// Ids in a block.
const BLOCK_SIZE: i32 = 1000;

pub fn handle(
    scope: &Scope<'_>,
    request: &AllocateProducerIdsRequest,
) -> (Vec<MetadataRecord>, AllocateProducerIdsResponse) {
    let refuse = |error: ErrorCode| {
        (
            Vec::new(),
            AllocateProducerIdsResponse {
                error_code: error.code(),
                ..Default::default()
            },
        )
    };
    if let Err(refused) =
        scope.check_broker_epoch(NodeId(request.broker_id), BrokerEpoch(request.broker_epoch))
    {
        return refuse(refused.error);
    }
    let first = scope.image.next_producer_id;
    let Some(next) = first.checked_add(i64::from(BLOCK_SIZE)) else {
        return refuse(ErrorCode::UnknownServerError);
    };
    let records = vec![MetadataRecord::ProducerIds(ProducerIdsRecord {
        broker_id: request.broker_id,
        broker_epoch: request.broker_epoch,
        next_producer_id: next,
        ..Default::default()
    })];
    (
        records,
        AllocateProducerIdsResponse {
            producer_id_start: first,
            producer_id_len: BLOCK_SIZE,
            ..Default::default()
        },
    )
}
