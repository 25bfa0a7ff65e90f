//! Log lines as Kafka writes them, on standard output, and a limit for lines that a peer can cause.
//! Not here: what is logged, log files (`-daemon` redirects the output: daemon.rs).
//! Any task; one formatter for the process.
//! Kafka: config/log4j2.yaml, pattern `[%d] %p %m (%c)%n`.

use kavka_common::{Clock, SystemClock};
use std::fmt;
use std::fs::File;
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
static LOG_FILE: OnceLock<File> = OnceLock::new();

/// Sends the process's log lines to standard output, and to the file where there is one. Called once, by a
/// program's main.
pub fn init(log_file: Option<File>) {
    if let Some(file) = log_file {
        let _ = LOG_FILE.set(file);
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
        if let Some(mut file) = LOG_FILE.get() {
            // A full disk must not keep the line from standard output.
            let _ = file.write_all(buf);
        }
        // A closed pipe must not end the server.
        let _ = io::stdout().lock().write_all(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `[2026-12-01 05:54:05,722] INFO message (logger)`, in UTC.
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
            Timestamp(SystemClock::new().wall_ms())
        )?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer, " ({})", event.metadata().target())
    }
}

/// Milliseconds since the epoch as log4j prints them.
struct Timestamp(i64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.div_euclid(86_400_000);
        let of_day = self.0.rem_euclid(86_400_000);
        let (year, month, day) = civil_from_days(days);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02},{:03}",
            of_day / 3_600_000,
            of_day / 60_000 % 60,
            of_day / 1000 % 60,
            of_day % 1000
        )
    }
}

/// The Gregorian date of a day counted from 1970-01-01: counts in 400-year cycles that begin on 1 March.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_cycle + cycle * 400 + i64::from(month <= 2);
    (year, month, day)
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
            assert_eq!(Timestamp(ms).to_string(), text);
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
