//! A consumer: reads every partition from its beginning, from leaders and now and then from followers, and asks how far it goes.
//! Not here: whether what it reads is right (oracle.rs), groups.
//! Driven by messages and timers. Kafka: KafkaConsumer, Fetcher, OffsetsForLeaderEpoch's fencing; KIP-207, KIP-320, KIP-392.

use crate::context::Context;
use crate::message::{Address, Message, Timer};
use crate::oracle::values_of;
use crate::producer::TOPIC;
use kavka_common::{LeaderEpoch, Offset};
use kavka_metadata::MetadataImage;
use kavka_protocol::ErrorCode;
use std::sync::Arc;

const TICK_MS: i64 = 40;
const REQUEST_MS: i64 = 250;

#[derive(Debug)]
struct Position {
    offset: Offset,
    under_way: Option<(u64, i64)>,
    latest_under_way: Option<(u64, i64)>,
    /// The greatest end of the partition that ListOffsets told.
    latest: Offset,
}

#[derive(Debug)]
pub struct Consumer {
    pub id: Address,
    image: Option<MetadataImage>,
    metadata_asked_ms: i64,
    positions: Vec<Position>,
}

impl Consumer {
    pub fn new(id: Address, partitions: i32) -> Consumer {
        Consumer {
            id,
            image: None,
            metadata_asked_ms: -1_000,
            positions: (0..partitions)
                .map(|_| Position {
                    offset: 0,
                    under_way: None,
                    latest_under_way: None,
                    latest: 0,
                })
                .collect(),
        }
    }

    pub fn start(&mut self, context: &mut Context<'_>) {
        context.timer(TICK_MS, Timer::Work);
    }

    pub fn offset(&self, partition: i32) -> Offset {
        let at = usize::try_from(partition).unwrap_or(usize::MAX);
        self.positions.get(at).map_or(0, |position| position.offset)
    }

    pub fn on_timer(&mut self, context: &mut Context<'_>) {
        if context.now - self.metadata_asked_ms > 150 {
            self.metadata_asked_ms = context.now;
            let broker = 1 + context.below(i64::from(context.plan.brokers));
            let correlation = context.correlation();
            let to = Address::try_from(broker).unwrap_or(1);
            context.send(to, Message::ClientMetadata { correlation });
        }
        for (partition, position) in (0..).zip(&mut self.positions) {
            let registration = self
                .image
                .as_ref()
                .and_then(|image| image.topics.partition(TOPIC, partition))
                .filter(|registration| registration.has_leader());
            let Some(registration) = registration else {
                continue;
            };
            let free = |under_way: Option<(u64, i64)>| {
                under_way.is_none_or(|(_, sent_ms)| context.now - sent_ms > REQUEST_MS)
            };
            let (fetch, look) = (free(position.under_way), free(position.latest_under_way));
            if fetch {
                let from_follower = context.chance(150);
                let (to, current_leader_epoch) = if from_follower {
                    let at = context.random.below(registration.replicas.len());
                    (registration.replicas[at], LeaderEpoch::UNKNOWN)
                } else {
                    (registration.leader, registration.leader_epoch)
                };
                let correlation = context.correlation();
                position.under_way = Some((correlation, context.now));
                context.send(
                    to.get(),
                    Message::Consume {
                        correlation,
                        topic: Arc::from(TOPIC),
                        partition,
                        fetch_offset: position.offset,
                        current_leader_epoch,
                    },
                );
            }
            if look && context.chance(150) {
                let correlation = context.correlation();
                position.latest_under_way = Some((correlation, context.now));
                context.send(
                    registration.leader.get(),
                    Message::LatestOffset {
                        correlation,
                        topic: Arc::from(TOPIC),
                        partition,
                        current_leader_epoch: registration.leader_epoch,
                    },
                );
            }
        }
        context.timer(TICK_MS, Timer::Work);
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
            Message::ConsumeAnswer {
                correlation,
                error: ErrorCode::None,
                records,
                high_watermark,
                ..
            } => self.fetched(context, correlation, high_watermark, &records),
            Message::ConsumeAnswer { correlation, .. } => {
                let asked = self.positions.iter_mut().find(|position| {
                    position
                        .under_way
                        .is_some_and(|(asked, _)| asked == correlation)
                });
                if let Some(position) = asked {
                    // a deposed leader or a follower may well not have come so far; a leader that has not is found out by
                    // the consumer that never gets to the end
                    position.under_way = None;
                }
            }
            Message::LatestOffsetAnswer {
                correlation,
                result,
            } => {
                let asked = self.positions.iter_mut().find(|position| {
                    position
                        .latest_under_way
                        .is_some_and(|(asked, _)| asked == correlation)
                });
                let Some(position) = asked else { return };
                position.latest_under_way = None;
                if let Ok(latest) = result {
                    // KIP-207: what was told of the end of a partition is not taken back. An answer of a deposed leader
                    // may be old; it is below what was told, and no lie when it left.
                    position.latest = position.latest.max(latest);
                    let checked = if latest < 0 {
                        Err(format!("an end of {latest}"))
                    } else {
                        Ok(())
                    };
                    context.oracle.fail(context.now, "L3", checked);
                }
            }
            _ => {}
        }
    }

    fn fetched(
        &mut self,
        context: &mut Context<'_>,
        correlation: u64,
        high_watermark: Offset,
        records: &[u8],
    ) {
        let asked = (0..).zip(&mut self.positions).find(|(_, position)| {
            position
                .under_way
                .is_some_and(|(asked, _)| asked == correlation)
        });
        let Some((partition, position)) = asked else {
            return;
        };
        position.under_way = None;
        let topic_id = self
            .image
            .as_ref()
            .and_then(|image| image.topics.id_of(TOPIC));
        let Some(topic_id) = topic_id else { return };
        for (offset, value) in values_of(records) {
            if offset < position.offset {
                // the batch began before what was asked for
                continue;
            }
            let gap = if offset == position.offset {
                Ok(())
            } else {
                Err(format!("read {offset} next to {}", position.offset - 1))
            };
            context.oracle.fail(context.now, "R5", gap);
            let above = if offset < high_watermark {
                Ok(())
            } else {
                Err(format!(
                    "read {offset} above the high watermark {high_watermark}"
                ))
            };
            context.oracle.fail(context.now, "L10", above);
            context
                .oracle
                .consumed(context.now, (topic_id, partition), offset, value);
            position.offset = offset + 1;
            context.stats.consumed += 1;
        }
    }
}
