//! The mechanism of the table of APIs: what a row is, and the way of a frame to its row's handler.
//! Not here: the rows themselves (table.rs), what a handler does (one file per API), sockets.
//! Built once by the composition root; `dispatch` runs in the connection's task.
//! Kafka: kafka.server.KafkaApis.handle, ControllerApis, ApiMessageType (listeners, versions), KIP-511, KIP-896.

use crate::api::api_versions::ApiVersionsAnswer;
use crate::api::context::{Principal, RequestContext};
use crate::logging::RateLimit;
use crate::network::{ConnectionInfo, Dispatch, Greeting, ListenerKind, Pending, Reply};
use bytes::{Buf, Bytes};
use kavka_common::Clock;
use kavka_protocol::messages::{ApiVersionsRequest, RequestHeader};
use kavka_protocol::{ApiKey, DecodeError, Message, Request, frame};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tracing::warn;

/// The permission a request needs before its handler runs; enforced when there is an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// Anyone may ask.
    None,
    /// The handler asks for each topic, group or transactional id that the request names.
    PerResource,
    /// One operation on the cluster.
    Cluster(ClusterOperation),
}

/// Operations on the cluster as a whole (org.apache.kafka.common.acl.AclOperation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterOperation {
    Describe,
    Alter,
    DescribeConfigs,
    AlterConfigs,
    Create,
    ClusterAction,
    IdempotentWrite,
}

type Handler = Box<dyn Fn(RequestContext, Bytes) -> Result<Pending, DecodeError> + Send + Sync>;

/// One API on one or both kinds of listeners.
pub struct Row {
    key: ApiKey,
    listeners: &'static [ListenerKind],
    versions: RangeInclusive<i16>,
    authorization: Authorization,
    handler: Handler,
}

/// Served to clients and other brokers.
pub const BROKER: &[ListenerKind] = &[ListenerKind::Broker];
/// Served to brokers and other controllers.
pub const CONTROLLER: &[ListenerKind] = &[ListenerKind::Controller];
/// The same handler serves both.
pub const BOTH: &[ListenerKind] = &[ListenerKind::Broker, ListenerKind::Controller];

impl Row {
    /// The handler answers at once: it neither waits nor blocks.
    pub fn now<R: Request>(
        listeners: &'static [ListenerKind],
        authorization: Authorization,
        handler: impl Fn(&RequestContext, R) -> R::Response + Send + Sync + 'static,
    ) -> Row {
        Row::pending(listeners, authorization, move |context, request: R| {
            context.ready(&handler(&context, request))
        })
    }

    /// The handler is an async function: nothing of it runs before the connection's task polls it, so requests
    /// of one connection may overtake each other inside it. Their responses do not.
    pub fn later<R: Request, F>(
        listeners: &'static [ListenerKind],
        authorization: Authorization,
        handler: impl Fn(RequestContext, R) -> F + Send + Sync + 'static,
    ) -> Row
    where
        F: Future<Output = R::Response> + Send + 'static,
    {
        Row::pending(listeners, authorization, move |context, request: R| {
            context.later(handler(context.clone(), request))
        })
    }

    /// The handler does in order what must be in order, and gives back the rest: see [`RequestContext::ready`],
    /// [`RequestContext::later`], [`Pending::SILENT`], [`Pending::CLOSE`].
    pub fn pending<R: Request>(
        listeners: &'static [ListenerKind],
        authorization: Authorization,
        handler: impl Fn(RequestContext, R) -> Pending + Send + Sync + 'static,
    ) -> Row {
        let versions = R::API_KEY
            .versions()
            .expect("an API with a row has at least one version");
        Row {
            key: R::API_KEY,
            listeners,
            versions,
            authorization,
            handler: Box::new(move |context, mut body| {
                let request = R::decode(&mut body, context.api_version)?;
                Ok(handler(context, request))
            }),
        }
    }

    /// Serves fewer versions than the schema has; say why at the row.
    pub fn narrowed(mut self, versions: RangeInclusive<i16>) -> Row {
        assert!(versions.start() >= self.versions.start());
        assert!(versions.end() <= self.versions.end());
        self.versions = versions;
        self
    }

    /// What the security layer asks for before the handler runs.
    pub fn authorization(&self) -> Authorization {
        self.authorization
    }
}

/// The rows of one kind of listener, ready to dispatch.
pub struct ApiTable {
    rows: BTreeMap<i16, Row>,
    api_versions: ApiVersionsAnswer,
    greeter: Option<Greeter>,
    on_closed: Option<OnClosed>,
    clock: Arc<dyn Clock>,
    refused: RateLimit,
    anonymous: Principal,
}

/// Hears of connections that are closed, by their ids.
pub type OnClosed = Box<dyn Fn(u64) + Send + Sync>;

/// Tells other protocols on the same port from Kafka's.
pub type Greeter = Box<dyn Fn(&ConnectionInfo, &[u8]) -> Greeting + Send + Sync>;

impl ApiTable {
    /// Takes the rows that belong to `kind`. ApiVersions has no row: its answer is the table itself.
    pub fn new(
        kind: ListenerKind,
        rows: Vec<Row>,
        api_versions: ApiVersionsAnswer,
        clock: Arc<dyn Clock>,
    ) -> ApiTable {
        let mut by_key = BTreeMap::new();
        for row in rows.into_iter().filter(|r| r.listeners.contains(&kind)) {
            let key = row.key;
            let double = by_key.insert(key as i16, row).is_some();
            assert!(!double, "two rows for {} on one listener", key.name());
        }
        let mut api_versions = api_versions;
        api_versions.serve(by_key.values().map(|r: &Row| (r.key, r.versions.clone())));
        ApiTable {
            rows: by_key,
            api_versions,
            greeter: None,
            on_closed: None,
            clock,
            refused: RateLimit::per_second(5),
            anonymous: Principal::anonymous(),
        }
    }

    /// Somebody wants to know of closed connections.
    pub fn with_on_closed(mut self, on_closed: OnClosed) -> ApiTable {
        self.on_closed = Some(on_closed);
        self
    }

    /// The listener is ZooKeeper's client port too.
    pub fn with_greeter(mut self, greeter: Greeter) -> ApiTable {
        self.greeter = Some(greeter);
        self
    }

    /// Keys and versions served, in the order of keys, with ApiVersions.
    pub fn served(&self) -> &[(ApiKey, RangeInclusive<i16>)] {
        self.api_versions.served()
    }

    fn handle(&self, connection: &ConnectionInfo, frame: Bytes) -> Result<Pending, Refused> {
        let mut start = frame.clone();
        let raw_key = start
            .try_get_i16()
            .map_err(|_| Refused::HeaderTooShort(frame.len()))?;
        let version = start
            .try_get_i16()
            .map_err(|_| Refused::HeaderTooShort(frame.len()))?;
        let correlation_id = start
            .try_get_i32()
            .map_err(|_| Refused::HeaderTooShort(frame.len()))?;
        let key = ApiKey::try_from(raw_key).map_err(|_| Refused::UnknownKey(raw_key))?;

        if key == ApiKey::ApiVersions {
            return self.handle_api_versions(connection, frame, version, correlation_id);
        }
        let row = self.rows.get(&raw_key).ok_or(Refused::NotServed { key })?;
        if !row.versions.contains(&version) {
            return Err(Refused::Version {
                key,
                version,
                served: row.versions.clone(),
            });
        }
        let mut body = frame;
        let (_, _, header) =
            frame::decode_request_header(&mut body).map_err(|error| Refused::Header {
                key,
                version,
                error,
            })?;
        let context = RequestContext::new(connection, key, version, &header, &self.anonymous);
        (row.handler)(context, body).map_err(|error| Refused::Body {
            key,
            version,
            error,
        })
    }

    fn handle_api_versions(
        &self,
        connection: &ConnectionInfo,
        frame: Bytes,
        version: i16,
        correlation_id: i32,
    ) -> Result<Pending, Refused> {
        let key = ApiKey::ApiVersions;
        let served = key.versions().expect("ApiVersions has versions");
        if !served.contains(&version) {
            // KIP-511: a newer client learns from a version 0 body what it may ask.
            let header = RequestHeader {
                correlation_id,
                ..Default::default()
            };
            let context = RequestContext::new(connection, key, version, &header, &self.anonymous);
            return Ok(Pending::Ready(
                context.reply_with_version(0, &self.api_versions.unsupported_version()),
            ));
        }
        let mut body = frame;
        let (_, _, header) =
            frame::decode_request_header(&mut body).map_err(|error| Refused::Header {
                key,
                version,
                error,
            })?;
        let context = RequestContext::new(connection, key, version, &header, &self.anonymous);
        let request =
            ApiVersionsRequest::decode(&mut body, version).map_err(|error| Refused::Body {
                key,
                version,
                error,
            })?;
        Ok(context.ready(&self.api_versions.answer(version, &request)))
    }
}

impl Dispatch for ApiTable {
    fn dispatch(&self, connection: &Arc<ConnectionInfo>, frame: Bytes) -> Pending {
        self.handle(connection, frame).unwrap_or_else(|refused| {
            if let Some(more) = self.refused.pass(self.clock.monotonic_ms()) {
                warn!(target: "kafka.network.Processor", "Closing the connection from {} on listener {}: {refused}{more}", connection.peer, connection.listener.name);
            }
            Pending::Ready(Reply::Close)
        })
    }

    fn greet(&self, connection: &Arc<ConnectionInfo>, first_bytes: &[u8]) -> Greeting {
        match &self.greeter {
            Some(greeter) => greeter(connection, first_bytes),
            None => Greeting::Kafka,
        }
    }

    fn closed(&self, connection: &ConnectionInfo) {
        if let Some(on_closed) = &self.on_closed {
            on_closed(connection.id);
        }
    }
}

/// Why a request is not handled and its connection is closed, as Kafka does with an InvalidRequestException.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("a request of {0} bytes has no whole header")]
    HeaderTooShort(usize),
    #[error("unknown api key {0}")]
    UnknownKey(i16),
    #[error("api key {} is not served on this listener", .key.name())]
    NotServed { key: ApiKey },
    #[error("{} version {version} is not served; versions {} to {} are", .key.name(), .served.start(), .served.end())]
    Version {
        key: ApiKey,
        version: i16,
        served: RangeInclusive<i16>,
    },
    #[error("the header of {} version {version} cannot be read: {error}", .key.name())]
    Header {
        key: ApiKey,
        version: i16,
        error: DecodeError,
    },
    #[error("{} version {version} cannot be read: {error}", .key.name())]
    Body {
        key: ApiKey,
        version: i16,
        error: DecodeError,
    },
}

#[cfg(test)]
#[path = "dispatch_test.rs"]
mod tests;
