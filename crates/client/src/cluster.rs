//! A cluster as a client sees it: bootstrap, brokers, leaders, coordinators, and one connection to each that is used.
//! Not here: single operations (admin), the words of a tool.
//! Owned by one caller; calls run one after another, retried until the operation's deadline.
//! Kafka: org.apache.kafka.clients.{Metadata, MetadataUpdater}, admin.internals.AdminMetadataManager; KIP-590, KIP-699.

use crate::{BrokerAddress, ClientConfig, ClientError, Connection};
use kavka_common::NodeId;
use kavka_protocol::messages::metadata_request::MetadataRequestTopic;
use kavka_protocol::messages::{
    DescribeClusterRequest, FindCoordinatorRequest, MetadataRequest, MetadataResponse,
};
use kavka_protocol::{ErrorCode, Request};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// What a coordinator coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinator {
    Group = 0,
    Transaction = 1,
}

/// `DescribeCluster`'s kind of endpoint: controllers.
const ENDPOINT_TYPE_CONTROLLER: i8 = 2;

/// Connections and what is known of the brokers.
#[derive(Debug)]
pub struct Cluster {
    bootstrap: Vec<BrokerAddress>,
    /// The bootstrap addresses and all nodes are controllers (KIP-919).
    of_controllers: bool,
    config: ClientConfig,
    brokers: BTreeMap<NodeId, BrokerAddress>,
    controller: NodeId,
    cluster_id: Option<String>,
    connections: BTreeMap<NodeId, Connection>,
    /// The connection over which the brokers were learned; answers what any broker can answer.
    seed: Option<Connection>,
}

impl Cluster {
    pub fn new(bootstrap: Vec<BrokerAddress>, config: ClientConfig) -> Cluster {
        Cluster {
            bootstrap,
            of_controllers: false,
            config,
            brokers: BTreeMap::new(),
            controller: NodeId::NONE,
            cluster_id: None,
            connections: BTreeMap::new(),
            seed: None,
        }
    }

    /// A cluster seen through its controllers' own listener, `bootstrap.controllers`: they are its nodes.
    pub fn of_controllers(bootstrap: Vec<BrokerAddress>, config: ClientConfig) -> Cluster {
        Cluster {
            of_controllers: true,
            ..Cluster::new(bootstrap, config)
        }
    }

    /// Whether it was made of the addresses of controllers.
    pub fn is_of_controllers(&self) -> bool {
        self.of_controllers
    }

    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Gives operations this long from now on, with their retries.
    pub fn set_api_timeout_ms(&mut self, timeout_ms: u64) {
        self.config.api_timeout_ms = timeout_ms;
    }

    /// The brokers of the newest metadata answer.
    pub fn brokers(&self) -> &BTreeMap<NodeId, BrokerAddress> {
        &self.brokers
    }

    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// Sends to some broker. `what` names the operation in a time-out, as Java's `Call: listTopics` does.
    pub async fn call_any<R: Request>(
        &mut self,
        what: &str,
        request: &R,
    ) -> Result<R::Response, ClientError> {
        let deadline = self.deadline();
        let mut backoff = Backoff::new(&self.config);
        loop {
            match self.seed().await {
                Ok(connection) => match connection.call(request).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => {
                        self.seed = None;
                        if !error.is_retriable() {
                            return Err(error);
                        }
                        backoff.pause(deadline, what, error).await?;
                    }
                },
                Err(error) if error.is_retriable() => {
                    backoff.pause(deadline, what, error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends to one broker.
    pub async fn call_node<R: Request>(
        &mut self,
        node: NodeId,
        what: &str,
        request: &R,
    ) -> Result<R::Response, ClientError> {
        let deadline = self.deadline();
        let mut backoff = Backoff::new(&self.config);
        loop {
            let result = match self.node(node).await {
                Ok(connection) => connection.call(request).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.connections.remove(&node);
                    if !error.is_retriable() {
                        return Err(error);
                    }
                    backoff.pause(deadline, what, error).await?;
                }
            }
        }
    }

    /// As `call_node`, with a request that is made for the version which is going to be spoken, at most `version_max`.
    pub async fn call_node_versioned<R: Request>(
        &mut self,
        node: NodeId,
        what: &str,
        version_max: i16,
        request: impl Fn(i16) -> R,
    ) -> Result<R::Response, ClientError> {
        let deadline = self.deadline();
        let mut backoff = Backoff::new(&self.config);
        loop {
            let result = match self.node(node).await {
                Ok(connection) => match connection.version_of(R::API_KEY) {
                    Some(version) => {
                        let version = version.min(version_max);
                        connection.call_version(&request(version), version).await
                    }
                    None => return Err(ClientError::UnsupportedApi { api: R::API_KEY }),
                },
                Err(error) => Err(error),
            };
            match result {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.connections.remove(&node);
                    if !error.is_retriable() {
                        return Err(error);
                    }
                    backoff.pause(deadline, what, error).await?;
                }
            }
        }
    }

    /// Sends to the controller's stand-in, found anew after each failure: it may have moved.
    pub async fn call_controller<R: Request>(
        &mut self,
        what: &str,
        request: &R,
    ) -> Result<R::Response, ClientError> {
        self.call_controller_versioned(what, |_| request).await
    }

    /// As `call_controller`, with a request that depends on the version which is going to be spoken.
    pub async fn call_controller_versioned<'r, R: Request + 'r>(
        &mut self,
        what: &str,
        request: impl Fn(i16) -> &'r R,
    ) -> Result<R::Response, ClientError> {
        self.retrying(what, async |cluster| {
            let node = cluster.controller(what).await?;
            let result = match cluster.node(node).await {
                Ok(connection) => {
                    let version = connection.version_of(R::API_KEY).unwrap_or_default();
                    connection.call(request(version)).await
                }
                Err(error) => Err(error),
            };
            if result.is_err() {
                cluster.connections.remove(&node);
                cluster.brokers.clear();
                cluster.controller = NodeId::NONE;
            }
            result
        })
        .await
    }

    /// The time that a request gives the broker, where it has a field for it.
    pub fn server_timeout_ms(&self) -> i32 {
        i32::try_from(self.config.request_timeout_ms).unwrap_or(i32::MAX)
    }

    /// Asks for metadata of the given topics (`None`: all) without creating any, and remembers the brokers.
    pub async fn metadata(
        &mut self,
        what: &str,
        topics: Option<&[&str]>,
    ) -> Result<MetadataResponse, ClientError> {
        let request = MetadataRequest {
            topics: topics.map(|names| {
                names
                    .iter()
                    .map(|name| MetadataRequestTopic {
                        name: Some((*name).into()),
                        ..Default::default()
                    })
                    .collect()
            }),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = self.call_any(what, &request).await?;
        self.learn(&answer);
        Ok(answer)
    }

    /// The controller's stand-in: with KRaft, the broker that the metadata names; it forwards.
    pub async fn controller(&mut self, what: &str) -> Result<NodeId, ClientError> {
        if self.brokers.is_empty() {
            self.learn_nodes(what).await?;
        }
        Ok(match self.controller {
            // A cluster that has only just begun names nobody: worth another try.
            NodeId::NONE => {
                self.brokers
                    .keys()
                    .next()
                    .copied()
                    .ok_or_else(|| ClientError::Refused {
                        code: ErrorCode::LeaderNotAvailable,
                        message: Some("The cluster names no live broker yet".into()),
                    })?
            }
            known => known,
        })
    }

    /// Asks who the nodes are, and which one is the controller.
    pub async fn learn_nodes(&mut self, what: &str) -> Result<(), ClientError> {
        if !self.of_controllers {
            return self.metadata(what, Some(&[])).await.map(|_| ());
        }
        let request = DescribeClusterRequest {
            endpoint_type: ENDPOINT_TYPE_CONTROLLER,
            ..Default::default()
        };
        let answer = self.call_any(what, &request).await?;
        let message = answer.error_message.as_deref();
        ClientError::check(answer.error_code, message)?;
        self.brokers = answer
            .brokers
            .iter()
            .filter_map(|node| {
                let port = u16::try_from(node.port).ok()?;
                let address = BrokerAddress::new(node.host.to_string(), port);
                Some((NodeId(node.broker_id), address))
            })
            .collect();
        self.controller = NodeId(answer.controller_id);
        self.cluster_id = Some(answer.cluster_id.to_string());
        Ok(())
    }

    /// Sends to some broker, or to the active controller where the nodes are controllers.
    pub async fn call_any_or_active_controller<R: Request>(
        &mut self,
        what: &str,
        request: &R,
    ) -> Result<R::Response, ClientError> {
        if self.of_controllers {
            self.call_controller(what, request).await
        } else {
            self.call_any(what, request).await
        }
    }

    /// Finds the coordinator of a group or a transactional id, waiting while it is being elected or loaded.
    pub async fn coordinator(
        &mut self,
        what: &str,
        kind: Coordinator,
        key: &str,
    ) -> Result<NodeId, ClientError> {
        let deadline = self.deadline();
        let mut backoff = Backoff::new(&self.config);
        loop {
            let request = FindCoordinatorRequest {
                // Version 4 and later take the list, earlier ones the single key.
                key: key.into(),
                key_type: kind as i8,
                coordinator_keys: vec![key.into()],
                ..Default::default()
            };
            let answer = self.find_coordinator(what, request).await?;
            let (code, message, node, host, port) = answer;
            match ClientError::check(code, message.as_deref()) {
                Ok(()) => {
                    let node = NodeId(node);
                    let port = u16::try_from(port).map_err(|_| {
                        ClientError::Config(format!("the broker names port {port} for node {node}"))
                    })?;
                    self.brokers.insert(node, BrokerAddress::new(host, port));
                    return Ok(node);
                }
                Err(error) if error.is_retriable() => {
                    backoff.pause(deadline, what, error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn find_coordinator(
        &mut self,
        what: &str,
        request: FindCoordinatorRequest,
    ) -> Result<(i16, Option<String>, i32, String, i32), ClientError> {
        let batched = self
            .seed()
            .await
            .ok()
            .and_then(|seed| seed.version_of(FindCoordinatorRequest::API_KEY))
            .is_none_or(|version| version >= 4);
        let request = if batched {
            FindCoordinatorRequest {
                key: Default::default(),
                ..request
            }
        } else {
            FindCoordinatorRequest {
                coordinator_keys: Vec::new(),
                ..request
            }
        };
        let answer = self.call_any(what, &request).await?;
        Ok(match answer.coordinators.into_iter().next() {
            Some(one) => (
                one.error_code,
                one.error_message.map(|m| m.to_string()),
                one.node_id,
                one.host.to_string(),
                one.port,
            ),
            None => (
                answer.error_code,
                answer.error_message.map(|m| m.to_string()),
                answer.node_id,
                answer.host.to_string(),
                answer.port,
            ),
        })
    }

    /// Runs `attempt` until it gives something else than a retriable refusal, or the deadline passes.
    pub async fn retrying<T, F>(&mut self, what: &str, mut attempt: F) -> Result<T, ClientError>
    where
        F: AsyncFnMut(&mut Cluster) -> Result<T, ClientError>,
    {
        let deadline = self.deadline();
        let mut backoff = Backoff::new(&self.config);
        loop {
            match attempt(self).await {
                Err(error) if error.is_retriable() => {
                    backoff.pause(deadline, what, error).await?;
                }
                result => return result,
            }
        }
    }

    fn learn(&mut self, answer: &MetadataResponse) {
        self.brokers = answer
            .brokers
            .iter()
            .filter_map(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                Some((
                    NodeId(broker.node_id),
                    BrokerAddress::new(broker.host.to_string(), port),
                ))
            })
            .collect();
        self.controller = NodeId(answer.controller_id);
        self.cluster_id = answer.cluster_id.as_ref().map(|id| id.to_string());
    }

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.config.api_timeout_ms)
    }

    /// The connection for what any broker can answer: the first bootstrap address that accepts.
    pub async fn seed(&mut self) -> Result<&mut Connection, ClientError> {
        if self.seed.is_none() {
            let mut last = None;
            for address in self.bootstrap.iter().chain(self.brokers.values()) {
                match Connection::connect(address, &self.config).await {
                    Ok(connection) => {
                        self.seed = Some(connection);
                        break;
                    }
                    Err(error) => last = Some(error),
                }
            }
            if let (None, Some(error)) = (&self.seed, last) {
                return Err(error);
            }
        }
        self.seed
            .as_mut()
            .ok_or_else(|| ClientError::Config("No bootstrap servers given".into()))
    }

    async fn node(&mut self, node: NodeId) -> Result<&mut Connection, ClientError> {
        if !self.connections.contains_key(&node) {
            if !self.brokers.contains_key(&node) {
                self.learn_nodes("describeCluster").await?;
            }
            let address = self.brokers.get(&node).ok_or(ClientError::Refused {
                code: ErrorCode::BrokerNotAvailable,
                message: Some(format!(
                    "Node {node} is not among the brokers of the cluster"
                )),
            })?;
            let connection = Connection::connect(address, &self.config).await?;
            self.connections.insert(node, connection);
        }
        self.connections.get_mut(&node).ok_or(ClientError::Refused {
            code: ErrorCode::BrokerNotAvailable,
            message: None,
        })
    }
}

/// Pauses between tries, doubling up to the maximum.
struct Backoff {
    next_ms: u64,
    max_ms: u64,
}

impl Backoff {
    fn new(config: &ClientConfig) -> Self {
        Backoff {
            next_ms: config.retry_backoff_ms,
            max_ms: config.retry_backoff_ms_max,
        }
    }

    /// Waits before the next try, or fails with what stood in the way of the last one.
    async fn pause(
        &mut self,
        deadline: Instant,
        what: &str,
        last: ClientError,
    ) -> Result<(), ClientError> {
        let pause = Duration::from_millis(self.next_ms);
        if Instant::now() + pause >= deadline {
            return Err(match last {
                ClientError::Connect { .. } | ClientError::Lost { .. } => ClientError::NoBroker {
                    call: what.to_owned(),
                    cause: Box::new(last),
                },
                other => other,
            });
        }
        tokio::time::sleep(pause).await;
        self.next_ms = (self.next_ms * 2).min(self.max_ms);
        Ok(())
    }
}
