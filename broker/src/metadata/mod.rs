//! This node's view of the cluster: follows the metadata log, keeps the latest image, tells the parts of the broker.
//! Not here: what metadata is (crates/metadata), the log (quorum/), what the parts do about a change.
//! One task loads and publishes; the image may be read from any task without waiting.
//! Kafka: MetadataLoader, KRaftMetadataCache, BrokerMetadataPublisher; KIP-500.

mod cache;
mod loader;
mod observer;

pub use cache::{MetadataCache, NotVisible};
pub use loader::{MetadataPublisher, MetadataSource, load};
pub use observer::Observer;
