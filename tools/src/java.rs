//! What Java's tools would call our errors, and orders that come of Java's hash tables: Apache's tools print both.
//! Not here: the words of a particular tool.
//! Pure. Kafka: org.apache.kafka.common.errors.*; java.util.HashMap.

use crate::args::ArgumentError;
use kavka_client::ClientError;
use kavka_common::TopicPartition;

/// An exception: its class and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    pub class: String,
    pub message: String,
}

pub const ILLEGAL_ARGUMENT: &str = "java.lang.IllegalArgumentException";
const EXECUTION: &str = "java.util.concurrent.ExecutionException";

impl Exception {
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Exception {
        Exception {
            class: class.into(),
            message: message.into(),
        }
    }

    pub fn illegal_argument(message: impl Into<String>) -> Exception {
        Exception::new(ILLEGAL_ARGUMENT, message)
    }

    /// The first line of its stack trace.
    pub fn trace(&self) -> String {
        if self.message.is_empty() {
            self.class.clone()
        } else {
            format!("{}: {}", self.class, self.message)
        }
    }
}

impl From<&ClientError> for Exception {
    fn from(error: &ClientError) -> Exception {
        let class = match error {
            ClientError::Refused { code, .. } => code
                .exception()
                .unwrap_or("org.apache.kafka.common.errors.UnknownServerException"),
            ClientError::NoBroker { .. } | ClientError::TimedOut { .. } => {
                "org.apache.kafka.common.errors.TimeoutException"
            }
            ClientError::Connect { .. }
            | ClientError::Lost { .. }
            | ClientError::NotKafka { .. } => "org.apache.kafka.common.errors.DisconnectException",
            ClientError::UnsupportedApi { .. } | ClientError::Unsendable(_) => {
                "org.apache.kafka.common.errors.UnsupportedVersionException"
            }
            ClientError::BadAnswer { .. } => {
                "org.apache.kafka.common.protocol.types.SchemaException"
            }
            ClientError::Config(_) => "org.apache.kafka.common.config.ConfigException",
        };
        Exception::new(class, error.to_string())
    }
}

/// An exception with those behind it; the first one's message is what is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub chain: Vec<Exception>,
}

impl Failure {
    /// `outer` around `inner`, which gives it its message, as Java's wrappers do.
    pub fn wrapped(outer: &str, inner: Failure) -> Failure {
        let message = inner
            .chain
            .first()
            .map(Exception::trace)
            .unwrap_or_default();
        let mut chain = vec![Exception::new(outer, message)];
        chain.extend(inner.chain);
        Failure { chain }
    }

    pub fn message(&self) -> &str {
        self.chain.first().map_or("", |first| &first.message)
    }

    /// Stack traces without frames.
    pub fn trace(&self) -> String {
        let traces: Vec<String> = self.chain.iter().map(Exception::trace).collect();
        traces.join("\nCaused by: ")
    }
}

/// What Java's `Future.get` throws when a call failed.
pub fn execution_failure(error: &ClientError) -> Failure {
    Failure::wrapped(EXECUTION, Exception::from(error).into())
}

impl From<Exception> for Failure {
    fn from(exception: Exception) -> Failure {
        Failure {
            chain: vec![exception],
        }
    }
}

impl From<ArgumentError> for Failure {
    fn from(error: ArgumentError) -> Failure {
        let mut chain = vec![Exception::new(error.exception(), error.to_string())];
        if let ArgumentError::Conversion { cause, .. } = &error {
            let (class, message) = cause.split_once(": ").unwrap_or((cause, ""));
            chain.push(Exception::new(
                "joptsimple.internal.ReflectionException",
                cause,
            ));
            chain.push(Exception::new(class, message));
        }
        Failure { chain }
    }
}

/// `String.hashCode`.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// Items in the order in which a `java.util.HashMap` with string keys gives them back, when they are put in the given
/// order; `capacity` is the constructor's argument, `None` its default. Keys are different from each other.
pub fn hash_map_order<T>(
    items: Vec<T>,
    capacity: Option<usize>,
    key: impl Fn(&T) -> &str,
) -> Vec<T> {
    hash_order(items, capacity, |item| string_hash(key(item)))
}

/// As `hash_map_order`, for keys with the given `hashCode`.
pub fn hash_order<T>(
    items: Vec<T>,
    capacity: Option<usize>,
    hash_code: impl Fn(&T) -> i32,
) -> Vec<T> {
    let mut buckets = capacity.unwrap_or(16).max(1).next_power_of_two();
    while items.len() > buckets / 4 * 3 + buckets % 4 * 3 / 4 {
        buckets *= 2;
    }
    let mut placed: Vec<(u32, T)> = items
        .into_iter()
        .map(|item| {
            let hash = hash_code(&item).cast_unsigned();
            let bucket = (hash ^ (hash >> 16)) & u32::try_from(buckets - 1).unwrap_or(u32::MAX);
            (bucket, item)
        })
        .collect();
    // Within a bucket a table keeps the order of insertion, also when it grows.
    placed.sort_by_key(|(bucket, _)| *bucket);
    placed.into_iter().map(|(_, item)| item).collect()
}

/// Partitions in the order of a `HashMap` with `TopicPartition` keys.
pub fn partition_order<T>(items: Vec<T>, partition: impl Fn(&T) -> &TopicPartition) -> Vec<T> {
    hash_order(items, None, |item| {
        let partition = partition(item);
        (31i32.wrapping_mul(31i32.wrapping_add(partition.partition)))
            .wrapping_add(string_hash(&partition.topic))
    })
}

/// Numbers in the order of a `HashSet<Integer>`.
pub fn integer_order(items: impl IntoIterator<Item = i32>) -> Vec<i32> {
    hash_order(items.into_iter().collect(), None, |item| *item)
}

/// The capacity that `new HashMap<>(other)` begins with.
pub fn copied_capacity(items: usize) -> usize {
    items + items.div_ceil(3) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(string_hash(""), 0);
        assert_eq!(string_hash("hello"), 99_162_322);
        assert_eq!(string_hash("polygenelubricants"), i32::MIN);
    }

    /// Orders that `HashMap` of JDK 21 showed.
    #[test]
    fn orders_are_javas() {
        let order =
            |names: &[&'static str]| hash_map_order(names.to_vec(), Some(names.len()), |name| name);
        assert_eq!(
            order(&[
                "one",
                "placed",
                "three",
                "two",
                "with.period",
                "with_underscore"
            ]),
            [
                "placed",
                "with.period",
                "three",
                "two",
                "with_underscore",
                "one"
            ]
        );
        assert_eq!(order(&["one", "placed", "two"]), ["two", "one", "placed"]);
        assert_eq!(
            order(&["__consumer_offsets", "one", "placed", "two"]),
            ["placed", "two", "__consumer_offsets", "one"]
        );
        assert_eq!(
            hash_map_order(vec!["one", "placed", "two"], None, |name| name),
            ["placed", "one", "two"]
        );
    }
}
