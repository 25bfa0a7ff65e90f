//! `host:port` lists as Kafka's tools take them, IPv6 in brackets.
//! Not here: name resolution (the connection does it, each time it connects).
//! Pure. Kafka: org.apache.kafka.clients.ClientUtils, common.utils.Utils.getHost/getPort.

use std::fmt;
use std::str::FromStr;

/// One address of a bootstrap list or of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BrokerAddress {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
}

impl BrokerAddress {
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        BrokerAddress {
            host: host.into(),
            port,
        }
    }

    /// Reads a comma-separated list; blanks and empty entries are skipped, as Java does.
    pub fn parse_list(text: &str) -> Result<Vec<BrokerAddress>, InvalidAddress> {
        let list: Vec<_> = text
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        if list.is_empty() {
            return Err(InvalidAddress(text.to_owned()));
        }
        Ok(list)
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The text is not `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid url in bootstrap.servers: {0}")]
pub struct InvalidAddress(pub String);

impl FromStr for BrokerAddress {
    type Err = InvalidAddress;

    /// Accepts `host:port`, `[v6]:port`, and a `PROTOCOL://` in front, which it ignores like Java's pattern does.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidAddress(text.to_owned());
        let bare = match text.split_once("://") {
            Some((_, rest)) => rest,
            None => text,
        };
        let (host, port) = match bare.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(invalid)?,
            None => bare.rsplit_once(':').ok_or_else(invalid)?,
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(legal) {
            return Err(invalid());
        }
        let port = port.parse().map_err(|_| invalid())?;
        Ok(BrokerAddress::new(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_java_reads_them() {
        let list = BrokerAddress::parse_list(" a:1, b.c:9092,,[::1]:3,SSL://d:4 ").unwrap();
        assert_eq!(
            list.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a:1", "b.c:9092", "[::1]:3", "d:4"]
        );
    }

    #[test]
    fn what_is_no_address_is_named() {
        for bad in [
            "", ",", "a", "a:", ":9092", "a:x", "a:70000", "[::1]", "a b:1",
        ] {
            assert!(BrokerAddress::parse_list(bad).is_err(), "{bad}");
        }
    }
}
