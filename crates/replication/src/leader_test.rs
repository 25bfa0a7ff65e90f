use super::*;
use proptest::prelude::*;

const CONFIG: LeaderConfig = LeaderConfig {
    min_in_sync_replicas: 1,
    replica_lag_ms_max: 30_000,
};

fn ids(ids: &[i32]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

fn registration(replicas: &[i32], isr: &[i32], partition_epoch: i32) -> Registration {
    Registration {
        replicas: ids(replicas),
        isr: ids(isr),
        leader_epoch: LeaderEpoch(1),
        partition_epoch: PartitionEpoch(partition_epoch),
    }
}

fn start(replicas: &[i32], isr: &[i32], end: Offset, high_watermark: Offset) -> LeaderStart {
    LeaderStart {
        local: NodeId(1),
        registration: registration(replicas, isr, 0),
        config: CONFIG,
        log_start_offset: 0,
        log_end_offset: end,
        high_watermark,
    }
}

fn step(leader: &mut Leader, now_ms: i64, event: LeaderEvent) -> Vec<LeaderAction> {
    let mut out = Vec::new();
    leader.on_event(now_ms, event, &mut out);
    out
}

fn fetch(replica_id: i32, fetch_offset: Offset) -> LeaderEvent {
    LeaderEvent::FollowerFetch {
        replica_id: NodeId(replica_id),
        broker_epoch: BrokerEpoch(7),
        fetch_offset,
        log_start_offset: 0,
    }
}

fn proposal(isr: &[(i32, i64)], partition_epoch: i32) -> LeaderAction {
    LeaderAction::ProposeIsr {
        isr: isr
            .iter()
            .map(|(id, epoch)| (NodeId(*id), BrokerEpoch(*epoch)))
            .collect(),
        leader_epoch: LeaderEpoch(1),
        partition_epoch: PartitionEpoch(partition_epoch),
    }
}

/// The controller's answer to what was proposed on top of `partition_epoch`.
fn answer(partition_epoch: i32, outcome: AlterPartitionOutcome) -> LeaderEvent {
    LeaderEvent::AlterPartition {
        leader_epoch: LeaderEpoch(1),
        partition_epoch: PartitionEpoch(partition_epoch),
        outcome,
    }
}

#[test]
fn a_single_replica_commits_at_once() {
    let mut out = Vec::new();
    let mut leader = Leader::start(0, start(&[1], &[1], 10, 4), &mut out);
    assert_eq!(out, [LeaderAction::HighWatermark(10)]);
    let append = LeaderEvent::LocalAppend { log_end_offset: 12 };
    assert_eq!(
        step(&mut leader, 1, append),
        [LeaderAction::HighWatermark(12)]
    );
    assert_eq!(leader.acks_state(12), AcksState::Done);
    assert_eq!(leader.acks_state(13), AcksState::Pending);
}

#[test]
fn the_high_watermark_waits_for_the_isr() {
    let mut leader = Leader::start(0, start(&[1, 2, 3], &[1, 2], 10, 4), &mut Vec::new());
    assert_eq!(leader.high_watermark(), 4);
    assert_eq!(
        step(&mut leader, 1, fetch(2, 8)),
        [LeaderAction::HighWatermark(8)]
    );
    assert_eq!(leader.acks_state(10), AcksState::Pending);
    assert_eq!(
        step(&mut leader, 2, fetch(2, 10)),
        [LeaderAction::HighWatermark(10)]
    );
}

#[test]
fn a_caught_up_replica_is_proposed_and_held_to_account() {
    let mut leader = Leader::start(0, start(&[1, 2], &[1], 10, 10), &mut Vec::new());
    assert_eq!(step(&mut leader, 1, fetch(2, 9)), []);
    assert_eq!(
        step(&mut leader, 2, fetch(2, 10)),
        [proposal(&[(1, -1), (2, 7)], 0)]
    );
    // the maximal ISR counts the proposed one: no commit without it, whatever the controller decides
    let append = LeaderEvent::LocalAppend { log_end_offset: 11 };
    assert_eq!(step(&mut leader, 3, append), []);
    assert_eq!(leader.high_watermark(), 10);
    let accepted = AlterPartitionOutcome::Accepted(registration(&[1, 2], &[1, 2], 1));
    assert_eq!(step(&mut leader, 4, answer(0, accepted)), []);
    assert_eq!(
        step(&mut leader, 5, fetch(2, 11)),
        [LeaderAction::HighWatermark(11)]
    );
}

#[test]
fn a_lagging_replica_leaves_and_the_watermark_follows_only_then() {
    let mut leader = Leader::start(0, start(&[1, 2], &[1, 2], 10, 10), &mut Vec::new());
    step(&mut leader, 0, fetch(2, 10));
    step(
        &mut leader,
        1,
        LeaderEvent::LocalAppend { log_end_offset: 20 },
    );
    assert_eq!(step(&mut leader, 30_000, LeaderEvent::Tick), []);
    assert_eq!(
        step(&mut leader, 30_001, LeaderEvent::Tick),
        [proposal(&[(1, -1)], 0)]
    );
    assert_eq!(leader.high_watermark(), 10);
    // asked again after a timeout, not dropped
    assert_eq!(
        step(
            &mut leader,
            30_002,
            answer(0, AlterPartitionOutcome::Unknown)
        ),
        [proposal(&[(1, -1)], 0)]
    );
    let accepted = AlterPartitionOutcome::Accepted(registration(&[1, 2], &[1], 1));
    assert_eq!(
        step(&mut leader, 30_003, answer(0, accepted)),
        [LeaderAction::HighWatermark(20)]
    );
    // the old registration arrives late by the metadata log
    let late = LeaderEvent::Registered(registration(&[1, 2], &[1, 2], 0));
    step(&mut leader, 30_004, late);
    assert_eq!(leader.registration().isr, ids(&[1]));
}

#[test]
fn too_few_in_sync_replicas_commit_nothing() {
    let mut begin = start(&[1, 2, 3], &[1], 10, 5);
    begin.config.min_in_sync_replicas = 2;
    let mut leader = Leader::start(0, begin, &mut Vec::new());
    assert!(!leader.has_enough_in_sync_replicas());
    step(
        &mut leader,
        1,
        LeaderEvent::LocalAppend { log_end_offset: 12 },
    );
    assert_eq!(leader.high_watermark(), 5);
    // no minimum can be higher than the number of replicas
    let mut begin = start(&[1], &[1], 10, 5);
    begin.config.min_in_sync_replicas = 2;
    let leader = Leader::start(0, begin, &mut Vec::new());
    assert_eq!(leader.high_watermark(), 10);
}

#[test]
fn fetches_of_an_earlier_broker_and_ineligible_brokers_do_not_count() {
    let mut leader = Leader::start(0, start(&[1, 2], &[1], 10, 10), &mut Vec::new());
    let unfit = LeaderEvent::Eligibility {
        replica_id: NodeId(2),
        eligible: false,
        broker_epoch: BrokerEpoch::UNKNOWN,
    };
    step(&mut leader, 0, unfit);
    assert_eq!(step(&mut leader, 1, fetch(2, 10)), []);
    let fit = LeaderEvent::Eligibility {
        replica_id: NodeId(2),
        eligible: true,
        broker_epoch: BrokerEpoch::UNKNOWN,
    };
    step(&mut leader, 2, fit);
    let stale = LeaderEvent::FollowerFetch {
        replica_id: NodeId(2),
        broker_epoch: BrokerEpoch(6),
        fetch_offset: 10,
        log_start_offset: 0,
    };
    assert_eq!(step(&mut leader, 3, stale), []);
    assert_eq!(step(&mut leader, 4, fetch(9, 10)), []);
    assert_eq!(step(&mut leader, 5, fetch(2, 10)).len(), 1);
}

#[test]
fn the_log_start_pulls_the_high_watermark_along() {
    let mut leader = Leader::start(0, start(&[1, 2], &[1, 2], 10, 3), &mut Vec::new());
    let moved = LeaderEvent::LogStart {
        log_start_offset: 6,
    };
    assert_eq!(
        step(&mut leader, 0, moved),
        [LeaderAction::HighWatermark(6)]
    );
    assert_eq!(leader.low_watermark(), -1, "it has not fetched yet");
    step(&mut leader, 1, fetch(2, 7));
    assert_eq!(leader.low_watermark(), 0);
    let gone = LeaderEvent::Eligibility {
        replica_id: NodeId(2),
        eligible: false,
        broker_epoch: BrokerEpoch(7),
    };
    step(&mut leader, 2, gone);
    assert_eq!(leader.low_watermark(), 6);
}

#[test]
fn an_answer_to_an_earlier_proposal_changes_nothing() {
    let mut leader = Leader::start(0, start(&[1, 2, 3], &[1], 10, 10), &mut Vec::new());
    assert_eq!(step(&mut leader, 1, fetch(2, 10)).len(), 1);
    // metadata brings the proposed set before the answer does
    let registered = LeaderEvent::Registered(registration(&[1, 2, 3], &[1, 2], 1));
    step(&mut leader, 2, registered);
    assert_eq!(step(&mut leader, 3, fetch(3, 10)).len(), 1);
    step(&mut leader, 4, answer(0, AlterPartitionOutcome::Rejected));
    step(&mut leader, 4, answer(0, AlterPartitionOutcome::Unknown));
    // still pending: nothing is committed that broker 3 does not have
    let append = LeaderEvent::LocalAppend { log_end_offset: 11 };
    step(&mut leader, 5, append);
    assert_eq!(step(&mut leader, 6, fetch(2, 11)), []);
    assert_eq!(
        step(&mut leader, 7, answer(1, AlterPartitionOutcome::Superseded)),
        []
    );
    assert_eq!(leader.high_watermark(), 10);
    assert_eq!(
        step(&mut leader, 8, fetch(3, 11)),
        [LeaderAction::HighWatermark(11)]
    );
}

#[test]
fn only_the_registered_incarnation_joins() {
    let mut leader = Leader::start(0, start(&[1, 2], &[1], 10, 10), &mut Vec::new());
    let rebooted = |broker_epoch| LeaderEvent::Eligibility {
        replica_id: NodeId(2),
        eligible: true,
        broker_epoch: BrokerEpoch(broker_epoch),
    };
    step(&mut leader, 0, rebooted(8));
    // sent before the reboot, handled after it (KAFKA-15221)
    assert_eq!(step(&mut leader, 1, fetch(2, 10)), []);
    step(&mut leader, 2, rebooted(7));
    assert_eq!(step(&mut leader, 3, fetch(2, 10)).len(), 1);
}

proptest! {
    /// The high watermark never goes back, never passes the log end, and never passes a member of the maximal ISR.
    #[test]
    fn high_watermark_is_safe(steps in proptest::collection::vec((0u8..6, 2i32..4, 0i64..8), 1..200)) {
        let mut leader = Leader::start(0, start(&[1, 2, 3], &[1, 2, 3], 0, 0), &mut Vec::new());
        let mut epoch = 0;
        let mut now_ms = 0;
        let mut acked = BTreeMap::from([(NodeId(2), 0), (NodeId(3), 0)]);
        let mut pending: Option<Vec<NodeId>> = None;
        for (kind, replica, amount) in steps {
            let before = leader.high_watermark();
            now_ms += amount * 3000;
            let event = match kind {
                0 | 1 => LeaderEvent::LocalAppend { log_end_offset: leader.log_end_offset + amount },
                2 => {
                    let offset = (acked[&NodeId(replica)] + amount).min(leader.log_end_offset);
                    acked.insert(NodeId(replica), offset);
                    fetch(replica, offset)
                }
                3 => LeaderEvent::Tick,
                4 => match pending.take() {
                    Some(isr) if amount > 2 => {
                        epoch += 1;
                        let isr: Vec<i32> = isr.iter().map(|id| id.get()).collect();
                        answer(epoch - 1, AlterPartitionOutcome::Accepted(registration(&[1, 2, 3], &isr, epoch)))
                    }
                    _ => answer(epoch, AlterPartitionOutcome::Rejected),
                },
                _ => answer(epoch, AlterPartitionOutcome::Unknown),
            };
            for action in step(&mut leader, now_ms, event) {
                if let LeaderAction::ProposeIsr { isr, .. } = action {
                    prop_assert!(isr.iter().any(|(id, _)| *id == NodeId(1)));
                    pending = Some(isr.into_iter().map(|(id, _)| id).collect());
                }
            }
            let high_watermark = leader.high_watermark();
            prop_assert!(high_watermark >= before);
            prop_assert!(high_watermark <= leader.log_end_offset);
            if high_watermark > before {
                for (id, end) in &acked {
                    if leader.in_maximal_isr(*id) {
                        prop_assert!(high_watermark <= *end, "{id} has {end}");
                    }
                }
            }
        }
    }
}
