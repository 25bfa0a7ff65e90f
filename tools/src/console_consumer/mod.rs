//! kafka-console-consumer: records of topics on standard output.
//! Not here: the consumer itself (kavka-client). What is committed has been printed: offsets are stored after each flush.
//! Runs on the main thread; output is flushed before the loop waits.
//! Kafka: org.apache.kafka.tools.consumer.ConsoleConsumer.

pub mod formatter;
mod options;
mod plan;
mod times;

use crate::client_events::{Printer, not_honoured};
use crate::diagnosis;
use crate::exit::{Stop, Strict, is_strict};
use crate::output::{self, Level};
use crate::signals::Interruption;
use formatter::{EachHeader, Record, Stamp};
use kavka_client::consumer::{Consumer, PollError, Received, Timestamp};
use kavka_client::librdkafka::{Event, JavaError, Observer};
use kavka_common::clock::{Clock, SystemClock};
use options::{Configuration, Source, unknown_error};
use plan::{Plan, Topics};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const LOGGER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
/// How long the loop waits before it looks at signals and deadlines.
const TICK_MS: i64 = 100;
/// How long a cluster may say nothing before its addresses are looked at.
const SILENCE_MS: i64 = 2000;
const MISSING_CHECK_MS: i64 = 500;
const MISSING_CHECK_WAIT: Duration = Duration::from_millis(500);
const OUTPUT_BUFFER_BYTES: usize = 64 * 1024;

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().skip(1).collect();
    let strict = is_strict(&arguments);
    match options::configure(arguments).and_then(run) {
        Ok(status) => status,
        Err(stop) => stop.report_as(&options::OPTIONS, strict),
    }
}

impl Record for Received<'_> {
    fn topic(&self) -> &str {
        Received::topic(self)
    }

    fn partition(&self) -> i32 {
        Received::partition(self)
    }

    fn offset(&self) -> i64 {
        Received::offset(self)
    }

    fn timestamp(&self) -> Stamp {
        match Received::timestamp(self) {
            Timestamp::NotAvailable => Stamp::None,
            Timestamp::CreateTime(ms) => Stamp::CreateTime(ms),
            Timestamp::LogAppendTime(ms) => Stamp::LogAppendTime(ms),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        Received::key(self)
    }

    fn value(&self) -> Option<&[u8]> {
        Received::value(self)
    }

    fn headers(&self, each: EachHeader<'_>) {
        Received::headers(self, each);
    }
}

/// Why the loop ended.
enum End {
    /// Everything that was asked for is printed.
    Complete,
    /// A signal came; the status that goes with it.
    Interrupted(u8),
    /// Nobody reads standard output any more, or it cannot be written, which `output::checked` tells.
    OutputClosed,
    /// Kafka's tool logs these and ends with status 0.
    Terminated(JavaError),
    /// A failure while printing.
    Failed(String),
}

fn run(configuration: Configuration) -> Result<ExitCode, Stop> {
    let interruption = Interruption::listen()
        .map_err(|e| Stop::Failed(format!("Signals cannot be caught: {e}")))?;
    let name = |key: &str| configuration.consumer.get(key).unwrap_or_default();
    let printer = Arc::new(Printer::new(
        format!(
            "[Consumer clientId={}, groupId={}]",
            name("client.id"),
            name("group.id")
        ),
        false,
    ));
    let consumer = Consumer::new(&configuration.consumer, printer.clone(), not_honoured)
        .map_err(|e| unknown_error(&e.to_string()))?;
    let clock = SystemClock::new();
    let mut session = Session {
        configuration: &configuration,
        consumer: &consumer,
        printer: &printer,
        interruption,
        started_ms: clock.monotonic_ms(),
        clock,
        output: Output::default(),
        count: 0,
        diagnosed: false,
        missing_told: false,
        missing_check_ms: None,
    };
    let end = session.start_and_consume()?;
    let count = session.count;
    // After a failure a part of the buffer may be written already.
    if !matches!(end, End::OutputClosed)
        && let Err(e) = session.output.flush(&consumer)
    {
        output::note_failure(&e);
    }
    if let End::Terminated(error) = &end {
        output::log_with(
            Level::Error,
            "Error processing message, terminating consumer process: ",
            LOGGER,
            Some(&error.to_string()),
        );
    }
    let heard = consumer.heard_from_cluster();
    printer.hush();
    consumer.close();
    if configuration.systest_events {
        output::print("shutdown_complete\n");
    }
    output::error(&format!("Processed a total of {count} messages\n"));
    Ok(match end {
        End::Complete | End::OutputClosed => ExitCode::SUCCESS,
        End::Terminated(_) if !configuration.strict => ExitCode::SUCCESS,
        End::Terminated(error) if error.is_denial() || printer.denied() => Strict::Denied.into(),
        End::Terminated(_) if !heard => Strict::Unreachable.into(),
        // The time was up, as asked.
        End::Terminated(error) if error.class.ends_with(".TimeoutException") => ExitCode::SUCCESS,
        End::Terminated(_) => Strict::Failed.into(),
        End::Interrupted(status) => ExitCode::from(status),
        End::Failed(exception) => return Err(unknown_error(&exception)),
    })
}

/// Asking for a topic creates it, as in Kafka: somebody who mistyped the name should know that.
fn missing_topic_words(topic: &str) -> String {
    format!(
        "Topic {topic} does not exist. Asking for it makes the broker create it, unless auto.create.topics.enable=false is set there; waiting for it. With allow.auto.create.topics=false this consumer creates nothing, and ends instead"
    )
}

/// Standard output behind a buffer, and the promise that only printed records are committed.
#[derive(Default)]
struct Output {
    buffer: Vec<u8>,
}

impl Output {
    fn flush(&mut self, consumer: &Consumer<Printer>) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let mut stdout = io::stdout().lock();
            stdout.write_all(&self.buffer)?;
            stdout.flush()?;
            self.buffer.clear();
        }
        consumer.mark_printed();
        Ok(())
    }
}

struct Session<'a> {
    configuration: &'a Configuration,
    consumer: &'a Consumer<Printer>,
    printer: &'a Printer,
    interruption: Interruption,
    clock: SystemClock,
    output: Output,
    count: u64,
    diagnosed: bool,
    started_ms: i64,
    missing_told: bool,
    /// When to look again for a topic that does not exist.
    missing_check_ms: Option<i64>,
}

impl Session<'_> {
    fn start_and_consume(&mut self) -> Result<End, Stop> {
        let mut topics = Topics::new(&self.configuration.source)
            .map_err(|exception| unknown_error(&exception))?;
        let plan = match self.plan(&mut topics) {
            Ok(plan) => plan,
            Err(end) => return Ok(end),
        };
        let max_messages = match &self.configuration.max_messages {
            Ok(max) => *max,
            Err(exception) => return Ok(End::Failed(exception.clone())),
        };
        Ok(self.consume(topics, plan, max_messages))
    }

    /// Subscribes or assigns.
    fn plan(&mut self, topics: &mut Topics) -> Result<Plan, End> {
        let failed = |e: JavaError| End::Terminated(e);
        if let Some(window) = self.configuration.window {
            return self.wait_for(|session, wait| {
                Plan::within(
                    window,
                    &session.configuration.source,
                    topics,
                    session.consumer,
                    session.clock.wall_ms(),
                    wait,
                )
            });
        }
        match &self.configuration.source {
            Source::Topic(topic) => {
                self.check_topic(topic).map_err(failed)?;
                self.consumer.subscribe(topic).map_err(failed)?;
            }
            Source::Matching(_) => {}
            Source::Partition(topic, partition, start) => self
                .consumer
                .assign(&[(topic.clone(), *partition, *start)])
                .map_err(failed)?,
        }
        Ok(Plan::endless())
    }

    fn check_topic(&self, topic: &str) -> Result<(), JavaError> {
        JavaError::check_topic(topic).inspect_err(|_| {
            self.printer.event(Event::Topic {
                topic: topic.to_owned(),
                error: "INVALID_TOPIC_EXCEPTION",
            });
        })
    }

    /// Asks the cluster until it answers, a deadline passes or a signal comes.
    fn wait_for<T>(
        &mut self,
        mut ask: impl FnMut(&Self, Duration) -> Result<T, JavaError>,
    ) -> Result<T, End> {
        let started_ms = self.clock.monotonic_ms();
        let mut wait_ms = 500;
        loop {
            let error = match ask(self, Duration::from_millis(wait_ms)) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.class.ends_with(".TimeoutException") {
                return Err(End::Terminated(error));
            }
            wait_ms = (wait_ms * 2).min(10_000);
            // Serves events, so that trouble is told.
            let _ = self.consumer.poll(Duration::from_millis(50));
            self.diagnose();
            if let Some(status) = self.interruption.status() {
                return Err(End::Interrupted(status));
            }
            if let Some(timeout_ms) = self.configuration.timeout_ms
                && self.clock.monotonic_ms() - started_ms > timeout_ms
            {
                return Err(End::Terminated(JavaError::timeout("")));
            }
        }
    }

    fn consume(&mut self, mut topics: Topics, mut plan: Plan, max_messages: Option<u64>) -> End {
        let mut waiting_since_ms = self.clock.monotonic_ms();
        loop {
            if max_messages.is_some_and(|max| self.count >= max) || plan.complete() {
                return End::Complete;
            }
            if let Some(status) = self.interruption.status() {
                return End::Interrupted(status);
            }
            let mut polled = self.consumer.poll(Duration::ZERO);
            if matches!(polled, Ok(None)) {
                // About to wait: what is printed so far has to be seen.
                if let Err(e) = self.output.flush(self.consumer) {
                    output::note_failure(&e);
                    return End::OutputClosed;
                }
                let now_ms = self.clock.monotonic_ms();
                if plan.over(self.clock.wall_ms()) {
                    return End::Complete;
                }
                let waited_ms = now_ms - waiting_since_ms;
                let mut wait_ms = TICK_MS;
                if let Some(timeout_ms) = self.configuration.timeout_ms {
                    if waited_ms > timeout_ms {
                        return End::Terminated(JavaError::timeout(""));
                    }
                    wait_ms = wait_ms.min(timeout_ms - waited_ms + 1);
                }
                self.diagnose();
                topics.refresh(self.consumer, now_ms);
                if let Err(error) = self.look_for_missing_topic(now_ms) {
                    return End::Terminated(error);
                }
                polled = self
                    .consumer
                    .poll(Duration::from_millis(u64::try_from(wait_ms).unwrap_or(1)));
            }
            let record = match polled {
                Ok(None) => continue,
                Ok(Some(record)) => record,
                Err(PollError::PartitionEnd(partition)) => {
                    plan.partition_end(partition);
                    continue;
                }
                Err(PollError::UnknownTopic) => {
                    if let Some(end) = self.missing_topic() {
                        return end;
                    }
                    continue;
                }
                Err(PollError::UnknownPartition) => {
                    self.missing_partition();
                    continue;
                }
                Err(PollError::Transient(error)) => {
                    output::log(Level::Warn, &error.to_string(), LOGGER);
                    continue;
                }
                Err(PollError::Fatal(error)) => return End::Terminated(error),
            };
            waiting_since_ms = self.clock.monotonic_ms();
            if !plan.wants(&record) {
                continue;
            }
            if let Some(end) = self.print(&record) {
                return end;
            }
        }
    }

    fn print(&mut self, record: &Received<'_>) -> Option<End> {
        self.count += 1;
        if let Err(error) = self
            .configuration
            .formatter
            .write(record, &mut self.output.buffer)
        {
            if !self.configuration.skip_on_error {
                return Some(End::Failed(error.to_string()));
            }
            output::log_with(
                Level::Error,
                "Error processing message, skipping this message: ",
                LOGGER,
                Some(&error.to_string()),
            );
        }
        self.consumer.printing(record);
        if self.output.buffer.len() >= OUTPUT_BUFFER_BYTES
            && let Err(e) = self.output.flush(self.consumer)
        {
            output::note_failure(&e);
            return Some(End::OutputClosed);
        }
        None
    }

    /// Once, when no broker answers: what does answer at the addresses given.
    fn diagnose(&mut self) {
        if self.diagnosed || self.count > 0 {
            return;
        }
        let patience_over = self.clock.monotonic_ms() - self.started_ms > SILENCE_MS
            || self.printer.network_trouble();
        if patience_over && self.unanswered_protocol() {
            self.diagnosed = true;
            output::hint(
                "No partition has been assigned yet. Does the broker serve group.protocol=consumer (KIP-848)? Without that setting the classic protocol is used.",
            );
        } else if patience_over && !self.consumer.heard_from_cluster() {
            self.diagnosed = true;
            diagnosis::explain(
                self.configuration
                    .consumer
                    .get("bootstrap.servers")
                    .unwrap_or(""),
                "bootstrap-server",
            );
        }
    }

    /// librdkafka waits in silence when the broker does not know the new group protocol.
    fn unanswered_protocol(&self) -> bool {
        let new_protocol = self
            .configuration
            .consumer
            .get("group.protocol")
            .is_some_and(|p| p.trim().eq_ignore_ascii_case("consumer"));
        new_protocol && self.consumer.heard_from_cluster() && self.consumer.assigned().is_empty()
    }

    /// The topic does not exist. Where nothing may create it, waiting is pointless.
    fn missing_topic(&mut self) -> Option<End> {
        let creates = self
            .configuration
            .consumer
            .get("allow.auto.create.topics")
            .is_none_or(|value| value.trim().eq_ignore_ascii_case("true"));
        let Source::Topic(topic) = &self.configuration.source else {
            return None;
        };
        if !creates {
            return Some(End::Failed(format!(
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic {topic} does not exist, and allow.auto.create.topics is false."
            )));
        }
        if !self.missing_told {
            self.missing_told = true;
            output::hint(&missing_topic_words(topic));
        }
        self.missing_check_ms.get_or_insert(i64::MIN);
        None
    }

    /// librdkafka looks for a missing topic only every few minutes; asking for it by name is what creates it, too.
    fn look_for_missing_topic(&mut self, now_ms: i64) -> Result<(), JavaError> {
        let Source::Topic(topic) = &self.configuration.source else {
            return Ok(());
        };
        if self.missing_check_ms.is_none_or(|at| now_ms < at) {
            return Ok(());
        }
        let found = self.consumer.partitions(topic, MISSING_CHECK_WAIT);
        if found.is_ok_and(|partitions| !partitions.is_empty()) {
            self.missing_check_ms = None;
            output::hint(&format!("Topic {topic} exists now"));
            return self.consumer.subscribe(topic);
        }
        self.missing_check_ms = Some(now_ms + MISSING_CHECK_MS);
        Ok(())
    }

    fn missing_partition(&mut self) {
        if let (Source::Partition(topic, partition, _), false) =
            (&self.configuration.source, self.missing_told)
        {
            self.missing_told = true;
            output::hint(&format!("Topic {topic} has no partition {partition}"));
        }
    }
}
