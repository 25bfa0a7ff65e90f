//! Listener entries (`NAME://host:port`), the security protocol of each name, and what may share a port.
//! Not here: binding, name resolution, which listener serves what (`broker`).
//! Pure, used at start. Kafka: EndPoint, CoreUtils.listenerListToEndPoints, ListenerName; KIP-103.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::ConfigError;
use crate::spelling;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl SecurityProtocol {
    pub const fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        }
    }

    /// The number of the wire protocol and of registration records.
    pub const fn id(self) -> i16 {
        match self {
            SecurityProtocol::Plaintext => 0,
            SecurityProtocol::Ssl => 1,
            SecurityProtocol::SaslPlaintext => 2,
            SecurityProtocol::SaslSsl => 3,
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Plaintext,
            Self::Ssl,
            Self::SaslPlaintext,
            Self::SaslSsl,
        ]
        .into_iter()
        .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    pub const fn uses_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    pub const fn uses_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

impl std::fmt::Display for SecurityProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One listener or advertised listener. An empty host is every interface (or, advertised, the address a
/// client reached us by).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Upper case, as Kafka normalises it.
    pub name: String,
    pub security_protocol: SecurityProtocol,
    pub host: String,
    pub port: u16,
}

impl Listener {
    /// Whether the host names no particular interface.
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "" | "0.0.0.0" | "::")
    }
}

impl std::fmt::Display for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (open, close) = if self.host.contains(':') {
            ("[", "]")
        } else {
            ("", "")
        };
        write!(
            f,
            "{}://{open}{}{close}:{}",
            self.name, self.host, self.port
        )
    }
}

/// Normalised listener name → protocol.
pub type ProtocolMap = BTreeMap<String, SecurityProtocol>;

/// `a:b,c:d` split at each entry's last colon.
pub(crate) fn parse_map(key: &str, text: &str) -> Result<Vec<(String, String)>, ConfigError> {
    text.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| match entry.rsplit_once(':') {
            Some((left, right)) => Ok((left.trim().to_owned(), right.trim().to_owned())),
            None => Err(ConfigError::illegal(format!(
                "Error parsing configuration property '{key}': begin 0, end -1, length {}",
                entry.encode_utf16().count()
            ))
            .with_remedy(format!(
                "{key}: \"{entry}\" is not a pair; each entry is name:value"
            ))),
        })
        .collect()
}

pub(crate) fn parse_protocol_map(key: &str, text: &str) -> Result<ProtocolMap, ConfigError> {
    let mut map = ProtocolMap::new();
    for (name, protocol) in parse_map(key, text)? {
        let known = SecurityProtocol::from_name(&protocol).ok_or_else(|| {
            ConfigError::new(format!(
                "Invalid security protocol `{protocol}` defined in {key}"
            ))
            .with_remedy("the security protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL")
        })?;
        map.insert(name.to_uppercase(), known);
    }
    Ok(map)
}

/// The name in front of the first colon.
pub(crate) fn listener_name(entry: &str) -> Result<String, ConfigError> {
    match entry.split_once(':') {
        Some((name, _)) => Ok(name.to_uppercase()),
        None => Err(
            ConfigError::kafka(format!("Unable to parse a listener name from {entry}"))
                .with_remedy("a listener is NAME://host:port, for example PLAINTEXT://:9092"),
        ),
    }
}

fn shown(entries: &[String]) -> String {
    format!("[{}]", entries.join(", "))
}

pub(crate) fn parse_listeners(
    entries: &[String],
    protocols: &ProtocolMap,
    require_distinct_ports: bool,
) -> Result<Vec<Listener>, ConfigError> {
    let parsed: Result<Vec<Listener>, ConfigError> = entries
        .iter()
        .map(|entry| parse_listener(entry, protocols))
        .collect();
    parsed
        .and_then(|listeners| {
            check(&listeners, entries, require_distinct_ports).map(|()| listeners)
        })
        .map_err(|cause| ConfigError {
            remedy: cause.remedy,
            ..ConfigError::illegal(format!(
                "Error creating broker listeners from '{}': {}",
                shown(entries),
                cause.message
            ))
        })
}

fn parse_listener(entry: &str, protocols: &ProtocolMap) -> Result<Listener, ConfigError> {
    let unable = || {
        ConfigError::kafka(format!("Unable to parse {entry} to a broker endpoint"))
            .with_remedy("a listener is NAME://host:port, for example PLAINTEXT://:9092 or PLAINTEXT://[::1]:9092")
    };
    let (name, address) = entry.rsplit_once("://").ok_or_else(unable)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(unable)?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let host_ok = host
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-%._:".contains(c));
    let digits = port.strip_prefix('-').unwrap_or(port);
    if !host_ok || digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
        return Err(unable());
    }
    let name = name.to_uppercase();
    // Kafka takes any number here and fails when it binds.
    let port = port.parse().map_err(|_| {
        ConfigError::illegal(format!("port {port} of listener {name} is out of range"))
            .with_remedy("a port is a number from 0 (any free one) to 65535")
    })?;
    let security_protocol = *protocols.get(&name).ok_or_else(|| {
        let meant = spelling::did_you_mean(&name, protocols.keys().map(String::as_str));
        ConfigError::illegal(format!("No security protocol defined for listener {name}")).with_remedy(format!(
            "{}add {name}:PLAINTEXT (or SSL, SASL_PLAINTEXT, SASL_SSL) to listener.security.protocol.map",
            meant.map_or_else(String::new, |meant| format!("{meant} If not, "))
        ))
    })?;
    Ok(Listener {
        name,
        security_protocol,
        host: host.to_owned(),
        port,
    })
}

fn check(
    listeners: &[Listener],
    entries: &[String],
    distinct_ports: bool,
) -> Result<(), ConfigError> {
    let all = shown(entries);
    for (place, listener) in listeners.iter().enumerate() {
        if listeners[..place]
            .iter()
            .any(|earlier| earlier.name == listener.name)
        {
            return Err(ConfigError::illegal(format!(
                "Each listener must have a different name, listeners: {all}"
            )));
        }
    }
    if !distinct_ports {
        return Ok(());
    }
    for listener in listeners.iter().filter(|listener| listener.port != 0) {
        let port = listener.port;
        let sharing: Vec<&Listener> = listeners
            .iter()
            .filter(|other| other.port == port)
            .collect();
        if sharing.len() < 2 {
            continue;
        }
        let v4 = |l: &&&Listener| l.host.parse::<Ipv4Addr>().is_ok();
        let v6 = |l: &&&Listener| l.host.parse::<Ipv6Addr>().is_ok();
        let (fours, sixes) = (
            sharing.iter().filter(v4).count(),
            sharing.iter().filter(v6).count(),
        );
        let named = sharing.len() - fours - sixes;
        if fours == 1 && sixes == 1 && named == 0 {
            continue;
        }
        let message = if named > 1 {
            format!("Each listener must have a different port, listeners: {all}")
        } else if fours + sixes == 2 {
            format!(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, \
                 listeners: {all}, port: {port}"
            )
        } else {
            format!(
                "Each listener must have a different port unless exactly one listener has an IPv4 address \
                 and the other IPv6 address, listeners: {all}, port: {port}"
            )
        };
        return Err(ConfigError::illegal(message));
    }
    Ok(())
}
