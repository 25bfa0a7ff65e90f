//! Turns a line into a record: key, value and headers between separators, the null marker.
//! Not here: reading lines, sending. Works on bytes, so that any encoding survives.
//! Pure. Hot path: a record borrows from its line. Kafka: org.apache.kafka.tools.LineMessageReader.

use crate::exit::Stop;
use kavka_client::producer::OutgoingHeader;

const KAFKA_EXCEPTION: &str = "org.apache.kafka.common.KafkaException";

/// The settings of the reader; the defaults are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordReader {
    parse_key: bool,
    parse_headers: bool,
    ignore_error: bool,
    key_separator: Vec<u8>,
    headers_delimiter: Vec<u8>,
    headers_separator: Vec<u8>,
    headers_key_separator: Vec<u8>,
    null_marker: Option<Vec<u8>>,
    /// Word a missing key as 2.x did.
    old_words: bool,
}

impl Default for RecordReader {
    fn default() -> Self {
        RecordReader {
            parse_key: false,
            parse_headers: false,
            ignore_error: false,
            key_separator: b"\t".to_vec(),
            headers_delimiter: b"\t".to_vec(),
            headers_separator: b",".to_vec(),
            headers_key_separator: b":".to_vec(),
            null_marker: None,
            old_words: false,
        }
    }
}

/// One line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecord<'l> {
    pub key: Option<&'l [u8]>,
    pub value: Option<&'l [u8]>,
    pub headers: Vec<OutgoingHeader>,
}

fn kafka_exception(message: String) -> Stop {
    Stop::exception(KAFKA_EXCEPTION, message)
}

impl RecordReader {
    /// Reads `--reader-property` settings and checks that they can be told apart.
    pub fn from_properties(
        properties: &[(String, String)],
        old_words: bool,
    ) -> Result<RecordReader, Stop> {
        let mut reader = RecordReader {
            old_words,
            ..RecordReader::default()
        };
        for (name, value) in properties {
            let yes = value.trim().eq_ignore_ascii_case("true");
            let bytes = value.as_bytes().to_vec();
            match name.as_str() {
                "parse.key" => reader.parse_key = yes,
                "parse.headers" => reader.parse_headers = yes,
                "ignore.error" => reader.ignore_error = yes,
                "key.separator" => reader.key_separator = bytes,
                "headers.delimiter" => reader.headers_delimiter = bytes,
                "headers.separator" => reader.headers_separator = bytes,
                "headers.key.separator" => reader.headers_key_separator = bytes,
                "null.marker" => reader.null_marker = Some(bytes),
                _ => {}
            }
        }
        reader.check()?;
        Ok(reader)
    }

    fn check(&self) -> Result<(), Stop> {
        let null_marker = self.null_marker.as_ref();
        let mut pairs = Vec::new();
        if self.parse_key {
            pairs.push((
                "null.marker",
                null_marker,
                "key.separator",
                &self.key_separator,
            ));
        }
        if self.parse_headers {
            pairs.extend([
                (
                    "headers.delimiter",
                    Some(&self.headers_delimiter),
                    "headers.separator",
                    &self.headers_separator,
                ),
                (
                    "headers.delimiter",
                    Some(&self.headers_delimiter),
                    "headers.key.separator",
                    &self.headers_key_separator,
                ),
                (
                    "headers.separator",
                    Some(&self.headers_separator),
                    "headers.key.separator",
                    &self.headers_key_separator,
                ),
                (
                    "null.marker",
                    null_marker,
                    "headers.delimiter",
                    &self.headers_delimiter,
                ),
                (
                    "null.marker",
                    null_marker,
                    "headers.separator",
                    &self.headers_separator,
                ),
                (
                    "null.marker",
                    null_marker,
                    "headers.key.separator",
                    &self.headers_key_separator,
                ),
            ]);
        }
        match pairs.iter().find(|(_, one, _, other)| *one == Some(*other)) {
            None => Ok(()),
            Some((one, _, other, _)) => Err(kafka_exception(format!(
                "{one} and {other} may not be equal"
            ))),
        }
    }

    /// Takes a line apart; `number` counts lines from 1.
    pub fn read<'l>(&self, line: &'l [u8], number: u64) -> Result<ReadRecord<'l>, Stop> {
        let mut rest = line;
        let mut headers = None;
        if self.parse_headers {
            (headers, rest) = self.split(
                rest,
                line,
                &self.headers_delimiter,
                "headers delimiter",
                number,
            )?;
        }
        let mut key = None;
        if self.parse_key {
            (key, rest) = self.split(rest, line, &self.key_separator, "key separator", number)?;
        }
        let is_null = |bytes: &[u8]| self.null_marker.as_deref() == Some(bytes);
        Ok(ReadRecord {
            key: key.filter(|k| !is_null(k)),
            value: Some(rest).filter(|v| !is_null(v)),
            headers: match headers.filter(|h| !is_null(h)) {
                None => Vec::new(),
                Some(headers) => self.headers(headers, number)?,
            },
        })
    }

    fn split<'l>(
        &self,
        rest: &'l [u8],
        line: &[u8],
        separator: &[u8],
        name: &str,
        number: u64,
    ) -> Result<(Option<&'l [u8]>, &'l [u8]), Stop> {
        match find(rest, separator) {
            Some(at) => Ok((Some(&rest[..at]), &rest[at + separator.len()..])),
            None if self.ignore_error => Ok((None, rest)),
            None => {
                let line = String::from_utf8_lossy(line);
                Err(kafka_exception(if self.old_words {
                    format!("No key found on line {number}: {line}")
                } else {
                    format!("No {name} found on line number {number}: '{line}'")
                }))
            }
        }
    }

    fn headers(&self, headers: &[u8], number: u64) -> Result<Vec<OutgoingHeader>, Stop> {
        let is_null = |bytes: &[u8]| self.null_marker.as_deref() == Some(bytes);
        let mut out = Vec::new();
        for pair in split_all(headers, &self.headers_separator) {
            let text = || String::from_utf8_lossy(pair).into_owned();
            let Some(at) = find(pair, &self.headers_key_separator) else {
                if self.ignore_error {
                    out.push((text(), None));
                    continue;
                }
                return Err(kafka_exception(format!(
                    "No header key separator found in pair '{}' on line number {number}",
                    text()
                )));
            };
            let key = &pair[..at];
            if is_null(key) {
                return Err(kafka_exception(format!(
                    "Header keys should not be equal to the null marker '{}' as they can't be null",
                    String::from_utf8_lossy(key)
                )));
            }
            // Header keys are strings in Kafka's protocol; anything else cannot be sent.
            let key = std::str::from_utf8(key)
                .ok()
                .filter(|k| !k.contains('\0'))
                .ok_or_else(|| {
                    kafka_exception(format!(
                        "Header key in pair '{}' on line number {number} is not text",
                        text()
                    ))
                })?;
            let value = &pair[at + self.headers_key_separator.len()..];
            out.push((key.to_owned(), (!is_null(value)).then(|| value.to_vec())));
        }
        Ok(out)
    }
}

/// Where `needle` begins; an empty one is found at once, as in Java.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [] => Some(0),
        [one] => haystack.iter().position(|b| b == one),
        _ => haystack.windows(needle.len()).position(|w| w == needle),
    }
}

/// As `Pattern.split`: empty pieces at the end are dropped, but one piece always remains.
fn split_all<'h>(text: &'h [u8], separator: &[u8]) -> Vec<&'h [u8]> {
    if separator.is_empty() {
        return vec![text];
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = find(rest, separator) {
        pieces.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    pieces.push(rest);
    while pieces.len() > 1 && pieces.last().is_some_and(|p| p.is_empty()) {
        pieces.pop();
    }
    pieces
}
