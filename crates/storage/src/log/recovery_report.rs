//! What opening a log came to, for tests and for the broker's log.
//! Not here: opening it (open.rs).
//! Pure data. Kafka: the lines of LogLoader and UnifiedLog about what they recover and truncate.

use std::fmt;

/// What opening did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments of which something was checked.
    pub segments_checked: usize,
    /// Bytes of log files read with their CRC.
    pub bytes_checked: u64,
    /// Bytes of log files read as headers only: producers, positions.
    pub bytes_walked: u64,
    /// Segments whose indexes were missing or wrong and were built anew.
    pub indexes_rebuilt: usize,
    /// Bytes cut off behind the last valid batch, with the reason.
    pub bytes_cut: u64,
    pub cut_reason: Option<String>,
    /// Segments behind the cut that were removed.
    pub segments_removed: usize,
    /// Files of an unfinished deletion, compaction or replacement.
    pub left_overs_removed: usize,
    /// The epoch file was unreadable, and was built anew from the batches.
    pub epochs_rebuilt: bool,
    /// Snapshots that were torn or lay behind the recovery point.
    pub snapshots_removed: usize,
    /// The log ends before its recovery point: an unfinished truncation, or files that somebody shortened.
    pub ends_before_recovery_point: bool,
}

impl fmt::Display for RecoveryReport {
    /// What was done, without what was not: `1 segments and 812 bytes checked, nothing lost`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} segments and {} bytes checked",
            self.segments_checked, self.bytes_checked
        )?;
        for (count, what) in [
            (self.indexes_rebuilt, "segments got new indexes"),
            (self.segments_removed, "segments behind the cut removed"),
            (self.left_overs_removed, "files of unfinished work removed"),
            (self.snapshots_removed, "producer snapshots removed"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if self.epochs_rebuilt {
            f.write_str(", leader epochs read anew from the batches")?;
        }
        match (&self.cut_reason, self.bytes_cut) {
            (Some(reason), cut) => write!(f, ", {cut} bytes cut off: {reason}")?,
            (None, 1..) => write!(f, ", {} bytes cut off", self.bytes_cut)?,
            (None, 0) if self.segments_removed == 0 => f.write_str(", nothing lost")?,
            (None, 0) => {}
        }
        if self.ends_before_recovery_point {
            f.write_str("; the log ends before its recovery point")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_done_is_said() {
        let mut report = RecoveryReport {
            segments_checked: 1,
            bytes_checked: 812,
            ..RecoveryReport::default()
        };
        assert_eq!(
            report.to_string(),
            "1 segments and 812 bytes checked, nothing lost"
        );
        report.indexes_rebuilt = 2;
        report.bytes_cut = 40;
        report.cut_reason = Some("torn batch at offset 7".into());
        assert_eq!(
            report.to_string(),
            "1 segments and 812 bytes checked, 2 segments got new indexes, 40 bytes cut off: torn batch at offset 7"
        );
    }
}
