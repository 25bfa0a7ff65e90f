//! A controller: a member of the quorum, and the active controller while it leads and has read its log to the end.
//! Not here: decisions (crates/controller), consensus (quorum.rs). The order of steps is that of the broker's
//! controller/shell.rs: decide on the image with the records in flight, propose, answer on commit, drop all on losing.
//! Driven by messages and timers. Kafka: QuorumController; KIP-500, KIP-631.

use crate::context::Context;
use crate::message::{Address, Message, MetadataChunk, Timer};
use crate::quorum::{Quorum, Role};
use kavka_common::{BrokerEpoch, LeaderEpoch, NodeId, Offset};
use kavka_controller::{Controller, Moment, Soft};
use kavka_metadata::{MetadataImage, MetadataRecord, MetadataVersion};
use kavka_protocol::{AnyRequest, AnyResponse};
use kavka_storage::testing::Loss;
use std::sync::Arc;

/// How long a fetch of metadata waits for news.
const OBSERVER_WAIT_MS: i64 = 150;

#[derive(Debug)]
struct Parked {
    from: Address,
    correlation: u64,
    response: Arc<AnyResponse>,
}

struct Active {
    term: u64,
    soft: Soft,
    image: MetadataImage,
    next_offset: Offset,
    records: Vec<MetadataRecord>,
    parked: Vec<Parked>,
    proposed: Vec<Parked>,
    /// Where the batch under way begins and ends.
    in_flight: Option<(Offset, Offset)>,
}

#[derive(Debug)]
struct Observer {
    from: Address,
    correlation: u64,
    fetch_offset: Offset,
    until_ms: i64,
}

pub struct ControllerNode {
    pub quorum: Quorum,
    core: Controller,
    /// The fold of what is committed, as far as this node knows.
    image: MetadataImage,
    active: Option<Active>,
    observers: Vec<Observer>,
    deadline_ms: i64,
}

impl ControllerNode {
    pub fn new(id: Address, voters: Vec<Address>, core: Controller) -> ControllerNode {
        ControllerNode {
            quorum: Quorum::new(id, voters),
            core,
            image: MetadataImage::empty(),
            active: None,
            observers: Vec::new(),
            deadline_ms: i64::MAX,
        }
    }

    pub fn start(&mut self, context: &mut Context<'_>, loss: Loss) {
        self.quorum.start(context, loss);
        self.image = MetadataImage::empty();
        self.active = None;
        self.observers.clear();
        self.deadline_ms = i64::MAX;
    }

    pub fn is_active(&self) -> bool {
        self.active.is_some()
    }

    pub fn on_message(&mut self, context: &mut Context<'_>, from: Address, message: Message) {
        match message {
            Message::Raft(raft) => self.quorum.on_message(context, from, raft),
            Message::ControllerRequest {
                correlation,
                api_version,
                request,
            } => self.request(context, from, correlation, api_version, &request),
            Message::MetadataFetch {
                correlation,
                fetch_offset,
            } => {
                if self.quorum.role == Role::Leader {
                    self.observers.push(Observer {
                        from,
                        correlation,
                        fetch_offset,
                        until_ms: context.now + OBSERVER_WAIT_MS,
                    });
                    context.timer(OBSERVER_WAIT_MS, Timer::ReleaseObservers);
                } else {
                    let result = Err(self.quorum.leader);
                    context.send(
                        from,
                        Message::MetadataAnswer {
                            correlation,
                            result,
                        },
                    );
                }
            }
            _ => {}
        }
        self.settle(context);
    }

    pub fn on_timer(&mut self, context: &mut Context<'_>, timer: Timer) {
        match timer {
            Timer::ControllerDeadline => {
                self.deadline_ms = i64::MAX;
                self.tick(context);
            }
            Timer::BrokerGone {
                broker,
                broker_epoch,
            } => self.fence(context, broker, broker_epoch),
            other => self.quorum.on_timer(context, other),
        }
        self.settle(context);
    }

    /// What follows from whatever happened: commits are folded and answered, leadership is taken or given up.
    fn settle(&mut self, context: &mut Context<'_>) {
        self.fold(context);
        self.follow_leadership(context);
        self.answer_commits(context);
        self.propose(context);
        // a single voter commits at once
        self.fold(context);
        self.answer_commits(context);
        self.release_observers(context);
        self.arm_deadline(context);
    }

    fn fold(&mut self, context: &mut Context<'_>) {
        let next = self.image.last_offset + 1;
        for entry in self.quorum.committed_from(next) {
            self.image = context.oracle.committed(context.now, self.quorum.id, entry);
        }
    }

    fn follow_leadership(&mut self, context: &mut Context<'_>) {
        let leads = self.quorum.role == Role::Leader;
        if let Some(active) = &self.active
            && (!leads || active.term != self.quorum.term)
        {
            self.resign(context);
        }
        let caught_up = self.image.last_offset + 1 == self.quorum.log_end_offset()
            && self.image.last_epoch.get() == i32::try_from(self.quorum.term).unwrap_or(-1);
        if !leads || self.active.is_some() || !caught_up {
            return;
        }
        context.stats.activations += 1;
        let bootstrap =
            kavka_metadata::bootstrap::format_records(MetadataVersion::LATEST_PRODUCTION);
        let records = self.core.activation_records(&self.image, bootstrap);
        self.active = Some(Active {
            term: self.quorum.term,
            soft: self.core.activate(&self.image, context.now),
            image: self.image.clone(),
            next_offset: self.quorum.log_end_offset(),
            records: Vec::new(),
            parked: Vec::new(),
            proposed: Vec::new(),
            in_flight: None,
        });
        self.take(records);
        self.tick(context);
    }

    fn resign(&mut self, context: &mut Context<'_>) {
        let Some(active) = self.active.take() else {
            return;
        };
        context.stats.resignations += 1;
        let leader = self.quorum.leader.filter(|id| *id != self.quorum.id);
        // those in flight may be committed by the next leader: nobody can tell, so nobody is told
        for parked in active.parked {
            let answer = Message::ControllerAnswer {
                correlation: parked.correlation,
                result: Err(leader),
            };
            context.send(parked.from, answer);
        }
    }

    fn take(&mut self, records: Vec<MetadataRecord>) {
        let Some(active) = &mut self.active else {
            return;
        };
        if records.is_empty() {
            return;
        }
        let count = Offset::try_from(records.len()).unwrap_or(Offset::MAX);
        let last_offset = active.next_offset + count - 1;
        let epoch = LeaderEpoch(i32::try_from(active.term).unwrap_or(i32::MAX));
        match active.image.apply(last_offset, epoch, &records) {
            Ok((image, _)) => active.image = image,
            Err(error) => panic!("the core's records do not fit the image that it saw: {error}"),
        }
        active.next_offset = last_offset + 1;
        active.records.extend(records);
    }

    fn moment(&self, context: &mut Context<'_>) -> Option<Moment> {
        let next_offset = self.active.as_ref()?.next_offset;
        Some(Moment {
            now_ms: context.now,
            next_offset,
            seed: context.seed(),
        })
    }

    fn request(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        correlation: u64,
        api_version: i16,
        request: &AnyRequest,
    ) {
        let moment = self.moment(context);
        let (Some(active), Some(moment)) = (&mut self.active, moment) else {
            let leader = self.quorum.leader.filter(|id| *id != self.quorum.id);
            let result = Err(leader);
            context.send(
                from,
                Message::ControllerAnswer {
                    correlation,
                    result,
                },
            );
            return;
        };
        let handled = self.core.handle(
            &active.image,
            &mut active.soft,
            &moment,
            api_version,
            request,
        );
        let outcome = match handled {
            Ok(outcome) => outcome,
            Err(unsupported) => {
                panic!("the simulation asked for what is not served: {unsupported}")
            }
        };
        context
            .oracle
            .decided(context.now, &active.image, request, &outcome.records);
        active.parked.push(Parked {
            from,
            correlation,
            response: Arc::new(outcome.response),
        });
        self.take(outcome.records);
    }

    fn fence(&mut self, context: &mut Context<'_>, broker: Address, broker_epoch: i64) {
        let moment = self.moment(context);
        let (Some(active), Some(moment)) = (&mut self.active, moment) else {
            return;
        };
        let records = self.core.fence_broker(
            &active.image,
            &mut active.soft,
            &moment,
            NodeId(broker),
            BrokerEpoch(broker_epoch),
        );
        self.take(records);
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        while let Some(moment) = self.moment(context) {
            let Some(active) = &mut self.active else {
                return;
            };
            let records = self.core.on_tick(&active.image, &mut active.soft, &moment);
            if records.is_empty() {
                return;
            }
            self.take(records);
        }
    }

    fn propose(&mut self, context: &mut Context<'_>) {
        let Some(active) = &mut self.active else {
            return;
        };
        if active.in_flight.is_some() {
            return;
        }
        if active.records.is_empty() {
            // reads and refusals: what they saw is committed
            for parked in std::mem::take(&mut active.parked) {
                answer(context, parked);
            }
            return;
        }
        let batch = std::mem::take(&mut active.records);
        active.proposed = std::mem::take(&mut active.parked);
        let base_offset = self.quorum.log_end_offset();
        active.in_flight = Some((base_offset, active.next_offset));
        assert_eq!(
            base_offset + Offset::try_from(batch.len()).unwrap_or(0),
            active.next_offset,
            "the active controller knows where its records go"
        );
        self.quorum.append(context, batch);
    }

    fn answer_commits(&mut self, context: &mut Context<'_>) {
        let Some(active) = &mut self.active else {
            return;
        };
        if let Some((_, end)) = active.in_flight
            && self.image.last_offset + 1 >= end
        {
            active.in_flight = None;
            for parked in std::mem::take(&mut active.proposed) {
                answer(context, parked);
            }
        }
    }

    fn release_observers(&mut self, context: &mut Context<'_>) {
        let leads = self.quorum.role == Role::Leader;
        for observer in std::mem::take(&mut self.observers) {
            let result = if leads {
                let entries = self.quorum.committed_from(observer.fetch_offset);
                if entries.is_empty() && context.now < observer.until_ms {
                    self.observers.push(observer);
                    continue;
                }
                let jump = observer.fetch_offset == 0
                    && !self.image.in_transaction()
                    && context.chance(context.plan.snapshot_permille);
                Ok(if jump {
                    MetadataChunk::Snapshot {
                        records: Arc::new(self.image.to_records()),
                        last_offset: self.image.last_offset,
                        last_epoch: self.image.last_epoch,
                    }
                } else {
                    let most = 1 + usize::try_from(context.below(40)).unwrap_or(0);
                    MetadataChunk::Entries(entries.iter().take(most).cloned().collect())
                })
            } else {
                Err(self.quorum.leader)
            };
            context.send(
                observer.from,
                Message::MetadataAnswer {
                    correlation: observer.correlation,
                    result,
                },
            );
        }
    }

    fn arm_deadline(&mut self, context: &mut Context<'_>) {
        let Some(active) = &self.active else {
            return;
        };
        if let Some(deadline_ms) = self.core.next_deadline_ms(&active.image, &active.soft)
            && deadline_ms < self.deadline_ms
        {
            self.deadline_ms = deadline_ms;
            let wait_ms = (deadline_ms - context.now).max(1);
            context.timer(wait_ms, Timer::ControllerDeadline);
        }
    }
}

fn answer(context: &mut Context<'_>, parked: Parked) {
    let answer = Message::ControllerAnswer {
        correlation: parked.correlation,
        result: Ok(parked.response),
    };
    context.send(parked.from, answer);
}
