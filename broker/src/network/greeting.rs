//! Other protocols on a Kafka port: who decides from the first bytes, and a conversation that is not Kafka's.
//! Not here: ZooKeeper's protocol itself (crates/zookeeper, zookeeper_port.rs).
//! Called by the connection task with the bytes that have arrived.
//! Kafka has no counterpart; ZooKeeper tells its commands from requests by the same four bytes.

use bytes::{Bytes, BytesMut};
use std::time::Duration;

/// What the first bytes of a connection are.
pub enum Greeting {
    /// Too few bytes to tell.
    Incomplete,
    /// A Kafka frame, or a stranger.
    Kafka,
    /// A command: the answer, and the connection is closed.
    Answer(Bytes),
    /// Another protocol has this connection from here on.
    Conversation(Box<dyn Conversation>),
}

/// The server's side of another protocol.
pub trait Conversation: Send {
    /// Takes what it can from the input, which grows with each call and never beyond [`Self::input_max_bytes`].
    fn step(&mut self, input: &mut BytesMut) -> ConversationStep;

    fn input_max_bytes(&self) -> usize;

    /// How long the peer may be silent.
    fn idle(&self) -> Duration;
}

/// What a conversation does next.
pub enum ConversationStep {
    /// It waits for more input.
    More,
    /// It may have more to say about the same input.
    Send(Bytes),
    SendAndClose(Bytes),
    /// The reason is for the log.
    Close(String),
}
