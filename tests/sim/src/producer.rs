//! A producer: idempotent with acks=all, or without ids and acks=1; it retries until its records are acknowledged or too old.
//! Not here: whether what it was told is true (oracle.rs).
//! Driven by messages and timers. Kafka: KafkaProducer, Sender, TransactionManager (sequences); KIP-98, KIP-360.

use crate::context::Context;
use crate::message::{Address, Message, Timer};
use bytes::Bytes;
use kavka_common::{NodeId, ProducerEpoch, ProducerId};
use kavka_metadata::MetadataImage;
use kavka_protocol::ErrorCode;
use kavka_records::{BatchBuilder, BatchOptions};
use std::collections::VecDeque;
use std::sync::Arc;

pub const TOPIC: &str = "simulated";
const TICK_MS: i64 = 15;
const REQUEST_MS: i64 = 250;
/// `delivery.timeout.ms`.
const DELIVERY_MS: i64 = 4_000;
/// `max.in.flight.requests.per.connection` of an idempotent producer.
const IN_FLIGHT_MAX: usize = 5;
const IDEMPOTENT: u64 = 1 << 63;

/// Whether a value was sent by an idempotent producer.
pub fn is_idempotent(value: u64) -> bool {
    value & IDEMPOTENT != 0
}

#[derive(Debug)]
struct Batch {
    values: Vec<u64>,
    bytes: Bytes,
    created_ms: i64,
    under_way: Option<(u64, i64)>,
    attempts: u32,
    resume_ms: i64,
    done: bool,
    /// Some attempt may have been appended: only the answer to one of them can tell.
    in_doubt: bool,
}

/// The records for one partition, in order.
#[derive(Debug)]
struct Lane {
    partition: i32,
    producer_id: i64,
    next_sequence: i32,
    next_batch_ms: i64,
    batches: VecDeque<Batch>,
    /// Acknowledged since the cluster healed.
    acked_after_heal: bool,
}

#[derive(Debug)]
pub struct Producer {
    pub id: Address,
    idempotent: bool,
    image: Option<MetadataImage>,
    metadata_asked_ms: i64,
    lanes: Vec<Lane>,
    next_value: u64,
    producer_ids: i64,
    healed: bool,
    stopped: bool,
}

impl Producer {
    pub fn new(id: Address, idempotent: bool, partitions: i32) -> Producer {
        let number = u64::try_from(id).unwrap_or(0);
        let mut producer = Producer {
            id,
            idempotent,
            image: None,
            metadata_asked_ms: -1_000,
            lanes: Vec::new(),
            next_value: (number << 32) | if idempotent { IDEMPOTENT } else { 0 },
            producer_ids: i64::from(id) * 1_000,
            healed: false,
            stopped: false,
        };
        for partition in 0..partitions {
            let producer_id = producer.new_producer_id();
            producer.lanes.push(Lane {
                partition,
                producer_id,
                next_sequence: 0,
                next_batch_ms: 0,
                batches: VecDeque::new(),
                acked_after_heal: false,
            });
        }
        producer
    }

    fn new_producer_id(&mut self) -> i64 {
        self.producer_ids += 1;
        self.producer_ids
    }

    pub fn start(&mut self, context: &mut Context<'_>) {
        context.timer(TICK_MS, Timer::Work);
    }

    /// The cluster is whole again: one more batch per partition has to be acknowledged.
    pub fn heal(&mut self) {
        self.healed = true;
    }

    /// Nothing new is sent any more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    pub fn has_written_after_heal(&self) -> bool {
        self.lanes.iter().all(|lane| lane.acked_after_heal)
    }

    pub fn is_drained(&self) -> bool {
        self.lanes.iter().all(|lane| lane.batches.is_empty())
    }

    pub fn on_timer(&mut self, context: &mut Context<'_>) {
        self.refresh(context);
        for at in 0..self.lanes.len() {
            self.expire(context, at);
            self.produce(context, at);
            self.send(context, at);
        }
        context.timer(TICK_MS, Timer::Work);
    }

    fn refresh(&mut self, context: &mut Context<'_>) {
        if context.now - self.metadata_asked_ms < 150 {
            return;
        }
        self.metadata_asked_ms = context.now;
        let broker = 1 + context.below(i64::from(context.plan.brokers));
        let correlation = context.correlation();
        let to = Address::try_from(broker).unwrap_or(1);
        context.send(to, Message::ClientMetadata { correlation });
    }

    fn expire(&mut self, context: &mut Context<'_>, at: usize) {
        let lane = &mut self.lanes[at];
        let too_old = lane
            .batches
            .front()
            .is_some_and(|batch| context.now - batch.created_ms > DELIVERY_MS);
        if too_old {
            self.give_up(context, at);
        }
    }

    /// What is not acknowledged is of unknown fate, unless it never left; the sequence begins anew under another id.
    fn give_up(&mut self, context: &mut Context<'_>, at: usize) {
        let producer_id = self.new_producer_id();
        let lane = &mut self.lanes[at];
        for batch in lane.batches.drain(..).filter(|batch| !batch.done) {
            let count = u64::try_from(batch.values.len()).unwrap_or(0);
            if batch.in_doubt {
                context.stats.unknown += count;
            } else {
                context.stats.failed += count;
            }
        }
        lane.producer_id = producer_id;
        lane.next_sequence = 0;
    }

    fn produce(&mut self, context: &mut Context<'_>, at: usize) {
        let enough = self.lanes[at].batches.len() >= 8
            || (self.healed && self.lanes[at].acked_after_heal)
            || self.stopped
            || context.now < self.lanes[at].next_batch_ms;
        if enough {
            return;
        }
        let count = 1 + context.below(3);
        let lane = &mut self.lanes[at];
        let interval_ms = context.plan.produce_interval_ms;
        let values: Vec<u64> = (0..count)
            .map(|_| {
                self.next_value += 1;
                self.next_value
            })
            .collect();
        let options = match self.idempotent {
            true => BatchOptions {
                producer_id: ProducerId(lane.producer_id),
                producer_epoch: ProducerEpoch(0),
                base_sequence: lane.next_sequence,
                ..BatchOptions::default()
            },
            false => BatchOptions::default(),
        };
        let mut builder = BatchBuilder::new(options);
        for value in &values {
            let timestamp = 1_700_000_000_000 + context.now;
            let appended = builder.append(timestamp, None, Some(&value.to_be_bytes()), []);
            assert!(appended.is_ok(), "a small record fits");
        }
        let Ok(bytes) = builder.build() else { return };
        lane.next_sequence += i32::try_from(values.len()).unwrap_or(0);
        lane.batches.push_back(Batch {
            values,
            bytes: bytes.freeze(),
            created_ms: context.now,
            under_way: None,
            attempts: 0,
            resume_ms: context.now,
            done: false,
            in_doubt: false,
        });
        lane.next_batch_ms = context.now + 1 + context.below(2 * interval_ms);
    }

    fn leader(&self, partition: i32) -> Option<NodeId> {
        let registration = self.image.as_ref()?.topics.partition(TOPIC, partition)?;
        registration.has_leader().then_some(registration.leader)
    }

    fn send(&mut self, context: &mut Context<'_>, at: usize) {
        let Some(leader) = self.leader(self.lanes[at].partition) else {
            return;
        };
        let idempotent = self.idempotent;
        let lane = &mut self.lanes[at];
        let open = lane.batches.iter_mut().filter(|batch| !batch.done);
        for batch in open.take(IN_FLIGHT_MAX) {
            if let Some((_, sent_ms)) = batch.under_way {
                if context.now - sent_ms < REQUEST_MS {
                    continue;
                }
                batch.under_way = None;
                batch.resume_ms = context.now + 20;
            }
            if context.now < batch.resume_ms {
                // in order: nothing overtakes what waits
                break;
            }
            let correlation = context.correlation();
            batch.under_way = Some((correlation, context.now));
            batch.attempts += 1;
            batch.in_doubt = true;
            context.send(
                leader.get(),
                Message::Produce {
                    correlation,
                    topic: Arc::from(TOPIC),
                    partition: lane.partition,
                    acks_all: idempotent,
                    timeout_ms: 200,
                    batch: batch.bytes.clone(),
                },
            );
        }
    }

    pub fn on_message(&mut self, context: &mut Context<'_>, message: Message) {
        match message {
            Message::ClientMetadataAnswer { image, .. } => {
                let newer = self
                    .image
                    .as_ref()
                    .is_none_or(|known| known.last_offset <= image.last_offset);
                if newer {
                    self.image = Some(*image);
                }
            }
            Message::ProduceAnswer {
                correlation,
                error,
                base_offset,
            } => self.answered(context, correlation, error, base_offset),
            _ => {}
        }
    }

    fn answered(
        &mut self,
        context: &mut Context<'_>,
        correlation: u64,
        error: ErrorCode,
        _base_offset: i64,
    ) {
        let found = self.lanes.iter_mut().enumerate().find_map(|(at, lane)| {
            let batches = lane.batches.iter_mut().enumerate();
            batches
                .into_iter()
                .find(|(_, batch)| batch.under_way.is_some_and(|(id, _)| id == correlation))
                .map(|(index, _)| (at, index))
        });
        let Some((at, index)) = found else { return };
        let lane = &mut self.lanes[at];
        let is_first = lane.batches.iter().position(|batch| !batch.done) == Some(index);
        let batch = &mut lane.batches[index];
        batch.under_way = None;
        batch.resume_ms = context.now + 30;
        match error {
            ErrorCode::None => {
                batch.done = true;
                context.stats.ok += u64::try_from(batch.values.len()).unwrap_or(0);
                lane.acked_after_heal |= self.healed;
                while lane.batches.front().is_some_and(|batch| batch.done) {
                    lane.batches.pop_front();
                }
            }
            // the records before it are acknowledged, and the broker does not know of them: as Kafka's producer does,
            // the sequence begins anew
            ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId if is_first => {
                self.give_up(context, at);
            }
            ErrorCode::NotEnoughReplicas if batch.attempts == 1 => batch.in_doubt = false,
            ErrorCode::NotLeaderOrFollower
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::FencedLeaderEpoch => self.metadata_asked_ms = context.now - 130,
            _ => {}
        }
    }
}
