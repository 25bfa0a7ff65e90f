//! Operations of the admin tools, one file per object; each is a function over a `Cluster`.
//! Not here: routing and retries (cluster), the words of a tool.
//! Runs on the caller's task. Kafka: org.apache.kafka.clients.admin.{Admin, KafkaAdminClient}.

pub mod brokers;
pub mod configs;
pub mod describe_topics;
pub mod elections;
pub mod features;
pub mod groups;
pub mod log_dirs;
pub mod nodes;
pub mod offsets;
pub mod quorum;
pub mod reassignments;
pub mod replicas;
pub mod topics;

use crate::ClientError;
use kavka_protocol::StrBytes;

/// What one item of a request came to.
pub type ItemResult<T> = Result<T, ClientError>;

/// The outcome that an answer gives an item by code and message.
fn outcome(code: i16, message: Option<&StrBytes>) -> ItemResult<()> {
    ClientError::check(code, message.map(|text| &**text))
}
