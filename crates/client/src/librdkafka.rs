//! What librdkafka reports while it works, in terms of the cluster: which address failed, which topic is missing.
//! Not here: how a tool words it on standard error, the clients.
//! Called from whichever thread polls a client. Kafka: the log lines of org.apache.kafka.clients.NetworkClient.

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// A thing worth a line on standard error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// No connection to `address` could be made.
    Unreachable {
        address: String,
        /// -1 for an address out of `bootstrap.servers`.
        node_id: i32,
        reason: String,
    },
    /// A connection that stood was lost, or ended before the broker said who it is.
    Disconnected {
        address: String,
        node_id: i32,
        reason: String,
    },
    /// A name that cannot be turned into an address.
    Unresolvable { address: String },
    /// The cluster's answer about a topic; the error's name is Kafka's.
    Topic { topic: String, error: &'static str },
    /// The cluster refuses who we are.
    AuthenticationFailed { reason: String },
    /// Consuming goes on from an offset other than the one asked for.
    OffsetReset { text: String },
    /// Anything else at warning level or above.
    Other { text: String },
}

/// Takes events; never called concurrently by one client's poll.
pub trait Observer: Send + Sync {
    fn event(&self, event: Event);
}

/// An error with the class and message that Java's client gives it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class}{}", if .message.is_empty() { String::new() } else { format!(": {}", .message) })]
pub struct JavaError {
    pub class: &'static str,
    pub message: String,
}

impl JavaError {
    pub fn new(class: &'static str, message: impl Into<String>) -> Self {
        JavaError {
            class,
            message: message.into(),
        }
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        JavaError::new("org.apache.kafka.common.errors.TimeoutException", message)
    }

    /// Is it about who we are or what we may do?
    pub fn is_denial(&self) -> bool {
        self.class.contains("Authorization") || self.class.contains("Authentication")
    }

    pub fn invalid_topic(topic: &str) -> Self {
        JavaError::new(
            "org.apache.kafka.common.errors.InvalidTopicException",
            format!("Invalid topics: [{topic}]"),
        )
    }

    /// Kafka's rule for names; librdkafka takes any and then waits for it.
    pub fn check_topic(topic: &str) -> Result<(), JavaError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if topic.is_empty()
            || topic.len() > 249
            || matches!(topic, "." | "..")
            || !topic.bytes().all(legal)
        {
            return Err(JavaError::invalid_topic(topic));
        }
        Ok(())
    }

    pub fn topic_denied(topic: &str) -> Self {
        JavaError::new(
            "org.apache.kafka.common.errors.TopicAuthorizationException",
            format!("Not authorized to access topics: [{topic}]"),
        )
    }

    pub(crate) fn from_code(code: RDKafkaErrorCode, topic: &str) -> Self {
        use RDKafkaErrorCode as C;
        let error = |class, message: &str| JavaError::new(class, message);
        match code {
            C::MessageTimedOut | C::RequestTimedOut | C::OperationTimedOut => {
                JavaError::timeout(format!(
                    "Expiring record(s) for {topic}: no acknowledgement within delivery.timeout.ms"
                ))
            }
            C::MessageSizeTooLarge => error(
                "org.apache.kafka.common.errors.RecordTooLargeException",
                "The request included a message larger than the max message size the server will accept.",
            ),
            C::MessageBatchTooLarge => error(
                "org.apache.kafka.common.errors.RecordBatchTooLargeException",
                "The request included message batch larger than the configured segment size on the server.",
            ),
            C::InvalidTopic => JavaError::invalid_topic(topic),
            C::TopicAuthorizationFailed => JavaError::topic_denied(topic),
            C::GroupAuthorizationFailed => error(
                "org.apache.kafka.common.errors.GroupAuthorizationException",
                "Not authorized to access group.",
            ),
            C::ClusterAuthorizationFailed => error(
                "org.apache.kafka.common.errors.ClusterAuthorizationException",
                "Cluster authorization failed.",
            ),
            C::UnknownTopicOrPartition | C::UnknownTopic | C::UnknownPartition => error(
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
                "This server does not host this topic-partition.",
            ),
            C::NotEnoughReplicas => error(
                "org.apache.kafka.common.errors.NotEnoughReplicasException",
                "Messages are rejected since there are fewer in-sync replicas than required.",
            ),
            C::NotEnoughReplicasAfterAppend => error(
                "org.apache.kafka.common.errors.NotEnoughReplicasAfterAppendException",
                "Messages are written to the log, but to fewer in-sync replicas than required.",
            ),
            C::Authentication | C::SaslAuthenticationFailed => error(
                "org.apache.kafka.common.errors.SaslAuthenticationException",
                "Authentication failed",
            ),
            C::InvalidRecord => error(
                "org.apache.kafka.common.InvalidRecordException",
                "This record has failed the validation on the broker and hence will be rejected.",
            ),
            C::PolicyViolation => error(
                "org.apache.kafka.common.errors.PolicyViolationException",
                "Request parameters do not satisfy the configured policy.",
            ),
            other => JavaError::new("org.apache.kafka.common.KafkaException", other.to_string()),
        }
    }
}

/// Turns a log line of librdkafka into an event, if it says something an operator has to know.
pub(crate) fn from_log(level: RDKafkaLogLevel, facility: &str, text: &str) -> Option<Event> {
    if (level as i32) > RDKafkaLogLevel::Warning as i32 {
        return None;
    }
    // Failures arrive as errors as well, with the error's code; what is tried again is no trouble yet.
    if matches!(facility, "FAIL" | "ERROR") || text.ends_with(": retrying") {
        return None;
    }
    let text = text.split_once("]: ").map_or(text, |(thread, rest)| {
        if thread.starts_with("[thrd:") {
            rest
        } else {
            text
        }
    });
    Some(match facility {
        "OFFSET" => Event::OffsetReset {
            text: text.to_owned(),
        },
        _ => Event::Other {
            text: format!("{facility}: {text}"),
        },
    })
}

/// Turns an error that concerns the client as a whole into an event.
pub(crate) fn from_error(error: &KafkaError, reason: &str) -> Option<Event> {
    use RDKafkaErrorCode as C;
    let code = error.rdkafka_error_code()?;
    let (address, node_id, text) = split_broker(reason);
    match code {
        // Follows the failure of each single broker.
        C::AllBrokersDown => None,
        C::Resolve => Some(Event::Unresolvable {
            address: address.to_owned(),
        }),
        C::BrokerTransportFailure if text.starts_with("Connect to") => {
            let cause = text.split_once("failed: ").map_or(text, |(_, cause)| cause);
            Some(Event::Unreachable {
                address: address.to_owned(),
                node_id,
                reason: cause.split(" (after").next().unwrap_or(cause).to_owned(),
            })
        }
        C::BrokerTransportFailure | C::SSL | C::OperationTimedOut if !address.is_empty() => {
            Some(Event::Disconnected {
                address: address.to_owned(),
                node_id,
                reason: text.to_owned(),
            })
        }
        C::Authentication => Some(Event::AuthenticationFailed {
            reason: text.to_owned(),
        }),
        C::UnknownTopicOrPartition | C::UnknownTopic => {
            Some(topic_event(reason, "UNKNOWN_TOPIC_OR_PARTITION"))
        }
        C::InvalidTopic => Some(topic_event(reason, "INVALID_TOPIC_EXCEPTION")),
        C::TopicAuthorizationFailed => Some(topic_event(reason, "TOPIC_AUTHORIZATION_FAILED")),
        // The poll that follows returns these, and the tool acts on them.
        C::AutoOffsetReset | C::PartitionEOF | C::UnknownPartition | C::NoOffset => None,
        other => Some(Event::Other {
            text: format!("{other}: {reason}"),
        }),
    }
}

/// `Subscribed topic not available: NAME: Broker: …`
fn topic_event(reason: &str, error: &'static str) -> Event {
    let topic = reason
        .split_once("not available: ")
        .map_or(reason, |(_, rest)| rest)
        .rsplit_once(": Broker:")
        .map_or(reason, |(topic, _)| topic)
        .to_owned();
    Event::Topic { topic, error }
}

/// Splits `[protocol://]host:port/id: text`.
fn split_broker(reason: &str) -> (&str, i32, &str) {
    let Some((broker, text)) = reason.split_once(": ") else {
        return ("", -1, reason);
    };
    let broker = broker.split_once("://").map_or(broker, |(_, rest)| rest);
    match broker.rsplit_once('/') {
        Some((address, id)) if !address.contains(' ') => (address, id.parse().unwrap_or(-1), text),
        _ => ("", -1, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(reason: &str) -> Option<Event> {
        from_error(
            &KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure),
            reason,
        )
    }

    #[test]
    fn failures_name_the_address() {
        assert_eq!(
            transport(
                "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)"
            ),
            Some(Event::Unreachable {
                address: "127.0.0.1:1".into(),
                node_id: -1,
                reason: "Connection refused".into()
            })
        );
        assert_eq!(
            transport("ssl://h:9092/3: Disconnected while requesting ApiVersion: might be x"),
            Some(Event::Disconnected {
                address: "h:9092".into(),
                node_id: 3,
                reason: "Disconnected while requesting ApiVersion: might be x".into()
            })
        );
        assert_eq!(
            from_error(
                &KafkaError::Global(RDKafkaErrorCode::UnknownTopicOrPartition),
                "Subscribed topic not available: a: b: Broker: Unknown topic or partition"
            ),
            Some(Event::Topic {
                topic: "a: b".into(),
                error: "UNKNOWN_TOPIC_OR_PARTITION"
            })
        );
        assert_eq!(
            from_error(
                &KafkaError::Global(RDKafkaErrorCode::AllBrokersDown),
                "1/1 brokers are down"
            ),
            None
        );
    }

    #[test]
    fn only_warnings_that_say_something_new() {
        assert_eq!(from_log(RDKafkaLogLevel::Info, "X", "y"), None);
        assert_eq!(from_log(RDKafkaLogLevel::Error, "FAIL", "y"), None);
        assert_eq!(
            from_log(RDKafkaLogLevel::Warning, "CONFWARN", "[thrd:app]: No `x`"),
            Some(Event::Other {
                text: "CONFWARN: No `x`".into()
            })
        );
    }
}
