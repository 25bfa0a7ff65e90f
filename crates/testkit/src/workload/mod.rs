//! Clients under which a cluster is tormented: idempotent `acks=all` producers and readers that record what they see.
//! Not here: the torment (tests/e2e), the judgement (history). Real clients are in tests/e2e/load and tests/interop.
//! One thread with a runtime; each producer and reader is a task with connections of its own. They speak the protocol
//! themselves, so that an outcome is recorded for what it is: known or unknown.
//! Kafka: kafkatest.services.verifiable_producer; jepsen.tests.kafka.

mod producer;
mod reader;
mod route;

use crate::history::{History, Recorder, judge};
use crate::wait::{DEADLINE, eventually};
use kavka_client::BrokerAddress;
use producer::Producer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How much the clients do.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    pub topic: String,
    pub partitions: i32,
    pub producers: u32,
    pub readers: u32,
    /// Records of a batch go up to this number.
    pub batch_records_max: usize,
    /// Between two batches of a producer.
    pub pause: Duration,
    /// Of one request; its answer is given up then, and the request is sent again.
    pub request_timeout_ms: u64,
    /// After this a send is given up, with an outcome that may be unknown.
    pub delivery_timeout: Duration,
}

impl WorkloadSpec {
    /// Some hundred records a second.
    pub fn of(topic: &str, partitions: i32) -> WorkloadSpec {
        WorkloadSpec {
            topic: topic.to_owned(),
            partitions,
            producers: 3,
            readers: 1,
            batch_records_max: 5,
            pause: Duration::from_millis(10),
            request_timeout_ms: 1_500,
            delivery_timeout: Duration::from_secs(20),
        }
    }
}

/// What the tasks share.
#[derive(Debug)]
struct Shared {
    spec: WorkloadSpec,
    bootstrap: Vec<BrokerAddress>,
    recorder: Recorder,
    stop: AtomicBool,
    /// Why the last try of a send or fetch did not succeed, for a failure's text.
    trouble: Mutex<String>,
}

impl Shared {
    fn trouble(&self, what: impl FnOnce() -> String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = what();
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// Clients at work.
#[derive(Debug)]
pub struct Workload {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    runtime: Runtime,
}

impl Workload {
    pub fn start(bootstrap: Vec<BrokerAddress>, spec: WorkloadSpec) -> Workload {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("workload")
            .enable_all()
            .build()
            .expect("a runtime");
        let shared = Arc::new(Shared {
            spec,
            bootstrap,
            recorder: Recorder::default(),
            stop: AtomicBool::new(false),
            trouble: Mutex::new(String::new()),
        });
        let producers = (0..shared.spec.producers).map(|number| {
            let shared = Arc::clone(&shared);
            runtime.spawn(producer::run(shared, number))
        });
        let mut tasks: Vec<_> = producers.collect();
        let readers = (0..shared.spec.readers).map(|number| {
            let shared = Arc::clone(&shared);
            runtime.spawn(reader::run(shared, number))
        });
        tasks.extend(readers);
        Workload {
            shared,
            tasks,
            runtime,
        }
    }

    /// How many records were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.recorder.acknowledged()
    }

    /// The longest time between two acknowledgements since then, the next one included.
    #[track_caller]
    pub fn longest_pause_since(&self, since: Instant) -> Duration {
        self.time_to_acknowledge();
        self.shared.recorder.longest_pause(since)
    }

    /// How long it takes, from now on, until a record is acknowledged whose sending begins later than now.
    #[track_caller]
    pub fn time_to_acknowledge(&self) -> Duration {
        let (began, moment) = (Instant::now(), self.shared.recorder.now());
        eventually("a record is acknowledged", || {
            match self.shared.recorder.acknowledged_since(moment) {
                true => Ok(began.elapsed()),
                false => Err(self.trouble()),
            }
        })
    }

    /// Why the last try of a send or fetch did not succeed.
    pub fn trouble(&self) -> String {
        self.shared
            .trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until so many more records are acknowledged.
    #[track_caller]
    pub fn await_more(&self, records: u64, context: impl Fn() -> String) {
        let goal = self.acknowledged() + records;
        eventually("records are acknowledged", || match self.acknowledged() {
            enough if enough >= goal => Ok(()),
            few => Err(format!(
                "{few} of {goal}; last trouble: {}; {}",
                self.trouble(),
                context()
            )),
        });
    }

    /// What was recorded so far: for a look at a cluster that is still in trouble.
    pub fn history(&self) -> History {
        self.shared.recorder.history()
    }

    /// Stops the clients; then writes one more record to each partition, which has to be accepted now that everything
    /// is healed, and reads each partition up to that record.
    #[track_caller]
    pub fn finish(self) -> History {
        self.shared.stop.store(true, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        let tasks = self.tasks;
        self.runtime.block_on(async move {
            for task in tasks {
                task.await.expect("a task of the workload");
            }
            let mut producer = Producer::new(Arc::clone(&shared), DEADLINE);
            for partition in 0..shared.spec.partitions {
                let end = producer.send(partition, 1).await;
                if end.is_none() {
                    let what = format!("partition {partition} takes no record after the healing");
                    shared.recorder.surprise(what);
                }
                match reader::whole(&shared, partition, end).await {
                    Ok(records) => shared.recorder.finally(partition, records),
                    Err(what) => shared.recorder.surprise(what),
                }
            }
        });
        self.shared.recorder.history()
    }

    /// Stops, reads, judges: nothing may be wrong, and at least so many records have to be acknowledged.
    #[track_caller]
    pub fn finish_sound(self, acknowledged: usize, context: &str) -> History {
        let history = self.finish();
        let judgement = judge(&history);
        println!("{context}: {judgement}");
        judgement.expect_sound(acknowledged, context);
        history
    }
}
