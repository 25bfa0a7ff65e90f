//! A small Kafka client; behind the feature `rdkafka`, a producer and a consumer with Java's property names.
//! Not here: what tools print (tools).
//! Kafka: org.apache.kafka.clients.

#[cfg(feature = "rdkafka")]
pub mod consumer;
pub mod java_properties;
#[cfg(feature = "rdkafka")]
pub mod librdkafka;
#[cfg(feature = "rdkafka")]
pub mod producer;
