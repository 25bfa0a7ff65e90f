//! The producer of the console, perf and verifiable tools: Java's settings and waiting rules on librdkafka.
//! Not here: what a failed record looks like on standard error, admin operations.
//! Runs on one thread, which also serves delivery reports; librdkafka's own threads do the I/O.
//! Kafka: org.apache.kafka.clients.producer.KafkaProducer.

use crate::java_properties::{ConfigError, JavaProperties, Role, translate};
use crate::librdkafka::{Event, JavaError, Observer, from_error, from_log};
use kavka_common::clock::{Clock, SystemClock};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A header; its name is text in Kafka's protocol.
pub type OutgoingHeader = (String, Option<Vec<u8>>);

/// A record on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub topic: &'a str,
    pub partition: Option<i32>,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [OutgoingHeader],
}

/// A record that did not get through.
#[derive(Debug)]
pub struct Failure<'a> {
    pub topic: &'a str,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub error: JavaError,
}

/// Takes what happens after a record was handed over.
pub trait ProducerObserver: Observer {
    fn failed(&self, failure: &Failure<'_>);
}

struct Reports<O> {
    observer: Arc<O>,
    failures: AtomicU64,
}

impl<O: ProducerObserver + 'static> ClientContext for Reports<O> {
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

impl<O: ProducerObserver + 'static> ProducerContext for Reports<O> {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let Err((error, message)) = result else {
            return;
        };
        self.failures.fetch_add(1, Ordering::Relaxed);
        let code = error
            .rdkafka_error_code()
            .unwrap_or(RDKafkaErrorCode::Unknown);
        self.observer.failed(&Failure {
            topic: message.topic(),
            key: message.key(),
            value: message.payload(),
            error: JavaError::from_code(code, message.topic()),
        });
    }
}

/// How many records go out before delivery reports are looked at.
const POLL_EVERY: u32 = 256;

pub struct Producer<O: ProducerObserver + 'static> {
    inner: BaseProducer<Reports<O>>,
    observer: Arc<O>,
    clock: SystemClock,
    max_block_ms: i64,
    request_bytes_max: usize,
    buffer_bytes: i64,
    known_topic: RefCell<Option<String>>,
    since_poll: Cell<u32>,
}

impl<O: ProducerObserver + 'static> Producer<O> {
    /// Checks the settings and starts the client. Settings without an effect go to `not_honoured`.
    pub fn new(
        properties: &JavaProperties,
        observer: Arc<O>,
        not_honoured: impl FnMut(&str, &str),
    ) -> Result<Self, ConfigError> {
        let config = client_config(Role::Producer, properties, not_honoured)?;
        let reports = Reports {
            observer: observer.clone(),
            failures: AtomicU64::new(0),
        };
        let inner = BaseProducer::from_config_and_context(&config, reports).map_err(|e| {
            ConfigError::Construct {
                role: Role::Producer.name(),
                cause: creation_error(&e),
            }
        })?;
        Ok(Producer {
            inner,
            observer,
            clock: SystemClock::new(),
            max_block_ms: properties.number("max.block.ms", 60_000),
            request_bytes_max: usize::try_from(properties.number("max.request.size", 1_048_576))
                .unwrap_or(usize::MAX),
            buffer_bytes: properties.number("buffer.memory", 33_554_432),
            known_topic: RefCell::new(None),
            since_poll: Cell::new(0),
        })
    }

    /// Hands a record over; waits at most `max.block.ms` for the topic to be known and for room.
    pub fn send(&self, record: Outgoing<'_>) -> Result<(), JavaError> {
        let deadline_ms = self.clock.monotonic_ms().saturating_add(self.max_block_ms);
        if self.known_topic.borrow().as_deref() != Some(record.topic) {
            self.wait_for_topic(record.topic, deadline_ms)?;
            *self.known_topic.borrow_mut() = Some(record.topic.to_owned());
        }
        let bytes = serialized_bytes_bound(&record);
        if bytes > self.request_bytes_max {
            return Err(JavaError::new(
                "org.apache.kafka.common.errors.RecordTooLargeException",
                format!(
                    "The message is {bytes} bytes when serialized which is larger than {}, which is the value of the max.request.size configuration.",
                    self.request_bytes_max
                ),
            ));
        }
        let mut outgoing: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(record.topic);
        outgoing.partition = record.partition;
        outgoing.key = record.key;
        outgoing.payload = record.value;
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for (key, value) in record.headers {
                headers = headers.insert(Header {
                    key,
                    value: value.as_deref(),
                });
            }
            outgoing.headers = Some(headers);
        }
        loop {
            match self.inner.send(outgoing) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    let left_ms = deadline_ms - self.clock.monotonic_ms();
                    if left_ms <= 0 {
                        return Err(JavaError::new(
                            "org.apache.kafka.clients.producer.BufferExhaustedException",
                            format!(
                                "Failed to allocate {bytes} bytes within the configured max blocking time {} ms. Total memory: {} bytes.",
                                self.max_block_ms, self.buffer_bytes
                            ),
                        ));
                    }
                    outgoing = back;
                    self.inner.poll(duration_ms(left_ms.min(20)));
                }
                Err((error, _)) => {
                    let code = error
                        .rdkafka_error_code()
                        .unwrap_or(RDKafkaErrorCode::Unknown);
                    return Err(JavaError::from_code(code, record.topic));
                }
            }
        }
        let since = self.since_poll.get() + 1;
        if since >= POLL_EVERY {
            self.inner.poll(Duration::ZERO);
        }
        self.since_poll.set(since % POLL_EVERY);
        Ok(())
    }

    /// Waits until every record handed over is acknowledged or given up; `delivery.timeout.ms` bounds that.
    pub fn flush(&self) {
        while self.inner.flush(Duration::from_secs(1)).is_err() {}
        // Reports of the last records may still wait in the queue.
        self.inner.poll(Duration::ZERO);
    }

    /// Has any broker answered as a broker so far?
    pub fn heard_from_cluster(&self) -> bool {
        self.inner
            .client()
            .fetch_cluster_id(Duration::ZERO)
            .is_some()
    }

    /// Serves delivery reports and events.
    pub fn poll(&self, wait: Duration) {
        self.inner.poll(wait);
    }

    /// Records given up after they were handed over.
    pub fn failures(&self) -> u64 {
        self.inner.context().failures.load(Ordering::Relaxed)
    }

    fn wait_for_topic(&self, topic: &str, deadline_ms: i64) -> Result<(), JavaError> {
        let mut slice_ms = 500;
        loop {
            self.inner.poll(Duration::ZERO);
            let left_ms = deadline_ms - self.clock.monotonic_ms();
            if left_ms <= 0 {
                return Err(JavaError::timeout(format!(
                    "Topic {topic} not present in metadata after {} ms.",
                    self.max_block_ms
                )));
            }
            // Events are served between the slices; they grow, so that a slow answer is not missed for ever.
            let answer = self
                .inner
                .client()
                .fetch_metadata(Some(topic), duration_ms(left_ms.min(slice_ms)));
            slice_ms = (slice_ms * 2).min(10_000);
            let error = match &answer {
                Ok(metadata) => match metadata.topics().first() {
                    Some(found) => match found.error() {
                        None => return Ok(()),
                        Some(error) => RDKafkaErrorCode::from(error),
                    },
                    None => RDKafkaErrorCode::UnknownTopicOrPartition,
                },
                Err(error) => error
                    .rdkafka_error_code()
                    .unwrap_or(RDKafkaErrorCode::Unknown),
            };
            let event = |error| {
                self.observer.event(Event::Topic {
                    topic: topic.to_owned(),
                    error,
                });
            };
            match error {
                RDKafkaErrorCode::InvalidTopic => {
                    event("INVALID_TOPIC_EXCEPTION");
                    return Err(JavaError::invalid_topic(topic));
                }
                RDKafkaErrorCode::TopicAuthorizationFailed => {
                    event("TOPIC_AUTHORIZATION_FAILED");
                    return Err(JavaError::topic_denied(topic));
                }
                RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => {
                    event("UNKNOWN_TOPIC_OR_PARTITION");
                }
                RDKafkaErrorCode::LeaderNotAvailable => event("LEADER_NOT_AVAILABLE"),
                _ => {}
            }
            let left_ms = deadline_ms - self.clock.monotonic_ms();
            self.inner.poll(duration_ms(left_ms.clamp(0, 100)));
        }
    }
}

/// The bound that Java compares with `max.request.size`: one batch with this one record.
fn serialized_bytes_bound(record: &Outgoing<'_>) -> usize {
    const BATCH_OVERHEAD: usize = 61;
    const RECORD_OVERHEAD_MAX: usize = 21;
    let field = |bytes: Option<&[u8]>| match bytes {
        None => 1,
        Some(bytes) => varint_bytes(bytes.len()) + bytes.len(),
    };
    let headers: usize = record
        .headers
        .iter()
        .map(|(key, value)| field(Some(key.as_bytes())) + field(value.as_deref()))
        .sum();
    BATCH_OVERHEAD
        + RECORD_OVERHEAD_MAX
        + field(record.key)
        + field(record.value)
        + varint_bytes(record.headers.len())
        + headers
}

/// Bytes of a zigzag varint.
fn varint_bytes(value: usize) -> usize {
    let mut zigzag = (value as u128) << 1;
    let mut bytes = 1;
    while zigzag > 0x7f {
        zigzag >>= 7;
        bytes += 1;
    }
    bytes
}

/// librdkafka's configuration for `properties`, checked; shared with the consumer.
pub(crate) fn client_config(
    role: Role,
    properties: &JavaProperties,
    mut not_honoured: impl FnMut(&str, &str),
) -> Result<ClientConfig, ConfigError> {
    let translated = translate(role, properties)?;
    check_bootstrap(role, properties.get("bootstrap.servers").unwrap_or(""))?;
    for (name, why) in &translated.not_honoured {
        not_honoured(name, why);
    }
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Warning);
    config.set("client.software.name", "kavka");
    config.set("client.software.version", env!("CARGO_PKG_VERSION"));
    for (name, value) in &translated.settings {
        config.set(name, value);
    }
    Ok(config)
}

fn check_bootstrap(role: Role, servers: &str) -> Result<(), ConfigError> {
    let invalid = |text: String| ConfigError::Construct {
        role: role.name(),
        cause: format!("org.apache.kafka.common.config.ConfigException: {text}"),
    };
    let mut any = false;
    for server in servers.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        any = true;
        let Some((_, port)) = server.rsplit_once(':') else {
            return Err(invalid(format!(
                "Invalid url in bootstrap.servers: {server}"
            )));
        };
        match port.parse::<u32>() {
            Ok(port) if port <= u32::from(u16::MAX) => {}
            Ok(_) => {
                return Err(invalid(format!(
                    "Invalid port in bootstrap.servers: {server}"
                )));
            }
            Err(_) => {
                return Err(invalid(format!(
                    "Invalid url in bootstrap.servers: {server}"
                )));
            }
        }
    }
    if any {
        Ok(())
    } else {
        Err(invalid(
            "No resolvable bootstrap urls given in bootstrap.servers".into(),
        ))
    }
}

/// librdkafka's refusal of a configuration, as a cause.
pub(crate) fn creation_error(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, description, name, value) => format!(
            "org.apache.kafka.common.config.ConfigException: Invalid value {value} for configuration {name}: {description}"
        ),
        KafkaError::ClientCreation(text) => {
            format!("org.apache.kafka.common.config.ConfigException: {text}")
        }
        other => format!("org.apache.kafka.common.KafkaException: {other}"),
    }
}

pub(crate) fn duration_ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_record_is_javas() {
        let value = vec![b'x'; 1_200_000];
        let record = Outgoing {
            topic: "t",
            partition: None,
            key: None,
            value: Some(&value),
            headers: &[],
        };
        // The number in Apache's message for the same record.
        assert_eq!(serialized_bytes_bound(&record), 1_200_088);
    }

    #[test]
    fn bootstrap_servers() {
        let text = |servers| check_bootstrap(Role::Consumer, servers).map_err(|e| e.to_string());
        assert_eq!(text("a:1, [::1]:9092"), Ok(()));
        assert_eq!(
            text("nohost").unwrap_err(),
            "org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\nCaused by: \
             org.apache.kafka.common.config.ConfigException: Invalid url in bootstrap.servers: nohost"
        );
        assert!(text("a:99999").unwrap_err().contains("Invalid port"));
        assert!(text("").unwrap_err().contains("No resolvable"));
    }
}
