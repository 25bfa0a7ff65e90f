//! Ids, epochs and small types that carry Kafka's names, their sentinels, and the clock seam.
//! Not here: wire encoding, configuration, I/O of any kind (the region trait is only a seam).
//! Pure data, used from any task; `clock::SystemClock` alone touches the machine.
//! Kafka: org.apache.kafka.common.{TopicPartition, Uuid}, server-common; KIP-516, KIP-631.

pub mod clock;
pub mod guards;
pub mod ids;
pub mod region;
pub mod topic;
pub mod uuid;

pub use clock::{Clock, ManualClock, SystemClock};
pub use guards::Guard;
pub use ids::{
    BrokerEpoch, BrokerId, ControllerEpoch, GroupEpoch, LeaderEpoch, MemberEpoch, NodeId, Offset,
    PartitionEpoch, ProducerEpoch, ProducerId,
};
pub use region::{FileRegion, RegionSource};
pub use topic::{TopicIdPartition, TopicPartition};
pub use uuid::Uuid;
