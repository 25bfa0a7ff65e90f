//! What answers at the addresses of `--bootstrap-server`, for the person whose tool could not connect.
//! Not here: the probe's bytes (kavka-client). Runs once, after a failure, and never takes more than a few seconds.
//! Kafka: no counterpart; its tools say that they timed out.

use crate::output;
use kavka_client::{BrokerAddress, probe};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);
const ADDRESSES_MAX: usize = 3;

/// One line on standard error for each address.
pub fn explain(servers: &str, option: &str) {
    for server in servers
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .take(ADDRESSES_MAX)
    {
        if let Some(text) = identify(server) {
            output::hint(&format!("{server} {text} (--{option})"));
        }
    }
}

/// The end of a sentence that begins with the address.
fn identify(server: &str) -> Option<String> {
    let addresses: Vec<_> = match server.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(e) => return Some(format!("cannot be resolved: {e}")),
    };
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(_) => return Some(probe(server)),
            Err(e) => last = Some(e),
        }
    }
    Some(match last {
        None => "has no address".into(),
        Some(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            "refuses connections: nothing listens there".into()
        }
        Some(e) if e.kind() == io::ErrorKind::TimedOut => {
            "does not answer: wrong host, or a firewall in between".into()
        }
        Some(e) => format!("cannot be reached: {e}"),
    })
}

/// What speaks at an address that accepts connections.
fn probe(server: &str) -> String {
    let unknown =
        || "accepts connections, but does not answer as a Kafka broker in plain text".to_owned();
    let Ok(address) = server.parse::<BrokerAddress>() else {
        return unknown();
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .ok()
        .and_then(|runtime| runtime.block_on(probe::identify(&address)))
        .unwrap_or_else(unknown)
}
