//! Distinct integer types for ids and epochs, so that one kind cannot be passed for another.
//! Not here: where they are allocated or persisted. `Offset` stays a plain `i64`: it is added, subtracted
//! and compared on every line of the log, and a wrapper hid no mistake that the field names do not.
//! Pure data. Kafka: RecordBatch.NO_*, MetadataResponse.NO_*, KIP-101, KIP-497, KIP-631, KIP-848.

use std::fmt;

/// A position in a partition's log. Inclusive in `last_offset`, exclusive in `log_end_offset`,
/// `high_watermark` and `last_stable_offset`.
pub type Offset = i64;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty) { $($(#[$cdoc:meta])* $konst:ident = $value:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            $($(#[$cdoc])* pub const $konst: $name = $name($value);)*

            /// The raw number as the wire and the disk carry it.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl From<$inner> for $name {
            fn from(raw: $inner) -> Self {
                $name(raw)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A broker's or a controller's id: `node.id`, `broker.id`.
    NodeId(i32) {
        /// No node: a partition without leader, a quorum without leader.
        NONE = -1;
        /// `replica_id` of an ordinary consumer in Fetch and ListOffsets.
        CONSUMER = -1;
        /// `replica_id` of the tool that reads unreplicated data.
        DEBUGGING_CONSUMER = -2;
    }
}

/// A node that plays the broker role.
pub type BrokerId = NodeId;

id! {
    /// Counts the leaderships of one partition (KIP-101, KIP-320).
    LeaderEpoch(i32) {
        /// Not known, or not given by the client.
        UNKNOWN = -1;
        /// Of a new partition.
        INITIAL = 0;
    }
}

id! {
    /// Counts the changes of one partition's registration (KIP-497).
    PartitionEpoch(i32) {
        /// Of a new partition.
        INITIAL = 0;
    }
}

id! {
    /// A broker's registration: the offset of its record in the metadata log (KIP-631, KIP-903).
    BrokerEpoch(i64) {
        /// Not registered, or not given.
        UNKNOWN = -1;
    }
}

id! {
    /// The term of the metadata quorum's leader.
    ControllerEpoch(i32) {
        /// No leader yet.
        UNKNOWN = -1;
    }
}

id! {
    /// An idempotent producer (KIP-98).
    ProducerId(i64) {
        /// The batch has no producer.
        NONE = -1;
    }
}

id! {
    /// Fences earlier incarnations of the same producer id (KIP-98).
    ProducerEpoch(i16) {
        /// The batch has no producer.
        NONE = -1;
    }
}

id! {
    /// Version of a group's membership and subscription metadata (KIP-848).
    GroupEpoch(i32) {
        /// Of a new group.
        INITIAL = 0;
    }
}

id! {
    /// The target assignment version that a member has reached (KIP-848).
    MemberEpoch(i32) {
        /// Asks to join.
        JOIN = 0;
        /// Leaves the group.
        LEAVE = -1;
        /// A static member leaves for a while.
        LEAVE_STATIC = -2;
    }
}
