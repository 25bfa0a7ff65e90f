//! Addresses of the metadata quorum: `controller.quorum.voters`, `controller.quorum.bootstrap.servers`, `zookeeper.connect`.
//! Not here: name resolution, connecting, who is voter at run time (metadata/quorum).
//! Pure, used at start. Kafka: QuorumConfig.parseVoterMap, Utils.getHost/getPort; KIP-595, KIP-853.

use crate::error::ConfigError;

const VOTERS: &str = "controller.quorum.voters";
const BOOTSTRAP: &str = "controller.quorum.bootstrap.servers";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    pub host: String,
    pub port: u16,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    pub id: i32,
    pub address: HostPort,
}

/// Host and port of `host:port`, `[::1]:port` or `name://host:port`; none if it has another form.
pub fn host_and_port(text: &str) -> Option<(&str, &str)> {
    let address = match text.split_once("://") {
        Some((scheme, rest)) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => rest,
        _ => text,
    };
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let host_ok = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._%:".contains(c));
    let port_ok = !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    (host_ok && port_ok).then_some((host, port))
}

pub(crate) fn parse_voters(entries: &[String]) -> Result<Vec<Voter>, ConfigError> {
    let mut voters: Vec<Voter> = Vec::new();
    for entry in entries {
        let form = "Each entry should be in the form `{id}@{host}:{port}`.";
        let Some((id, address)) = entry
            .split_once('@')
            .filter(|(_, address)| !address.contains('@'))
        else {
            return Err(ConfigError::new(format!(
                "Invalid configuration value for {VOTERS}. {form}"
            )));
        };
        let id = id.parse().map_err(|_| {
            ConfigError::new(format!(
                "Failed to parse voter ID as an integer from {entry}"
            ))
        })?;
        let (host, port) = host_and_port(address).ok_or_else(|| {
            ConfigError::new(format!(
                "Failed to parse host name from entry {entry} for the configuration {VOTERS}. {form}"
            ))
        })?;
        let port = port.parse().map_err(|_| {
            ConfigError::illegal(format!("port out of range:{port}"))
                .with_remedy(format!("{VOTERS}: a port is a number up to 65535"))
        })?;
        let voter = Voter {
            id,
            address: HostPort {
                host: host.to_owned(),
                port,
            },
        };
        match voters.iter_mut().find(|known| known.id == id) {
            Some(known) => *known = voter,
            None => voters.push(voter),
        }
    }
    Ok(voters)
}

pub(crate) fn parse_bootstrap_servers(entries: &[String]) -> Result<Vec<HostPort>, ConfigError> {
    entries
        .iter()
        .map(|entry| {
            let (host, port) = host_and_port(entry).ok_or_else(|| {
                ConfigError::new(format!(
                    "Failed to parse host name from {entry} for the configuration {BOOTSTRAP}. Each entry \
                     should be in the form \"{{host}}:{{port}}\""
                ))
            })?;
            let port = port.parse().map_err(|_| {
                ConfigError::illegal(format!("port out of range:{port}"))
                    .with_remedy(format!("{BOOTSTRAP}: a port is a number up to 65535"))
            })?;
            Ok(HostPort { host: host.to_owned(), port })
        })
        .collect()
}

/// `zookeeper.connect`: hosts, each with an optional port (2181), and an optional chroot after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZooKeeperConnect {
    pub servers: Vec<HostPort>,
    pub chroot: Option<String>,
}

impl ZooKeeperConnect {
    pub const DEFAULT_PORT: u16 = 2181;

    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let wrong = |why: String| {
            ConfigError::invalid("zookeeper.connect", text, why).with_remedy(
                "zookeeper.connect is host:port[,host:port…][/path], for example localhost:2181",
            )
        };
        let (hosts, chroot) = match text.find('/') {
            Some(at) => (
                &text[..at],
                Some(text[at..].to_owned()).filter(|path| path != "/"),
            ),
            None => (text, None),
        };
        let mut servers = Vec::new();
        for entry in hosts
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
        {
            let has_port = match entry.strip_prefix('[') {
                Some(rest) => rest.contains("]:"),
                None => entry.matches(':').count() == 1,
            };
            let full = if has_port {
                entry.to_owned()
            } else {
                format!("{entry}:{}", Self::DEFAULT_PORT)
            };
            let (host, port) = host_and_port(&full)
                .ok_or_else(|| wrong(format!("\"{entry}\" is not a host and port")))?;
            let port = port
                .parse()
                .map_err(|_| wrong(format!("port {port} is out of range")))?;
            servers.push(HostPort {
                host: host.to_owned(),
                port,
            });
        }
        if servers.is_empty() {
            return Err(wrong("no server is named".to_owned()));
        }
        Ok(Self { servers, chroot })
    }
}
