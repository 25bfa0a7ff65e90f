//! `--validate-regex`: would a broker take this regular expression as a subscription?
//! Not here: topic filters of other tools (Java's syntax).
//! Pure. Kafka: com.google.re2j.Pattern, as ConsumerGroupCommand and the group coordinator use it; KIP-848.

/// What is wrong with it, in RE2/J's words; `None` for a good one.
pub fn fault(text: &str) -> Option<String> {
    // Both are RE2's syntax; where they differ, the brokers of this project take what this one takes.
    let error = regex::Regex::new(text).err()?;
    let said = error.to_string();
    let reason = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("error: "))
        .next_back()
        .unwrap_or("expression too big");
    Some(in_re2j_words(text, reason).to_owned())
}

fn in_re2j_words<'a>(text: &str, reason: &'a str) -> &'a str {
    match reason {
        "unclosed character class" => "missing closing ]",
        "unclosed group" => "missing closing )",
        "unopened group" => "regexp/syntax: internal error: stack underflow",
        "repetition operator missing expression" => "missing argument to repetition operator",
        "invalid character class range, the start must be <= the end" => {
            "invalid character class range"
        }
        "unrecognized escape sequence" if text.ends_with('\\') => {
            "trailing backslash at end of expression"
        }
        "incomplete escape sequence, reached end of pattern prematurely" => {
            "trailing backslash at end of expression"
        }
        "unrecognized escape sequence" | "backreferences are not supported" => {
            "invalid escape sequence"
        }
        "invalid repetition count range, the start must be <= the end" => "invalid repeat count",
        "unrecognized flag"
        | "look-around, including look-ahead and look-behind, is not supported" => {
            "invalid or unsupported Perl syntax"
        }
        "duplicate capture group name" => "duplicate capture group name",
        "invalid capture group character" | "empty capture group name" => "invalid named capture",
        "Unicode property not found" => "invalid character class range",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_re2js_names() {
        for (text, said) in [
            ("a.*b", None),
            ("", None),
            ("[", Some("missing closing ]")),
            ("(", Some("missing closing )")),
            ("*a", Some("missing argument to repetition operator")),
            ("[b-a]", Some("invalid character class range")),
            ("a\\", Some("trailing backslash at end of expression")),
            ("\\1", Some("invalid escape sequence")),
            ("(?=a)", Some("invalid or unsupported Perl syntax")),
            ("a{2,1}", Some("invalid repeat count")),
        ] {
            assert_eq!(fault(text).as_deref(), said, "{text}");
        }
    }
}
