//! Kafka's 128-bit id with its base64url text form.
//! Not here: random generation (shells draw the bytes and call `from_random_bytes`).
//! Pure data. Kafka: org.apache.kafka.common.Uuid; KIP-516.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::str::FromStr;

/// A topic id, directory id, cluster id, incarnation id.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// No id.
    pub const ZERO: Uuid = Uuid([0; 16]);
    /// The id of the metadata log's topic, `AAAAAAAAAAAAAAAAAAAAAQ`.
    pub const METADATA_TOPIC: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    /// `DirectoryId.UNASSIGNED` (KIP-858): the directory is not chosen yet.
    pub const DIR_UNASSIGNED: Uuid = Uuid::ZERO;
    /// `DirectoryId.LOST` (KIP-858): the directory failed or is gone.
    pub const DIR_LOST: Uuid = Uuid::METADATA_TOPIC;
    /// `DirectoryId.MIGRATING` (KIP-858): the log came from before directories had ids.
    pub const DIR_MIGRATING: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Uuid(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Makes a version 4 id of random bytes; `None` when the text form would start with `-` (tools would take it
    /// for an option) or the id is one of the first hundred, which Kafka reserves: draw again.
    pub fn from_random_bytes(mut bytes: [u8; 16]) -> Option<Self> {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let id = Uuid(bytes);
        (!id.to_string().starts_with('-')).then_some(id)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 22 base64url characters of 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUuidError(String);

impl fmt::Display for ParseUuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a base64url id of 16 bytes", self.0)
    }
}

impl std::error::Error for ParseUuidError {}

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|_| ParseUuidError(text.into()))?;
        let bytes: [u8; 16] = bytes.try_into().map_err(|_| ParseUuidError(text.into()))?;
        Ok(Uuid(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_kafkas() {
        assert_eq!(Uuid::METADATA_TOPIC.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAQ".parse(), Ok(Uuid::METADATA_TOPIC));
        assert!("short".parse::<Uuid>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn round_trips(bytes: [u8; 16]) {
            let id = Uuid::from_bytes(bytes);
            proptest::prop_assert_eq!(id.to_string().parse::<Uuid>().unwrap(), id);
        }

        #[test]
        fn random_ids_are_safe_on_a_command_line(bytes: [u8; 16]) {
            if let Some(id) = Uuid::from_random_bytes(bytes) {
                proptest::prop_assert!(!id.to_string().starts_with('-'));
            }
        }
    }
}
