//! From which replica a consumer of a rack should read.
//! Not here: which replicas may serve its offset (the partition's owner), which racks brokers stand in (the metadata).
//! Pure. Kafka: RackAwareReplicaSelector, ReplicaView; KIP-392.

use kavka_common::{NodeId, Offset};

/// A replica that holds what the consumer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaView<'a> {
    pub broker_id: NodeId,
    pub rack: Option<&'a str>,
    pub log_end_offset: Offset,
    /// When it last had all that the leader had; greater is later.
    pub last_caught_up_ms: i64,
}

/// The follower to read from; `None` stands for the leader, which is as good as any in its own rack, and the only choice
/// where the consumer's rack has no replica. Of several followers the one with the longest log, then the one that was
/// caught up last, then the one with the greatest id.
pub fn closest_follower(
    rack: &str,
    leader_rack: Option<&str>,
    followers: &[ReplicaView<'_>],
) -> Option<NodeId> {
    if rack.is_empty() || leader_rack == Some(rack) {
        return None;
    }
    followers
        .iter()
        .filter(|follower| follower.rack == Some(rack))
        .max_by_key(|follower| {
            (
                follower.log_end_offset,
                follower.last_caught_up_ms,
                follower.broker_id,
            )
        })
        .map(|follower| follower.broker_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_where_it_is_as_near() {
        let follower = |id, rack, log_end_offset, last_caught_up_ms| ReplicaView {
            broker_id: NodeId(id),
            rack,
            log_end_offset,
            last_caught_up_ms,
        };
        let followers = [
            follower(2, Some("b"), 10, 5),
            follower(3, Some("b"), 12, 1),
            follower(4, None, 20, 9),
        ];
        let closest = |rack, leader| closest_follower(rack, leader, &followers);
        assert_eq!(closest("b", Some("a")), Some(NodeId(3)));
        assert_eq!(closest("b", None), Some(NodeId(3)));
        assert_eq!(closest("b", Some("b")), None);
        assert_eq!(closest("c", Some("a")), None);
        assert_eq!(closest("", Some("a")), None);
        let equal = [follower(2, Some("b"), 10, 5), follower(3, Some("b"), 10, 4)];
        assert_eq!(closest_follower("b", None, &equal), Some(NodeId(2)));
    }
}
