//! How much a reassignment has copied, how fast, and how long it will still take: the line shown on a terminal.
//! Not here: asking the brokers. Pure: time is an argument.
//! Kafka: no counterpart.

use std::collections::VecDeque;

/// The speed is that of the last samples, one a second.
const SAMPLES: usize = 15;

/// Bytes that replicas on the move are to get, and have got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub have: u64,
    pub want: u64,
}

/// A transfer as it was observed.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    samples: VecDeque<(i64, Bytes)>,
}

impl Transfer {
    /// Adds what was seen at a time. What is finished must stay in the sums.
    pub fn observe(&mut self, now_ms: i64, bytes: Bytes) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now_ms, bytes));
    }

    /// `None` before anything was copied in front of our eyes.
    fn bytes_per_second(&self) -> Option<u64> {
        let ((began_ms, first), (now_ms, last)) = (self.samples.front()?, self.samples.back()?);
        let elapsed_ms = u64::try_from(now_ms - began_ms).ok().filter(|ms| *ms > 0)?;
        let copied = last
            .have
            .checked_sub(first.have)
            .filter(|bytes| *bytes > 0)?;
        Some(copied.saturating_mul(1000) / elapsed_ms)
    }

    /// For example `2 of 3 partitions moved, 41% of 2.9 GB, 12.3 MB/s, about 2 min 20 s left`.
    pub fn line(&self, (done, all): (usize, usize)) -> String {
        let mut line = format!(
            "{done} of {all} partition{} moved",
            if all == 1 { "" } else { "s" }
        );
        let bytes = self
            .samples
            .back()
            .map(|(_, bytes)| *bytes)
            .unwrap_or_default();
        let hundredfold = bytes.have.min(bytes.want).saturating_mul(100);
        if let Some(percent) = hundredfold.checked_div(bytes.want) {
            line.push_str(&format!(", {percent}% of {}", size(bytes.want)));
        }
        if let Some(speed) = self.bytes_per_second().filter(|speed| *speed > 0) {
            let left_s = bytes.want.saturating_sub(bytes.have).div_ceil(speed);
            line.push_str(&format!(
                ", {}/s, about {} left",
                size(speed),
                duration(left_s)
            ));
        }
        line
    }
}

/// `2.9 GB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut unit, mut divisor) = (0, 1u64);
    while bytes / divisor >= 1000 && unit + 1 < UNITS.len() {
        divisor *= 1000;
        unit += 1;
    }
    if unit == 0 {
        return format!("{bytes} B");
    }
    let tenths = bytes / (divisor / 10);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// `2 min 20 s`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1_234_567), "1.2 MB");
        assert_eq!(size(u64::MAX), "18446744.0 TB");
        assert_eq!(duration(140), "2 min 20 s");
        assert_eq!(duration(7300), "2 h 1 min");
    }

    #[test]
    fn the_line_grows_with_what_is_known() {
        let mut transfer = Transfer::default();
        assert_eq!(transfer.line((0, 1)), "0 of 1 partition moved");
        let bytes = |have| Bytes {
            have,
            want: 3_000_000,
        };
        transfer.observe(1000, bytes(0));
        assert_eq!(
            transfer.line((0, 3)),
            "0 of 3 partitions moved, 0% of 3.0 MB"
        );
        transfer.observe(2000, bytes(0));
        transfer.observe(3000, bytes(1_000_000));
        assert_eq!(
            transfer.line((1, 3)),
            "1 of 3 partitions moved, 33% of 3.0 MB, 500.0 kB/s, about 4 s left"
        );
        for second in 4..40 {
            transfer.observe(second * 1000, bytes(1_000_000));
        }
        // Nothing moves any more, so nobody knows when it will end.
        assert_eq!(
            transfer.line((1, 3)),
            "1 of 3 partitions moved, 33% of 3.0 MB"
        );
    }
}
