//! An idempotent producer that knows what it does not know: each record's outcome is recorded as ok, failed or unknown.
//! Not here: finding the leader (route). One batch is under way at a time; librdkafka (tests/e2e/load) has five.
//! A task of the workload's runtime.
//! Kafka: org.apache.kafka.clients.producer.internals.{Sender, TransactionManager}; KIP-98, KIP-360.

use super::Shared;
use super::route::Route;
use crate::history::{Moment, Outcome};
use bytes::Bytes;
use kavka_client::{BrokerAddress, ClientError};
use kavka_common::{ProducerEpoch, ProducerId};
use kavka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kavka_protocol::messages::produce_response::PartitionProduceResponse;
use kavka_protocol::messages::{InitProducerIdRequest, ProduceRequest, ProduceResponse};
use kavka_protocol::{ApiKey, ErrorCode, Records};
use kavka_records::{BatchBuilder, BatchOptions, NO_TIMESTAMP};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Version 13 names topics by id.
const VERSION_MAX: i16 = 12;
/// Between two tries, and between two questions for a producer id.
const PAUSE: Duration = Duration::from_millis(20);
const FILLER_BYTES: usize = 64;

/// Sends until the workload stops.
pub(super) async fn run(shared: Arc<Shared>, number: u32) {
    let mut producer = Producer::new(Arc::clone(&shared), shared.spec.delivery_timeout);
    let (partitions, most) = (shared.spec.partitions, shared.spec.batch_records_max);
    let mut turn = number;
    while !shared.stopping() {
        let partition = i32::try_from(turn).expect("small") % partitions;
        producer.send(partition, 1 + turn as usize % most).await;
        turn = (turn + 1) % 1_000_000;
        sleep(shared.spec.pause).await;
    }
}

pub(super) struct Producer {
    shared: Arc<Shared>,
    route: Route,
    delivery_timeout: Duration,
    identity: Option<(ProducerId, ProducerEpoch)>,
    /// The next sequence number of each partition.
    sequences: BTreeMap<i32, i32>,
}

/// What came of one try.
enum Try {
    Done(i64),
    /// Nothing was written by this try.
    Refused,
    /// It may have been written.
    Unclear,
    /// The broker contradicts itself.
    Absurd(String),
}

impl Producer {
    pub(super) fn new(shared: Arc<Shared>, delivery_timeout: Duration) -> Producer {
        Producer {
            route: Route::new(Arc::clone(&shared), "workload-producer"),
            shared,
            delivery_timeout,
            identity: None,
            sequences: BTreeMap::new(),
        }
    }

    /// Sends a batch of fresh values, again and again until it is acknowledged or given up. Gives the last offset.
    pub(super) async fn send(&mut self, partition: i32, count: usize) -> Option<i64> {
        let deadline = Instant::now() + self.delivery_timeout;
        let (producer_id, producer_epoch) = self.identity(deadline).await?;
        let recorder = &self.shared.recorder;
        let values: Vec<u64> = (0..count).map(|_| recorder.fresh_value()).collect();
        let invoked = recorder.now();
        let base_sequence = self.sequences.get(&partition).copied().unwrap_or(0);
        let options = BatchOptions {
            producer_id,
            producer_epoch,
            base_sequence,
            ..BatchOptions::default()
        };
        let batch = batch(options, &values);
        let mut unclear = false;
        loop {
            match self.attempt(partition, &batch).await {
                Try::Done(base_offset) => {
                    let sequence = base_sequence + i32::try_from(count).expect("few");
                    self.sequences.insert(partition, sequence);
                    return Some(self.acknowledged(partition, &values, invoked, base_offset));
                }
                Try::Refused => {}
                Try::Unclear => unclear = true,
                Try::Absurd(what) => {
                    self.shared.recorder.surprise(what);
                    unclear = true;
                    break;
                }
            }
            if Instant::now() >= deadline {
                break;
            }
            sleep(PAUSE).await;
        }
        let outcome = if unclear {
            // The number of the next record is not known, either: begin anew.
            self.identity = None;
            Outcome::Unknown
        } else {
            Outcome::Failed
        };
        for value in values {
            self.shared
                .recorder
                .sent(partition, value, invoked, outcome);
        }
        None
    }

    fn acknowledged(
        &self,
        partition: i32,
        values: &[u64],
        invoked: Moment,
        base_offset: i64,
    ) -> i64 {
        let mut offset = base_offset;
        for (value, at) in values.iter().zip(base_offset..) {
            offset = at;
            let outcome = Outcome::Ok { offset };
            self.shared
                .recorder
                .sent(partition, *value, invoked, outcome);
        }
        offset
    }

    /// This producer's id, a fresh one where it has none.
    async fn identity(&mut self, deadline: Instant) -> Option<(ProducerId, ProducerEpoch)> {
        while self.identity.is_none() {
            if Instant::now() >= deadline {
                return None;
            }
            let request = InitProducerIdRequest {
                transactional_id: None,
                transaction_timeout_ms: i32::MAX,
                ..Default::default()
            };
            let answer = self.route.ask(&request, |a| a.error_code == 0).await;
            match answer {
                Ok(answer) if answer.error_code == 0 => {
                    let id = ProducerId(answer.producer_id);
                    self.identity = Some((id, ProducerEpoch(answer.producer_epoch)));
                    self.sequences.clear();
                }
                Ok(answer) => {
                    let code = ErrorCode::from(answer.error_code);
                    self.shared
                        .trouble(|| format!("InitProducerId: {}", code.name()));
                    sleep(PAUSE).await;
                }
                Err(error) => {
                    self.shared.trouble(|| format!("InitProducerId: {error}"));
                    sleep(PAUSE).await;
                }
            }
        }
        self.identity
    }

    async fn attempt(&mut self, partition: i32, batch: &Bytes) -> Try {
        let request = ProduceRequest {
            transactional_id: None,
            acks: -1,
            timeout_ms: i32::try_from(self.shared.spec.request_timeout_ms).expect("small"),
            topic_data: vec![TopicProduceData {
                name: self.shared.spec.topic.as_str().into(),
                partition_data: vec![PartitionProduceData {
                    index: partition,
                    records: Some(Records::from(batch.clone())),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let (leader, connection) = match self.route.leader_of(partition).await {
            Ok(found) => found,
            // Nothing was sent.
            Err(()) => return Try::Refused,
        };
        let version = connection
            .version_of(ApiKey::Produce)
            .unwrap_or(VERSION_MAX)
            .min(VERSION_MAX);
        let answer: Result<ProduceResponse, ClientError> =
            connection.call_version(&request, version).await;
        match answer {
            Ok(mut answer) => {
                let of_partition = answer
                    .responses
                    .pop()
                    .and_then(|mut topic| topic.partition_responses.pop());
                match of_partition {
                    Some(of_partition) => self.judged(partition, &answer, &of_partition),
                    None => Try::Absurd("an empty answer to Produce".into()),
                }
            }
            Err(error) => {
                self.shared
                    .trouble(|| format!("Produce to {partition} at node {leader}: {error}"));
                self.route.lost(leader, partition);
                Try::Unclear
            }
        }
    }

    fn judged(
        &mut self,
        partition: i32,
        answer: &ProduceResponse,
        of_partition: &PartitionProduceResponse,
    ) -> Try {
        let code = ErrorCode::from(of_partition.error_code);
        match code {
            ErrorCode::None if of_partition.base_offset >= 0 => {
                return Try::Done(of_partition.base_offset);
            }
            // One batch is under way at a time, so the broker still knows it; and it has seen what came before.
            ErrorCode::None
            | ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::DuplicateSequenceNumber
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::CorruptMessage
            | ErrorCode::InvalidRecord => {
                return Try::Absurd(format!(
                    "Produce to partition {partition} is answered with {} at offset {}",
                    code.name(),
                    of_partition.base_offset
                ));
            }
            _ => {}
        }
        self.shared
            .trouble(|| format!("Produce to {partition}: {}", code.name()));
        let leader = &of_partition.current_leader;
        let endpoint = answer
            .node_endpoints
            .iter()
            .find(|node| node.node_id == leader.leader_id)
            .map(|node| {
                let port = u16::try_from(node.port).unwrap_or(0);
                BrokerAddress::new(node.host.to_string(), port)
            });
        self.route
            .hint(partition, (leader.leader_id, leader.leader_epoch), endpoint);
        match code {
            // Refused before the append.
            ErrorCode::NotEnoughReplicas => Try::Refused,
            // A leader that resigns gives up what is parked with these, too: it may be there.
            _ => Try::Unclear,
        }
    }
}

fn batch(options: BatchOptions, values: &[u64]) -> Bytes {
    let filler = "x".repeat(FILLER_BYTES);
    let mut builder = BatchBuilder::new(options);
    for value in values {
        let text = format!("{value} {filler}");
        builder
            .append(NO_TIMESTAMP, None, Some(text.as_bytes()), [])
            .expect("a small batch");
    }
    builder.build().expect("a small batch").freeze()
}
