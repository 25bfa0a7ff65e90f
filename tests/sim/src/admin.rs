//! The operator: makes the topic, moves replicas, calls leaders back, unregisters brokers. Sends again what has no answer.
//! Not here: when (faults.rs asks for it).
//! Driven by messages and timers. Kafka: KafkaAdminClient; KIP-455, KIP-460.

use crate::context::Context;
use crate::message::{Address, FIRST_CONTROLLER, Message, Timer};
use crate::producer::TOPIC;
use kavka_protocol::messages::{
    AlterPartitionReassignmentsRequest, CreateTopicsRequest, ElectLeadersRequest,
    UnregisterBrokerRequest, alter_partition_reassignments_request as reassign,
    create_topics_request as create,
};
use kavka_protocol::{AnyRequest, AnyResponse, ErrorCode};
use std::sync::Arc;

const TICK_MS: i64 = 60;
const REQUEST_MS: i64 = 250;

#[derive(Debug)]
struct Wish {
    api_version: i16,
    request: Arc<AnyRequest>,
    under_way: Option<(u64, i64)>,
    give_up_ms: i64,
}

#[derive(Debug)]
pub struct Admin {
    pub id: Address,
    controller: Address,
    wishes: Vec<Wish>,
    pub topic_made: bool,
}

impl Admin {
    pub fn new(id: Address) -> Admin {
        Admin {
            id,
            controller: FIRST_CONTROLLER,
            wishes: Vec::new(),
            topic_made: false,
        }
    }

    pub fn start(&mut self, context: &mut Context<'_>) {
        context.timer(TICK_MS, Timer::Work);
    }

    pub fn is_idle(&self) -> bool {
        self.topic_made && self.wishes.is_empty()
    }

    fn wish(&mut self, now: i64, api_version: i16, request: AnyRequest) {
        self.wishes.push(Wish {
            api_version,
            request: Arc::new(request),
            under_way: None,
            give_up_ms: now + 3_000,
        });
    }

    fn make_topic(&mut self, context: &Context<'_>) {
        let request = CreateTopicsRequest {
            topics: vec![create::CreatableTopic {
                name: TOPIC.into(),
                num_partitions: context.plan.partitions,
                replication_factor: context.plan.replication_factor,
                ..Default::default()
            }],
            ..Default::default()
        };
        self.wish(context.now, 7, AnyRequest::CreateTopics(request));
    }

    /// `None` cancels.
    pub fn reassign(&mut self, now: i64, partition: i32, replicas: Option<Vec<i32>>) {
        let request = AlterPartitionReassignmentsRequest {
            topics: vec![reassign::ReassignableTopic {
                name: TOPIC.into(),
                partitions: vec![reassign::ReassignablePartition {
                    partition_index: partition,
                    replicas,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.wish(now, 1, AnyRequest::AlterPartitionReassignments(request));
    }

    pub fn elect_preferred(&mut self, now: i64) {
        let request = ElectLeadersRequest {
            election_type: 0,
            topic_partitions: None,
            ..Default::default()
        };
        self.wish(now, 2, AnyRequest::ElectLeaders(request));
    }

    pub fn unregister(&mut self, now: i64, broker_id: i32) {
        let request = UnregisterBrokerRequest {
            broker_id,
            ..Default::default()
        };
        self.wish(now, 0, AnyRequest::UnregisterBroker(request));
    }

    pub fn on_timer(&mut self, context: &mut Context<'_>) {
        if !self.topic_made && self.wishes.is_empty() {
            self.make_topic(context);
        }
        self.wishes.retain(|wish| context.now < wish.give_up_ms);
        // one after the other: the second may only make sense after the first
        if let Some(wish) = self.wishes.first_mut() {
            let lost = wish
                .under_way
                .is_some_and(|(_, sent_ms)| context.now - sent_ms > REQUEST_MS);
            if lost {
                let next = self.controller - FIRST_CONTROLLER + 1;
                self.controller = FIRST_CONTROLLER + next % context.plan.controllers;
            }
            if wish.under_way.is_none() || lost {
                let correlation = context.correlation();
                wish.under_way = Some((correlation, context.now));
                context.send(
                    self.controller,
                    Message::ControllerRequest {
                        correlation,
                        api_version: wish.api_version,
                        request: Arc::clone(&wish.request),
                    },
                );
            }
        }
        context.timer(TICK_MS, Timer::Work);
    }

    pub fn on_message(&mut self, context: &mut Context<'_>, message: Message) {
        let Message::ControllerAnswer {
            correlation,
            result,
        } = message
        else {
            return;
        };
        let asked = self.wishes.iter().position(|wish| {
            wish.under_way
                .is_some_and(|(asked, _)| asked == correlation)
        });
        let Some(at) = asked else { return };
        match result {
            Err(hint) => {
                self.wishes[at].under_way = None;
                self.controller = hint.unwrap_or_else(|| {
                    let next = self.controller - FIRST_CONTROLLER + 1;
                    FIRST_CONTROLLER + next % context.plan.controllers
                });
            }
            Ok(response) => {
                self.wishes.remove(at);
                if let AnyResponse::CreateTopics(response) = &*response {
                    let code = response.topics.first().map(|topic| topic.error_code);
                    let made = [ErrorCode::None.code(), ErrorCode::TopicAlreadyExists.code()];
                    self.topic_made |= code.is_some_and(|code| made.contains(&code));
                }
            }
        }
    }
}
