//! Lines out of a stream of bytes, ended as Java's `BufferedReader.readLine` ends them: LF, CR or CR LF.
//! Not here: what a line means. Bytes are kept as they are, whatever their encoding.
//! Hot path: no allocation for a line once the buffer has grown to the longest one.
//! Kafka: java.io.BufferedReader under LineMessageReader.

use std::io::{self, BufRead};

pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    /// The last line ended with CR; a LF that follows belongs to that end.
    after_cr: bool,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Self {
        Lines {
            input,
            line: Vec::new(),
            after_cr: false,
        }
    }

    /// The next line without its end; `None` at the end of the input. A last line without an end counts.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if available.is_empty() {
                return Ok((!self.line.is_empty()).then_some(&self.line[..]));
            }
            let mut skipped = 0;
            if self.after_cr && available[0] == b'\n' {
                skipped = 1;
            }
            self.after_cr = false;
            let fresh = &available[skipped..];
            match fresh.iter().position(|b| matches!(b, b'\n' | b'\r')) {
                Some(end) => {
                    self.line.extend_from_slice(&fresh[..end]);
                    self.after_cr = fresh[end] == b'\r';
                    self.input.consume(skipped + end + 1);
                    return Ok(Some(&self.line));
                }
                None => {
                    self.line.extend_from_slice(fresh);
                    let all = available.len();
                    self.input.consume(all);
                }
            }
        }
    }
}
