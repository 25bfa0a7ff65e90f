//! The default formatter: chosen fields between separators, in a fixed order.
//! Not here: deserializers. Pure. Hot path.
//! Kafka: org.apache.kafka.tools.consumer.DefaultMessageFormatter.

use super::deserializer::Deserializer;
use super::{FormatError, Record, Stamp, push_number};

#[derive(Debug)]
pub struct DefaultFormatter {
    timestamp: bool,
    key: bool,
    value: bool,
    partition: bool,
    offset: bool,
    delivery: bool,
    epoch: bool,
    headers: bool,
    key_separator: Vec<u8>,
    line_separator: Vec<u8>,
    headers_separator: Vec<u8>,
    null_literal: Vec<u8>,
    key_deserializer: Deserializer,
    value_deserializer: Deserializer,
    headers_deserializer: Deserializer,
}

impl DefaultFormatter {
    pub(super) fn new(properties: &[(String, String)], complain: &mut dyn FnMut(&str)) -> Self {
        let mut formatter = DefaultFormatter {
            timestamp: false,
            key: false,
            value: true,
            partition: false,
            offset: false,
            delivery: false,
            epoch: false,
            headers: false,
            key_separator: b"\t".to_vec(),
            line_separator: b"\n".to_vec(),
            headers_separator: b",".to_vec(),
            null_literal: b"null".to_vec(),
            key_deserializer: Deserializer::Raw,
            value_deserializer: Deserializer::Raw,
            headers_deserializer: Deserializer::Raw,
        };
        for (name, value) in properties {
            let yes = value.trim().eq_ignore_ascii_case("true");
            let bytes = || value.as_bytes().to_vec();
            let mut deserializer = || {
                Deserializer::of_class(value).unwrap_or_else(|| {
                    complain(value);
                    Deserializer::Raw
                })
            };
            match name.as_str() {
                "print.timestamp" => formatter.timestamp = yes,
                "print.key" => formatter.key = yes,
                "print.value" => formatter.value = yes,
                "print.partition" => formatter.partition = yes,
                "print.offset" => formatter.offset = yes,
                "print.delivery" => formatter.delivery = yes,
                "print.epoch" => formatter.epoch = yes,
                "print.headers" => formatter.headers = yes,
                "key.separator" => formatter.key_separator = bytes(),
                "line.separator" => formatter.line_separator = bytes(),
                "headers.separator" => formatter.headers_separator = bytes(),
                "null.literal" => formatter.null_literal = bytes(),
                "key.deserializer" => formatter.key_deserializer = deserializer(),
                "value.deserializer" => formatter.value_deserializer = deserializer(),
                // Kafka's help names the first, its code reads the second.
                "header.deserializer" | "headers.deserializer" => {
                    formatter.headers_deserializer = deserializer();
                }
                _ => {}
            }
        }
        formatter
    }

    pub(super) fn write(&self, record: &impl Record, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let after_headers = self.key || self.value;
        let after_epoch = self.headers || after_headers;
        let after_delivery = self.epoch || after_epoch;
        let after_offset = self.delivery || after_delivery;
        let after_partition = self.offset || after_offset;
        let after_timestamp = self.partition || after_partition;
        if self.timestamp {
            match record.timestamp() {
                Stamp::None => out.extend_from_slice(b"NO_TIMESTAMP"),
                Stamp::CreateTime(ms) => {
                    out.extend_from_slice(b"CreateTime:");
                    push_number(out, ms);
                }
                Stamp::LogAppendTime(ms) => {
                    out.extend_from_slice(b"LogAppendTime:");
                    push_number(out, ms);
                }
            }
            self.separate(out, after_timestamp);
        }
        if self.partition {
            out.extend_from_slice(b"Partition:");
            push_number(out, i64::from(record.partition()));
            self.separate(out, after_partition);
        }
        if self.offset {
            out.extend_from_slice(b"Offset:");
            push_number(out, record.offset());
            self.separate(out, after_offset);
        }
        // Kafka's console consumer knows neither of the two for any record.
        if self.delivery {
            out.extend_from_slice(b"Delivery:NOT_PRESENT");
            self.separate(out, after_delivery);
        }
        if self.epoch {
            out.extend_from_slice(b"Epoch:NOT_PRESENT");
            self.separate(out, after_epoch);
        }
        if self.headers {
            self.write_headers(record, out)?;
            self.separate(out, after_headers);
        }
        if self.key {
            self.field(record.key(), self.key_deserializer, out)?;
            self.separate(out, self.value);
        }
        if self.value {
            self.field(record.value(), self.value_deserializer, out)?;
            out.extend_from_slice(&self.line_separator);
        }
        Ok(())
    }

    fn write_headers(&self, record: &impl Record, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let mut first = true;
        let mut result = Ok(());
        record.headers(&mut |name, value| {
            if result.is_err() {
                return;
            }
            if !first {
                out.extend_from_slice(&self.headers_separator);
            }
            first = false;
            out.extend_from_slice(name);
            out.push(b':');
            result = self.field(value, self.headers_deserializer, out);
        });
        if first {
            out.extend_from_slice(b"NO_HEADERS");
        }
        result
    }

    fn field(
        &self,
        bytes: Option<&[u8]>,
        deserializer: Deserializer,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        // As in Java, what stands for null goes through the deserializer.
        deserializer.write(bytes.unwrap_or(&self.null_literal), out)
    }

    fn separate(&self, out: &mut Vec<u8>, more: bool) {
        out.extend_from_slice(if more {
            &self.key_separator
        } else {
            &self.line_separator
        });
    }
}
