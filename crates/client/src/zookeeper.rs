//! Which brokers a ZooKeeper server knows: the few messages of its protocol that `--zookeeper` needs.
//! Not here: the server side (crates/zookeeper), watches, writing.
//! Runs on the caller's task, once, over a connection of its own.
//! Kafka: kafka.zk.KafkaZkClient.getAllBrokersInCluster; ZooKeeper's zookeeper.jute.

use crate::{BrokerAddress, ClientConfig, ClientError};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde_json::Value;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SESSION_TIMEOUT_MS: i32 = 6_000;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// ZooKeeper's own limit is 1 MB.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const GET_DATA: i32 = 4;
const GET_CHILDREN: i32 = 8;
const NO_NODE: i32 = -101;

/// The plain-text addresses of the brokers registered below `chroot`.
pub async fn brokers(
    address: &BrokerAddress,
    chroot: Option<&str>,
    config: &ClientConfig,
) -> Result<Vec<BrokerAddress>, ClientError> {
    let lost = |source: io::Error| ClientError::Lost {
        address: address.clone(),
        source,
    };
    let connect = TcpStream::connect((address.host.as_str(), address.port));
    let stream = timeout(Duration::from_millis(config.connect_timeout_ms), connect)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|source| ClientError::Connect {
            address: address.clone(),
            source,
        })?;
    let read = async {
        let mut session = Session {
            stream,
            next_xid: 1,
        };
        session.open().await?;
        let ids = format!("{}/brokers/ids", chroot.unwrap_or_default());
        let mut found = Vec::new();
        for id in session.children(&ids).await? {
            if let Some(data) = session.data(&format!("{ids}/{id}")).await? {
                found.extend(registered(&data));
            }
        }
        io::Result::Ok(found)
    };
    match timeout(ANSWER_TIMEOUT, read).await {
        Ok(result) => result.map_err(lost),
        Err(_) => Err(lost(io::ErrorKind::TimedOut.into())),
    }
}

struct Session {
    stream: TcpStream,
    next_xid: i32,
}

impl Session {
    async fn open(&mut self) -> io::Result<()> {
        let mut hello = BytesMut::new();
        hello.put_i32(0);
        hello.put_i64(0);
        hello.put_i32(SESSION_TIMEOUT_MS);
        hello.put_i64(0);
        hello.put_i32(16);
        hello.put_bytes(0, 16);
        hello.put_u8(0);
        self.send(&hello).await?;
        let mut answer = self.receive().await?;
        let (_, timeout_ms) = (take_i32(&mut answer)?, take_i32(&mut answer)?);
        if timeout_ms <= 0 {
            return Err(malformed("the session was refused"));
        }
        Ok(())
    }

    async fn children(&mut self, path: &str) -> io::Result<Vec<String>> {
        let Some(mut answer) = self.ask(GET_CHILDREN, path).await? else {
            return Ok(Vec::new());
        };
        let count = take_i32(&mut answer)?.max(0);
        (0..count)
            .map(|_| {
                let name = take_buffer(&mut answer)?;
                String::from_utf8(name.to_vec()).map_err(|_| malformed("a name is not UTF-8"))
            })
            .collect()
    }

    async fn data(&mut self, path: &str) -> io::Result<Option<Bytes>> {
        match self.ask(GET_DATA, path).await? {
            None => Ok(None),
            Some(mut answer) => take_buffer(&mut answer).map(Some),
        }
    }

    /// A request about a path without a watch; `None`: there is no such node.
    async fn ask(&mut self, kind: i32, path: &str) -> io::Result<Option<Bytes>> {
        let xid = self.next_xid;
        self.next_xid += 1;
        let length = i32::try_from(path.len()).map_err(|_| malformed("the path is too long"))?;
        let mut request = BytesMut::new();
        request.put_i32(xid);
        request.put_i32(kind);
        request.put_i32(length);
        request.put_slice(path.as_bytes());
        request.put_u8(0);
        self.send(&request).await?;
        let mut answer = self.receive().await?;
        if take_i32(&mut answer)? != xid {
            return Err(malformed("an answer to another request came"));
        }
        if answer.remaining() < 8 {
            return Err(malformed("the answer is cut off"));
        }
        answer.advance(8);
        match take_i32(&mut answer)? {
            0 => Ok(Some(answer)),
            NO_NODE => Ok(None),
            error => Err(io::Error::other(format!(
                "ZooKeeper answers error {error} for {path}"
            ))),
        }
    }

    async fn send(&mut self, body: &[u8]) -> io::Result<()> {
        let length = i32::try_from(body.len()).map_err(|_| malformed("the request is too long"))?;
        let mut frame = BytesMut::with_capacity(body.len() + 4);
        frame.put_i32(length);
        frame.put_slice(body);
        self.stream.write_all(&frame).await
    }

    async fn receive(&mut self) -> io::Result<Bytes> {
        let length = usize::try_from(self.stream.read_i32().await?)
            .ok()
            .filter(|length| *length <= ANSWER_BYTES_MAX)
            .ok_or_else(|| malformed("the peer does not speak ZooKeeper's protocol"))?;
        let mut body = BytesMut::new();
        while body.len() < length {
            let missing = length - body.len();
            let mut limited = (&mut self.stream).take(missing as u64);
            if limited.read_buf(&mut body).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(body.freeze())
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn take_i32(bytes: &mut Bytes) -> io::Result<i32> {
    bytes
        .try_get_i32()
        .map_err(|_| malformed("the answer is cut off"))
}

fn take_buffer(bytes: &mut Bytes) -> io::Result<Bytes> {
    let length = usize::try_from(take_i32(bytes)?).unwrap_or(0);
    if length > bytes.remaining() {
        return Err(malformed("the answer is cut off"));
    }
    Ok(bytes.split_to(length))
}

/// The address in a broker's registration: its plain-text listener, else the host and port of old versions.
fn registered(data: &[u8]) -> Option<BrokerAddress> {
    let node: Value = serde_json::from_slice(data).ok()?;
    let plain = node["endpoints"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter_map(|endpoint| {
            let (name, address) = endpoint.split_once("://")?;
            let protocol = node["listener_security_protocol_map"][name]
                .as_str()
                .unwrap_or(name);
            (protocol == "PLAINTEXT").then(|| address.parse().ok())?
        })
        .next();
    plain.or_else(|| {
        let port = u16::try_from(node["port"].as_i64()?).ok()?;
        Some(BrokerAddress::new(node["host"].as_str()?, port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_of_every_age() {
        let address = |text: &str| registered(text.as_bytes()).map(|a| a.to_string());
        assert_eq!(
            address(
                r#"{"listener_security_protocol_map":{"IN":"SSL","OUT":"PLAINTEXT"},"endpoints":["IN://a:1","OUT://b:2"],"host":null,"port":-1}"#
            ),
            Some("b:2".into())
        );
        assert_eq!(
            address(r#"{"jmx_port":-1,"host":"h","version":1,"port":9092}"#),
            Some("h:9092".into())
        );
        assert_eq!(address(r#"{"host":null,"port":-1}"#), None);
        assert_eq!(address("no json"), None);
    }
}
