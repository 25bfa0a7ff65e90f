//! Planted histories: each anomaly is found by its name, and nothing is found where nothing is wrong.
//! Not here: histories of real clusters (tests/e2e).
//! A checker that never failed proves nothing.

use super::{Anomaly, History, Judgement, Moment, Outcome, Poll, Send, judge};

/// A history of partition 0 in which everything is well: 0, 1, 2 acknowledged one after the other at 0, 1, 2.
fn sound() -> History {
    let mut history = History::default();
    for n in 0..3 {
        send(&mut history, n, n * 10, n * 10 + 5, ok(n));
    }
    finally(&mut history, &[(0, 0), (1, 1), (2, 2)]);
    history
}

fn ok(offset: u64) -> Outcome {
    Outcome::Ok {
        offset: i64::try_from(offset).expect("small"),
    }
}

fn send(history: &mut History, value: u64, invoked: Moment, completed: Moment, outcome: Outcome) {
    history.sends.push(Send {
        partition: 0,
        value,
        invoked,
        completed,
        outcome,
    });
}

fn poll(history: &mut History, completed: Moment, sought: bool, records: &[(i64, u64)]) {
    history.polls.push(Poll {
        reader: 7,
        partition: 0,
        sought,
        completed,
        records: records.to_vec(),
    });
}

fn finally(history: &mut History, records: &[(i64, u64)]) {
    history.finally.insert(0, records.to_vec());
}

#[track_caller]
fn only(history: &History, expected: &[Anomaly]) {
    let judgement = judge(history);
    assert_eq!(judgement.anomalies, expected, "{judgement}");
}

#[test]
fn nothing_is_wrong_with_a_sound_history() {
    let mut history = sound();
    poll(&mut history, 40, false, &[(0, 0), (1, 1)]);
    poll(&mut history, 41, false, &[(2, 2)]);
    assert_eq!(
        judge(&history),
        Judgement {
            ok: 3,
            polled: 3,
            ..Judgement::default()
        }
    );
}

#[test]
fn an_unknown_send_may_be_there_or_not_and_late() {
    let mut history = sound();
    send(&mut history, 3, 30, 35, Outcome::Unknown);
    send(&mut history, 4, 36, 37, Outcome::Unknown);
    send(&mut history, 5, 38, 39, ok(3));
    // the first of the two came after all, behind what was sent later
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (3, 5), (4, 3)]);
    let judgement = judge(&history);
    assert_eq!(judgement.anomalies, []);
    assert_eq!((judgement.unknown, judgement.unknown_there), (2, 1));
}

#[test]
fn sends_at_the_same_time_may_come_in_any_order() {
    let mut history = History::default();
    send(&mut history, 0, 1, 10, ok(1));
    send(&mut history, 1, 2, 9, ok(0));
    // … also within one batch of one producer, which is acknowledged as a whole
    finally(&mut history, &[(0, 1), (1, 0)]);
    only(&history, &[]);
}

#[test]
fn offsets_without_records_are_no_hole() {
    let mut history = sound();
    // a control batch at 3
    send(&mut history, 3, 30, 35, ok(4));
    poll(&mut history, 40, false, &[(0, 0), (1, 1), (2, 2), (4, 3)]);
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (4, 3)]);
    only(&history, &[]);
}

#[test]
fn a_refused_send_is_not_there() {
    let mut history = sound();
    send(&mut history, 3, 30, 35, Outcome::Failed);
    only(&history, &[]);
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (3, 3)]);
    only(
        &history,
        &[Anomaly::AbortedRead {
            partition: 0,
            offset: 3,
            value: 3,
        }],
    );
}

#[test]
fn a_lost_write_is_found() {
    let mut history = sound();
    finally(&mut history, &[(0, 0), (2, 2)]);
    only(
        &history,
        &[Anomaly::LostWrite {
            partition: 0,
            offset: 1,
            value: 1,
        }],
    );
}

#[test]
fn a_lost_end_is_unseen() {
    let mut history = sound();
    finally(&mut history, &[(0, 0), (1, 1)]);
    only(
        &history,
        &[Anomaly::Unseen {
            partition: 0,
            offset: 2,
            value: 2,
        }],
    );
}

#[test]
fn a_partition_that_nobody_read_is_named() {
    let mut history = sound();
    history.finally.clear();
    assert!(
        judge(&history)
            .anomalies
            .contains(&Anomaly::NotRead { partition: 0 })
    );
}

#[test]
fn a_truncated_and_overwritten_end_is_lost_and_inconsistent() {
    let mut history = sound();
    // 2 was acknowledged at 2 and lost with its leader; 3 took its place
    send(&mut history, 3, 30, 35, ok(2));
    finally(&mut history, &[(0, 0), (1, 1), (2, 3)]);
    only(
        &history,
        &[
            Anomaly::LostWrite {
                partition: 0,
                offset: 2,
                value: 2,
            },
            Anomaly::InconsistentOffsets {
                partition: 0,
                offset: 2,
                values: vec![2, 3],
            },
            Anomaly::Reordered {
                partition: 0,
                earlier: (2, 2),
                later: (2, 3),
            },
        ],
    );
}

#[test]
fn a_duplicate_is_found_also_of_an_unknown_send() {
    let mut history = sound();
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (3, 1)]);
    only(
        &history,
        &[Anomaly::Duplicate {
            value: 1,
            places: vec![(0, 1), (0, 3)],
        }],
    );
    let mut history = sound();
    send(&mut history, 9, 30, 35, Outcome::Unknown);
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (3, 9), (4, 9)]);
    only(
        &history,
        &[Anomaly::Duplicate {
            value: 9,
            places: vec![(0, 3), (0, 4)],
        }],
    );
}

#[test]
fn a_record_in_another_partition_than_it_was_sent_to_is_a_duplicate() {
    let mut history = sound();
    history.finally.insert(1, vec![(0, 1)]);
    only(
        &history,
        &[Anomaly::Duplicate {
            value: 1,
            places: vec![(0, 1), (1, 0)],
        }],
    );
}

#[test]
fn an_acknowledgement_for_another_offset_is_inconsistent() {
    let mut history = sound();
    history.sends[1].outcome = ok(2);
    let judgement = judge(&history);
    assert!(
        judgement.anomalies.contains(&Anomaly::InconsistentOffsets {
            partition: 0,
            offset: 2,
            values: vec![1, 2]
        }),
        "{judgement}"
    );
}

#[test]
fn reordering_is_found() {
    let mut history = sound();
    history.sends[0].outcome = ok(1);
    history.sends[1].outcome = ok(0);
    finally(&mut history, &[(0, 1), (1, 0), (2, 2)]);
    only(
        &history,
        &[Anomaly::Reordered {
            partition: 0,
            earlier: (1, 0),
            later: (0, 1),
        }],
    );
}

#[test]
fn a_send_comes_behind_what_was_read_before_it() {
    let mut history = sound();
    send(&mut history, 3, 21, 35, ok(3));
    send(&mut history, 4, 19, 36, ok(4));
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
    only(&history, &[]);
    // 4 was read before 3 was sent
    poll(&mut history, 20, true, &[(4, 4)]);
    only(
        &history,
        &[Anomaly::Reordered {
            partition: 0,
            earlier: (4, 4),
            later: (3, 3),
        }],
    );
}

#[test]
fn a_stranger_is_found() {
    let mut history = sound();
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (3, 77)]);
    only(
        &history,
        &[Anomaly::Stranger {
            partition: 0,
            offset: 3,
            value: 77,
        }],
    );
}

#[test]
fn what_a_reader_saw_stays() {
    let mut history = sound();
    send(&mut history, 3, 30, 35, Outcome::Unknown);
    poll(&mut history, 36, false, &[(2, 2), (3, 3)]);
    only(
        &history,
        &[Anomaly::Vanished {
            partition: 0,
            offset: 3,
            value: 3,
        }],
    );
    // another record took its place
    send(&mut history, 4, 37, 38, ok(4));
    finally(&mut history, &[(0, 0), (1, 1), (2, 2), (3, 4)]);
    let judgement = judge(&history);
    assert!(
        judgement.anomalies.contains(&Anomaly::InconsistentOffsets {
            partition: 0,
            offset: 3,
            values: vec![3, 4]
        }),
        "{judgement}"
    );
}

#[test]
fn a_reader_goes_forward() {
    let mut history = sound();
    poll(&mut history, 40, false, &[(0, 0), (1, 1)]);
    poll(&mut history, 41, false, &[(1, 1), (2, 2)]);
    only(
        &history,
        &[Anomaly::NonmonotonicPoll {
            reader: 7,
            partition: 0,
            offsets: (1, 1),
        }],
    );
    // unless it went back by itself
    history.polls[1].sought = true;
    only(&history, &[]);
}

#[test]
fn a_reader_is_led_past_nothing() {
    let mut history = sound();
    poll(&mut history, 40, false, &[(0, 0)]);
    poll(&mut history, 41, false, &[(2, 2)]);
    only(
        &history,
        &[Anomaly::PollSkip {
            reader: 7,
            partition: 0,
            offsets: (0, 2),
            skipped: 1,
        }],
    );
}

#[test]
fn an_answer_that_no_sound_broker_gives_is_told() {
    let mut history = sound();
    history
        .surprises
        .push("OUT_OF_ORDER_SEQUENCE_NUMBER".into());
    only(
        &history,
        &[Anomaly::Surprise("OUT_OF_ORDER_SEQUENCE_NUMBER".into())],
    );
}

#[test]
#[should_panic(expected = "only 3 sends were acknowledged")]
fn a_history_of_nothing_proves_nothing() {
    judge(&sound()).expect_sound(4, "seed 1");
}
