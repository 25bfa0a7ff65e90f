//! ZooKeeper's four-letter words: which exist, which may be answered, and their texts.
//! Not here: counters (given as `ServerView`), sockets.
//! Pure. ZooKeeper 3.5: org.apache.zookeeper.server.command.*; property `4lw.commands.whitelist`.

use std::fmt::Write;

/// The version that the texts are those of: the last ZooKeeper that Kafka 2.x shipped with.
pub const ZOOKEEPER_VERSION: &str =
    "3.5.7-f0fdd52973d373ffd9c86b81d99842dc2c7f660e, built on 02/10/2020 11:30 GMT";

macro_rules! words {
    ($($variant:ident = $text:literal,)*) => {
        /// A command that ZooKeeper 3.5 knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FourLetterWord { $($variant,)* }

        impl FourLetterWord {
            pub const ALL: &[FourLetterWord] = &[$(FourLetterWord::$variant,)*];

            pub fn parse(head: [u8; 4]) -> Option<Self> {
                match &head {
                    $(bytes if *bytes == *$text => Some(FourLetterWord::$variant),)*
                    _ => None,
                }
            }

            pub fn as_bytes(self) -> &'static [u8; 4] {
                match self {
                    $(FourLetterWord::$variant => $text,)*
                }
            }
        }
    };
}

words! {
    Conf = b"conf",
    Cons = b"cons",
    Crst = b"crst",
    Dirs = b"dirs",
    Dump = b"dump",
    Envi = b"envi",
    Gtmk = b"gtmk",
    Isro = b"isro",
    Mntr = b"mntr",
    Ruok = b"ruok",
    Srst = b"srst",
    Srvr = b"srvr",
    Stat = b"stat",
    Stmk = b"stmk",
    Wchc = b"wchc",
    Wchp = b"wchp",
    Wchs = b"wchs",
}

impl FourLetterWord {
    pub fn as_str(self) -> &'static str {
        std::str::from_utf8(self.as_bytes()).expect("the words are ASCII")
    }
}

/// `4lw.commands.whitelist`: unset allows `srvr` alone, because unauthenticated commands are a way to load a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whitelist {
    allowed: Vec<FourLetterWord>,
}

impl Default for Whitelist {
    fn default() -> Self {
        Whitelist {
            allowed: vec![FourLetterWord::Srvr],
        }
    }
}

impl Whitelist {
    /// Parses the property: words between commas, or `*`. Unknown words are ignored, as ZooKeeper ignores them.
    pub fn parse(property: Option<&str>) -> Self {
        let Some(property) = property else {
            return Whitelist::default();
        };
        if property.trim() == "*" {
            return Whitelist {
                allowed: FourLetterWord::ALL.to_vec(),
            };
        }
        let allowed = property
            .split(',')
            .filter_map(|word| <[u8; 4]>::try_from(word.trim().as_bytes()).ok())
            .filter_map(FourLetterWord::parse)
            .collect();
        Whitelist { allowed }
    }

    pub fn allows(&self, word: FourLetterWord) -> bool {
        self.allowed.contains(&word)
    }
}

/// A connection, as `stat` and `cons` list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionView {
    /// `host:port` of the peer.
    pub peer: String,
    pub queued: u64,
    pub received: u64,
    pub sent: u64,
    /// Zero before the session is open, and for the connection that asks.
    pub session_id: i64,
}

/// What the words tell about this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// `leader`, `follower`, or `standalone` for a quorum of one.
    pub mode: Mode,
    /// False while no leader is known: `isro` says `ro` and `srvr` that nothing is served.
    pub serving: bool,
    pub zxid: i64,
    pub node_count: u64,
    pub latency_min_ms: u64,
    pub latency_avg_ms: u64,
    pub latency_max_ms: u64,
    pub received: u64,
    pub sent: u64,
    pub outstanding: u64,
    pub watches: u64,
    pub ephemerals: u64,
    pub data_bytes: u64,
    pub open_files: u64,
    pub open_files_max: u64,
    pub connections: Vec<ConnectionView>,
    pub client_port: u16,
    pub data_dir: String,
    pub data_dir_bytes: u64,
    pub tick_time_ms: u64,
    pub client_connections_max: u64,
    pub session_timeout_min_ms: u64,
    pub session_timeout_max_ms: u64,
    pub server_id: i32,
}

/// Role of the server in its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Standalone,
    Leader,
    Follower,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Mode::Standalone => "standalone",
            Mode::Leader => "leader",
            Mode::Follower => "follower",
        }
    }
}

/// The answer to a word; the connection is closed after it.
pub fn answer(word: FourLetterWord, whitelist: &Whitelist, view: &ServerView) -> String {
    if !whitelist.allows(word) {
        return format!(
            "{} is not executed because it is not in the whitelist.\n",
            word.as_str()
        );
    }
    if !view.serving {
        return match word {
            FourLetterWord::Ruok => "imok".into(),
            FourLetterWord::Isro => "null".into(),
            _ => "This ZooKeeper instance is not currently serving requests\n".into(),
        };
    }
    match word {
        FourLetterWord::Ruok => "imok".into(),
        FourLetterWord::Isro => "rw".into(),
        FourLetterWord::Srvr => {
            let mut out = format!("Zookeeper version: {ZOOKEEPER_VERSION}\n");
            counters(&mut out, view);
            out
        }
        FourLetterWord::Stat => {
            let mut out = format!("Zookeeper version: {ZOOKEEPER_VERSION}\nClients:\n");
            connections(&mut out, view);
            out.push('\n');
            counters(&mut out, view);
            out
        }
        FourLetterWord::Cons => {
            let mut out = String::new();
            connections(&mut out, view);
            out.push('\n');
            out
        }
        FourLetterWord::Mntr => monitor(view),
        FourLetterWord::Conf => conf(view),
        FourLetterWord::Wchs => format!(
            "{} connections watching {} paths\nTotal watches:{}\n",
            view.connections
                .iter()
                .filter(|connection| connection.session_id != 0)
                .count(),
            view.watches,
            view.watches
        ),
        FourLetterWord::Dirs => format!(
            "datadir_size: {}\nlogdir_size: {}\n",
            view.data_dir_bytes, view.data_dir_bytes
        ),
        FourLetterWord::Gtmk => "0".into(),
        FourLetterWord::Crst => "Connection stats reset.\n".into(),
        FourLetterWord::Srst => "Server stats reset.\n".into(),
        FourLetterWord::Dump
        | FourLetterWord::Envi
        | FourLetterWord::Stmk
        | FourLetterWord::Wchc
        | FourLetterWord::Wchp => format!(
            "{} is not supported by this server: it keeps no ZooKeeper sessions of its own.\n",
            word.as_str()
        ),
    }
}

fn connections(out: &mut String, view: &ServerView) {
    for connection in &view.connections {
        let ops = u8::from(connection.session_id != 0);
        let _ = writeln!(
            out,
            " /{}[{ops}](queued={},recved={},sent={})",
            connection.peer, connection.queued, connection.received, connection.sent
        );
    }
}

fn counters(out: &mut String, view: &ServerView) {
    let _ = write!(
        out,
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\nOutstanding: {}\nZxid: 0x{:x}\nMode: {}\nNode count: {}\n",
        view.latency_min_ms,
        view.latency_avg_ms,
        view.latency_max_ms,
        view.received,
        view.sent,
        view.connections.len(),
        view.outstanding,
        view.zxid,
        view.mode.as_str(),
        view.node_count,
    );
}

fn monitor(view: &ServerView) -> String {
    let rows: [(&str, String); 15] = [
        ("version", ZOOKEEPER_VERSION.into()),
        ("avg_latency", view.latency_avg_ms.to_string()),
        ("max_latency", view.latency_max_ms.to_string()),
        ("min_latency", view.latency_min_ms.to_string()),
        ("packets_received", view.received.to_string()),
        ("packets_sent", view.sent.to_string()),
        ("num_alive_connections", view.connections.len().to_string()),
        ("outstanding_requests", view.outstanding.to_string()),
        ("server_state", view.mode.as_str().into()),
        ("znode_count", view.node_count.to_string()),
        ("watch_count", view.watches.to_string()),
        ("ephemerals_count", view.ephemerals.to_string()),
        ("approximate_data_size", view.data_bytes.to_string()),
        ("open_file_descriptor_count", view.open_files.to_string()),
        ("max_file_descriptor_count", view.open_files_max.to_string()),
    ];
    let mut out = String::new();
    for (key, value) in rows {
        let _ = writeln!(out, "zk_{key}\t{value}");
    }
    out
}

fn conf(view: &ServerView) -> String {
    format!(
        "clientPort={}\nsecureClientPort=-1\ndataDir={dir}\ndataDirSize={bytes}\ndataLogDir={dir}\ndataLogSize={bytes}\ntickTime={}\nmaxClientCnxns={}\nminSessionTimeout={}\nmaxSessionTimeout={}\nserverId={}\n",
        view.client_port,
        view.tick_time_ms,
        view.client_connections_max,
        view.session_timeout_min_ms,
        view.session_timeout_max_ms,
        view.server_id,
        dir = view.data_dir,
        bytes = view.data_dir_bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counters of a ZooKeeper 3.5.7 whose answers are the goldens below.
    fn recorded() -> ServerView {
        ServerView {
            mode: Mode::Standalone,
            serving: true,
            zxid: 0x1c,
            node_count: 26,
            latency_min_ms: 0,
            latency_avg_ms: 1,
            latency_max_ms: 7,
            received: 62,
            sent: 62,
            outstanding: 0,
            watches: 4,
            ephemerals: 2,
            data_bytes: 695,
            open_files: 98,
            open_files_max: 20000,
            connections: vec![
                ConnectionView {
                    peer: "127.0.0.1:56338".into(),
                    queued: 0,
                    received: 59,
                    sent: 60,
                    session_id: 0x0100_0011_4323_0000,
                },
                ConnectionView {
                    peer: "127.0.0.1:56352".into(),
                    queued: 0,
                    received: 1,
                    sent: 0,
                    session_id: 0,
                },
            ],
            client_port: 24881,
            data_dir: "/data/version-2".into(),
            data_dir_bytes: 67109304,
            tick_time_ms: 3000,
            client_connections_max: 0,
            session_timeout_min_ms: 6000,
            session_timeout_max_ms: 60000,
            server_id: 0,
        }
    }

    #[test]
    fn texts_are_those_of_zookeeper_3_5_7() {
        let all = Whitelist::parse(Some("*"));
        let say = |word| answer(word, &all, &recorded());
        assert_eq!(say(FourLetterWord::Ruok), "imok");
        assert_eq!(say(FourLetterWord::Isro), "rw");
        assert_eq!(
            say(FourLetterWord::Stat),
            "Zookeeper version: 3.5.7-f0fdd52973d373ffd9c86b81d99842dc2c7f660e, built on 02/10/2020 11:30 GMT\n\
             Clients:\n \
             /127.0.0.1:56338[1](queued=0,recved=59,sent=60)\n \
             /127.0.0.1:56352[0](queued=0,recved=1,sent=0)\n\
             \n\
             Latency min/avg/max: 0/1/7\n\
             Received: 62\n\
             Sent: 62\n\
             Connections: 2\n\
             Outstanding: 0\n\
             Zxid: 0x1c\n\
             Mode: standalone\n\
             Node count: 26\n"
        );
        assert!(say(FourLetterWord::Srvr).contains("GMT\nLatency min/avg/max: 0/1/7\n"));
        assert_eq!(
            say(FourLetterWord::Conf),
            "clientPort=24881\nsecureClientPort=-1\ndataDir=/data/version-2\ndataDirSize=67109304\n\
             dataLogDir=/data/version-2\ndataLogSize=67109304\ntickTime=3000\nmaxClientCnxns=0\n\
             minSessionTimeout=6000\nmaxSessionTimeout=60000\nserverId=0\n"
        );
        let monitor = say(FourLetterWord::Mntr);
        assert_eq!(monitor.lines().count(), 15);
        assert!(monitor.ends_with(
            "zk_approximate_data_size\t695\nzk_open_file_descriptor_count\t98\nzk_max_file_descriptor_count\t20000\n"
        ));
        assert_eq!(
            say(FourLetterWord::Wchs),
            "1 connections watching 4 paths\nTotal watches:4\n"
        );
    }

    #[test]
    fn only_srvr_is_answered_unless_the_whitelist_says_so() {
        let unset = Whitelist::parse(None);
        assert!(unset.allows(FourLetterWord::Srvr));
        assert_eq!(
            answer(FourLetterWord::Ruok, &unset, &recorded()),
            "ruok is not executed because it is not in the whitelist.\n"
        );
        let two = Whitelist::parse(Some(" ruok, nonsense,stat"));
        assert!(two.allows(FourLetterWord::Ruok) && two.allows(FourLetterWord::Stat));
        assert!(!two.allows(FourLetterWord::Srvr));
    }

    #[test]
    fn a_server_without_a_leader_says_so() {
        let mut view = recorded();
        view.serving = false;
        let all = Whitelist::parse(Some("*"));
        assert_eq!(
            answer(FourLetterWord::Srvr, &all, &view),
            "This ZooKeeper instance is not currently serving requests\n"
        );
        assert_eq!(answer(FourLetterWord::Ruok, &all, &view), "imok");
    }
}
