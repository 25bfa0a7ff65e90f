//! Settings: `.properties` files, the one table of definitions, start-up validation, DescribeConfigs' view of them.
//! Not here: reading files, applying a setting; each crate takes its own small struct of what it needs.
//! Pure data and functions, used from any task; nothing here is parsed before it is asked for.
//! Kafka: KafkaConfig, LogConfig, GroupConfig, ConfigDef, ConfigHelper, DynamicBrokerConfig.

pub mod broker;
pub mod definition;
pub mod dynamic;
pub mod error;
pub mod generated;
pub mod listener;
pub mod properties;
pub mod quorum;
pub mod source;
pub mod spelling;
pub mod topic;
pub mod value;
pub mod zookeeper;

pub use broker::{BrokerConfig, MetadataVia, ServerMode};
pub use definition::{Definition, Importance, Kind, UpdateMode};
pub use dynamic::{Layers, Overrides};
pub use error::ConfigError;
pub use listener::{Listener, SecurityProtocol};
pub use properties::Properties;
pub use quorum::{HostPort, Voter, ZooKeeperConnect};
pub use source::{ConfigSource, Described, Synonym};
pub use topic::TopicConfig;
pub use value::Value;
pub use zookeeper::ZooKeeperConfig;
