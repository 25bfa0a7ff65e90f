//! A disk that does not answer: readers wait for it, producers and other connections do not.
//! Not here: payload on its way to a socket (network/send_queue.rs).
//! Run by `cargo test`; a lock held over a read would make these tests hang, which their deadline ends.
//! Kafka: KAFKA-15046 and the like; fault F41.

use super::replica_test::{Broker, PARAMS, batch, offsets_of, read_at, topic, topic_id};
use super::spoilt_vfs::SpoiltVfs;
use super::*;
use kavka_common::LeaderEpoch;
use std::sync::Arc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

async fn until(condition: impl Fn() -> bool) {
    tokio::time::timeout(DEADLINE, async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the condition holds before the deadline");
}

#[tokio::test]
async fn a_fetch_from_a_cold_disk_stalls_neither_its_thread_nor_the_partition() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = Arc::new(SpoiltVfs::default());
    let mut broker = Broker::start_on(vfs.clone(), dir.path()).await;
    broker.apply(&topic("t", topic_id(7), &[1], &[1])).await;
    broker.produce(batch(&["a"])).unwrap();
    let partition = broker.partition();
    vfs.disk.set_slow(true);
    let fetching = {
        let partition = Arc::clone(&partition);
        tokio::spawn(async move { fetch(&PARAMS, &[read_at(&partition, 0)]).await })
    };
    // one thread runs this test and the fetch: it gets here although the fetch waits
    until(|| vfs.disk.waiting() > 0).await;
    broker.produce(batch(&["b"])).unwrap();
    assert!(!fetching.is_finished());
    vfs.disk.set_slow(false);
    let results = tokio::time::timeout(DEADLINE, fetching)
        .await
        .unwrap()
        .unwrap();
    // what was committed when the fetch came
    assert_eq!(offsets_of(results[0].as_ref().unwrap()), [(0, "a".into())]);
}

#[tokio::test]
async fn a_lookup_by_time_on_a_cold_disk_does_not_stall_producers() {
    let dir = tempfile::tempdir().unwrap();
    let vfs = Arc::new(SpoiltVfs::default());
    let mut broker = Broker::start_on(vfs.clone(), dir.path()).await;
    broker.apply(&topic("t", topic_id(7), &[1], &[1])).await;
    broker.produce(batch(&["a"])).unwrap();
    let partition = broker.partition();
    for spec in [OffsetSpec::Timestamp(0), OffsetSpec::MaxTimestamp] {
        vfs.disk.set_slow(true);
        let looking = {
            let partition = Arc::clone(&partition);
            tokio::task::spawn_blocking(move || {
                let isolation = FetchIsolation::HighWatermark;
                find_offset(&partition, spec, isolation, LeaderEpoch::UNKNOWN, true)
            })
        };
        until(|| vfs.disk.waiting() > 0).await;
        broker.produce(batch(&["b"])).unwrap();
        vfs.disk.set_slow(false);
        let found = tokio::time::timeout(DEADLINE, looking)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.unwrap().offset, 0);
    }
}
