//! Requests that the active controller decides, on their way there and back.
//! Not here: the decision (crates/controller), the way (controller/channel.rs).
//! Runs in the task of the connection; waits for the controller, and until this broker has seen what it decided.
//! Kafka: ForwardingManager; KIP-590.

use crate::api::RequestContext;
use crate::controller::{ControllerChannel, expect_response};
use crate::metadata::MetadataCache;
use kavka_common::Offset;
use kavka_common::topic::CLUSTER_METADATA_TOPIC;
use kavka_protocol::messages::{DescribeQuorumRequest, describe_quorum_request};
use kavka_protocol::{AnyRequest, AnyResponse, ApiKey, Request};
use std::sync::Arc;
use std::time::Duration;

/// How long an answer is held back until this broker has caught up with it. A client that asks this broker next
/// should find what it has been told; one that waits for ever should not.
const VISIBLE_WITHIN: Duration = Duration::from_secs(2);

/// The way to the controller and back.
#[derive(Clone)]
pub struct Forwarding {
    pub controller: Arc<ControllerChannel>,
    pub cache: Arc<MetadataCache>,
}

impl Forwarding {
    /// Has the controller decide. The row of `R` must have been checked by `assert_refusable`. Failures on the way are in the response, in the places its API has for them.
    pub async fn forward<R>(&self, context: RequestContext, request: R) -> R::Response
    where
        R: Request + Into<AnyRequest>,
        R::Response: TryFrom<AnyResponse>,
    {
        let answer = self
            .controller
            .send_or_refuse(context.api_version, request.into())
            .await;
        let last_offset = match answer.last_offset {
            None if !only_reads(R::API_KEY) => self.committed_offset().await,
            known => known,
        };
        if let Some(offset) = last_offset {
            // Seen or not: the decision stands.
            let _ = self.cache.wait_for(offset, VISIBLE_WITHIN).await;
        }
        expect_response::<R>(answer.response)
    }

    /// Where a controller on another node has got to; its answers do not say which offset they are about.
    async fn committed_offset(&self) -> Option<Offset> {
        let request = DescribeQuorumRequest {
            topics: vec![describe_quorum_request::TopicData {
                topic_name: CLUSTER_METADATA_TOPIC.into(),
                partitions: vec![describe_quorum_request::PartitionData::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = self.controller.call(request).await.ok()?;
        let partition = response.topics.first()?.partitions.first()?;
        Some(partition.high_watermark - 1).filter(|offset| *offset >= 0)
    }
}

/// Nothing changes, so there is nothing to wait for.
fn only_reads(api_key: ApiKey) -> bool {
    matches!(
        api_key,
        ApiKey::DescribeQuorum | ApiKey::ListPartitionReassignments | ApiKey::DescribeCluster
    )
}
