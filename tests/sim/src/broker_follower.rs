//! Following: one fetcher for each leader, its requests, and what their answers do to the logs.
//! Not here: the rules (kavka_replication::Fetcher, Follower), the leader's side (broker_requests.rs). The steps are those of
//! the broker's replica/fetcher task.
//! Part of a broker's life. Kafka: ReplicaFetcherManager, ReplicaFetcherThread; KIP-227, KIP-320, KIP-595.

use crate::broker_node::Life;
use crate::context::Context;
use crate::invariants::r9_one_fetcher;
use crate::message::{Message, ReplicaFetch, ReplicaFetchAnswer, Timer};
use kavka_broker::replica::ReplicaError;
use kavka_common::{LeaderEpoch, NodeId, Offset, TopicIdPartition};
use kavka_metadata::LocalReplicaChanges;
use kavka_protocol::ErrorCode;
use kavka_replication::fetch_session::SessionTopic;
use kavka_replication::{
    ActionKind, FetchAnswer, FetchFault, FetchPosition, Fetcher, FetcherAction, FetcherConfig,
    FetcherEvent, LeaderRange, Outcome, PartitionAnswer, SessionFault, SessionPartition,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const WAIT_MS: i32 = 100;
const ANSWER_MS: i64 = 300;

/// A fetcher and the request that it waits for.
pub struct FetcherLink {
    fetcher: Fetcher,
    under_way: Option<u64>,
    look_ups: BTreeMap<u64, (TopicIdPartition, LeaderEpoch)>,
    woken_for_ms: i64,
}

impl FetcherLink {
    fn new() -> FetcherLink {
        FetcherLink {
            fetcher: Fetcher::new(FetcherConfig {
                wait_ms_max: WAIT_MS,
                min_bytes: 1,
                response_bytes_max: 1 << 20,
                partition_bytes_max: 1 << 12,
                backoff_ms_max: 100,
            }),
            under_way: None,
            look_ups: BTreeMap::new(),
            woken_for_ms: i64::MAX,
        }
    }
}

impl Life {
    /// The metadata moved replicas: each that follows has its fetcher at its leader, and no other.
    pub fn follow_changes(&mut self, context: &mut Context<'_>, changes: &LocalReplicaChanges) {
        let now = context.now;
        let mut moved: Vec<TopicIdPartition> = changes.deletes.clone();
        let changed = changes.leaders.iter().chain(&changes.followers);
        moved.extend(changed.map(|change| change.topic_partition.clone()));
        for id in moved {
            let tp = &id.topic_partition;
            let followed = self
                .manager
                .partition(&tp.topic, tp.partition)
                .ok()
                .filter(|partition| partition.topic_id() == id.topic_id)
                .and_then(|partition| partition.following());
            for (leader, link) in &mut self.fetchers {
                if followed.is_none_or(|(followed, _)| followed != *leader) {
                    let event = FetcherEvent::Remove(id.clone());
                    link.fetcher.on_event(now, event, &mut Vec::new());
                }
            }
            if let Some((leader, position)) = followed {
                let link = self.fetchers.entry(leader).or_insert_with(FetcherLink::new);
                let event = FetcherEvent::Follow {
                    partition: id.clone(),
                    position,
                };
                link.fetcher.on_event(now, event, &mut Vec::new());
            }
            let fetchers = self.fetchers.values();
            let count = fetchers
                .filter(|link| link.fetcher.position(&id).is_some())
                .count();
            let key = (id.topic_id, tp.partition);
            let leads = followed.is_none();
            let checked = r9_one_fetcher::check(self.id.get(), key, leads, count);
            context.oracle.fail(now, "R9", checked);
        }
    }

    /// Sends what the fetchers want to ask.
    pub fn fetch(&mut self, context: &mut Context<'_>) {
        let Some(broker_epoch) = self.broker_epoch else {
            return;
        };
        let replica_id = self.id;
        let partition_bytes_max = (context.plan.segment_bytes / 2).clamp(256, 1 << 12);
        for (leader, link) in &mut self.fetchers {
            if let Some(plan) = link.fetcher.next_request(context.now) {
                let partitions = plan
                    .partitions
                    .iter()
                    .map(|(id, position)| session_partition(id, *position, partition_bytes_max))
                    .collect();
                let forgotten = plan
                    .forgotten
                    .iter()
                    .map(|id| (SessionTopic::Id(id.topic_id), id.topic_partition.partition))
                    .collect();
                let fetch = ReplicaFetch {
                    replica_id,
                    broker_epoch,
                    session_id: plan.session_id,
                    session_epoch: plan.session_epoch,
                    wait_ms: i64::from(plan.wait_ms),
                    partitions,
                    forgotten,
                };
                let correlation = context.correlation();
                link.under_way = Some(correlation);
                let fetch = Arc::new(fetch);
                context.send(leader.get(), Message::ReplicaFetch { correlation, fetch });
                context.timer(ANSWER_MS, Timer::Call(correlation));
            } else if let Some(deadline_ms) = link.fetcher.next_deadline()
                && deadline_ms > context.now
                && (link.woken_for_ms <= context.now || deadline_ms < link.woken_for_ms)
            {
                link.woken_for_ms = deadline_ms;
                context.timer(deadline_ms - context.now, Timer::Fetch);
            }
        }
    }

    pub fn fetch_lost(&mut self, context: &mut Context<'_>, correlation: u64) {
        for link in self.fetchers.values_mut() {
            if link.under_way == Some(correlation) {
                link.under_way = None;
                let lost = FetcherEvent::Lost { back_off: true };
                link.fetcher.on_event(context.now, lost, &mut Vec::new());
            } else if let Some((partition, leader_epoch)) = link.look_ups.remove(&correlation) {
                let acted = FetcherEvent::Acted {
                    partition,
                    leader_epoch,
                    outcome: Outcome::Again(None),
                };
                link.fetcher.on_event(context.now, acted, &mut Vec::new());
            }
        }
    }

    pub fn fetch_answered(
        &mut self,
        context: &mut Context<'_>,
        leader: NodeId,
        correlation: u64,
        answer: &ReplicaFetchAnswer,
    ) {
        let Some(link) = self.fetchers.get_mut(&leader) else {
            return;
        };
        if link.under_way != Some(correlation) {
            return;
        }
        link.under_way = None;
        let mut actions = Vec::new();
        let event = FetcherEvent::Answered(self.plain(answer));
        let Some(link) = self.fetchers.get_mut(&leader) else {
            return;
        };
        link.fetcher.on_event(context.now, event, &mut actions);
        self.run_actions(context, leader, actions, Some(answer));
    }

    pub fn range_answered(
        &mut self,
        context: &mut Context<'_>,
        leader: NodeId,
        correlation: u64,
        result: Result<(Offset, Offset), ErrorCode>,
    ) {
        let Some(link) = self.fetchers.get_mut(&leader) else {
            return;
        };
        let Some((partition, leader_epoch)) = link.look_ups.remove(&correlation) else {
            return;
        };
        let event = match result {
            Ok((log_start_offset, log_end_offset)) => FetcherEvent::Range {
                partition,
                leader_epoch,
                range: LeaderRange {
                    log_start_offset,
                    log_end_offset,
                },
            },
            Err(_) => FetcherEvent::Acted {
                partition,
                leader_epoch,
                outcome: Outcome::Again(None),
            },
        };
        let mut actions = Vec::new();
        link.fetcher.on_event(context.now, event, &mut actions);
        self.run_actions(context, leader, actions, None);
    }

    fn plain(&self, answer: &ReplicaFetchAnswer) -> FetchAnswer {
        FetchAnswer {
            fault: match answer.error {
                ErrorCode::None => None,
                ErrorCode::FetchSessionIdNotFound => Some(SessionFault::NotFound),
                ErrorCode::InvalidFetchSessionEpoch => Some(SessionFault::OutOfStep),
                _ => Some(SessionFault::Other),
            },
            session_id: answer.session_id,
            partitions: answer
                .partitions
                .iter()
                .filter_map(|fetched| {
                    let topic = self.image.topics.name_of(&fetched.topic_id)?;
                    Some(PartitionAnswer {
                        partition: TopicIdPartition {
                            topic_id: fetched.topic_id,
                            topic_partition: kavka_common::TopicPartition::new(
                                Arc::clone(topic),
                                fetched.partition,
                            ),
                        },
                        fault: match fetched.error {
                            ErrorCode::None => None,
                            ErrorCode::OffsetOutOfRange => Some(FetchFault::OffsetOutOfRange),
                            ErrorCode::FencedLeaderEpoch => Some(FetchFault::FencedLeaderEpoch),
                            ErrorCode::UnknownLeaderEpoch => Some(FetchFault::UnknownLeaderEpoch),
                            ErrorCode::NotLeaderOrFollower => Some(FetchFault::NotLeader),
                            _ => Some(FetchFault::Other),
                        },
                        high_watermark: fetched.high_watermark,
                        log_start_offset: fetched.log_start_offset,
                        diverging: fetched.diverging,
                    })
                })
                .collect(),
        }
    }

    fn run_actions(
        &mut self,
        context: &mut Context<'_>,
        leader: NodeId,
        mut actions: Vec<FetcherAction>,
        answer: Option<&ReplicaFetchAnswer>,
    ) {
        while let Some(action) = actions.pop() {
            if action.kind == ActionKind::LookUpRange {
                let correlation = context.correlation();
                let id = &action.partition;
                context.send(
                    leader.get(),
                    Message::RangeLookUp {
                        correlation,
                        topic_id: id.topic_id,
                        partition: id.topic_partition.partition,
                        leader_epoch: action.leader_epoch,
                    },
                );
                context.timer(ANSWER_MS, Timer::Call(correlation));
                if let Some(link) = self.fetchers.get_mut(&leader) {
                    let asked = (action.partition, action.leader_epoch);
                    link.look_ups.insert(correlation, asked);
                }
                continue;
            }
            let outcome = self.run_action(context, &action, answer);
            let event = FetcherEvent::Acted {
                partition: action.partition,
                leader_epoch: action.leader_epoch,
                outcome,
            };
            if let Some(link) = self.fetchers.get_mut(&leader) {
                link.fetcher.on_event(context.now, event, &mut actions);
            }
        }
    }

    fn run_action(
        &mut self,
        context: &mut Context<'_>,
        action: &FetcherAction,
        answer: Option<&ReplicaFetchAnswer>,
    ) -> Outcome {
        let id = &action.partition;
        let tp = &id.topic_partition;
        let partition = match self.manager.partition(&tp.topic, tp.partition) {
            Ok(partition) if partition.topic_id() == id.topic_id => partition,
            Ok(_) | Err(_) => return Outcome::GivenUp,
        };
        let epoch = action.leader_epoch;
        let position = match action.kind {
            ActionKind::Append {
                fetch_offset,
                high_watermark,
                log_start_offset,
                ..
            } => {
                let fetched = answer.and_then(|answer| {
                    answer.partitions.iter().find(|fetched| {
                        fetched.topic_id == id.topic_id && fetched.partition == tp.partition
                    })
                });
                let records = fetched
                    .map(|fetched| &fetched.records[..])
                    .unwrap_or_default();
                partition
                    .append_as_follower(
                        epoch,
                        fetch_offset,
                        records,
                        high_watermark,
                        log_start_offset,
                    )
                    .map(|followed| followed.position)
            }
            ActionKind::Truncate(_) | ActionKind::TruncateTo(_) | ActionKind::StartAt(_) => {
                let work = [(action.clone(), Arc::clone(&partition))];
                let cut = self.manager.cut(&work).into_iter().next();
                let cut = cut.unwrap_or(Err(ReplicaError::NotLeaderOrFollower));
                if cut.is_ok() {
                    context
                        .oracle
                        .replica(context.now, self.id.get(), &partition);
                }
                cut.map(|cut| cut.position)
            }
            ActionKind::LookUpRange => return Outcome::Again(None),
        };
        match position {
            Ok(position) => Outcome::Done(position),
            Err(e) => partition.after_failure(epoch, &e),
        }
    }
}

fn session_partition(
    id: &TopicIdPartition,
    position: FetchPosition,
    bytes_max: u32,
) -> SessionPartition {
    SessionPartition {
        topic: SessionTopic::Id(id.topic_id),
        partition: id.topic_partition.partition,
        current_leader_epoch: position.leader_epoch,
        fetch_offset: position.fetch_offset,
        last_fetched_epoch: position.last_fetched_epoch,
        log_start_offset: position.log_start_offset,
        max_bytes: i32::try_from(bytes_max).unwrap_or(i32::MAX),
        high_watermark: i64::MAX,
    }
}
