//! ZooKeeper's own properties file, and the quorum node's settings that follow from it.
//! Not here: the client protocol and the four-letter words (crates/zookeeper), the `myid` file (the caller reads it).
//! Pure, used at start. ZooKeeper: QuorumPeerConfig, ServerConfig; Kafka's config/zookeeper.properties.

use crate::error::ConfigError;
use crate::properties::Properties;
use crate::spelling;

/// One `server.N=host:peerPort:electionPort[:role][;[clientAddress:]clientPort]` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZooKeeperServer {
    pub id: i32,
    pub host: String,
    pub peer_port: u16,
    pub election_port: u16,
    pub observer: bool,
    pub client_port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    pub data_dir: String,
    pub data_log_dir: Option<String>,
    pub client_port: u16,
    /// None is every interface.
    pub client_port_address: Option<String>,
    pub tick_time_ms: u32,
    /// In ticks.
    pub init_limit: u32,
    /// In ticks.
    pub sync_limit: u32,
    /// Per client address; 0 is without limit.
    pub client_connections_max: u32,
    pub session_timeout_min_ms: u32,
    pub session_timeout_max_ms: u32,
    /// `4lw.commands.whitelist` as it stands in the file.
    pub four_letter_words: Option<String>,
    pub admin_server_enabled: bool,
    pub admin_server_port: u16,
    /// Empty for a server of its own.
    pub servers: Vec<ZooKeeperServer>,
    pub warnings: Vec<String>,
}

/// Node ids of quorum nodes of the ZooKeeper age start here: brokers of that age count from 0 (or 1001), and
/// brokers and controllers share one space of ids.
pub const FIRST_QUORUM_NODE_ID: i32 = 3000;

/// Keys that change nothing here because what they tune does not exist.
const WITHOUT_EFFECT: [&str; 14] = [
    "admin.commandURL",
    "admin.serverAddress",
    "autopurge.purgeInterval",
    "autopurge.snapRetainCount",
    "dataLogDir",
    "electionAlg",
    "globalOutstandingLimit",
    "leaderServes",
    "metricsProvider.className",
    "preAllocSize",
    "reconfigEnabled",
    "skipACL",
    "snapCount",
    "standaloneEnabled",
];

const KNOWN: [&str; 12] = [
    "dataDir",
    "clientPort",
    "clientPortAddress",
    "tickTime",
    "initLimit",
    "syncLimit",
    "maxClientCnxns",
    "minSessionTimeout",
    "maxSessionTimeout",
    "4lw.commands.whitelist",
    "admin.enableServer",
    "admin.serverPort",
];

struct Reader<'a>(&'a Properties);

impl Reader<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(str::trim)
            .filter(|value| !value.is_empty())
    }

    fn number<N: std::str::FromStr>(
        &self,
        key: &str,
        fallback: N,
        what: &str,
    ) -> Result<N, ConfigError> {
        match self.text(key) {
            None => Ok(fallback),
            Some(text) => text.parse().map_err(|_| {
                ConfigError::invalid(key, text, "Not a number")
                    .with_remedy(format!("{key} is {what}"))
            }),
        }
    }

    fn boolean(&self, key: &str, fallback: bool) -> Result<bool, ConfigError> {
        match self.text(key).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(fallback),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(ConfigError::invalid(
                key,
                other,
                "Expected value to be either true or false",
            )),
        }
    }
}

impl ZooKeeperConfig {
    pub fn from_properties(properties: &Properties) -> Result<Self, ConfigError> {
        if properties.contains_key("process.roles") || properties.contains_key("broker.id") {
            let key = if properties.contains_key("process.roles") {
                "process.roles"
            } else {
                "broker.id"
            };
            return Err(ConfigError::illegal(format!(
                "{key} does not belong in a ZooKeeper properties file"
            ))
            .with_remedy("start a broker's properties file with kafka-server-start"));
        }
        let read = Reader(properties);
        let data_dir = read.text("dataDir").map(str::to_owned).ok_or_else(|| {
            ConfigError::illegal("dataDir is not set")
                .with_remedy("add dataDir=/tmp/zookeeper or another directory")
        })?;
        let port = "a port from 0 (any free one) to 65535";
        let client_port = match read.text("clientPort") {
            Some(_) => read.number("clientPort", 0, port)?,
            None => {
                return Err(ConfigError::illegal("clientPort is not set")
                    .with_remedy("add clientPort=2181 or another port"));
            }
        };
        let tick_time_ms = read.number("tickTime", 3000u32, "a time in milliseconds")?;
        if tick_time_ms == 0 {
            return Err(ConfigError::invalid(
                "tickTime",
                0,
                "Value must be at least 1",
            ));
        }
        // -1 asks for the default, as in ZooKeeper.
        let timeout = |key: &str, ticks: u32| -> Result<u32, ConfigError> {
            let given: i64 = read.number(key, -1, "a time in milliseconds, or -1")?;
            match given {
                -1 => Ok(tick_time_ms.saturating_mul(ticks)),
                ms => u32::try_from(ms)
                    .map_err(|_| ConfigError::invalid(key, ms, "Value must be -1 or at least 0")),
            }
        };
        let session_timeout_min_ms = timeout("minSessionTimeout", 2)?;
        let session_timeout_max_ms = timeout("maxSessionTimeout", 20)?;
        if session_timeout_min_ms > session_timeout_max_ms {
            return Err(ConfigError::illegal("minSessionTimeout must not be larger than maxSessionTimeout").with_remedy(
                format!("they are {session_timeout_min_ms} and {session_timeout_max_ms} ms; tickTime={tick_time_ms}"),
            ));
        }
        let mut warnings: Vec<String> = properties
            .duplicates()
            .iter()
            .map(|key| format!("{key} is given more than once; the last one is used"))
            .collect();
        for (key, value) in properties.iter() {
            if WITHOUT_EFFECT.contains(&key) {
                warnings.push(format!("{key}={value} has no effect here"));
            } else if !is_known(key) {
                let meant = spelling::did_you_mean(key, KNOWN);
                warnings.push(format!(
                    "{key}={value} is not a known setting and is ignored{}",
                    meant.map_or_else(String::new, |meant| format!("; {meant}"))
                ));
            }
        }
        let servers = servers(properties)?;
        Ok(Self {
            data_dir,
            data_log_dir: read.text("dataLogDir").map(str::to_owned),
            client_port,
            client_port_address: read.text("clientPortAddress").map(str::to_owned),
            tick_time_ms,
            init_limit: read.number("initLimit", 10, "a number of ticks")?,
            sync_limit: read.number("syncLimit", 5, "a number of ticks")?,
            client_connections_max: read.number(
                "maxClientCnxns",
                60,
                "a number, 0 for no limit",
            )?,
            session_timeout_min_ms,
            session_timeout_max_ms,
            four_letter_words: properties.get("4lw.commands.whitelist").map(str::to_owned),
            admin_server_enabled: read.boolean("admin.enableServer", true)?,
            admin_server_port: read.number("admin.serverPort", 8080, port)?,
            servers,
            warnings,
        })
    }

    /// The ensemble has more than one server, so the `myid` file in `data_dir` says which of them this is.
    pub fn needs_my_id(&self) -> bool {
        !self.servers.is_empty()
    }

    /// The settings of the quorum node that stands in for this server: its client port is a controller listener.
    pub fn quorum_node_properties(&self, my_id: Option<i32>) -> Result<Properties, ConfigError> {
        let host = match self.client_port_address.as_deref() {
            Some(address) if address.contains(':') => format!("[{address}]"),
            Some(address) => address.to_owned(),
            None => String::new(),
        };
        let mut listeners = format!("CONTROLLER://{host}:{}", self.client_port);
        let mut made = Properties::new();
        made.set("process.roles", "controller");
        made.set("log.dirs", self.data_dir.as_str());
        if self.servers.is_empty() {
            made.set("node.id", FIRST_QUORUM_NODE_ID.to_string());
            let reached = if host.is_empty() || host == "0.0.0.0" {
                "localhost"
            } else {
                &host
            };
            made.set("controller.listener.names", "CONTROLLER");
            made.set(
                "controller.quorum.bootstrap.servers",
                format!("{reached}:{}", self.client_port),
            );
        } else {
            let my_id = my_id.ok_or_else(|| {
                ConfigError::illegal(format!("{}/myid file is missing", self.data_dir))
                    .with_remedy("write this server's number N of its server.N line into that file")
            })?;
            let own =
                self.servers
                    .iter()
                    .find(|server| server.id == my_id)
                    .ok_or_else(|| {
                        ConfigError::illegal(format!("My id {my_id} not in the peer list"))
                            .with_remedy(format!(
                                "{}/myid must hold the N of one of the server.N lines",
                                self.data_dir
                            ))
                    })?;
            listeners = format!("QUORUM://:{},{listeners}", own.peer_port);
            made.set("node.id", (FIRST_QUORUM_NODE_ID + my_id).to_string());
            made.set("controller.listener.names", "QUORUM,CONTROLLER");
            let voters: Vec<String> = self
                .servers
                .iter()
                .filter(|server| !server.observer)
                .map(|server| {
                    let (open, close) = if server.host.contains(':') {
                        ("[", "]")
                    } else {
                        ("", "")
                    };
                    let id = FIRST_QUORUM_NODE_ID + server.id;
                    format!("{id}@{open}{}{close}:{}", server.host, server.peer_port)
                })
                .collect();
            made.set("controller.quorum.voters", voters.join(","));
        }
        made.set("listeners", listeners);
        Ok(made)
    }
}

fn is_known(key: &str) -> bool {
    KNOWN.contains(&key) || key.starts_with("server.")
}

fn servers(properties: &Properties) -> Result<Vec<ZooKeeperServer>, ConfigError> {
    let mut servers: Vec<ZooKeeperServer> = Vec::new();
    for (key, value) in properties.iter() {
        let Some(id) = key.strip_prefix("server.") else {
            continue;
        };
        let value = value.trim();
        let wrong = |why: &str| {
            ConfigError::invalid(key, value, why).with_remedy(
                "a server line is server.N=host:peerPort:electionPort, N from 1 to 255",
            )
        };
        let id: i32 = id.parse().map_err(|_| wrong("N is not a number"))?;
        if !(0..=255).contains(&id) {
            return Err(wrong("N is not within 0 and 255"));
        }
        let (quorum, client) = match value.split_once(';') {
            Some((quorum, client)) => (quorum, Some(client)),
            None => (value, None),
        };
        let (host, rest) = match quorum
            .strip_prefix('[')
            .and_then(|inner| inner.split_once("]:"))
        {
            Some(parts) => parts,
            None => quorum
                .split_once(':')
                .ok_or_else(|| wrong("ports are missing"))?,
        };
        let mut parts = rest.split(':');
        let mut port = |name: &str| {
            let text = parts
                .next()
                .ok_or_else(|| wrong(&format!("the {name} port is missing")))?;
            text.parse::<u16>()
                .map_err(|_| wrong(&format!("the {name} port is not a port")))
        };
        let (peer_port, election_port) = (port("peer")?, port("election")?);
        let observer = match parts.next() {
            None | Some("participant") => false,
            Some("observer") => true,
            Some(_) => return Err(wrong("the role is neither participant nor observer")),
        };
        let client_port = client
            .map(|client| client.rsplit_once(':').map_or(client, |(_, port)| port))
            .map(|port| {
                port.trim()
                    .parse::<u16>()
                    .map_err(|_| wrong("the client port is not a port"))
            })
            .transpose()?;
        if host.is_empty() {
            return Err(wrong("the host is missing"));
        }
        servers.push(ZooKeeperServer {
            id,
            host: host.to_owned(),
            peer_port,
            election_port,
            observer,
            client_port,
        });
    }
    servers.sort_by_key(|server| server.id);
    if servers.len() == 1 {
        // One line is no ensemble; ZooKeeper starts such a server alone.
        servers.clear();
    }
    Ok(servers)
}
