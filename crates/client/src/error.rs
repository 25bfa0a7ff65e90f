//! What can go wrong between this client and a cluster, in three classes: the caller's request was refused, the
//! environment is in the way, the peer broke the protocol.
//! Not here: exit codes and the words of a tool.
//! Pure data. Kafka: org.apache.kafka.common.errors.*.

use crate::BrokerAddress;
use kavka_protocol::{ApiKey, DecodeError, EncodeError, ErrorCode};
use std::io;

/// Failure of one call or of finding somebody to call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The broker answered with an error code.
    #[error("{}", refusal_text(*.code, .message.as_deref()))]
    Refused {
        code: ErrorCode,
        /// The broker's own words, where the API has room for them.
        message: Option<String>,
    },
    /// No connection to this address.
    #[error("Connection to {address} failed: {source}")]
    Connect {
        address: BrokerAddress,
        source: io::Error,
    },
    /// Something answered, but it does not speak Kafka's protocol in plain text.
    #[error("{address} {what}")]
    NotKafka {
        address: BrokerAddress,
        what: String,
    },
    /// The connection broke during a call.
    #[error("Connection to {address} was lost: {source}")]
    Lost {
        address: BrokerAddress,
        source: io::Error,
    },
    /// No broker could be asked before the operation's time was over; Java's words, which hide the cause.
    #[error("Timed out waiting for a node assignment. Call: {call}")]
    NoBroker {
        call: String,
        /// What stood in the way at the last try.
        cause: Box<ClientError>,
    },
    /// No answer in time.
    #[error("{what} timed out after {timeout_ms} ms")]
    TimedOut { what: String, timeout_ms: u64 },
    /// Both sides know the API, but no common version of it, or the broker does not serve it.
    #[error("The broker does not support {}", .api.name())]
    UnsupportedApi { api: ApiKey },
    /// The peer sent what cannot be decoded.
    #[error("{address} sent an answer to {} that cannot be read: {source}", .api.name())]
    BadAnswer {
        address: BrokerAddress,
        api: ApiKey,
        source: DecodeError,
    },
    /// A request that the negotiated version cannot carry.
    #[error("The broker is too old for this request: {0}")]
    Unsendable(#[from] EncodeError),
    /// A setting that this client cannot honour.
    #[error("{0}")]
    Config(String),
}

impl ClientError {
    /// The code of a refusal, `None` for every other failure.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Makes an error of a wire code, `Ok` for `NONE`.
    pub fn check(raw_code: i16, message: Option<&str>) -> Result<(), ClientError> {
        match ErrorCode::from(raw_code) {
            ErrorCode::None => Ok(()),
            code => Err(ClientError::Refused {
                code,
                message: message.map(str::to_owned),
            }),
        }
    }

    /// Whether the same call may succeed a moment later, perhaps on another broker.
    pub fn is_retriable(&self) -> bool {
        match self {
            ClientError::Refused { code, .. } => code.is_retriable(),
            ClientError::Connect { .. } | ClientError::Lost { .. } => true,
            ClientError::NotKafka { .. }
            | ClientError::NoBroker { .. }
            | ClientError::TimedOut { .. }
            | ClientError::UnsupportedApi { .. }
            | ClientError::BadAnswer { .. }
            | ClientError::Unsendable(_)
            | ClientError::Config(_) => false,
        }
    }
}

fn refusal_text(code: ErrorCode, message: Option<&str>) -> String {
    match message {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => code.message().to_owned(),
    }
}
