//! ZooKeeper's client port: four-letter words, the client protocol (jute) and the tree of paths that Kafka keeps there.
//! Not here: sockets (broker/src/network), the metadata itself (given as a `ClusterView`), writes: the tree is read-only.
//! Pure; called by the connection task with the bytes that arrived.
//! ZooKeeper 3.5: ServerCnxn, FinalRequestProcessor; Kafka 2.x: kafka.zk.ZkData.

pub mod four_letter;
pub mod jute;
pub mod session;
pub mod sniff;
pub mod tree;

pub use four_letter::{FourLetterWord, ServerView, Whitelist};
pub use session::{Session, Step};
pub use sniff::{Greeting, sniff};
pub use tree::{BrokerNode, ClusterView, ControllerNode, TopicNode, Tree, ZNode};
