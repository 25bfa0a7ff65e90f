//! What somebody who sees everything knows: the committed metadata, the committed records, every replica's log.
//! Not here: the properties themselves (invariants/, one file each); this calls them at the right moments.
//! Told by the nodes as they go; never tells them anything but what they could know. Kafka: none.

use crate::invariants;
use crate::message::Address;
use crate::quorum::Entry;
use crate::report::Violation;
use kavka_broker::replica::{FetchIsolation, Partition, PartitionView, ReadRequest, ViewedRole};
use kavka_common::{LeaderEpoch, NodeId, Offset, Uuid};
use kavka_metadata::{MetadataDelta, MetadataImage, MetadataRecord};
use kavka_protocol::AnyRequest;
use kavka_records::batches;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A batch as it lies in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenBatch {
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub crc: u32,
}

pub type PartitionKey = (Uuid, i32);

/// What is committed in a partition.
#[derive(Debug, Default)]
pub struct Truth {
    pub batches: Vec<SeenBatch>,
    /// The true high watermark.
    pub end: Offset,
    /// Each committed value with its offset, and the offsets with their values.
    pub values: BTreeMap<u64, Offset>,
    pub by_offset: BTreeMap<Offset, u64>,
}

/// What a crash has to leave of a log.
#[derive(Debug)]
pub struct Expected {
    pub batches: Vec<SeenBatch>,
    pub at_least: Offset,
    pub everything: bool,
    /// The end came in the middle of something: more may be there than was seen.
    pub unseen: bool,
}

/// A replica as last seen.
#[derive(Debug)]
pub struct Replica {
    pub view: PartitionView,
    pub batches: Vec<SeenBatch>,
    /// Compared with what is committed up to here.
    pub compared: Offset,
    pub expected: Option<Expected>,
}

/// A committed entry and what it made of the metadata.
#[derive(Debug)]
pub struct Folded {
    pub entry: Arc<Entry>,
    pub image: MetadataImage,
    pub delta: MetadataDelta,
}

#[derive(Debug, Default)]
pub struct Oracle {
    pub violation: Option<Violation>,
    pub min_isr: usize,
    /// Says what it sees, for somebody who reads a trace.
    pub print: bool,
    pub metadata: Vec<Arc<Folded>>,
    pub leaders: BTreeMap<u64, Address>,
    pub topic_ids: BTreeSet<Uuid>,
    pub broker_epochs: BTreeSet<i64>,
    pub partitions: BTreeMap<PartitionKey, Truth>,
    pub replicas: BTreeMap<(PartitionKey, Address), Replica>,
    /// Brokers that run, with the epoch under which they know themselves registered.
    pub running: BTreeMap<Address, i64>,
    /// Values that a producer was told are committed.
    pub acked: BTreeMap<u64, (PartitionKey, Offset)>,
    pub truncations: u64,
    pub leaderships: u64,
    pub isr_changes: u64,
}

impl Oracle {
    pub fn fail(&mut self, at_ms: i64, invariant: &'static str, checked: Result<(), String>) {
        if let Err(message) = checked
            && self.violation.is_none()
        {
            self.violation = Some(Violation {
                invariant,
                at_ms,
                message,
            });
        }
    }

    pub fn image(&self) -> MetadataImage {
        match self.metadata.last() {
            Some(folded) => folded.image.clone(),
            None => MetadataImage::empty(),
        }
    }

    pub fn led(&mut self, now: i64, term: u64, id: Address) {
        let checked = invariants::c6_one_leader_per_term::check(&mut self.leaders, term, id);
        self.fail(now, "C6", checked);
    }

    /// The committed entry at or behind an offset, as everybody has to see it.
    pub fn folded_at(&self, offset: Offset) -> Option<Arc<Folded>> {
        let at = self
            .metadata
            .partition_point(|folded| folded.entry.last_offset < offset);
        self.metadata.get(at).cloned()
    }

    /// A node takes an entry as committed. Gives the image with it.
    pub fn committed(&mut self, now: i64, node: Address, entry: &Arc<Entry>) -> MetadataImage {
        self.take_committed(now, node, entry).image.clone()
    }

    pub fn take_committed(&mut self, now: i64, node: Address, entry: &Arc<Entry>) -> Arc<Folded> {
        if let Some(known) = self.folded_at(entry.base_offset) {
            let checked = invariants::c1_committed_prefix::check(node, &known.entry, entry);
            self.fail(now, "C1", checked);
            return known;
        }
        if self.print {
            println!("{now:>6}   committed {entry:?}");
        }
        let before = self.image();
        let checked = invariants::c1_committed_prefix::continues(node, before.last_offset, entry);
        self.fail(now, "C1", checked);
        let applied = before.apply(entry.last_offset, entry.epoch(), &entry.records);
        let (image, delta) = match applied {
            Ok(applied) => applied,
            Err(error) => panic!("committed records do not replay: {error}"),
        };
        for check in invariants::METADATA {
            let checked = (check.run)(&invariants::MetadataStep {
                before: &before,
                after: &image,
                delta: &delta,
                entry,
                min_isr: self.min_isr,
            });
            self.fail(now, check.name, checked);
        }
        let checked = invariants::c5_broker_epochs::check(&mut self.broker_epochs, &before, entry);
        self.fail(now, "C5", checked);
        let checked = invariants::c8_topic_ids::check(&mut self.topic_ids, entry);
        self.fail(now, "C8", checked);
        for record in &entry.records {
            if let MetadataRecord::PartitionChange(change) = record
                && change.isr.is_some()
            {
                self.isr_changes += 1;
            }
        }
        let folded = Arc::new(Folded {
            entry: Arc::clone(entry),
            image,
            delta,
        });
        self.metadata.push(Arc::clone(&folded));
        for (topic_id, partitions) in folded.delta.partitions.clone() {
            for partition in partitions {
                self.candidates(now, (topic_id, partition));
            }
        }
        folded
    }

    /// A node starts from a snapshot instead of the log.
    pub fn snapshot(
        &mut self,
        now: i64,
        records: &[MetadataRecord],
        last_offset: Offset,
        last_epoch: LeaderEpoch,
    ) -> MetadataImage {
        let folded = self.folded_at(last_offset).map(|known| known.image.clone());
        let (image, checked) =
            invariants::c2_fold::check(folded.as_ref(), records, last_offset, last_epoch);
        self.fail(now, "C2", checked);
        image
    }

    /// The active controller decided a request.
    pub fn decided(
        &mut self,
        now: i64,
        image: &MetadataImage,
        request: &AnyRequest,
        records: &[MetadataRecord],
    ) {
        let checked = invariants::r7_stale_epochs::decided(image, request, records);
        self.fail(now, "R7", checked);
        let checked = invariants::c7_retried_requests::decided(image, request, records);
        self.fail(now, "C7", checked);
    }

    pub fn truth(&self, key: PartitionKey) -> Option<&Truth> {
        self.partitions.get(&key)
    }

    fn registration(&self, key: PartitionKey) -> Option<kavka_metadata::PartitionRegistration> {
        let image = &self.metadata.last()?.image;
        image.topics.get(&key.0)?.partition(key.1).cloned()
    }

    /// R3: whoever may be elected has everything that is committed.
    fn candidates(&mut self, now: i64, key: PartitionKey) {
        let Some(registration) = self.registration(key) else {
            return;
        };
        let Some(folded) = self.metadata.last() else {
            return;
        };
        let end = self.partitions.get(&key).map_or(0, |truth| truth.end);
        let members = registration.isr.iter().chain(&registration.elr);
        let running: Vec<Address> = members
            .map(|id| id.get())
            .filter(|id| {
                let registered = folded.image.cluster.broker(NodeId(*id));
                registered.map(|broker| broker.broker_epoch.get()) == self.running.get(id).copied()
            })
            .collect();
        for id in running {
            let held = self
                .replicas
                .get(&(key, id))
                .filter(|replica| replica.expected.is_none())
                .map(|replica| replica.view.log_end_offset);
            let checked =
                invariants::r3_candidate_completeness::check(id, held, end, &registration);
            self.fail(now, "R3", checked);
        }
    }

    /// A replica may have moved. Called after everything that a broker does to it.
    pub fn replica(&mut self, now: i64, broker: Address, partition: &Partition) {
        let key = (partition.topic_id(), partition.topic_partition().partition);
        let Some(view) = partition.view() else {
            return;
        };
        let place = (key, broker);
        let before = self.replicas.remove(&place);
        let known = before.as_ref().filter(|known| known.expected.is_none());
        if known.is_some_and(|known| known.view == view) {
            if let Some(before) = before {
                self.replicas.insert(place, before);
            }
            return;
        }
        if self.print {
            let PartitionView {
                role,
                high_watermark,
                log_end_offset,
                recovery_point,
                epochs,
                ..
            } = &view;
            println!(
                "{now:>6}   broker {broker} partition {}: end {log_end_offset} high watermark {high_watermark} synced {recovery_point} epochs {epochs:?} {role:?}",
                key.1
            );
        }
        let checked =
            invariants::l3_watermarks::check(broker, known.map(|known| &known.view), &view);
        self.fail(now, "L3", checked);
        let (mut batches, mut compared, expected, old_view) = match before {
            Some(before) => (
                before.batches,
                before.compared,
                before.expected,
                Some(before.view),
            ),
            None => (Vec::new(), 0, None, None),
        };
        if let Some(expected) = expected {
            batches = read_all(partition, 0, &view);
            compared = 0;
            let checked = invariants::l2_recovery::check(broker, &expected, &batches, &view);
            self.fail(now, "L2", checked);
        } else {
            let keep = batches.partition_point(|batch| batch.last_offset < view.log_end_offset);
            if keep < batches.len() {
                self.truncations += 1;
                let removed = batches.split_off(keep);
                if let Some(truth) = self.partitions.get(&key) {
                    let checked = invariants::r6_truncation::check(broker, truth, &removed, &view);
                    self.fail(now, "R6", checked);
                }
                compared = compared.min(view.log_end_offset);
            }
            let from = batches
                .last()
                .map_or(view.log_start_offset, |last| last.last_offset + 1);
            if from < view.log_end_offset {
                batches.extend(read_all(partition, from, &view));
            }
        }
        let checked = invariants::l1_offsets::check(broker, &batches, &view);
        self.fail(now, "L1", checked);
        self.commit(now, broker, partition, &view, &batches, &mut compared);
        self.leads(now, broker, key, old_view.as_ref(), &view, &batches);
        self.replicas.insert(
            place,
            Replica {
                view,
                batches,
                compared,
                expected: None,
            },
        );
        self.candidates(now, key);
    }

    /// Compares what a replica holds below its high watermark with what is committed, and lets a leader's move that on.
    fn commit(
        &mut self,
        now: i64,
        broker: Address,
        partition: &Partition,
        view: &PartitionView,
        batches: &[SeenBatch],
        compared: &mut Offset,
    ) {
        let key = (partition.topic_id(), partition.topic_partition().partition);
        let high_watermark = view.high_watermark;
        let truth = self.partitions.entry(key).or_default();
        if high_watermark > truth.end && matches!(view.role, ViewedRole::Leader { .. }) {
            let from = batches.partition_point(|batch| batch.last_offset < truth.end);
            let until = batches.partition_point(|batch| batch.last_offset < high_watermark);
            let fresh = batches.get(from..until).unwrap_or_default();
            let values = read_values(partition, truth.end, high_watermark, view);
            truth.batches.extend(fresh);
            truth.end = high_watermark;
            let checked = invariants::l6_no_duplicates::check(&truth.values, &values);
            for (offset, value) in values {
                truth.values.insert(value, offset);
                truth.by_offset.insert(offset, value);
            }
            self.fail(now, "L6", checked);
        }
        let truth = &self.partitions[&key];
        let checked =
            invariants::r1_log_matching::check(broker, truth, batches, *compared, high_watermark);
        *compared = high_watermark.max(*compared);
        self.fail(now, "R1", checked);
    }

    fn leads(
        &mut self,
        now: i64,
        broker: Address,
        key: PartitionKey,
        before: Option<&PartitionView>,
        view: &PartitionView,
        batches: &[SeenBatch],
    ) {
        let ViewedRole::Leader {
            registration,
            maximal_isr,
        } = &view.role
        else {
            return;
        };
        let led_before = matches!(
            before.map(|view| &view.role),
            Some(ViewedRole::Leader { registration: old, .. }) if old.leader_epoch == registration.leader_epoch
        );
        if !led_before {
            self.leaderships += 1;
            // one that reads late of a leadership that is over may lack what a later leader has committed
            let current = self
                .registration(key)
                .is_some_and(|registered| registered.leader_epoch == registration.leader_epoch);
            if let Some(truth) = self.partitions.get(&key).filter(|_| current) {
                let checked =
                    invariants::r2_leader_completeness::check(broker, truth, batches, registration);
                self.fail(now, "R2", checked);
            }
        }
        if let Some(registered) = self.registration(key) {
            let checked = invariants::r4_quorum_superset::check(
                broker,
                registration,
                maximal_isr,
                &registered,
                self.min_isr,
            );
            self.fail(now, "R4", checked);
        }
    }

    /// The process of a broker is over. `everything`: what was written stays, synced or not. `unseen`: it ended in the
    /// middle of an event.
    pub fn stopped(&mut self, broker: Address, everything: bool, unseen: bool) {
        self.running.remove(&broker);
        for ((_, id), replica) in &mut self.replicas {
            if *id == broker {
                let (batches, at_least, whole, earlier) = match replica.expected.take() {
                    // a second crash before the log was looked at
                    Some(first) => (
                        first.batches,
                        first.at_least,
                        first.everything,
                        first.unseen,
                    ),
                    None => (
                        std::mem::take(&mut replica.batches),
                        replica.view.recovery_point,
                        true,
                        false,
                    ),
                };
                replica.expected = Some(Expected {
                    batches,
                    at_least,
                    everything: everything && whole,
                    unseen: unseen || earlier,
                });
            }
        }
    }

    /// A broker that has read its metadata holds these replicas and no others.
    pub fn replicas_of(&mut self, broker: Address, held: &BTreeSet<PartitionKey>) {
        self.replicas
            .retain(|(key, id), _| *id != broker || held.contains(key));
    }

    /// A broker no longer has the replica: its assignment moved away.
    pub fn replica_gone(&mut self, broker: Address, key: PartitionKey) {
        self.replicas.remove(&(key, broker));
    }

    /// A producer is told that its records are committed.
    pub fn acknowledged(
        &mut self,
        now: i64,
        key: PartitionKey,
        base_offset: Offset,
        values: &[u64],
    ) {
        let truth = self.partitions.entry(key).or_default();
        let checked = invariants::r8_nothing_lost::acknowledged(truth, base_offset, values);
        self.fail(now, "R8", checked);
        for (at, value) in (0..).zip(values) {
            self.acked.insert(*value, (key, base_offset + at));
        }
    }

    /// A consumer got records.
    pub fn consumed(&mut self, now: i64, key: PartitionKey, offset: Offset, value: u64) {
        let truth = self.partitions.entry(key).or_default();
        let checked = invariants::r5_consistent_read::check(truth, offset, value);
        self.fail(now, "R5", checked);
    }
}

fn read_bytes(partition: &Partition, from: Offset, until: Offset) -> Option<Vec<u8>> {
    let request = ReadRequest {
        fetch_offset: from,
        max_bytes: 1 << 20,
        min_one_batch: true,
        isolation: FetchIsolation::LogEnd,
        current_leader_epoch: LeaderEpoch::UNKNOWN,
        last_fetched_epoch: LeaderEpoch::UNKNOWN,
        log_start_offset: -1,
        replica: None,
        leader_only: false,
    };
    if from >= until {
        return None;
    }
    let read = partition.read(&request, None).ok()?;
    read.region.and_then(|region| region.read().ok())
}

/// The batches from an offset to the end of a log.
fn read_all(partition: &Partition, from: Offset, view: &PartitionView) -> Vec<SeenBatch> {
    let mut found: Vec<SeenBatch> = Vec::new();
    let mut next = from.max(view.log_start_offset);
    while let Some(bytes) = read_bytes(partition, next, view.log_end_offset) {
        let count = found.len();
        for batch in batches(&bytes).map_while(Result::ok) {
            let header = batch.header();
            if header.last_offset() < next {
                continue;
            }
            next = header.next_offset();
            found.push(SeenBatch {
                base_offset: header.base_offset,
                last_offset: header.last_offset(),
                leader_epoch: header.partition_leader_epoch,
                crc: header.crc,
            });
        }
        if found.len() == count {
            break;
        }
    }
    found
}

/// The values of the records in a range, with their offsets.
fn read_values(
    partition: &Partition,
    from: Offset,
    until: Offset,
    view: &PartitionView,
) -> Vec<(Offset, u64)> {
    let mut found = Vec::new();
    let mut next = from;
    while let Some(bytes) = read_bytes(partition, next, until.min(view.log_end_offset)) {
        let before = next;
        for (offset, value) in values_of(&bytes) {
            if offset >= next && offset < until {
                found.push((offset, value));
                next = offset + 1;
            }
        }
        if next == before {
            break;
        }
    }
    found
}

/// The values in whole batches.
pub fn values_of(bytes: &[u8]) -> Vec<(Offset, u64)> {
    let mut found = Vec::new();
    for batch in batches(bytes).map_while(Result::ok) {
        if let Ok(payload) = batch.payload(1 << 20) {
            for record in payload.records().map_while(Result::ok) {
                let value = record.value.and_then(|value| value.first_chunk::<8>());
                if let Some(value) = value {
                    found.push((record.offset, u64::from_be_bytes(*value)));
                }
            }
        }
    }
    found
}
