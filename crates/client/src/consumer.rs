//! The consumer of the console, perf and verifiable tools: Java's settings on librdkafka.
//! Not here: formatting, when to stop. Offsets are stored only for records that the caller says are done.
//! Runs on one thread, which serves rebalances while it polls; librdkafka's own threads do the I/O.
//! Kafka: org.apache.kafka.clients.consumer.KafkaConsumer.

use crate::java_properties::{ConfigError, JavaProperties, Role};
use crate::librdkafka::{JavaError, Observer, from_error, from_log};
use crate::producer::{client_config, creation_error};
use rdkafka::bindings;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

pub use rdkafka::message::Timestamp;

struct Reports<O> {
    observer: Arc<O>,
}

impl<O: Observer + 'static> ClientContext for Reports<O> {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if let Some(event) = from_log(level, facility, text) {
            self.observer.event(event);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(event) = from_error(&error, reason) {
            self.observer.event(event);
        }
    }

    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl<O: Observer + 'static> ConsumerContext for Reports<O> {}

/// Where to begin in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Earliest,
    Latest,
    At(i64),
}

/// Why polling cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PollError {
    /// Worth telling, but the client goes on by itself.
    Transient(JavaError),
    /// A partition that was asked for does not exist.
    UnknownPartition,
    /// The topic does not exist (yet).
    UnknownTopic,
    /// A partition with this number is read to its end.
    PartitionEnd(i32),
    Fatal(JavaError),
}

/// A record that arrived.
pub struct Received<'a> {
    message: BorrowedMessage<'a>,
}

impl Received<'_> {
    pub fn topic(&self) -> &str {
        self.message.topic()
    }

    pub fn partition(&self) -> i32 {
        self.message.partition()
    }

    pub fn offset(&self) -> i64 {
        self.message.offset()
    }

    pub fn timestamp(&self) -> Timestamp {
        self.message.timestamp()
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.message.key()
    }

    pub fn value(&self) -> Option<&[u8]> {
        self.message.payload()
    }

    /// Calls `each` for every header, in order. Names are bytes: the wrapper's own accessor panics when a name is
    /// not UTF-8, and records come from anybody.
    #[allow(unsafe_code)]
    pub fn headers(&self, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        let mut headers = std::ptr::null_mut();
        // SAFETY: the message lives as long as `self`; librdkafka parses its headers on the first call and keeps them
        // with the message.
        let found =
            unsafe { bindings::rd_kafka_message_headers(self.message.ptr(), &raw mut headers) };
        if found != bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || headers.is_null() {
            return;
        }
        for index in 0.. {
            let mut name = std::ptr::null();
            let mut value = std::ptr::null();
            let mut size = 0;
            // SAFETY: `headers` belongs to the message; the three results are written before NO_ERROR is returned.
            let found = unsafe {
                bindings::rd_kafka_header_get_all(
                    headers,
                    index,
                    &raw mut name,
                    &raw mut value,
                    &raw mut size,
                )
            };
            if found != bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            // SAFETY: a name ends with a zero byte; both point into the message, which outlives `each`.
            let (name, value) = unsafe {
                (
                    CStr::from_ptr(name).to_bytes(),
                    (!value.is_null())
                        .then(|| std::slice::from_raw_parts(value.cast::<u8>(), size)),
                )
            };
            each(name, value);
        }
    }
}

pub struct Consumer<O: Observer + 'static> {
    inner: BaseConsumer<Reports<O>>,
    commits: bool,
    /// The last offset of each partition that is on its way to standard output.
    printing: RefCell<Vec<(String, i32, i64)>>,
}

impl<O: Observer + 'static> Consumer<O> {
    /// Checks the settings and starts the client. Settings without an effect go to `not_honoured`.
    pub fn new(
        properties: &JavaProperties,
        observer: Arc<O>,
        not_honoured: impl FnMut(&str, &str),
    ) -> Result<Self, ConfigError> {
        let construct = |cause: String| ConfigError::Construct {
            role: Role::Consumer.name(),
            cause,
        };
        let mut config = client_config(Role::Consumer, properties, not_honoured)?;
        if properties
            .get("group.id")
            .is_some_and(|group| group.trim().is_empty())
        {
            return Err(construct(
                "org.apache.kafka.common.errors.InvalidGroupIdException: The configured group.id should not be an empty string or whitespace.".into(),
            ));
        }
        let commits = properties
            .get("enable.auto.commit")
            .is_none_or(|value| value.trim().eq_ignore_ascii_case("true"));
        config.set("enable.auto.offset.store", "false");
        config.set("enable.partition.eof", "true");
        let inner = BaseConsumer::from_config_and_context(&config, Reports { observer })
            .map_err(|e| construct(creation_error(&e)))?;
        Ok(Consumer {
            inner,
            commits,
            printing: RefCell::new(Vec::new()),
        })
    }

    pub fn subscribe(&self, topic: &str) -> Result<(), JavaError> {
        self.subscribe_all(&[topic.to_owned()])
    }

    pub fn subscribe_all(&self, topics: &[String]) -> Result<(), JavaError> {
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        self.inner
            .subscribe(&topics)
            .map_err(|e| JavaError::new("org.apache.kafka.common.KafkaException", e.to_string()))
    }

    pub fn assign(&self, partitions: &[(String, i32, Start)]) -> Result<(), JavaError> {
        let mut list = TopicPartitionList::new();
        for (topic, partition, start) in partitions {
            let offset = match start {
                Start::Earliest => Offset::Beginning,
                Start::Latest => Offset::End,
                Start::At(offset) => Offset::Offset(*offset),
            };
            list.add_partition_offset(topic, *partition, offset)
                .map_err(|e| JavaError::new("java.lang.IllegalArgumentException", e.to_string()))?;
        }
        self.inner
            .assign(&list)
            .map_err(|e| JavaError::new("org.apache.kafka.common.KafkaException", e.to_string()))
    }

    /// The next record, or `None` when none came in time.
    pub fn poll(&self, wait: Duration) -> Result<Option<Received<'_>>, PollError> {
        match self.inner.poll(wait) {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(Received { message })),
            Some(Err(error)) => self.poll_error(&error),
        }
    }

    fn poll_error<T>(&self, error: &KafkaError) -> Result<Option<T>, PollError> {
        use RDKafkaErrorCode as C;
        if let KafkaError::PartitionEOF(partition) = error {
            return Err(PollError::PartitionEnd(*partition));
        }
        let code = error.rdkafka_error_code().unwrap_or(C::Unknown);
        Err(match code {
            C::BrokerTransportFailure
            | C::AllBrokersDown
            | C::Resolve
            | C::OperationTimedOut
            | C::SSL => return Ok(None),
            C::UnknownTopicOrPartition | C::UnknownTopic => PollError::UnknownTopic,
            C::UnknownPartition => PollError::UnknownPartition,
            C::InvalidTopic => PollError::Fatal(JavaError::invalid_topic(&self.topics())),
            C::TopicAuthorizationFailed => {
                PollError::Fatal(JavaError::topic_denied(&self.topics()))
            }
            C::AutoOffsetReset | C::NoOffset => PollError::Fatal(JavaError::new(
                "org.apache.kafka.clients.consumer.NoOffsetForPartitionException",
                format!(
                    "Undefined offset with no reset policy for partitions: [{}]",
                    self.assigned().join(", ")
                ),
            )),
            C::GroupAuthorizationFailed
            | C::Authentication
            | C::SaslAuthenticationFailed
            | C::InvalidGroupId
            | C::InconsistentGroupProtocol
            | C::FencedInstanceId
            | C::Fatal => PollError::Fatal(JavaError::from_code(code, &self.topics())),
            _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => {
                PollError::Fatal(JavaError::from_code(code, &self.topics()))
            }
            _ => PollError::Transient(JavaError::from_code(code, &self.topics())),
        })
    }

    fn topics(&self) -> String {
        let names: Vec<String> = self
            .inner
            .subscription()
            .map(|list| {
                list.elements()
                    .iter()
                    .map(|e| e.topic().to_owned())
                    .collect()
            })
            .unwrap_or_default();
        names.join(", ")
    }

    /// `topic-partition` of what this member owns.
    pub fn assigned(&self) -> Vec<String> {
        self.inner
            .assignment()
            .map(|list| {
                list.elements()
                    .iter()
                    .map(|e| format!("{}-{}", e.topic(), e.partition()))
                    .collect()
            })
            .unwrap_or_default()
    }

    /// Notes a record that is being printed; `mark_printed` makes it count.
    pub fn printing(&self, record: &Received<'_>) {
        if !self.commits {
            return;
        }
        let (topic, partition, offset) = (record.topic(), record.partition(), record.offset());
        let mut printing = self.printing.borrow_mut();
        let same = |entry: &(String, i32, i64)| entry.1 == partition && entry.0 == topic;
        match printing.iter_mut().rev().find(|entry| same(entry)) {
            Some(entry) => entry.2 = offset,
            None => printing.push((topic.to_owned(), partition, offset)),
        }
    }

    /// The next commit covers every record noted so far.
    pub fn mark_printed(&self) {
        for (topic, partition, offset) in self.printing.borrow_mut().drain(..) {
            // Refused only when the partition is no longer ours; then there is nothing to commit.
            let _ = self.inner.store_offset(&topic, partition, offset);
        }
    }

    /// Commits what is printed, leaves the group, stops the client. (Dropping it does the same, unseen.)
    pub fn close(self) {
        drop(self);
    }

    /// Partition numbers of a topic; an empty list when it does not exist. Asking creates the topic where the settings
    /// of both sides allow it, which a subscription of librdkafka alone does not do.
    pub fn partitions(&self, topic: &str, wait: Duration) -> Result<Vec<i32>, JavaError> {
        let metadata = self
            .inner
            .fetch_metadata(Some(topic), wait)
            .map_err(|_| JavaError::timeout("Timed out while fetching metadata"))?;
        Ok(metadata
            .topics()
            .iter()
            .filter(|found| found.error().is_none())
            .flat_map(|found| found.partitions().iter().map(|p| p.id()))
            .collect())
    }

    /// Names of all topics.
    pub fn topic_names(&self, wait: Duration) -> Result<Vec<String>, JavaError> {
        let metadata = self
            .inner
            .fetch_metadata(None, wait)
            .map_err(|_| JavaError::timeout("Timed out while fetching metadata"))?;
        Ok(metadata
            .topics()
            .iter()
            .filter(|found| found.error().is_none())
            .map(|found| found.name().to_owned())
            .collect())
    }

    /// Has any broker answered as a broker so far?
    pub fn heard_from_cluster(&self) -> bool {
        self.inner
            .client()
            .fetch_cluster_id(Duration::ZERO)
            .is_some()
    }

    /// First and next offset of a partition.
    pub fn watermarks(
        &self,
        topic: &str,
        partition: i32,
        wait: Duration,
    ) -> Result<(i64, i64), JavaError> {
        self.inner
            .fetch_watermarks(topic, partition, wait)
            .map_err(|_| {
                JavaError::timeout(format!(
                    "Failed to get offsets of {topic}-{partition} within {} ms",
                    wait.as_millis()
                ))
            })
    }

    /// The first offset whose timestamp is at least `timestamp_ms`; `None` when there is none.
    pub fn offset_for_time(
        &self,
        topic: &str,
        partition: i32,
        timestamp_ms: i64,
        wait: Duration,
    ) -> Result<Option<i64>, JavaError> {
        let failed = |why: String| JavaError::new("org.apache.kafka.common.KafkaException", why);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(timestamp_ms))
            .map_err(|e| failed(e.to_string()))?;
        let answer = self
            .inner
            .offsets_for_times(list, wait)
            .map_err(|e| failed(e.to_string()))?;
        let found = answer.find_partition(topic, partition);
        match found.map(|e| e.offset()) {
            Some(Offset::Offset(offset)) => Ok(Some(offset)),
            _ => Ok(None),
        }
    }
}
