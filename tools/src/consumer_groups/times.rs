//! Times of `--to-datetime` and durations of `--by-duration`, as Java reads them.
//! Not here: the clock (comes in as milliseconds).
//! Pure. Kafka: org.apache.kafka.common.utils.Utils.getDateTime (SimpleDateFormat); java.time.Duration.parse.

use crate::java::Exception;
use crate::output::days_from_civil;

const PARSE: &str = "java.text.ParseException";

/// Milliseconds since 1970 of `2020-01-31T23:59:59.999` with an optional zone; without one it is UTC.
pub fn date_time(text: &str) -> Result<i64, Exception> {
    let Some((_, time)) = text.split_once('T').filter(|(_, time)| !time.is_empty()) else {
        return Err(Exception::new(
            PARSE,
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format",
        ));
    };
    let zoned = if time.contains(['+', '-', 'Z']) {
        text.to_owned()
    } else {
        format!("{text}Z")
    };
    parse_zoned(&zoned)
        .ok_or_else(|| Exception::new(PARSE, format!("Unparseable date: \"{zoned}\"")))
}

/// Fields have any number of digits, and what follows the zone is not looked at: so does SimpleDateFormat.
fn parse_zoned(text: &str) -> Option<i64> {
    let (year, rest) = number(text)?;
    let (month, rest) = number(rest.strip_prefix('-')?)?;
    let (day, rest) = number(rest.strip_prefix('-')?)?;
    let (hour, rest) = number(rest.strip_prefix('T')?)?;
    let (minute, rest) = number(rest.strip_prefix(':')?)?;
    let (second, rest) = number(rest.strip_prefix(':')?)?;
    let (milli, rest) = number(rest.strip_prefix('.')?)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_max = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let valid = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_max).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 59
        && milli <= 999;
    if !valid {
        return None;
    }
    let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - zone(rest)?;
    Some((minutes * 60 + second) * 1000 + milli)
}

/// Digits at the beginning, not too many of them, and what follows.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Minutes east of UTC: `Z`, `+hh:mm` or `+hh`.
fn zone(text: &str) -> Option<i64> {
    if text.starts_with('Z') {
        return Some(0);
    }
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let two = |text: Option<&str>| -> Option<i64> {
        text.filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?
            .parse()
            .ok()
    };
    let hours = two(text.get(1..3)).filter(|hours| *hours <= 23)?;
    let minutes = match text.get(3..4) {
        Some(":") => two(text.get(4..6)).filter(|minutes| *minutes <= 59)?,
        _ => 0,
    };
    Some(sign * (hours * 60 + minutes))
}

/// Milliseconds of `P1DT2H3M4.5S`; parts may be left out, and have signs of their own.
pub fn duration(text: &str) -> Result<i64, Exception> {
    parse_duration(text).ok_or_else(|| {
        Exception::new(
            "java.time.format.DateTimeParseException",
            "Text cannot be parsed to a Duration",
        )
    })
}

fn parse_duration(text: &str) -> Option<i64> {
    let upper = text.to_ascii_uppercase();
    let (sign, rest) = match upper.as_bytes().first()? {
        b'-' => (-1, &upper[1..]),
        b'+' => (1, &upper[1..]),
        _ => (1, &upper[..]),
    };
    let rest = rest.strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((days, time)) => (days, Some(time)),
        None => (rest, None),
    };
    let mut total: i64 = 0;
    let mut parts = 0;
    if !days.is_empty() {
        total = whole(days.strip_suffix('D')?)?.checked_mul(86_400_000)?;
        parts += 1;
    }
    if let Some(mut time) = time {
        for (unit, ms) in [('H', 3_600_000), ('M', 60_000)] {
            if let Some((part, after)) = time.split_once(unit) {
                total = total.checked_add(whole(part)?.checked_mul(ms)?)?;
                time = after;
                parts += 1;
            }
        }
        if !time.is_empty() {
            total = total.checked_add(seconds(time.strip_suffix('S')?)?)?;
        } else if parts == 0 || days.len() + 1 == rest.len() {
            return None;
        }
        parts += 1;
    }
    (parts > 0).then_some(())?;
    total.checked_mul(sign)
}

fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Milliseconds of seconds with up to nine decimals.
fn seconds(text: &str) -> Option<i64> {
    let (integer, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let milli: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    let milli = if integer.starts_with('-') {
        -milli
    } else {
        milli
    };
    whole(integer)?.checked_mul(1000)?.checked_add(milli)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_a_time_and_perhaps_a_zone() {
        for (text, ms) in [
            ("2020-01-01T00:00:00.000", 1_577_836_800_000),
            ("2020-01-01T00:00:00.000Z", 1_577_836_800_000),
            ("2020-01-01T01:00:00.000+01:00", 1_577_836_800_000),
            ("2020-01-01T01:00:00.000+01", 1_577_836_800_000),
            ("2019-12-31T18:30:00.000-05:30", 1_577_836_800_000),
            ("2020-1-1T0:0:0.5", 1_577_836_800_005),
            ("2020-02-29T23:59:59.999Z", 1_583_020_799_999),
            ("1969-12-31T23:59:59.999Z", -1),
        ] {
            assert_eq!(date_time(text), Ok(ms), "{text}");
        }
        assert_eq!(
            date_time("yesterday").unwrap_err().trace(),
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        );
        assert_eq!(
            date_time("2020-01-01T00:00:00").unwrap_err().message,
            "Unparseable date: \"2020-01-01T00:00:00Z\""
        );
        for text in [
            "T",
            "xT00:00:00.000",
            "2019-02-29T00:00:00.000",
            "2020-13-01T00:00:00.000",
            "2020-01-01T24:00:00.000",
            "2020-01-01T00:00:00.1000",
            "2020-01-01T00:00:00.000+x",
            "99999999999999999999-01-01T00:00:00.000",
        ] {
            assert!(date_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_parts() {
        for (text, ms) in [
            ("PT1H", 3_600_000),
            ("P2D", 172_800_000),
            ("P1DT2H3M4.5S", 93_784_500),
            ("pt0.001s", 1),
            ("PT-0.5S", -500),
            ("-PT1M", -60_000),
            ("P-1DT+1H", -82_800_000),
        ] {
            assert_eq!(duration(text), Ok(ms), "{text}");
        }
        for text in [
            "",
            "1h",
            "P",
            "PT",
            "P1DT",
            "PT1",
            "PT1M1H",
            "P1H",
            "PTS",
            "PT1.0000000001S",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("P99999999999999999999D").is_err());
        assert!(duration("P9999999999999999D").is_err());
    }
}
