//! What a handler knows about a request besides its body, and how it answers.
//! Not here: the handlers, their table (table.rs).
//! A value per request; cheap to clone.
//! Kafka: org.apache.kafka.common.requests.RequestContext.

use crate::network::{ConnectionInfo, ListenerInfo, Pending, Reply};
use kavka_protocol::messages::RequestHeader;
use kavka_protocol::{ApiKey, Response, frame};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing::error;

/// Who asks. Without authentication: `User:ANONYMOUS`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    pub principal_type: Arc<str>,
    pub name: Arc<str>,
}

impl Principal {
    pub fn anonymous() -> Self {
        Principal {
            principal_type: "User".into(),
            name: "ANONYMOUS".into(),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.principal_type, self.name)
    }
}

/// The circumstances of one request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    pub api_key: ApiKey,
    pub api_version: i16,
    pub correlation_id: i32,
    /// Empty when the client gave none.
    pub client_id: Arc<str>,
    pub connection_id: u64,
    pub listener: Arc<ListenerInfo>,
    pub principal: Principal,
    pub peer: SocketAddr,
    /// The address of this server by which the client reached it.
    pub local: SocketAddr,
}

impl RequestContext {
    pub(crate) fn new(
        connection: &ConnectionInfo,
        api_key: ApiKey,
        api_version: i16,
        header: &RequestHeader,
        principal: &Principal,
    ) -> Self {
        RequestContext {
            api_key,
            api_version,
            correlation_id: header.correlation_id,
            client_id: header.client_id.as_deref().unwrap_or("").into(),
            connection_id: connection.id,
            listener: Arc::clone(&connection.listener),
            principal: principal.clone(),
            peer: connection.peer,
            local: connection.local,
        }
    }

    /// Encodes a response to this request. A response that its version cannot carry is our mistake: it is
    /// logged and the connection closed, as Kafka does.
    pub fn reply<R: Response>(&self, response: &R) -> Reply {
        self.reply_with_version(self.api_version, response)
    }

    pub(crate) fn reply_with_version<R: Response>(&self, version: i16, response: &R) -> Reply {
        match frame::encode_response(self.api_key, version, self.correlation_id, response) {
            Ok(segments) => Reply::Send(segments),
            Err(e) => {
                error!(target: "kafka.server.KafkaApis", "Response to {} version {version} from {} cannot be encoded: {e}", self.api_key.name(), self.peer);
                Reply::Close
            }
        }
    }

    /// The answer is there.
    pub fn ready<R: Response>(&self, response: &R) -> Pending {
        Pending::Ready(self.reply(response))
    }

    /// The answer comes later. What has to happen in the order of requests must be done before this call.
    pub fn later<R: Response>(
        &self,
        response: impl Future<Output = R> + Send + 'static,
    ) -> Pending {
        let context = self.clone();
        Pending::Later(Box::pin(async move { context.reply(&response.await) }))
    }
}
