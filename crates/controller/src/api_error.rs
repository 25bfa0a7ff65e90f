//! What a refused operation answers: an error code and a message.
//! Not here: where it goes in a response (each handler).
//! Pure data. Kafka: org.apache.kafka.common.requests.ApiError.

use kavka_protocol::ErrorCode;

/// A refusal. `message` is `None` where Kafka sends null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub error: ErrorCode,
    pub message: Option<String>,
}

impl ApiError {
    /// Without a message of its own.
    pub fn of(error: ErrorCode) -> Self {
        ApiError {
            error,
            message: None,
        }
    }

    pub fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        ApiError {
            error,
            message: Some(message.into()),
        }
    }
}
