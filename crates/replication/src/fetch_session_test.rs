use super::*;

fn part(topic: &str, partition: i32, fetch_offset: Offset) -> SessionPartition {
    SessionPartition {
        topic: SessionTopic::Name(topic.into()),
        partition,
        current_leader_epoch: LeaderEpoch::UNKNOWN,
        fetch_offset,
        last_fetched_epoch: LeaderEpoch::UNKNOWN,
        log_start_offset: -1,
        max_bytes: 1000,
        high_watermark: i64::MAX,
    }
}

fn request(id: SessionId, epoch: i32, partitions: Vec<SessionPartition>) -> SessionRequest {
    SessionRequest {
        session_id: id,
        session_epoch: epoch,
        uses_topic_ids: false,
        privileged: false,
        partitions,
        forgotten: Vec::new(),
    }
}

const QUIET: PartitionOutcome = PartitionOutcome {
    records_bytes: 0,
    is_error: false,
    is_notice: false,
    high_watermark: 10,
    log_start_offset: 0,
};
const DATA: PartitionOutcome = PartitionOutcome {
    records_bytes: 5,
    ..QUIET
};
const ERROR: PartitionOutcome = PartitionOutcome {
    is_error: true,
    high_watermark: -1,
    log_start_offset: -1,
    ..QUIET
};

fn open(
    cache: &mut FetchSessionCache,
    now_ms: i64,
    partitions: Vec<SessionPartition>,
) -> SessionId {
    let count = partitions.len();
    let context = cache
        .begin(now_ms, request(0, INITIAL_EPOCH, partitions))
        .unwrap();
    let mut id = cache.len() as i32 + 100 + now_ms as i32;
    let (id, include) = cache
        .complete(now_ms, &context, &vec![QUIET; count], || {
            id += 1;
            id
        })
        .unwrap();
    assert_eq!(include, vec![true; count]);
    id
}

fn names(context: &FetchContext) -> Vec<i32> {
    context.partitions.iter().map(|p| p.partition).collect()
}

#[test]
fn an_incremental_answer_names_what_changed() {
    let mut cache = FetchSessionCache::new(10);
    let id = open(
        &mut cache,
        0,
        vec![part("t", 0, 10), part("t", 1, 10), part("t", 2, 10)],
    );
    let mut next = |epoch, update, outcomes: &[PartitionOutcome]| {
        let context = cache.begin(1, request(id, epoch, update)).unwrap();
        let (session_id, include) = cache.complete(1, &context, outcomes, || 0).unwrap();
        assert_eq!(session_id, id);
        (names(&context), include)
    };
    assert_eq!(
        next(1, vec![], &[QUIET, QUIET, QUIET]),
        (vec![0, 1, 2], vec![false, false, false])
    );
    assert_eq!(
        next(2, vec![], &[DATA, QUIET, ERROR]).1,
        [true, false, true]
    );
    // the one that got data is served last now; after an error the next answer is sent
    assert_eq!(
        next(3, vec![part("t", 0, 15)], &[QUIET, QUIET, QUIET]),
        (vec![1, 2, 0], vec![false, true, false])
    );
    let moved = PartitionOutcome {
        high_watermark: 11,
        ..QUIET
    };
    assert_eq!(
        next(4, vec![part("t", 3, 0)], &[moved, QUIET, QUIET, QUIET]).1,
        [true, false, false, true]
    );
}

#[test]
fn epochs_ids_and_kinds_of_names_must_match() {
    let mut cache = FetchSessionCache::new(10);
    let id = open(&mut cache, 0, vec![part("t", 0, 10)]);
    let fails = |cache: &mut FetchSessionCache, r| cache.begin(1, r).unwrap_err();
    assert_eq!(
        fails(&mut cache, request(id + 1, 1, vec![])),
        FetchSessionError::SessionIdNotFound
    );
    assert_eq!(
        fails(&mut cache, request(id, 2, vec![])),
        FetchSessionError::InvalidSessionEpoch
    );
    let by_id = SessionRequest {
        uses_topic_ids: true,
        ..request(id, 1, vec![])
    };
    assert_eq!(fails(&mut cache, by_id), FetchSessionError::TopicIdMismatch);
    // a request that was overtaken by a later one gets no answer under the session
    let first = cache.begin(1, request(id, 1, vec![])).unwrap();
    let second = cache.begin(1, request(id, 2, vec![])).unwrap();
    assert_eq!(
        cache.complete(1, &first, &[DATA], || 0),
        Err(FetchSessionError::InvalidSessionEpoch)
    );
    assert!(cache.complete(1, &second, &[DATA], || 0).is_ok());
}

#[test]
fn sessions_end_by_the_final_epoch_and_when_nothing_is_left() {
    let mut cache = FetchSessionCache::new(10);
    let id = open(&mut cache, 0, vec![part("t", 0, 10)]);
    let forget = SessionRequest {
        forgotten: vec![(SessionTopic::Name("t".into()), 0)],
        ..request(id, 1, vec![])
    };
    let context = cache.begin(1, forget).unwrap();
    assert_eq!(
        cache.complete(1, &context, &[], || 0),
        Ok((INVALID_SESSION_ID, vec![]))
    );
    assert!(cache.is_empty());
    let id = open(&mut cache, 0, vec![part("t", 0, 10)]);
    let context = cache
        .begin(1, request(id, FINAL_EPOCH, vec![part("t", 0, 3)]))
        .unwrap();
    assert_eq!(names(&context), [0]);
    assert!(cache.is_empty());
}

#[test]
fn full_caches_evict_by_age_then_by_worth() {
    let mut cache = FetchSessionCache::new(2);
    let small = open(&mut cache, 0, vec![part("t", 0, 0)]);
    let large = open(
        &mut cache,
        1,
        vec![part("t", 0, 0), part("t", 1, 0), part("t", 2, 0)],
    );
    // young sessions keep their slots from consumers
    assert_eq!(
        open(&mut cache, 2, vec![part("t", 0, 0), part("t", 1, 0)]),
        INVALID_SESSION_ID
    );
    // but not from followers
    let follower = SessionRequest {
        privileged: true,
        ..request(0, INITIAL_EPOCH, vec![])
    };
    let context = cache.begin(3, follower).unwrap();
    let (id, _) = cache.complete(3, &context, &[], || 5).unwrap();
    assert_eq!(id, 5);
    assert_eq!(cache.evictions(), 1);
    assert_eq!(
        cache.begin(3, request(small, 1, vec![])).unwrap_err(),
        FetchSessionError::SessionIdNotFound
    );
    // a session idle for long goes first
    cache.begin(130_000, request(large, 1, vec![])).unwrap();
    assert_ne!(
        open(&mut cache, 130_001, vec![part("t", 0, 0)]),
        INVALID_SESSION_ID
    );
    assert!(cache.begin(130_002, request(large, 2, vec![])).is_ok());
    assert!(!cache.sessions.contains_key(&5));
}

#[test]
fn without_slots_every_fetch_is_full() {
    let mut cache = FetchSessionCache::new(0);
    assert_eq!(
        open(&mut cache, 0, vec![part("t", 0, 0)]),
        INVALID_SESSION_ID
    );
}

#[test]
fn epochs_wrap_to_one() {
    assert_eq!(next_epoch(0), 1);
    assert_eq!(next_epoch(i32::MAX), 1);
    assert_eq!(next_epoch(-1), -1);
}

#[test]
fn followers_that_fell_silent_leave_their_slots() {
    let mut cache = FetchSessionCache::new(10);
    let open_as = |cache: &mut FetchSessionCache, now_ms, privileged, random| {
        let request = SessionRequest {
            privileged,
            ..request(0, INITIAL_EPOCH, vec![part("t", 0, 0)])
        };
        let context = cache.begin(now_ms, request).unwrap();
        let completed = cache.complete(now_ms, &context, &[QUIET], || random);
        completed.unwrap().0
    };
    open_as(&mut cache, 0, true, 1);
    let alive = open_as(&mut cache, 0, true, 2);
    open_as(&mut cache, 0, false, 3);
    let later_ms = EVICTION_MS_MIN;
    cache
        .begin(later_ms, request(alive, 1, Vec::new()))
        .unwrap();
    open_as(&mut cache, later_ms, true, 4);
    assert_eq!((cache.len(), cache.evictions()), (4, 0));
    open_as(&mut cache, later_ms + EVICTION_MS_MIN / 4, true, 5);
    // the one that is alive, the consumer's, and the two new ones
    assert_eq!((cache.len(), cache.evictions()), (4, 1));
}
