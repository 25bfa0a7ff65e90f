//! Log lines as Kafka writes them, on standard output, and a limit for lines that a peer can cause.
//! Not here: what is logged; the log file of a daemon and when it is set aside (log_file.rs).
//! Any task; one formatter for the process.
//! Kafka: config/log4j2.yaml, pattern `[%d] %p %m (%c)%n`.

use crate::log_file::{LogFile, local_time};
use chrono::{Datelike, NaiveDateTime, Timelike};
use kavka_common::{Clock, SystemClock};
use parking_lot::Mutex;
use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// The variable with the level, for example `info` or `info,kavka_broker::network=debug`.
pub const LEVEL_VARIABLE: &str = "KAVKA_LOG";

/// The log file of a daemon, beside standard output.
static LOG_FILE: OnceLock<Mutex<LogFile>> = OnceLock::new();

/// Sends the process's log lines to standard output, and to the file where there is one. Called once, by a
/// program's main.
pub fn init(log_file: Option<LogFile>) {
    if let Some(file) = log_file {
        let _ = LOG_FILE.set(Mutex::new(file));
    }
    let directives = std::env::var(LEVEL_VARIABLE).unwrap_or_else(|_| "info".into());
    let (filter, refused) = match directives.to_ascii_lowercase().parse::<Targets>() {
        Ok(filter) => (filter.with_target("openraft", LevelFilter::OFF), None),
        Err(e) => (Targets::new().with_default(Level::INFO), Some(e)),
    };
    let lines = tracing_subscriber::fmt::layer()
        .event_format(KafkaLine)
        .with_ansi(false)
        .with_writer(Output::new)
        .with_filter(filter);
    // A second call (tests) keeps the first subscriber.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines));
    if let Some(e) = refused {
        tracing::warn!("{LEVEL_VARIABLE}={directives} is not understood ({e}); logging at info");
    }
}

/// Writes lines that belong to the log line before them, as the stack trace does in Java.
pub fn print_lines(lines: &str) {
    // Nobody is left to be told that the log cannot be written.
    let _ = writeln!(Output::new(), "{lines}");
}

/// Standard output and the log file.
struct Output;

impl Output {
    fn new() -> Self {
        Output
    }
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if let Some(file) = LOG_FILE.get() {
            // A full disk must not keep the line from standard output.
            let _ = file
                .lock()
                .write(buf, local_time(SystemClock::new().wall_ms()));
        }
        // A closed pipe must not end the server.
        let _ = io::stdout().lock().write_all(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `[2026-12-01 05:54:05,722] INFO message (logger)`, in the machine's time zone.
struct KafkaLine;

impl<S, N> FormatEvent<S, N> for KafkaLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        write!(
            writer,
            "[{}] {level} ",
            Timestamp(local_time(SystemClock::new().wall_ms()))
        )?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer, " ({})", event.metadata().target())
    }
}

/// A time as log4j prints it.
struct Timestamp(NaiveDateTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timestamp(time) = self;
        write!(
            f,
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02},{:03}",
            time.year(),
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.and_utc().timestamp_subsec_millis()
        )
    }
}

/// Lets a few lines through in each second and counts the rest.
#[derive(Debug)]
pub struct RateLimit {
    per_second: u32,
    window_start_ms: AtomicI64,
    passed: AtomicU32,
    left_out: AtomicU32,
}

impl RateLimit {
    pub fn per_second(per_second: u32) -> Self {
        RateLimit {
            per_second,
            window_start_ms: AtomicI64::new(i64::MIN),
            passed: AtomicU32::new(0),
            left_out: AtomicU32::new(0),
        }
    }

    /// `Some` when the line may be written; it ends with how many were left out before.
    pub fn pass(&self, now_ms: i64) -> Option<LeftOut> {
        let start = self.window_start_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(start) >= 1000
            && self
                .window_start_ms
                .compare_exchange(start, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.passed.store(0, Ordering::Relaxed);
        }
        if self.passed.fetch_add(1, Ordering::Relaxed) < self.per_second {
            Some(LeftOut(self.left_out.swap(0, Ordering::Relaxed)))
        } else {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

/// The tail of a line after a silence; empty when nothing was left out.
#[derive(Debug, PartialEq, Eq)]
pub struct LeftOut(u32);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            n => write!(f, " ({n} similar lines left out)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_log4j_prints_them() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00,000"),
            (951_782_400_000, "2000-02-29 00:00:00,000"),
            (1_796_104_445_722, "2026-12-01 05:54:05,722"),
            (-1, "1969-12-31 23:59:59,999"),
            (4_107_542_399_999, "2100-02-28 23:59:59,999"),
            (4_107_542_400_000, "2100-03-01 00:00:00,000"),
        ] {
            let utc = chrono::DateTime::from_timestamp_millis(ms).unwrap();
            assert_eq!(Timestamp(utc.naive_utc()).to_string(), text);
        }
    }

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let limit = RateLimit::per_second(2);
        assert_eq!(limit.pass(5), Some(LeftOut(0)));
        assert_eq!(limit.pass(6), Some(LeftOut(0)));
        assert_eq!(limit.pass(7), None);
        assert_eq!(limit.pass(900), None);
        assert_eq!(limit.pass(1005), Some(LeftOut(2)));
        assert_eq!(LeftOut(2).to_string(), " (2 similar lines left out)");
    }
}
