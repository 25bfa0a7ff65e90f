//! Tells what a new connection on the client port speaks, from its first bytes.
//! Not here: TLS, HTTP and other strangers (broker/src/network/first_bytes.rs).
//! Pure. ZooKeeper: NIOServerCnxn.readLength reads the same four bytes as a length or as a command.

use crate::four_letter::FourLetterWord;

/// Bytes that `sniff` needs to decide every case.
pub const SNIFF_BYTES_MAX: usize = 8;

/// Who is calling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Too few bytes yet.
    Incomplete,
    /// One of the four-letter words: answer and close.
    FourLetterWord(FourLetterWord),
    /// A ZooKeeper client opens or resumes a session: its frame is left in the input for `Session`.
    Jute,
    /// The length of a Kafka request, or a stranger.
    Kafka,
}

/// Looks at the start of a connection and consumes nothing.
///
/// A ConnectRequest is 44 bytes (45 with the read-only flag) and starts with protocol version 0. Read as a Kafka
/// header that would be Produce version 0, which Kafka 4 does not serve, so the two cannot be confused.
pub fn sniff(input: &[u8]) -> Greeting {
    let Some(head) = input.first_chunk::<4>() else {
        return Greeting::Incomplete;
    };
    if let Some(word) = FourLetterWord::parse(*head) {
        return Greeting::FourLetterWord(word);
    }
    if !matches!(u32::from_be_bytes(*head), 44 | 45) {
        return Greeting::Kafka;
    }
    match input.get(4..8) {
        None => Greeting::Incomplete,
        Some([0, 0, 0, 0]) => Greeting::Jute,
        Some(_) => Greeting::Kafka,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_told_apart() {
        let connect = [0, 0, 0, 45, 0, 0, 0, 0, 0];
        let connect_without_flag = [0, 0, 0, 44, 0, 0, 0, 0];
        // ApiVersions v3 whose frame happens to have the length of a ConnectRequest.
        let kafka = [0, 0, 0, 45, 0, 18, 0, 3];
        assert_eq!(sniff(b""), Greeting::Incomplete);
        assert_eq!(sniff(b"ruo"), Greeting::Incomplete);
        assert_eq!(sniff(&connect[..6]), Greeting::Incomplete);
        assert_eq!(sniff(&connect), Greeting::Jute);
        assert_eq!(sniff(&connect_without_flag), Greeting::Jute);
        assert_eq!(sniff(&kafka), Greeting::Kafka);
        assert_eq!(sniff(&[0, 0, 0, 46]), Greeting::Kafka);
        assert_eq!(
            sniff(b"ruok\n"),
            Greeting::FourLetterWord(FourLetterWord::Ruok)
        );
        assert_eq!(sniff(b"GET "), Greeting::Kafka);
    }
}
