//! Names what listens at an address that does not answer like a Kafka broker: TLS, HTTP, ZooKeeper, something else.
//! Not here: the ordinary connection.
//! Runs on the caller's task, once, after a call failed. Kafka: no counterpart; its tools only time out.

use crate::BrokerAddress;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// A TLS 1.2 ClientHello that offers one suite: enough for a TLS server to answer with a record of its own.
const CLIENT_HELLO: &[u8] = &[
    0x16, 0x03, 0x01, 0x00, 0x2f, 0x01, 0x00, 0x00, 0x2b, 0x03, 0x03, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
    10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 0x00,
    0x00, 0x04, 0xc0, 0x2f, 0x00, 0x9c, 0x01, 0x00,
];

/// What seems to listen there, as the end of a sentence that begins with the address; `None` when nothing could be
/// learned.
pub async fn identify(address: &BrokerAddress) -> Option<String> {
    if let Some(first) = exchange(address, b"ruok").await
        && first.starts_with(b"imok")
    {
        return Some(
            "is a ZooKeeper port, not a Kafka broker; use the broker's port (9092 by default)"
                .into(),
        );
    }
    if let Some(first) = exchange(address, CLIENT_HELLO).await
        && matches!(first.as_slice(), [0x15 | 0x16, 0x03, ..])
    {
        return Some(
            "answers with TLS; set security.protocol=SSL (or SASL_SSL) in the client's configuration, or use a PLAINTEXT listener's port".into(),
        );
    }
    if let Some(first) = exchange(address, b"GET / HTTP/1.0\r\n\r\n").await
        && first.starts_with(b"HTTP/")
    {
        return Some("is an HTTP server, not a Kafka broker".into());
    }
    None
}

/// Sends `request` on a fresh connection and returns the first bytes of the answer.
async fn exchange(address: &BrokerAddress, request: &[u8]) -> Option<Vec<u8>> {
    let talk = async {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.write_all(request).await?;
        let mut first = vec![0; 16];
        let n = stream.read(&mut first).await?;
        first.truncate(n);
        std::io::Result::Ok(first)
    };
    match timeout(PROBE_TIMEOUT, talk).await {
        Ok(Ok(first)) if !first.is_empty() => Some(first),
        _ => None,
    }
}
