//! The way to a partition's leader: metadata from any broker, the hints of refusals, a connection to each node.
//! Not here: what is sent (producer, reader).
//! Owned by one task. What a broker says of a leader is believed when its epoch is not older than what is known.
//! Kafka: org.apache.kafka.clients.Metadata; KIP-320, KIP-951.

use super::Shared;
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection};
use kavka_protocol::Request;
use kavka_protocol::messages::metadata_request::MetadataRequestTopic;
use kavka_protocol::messages::{MetadataRequest, MetadataResponse};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two questions for metadata.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Route {
    shared: Arc<Shared>,
    config: ClientConfig,
    /// Which of the bootstrap servers is asked next, when the present one fails.
    next: usize,
    seed: Option<Connection>,
    brokers: BTreeMap<i32, BrokerAddress>,
    /// Partition → leader and its epoch.
    leaders: BTreeMap<i32, (i32, i32)>,
    connections: BTreeMap<i32, Connection>,
}

impl Route {
    pub(super) fn new(shared: Arc<Shared>, client_id: &str) -> Route {
        let config = ClientConfig {
            client_id: client_id.to_owned(),
            request_timeout_ms: shared.spec.request_timeout_ms,
            connect_timeout_ms: shared.spec.request_timeout_ms,
            ..ClientConfig::default()
        };
        Route {
            shared,
            config,
            next: 0,
            seed: None,
            brokers: BTreeMap::new(),
            leaders: BTreeMap::new(),
            connections: BTreeMap::new(),
        }
    }

    /// A connection to a partition's leader; asks for metadata where none is known.
    pub(super) async fn leader_of(&mut self, partition: i32) -> Result<(i32, &mut Connection), ()> {
        let leader = match self.leaders.get(&partition) {
            Some((leader, _)) if *leader >= 0 => *leader,
            Some(_) | None => {
                self.refresh().await;
                match self.leaders.get(&partition) {
                    Some((leader, _)) if *leader >= 0 => *leader,
                    Some(_) | None => return Err(()),
                }
            }
        };
        let Some(address) = self.brokers.get(&leader) else {
            self.forget(partition);
            return Err(());
        };
        if !self.connections.contains_key(&leader) {
            match Connection::connect(address, &self.config).await {
                Ok(connection) => {
                    self.connections.insert(leader, connection);
                }
                Err(error) => {
                    self.shared
                        .trouble(|| format!("leader {leader} of {partition}: {error}"));
                    self.forget(partition);
                    return Err(());
                }
            }
        }
        let connection = self.connections.get_mut(&leader).expect("just made");
        Ok((leader, connection))
    }

    /// The connection is not to be used any more, and another leader may be there.
    pub(super) fn lost(&mut self, leader: i32, partition: i32) {
        self.connections.remove(&leader);
        self.forget(partition);
    }

    /// Asks again before the next use. The epoch stays, so that an older leader is not believed in.
    pub(super) fn forget(&mut self, partition: i32) {
        if let Some((leader, _)) = self.leaders.get_mut(&partition) {
            *leader = -1;
        }
    }

    /// A refusal named the leader.
    pub(super) fn hint(
        &mut self,
        partition: i32,
        leader: (i32, i32),
        endpoint: Option<BrokerAddress>,
    ) {
        self.forget(partition);
        if leader.0 < 0 {
            return;
        }
        if let Some(address) = endpoint {
            self.brokers.insert(leader.0, address);
        }
        self.believe(partition, leader);
    }

    /// Takes what is not older than what is known; says whether it is newer.
    fn believe(&mut self, partition: i32, leader: (i32, i32)) -> bool {
        let known = self.leaders.entry(partition).or_insert((-1, -1));
        let newer = leader.1 > known.1;
        if leader.1 >= known.1 {
            *known = leader;
        }
        newer
    }

    /// Asks any broker; the next one after a failure, or when this one's answer is of no use.
    pub(super) async fn ask<R: Request>(
        &mut self,
        request: &R,
        of_use: impl Fn(&R::Response) -> bool,
    ) -> Result<R::Response, ClientError> {
        let mut connection = match self.seed.take() {
            Some(connection) => connection,
            None => {
                let bootstrap = &self.shared.bootstrap;
                let address = &bootstrap[self.next % bootstrap.len()];
                self.next += 1;
                Connection::connect(address, &self.config).await?
            }
        };
        let answer = connection.call(request).await?;
        if of_use(&answer) {
            self.seed = Some(connection);
        }
        Ok(answer)
    }

    async fn refresh(&mut self) {
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(self.shared.spec.topic.as_str().into()),
                ..Default::default()
            }]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let all_led = |answer: &MetadataResponse| {
            let mut partitions = answer.topics.iter().flat_map(|t| &t.partitions);
            partitions.all(|p| p.leader_id >= 0)
        };
        let answer = match self.ask(&request, all_led).await {
            Ok(answer) => answer,
            Err(error) => {
                self.shared.trouble(|| format!("Metadata: {error}"));
                tokio::time::sleep(PAUSE).await;
                return;
            }
        };
        for broker in answer.brokers {
            let port = u16::try_from(broker.port).unwrap_or(0);
            let address = BrokerAddress::new(broker.host.to_string(), port);
            self.brokers.insert(broker.node_id, address);
        }
        let mut news = false;
        for partition in answer.topics.into_iter().flat_map(|t| t.partitions) {
            let leader = (partition.leader_id, partition.leader_epoch);
            news |= self.believe(partition.partition_index, leader);
        }
        if !news {
            // This broker may be the one that is cut off.
            self.seed = None;
            tokio::time::sleep(PAUSE).await;
        }
    }
}
