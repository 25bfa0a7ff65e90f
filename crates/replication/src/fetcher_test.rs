use super::*;
use kavka_common::{TopicPartition, Uuid};

pub(super) const CONFIG: FetcherConfig = FetcherConfig {
    wait_ms_max: 500,
    min_bytes: 1,
    response_bytes_max: 1000,
    partition_bytes_max: 100,
    backoff_ms_max: 1000,
};

pub(super) fn id(partition: i32) -> TopicIdPartition {
    TopicIdPartition {
        topic_id: Uuid::from_bytes([1; 16]),
        topic_partition: TopicPartition::new("t", partition),
    }
}

pub(super) fn at(leader_epoch: i32, fetch_offset: Offset, last: i32) -> FetchPosition {
    FetchPosition {
        leader_epoch: LeaderEpoch(leader_epoch),
        fetch_offset,
        last_fetched_epoch: LeaderEpoch(last),
        log_start_offset: 0,
    }
}

pub(super) struct Bench {
    pub(super) fetcher: Fetcher,
    pub(super) now_ms: i64,
}

impl Bench {
    pub(super) fn following(partitions: &[(i32, FetchPosition)]) -> Bench {
        let mut bench = Bench {
            fetcher: Fetcher::new(CONFIG),
            now_ms: 0,
        };
        for (partition, position) in partitions {
            bench.follow(*partition, *position);
        }
        bench
    }

    pub(super) fn event(&mut self, event: FetcherEvent) -> Vec<FetcherAction> {
        let mut out = Vec::new();
        self.fetcher.on_event(self.now_ms, event, &mut out);
        out
    }

    pub(super) fn follow(&mut self, partition: i32, position: FetchPosition) {
        let partition = id(partition);
        self.event(FetcherEvent::Follow {
            partition,
            position,
        });
    }

    pub(super) fn plan(&mut self) -> Option<FetchPlan> {
        self.fetcher.next_request(self.now_ms)
    }

    fn answer(&mut self, session_id: i32, partitions: Vec<PartitionAnswer>) -> Vec<FetcherAction> {
        self.event(FetcherEvent::Answered(FetchAnswer {
            fault: None,
            session_id,
            partitions,
        }))
    }

    fn acted(&mut self, partition: i32, leader_epoch: i32, outcome: Outcome) {
        self.event(FetcherEvent::Acted {
            partition: id(partition),
            leader_epoch: LeaderEpoch(leader_epoch),
            outcome,
        });
    }
}

pub(super) fn good(partition: i32) -> PartitionAnswer {
    PartitionAnswer {
        partition: id(partition),
        fault: None,
        high_watermark: 3,
        log_start_offset: 0,
        diverging: None,
    }
}

fn bad(partition: i32, fault: FetchFault) -> PartitionAnswer {
    PartitionAnswer {
        fault: Some(fault),
        high_watermark: -1,
        log_start_offset: -1,
        ..good(partition)
    }
}

#[test]
fn only_what_changed_is_named_again() {
    let mut bench = Bench::following(&[(0, at(1, 5, 1)), (1, at(1, 7, 1))]);
    let plan = bench.plan().unwrap();
    assert_eq!((plan.session_id, plan.session_epoch), (0, 0));
    assert_eq!(plan.partitions.len(), 2);
    assert_eq!(bench.plan(), None, "one request at a time");
    let actions = bench.answer(9, vec![good(0), good(1)]);
    assert_eq!(actions.len(), 2);
    assert_eq!(
        actions[1].kind,
        ActionKind::Append {
            answer: 1,
            fetch_offset: 7,
            high_watermark: 3,
            log_start_offset: 0
        }
    );
    bench.acted(0, 1, Outcome::Done(at(1, 6, 1)));
    bench.acted(1, 1, Outcome::Done(at(1, 7, 1)));
    let plan = bench.plan().unwrap();
    assert_eq!((plan.session_id, plan.session_epoch), (9, 1));
    assert_eq!(plan.partitions, [(id(0), at(1, 6, 1))]);
    bench.answer(9, Vec::new());
    let plan = bench.plan().unwrap();
    assert_eq!((plan.session_id, plan.session_epoch), (9, 2));
    assert!(plan.partitions.is_empty());
    // moved to another leader: forgotten; a new one: named, and worth giving the long poll up for
    bench.event(FetcherEvent::Remove(id(0)));
    assert!(!bench.fetcher.wants_another_request());
    bench.follow(2, at(1, 0, -1));
    assert!(bench.fetcher.wants_another_request());
    bench.answer(9, Vec::new());
    let plan = bench.plan().unwrap();
    assert_eq!(plan.partitions, [(id(2), at(1, 0, -1))]);
    assert_eq!(plan.forgotten, [id(0)]);
}

#[test]
fn news_that_keep_coming_do_not_keep_answers_away() {
    let mut bench = Bench::following(&[(0, at(1, 5, 1))]);
    assert_eq!(bench.plan().unwrap().wait_ms, 500);
    bench.follow(1, at(1, 0, -1));
    assert!(bench.fetcher.wants_another_request());
    bench.event(FetcherEvent::Lost { back_off: false });
    let plan = bench.plan().unwrap();
    assert_eq!((plan.partitions.len(), plan.wait_ms), (2, 50));
    bench.follow(2, at(1, 0, -1));
    assert!(!bench.fetcher.wants_another_request());
    bench.answer(9, vec![good(0), good(1)]);
    let plan = bench.plan().unwrap();
    assert_eq!(plan.partitions, [(id(2), at(1, 0, -1))]);
    assert_eq!(plan.wait_ms, 500);
    bench.follow(3, at(1, 0, -1));
    assert!(bench.fetcher.wants_another_request());
}

#[test]
fn session_faults_begin_a_new_session() {
    let mut bench = Bench::following(&[(0, at(1, 5, 1))]);
    bench.plan();
    bench.answer(9, vec![good(0)]);
    bench.acted(0, 1, Outcome::Done(at(1, 6, 1)));
    bench.plan();
    let fault = |fault| {
        FetcherEvent::Answered(FetchAnswer {
            fault: Some(fault),
            ..FetchAnswer::default()
        })
    };
    bench.event(fault(SessionFault::OutOfStep));
    let plan = bench.plan().unwrap();
    assert_eq!((plan.session_id, plan.session_epoch), (9, 0), "closes it");
    assert_eq!(plan.partitions, [(id(0), at(1, 6, 1))]);
    // twice in a row: not at once
    bench.event(fault(SessionFault::NotFound));
    assert_eq!(bench.plan(), None);
    bench.now_ms = bench.fetcher.next_deadline().unwrap();
    let plan = bench.plan().unwrap();
    assert_eq!((plan.session_id, plan.session_epoch), (0, 0));
    // an answer that names something else, or a session id that is not ours
    bench.answer(4, vec![good(0), good(1)]);
    bench.acted(0, 1, Outcome::Done(at(1, 6, 1)));
    assert_eq!(bench.plan().unwrap().session_epoch, 0);
    bench.answer(5, vec![good(0)]);
    bench.acted(0, 1, Outcome::Done(at(1, 6, 1)));
    assert_eq!(bench.plan().unwrap().session_epoch, 1);
    bench.answer(6, Vec::new());
    assert_eq!(bench.plan().unwrap().session_epoch, 0);
    // without a slot at the leader each request is whole
    bench.answer(0, vec![good(0)]);
    bench.acted(0, 1, Outcome::Done(at(1, 6, 1)));
    let plan = bench.plan().unwrap();
    assert_eq!((plan.session_id, plan.session_epoch), (0, 0));
    // a lost connection begins anew after a pause
    bench.event(FetcherEvent::Lost { back_off: true });
    assert_eq!(bench.plan(), None);
    bench.now_ms += CONFIG.backoff_ms_max;
    assert!(bench.plan().is_some());
}

#[test]
fn late_answers_count_for_nothing() {
    let mut bench = Bench::following(&[(0, at(1, 5, 1))]);
    bench.plan();
    // KAFKA-7786: the leadership changed while the answer was on its way
    bench.follow(0, at(2, 5, 1));
    assert_eq!(bench.answer(9, vec![good(0)]), []);
    assert_eq!(bench.fetcher.position(&id(0)), Some(at(2, 5, 1)));
    // an older one does not come back
    bench.follow(0, at(1, 3, 1));
    assert_eq!(bench.fetcher.position(&id(0)), Some(at(2, 5, 1)));
    let plan = bench.plan().unwrap();
    assert_eq!(plan.partitions, [(id(0), at(2, 5, 1))]);
    assert_eq!(bench.answer(9, vec![good(0)]).len(), 1);
    // what was done for the old epoch is not taken for the new one
    bench.follow(0, at(3, 5, 1));
    bench.acted(0, 2, Outcome::Done(at(2, 8, 2)));
    assert_eq!(bench.fetcher.position(&id(0)), Some(at(3, 5, 1)));
    // nor an answer to a request that was given up
    bench.plan();
    bench.event(FetcherEvent::Lost { back_off: false });
    assert_eq!(bench.answer(9, vec![good(0)]), []);
}

#[test]
fn refusals_back_off_and_a_fenced_epoch_waits_for_metadata() {
    let faults = [
        FetchFault::NotLeader,
        FetchFault::UnknownLeaderEpoch,
        FetchFault::Other,
    ];
    for fault in faults {
        let mut bench = Bench::following(&[(0, at(1, 5, 1)), (1, at(1, 5, 1))]);
        bench.plan();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert_eq!(bench.answer(9, vec![bad(0, fault), good(1)]).len(), 1);
            bench.acted(1, 1, Outcome::Done(at(1, 5, 1)));
            let plan = bench.plan().unwrap();
            assert!(!plan.partitions.contains(&(id(0), at(1, 5, 1))));
            assert_eq!(plan.forgotten, [id(0)]);
            pauses.push(plan.wait_ms);
            bench.now_ms += i64::from(plan.wait_ms);
            bench.answer(9, Vec::new());
            if plan.wait_ms == 500 {
                // longer than a long poll
                bench.now_ms += 500;
            }
            let plan = bench.plan().unwrap();
            assert_eq!(plan.partitions, [(id(0), at(1, 5, 1))]);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 500, 500, 500]);
    }
    let mut bench = Bench::following(&[(0, at(1, 5, 1))]);
    bench.plan();
    bench.answer(9, vec![bad(0, FetchFault::FencedLeaderEpoch)]);
    assert_eq!((bench.plan(), bench.fetcher.next_deadline()), (None, None));
    bench.follow(0, at(2, 5, 1));
    assert!(bench.plan().is_some());
    bench.answer(9, vec![good(0)]);
    bench.acted(0, 2, Outcome::GivenUp);
    assert_eq!((bench.plan(), bench.fetcher.next_deadline()), (None, None));
}

#[test]
fn a_throttled_partition_is_left_out_until_its_time() {
    let mut bench = Bench::following(&[(0, at(1, 5, 1)), (1, at(1, 5, 1))]);
    bench.plan();
    bench.answer(9, vec![good(0), good(1)]);
    let held = Outcome::Held {
        position: at(1, 8, 1),
        until_ms: 700,
    };
    bench.acted(0, 1, held);
    bench.acted(1, 1, Outcome::Done(at(1, 5, 1)));
    let plan = bench.plan().unwrap();
    assert_eq!(
        (plan.forgotten.as_slice(), plan.wait_ms),
        (&[id(0)][..], 500)
    );
    bench.now_ms = 699;
    bench.answer(9, Vec::new());
    assert!(bench.plan().unwrap().partitions.is_empty());
    assert!(bench.fetcher.held_and_due(699).is_empty());
    assert_eq!(bench.fetcher.held_and_due(700), [id(0)]);
    bench.event(FetcherEvent::Hold {
        partition: id(0),
        until_ms: 900,
    });
    bench.now_ms = 700;
    bench.answer(9, Vec::new());
    assert_eq!(bench.plan().unwrap().wait_ms, 200);
    bench.now_ms = 900;
    bench.answer(9, Vec::new());
    assert_eq!(bench.plan().unwrap().partitions, [(id(0), at(1, 8, 1))]);
}

#[test]
fn an_action_that_was_done_in_part_goes_on_where_the_log_is() {
    let mut bench = Bench::following(&[(0, at(1, 5, 1))]);
    bench.plan();
    bench.answer(9, vec![good(0)]);
    bench.acted(0, 1, Outcome::Again(Some(at(1, 7, 1))));
    assert_eq!(bench.plan(), None, "after a pause");
    bench.now_ms = bench.fetcher.next_deadline().unwrap();
    assert_eq!(bench.plan().unwrap().partitions, [(id(0), at(1, 7, 1))]);
    bench.answer(9, vec![good(0)]);
    bench.acted(0, 1, Outcome::Again(None));
    assert_eq!(bench.fetcher.position(&id(0)), Some(at(1, 7, 1)));
}

#[test]
fn out_of_range_asks_where_the_leader_is() {
    let look_up = |bench: &mut Bench| {
        bench.plan();
        let actions = bench.answer(9, vec![bad(0, FetchFault::OffsetOutOfRange)]);
        assert_eq!(actions[0].kind, ActionKind::LookUpRange);
        assert_eq!(bench.plan(), None);
    };
    let range = |log_start_offset, log_end_offset| FetcherEvent::Range {
        partition: id(0),
        leader_epoch: LeaderEpoch(1),
        range: LeaderRange {
            log_start_offset,
            log_end_offset,
        },
    };
    let kinds = |actions: Vec<FetcherAction>| -> Vec<ActionKind> {
        actions.into_iter().map(|action| action.kind).collect()
    };
    let mut bench = Bench::following(&[(0, at(1, 50, 1))]);
    look_up(&mut bench);
    assert_eq!(
        kinds(bench.event(range(0, 40))),
        [ActionKind::TruncateTo(40)]
    );
    bench.acted(0, 1, Outcome::Done(at(1, 40, 1)));
    look_up(&mut bench);
    assert_eq!(kinds(bench.event(range(60, 90))), [ActionKind::StartAt(60)]);
    bench.acted(0, 1, Outcome::Done(at(1, 60, -1)));
    look_up(&mut bench);
    assert_eq!(bench.event(range(60, 90)), []);
    bench.now_ms += 10;
    assert!(bench.plan().is_some());
    // answered late
    assert_eq!(bench.event(range(0, 40)), []);
}
