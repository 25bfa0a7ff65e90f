//! Names the protocol of a peer that does not speak Kafka, so that the log says what to change.
//! Not here: the framing itself, answers to ZooKeeper's four-letter words (crates/zookeeper).
//! Pure. Kafka logs only `Invalid receive (size = 369295616 …)`; wishes.md asks for the cause.

use std::fmt;

/// A recognised greeting that is not a Kafka frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A TLS record of type handshake: the peer believes that this listener is SSL.
    Tls,
    /// The verb of an HTTP request.
    Http,
    /// `SSH-`.
    Ssh,
    /// One of ZooKeeper's four-letter words.
    FourLetterWord([u8; 4]),
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Tls => f.write_str(
                "the peer sent a TLS handshake to a plaintext listener; set security.protocol=PLAINTEXT in the client, or use the port of an SSL listener",
            ),
            Foreign::Http => f.write_str(
                "the peer sent an HTTP request; this port speaks the Kafka protocol",
            ),
            Foreign::Ssh => f.write_str("the peer speaks SSH; this port speaks the Kafka protocol"),
            Foreign::FourLetterWord(word) => write!(
                f,
                "the peer sent ZooKeeper's command '{}'; this port speaks the Kafka protocol",
                String::from_utf8_lossy(word)
            ),
        }
    }
}

const HTTP_VERBS: [&[u8; 4]; 8] = [
    b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN",
];

/// ZooKeeper's administrative commands (ZooKeeper administrator's guide, "The Four Letter Words").
pub const FOUR_LETTER_WORDS: [&[u8; 4]; 15] = [
    b"conf", b"cons", b"crst", b"dirs", b"dump", b"envi", b"hash", b"isro", b"mntr", b"ruok",
    b"srst", b"srvr", b"stat", b"wchs", b"wchc",
];

/// Tells a known greeting from the first four bytes of a connection.
pub fn recognise(head: [u8; 4]) -> Option<Foreign> {
    // A TLS record: type 22 (handshake), major version 3.
    if head[0] == 0x16 && head[1] == 0x03 {
        return Some(Foreign::Tls);
    }
    if HTTP_VERBS.contains(&&head) {
        return Some(Foreign::Http);
    }
    if &head == b"SSH-" {
        return Some(Foreign::Ssh);
    }
    if FOUR_LETTER_WORDS.contains(&&head) {
        return Some(Foreign::FourLetterWord(head));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_recognised() {
        assert_eq!(recognise([0x16, 0x03, 0x01, 0x02]), Some(Foreign::Tls));
        assert_eq!(recognise(*b"GET "), Some(Foreign::Http));
        assert_eq!(recognise(*b"SSH-"), Some(Foreign::Ssh));
        assert_eq!(recognise(*b"ruok"), Some(Foreign::FourLetterWord(*b"ruok")));
        for kafka in [0_i32, 20, 300, 65_536, 104_857_600] {
            assert_eq!(recognise(kafka.to_be_bytes()), None, "{kafka}");
        }
    }
}
