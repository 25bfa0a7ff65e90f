//! A producer that never stops by itself: numbers, in order, over the partitions of a topic, while brokers come and go.
//! Not here: killing brokers, judging what is left (crash, stop, full_disk).
//! One thread per load; librdkafka behind the client crate's producer, with Java's settings.

use kavka_client::java_properties::JavaProperties;
use kavka_client::librdkafka::{Event, Observer};
use kavka_client::producer::{Failure, Outgoing, Producer, ProducerObserver};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub const PARTITIONS: u64 = 3;

/// Records between two breaths, so that the load fits a debug build beside other tests.
const RECORDS_AT_ONCE: u64 = 10;
const BREATH: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Seen {
    failed: Mutex<Vec<(u64, String)>>,
}

impl Observer for Seen {
    // Lost connections are the point of these tests.
    fn event(&self, _event: Event) {}
}

impl ProducerObserver for Seen {
    fn failed(&self, failure: &Failure<'_>) {
        let number = failure.value.and_then(number);
        self.failed.lock().expect("not poisoned").push((
            number.expect("one of our records"),
            failure.error.to_string(),
        ));
    }
}

fn number(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// What a load has done.
#[derive(Debug)]
pub struct Produced {
    /// Numbers below this were handed to the producer.
    pub handed_over: u64,
    /// Those that were given up, with the reason; all others are acknowledged.
    pub failed: Vec<(u64, String)>,
}

impl Produced {
    /// The acknowledged numbers of a partition, in order.
    pub fn acknowledged(&self, partition: i32) -> Vec<u64> {
        let failed: HashSet<u64> = self.failed.iter().map(|(number, _)| *number).collect();
        let of_partition = |number: &u64| i32::try_from(number % PARTITIONS) == Ok(partition);
        (0..self.handed_over)
            .filter(of_partition)
            .filter(|number| !failed.contains(number))
            .collect()
    }
}

/// Which guarantees the producer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `acks=all`, `enable.idempotence=true`: exactly once.
    Idempotent,
    /// `acks=1`: at least once.
    Leader,
}

pub struct Load {
    stop: Arc<AtomicBool>,
    handed_over: Arc<AtomicU64>,
    seen: Arc<Seen>,
    thread: JoinHandle<Produced>,
}

impl Load {
    pub fn start(bootstrap: &str, topic: &str, kind: Kind, more: &[(&str, &str)]) -> Load {
        let mut properties = JavaProperties::new();
        properties.put_all([
            ("bootstrap.servers", bootstrap),
            ("linger.ms", "1"),
            ("buffer.memory", "1048576"),
            ("retry.backoff.ms", "20"),
            ("reconnect.backoff.ms", "10"),
            ("reconnect.backoff.max.ms", "50"),
            ("request.timeout.ms", "5000"),
            ("delivery.timeout.ms", "120000"),
        ]);
        match kind {
            Kind::Idempotent => {
                properties.put_all([("acks", "all"), ("enable.idempotence", "true")]);
            }
            Kind::Leader => properties.put_all([("acks", "1"), ("enable.idempotence", "false")]),
        }
        properties.put_all(more.iter().copied());
        let (stop, handed_over) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopping, counter) = (Arc::clone(&stop), Arc::clone(&handed_over));
        let topic = topic.to_owned();
        let seen = Arc::new(Seen::default());
        let seeing = Arc::clone(&seen);
        let thread =
            std::thread::spawn(move || produce(&properties, &topic, &stopping, &counter, &seeing));
        Load {
            stop,
            handed_over,
            seen,
            thread,
        }
    }

    /// How many records were handed to the producer; all but a megabyte of them went out.
    pub fn handed_over(&self) -> u64 {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// How many records were given up so far.
    pub fn refused(&self) -> usize {
        self.seen.failed.lock().expect("not poisoned").len()
    }

    /// Waits for everything that is under way.
    pub fn finish(self) -> Produced {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the producer's thread")
    }
}

fn produce(
    properties: &JavaProperties,
    topic: &str,
    stop: &AtomicBool,
    handed_over: &AtomicU64,
    seen: &Arc<Seen>,
) -> Produced {
    let producer = Producer::new(properties, Arc::clone(seen), |_, _| {}).expect("a producer");
    let filler = "x".repeat(80);
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let value = format!("{next} {filler}");
        let sent = producer.send(Outgoing {
            topic,
            partition: i32::try_from(next % PARTITIONS).ok(),
            key: None,
            value: Some(value.as_bytes()),
            headers: &[],
        });
        if let Err(error) = sent {
            seen.failed
                .lock()
                .expect("not poisoned")
                .push((next, error.to_string()));
        }
        next += 1;
        handed_over.store(next, Ordering::Relaxed);
        if next % RECORDS_AT_ONCE == 0 {
            producer.poll(BREATH);
        }
    }
    producer.flush();
    let failed = std::mem::take(&mut *seen.failed.lock().expect("not poisoned"));
    Produced {
        handed_over: next,
        failed,
    }
}

/// The numbers of a partition's records.
pub fn numbers(records: &[(i64, String)]) -> Vec<u64> {
    records
        .iter()
        .map(|(offset, value)| {
            number(value.as_bytes()).unwrap_or_else(|| panic!("a stranger at {offset}: {value}"))
        })
        .collect()
}

/// Each acknowledged number is there; in order and once, where the producer is idempotent. Records that were given up
/// may be there, too.
#[track_caller]
pub fn judge(kind: Kind, partition: i32, produced: &Produced, found: &[u64]) {
    let acknowledged = produced.acknowledged(partition);
    let there: HashSet<u64> = found.iter().copied().collect();
    let lost: Vec<&u64> = acknowledged
        .iter()
        .filter(|number| !there.contains(number))
        .collect();
    assert!(
        lost.is_empty(),
        "partition {partition}: {} acknowledged records are lost, the first of them {:?}",
        lost.len(),
        lost.first()
    );
    match kind {
        Kind::Idempotent => {
            let disorder = found.windows(2).find(|pair| pair[0] >= pair[1]);
            assert_eq!(
                disorder, None,
                "partition {partition}: twice, or out of order"
            );
        }
        // librdkafka sends what is new while what is to be sent again waits for its backoff.
        Kind::Leader => {}
    }
}
