//! The only mapping from error enums to the wire's error codes.
//! Not here: the errors themselves (each room has its own), messages of responses (handlers).
//! Pure. Exhaustive matches only: a new error does not compile until it has its code.
//! Kafka: org.apache.kafka.common.protocol.Errors.

use kavka_protocol::ErrorCode;

/// An error that a client is told by number.
pub trait WireError {
    fn error_code(&self) -> ErrorCode;
}
