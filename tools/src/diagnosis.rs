//! What answers at the addresses of `--bootstrap-server`, for the person whose tool could not connect.
//! Not here: the probe's bytes (kavka-client). Runs once, after a failure or while a tool waits, and takes a few seconds at
//! most.
//! Kafka: no counterpart; its tools say that they timed out.

use crate::output;
use crate::session::BOOTSTRAP_CONTROLLER;
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Connection, probe};
use kavka_protocol::ApiKey;
use std::io;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);
/// A broker that is only slow gets so long to say that it is one.
const ANSWER_TIMEOUT_MS: u64 = 1500;
/// Brokers alone take records.
const CONTROLLER: &str =
    "is a controller's port, which serves no clients; use a broker's port (9092 by default)";
const ADDRESSES_MAX: usize = 3;

/// As `look`, where no runtime is at hand.
pub fn explain(servers: &str, option: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    if let Ok(runtime) = runtime {
        runtime.block_on(look(servers, option));
    }
}

/// One line on standard error for each address that is not a broker's; whether there was one.
pub async fn look(servers: &str, option: &str) -> bool {
    let mut told = false;
    for server in servers
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .take(ADDRESSES_MAX)
    {
        let wanted = if option == BOOTSTRAP_CONTROLLER {
            Wanted::Controller
        } else {
            Wanted::Broker
        };
        if let Some(text) = identify(server, wanted).await {
            output::hint(&format!("{server} {text} (--{option})"));
            told = true;
        }
    }
    told
}

/// What the tool wants to talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Broker,
    Controller,
}

/// The end of a sentence that begins with the address; `None` for what is wanted.
async fn identify(server: &str, wanted: Wanted) -> Option<String> {
    let addresses: Vec<_> = match lookup_host(server).await {
        Ok(addresses) => addresses.collect(),
        Err(e) => return Some(format!("cannot be resolved: {e}")),
    };
    let mut last = None;
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => return speaker(server, wanted).await,
            Ok(Err(e)) => last = Some(e),
            Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
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

/// What speaks at an address that accepts connections; `None` for what is wanted.
async fn speaker(server: &str, wanted: Wanted) -> Option<String> {
    let unknown = "accepts connections, but does not answer as a Kafka broker in plain text";
    let Ok(address) = server.parse::<BrokerAddress>() else {
        return Some(unknown.into());
    };
    let config = ClientConfig {
        request_timeout_ms: ANSWER_TIMEOUT_MS,
        connect_timeout_ms: ANSWER_TIMEOUT_MS,
        ..ClientConfig::default()
    };
    match Connection::connect(&address, &config).await {
        Ok(connection)
            if wanted == Wanted::Broker && connection.version_of(ApiKey::Produce).is_none() =>
        {
            Some(CONTROLLER.into())
        }
        Ok(_) => None,
        Err(ClientError::NotKafka { what, .. }) => Some(what),
        Err(_) => Some(
            probe::identify(&address)
                .await
                .unwrap_or_else(|| unknown.into()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// A server that says `answer` to whatever it hears.
    async fn server(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {
                        let _ = stream.write_all(answer).await;
                    }
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn what_is_no_broker_is_named() {
        // A fatal alert, as a TLS port answers to plain text.
        let tls = server(&[0x15, 0x03, 0x03, 0, 2, 2, 50]).await;
        assert!(
            identify(&tls, Wanted::Broker)
                .await
                .unwrap()
                .contains("TLS")
        );
        let http = server(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        assert!(
            identify(&http, Wanted::Broker)
                .await
                .unwrap()
                .contains("HTTP")
        );
        let gone = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().to_string()
        };
        assert!(
            identify(&gone, Wanted::Broker)
                .await
                .unwrap()
                .contains("nothing listens")
        );
    }
}
