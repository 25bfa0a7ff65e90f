//! What others ask of a broker: records to append and to read, offsets, and who leads; and what waits until it can be answered.
//! Not here: the answers' content (ReplicaManager, Partition), a replica's own fetching (broker_follower.rs). The steps are
//! those of the broker's api/{produce,fetch,list_offsets} and replica/{append,fetch}.
//! Part of a broker's life. Kafka: KafkaApis, DelayedProduce, DelayedFetch.

use crate::broker_node::Life;
use crate::context::Context;
use crate::invariants::r7_stale_epochs;
use crate::message::{Address, Fetched, Message, ReplicaFetch, ReplicaFetchAnswer, Timer};
use crate::oracle::values_of;
use bytes::Bytes;
use kavka_broker::api::errors::WireError;
use kavka_broker::replica::{
    Acks, FetchIsolation, FetchingReplica, OffsetSpec, Partition, PartitionRead, ReadRequest,
    ReplicaError, find_offset,
};
use kavka_common::{LeaderEpoch, Offset, Uuid};
use kavka_protocol::ErrorCode;
use kavka_replication::fetch_session::SessionTopic;
use kavka_replication::{
    AcksState, FetchContext, FetchSessionError, PartitionOutcome, SessionRequest,
};
use std::sync::Arc;

/// A replica's fetch that found nothing yet.
pub struct ParkedFetch {
    from: Address,
    correlation: u64,
    fetch: Arc<ReplicaFetch>,
    session: FetchContext,
    until_ms: i64,
}

/// An append that waits for its acknowledgement.
pub struct ParkedProduce {
    from: Address,
    correlation: u64,
    partition: Arc<Partition>,
    base_offset: Offset,
    required_offset: Offset,
    leader_epoch: LeaderEpoch,
    values: Vec<u64>,
    until_ms: i64,
}

type Reads = Vec<(Uuid, i32, Result<PartitionRead, ReplicaError>)>;

impl Life {
    pub fn requested(&mut self, context: &mut Context<'_>, from: Address, message: Message) {
        match message {
            Message::ReplicaFetch { correlation, fetch } => {
                self.replica_fetch(context, from, correlation, fetch);
            }
            Message::RangeLookUp {
                correlation,
                topic_id,
                partition,
                leader_epoch,
            } => {
                let result = self.range(topic_id, partition, leader_epoch);
                let answer = Message::RangeAnswer {
                    correlation,
                    result,
                };
                context.send(from, answer);
            }
            Message::Produce {
                correlation,
                topic,
                partition,
                acks_all,
                timeout_ms,
                batch,
            } => {
                let produced = self.produce(context, &topic, partition, acks_all, &batch);
                match produced {
                    Ok(mut parked) if acks_all => {
                        parked.from = from;
                        parked.correlation = correlation;
                        parked.until_ms = context.now + timeout_ms;
                        self.parked_produces.push(parked);
                        context.timer(timeout_ms, Timer::ParkedRequests);
                    }
                    Ok(parked) => {
                        produce_answer(context, from, correlation, Ok(parked.base_offset));
                    }
                    Err(error) => produce_answer(context, from, correlation, Err(error)),
                }
            }
            Message::Consume {
                correlation,
                topic,
                partition,
                fetch_offset,
                current_leader_epoch,
            } => {
                let answer = self.consume(
                    correlation,
                    &topic,
                    partition,
                    fetch_offset,
                    current_leader_epoch,
                );
                context.send(from, answer);
            }
            Message::LatestOffset {
                correlation,
                topic,
                partition,
                current_leader_epoch,
            } => {
                let result = self.manager.partition(&topic, partition).and_then(|found| {
                    find_offset(
                        &found,
                        OffsetSpec::Latest,
                        FetchIsolation::HighWatermark,
                        current_leader_epoch,
                        true,
                    )
                });
                let answer = Message::LatestOffsetAnswer {
                    correlation,
                    result: result.map(|found| found.offset).map_err(|e| e.error_code()),
                };
                context.send(from, answer);
            }
            Message::ClientMetadata { correlation } => {
                let image = Box::new(self.image.clone());
                context.send(from, Message::ClientMetadataAnswer { correlation, image });
            }
            _ => {}
        }
    }

    fn range(
        &self,
        topic_id: Uuid,
        partition: i32,
        leader_epoch: LeaderEpoch,
    ) -> Result<(Offset, Offset), ErrorCode> {
        let look_up = || {
            let found = self.manager.partition_by_id(topic_id, partition)?;
            let of = |spec| find_offset(&found, spec, FetchIsolation::LogEnd, leader_epoch, true);
            Ok((
                of(OffsetSpec::Earliest)?.offset,
                of(OffsetSpec::Latest)?.offset,
            ))
        };
        look_up().map_err(|error: ReplicaError| error.error_code())
    }

    fn produce(
        &self,
        context: &mut Context<'_>,
        topic: &str,
        partition: i32,
        acks_all: bool,
        batch: &Bytes,
    ) -> Result<ParkedProduce, ReplicaError> {
        let partition = self.manager.partition(topic, partition)?;
        let acks = if acks_all { Acks::All } else { Acks::Leader };
        let appended = self
            .manager
            .append_produced(&partition, batch, acks, true)?;
        context
            .oracle
            .replica(context.now, self.id.get(), &partition);
        Ok(ParkedProduce {
            from: 0,
            correlation: 0,
            partition,
            base_offset: appended.info.first_offset,
            required_offset: appended.info.last_offset + 1,
            leader_epoch: appended.leader_epoch,
            values: values_of(batch)
                .into_iter()
                .map(|(_, value)| value)
                .collect(),
            until_ms: 0,
        })
    }

    fn consume(
        &self,
        correlation: u64,
        topic: &str,
        partition: i32,
        fetch_offset: Offset,
        current_leader_epoch: LeaderEpoch,
    ) -> Message {
        let request = ReadRequest {
            fetch_offset,
            max_bytes: 1 << 12,
            min_one_batch: true,
            isolation: FetchIsolation::HighWatermark,
            current_leader_epoch,
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            log_start_offset: -1,
            replica: None,
            leader_only: false,
        };
        let found = self.manager.partition(topic, partition);
        let from_leader = found.as_ref().is_ok_and(|found| found.is_leader());
        let read = found.and_then(|found| found.read(&request, None));
        match read {
            Ok(read) => Message::ConsumeAnswer {
                correlation,
                error: ErrorCode::None,
                from_leader,
                high_watermark: read.high_watermark,
                log_start_offset: read.log_start_offset,
                last_stable_offset: read.last_stable_offset,
                records: bytes_of(&read),
            },
            Err(error) => Message::ConsumeAnswer {
                correlation,
                error: error.error_code(),
                from_leader,
                high_watermark: -1,
                log_start_offset: -1,
                last_stable_offset: -1,
                records: Bytes::new(),
            },
        }
    }

    fn replica_fetch(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        correlation: u64,
        fetch: Arc<ReplicaFetch>,
    ) {
        let request = SessionRequest {
            session_id: fetch.session_id,
            session_epoch: fetch.session_epoch,
            uses_topic_ids: true,
            privileged: true,
            partitions: fetch.partitions.clone(),
            forgotten: fetch.forgotten.clone(),
        };
        match self.sessions.begin(context.now, request) {
            Ok(session) => {
                let until_ms = context.now + fetch.wait_ms;
                context.timer(fetch.wait_ms.max(1), Timer::ParkedRequests);
                let parked = ParkedFetch {
                    from,
                    correlation,
                    fetch,
                    session,
                    until_ms,
                };
                self.serve_fetch(context, parked);
            }
            Err(error) => fetch_refused(context, from, correlation, error),
        }
    }

    /// Reads once; what gave nothing waits on.
    fn serve_fetch(&mut self, context: &mut Context<'_>, parked: ParkedFetch) {
        let reads = self.read_all(context, &parked);
        let gave = reads.iter().any(|(_, _, read)| match read {
            Ok(read) => read.records_bytes() > 0 || read.diverging.is_some(),
            Err(_) => true,
        });
        if !gave && !reads.is_empty() && context.now < parked.until_ms {
            self.parked_fetches.push(parked);
            return;
        }
        let outcomes: Vec<PartitionOutcome> =
            reads.iter().map(|(_, _, read)| outcome(read)).collect();
        let random = &mut *context.random;
        let completed = self
            .sessions
            .complete(context.now, &parked.session, &outcomes, || {
                i32::try_from(random.next_u64() >> 33).unwrap_or(1)
            });
        let (session_id, named) = match completed {
            Ok(completed) => completed,
            Err(error) => {
                fetch_refused(context, parked.from, parked.correlation, error);
                return;
            }
        };
        let partitions = reads
            .into_iter()
            .zip(named)
            .filter(|(_, named)| *named)
            .map(|((topic_id, partition, read), _)| fetched(topic_id, partition, read))
            .collect();
        context.send(
            parked.from,
            Message::ReplicaFetchAnswer {
                correlation: parked.correlation,
                answer: Arc::new(ReplicaFetchAnswer {
                    error: ErrorCode::None,
                    session_id,
                    partitions,
                }),
            },
        );
    }

    fn read_all(&mut self, context: &mut Context<'_>, parked: &ParkedFetch) -> Reads {
        let mut first = true;
        let mut reads = Vec::new();
        for asked in &parked.session.partitions {
            let SessionTopic::Id(topic_id) = asked.topic else {
                continue;
            };
            let request = ReadRequest {
                fetch_offset: asked.fetch_offset,
                max_bytes: usize::try_from(asked.max_bytes).unwrap_or(0),
                min_one_batch: first,
                isolation: FetchIsolation::LogEnd,
                current_leader_epoch: asked.current_leader_epoch,
                last_fetched_epoch: asked.last_fetched_epoch,
                log_start_offset: asked.log_start_offset,
                replica: Some(FetchingReplica {
                    replica_id: parked.fetch.replica_id,
                    broker_epoch: parked.fetch.broker_epoch,
                }),
                leader_only: true,
            };
            let read = match self.manager.partition_by_id(topic_id, asked.partition) {
                Ok(partition) => {
                    let replica_id = parked.fetch.replica_id;
                    let progress = partition.follower_progress(replica_id);
                    let before = partition.view();
                    let read = partition.read(&request, None);
                    let after = partition.view();
                    let checked = match (&read, &after) {
                        (Err(_), _) => r7_stale_epochs::refused(&before, &after),
                        (Ok(_), Some(view)) => {
                            r7_stale_epochs::served(view, asked.current_leader_epoch)
                        }
                        (Ok(_), None) => Ok(()),
                    };
                    context.oracle.fail(context.now, "R7", checked);
                    if progress.is_some_and(|known| known.broker_epoch > parked.fetch.broker_epoch)
                    {
                        let after = partition.follower_progress(replica_id);
                        let checked = r7_stale_epochs::refused(&progress, &after);
                        context.oracle.fail(context.now, "R7", checked);
                    }
                    context
                        .oracle
                        .replica(context.now, self.id.get(), &partition);
                    read
                }
                Err(error) => Err(error),
            };
            first &= !read.as_ref().is_ok_and(|read| read.records_bytes() > 0);
            reads.push((topic_id, asked.partition, read));
        }
        reads
    }

    /// Looks at what waits, if something that it waits for has moved or its time is over.
    pub fn serve_parked(&mut self, context: &mut Context<'_>) {
        let moved = self.moved();
        let due = |until_ms: i64| moved || until_ms <= context.now;
        let (look, wait): (Vec<_>, Vec<_>) = std::mem::take(&mut self.parked_fetches)
            .into_iter()
            .partition(|parked| due(parked.until_ms));
        self.parked_fetches = wait;
        for parked in look {
            self.serve_fetch(context, parked);
        }
        // the fetches may have moved high watermarks
        for parked in std::mem::take(&mut self.parked_produces) {
            let state =
                parked
                    .partition
                    .acks_state(parked.required_offset, parked.leader_epoch, None);
            let result = match state {
                Ok(AcksState::Done) => {
                    let partition = &parked.partition;
                    let key = (partition.topic_id(), partition.topic_partition().partition);
                    context
                        .oracle
                        .replica(context.now, self.id.get(), partition);
                    context.oracle.acknowledged(
                        context.now,
                        key,
                        parked.base_offset,
                        &parked.values,
                    );
                    Ok(parked.base_offset)
                }
                Ok(AcksState::Pending) if context.now < parked.until_ms => {
                    self.parked_produces.push(parked);
                    continue;
                }
                Ok(AcksState::Pending) => Err(ReplicaError::RequestTimedOut),
                Ok(AcksState::NotEnoughReplicas) => Err(ReplicaError::NotEnoughReplicasAfterAppend),
                Err(error) => Err(error),
            };
            produce_answer(context, parked.from, parked.correlation, result);
        }
    }

    /// Whether a log's end or a high watermark here is another than when last looked at.
    fn moved(&mut self) -> bool {
        let mut moved = false;
        for partition in self.manager.partitions() {
            let key = (partition.topic_id(), partition.topic_partition().partition);
            if let Some(view) = partition.view() {
                let now = (view.log_end_offset, view.high_watermark);
                moved |= self.visible.insert(key, now) != Some(now);
            }
        }
        moved
    }
}

fn bytes_of(read: &PartitionRead) -> Bytes {
    // a disk that fails here is found out by the next write
    let bytes = read.region.as_ref().and_then(|region| region.read().ok());
    Bytes::from(bytes.unwrap_or_default())
}

fn outcome(read: &Result<PartitionRead, ReplicaError>) -> PartitionOutcome {
    match read {
        Ok(read) => PartitionOutcome {
            records_bytes: read.records_bytes(),
            is_error: false,
            is_notice: read.diverging.is_some(),
            high_watermark: read.high_watermark,
            log_start_offset: read.log_start_offset,
        },
        Err(_) => PartitionOutcome {
            records_bytes: 0,
            is_error: true,
            is_notice: false,
            high_watermark: -1,
            log_start_offset: -1,
        },
    }
}

fn fetched(topic_id: Uuid, partition: i32, read: Result<PartitionRead, ReplicaError>) -> Fetched {
    match read {
        Ok(read) => Fetched {
            topic_id,
            partition,
            error: ErrorCode::None,
            high_watermark: read.high_watermark,
            log_start_offset: read.log_start_offset,
            diverging: read.diverging,
            records: bytes_of(&read),
        },
        Err(error) => Fetched {
            topic_id,
            partition,
            error: error.error_code(),
            high_watermark: -1,
            log_start_offset: -1,
            diverging: None,
            records: Bytes::new(),
        },
    }
}

fn fetch_refused(
    context: &mut Context<'_>,
    to: Address,
    correlation: u64,
    error: FetchSessionError,
) {
    let error = match error {
        FetchSessionError::SessionIdNotFound => ErrorCode::FetchSessionIdNotFound,
        FetchSessionError::InvalidSessionEpoch => ErrorCode::InvalidFetchSessionEpoch,
        FetchSessionError::TopicIdMismatch => ErrorCode::FetchSessionTopicIdError,
    };
    let answer = Arc::new(ReplicaFetchAnswer {
        error,
        session_id: 0,
        partitions: Vec::new(),
    });
    context.send(
        to,
        Message::ReplicaFetchAnswer {
            correlation,
            answer,
        },
    );
}

fn produce_answer(
    context: &mut Context<'_>,
    to: Address,
    correlation: u64,
    result: Result<Offset, ReplicaError>,
) {
    let (error, base_offset) = match result {
        Ok(base_offset) => (ErrorCode::None, base_offset),
        Err(error) => (error.error_code(), -1),
    };
    context.send(
        to,
        Message::ProduceAnswer {
            correlation,
            error,
            base_offset,
        },
    );
}
