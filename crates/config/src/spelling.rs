//! Which known name somebody may have meant by an unknown one.
//! Not here: the names. Nothing is taken for another name, only proposed.
//! Pure. Kafka: no counterpart; it names the unknown key and goes on.

use std::collections::BTreeSet;

/// More proposals than these help nobody.
const PROPOSALS_MAX: usize = 3;

/// The known names that are written almost like `word`, the nearest first.
pub fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // In a short word two slips leave nothing in common.
    let slips_max = match word.len() {
        0..4 => 0,
        4..8 => 1,
        _ => 2,
    };
    let lower = word.to_ascii_lowercase();
    let found: BTreeSet<(usize, &str)> = known
        .into_iter()
        .filter(|name| name.len().abs_diff(word.len()) <= slips_max)
        .map(|name| {
            (
                slips(lower.as_bytes(), name.to_ascii_lowercase().as_bytes()),
                name,
            )
        })
        .filter(|(slips, _)| *slips <= slips_max)
        .collect();
    found
        .into_iter()
        .take(PROPOSALS_MAX)
        .map(|(_, name)| name)
        .collect()
}

/// `did you mean a or b?`, if there is something to propose.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = near(word, known);
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// How many letters are missing, superfluous, wrong, or swapped with their neighbour (the optimal string alignment).
fn slips(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(letter != other))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = [
        "log.dir",
        "log.dirs",
        "num.partitions",
        "process.roles",
        "port",
        "CONTROLLER",
    ];

    #[test]
    fn slips_of_the_pen_are_recognised() {
        for (word, meant) in [
            ("logs.dir", vec!["log.dir", "log.dirs"]),
            ("log_dirs", vec!["log.dirs", "log.dir"]),
            ("num.partitons", vec!["num.partitions"]),
            ("num.partitiosn", vec!["num.partitions"]),
            ("Process.Roles", vec!["process.roles"]),
            ("proces.role", vec!["process.roles"]),
            ("CONTROLER", vec!["CONTROLLER"]),
        ] {
            assert_eq!(near(word, KNOWN), meant, "{word}");
        }
    }

    #[test]
    fn other_words_are_left_alone() {
        for word in ["", "prt", "my.own.setting", "num.replicas", "EXTERNAL"] {
            assert_eq!(did_you_mean(word, KNOWN), None, "{word}");
        }
    }
}
