//! What the producer and the consumer tell while they work, as lines on standard error, each at most once in a row.
//! Not here: a tool's own errors, the diagnosis of an address (kavka-client's probe).
//! Called by whichever thread polls the client.
//! Kafka: the warnings of org.apache.kafka.clients.NetworkClient and Metadata.

use crate::output::{self, Level};
use kavka_client::librdkafka::{Event, Observer};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const NETWORK: &str = "org.apache.kafka.clients.NetworkClient";
const METADATA: &str = "org.apache.kafka.clients.Metadata";

/// Writes events to standard error.
pub struct Printer {
    /// `[Producer clientId=console-producer]`
    prefix: String,
    /// Say it as 2.x did.
    old_words: bool,
    said: Mutex<HashSet<Event>>,
    quiet: AtomicBool,
    network_trouble: AtomicBool,
    denied: AtomicBool,
}

impl Printer {
    pub fn new(prefix: String, old_words: bool) -> Self {
        Printer {
            prefix,
            old_words,
            said: Mutex::new(HashSet::new()),
            quiet: AtomicBool::new(false),
            network_trouble: AtomicBool::new(false),
            denied: AtomicBool::new(false),
        }
    }

    /// Says nothing from now on: the client is closing, and lost connections are meant.
    pub fn hush(&self) {
        self.quiet.store(true, Ordering::SeqCst);
    }

    /// Has a connection failed, so that a probe may tell more?
    pub fn network_trouble(&self) -> bool {
        self.network_trouble.load(Ordering::SeqCst)
    }

    /// Has the cluster refused us something?
    pub fn denied(&self) -> bool {
        self.denied.load(Ordering::SeqCst)
    }

    fn warn(&self, text: &str, logger: &str) {
        output::log(Level::Warn, &format!("{} {text}", self.prefix), logger);
    }
}

impl Observer for Printer {
    fn event(&self, event: Event) {
        if self.quiet.load(Ordering::SeqCst) {
            return;
        }
        if matches!(
            event,
            Event::Unreachable { .. } | Event::Disconnected { .. } | Event::Unresolvable { .. }
        ) {
            self.network_trouble.store(true, Ordering::SeqCst);
        }
        if matches!(
            event,
            Event::AuthenticationFailed { .. }
                | Event::Topic {
                    error: "TOPIC_AUTHORIZATION_FAILED",
                    ..
                }
        ) {
            self.denied.store(true, Ordering::SeqCst);
        }
        let first = match self.said.lock() {
            Ok(mut said) => said.insert(event.clone()),
            Err(_) => true,
        };
        if !first {
            return;
        }
        match event {
            Event::Unreachable {
                address, node_id, ..
            } => {
                self.warn(
                    &format!(
                        "Connection to node {node_id} ({}) could not be established. {} may not be available.",
                        java_address(&address),
                        if self.old_words { "Broker" } else { "Node" }
                    ),
                    NETWORK,
                );
                if node_id < 0 {
                    self.bootstrap_disconnected(&address);
                }
            }
            Event::Disconnected {
                address,
                node_id,
                reason,
            } => {
                self.warn(
                    &format!("Connection to node {node_id} ({}) was lost: {reason}", java_address(&address)),
                    NETWORK,
                );
                if node_id < 0 {
                    self.bootstrap_disconnected(&address);
                }
            }
            Event::Unresolvable { address } => self.warn(
                &format!("Couldn't resolve server {address} from bootstrap.servers as DNS resolution failed"),
                "org.apache.kafka.clients.ClientUtils",
            ),
            Event::Topic { topic, error } => {
                self.warn(
                    &format!("{} with correlation id 1 : {{{topic}={error}}}",
                        if self.old_words {
                            "Error while fetching metadata"
                        } else {
                            "The metadata response from the cluster reported a recoverable issue"
                        }),
                    NETWORK,
                );
                match error {
                    "INVALID_TOPIC_EXCEPTION" => output::log(
                        Level::Error,
                        &format!("{} Metadata response reported invalid topics [{topic}]", self.prefix),
                        METADATA,
                    ),
                    "TOPIC_AUTHORIZATION_FAILED" => output::log(
                        Level::Error,
                        &format!("{} Topic authorization failed for topics [{topic}]", self.prefix),
                        METADATA,
                    ),
                    _ => {}
                }
            }
            Event::AuthenticationFailed { reason } => output::log(
                Level::Error,
                &format!("{} Authentication failed: {reason}", self.prefix),
                NETWORK,
            ),
            Event::OffsetReset { text } => output::hint(&text),
            Event::Other { text } => self.warn(&text, "librdkafka"),
        }
    }
}

impl Printer {
    fn bootstrap_disconnected(&self, address: &str) {
        self.warn(
            &format!(
                "Bootstrap broker {address} (id: -1 rack: null{}) disconnected",
                if self.old_words {
                    ""
                } else {
                    " isFenced: false"
                }
            ),
            NETWORK,
        );
    }
}

/// `/127.0.0.1:9092` for an address, `host:9092` for a name: Java prints the name before the slash.
fn java_address(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    if host
        .trim_matches(['[', ']'])
        .parse::<std::net::IpAddr>()
        .is_ok()
    {
        format!("/{address}")
    } else {
        address.to_owned()
    }
}

/// Tells which settings have no effect.
pub fn not_honoured(name: &str, why: &str) {
    output::hint(&format!("The setting {name} has no effect here: {why}"));
}
