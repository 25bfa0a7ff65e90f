//! `.properties` files as `java.util.Properties` reads and writes them; order kept, repeated keys known.
//! Not here: opening files (the caller hands in bytes), what the keys mean.
//! Pure, used from any task. Kafka: java.util.Properties through Utils.loadProps, which reads
//! ISO 8859-1 (so a UTF-8 name is seen byte by byte, as the JVM sees it); PropertiesUtils for meta.properties.

use std::collections::HashMap;
use std::fmt::Write as _;

/// A `\u` escape without four hexadecimal digits: the only thing the format refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Malformed \\uxxxx encoding. (line {line})")]
pub struct MalformedEscape {
    pub line: usize,
}

/// Keys and values in the order of their first appearance; a repeated key keeps its last value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    entries: Vec<(String, String)>,
    places: HashMap<String, usize>,
    duplicates: Vec<String>,
}

impl Properties {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file's bytes as Java does: ISO 8859-1 with `\uXXXX` escapes.
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedEscape> {
        let text: String = bytes.iter().map(|&b| char::from(b)).collect();
        Self::parse_str(&text)
    }

    /// Reads text whose characters are already decoded (a `Reader` in Java).
    pub fn parse_str(text: &str) -> Result<Self, MalformedEscape> {
        let mut found = Self::new();
        for line in LogicalLines::new(text) {
            let (key, value) = split(&line.text);
            let key = unescape(key, line.number)?;
            let value = unescape(value, line.number)?;
            if found.places.contains_key(&key) && !found.duplicates.contains(&key) {
                found.duplicates.push(key.clone());
            }
            found.set(key, value);
        }
        Ok(found)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.places
            .get(key)
            .map(|&place| self.entries[place].1.as_str())
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Sets a value; the key keeps its place if it has one (an `--override` does this).
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        match self.places.get(&key) {
            Some(&place) => self.entries[place].1 = value,
            None => {
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        let place = self.places.remove(key)?;
        let (_, value) = self.entries.remove(place);
        for later in self.places.values_mut() {
            if *later > place {
                *later -= 1;
            }
        }
        Some(value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys the file gave more than once: the last one won, which deserves a warning.
    pub fn duplicates(&self) -> &[String] {
        &self.duplicates
    }

    /// The entries as `Properties.store(Writer, …)` writes them, each comment on a `#` line before them.
    pub fn store(&self, comments: &[&str]) -> String {
        let mut out = String::new();
        for comment in comments {
            let _ = writeln!(out, "#{comment}");
        }
        for (key, value) in &self.entries {
            escape(key, true, &mut out);
            out.push('=');
            escape(value, false, &mut out);
            out.push('\n');
        }
        out
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut made = Self::new();
        for (key, value) in pairs {
            made.set(key, value);
        }
        made
    }
}

struct LogicalLine {
    text: Vec<char>,
    number: usize,
}

/// Natural lines joined at an odd number of trailing backslashes; blank lines and comments dropped.
struct LogicalLines<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    number: usize,
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

impl<'a> LogicalLines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            chars: text.chars().peekable(),
            number: 0,
        }
    }

    fn skip_blanks(&mut self) {
        while self.chars.next_if(|&c| is_blank(c)).is_some() {}
    }

    /// Takes one line end, `\r\n` counting as one.
    fn end_line(&mut self, first: char) {
        if first == '\r' {
            self.chars.next_if_eq(&'\n');
        }
        self.number += 1;
    }
}

impl Iterator for LogicalLines<'_> {
    type Item = LogicalLine;

    fn next(&mut self) -> Option<LogicalLine> {
        'line: loop {
            self.skip_blanks();
            let number = self.number + 1;
            match self.chars.peek() {
                None => return None,
                Some('#' | '!') => {
                    // A comment ends with its natural line, whatever it ends in.
                    while let Some(c) = self.chars.next() {
                        if matches!(c, '\n' | '\r') {
                            self.end_line(c);
                            break;
                        }
                    }
                    continue;
                }
                Some(_) => {}
            }
            let mut text = Vec::new();
            let mut escaped = false;
            let mut ends_here = false;
            while let Some(c) = self.chars.next() {
                if matches!(c, '\n' | '\r') {
                    // Java looks for the end of the file before it joins a line that ends in `\\` and line feed.
                    ends_here = escaped && self.chars.peek().is_none();
                    self.end_line(c);
                    if !escaped || ends_here {
                        break;
                    }
                    text.pop();
                    escaped = false;
                    // The next natural line joins on without its leading blanks. If nothing came before the
                    // continuation it is a line like any other, a comment or blank perhaps.
                    if text.is_empty() {
                        continue 'line;
                    }
                    self.skip_blanks();
                    continue;
                }
                text.push(c);
                escaped = c == '\\' && !escaped;
            }
            if escaped {
                // A backslash that ends the file continues into nothing; alone, it is an entry without a name.
                text.pop();
                ends_here = true;
            }
            if !text.is_empty() || ends_here {
                return Some(LogicalLine { text, number });
            }
        }
    }
}

fn split(line: &[char]) -> (&[char], &[char]) {
    let mut escaped = false;
    let key_end = line
        .iter()
        .position(|&c| {
            let separator = !escaped && (matches!(c, '=' | ':') || is_blank(c));
            escaped = c == '\\' && !escaped;
            separator
        })
        .unwrap_or(line.len());
    let mut separator_seen = false;
    let mut value_start = key_end;
    while let Some(&c) = line.get(value_start) {
        if matches!(c, '=' | ':') && !separator_seen {
            separator_seen = true;
        } else if !is_blank(c) {
            break;
        }
        value_start += 1;
    }
    (&line[..key_end], &line[value_start..])
}

fn unescape(raw: &[char], line: usize) -> Result<String, MalformedEscape> {
    let mut units: Vec<u16> = Vec::with_capacity(raw.len());
    let push = |c: char, units: &mut Vec<u16>| units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    let mut chars = raw.iter().copied();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(c, &mut units);
            continue;
        }
        match chars.next() {
            None => {}
            Some('u') => {
                let mut unit = 0u16;
                for _ in 0..4 {
                    let digit = chars
                        .next()
                        .and_then(|d| d.to_digit(16))
                        .and_then(|d| u16::try_from(d).ok());
                    unit = (unit << 4) | digit.ok_or(MalformedEscape { line })?;
                }
                units.push(unit);
            }
            Some('t') => push('\t', &mut units),
            Some('n') => push('\n', &mut units),
            Some('r') => push('\r', &mut units),
            Some('f') => push('\u{c}', &mut units),
            Some(other) => push(other, &mut units),
        }
    }
    // Half of a surrogate pair has no place in a Rust string: it becomes the replacement character.
    Ok(String::from_utf16_lossy(&units))
}

fn escape(text: &str, is_key: bool, out: &mut String) {
    let mut leading = true;
    for c in text.chars() {
        match c {
            ' ' if is_key || leading => out.push_str("\\ "),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            '=' | ':' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
        leading = false;
    }
}
