//! kafka-console-producer: lines from standard input become records of a topic.
//! Not here: the producer itself (kavka-client). Lines are sent as they come and acknowledged in the background.
//! Runs on the main thread; a line is not read before there is room for it. What answers at a wrong address is found out
//! by a thread of its own, as the main one waits for the cluster.
//! Kafka: org.apache.kafka.tools.ConsoleProducer.

pub mod lines;
mod options;
pub mod record_reader;

use crate::client_events::{Printer, not_honoured};
use crate::diagnosis;
use crate::exit::{Stop, Strict, is_strict};
use crate::output::{self, Level};
use kavka_client::librdkafka::{Event, JavaError, Observer};
use kavka_client::producer::{Failure, Outgoing, Producer, ProducerObserver};
use lines::Lines;
use options::Configuration;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const ERROR_LOGGER: &str = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback";
/// Large enough that a pipe's content arrives in one piece.
const INPUT_BUFFER_BYTES: usize = 256 * 1024;

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().skip(1).collect();
    let strict = is_strict(&arguments);
    match options::configure(arguments).and_then(run) {
        Ok(status) => status,
        Err(stop) => stop.report_as(&options::OPTIONS, strict),
    }
}

struct Reporter {
    printer: Printer,
    /// `--bootstrap-server`'s value, and what the option was called.
    servers: String,
    option: &'static str,
    /// Looks at the addresses; `None` until there was trouble with them.
    diagnosis: Mutex<Option<Diagnosis>>,
}

enum Diagnosis {
    Running(JoinHandle<()>),
    Told,
}

impl Reporter {
    /// Once: says what answers at the addresses. Nobody should have to wait for a minute to learn that nothing does.
    fn start_diagnosis(&self) {
        let Ok(mut diagnosis) = self.diagnosis.lock() else {
            return;
        };
        if diagnosis.is_none() {
            let (servers, option) = (self.servers.clone(), self.option);
            let looking =
                std::thread::Builder::new().spawn(move || diagnosis::explain(&servers, option));
            *diagnosis = looking.ok().map(Diagnosis::Running);
        }
    }

    /// As `start_diagnosis`, and all is said when this returns.
    fn diagnose(&self) {
        self.start_diagnosis();
        let Ok(mut diagnosis) = self.diagnosis.lock() else {
            return;
        };
        if let Some(Diagnosis::Running(looking)) = diagnosis.replace(Diagnosis::Told) {
            // A panic there has been reported by the panic hook.
            let _ = looking.join();
        }
    }
}

impl Observer for Reporter {
    fn event(&self, event: Event) {
        // librdkafka has no event for a port that is not a broker's; looking at a broker says nothing.
        let with_address = match event {
            Event::Unreachable { node_id, .. } | Event::Disconnected { node_id, .. } => node_id < 0,
            Event::Other { .. } => true,
            _ => false,
        };
        self.printer.event(event);
        if with_address {
            self.start_diagnosis();
        }
    }
}

impl ProducerObserver for Reporter {
    fn failed(&self, failure: &Failure<'_>) {
        report_failure(failure.topic, failure.key, failure.value, &failure.error);
    }
}

fn report_failure(topic: &str, key: Option<&[u8]>, value: Option<&[u8]>, error: &JavaError) {
    let bytes = |field: Option<&[u8]>| {
        field.map_or_else(
            || "null".to_owned(),
            |bytes| format!("{} bytes", bytes.len()),
        )
    };
    output::log_with(
        Level::Error,
        &format!(
            "Error when sending message to topic {topic} with key: {}, value: {} with error:",
            bytes(key),
            bytes(value)
        ),
        ERROR_LOGGER,
        Some(&error.to_string()),
    );
}

fn run(configuration: Configuration) -> Result<ExitCode, Stop> {
    let client_id = configuration
        .producer
        .get("client.id")
        .unwrap_or("console-producer");
    let reporter = Arc::new(Reporter {
        printer: Printer::new(
            format!("[Producer clientId={client_id}]"),
            configuration.old_style,
        ),
        servers: configuration
            .producer
            .get("bootstrap.servers")
            .unwrap_or("")
            .to_owned(),
        option: if configuration.old_style {
            "broker-list"
        } else {
            "bootstrap-server"
        },
        diagnosis: Mutex::new(None),
    });
    let producer = Producer::new(&configuration.producer, reporter.clone(), not_honoured)
        .map_err(|e| Stop::Failed(e.to_string()))?;
    let sent = send_lines(&configuration, &producer, &reporter);
    producer.flush();
    let lost = producer.failures() + *sent.as_ref().unwrap_or(&0);
    reporter.printer.hush();
    match sent {
        Err(Stop::Failed(text)) if configuration.strict => {
            output::error(&format!("{text}\n"));
            Ok(strict_status(&producer, &reporter))
        }
        Err(stop) => Err(stop),
        Ok(_) if configuration.strict && lost > 0 => Ok(strict_status(&producer, &reporter)),
        Ok(_) => Ok(ExitCode::SUCCESS),
    }
}

fn strict_status(producer: &Producer<Reporter>, reporter: &Reporter) -> ExitCode {
    if reporter.printer.denied() {
        Strict::Denied.into()
    } else if !producer.heard_from_cluster() {
        Strict::Unreachable.into()
    } else {
        Strict::Failed.into()
    }
}

/// Sends every line; the result counts records that were given up at once.
fn send_lines(
    configuration: &Configuration,
    producer: &Producer<Reporter>,
    reporter: &Reporter,
) -> Result<u64, Stop> {
    let prompt = configuration.old_style || output::interactive();
    let input = io::BufReader::with_capacity(INPUT_BUFFER_BYTES, io::stdin().lock());
    let mut lines = Lines::new(input);
    let mut number = 0;
    let mut refused = 0;
    loop {
        if prompt {
            output::print(">");
        }
        let line = lines
            .next_line()
            .map_err(|e| Stop::exception("java.io.IOException", format!("standard input: {e}")))?;
        let Some(line) = line else {
            return Ok(refused);
        };
        number += 1;
        let record = configuration.reader.read(line, number)?;
        let outgoing = Outgoing {
            topic: &configuration.topic,
            partition: None,
            key: record.key,
            value: record.value,
            headers: &record.headers,
        };
        let failures_before = producer.failures();
        let result = producer.send(outgoing);
        if configuration.sync {
            if result.is_ok() {
                producer.flush();
            }
            if let Err(error) = result {
                explain(producer, reporter);
                return Err(Stop::Failed(format!(
                    "java.util.concurrent.ExecutionException: {error}\nCaused by: {error}"
                )));
            }
            if producer.failures() > failures_before {
                // The report is on standard error already.
                return Err(Stop::Silent(1));
            }
        } else if let Err(error) = result {
            refused += 1;
            report_failure(&configuration.topic, record.key, record.value, &error);
            explain(producer, reporter);
        } else if prompt {
            // Somebody watches: show failures before the next line is typed.
            producer.poll(std::time::Duration::ZERO);
        }
    }
}

/// When nobody has answered as a broker: what does answer at the addresses given.
fn explain(producer: &Producer<Reporter>, reporter: &Reporter) {
    if !producer.heard_from_cluster() {
        reporter.diagnose();
    }
}

#[cfg(test)]
#[path = "console_producer_test.rs"]
mod console_producer_test;
