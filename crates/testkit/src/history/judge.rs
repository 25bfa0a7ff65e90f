//! Whether a history keeps Kafka's promises to an idempotent `acks=all` producer and to its readers.
//! Not here: recording; transactions, and retention or compaction, which take records away on purpose.
//! Pure: the same history always has the same judgement.
//! Anomalies are named as in jepsen.tests.kafka; its poll-skip and nonmonotonic-poll are errors here, because the
//! readers are assigned their partitions and are never rebalanced. Faults.md §1.2; Kafka's invariants R1, R2, R5, L6.

use super::{History, Moment, Outcome};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// Acknowledged, not there at the end, while a record behind it is.
    LostWrite {
        partition: i32,
        offset: i64,
        value: u64,
    },
    /// Acknowledged, and the reading at the end did not get so far.
    Unseen {
        partition: i32,
        offset: i64,
        value: u64,
    },
    /// One value at several offsets.
    Duplicate { value: u64, places: Vec<(i32, i64)> },
    /// Several values at one offset.
    InconsistentOffsets {
        partition: i32,
        offset: i64,
        values: Vec<u64>,
    },
    /// Sent after another was acknowledged or read, and yet before it in the log.
    Reordered {
        partition: i32,
        earlier: (i64, u64),
        later: (i64, u64),
    },
    /// Refused, and yet there.
    AbortedRead {
        partition: i32,
        offset: i64,
        value: u64,
    },
    /// Never sent, and yet there.
    Stranger {
        partition: i32,
        offset: i64,
        value: u64,
    },
    /// Read once, and gone at the end.
    Vanished {
        partition: i32,
        offset: i64,
        value: u64,
    },
    /// A reader was given offsets that do not grow.
    NonmonotonicPoll {
        reader: u32,
        partition: i32,
        offsets: (i64, i64),
    },
    /// A reader was led past a record.
    PollSkip {
        reader: u32,
        partition: i32,
        offsets: (i64, i64),
        skipped: i64,
    },
    /// Something was sent to a partition that nobody read at the end.
    NotRead { partition: i32 },
    /// An answer that no sound broker gives.
    Surprise(String),
}

/// The anomalies of a history, and how much was seen: a history without sends proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    pub anomalies: Vec<Anomaly>,
    pub ok: usize,
    pub failed: usize,
    pub unknown: usize,
    /// Of the unknown ones, those that are there.
    pub unknown_there: usize,
    pub polled: usize,
}

impl Judgement {
    /// Panics unless nothing is wrong and at least `sends` were acknowledged. `context` tells how to do it again.
    #[track_caller]
    pub fn expect_sound(&self, sends: usize, context: &str) {
        assert!(self.anomalies.is_empty(), "{context}\n{self}");
        assert!(
            self.ok >= sends,
            "{context}: only {} sends were acknowledged",
            self.ok
        );
    }
}

/// Anomalies that are shown before the rest is only counted.
const SHOWN: usize = 20;

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} acknowledged, {} refused, {} unknown ({} of them there), {} polled, {} anomalies",
            self.ok,
            self.failed,
            self.unknown,
            self.unknown_there,
            self.polled,
            self.anomalies.len()
        )?;
        for anomaly in self.anomalies.iter().take(SHOWN) {
            write!(f, "\n  {anomaly:?}")?;
        }
        if self.anomalies.len() > SHOWN {
            write!(f, "\n  … and {} more", self.anomalies.len() - SHOWN)?;
        }
        Ok(())
    }
}

/// Who saw which value where.
#[derive(Default)]
struct Sightings {
    by_offset: BTreeMap<(i32, i64), Vec<u64>>,
    by_value: HashMap<u64, Vec<(i32, i64)>>,
}

impl Sightings {
    fn add(&mut self, partition: i32, offset: i64, value: u64) {
        let values = self.by_offset.entry((partition, offset)).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
        let places = self.by_value.entry(value).or_default();
        if !places.contains(&(partition, offset)) {
            places.push((partition, offset));
        }
    }
}

/// Compares everything with everything else.
pub fn judge(history: &History) -> Judgement {
    let mut judgement = Judgement {
        polled: history.polls.iter().map(|poll| poll.records.len()).sum(),
        ..Judgement::default()
    };
    let found = &mut judgement.anomalies;
    found.extend(history.surprises.iter().cloned().map(Anomaly::Surprise));

    let mut reads = Sightings::default();
    for (partition, records) in &history.finally {
        for (offset, value) in records {
            reads.add(*partition, *offset, *value);
        }
        found.extend(ascending(u32::MAX, *partition, records));
    }
    let there: HashMap<(i32, i64), u64> = history
        .finally
        .iter()
        .flat_map(|(partition, records)| {
            records
                .iter()
                .map(move |(offset, value)| ((*partition, *offset), *value))
        })
        .collect();
    for poll in &history.polls {
        for (offset, value) in &poll.records {
            reads.add(poll.partition, *offset, *value);
        }
    }
    vanished(history, &there, found);
    sends(history, &there, &mut reads, &mut judgement);
    let found = &mut judgement.anomalies;
    for ((partition, offset), values) in &reads.by_offset {
        if values.len() > 1 {
            let mut values = values.clone();
            values.sort_unstable();
            found.push(Anomaly::InconsistentOffsets {
                partition: *partition,
                offset: *offset,
                values,
            });
        }
    }
    for (value, places) in &reads.by_value {
        if places.len() > 1 {
            let mut places = places.clone();
            places.sort_unstable();
            found.push(Anomaly::Duplicate {
                value: *value,
                places,
            });
        }
    }
    reordered(history, found);
    readers(history, &reads.by_offset, found);
    found.sort();
    found.dedup();
    judgement
}

/// Offsets of one reading that do not grow.
fn ascending(reader: u32, partition: i32, records: &[(i64, u64)]) -> Vec<Anomaly> {
    let pairs = records.windows(2).filter(|pair| pair[0].0 >= pair[1].0);
    pairs
        .map(|pair| Anomaly::NonmonotonicPoll {
            reader,
            partition,
            offsets: (pair[0].0, pair[1].0),
        })
        .collect()
}

fn vanished(history: &History, there: &HashMap<(i32, i64), u64>, found: &mut Vec<Anomaly>) {
    for poll in &history.polls {
        for (offset, value) in &poll.records {
            if !there.contains_key(&(poll.partition, *offset)) {
                found.push(Anomaly::Vanished {
                    partition: poll.partition,
                    offset: *offset,
                    value: *value,
                });
            }
        }
    }
}

/// Each send against what was read; and what was read against the sends.
fn sends(
    history: &History,
    there: &HashMap<(i32, i64), u64>,
    reads: &mut Sightings,
    judgement: &mut Judgement,
) {
    let mut sent: HashMap<u64, Outcome> = HashMap::new();
    let read: HashMap<u64, (i32, i64)> = there
        .iter()
        .map(|(place, value)| (*value, *place))
        .collect();
    let mut acknowledged = Vec::new();
    for send in &history.sends {
        sent.insert(send.value, send.outcome);
        if !history.finally.contains_key(&send.partition) {
            judgement.anomalies.push(Anomaly::NotRead {
                partition: send.partition,
            });
        }
        match send.outcome {
            Outcome::Ok { offset } => {
                judgement.ok += 1;
                acknowledged.push((send.partition, offset, send.value));
                if read.contains_key(&send.value) {
                    continue;
                }
                let end = history.finally.get(&send.partition).and_then(|r| r.last());
                let (partition, value) = (send.partition, send.value);
                judgement.anomalies.push(match end {
                    Some((end, _)) if *end >= offset => Anomaly::LostWrite {
                        partition,
                        offset,
                        value,
                    },
                    Some(_) | None => Anomaly::Unseen {
                        partition,
                        offset,
                        value,
                    },
                });
            }
            Outcome::Failed => judgement.failed += 1,
            Outcome::Unknown => {
                judgement.unknown += 1;
                judgement.unknown_there += usize::from(read.contains_key(&send.value));
            }
        }
    }
    for ((partition, offset), values) in &reads.by_offset {
        let (partition, offset) = (*partition, *offset);
        for value in values.iter().copied() {
            match sent.get(&value) {
                Some(Outcome::Ok { .. } | Outcome::Unknown) => {}
                Some(Outcome::Failed) => judgement.anomalies.push(Anomaly::AbortedRead {
                    partition,
                    offset,
                    value,
                }),
                None => judgement.anomalies.push(Anomaly::Stranger {
                    partition,
                    offset,
                    value,
                }),
            }
        }
    }
    // What the producer was told counts as a sighting, too.
    for (partition, offset, value) in acknowledged {
        reads.add(partition, offset, value);
    }
}

/// Whoever sends after an acknowledgement, or after a record was read, comes behind it in the log.
fn reordered(history: &History, found: &mut Vec<Anomaly>) {
    // per partition: when a record was known to be there
    let mut known: BTreeMap<i32, Vec<(Moment, i64, u64)>> = BTreeMap::new();
    let mut by_invocation: BTreeMap<i32, Vec<(Moment, i64, u64)>> = BTreeMap::new();
    for send in &history.sends {
        if let Outcome::Ok { offset } = send.outcome {
            let of = |map: &mut BTreeMap<i32, Vec<(Moment, i64, u64)>>, moment| {
                map.entry(send.partition)
                    .or_default()
                    .push((moment, offset, send.value));
            };
            of(&mut known, send.completed);
            of(&mut by_invocation, send.invoked);
        }
    }
    for poll in &history.polls {
        // The last one stands for those before it.
        if let Some((offset, value)) = poll.records.iter().max() {
            known
                .entry(poll.partition)
                .or_default()
                .push((poll.completed, *offset, *value));
        }
    }
    for (partition, mut sends) in by_invocation {
        let mut known = known.remove(&partition).unwrap_or_default();
        known.sort_unstable();
        sends.sort_unstable();
        let mut known = known.into_iter().peekable();
        let mut furthest: Option<(i64, u64)> = None;
        for (invoked, offset, value) in sends {
            while let Some((_, offset, value)) = known.next_if(|(moment, _, _)| *moment < invoked) {
                furthest = furthest.max(Some((offset, value)));
            }
            if let Some(earlier) = furthest
                && earlier.0 >= offset
            {
                found.push(Anomaly::Reordered {
                    partition,
                    earlier,
                    later: (offset, value),
                });
            }
        }
    }
}

/// Each reader goes forward, and leaves nothing out.
fn readers(history: &History, known: &BTreeMap<(i32, i64), Vec<u64>>, found: &mut Vec<Anomaly>) {
    let mut last: HashMap<(u32, i32), i64> = HashMap::new();
    let mut polls: Vec<_> = history.polls.iter().collect();
    polls.sort_by_key(|poll| poll.completed);
    for poll in polls {
        let key = (poll.reader, poll.partition);
        if poll.sought {
            last.remove(&key);
        }
        for (offset, _) in &poll.records {
            if let Some(before) = last.insert(key, *offset) {
                let offsets = (before, *offset);
                if *offset <= before {
                    found.push(Anomaly::NonmonotonicPoll {
                        reader: poll.reader,
                        partition: poll.partition,
                        offsets,
                    });
                    continue;
                }
                let between = (poll.partition, before + 1)..(poll.partition, *offset);
                if let Some(((_, skipped), _)) = known.range(between).next() {
                    found.push(Anomaly::PollSkip {
                        reader: poll.reader,
                        partition: poll.partition,
                        offsets,
                        skipped: *skipped,
                    });
                }
            }
        }
    }
}
