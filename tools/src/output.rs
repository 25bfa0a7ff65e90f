//! The two output streams of a tool: data on standard output, everything else on standard error.
//! Not here: tables and JSON. A closed pipe is an answer, never a panic.
//! Any thread; a line is written at once. Kafka: the console appender of tools-log4j2.yaml.

use kavka_common::clock::{Clock, SystemClock};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// The first failure of standard output other than a closed pipe. A tool finishes what it was asked to do, and then
/// does not claim that all went well.
static LOST: OnceLock<String> = OnceLock::new();

/// Text on standard output, at once. Whether anybody still reads is the caller's business only where it matters; what
/// could not be written for another reason shows in the exit status, see [`checked`].
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(e) = written {
        note_failure(&e);
    }
}

/// Remembers that standard output failed; true when that is more than a reader who went away.
pub fn note_failure(error: &io::Error) -> bool {
    let lost = error.kind() != io::ErrorKind::BrokenPipe;
    if lost {
        let _ = LOST.set(error.to_string());
    }
    lost
}

/// The last step of every program: says that output was lost, and makes the status a failure.
pub fn checked(status: ExitCode) -> ExitCode {
    match LOST.get() {
        None => status,
        Some(why) => {
            error(&format!(
                "Standard output could not be written: {why}. The output is incomplete.\n"
            ));
            ExitCode::FAILURE
        }
    }
}

/// Text on standard error, at once.
pub fn error(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// The logger's name of messages that Apache's tools do not have.
pub const KAVKA: &str = "kavka";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Warn,
    Error,
}

/// A line as log4j writes it in the distribution's tools: `[time] LEVEL text (logger)`.
pub fn log(level: Level, text: &str, logger: &str) {
    log_with(level, text, logger, None);
}

/// A warning of our own: what Apache's tools leave unsaid.
pub fn hint(text: &str) {
    log(Level::Warn, text, KAVKA);
}

/// A log line followed by the exception it is about.
pub fn log_with(level: Level, text: &str, logger: &str, exception: Option<&str>) {
    let level = match level {
        Level::Warn => "WARN",
        Level::Error => "ERROR",
    };
    let mut line = format!(
        "[{}] {level} {text} ({logger})\n",
        date_time(SystemClock::new().wall_ms())
    );
    if let Some(exception) = exception {
        line.push_str(exception);
        line.push('\n');
    }
    error(&line);
}

/// `2026-12-01 05:37:10,468`, in UTC.
pub fn date_time(wall_ms: i64) -> String {
    let days = wall_ms.div_euclid(86_400_000);
    let ms = wall_ms.rem_euclid(86_400_000);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02},{:03}",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    )
}

/// Year, month and day of a day counted from 1 January 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years that begin in March put the leap day last; 146097 days make four centuries.
    let shifted = days + 719_468;
    let century4 = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (
        century4 * 400 + year + i64::from(month <= 2),
        month,
        day_of_month,
    )
}

/// Days since 1 January 1970 of a date, the inverse of what `date_time` prints.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let century4 = year.div_euclid(400);
    let year_of_century4 = year.rem_euclid(400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day = year_of_century4 * 365 + year_of_century4 / 4 - year_of_century4 / 100 + day_of_year;
    century4 * 146_097 + day - 719_468
}

/// Is somebody typing? Java's `System.console()` wants both ends to be a terminal.
pub fn interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00,000");
        assert_eq!(date_time(1_796_104_691_428), "2026-12-01 05:58:11,428");
        assert_eq!(date_time(951_782_400_000), "2000-02-29 00:00:00,000");
        assert_eq!(date_time(-1), "1969-12-31 23:59:59,999");
        for days in (-200_000..200_000).step_by(37) {
            let (y, m, d) = civil(days);
            assert_eq!(days_from_civil(y, m, d), days);
        }
    }
}
