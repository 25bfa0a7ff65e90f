//! One connection to one broker: frames, correlation, version negotiation, typed calls.
//! Not here: which broker to ask (cluster), retries, TLS and SASL (a later room).
//! Owned by one caller at a time; a call that fails leaves the connection unusable, its owner drops it.
//! Kafka: org.apache.kafka.clients.NetworkClient, ApiVersions; KIP-35, KIP-511.

use crate::{BrokerAddress, ClientConfig, ClientError, probe};
use bytes::{Bytes, BytesMut};
use kavka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kavka_protocol::{ApiKey, ErrorCode, Message, Request, Segment, StrBytes, frame};
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Largest answer that is read: more than any broker sends, less than what would hurt.
const RESPONSE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// A read buffer grows by at most this much ahead of the bytes that arrived.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A negotiated connection.
#[derive(Debug)]
pub struct Connection {
    address: BrokerAddress,
    stream: TcpStream,
    client_id: StrBytes,
    next_correlation_id: i32,
    request_timeout: Duration,
    versions: BTreeMap<i16, RangeInclusive<i16>>,
    features: ApiVersionsResponse,
}

impl Connection {
    /// Connects and asks for the versions of all APIs. When the peer closes or answers nonsense, it is identified.
    pub async fn connect(
        address: &BrokerAddress,
        config: &ClientConfig,
    ) -> Result<Connection, ClientError> {
        let connect = TcpStream::connect((address.host.as_str(), address.port));
        let stream = match timeout(Duration::from_millis(config.connect_timeout_ms), connect).await
        {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => {
                return Err(ClientError::Connect {
                    address: address.clone(),
                    source,
                });
            }
            Err(_) => {
                return Err(ClientError::Connect {
                    address: address.clone(),
                    source: io::Error::from(io::ErrorKind::TimedOut),
                });
            }
        };
        // Small requests and their answers: waiting for more to send would only add latency.
        let _ = stream.set_nodelay(true);
        let mut connection = Connection {
            address: address.clone(),
            stream,
            client_id: config.client_id.as_str().into(),
            next_correlation_id: 0,
            request_timeout: Duration::from_millis(config.request_timeout_ms),
            versions: BTreeMap::new(),
            features: ApiVersionsResponse::default(),
        };
        match connection.negotiate().await {
            Ok(()) => Ok(connection),
            Err(
                error @ (ClientError::Lost { .. }
                | ClientError::BadAnswer { .. }
                | ClientError::TimedOut { .. }),
            ) => match probe::identify(address).await {
                Some(what) => Err(ClientError::NotKafka {
                    address: address.clone(),
                    what,
                }),
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    pub fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// What the broker said of its APIs and features.
    pub fn api_versions(&self) -> &ApiVersionsResponse {
        &self.features
    }

    /// The highest version that both sides know.
    pub fn version_of(&self, api: ApiKey) -> Option<i16> {
        let ours = api.versions()?;
        let theirs = self.versions.get(&(api as i16))?;
        let version = *ours.end().min(theirs.end());
        (version >= *ours.start() && version >= *theirs.start()).then_some(version)
    }

    /// Sends a request in the highest common version and waits for its answer.
    pub async fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        let version = self
            .version_of(R::API_KEY)
            .ok_or(ClientError::UnsupportedApi { api: R::API_KEY })?;
        self.call_version(request, version).await
    }

    /// Sends a request in the given version.
    pub async fn call_version<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ClientError> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        let segments = frame::encode_request(
            version,
            correlation_id,
            Some(self.client_id.clone()),
            request,
        )?;
        let wait = self.request_timeout;
        let exchange = async {
            for segment in &segments {
                match segment {
                    Segment::Bytes(bytes) => self.stream.write_all(bytes).await?,
                    Segment::File(region) => self.stream.write_all(&region.read()?).await?,
                }
            }
            self.read_frame().await
        };
        let mut answer = match timeout(wait, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(source)) => {
                return Err(ClientError::Lost {
                    address: self.address.clone(),
                    source,
                });
            }
            Err(_) => {
                return Err(ClientError::TimedOut {
                    what: format!("{} to {}", R::API_KEY.name(), self.address),
                    timeout_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                });
            }
        };
        self.decode_answer::<R>(&mut answer, version, correlation_id)
    }

    fn decode_answer<R: Request>(
        &self,
        answer: &mut Bytes,
        version: i16,
        correlation_id: i32,
    ) -> Result<R::Response, ClientError> {
        let bad = |source| ClientError::BadAnswer {
            address: self.address.clone(),
            api: R::API_KEY,
            source,
        };
        // A broker that does not know our ApiVersions version answers in version 0, with an error code first.
        let version = match R::API_KEY {
            ApiKey::ApiVersions if answer.get(4..6) == Some(&UNSUPPORTED_VERSION) => 0,
            _ => version,
        };
        let header = frame::decode_response_header(R::API_KEY, version, answer).map_err(bad)?;
        if header.correlation_id != correlation_id {
            return Err(ClientError::Lost {
                address: self.address.clone(),
                source: io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "answer {} came instead of answer {correlation_id}",
                        header.correlation_id
                    ),
                ),
            });
        }
        R::Response::decode(answer, version).map_err(bad)
    }

    async fn read_frame(&mut self) -> io::Result<Bytes> {
        let length = self.stream.read_i32().await?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= RESPONSE_BYTES_MAX)
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("the peer announces an answer of {length} bytes"),
                )
            })?;
        let mut buffer = BytesMut::new();
        while buffer.len() < length {
            let missing = length - buffer.len();
            buffer.reserve(missing.min(READ_CHUNK_BYTES));
            let mut limited = (&mut self.stream).take(missing as u64);
            if limited.read_buf(&mut buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(buffer.freeze())
    }

    async fn negotiate(&mut self) -> Result<(), ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: "kavka".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        let newest = ApiKey::ApiVersions
            .versions()
            .map_or(0, |versions| *versions.end());
        let mut answer = self.call_version(&request, newest).await?;
        if ErrorCode::from(answer.error_code) == ErrorCode::UnsupportedVersion {
            let theirs = answer
                .api_keys
                .iter()
                .find(|row| row.api_key == ApiKey::ApiVersions as i16)
                .map_or(0, |row| row.max_version);
            answer = self.call_version(&request, theirs.min(newest)).await?;
        }
        ClientError::check(answer.error_code, None)?;
        self.versions = answer
            .api_keys
            .iter()
            .map(|row| (row.api_key, row.min_version..=row.max_version))
            .collect();
        self.features = answer;
        Ok(())
    }
}

const UNSUPPORTED_VERSION: [u8; 2] = (ErrorCode::UnsupportedVersion as i16).to_be_bytes();

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Answers every connection with `bytes` after having read something, then closes.
    async fn serve(bytes: &'static [u8]) -> BrokerAddress {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buf = [0; 1024];
                let _ = stream.read(&mut buf).await;
                let _ = stream.write_all(bytes).await;
            }
        });
        BrokerAddress::new("127.0.0.1", port)
    }

    #[tokio::test]
    async fn what_is_not_kafka_is_named() {
        for (answer, word) in [
            (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "HTTP"),
            (&b"imok"[..], "ZooKeeper"),
            (&[0x15, 0x03, 0x03, 0, 2, 2, 40][..], "TLS"),
        ] {
            let address = serve(answer).await;
            let error = Connection::connect(&address, &ClientConfig::default())
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[tokio::test]
    async fn a_huge_announced_answer_is_refused() {
        let address = serve(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]).await;
        let error = Connection::connect(&address, &ClientConfig::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("2147483647"), "{error}");
    }

    #[tokio::test]
    async fn a_closed_port_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = Connection::connect(
            &BrokerAddress::new("127.0.0.1", port),
            &ClientConfig::default(),
        )
        .await
        .unwrap_err();
        assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    }
}
