//! Replicas of a partition laid side by side: the same batches at the same offsets, up to the high watermark?
//! Not here: fetching them. Pure: bytes in, findings out.
//! Kafka: ReplicaVerificationTool.ReplicaBuffer.verifyCheckSum.

use bytes::Bytes;
use kavka_common::TopicPartition;
use kavka_records::batch::{self, RecordBatch};
use kavka_records::error::BatchError;
use std::collections::BTreeMap;

/// What one replica answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub high_watermark: i64,
    pub records: Bytes,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Replicas have different batches; nothing behind can be compared.
    Offset {
        first: (i32, i64),
        other: (i32, i64),
    },
    Checksum {
        offset: i64,
        first: (i32, u32),
        other: (i32, u32),
    },
    /// The batch of a replica is not what its own checksum says, or not a batch at all.
    Damaged {
        replica: i32,
        offset: i64,
        why: String,
    },
}

impl Finding {
    pub fn text(&self, time: &str, partition: &TopicPartition) -> String {
        match self {
            Finding::Offset { first, other } => format!(
                "{time}: partition {partition}: replica {}'s offset {} doesn't match replica {}'s offset {}",
                first.0, first.1, other.0, other.1
            ),
            Finding::Checksum {
                offset,
                first,
                other,
            } => format!(
                "{time}: partition {partition} has unmatched checksum at offset {offset}; replica {}'s checksum {}; replica {}'s checksum {}",
                first.0, first.1, other.0, other.1
            ),
            Finding::Damaged {
                replica,
                offset,
                why,
            } => format!(
                "{time}: partition {partition}: replica {replica}'s batch at offset {offset} is damaged: {why}"
            ),
        }
    }

    /// Whether Apache's tool ends here.
    pub fn is_final(&self) -> bool {
        matches!(self, Finding::Offset { .. })
    }
}

/// How far a partition was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    /// Where the next fetch begins.
    pub next_offset: i64,
    /// Up to the highest watermark that a replica told of.
    pub lag: i64,
}

fn next<'a>(
    batches: &mut batch::Batches<'a>,
    replica: i32,
    offset: i64,
    findings: &mut Vec<Finding>,
) -> Option<RecordBatch<'a>> {
    match batches.next()? {
        Ok(batch) => {
            if let Err(error) = batch.verify_crc() {
                findings.push(Finding::Damaged {
                    replica,
                    offset: batch.header().base_offset,
                    why: error.to_string(),
                });
            }
            Some(batch)
        }
        // The end of the answer, in the middle of a batch.
        Err(BatchError::Truncated { .. }) => None,
        Err(error) => {
            findings.push(Finding::Damaged {
                replica,
                offset,
                why: error.to_string(),
            });
            None
        }
    }
}

/// Compares the answers for one partition, which all begin at `offset`.
pub fn compare(answers: &BTreeMap<i32, Answer>, offset: i64) -> Verdict {
    let high_watermark = answers.values().map(|answer| answer.high_watermark).max();
    let mut verdict = Verdict {
        findings: Vec::new(),
        next_offset: offset,
        lag: 0,
    };
    let mut replicas: Vec<(i32, i64, batch::Batches<'_>)> = answers
        .iter()
        .map(|(id, answer)| (*id, answer.high_watermark, batch::batches(&answer.records)))
        .collect();
    'batches: loop {
        let mut first: Option<(i32, i64, i64, u32)> = None;
        for (id, high_watermark, batches) in &mut replicas {
            let at = verdict.next_offset;
            let Some(batch) = next(batches, *id, at, &mut verdict.findings) else {
                break 'batches;
            };
            let header = batch.header();
            let last = header.last_offset();
            if last >= *high_watermark {
                break 'batches;
            }
            match first {
                None => first = Some((*id, last, header.next_offset(), header.crc)),
                Some((first_id, first_last, _, _)) if first_last != last => {
                    verdict.findings.push(Finding::Offset {
                        first: (first_id, first_last),
                        other: (*id, last),
                    });
                    break 'batches;
                }
                Some((first_id, _, _, crc)) if crc != header.crc => {
                    verdict.findings.push(Finding::Checksum {
                        offset: last,
                        first: (first_id, crc),
                        other: (*id, header.crc),
                    });
                }
                Some(_) => {}
            }
        }
        match first {
            Some((_, _, next_offset, _)) => verdict.next_offset = next_offset,
            None => break,
        }
    }
    verdict.lag = high_watermark.map_or(0, |end| (end - verdict.next_offset).max(0));
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_records::{BatchBuilder, BatchOptions};

    /// Batches of one record each, from offset 0 on.
    fn log(values: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for (value, offset) in values.iter().zip(0..) {
            let mut builder = BatchBuilder::new(BatchOptions {
                base_offset: offset,
                ..Default::default()
            });
            builder
                .append(0, None, Some(value.as_bytes()), std::iter::empty())
                .unwrap();
            out.extend_from_slice(&builder.build().unwrap());
        }
        out
    }

    fn verdict(high_watermark: i64, logs: &[Vec<u8>]) -> Verdict {
        let answers = logs
            .iter()
            .zip(1..)
            .map(|(log, id)| {
                let records = Bytes::copy_from_slice(log);
                (
                    id,
                    Answer {
                        high_watermark,
                        records,
                    },
                )
            })
            .collect();
        compare(&answers, 0)
    }

    #[test]
    fn equal_replicas_are_compared_up_to_the_high_watermark() {
        let full = log(&["a", "b", "c"]);
        let behind = log(&["a", "b"]);
        let found = verdict(3, &[full.clone(), full.clone()]);
        assert_eq!(
            (found.findings, found.next_offset, found.lag),
            (vec![], 3, 0)
        );
        let found = verdict(2, &[full.clone(), full.clone()]);
        assert_eq!((found.next_offset, found.lag), (2, 0));
        // A cut batch and a missing one are no finding: they come with the next fetch.
        let cut = full[..full.len() - 3].to_vec();
        let found = verdict(3, &[full.clone(), cut]);
        assert_eq!(
            (found.findings, found.next_offset, found.lag),
            (vec![], 2, 1)
        );
        let found = verdict(3, &[full, behind]);
        assert_eq!(
            (found.findings, found.next_offset, found.lag),
            (vec![], 2, 1)
        );
    }

    #[test]
    fn other_records_have_other_checksums() {
        let found = verdict(3, &[log(&["a", "b", "c"]), log(&["a", "x", "c"])]);
        let [finding @ Finding::Checksum { offset: 1, .. }] = &found.findings[..] else {
            panic!("{found:?}")
        };
        assert_eq!(found.next_offset, 3);
        let text = finding.text("now", &TopicPartition::new("t", 0));
        assert!(text.starts_with(
            "now: partition t-0 has unmatched checksum at offset 1; replica 1's checksum "
        ));
        assert!(!finding.is_final());
    }

    #[test]
    fn batches_at_other_offsets_end_the_comparison() {
        let mut ahead = log(&["a", "b"]);
        let one = log(&["a"]).len();
        ahead.drain(..one);
        let found = verdict(3, &[log(&["a", "b"]), ahead]);
        assert_eq!(
            found.findings,
            [Finding::Offset {
                first: (1, 0),
                other: (2, 1)
            }]
        );
        assert!(found.findings[0].is_final());
        assert_eq!(
            found.findings[0].text("now", &TopicPartition::new("t", 0)),
            "now: partition t-0: replica 1's offset 0 doesn't match replica 2's offset 1"
        );
    }

    #[test]
    fn a_flipped_bit_is_found_even_when_all_replicas_have_it() {
        let mut damaged = log(&["a", "b"]);
        let last = damaged.len() - 2;
        damaged[last] ^= 1;
        let found = verdict(2, &[damaged.clone(), damaged]);
        assert!(matches!(
            found.findings[..],
            [
                Finding::Damaged {
                    replica: 1,
                    offset: 1,
                    ..
                },
                Finding::Damaged {
                    replica: 2,
                    offset: 1,
                    ..
                }
            ]
        ));
    }
}
