//! The length-prefixed frame: how many bytes a request still needs, and why a length is refused.
//! Not here: sockets, request headers (api/table.rs), what to say about foreign protocols (first_bytes.rs).
//! Pure; called by the connection task on its input buffer.
//! Kafka: org.apache.kafka.common.network.NetworkReceive.

use crate::network::first_bytes::{self, Foreign};

/// Bytes of the length in front of each frame.
pub const LENGTH_BYTES: usize = 4;
/// A request cannot be shorter than api key, version and correlation id.
pub const REQUEST_MIN_BYTES: usize = 8;

/// What the input buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStep {
    /// Fewer than four bytes: the length is not known yet.
    LengthIncomplete,
    /// The frame's body is `length` bytes long and `missing` of them have not arrived.
    Incomplete { length: usize, missing: usize },
    /// The whole frame is there: four bytes of length and `length` bytes of body.
    Complete { length: usize },
}

/// Why the peer is disconnected at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("Invalid receive (size = {0})")]
    Negative(i32),
    #[error("Invalid receive (size = {0} smaller than {REQUEST_MIN_BYTES})")]
    TooSmall(usize),
    #[error("Invalid receive (size = {length} larger than {limit})")]
    TooLarge { length: usize, limit: usize },
    #[error("{0}")]
    Foreign(Foreign),
}

/// Looks at the start of the input. `limit` caps the body; `first` says that nothing valid came from this
/// peer yet, so that the bytes may be another protocol's greeting.
pub fn step(input: &[u8], limit: usize, first: bool) -> Result<FrameStep, FrameError> {
    let Some(head) = input.first_chunk::<LENGTH_BYTES>() else {
        return Ok(FrameStep::LengthIncomplete);
    };
    let raw = i32::from_be_bytes(*head);
    let foreign = || {
        first
            .then(|| first_bytes::recognise(*head))
            .flatten()
            .map(FrameError::Foreign)
    };
    let Ok(length) = usize::try_from(raw) else {
        return Err(foreign().unwrap_or(FrameError::Negative(raw)));
    };
    if length > limit {
        return Err(foreign().unwrap_or(FrameError::TooLarge { length, limit }));
    }
    if length < REQUEST_MIN_BYTES {
        return Err(FrameError::TooSmall(length));
    }
    let arrived = input.len() - LENGTH_BYTES;
    if arrived >= length {
        Ok(FrameStep::Complete { length })
    } else {
        Ok(FrameStep::Incomplete {
            length,
            missing: length - arrived,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_refused_before_anything_is_allocated() {
        let cases = [
            (-1_i32, FrameError::Negative(-1)),
            (i32::MIN, FrameError::Negative(i32::MIN)),
            (0, FrameError::TooSmall(0)),
            (3, FrameError::TooSmall(3)),
            (7, FrameError::TooSmall(7)),
            (
                101,
                FrameError::TooLarge {
                    length: 101,
                    limit: 100,
                },
            ),
            (
                i32::MAX,
                FrameError::TooLarge {
                    length: i32::MAX as usize,
                    limit: 100,
                },
            ),
        ];
        for (raw, expected) in cases {
            assert_eq!(step(&raw.to_be_bytes(), 100, false), Err(expected), "{raw}");
        }
    }

    #[test]
    fn another_protocol_is_named_only_at_the_start_of_a_connection() {
        assert_eq!(
            step(b"GET / HTTP/1.1", 1 << 20, true),
            Err(FrameError::Foreign(Foreign::Http))
        );
        assert!(matches!(
            step(b"GET / HTTP/1.1", 1 << 20, false),
            Err(FrameError::TooLarge { .. })
        ));
    }

    proptest! {
        #[test]
        fn a_frame_completes_exactly_at_its_last_byte(body in 8_usize..300, cut in 0_usize..400) {
            let mut bytes = i32::try_from(body).unwrap().to_be_bytes().to_vec();
            bytes.resize(LENGTH_BYTES + body, 0);
            let cut = cut.min(bytes.len());
            let expected = if cut < LENGTH_BYTES {
                FrameStep::LengthIncomplete
            } else if cut == bytes.len() {
                FrameStep::Complete { length: body }
            } else {
                FrameStep::Incomplete { length: body, missing: bytes.len() - cut }
            };
            prop_assert_eq!(step(&bytes[..cut], 300, true), Ok(expected));
        }
    }
}
