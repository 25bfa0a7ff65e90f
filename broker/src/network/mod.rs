//! The sockets of the server: listeners, connections, the limits on both.
//! Not here: what a request means (api/), which listeners there are (server.rs reads the configuration).
//! One accept task per listener, one task per connection.
//! Kafka: kafka.network.SocketServer; KIP-72 (request memory), KIP-306, KIP-612 (connection limits).

mod budget;
mod connection;
mod connection_quota;
mod first_bytes;
mod frame;
mod greeting;
mod limits;
mod listener;
mod pending;
mod send_queue;
mod socket_server;

#[cfg(test)]
mod connection_test;

pub use budget::{RequestBudget, default_limit_bytes};
pub use connection::{ConnectionInfo, Dispatch};
pub use first_bytes::{FOUR_LETTER_WORDS, Foreign, recognise};
pub use greeting::{Conversation, ConversationStep, Greeting};
pub use limits::NetworkLimits;
pub use listener::{BindError, Endpoint, ListenerInfo, ListenerKind};
pub use pending::{Pending, Reply};
pub use socket_server::SocketServer;

pub(crate) use socket_server::NetworkShared;
