//! Format strings: `--format '%t %p %o %k %v %h\n'`, in the letters of kcat.
//! Not here: the formatters that Kafka has. Pure.
//! Kafka: no counterpart.

use super::{Record, Stamp, push_number};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    KeyLength,
    Value,
    ValueLength,
    Headers,
    Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// `%t` topic, `%p` partition, `%o` offset, `%k` key, `%K` its length, `%v` or `%s` value, `%V` or `%S` its length,
    /// `%h` headers, `%T` timestamp, `%%` a percent sign; `\n \t \r \0 \\ \xHH`.
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '%' => {
                    let letter = rest.next();
                    let piece = match letter {
                        Some('t') => Piece::Topic,
                        Some('p') => Piece::Partition,
                        Some('o') => Piece::Offset,
                        Some('k') => Piece::Key,
                        Some('K') => Piece::KeyLength,
                        Some('v' | 's') => Piece::Value,
                        Some('V' | 'S') => Piece::ValueLength,
                        Some('h') => Piece::Headers,
                        Some('T') => Piece::Timestamp,
                        Some('%') => {
                            literal.push(b'%');
                            continue;
                        }
                        other => {
                            return Err(format!(
                                "--format does not know %{}; it knows %t topic, %p partition, %o offset, %k key, %v value, %h headers, %T timestamp, %K and %V lengths, %%",
                                other.map(String::from).unwrap_or_default()
                            ));
                        }
                    };
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(piece);
                }
                '\\' => match rest.next() {
                    Some('n') => literal.push(b'\n'),
                    Some('t') => literal.push(b'\t'),
                    Some('r') => literal.push(b'\r'),
                    Some('0') => literal.push(0),
                    Some('\\') => literal.push(b'\\'),
                    Some('x') => {
                        let digits: String = rest.by_ref().take(2).collect();
                        literal.push(u8::from_str_radix(&digits, 16).map_err(|_| {
                            format!("--format has \\x{digits}, which is not two hexadecimal digits")
                        })?);
                    }
                    other => {
                        return Err(format!(
                            "--format does not know \\{}",
                            other.map(String::from).unwrap_or_default()
                        ));
                    }
                },
                c => literal.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Template { pieces })
    }

    pub(super) fn write(&self, record: &impl Record, out: &mut Vec<u8>) {
        let length =
            |bytes: Option<&[u8]>| bytes.map_or(-1, |b| i64::try_from(b.len()).unwrap_or(i64::MAX));
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Topic => out.extend_from_slice(record.topic().as_bytes()),
                Piece::Partition => push_number(out, i64::from(record.partition())),
                Piece::Offset => push_number(out, record.offset()),
                Piece::Key => out.extend_from_slice(record.key().unwrap_or_default()),
                Piece::KeyLength => push_number(out, length(record.key())),
                Piece::Value => out.extend_from_slice(record.value().unwrap_or_default()),
                Piece::ValueLength => push_number(out, length(record.value())),
                Piece::Headers => {
                    let mut first = true;
                    record.headers(&mut |name, value| {
                        if !first {
                            out.push(b',');
                        }
                        first = false;
                        out.extend_from_slice(name);
                        out.push(b'=');
                        out.extend_from_slice(value.unwrap_or(b"NULL"));
                    });
                }
                Piece::Timestamp => match record.timestamp() {
                    Stamp::None => push_number(out, -1),
                    Stamp::CreateTime(ms) | Stamp::LogAppendTime(ms) => push_number(out, ms),
                },
            }
        }
    }
}
