//! Moments as people write them on a command line: milliseconds, dates, or a while ago.
//! Not here: finding offsets for them. Pure; the present is an argument.
//! Kafka: the formats of `--to-datetime` and `--by-duration`.

use crate::output::days_from_civil;

/// Milliseconds since 1970 for `1700000000000`, `2026-12-01T05:37:10.468Z`, `2026-12-01`, `-90m`, or `now`.
/// Without a zone a date is in UTC.
pub fn parse(text: &str, now_ms: i64) -> Option<i64> {
    let text = text.trim();
    if text == "now" {
        return Some(now_ms);
    }
    if let Some(ago) = text.strip_prefix('-') {
        return now_ms.checked_sub(duration_ms(ago)?);
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok();
    }
    date_time_ms(text)
}

/// `90m`: a number and one of ms, s, m, h, d.
fn duration_ms(text: &str) -> Option<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: i64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn date_time_ms(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00:00"),
    };
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4)?;
    let month = number(parts.next()?, 2).filter(|m| (1..=12).contains(m))?;
    let day = number(parts.next()?, 2).filter(|d| (1..=31).contains(d))?;
    if parts.next().is_some() {
        return None;
    }
    let (time, zone_ms) = zone(time)?;
    let (time, fraction) = time.split_once(['.', ',']).unwrap_or((time, "0"));
    let mut parts = time.split(':');
    let hour = number(parts.next()?, 2).filter(|h| *h < 24)?;
    let minute = number(parts.next()?, 2).filter(|m| *m < 60)?;
    let second = match parts.next() {
        Some(seconds) => number(seconds, 2).filter(|s| *s < 60)?,
        None => 0,
    };
    if parts.next().is_some() || fraction.is_empty() {
        return None;
    }
    let ms = number(&format!("{fraction:0<3}")[..3], 3)?;
    let days = days_from_civil(year, month, day);
    Some(days * 86_400_000 + hour * 3_600_000 + minute * 60_000 + second * 1000 + ms - zone_ms)
}

/// Takes `Z`, `+02:00` or `+0200` off the end.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(utc) = time.strip_suffix('Z') {
        return Some((utc, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else {
        return Some((time, 0));
    };
    let (time, offset) = time.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let digits = offset[1..].replace(':', "");
    let hhmm = number(&digits, 4).or_else(|| number(&digits, 2).map(|hours| hours * 100))?;
    Some((time, sign * (hhmm / 100 * 3_600_000 + hhmm % 100 * 60_000)))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn moments() {
        let now = 1_000_000_000_000;
        for (text, ms) in [
            ("0", 0),
            ("1796104691428", 1_796_104_691_428),
            ("2026-12-01T05:58:11.428Z", 1_796_104_691_428),
            ("2026-12-01 05:58:11,428", 1_796_104_691_428),
            ("2026-12-01T07:58:11.428+02:00", 1_796_104_691_428),
            ("2026-12-01T00:58:11.4285-0500", 1_796_104_691_428),
            ("1970-01-02", 86_400_000),
            ("1970-01-01T00:01", 60_000),
            ("now", now),
            ("-90m", now - 5_400_000),
            ("-2d", now - 172_800_000),
        ] {
            assert_eq!(parse(text, now), Some(ms), "{text}");
        }
        for text in [
            "",
            "soon",
            "-5",
            "-5y",
            "2026-13-01",
            "2026-1-1",
            "2026-12-01T25:00",
            "12:00",
            "2026-12-01T10:00:00+x",
        ] {
            assert_eq!(parse(text, now), None, "{text}");
        }
    }
}
