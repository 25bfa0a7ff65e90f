//! C7: a request that is sent again, or delivered twice, is not applied a second time.
//! Not here: requests with an epoch of their own (r7_stale_epochs).
//! Pure. Source: faults.md C7; KAFKA-8539-like reports of topics made twice.

use super::{Checked, require};
use kavka_common::NodeId;
use kavka_metadata::{MetadataImage, MetadataRecord};
use kavka_protocol::AnyRequest;

pub fn decided(image: &MetadataImage, request: &AnyRequest, records: &[MetadataRecord]) -> Checked {
    match request {
        AnyRequest::CreateTopics(request) => {
            let known = request
                .topics
                .iter()
                .any(|topic| image.topics.contains(&topic.name));
            require(!known || records.is_empty(), || {
                format!("a topic is made again: {request:?}")
            })
        }
        AnyRequest::BrokerRegistration(request) => {
            let broker = image
                .cluster
                .broker(NodeId(request.broker_id))
                .filter(|broker| broker.incarnation_id == request.incarnation_id);
            let Some(broker) = broker else { return Ok(()) };
            let moves = records.iter().any(|record| match record {
                MetadataRecord::RegisterBroker(record) => {
                    record.broker_epoch != broker.broker_epoch.get()
                }
                MetadataRecord::PartitionChange(_) => true,
                _ => false,
            });
            require(!moves, || {
                format!("a repeated registration changes something: {request:?}")
            })
        }
        _ => Ok(()),
    }
}
