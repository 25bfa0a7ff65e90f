//! Requests that the active controller decides, on their way there and back.
//! Not here: the decision (crates/controller), the way (controller/channel.rs).
//! Runs in the task of the connection; waits for the controller, and until this broker has seen what it decided.
//! Kafka: ForwardingManager; KIP-590.

use crate::api::RequestContext;
use crate::controller::ControllerChannel;
use crate::metadata::MetadataCache;
use kavka_protocol::{AnyRequest, AnyResponse, Request};
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
    /// Has the controller decide; failures on the way are in the response, in the places its API has for them.
    pub async fn forward<R>(&self, context: RequestContext, request: R) -> R::Response
    where
        R: Request + Into<AnyRequest>,
        R::Response: TryFrom<AnyResponse>,
    {
        let answer = self
            .controller
            .send_or_refuse(context.api_version, request.into())
            .await;
        let Some(answer) = answer else {
            return R::Response::default();
        };
        if let Some(offset) = answer.last_offset {
            // Seen or not: the decision stands.
            let _ = self.cache.wait_for(offset, VISIBLE_WITHIN).await;
        }
        R::Response::try_from(answer.response).unwrap_or_default()
    }
}
