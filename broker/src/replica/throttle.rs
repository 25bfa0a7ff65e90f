//! Throttled replication: the limits of this broker, and for which of its replicas they hold.
//! Not here: the limit itself (kavka_replication::Throttle); clients' quotas.
//! Two short mutexes, one as leader and one as follower. Kafka: ReplicationQuotaManager, TopicConfigHandler, BrokerConfigHandler; KIP-73.

use kavka_config::Layers;
use kavka_replication::Throttle;
use parking_lot::Mutex;

/// Dynamic settings of a broker that have no place in its file.
const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";

/// `leader.replication.throttled.replicas` or `follower.replication.throttled.replicas` of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    #[default]
    None,
    All,
    /// Partition and broker.
    Listed(Vec<(i32, i32)>),
}

impl ThrottledReplicas {
    /// From entries `partition:broker` or `*`, which have been checked.
    pub fn from_entries(entries: &[String]) -> ThrottledReplicas {
        if entries.iter().any(|entry| entry.trim() == "*") {
            return ThrottledReplicas::All;
        }
        let pair = |entry: &String| {
            let (partition, broker) = entry.split_once(':')?;
            Some((partition.trim().parse().ok()?, broker.trim().parse().ok()?))
        };
        let listed: Vec<(i32, i32)> = entries.iter().filter_map(pair).collect();
        match listed.is_empty() {
            true => ThrottledReplicas::None,
            false => ThrottledReplicas::Listed(listed),
        }
    }

    pub fn contains(&self, partition: i32, broker_id: i32) -> bool {
        match self {
            ThrottledReplicas::None => false,
            ThrottledReplicas::All => true,
            ThrottledReplicas::Listed(listed) => listed.contains(&(partition, broker_id)),
        }
    }
}

/// The limits of a broker.
#[derive(Debug)]
pub struct Throttles {
    /// On what it gives to followers that are not in sync.
    pub leader: Mutex<Throttle>,
    /// On what it fetches for replicas that lag.
    pub follower: Mutex<Throttle>,
}

impl Throttles {
    pub fn new(window_ms: u32) -> Throttles {
        Throttles {
            leader: Mutex::new(Throttle::new(window_ms)),
            follower: Mutex::new(Throttle::new(window_ms)),
        }
    }

    /// Takes over the rates that the metadata has for this broker.
    pub fn configure(&self, now_ms: i64, layers: &Layers) {
        for (throttle, key) in [(&self.leader, LEADER_RATE), (&self.follower, FOLLOWER_RATE)] {
            let text = layers
                .dynamic_broker
                .get(key)
                .or_else(|| layers.dynamic_default.get(key));
            let rate = text.and_then(|text| match text.trim().parse::<i64>() {
                Ok(i64::MAX) => None,
                Ok(rate) => Some(u64::try_from(rate).unwrap_or(0)),
                Err(_) => {
                    tracing::warn!(target: "kafka.server.BrokerConfigHandler", "{key}={text} is not a number of bytes; replication is not throttled by it");
                    None
                }
            });
            throttle.lock().set_rate(now_ms, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_replicas_or_all() {
        let of = |entries: &[&str]| {
            let entries: Vec<String> = entries.iter().map(|e| (*e).to_owned()).collect();
            ThrottledReplicas::from_entries(&entries)
        };
        assert_eq!(of(&[]), ThrottledReplicas::None);
        assert!(of(&["*"]).contains(5, 1));
        let listed = of(&["0:1", "2:3"]);
        assert!(listed.contains(0, 1));
        assert!(!listed.contains(0, 3));
        assert!(!listed.contains(2, 1));
    }
}
