//! How a record is printed: Kafka's formatters by their class names, and format strings.
//! Not here: reading records, standard output; formatters append to a buffer. Pure.
//! Hot path: the default formatter allocates nothing for a record.
//! Kafka: org.apache.kafka.common.MessageFormatter and its implementations in org.apache.kafka.tools.consumer.

mod coordinator;
mod default;
mod deserializer;
mod template;

use coordinator::CoordinatorFormatter;
use default::DefaultFormatter;
use std::fmt;
use template::Template;

/// Takes a header's name and value.
pub type EachHeader<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>);

/// A record as a formatter sees it.
pub trait Record {
    fn topic(&self) -> &str;
    fn partition(&self) -> i32;
    fn offset(&self) -> i64;
    fn timestamp(&self) -> Stamp;
    fn key(&self) -> Option<&[u8]>;
    fn value(&self) -> Option<&[u8]>;
    /// Calls `each` with every header's name and value, in order.
    fn headers(&self, each: EachHeader<'_>);
}

/// A record's timestamp and who set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    None,
    CreateTime(i64),
    LogAppendTime(i64),
}

/// A record that cannot be printed: a Java exception's class and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    pub class: &'static str,
    pub message: String,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)
    }
}

/// One of the formatters, set up.
#[derive(Debug)]
pub enum Formatter {
    Default(DefaultFormatter),
    NoOp,
    Coordinator(CoordinatorFormatter),
    Template(Template),
}

impl Formatter {
    /// The formatter of a class name with its properties; `None` for a class that is not known. `complain` hears of
    /// deserializers that are not known.
    pub fn of_class(
        class: &str,
        properties: &[(String, String)],
        complain: &mut dyn FnMut(&str),
    ) -> Option<Formatter> {
        let name = class
            .strip_prefix("org.apache.kafka.tools.consumer.")
            // The classes' homes before 4.0; scripts still name them.
            .or_else(|| class.strip_prefix("kafka.tools."))
            .or_else(|| class.strip_prefix("kafka.coordinator."))
            .unwrap_or("");
        let old = class.starts_with("kafka.");
        Some(match name {
            "DefaultMessageFormatter" | "LoggingMessageFormatter" => {
                Formatter::Default(DefaultFormatter::new(properties, complain))
            }
            "NoOpMessageFormatter" => Formatter::NoOp,
            "OffsetsMessageFormatter" if !old => {
                Formatter::Coordinator(CoordinatorFormatter::Offsets)
            }
            "GroupMetadataMessageFormatter" if !old => {
                Formatter::Coordinator(CoordinatorFormatter::GroupMetadata)
            }
            "TransactionLogMessageFormatter" if !old => {
                Formatter::Coordinator(CoordinatorFormatter::Transactions)
            }
            "group.share.ShareGroupStateMessageFormatter" if !old => {
                Formatter::Coordinator(CoordinatorFormatter::ShareGroupState)
            }
            "group.GroupMetadataManager$OffsetsMessageFormatter" => {
                Formatter::Coordinator(CoordinatorFormatter::OldOffsets)
            }
            _ => return None,
        })
    }

    /// The formatter of a format string.
    pub fn of_template(text: &str) -> Result<Formatter, String> {
        Template::parse(text).map(Formatter::Template)
    }

    /// Appends a record to `out`. What is there already when it fails stays: Kafka prints it, too.
    pub fn write(&self, record: &impl Record, out: &mut Vec<u8>) -> Result<(), FormatError> {
        match self {
            Formatter::Default(formatter) => formatter.write(record, out),
            Formatter::NoOp => Ok(()),
            Formatter::Coordinator(formatter) => formatter.write(record, out),
            Formatter::Template(template) => {
                template.write(record, out);
                Ok(())
            }
        }
    }
}

/// A decimal number.
fn push_number(out: &mut Vec<u8>, number: i64) {
    use std::io::Write;
    // Writing to a vector cannot fail.
    let _ = write!(out, "{number}");
}

#[cfg(test)]
#[path = "formatter_test.rs"]
mod formatter_test;
