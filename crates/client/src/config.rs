//! The client settings that this client acts on, read from Java property names.
//! Not here: producer and consumer settings (`java_properties`), files.
//! Pure. Kafka: org.apache.kafka.clients.admin.AdminClientConfig, CommonClientConfigs.

use crate::ClientError;
use kavka_config::properties::Properties;

/// Settings of connections and calls; the defaults are Java's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    pub client_id: String,
    /// `request.timeout.ms`: of one call.
    pub request_timeout_ms: u64,
    /// `default.api.timeout.ms`: of an operation with its retries.
    pub api_timeout_ms: u64,
    /// `retry.backoff.ms`: the first pause between two tries.
    pub retry_backoff_ms: u64,
    /// `retry.backoff.max.ms`: the longest pause between two tries.
    pub retry_backoff_ms_max: u64,
    /// `socket.connection.setup.timeout.ms`: of connecting to one address.
    pub connect_timeout_ms: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig {
            client_id: "adminclient-1".into(),
            request_timeout_ms: 30_000,
            api_timeout_ms: 60_000,
            retry_backoff_ms: 100,
            retry_backoff_ms_max: 1_000,
            connect_timeout_ms: 10_000,
        }
    }
}

impl ClientConfig {
    /// Reads a `--command-config` file. A security protocol that this client cannot speak is refused: going on in
    /// plain text would tell secrets to whoever listens.
    pub fn from_properties(properties: &Properties) -> Result<Self, ClientError> {
        let mut config = ClientConfig::default();
        let number = |key: &str, default: u64| -> Result<u64, ClientError> {
            match properties.get(key) {
                None => Ok(default),
                Some(text) => text.trim().parse().map_err(|_| {
                    ClientError::Config(format!(
                        "Invalid value {text} for configuration {key}: Not a number of type INT"
                    ))
                }),
            }
        };
        if let Some(id) = properties.get("client.id") {
            config.client_id = id.trim().to_owned();
        }
        config.request_timeout_ms = number("request.timeout.ms", config.request_timeout_ms)?;
        config.api_timeout_ms = number("default.api.timeout.ms", config.api_timeout_ms)?;
        config.retry_backoff_ms = number("retry.backoff.ms", config.retry_backoff_ms)?;
        config.retry_backoff_ms_max = number("retry.backoff.max.ms", config.retry_backoff_ms_max)?;
        config.connect_timeout_ms = number(
            "socket.connection.setup.timeout.ms",
            config.connect_timeout_ms,
        )?;
        match properties
            .get("security.protocol")
            .map(|p| p.trim().to_ascii_uppercase())
        {
            None => Ok(config),
            Some(protocol) if protocol == "PLAINTEXT" => Ok(config),
            Some(protocol)
                if matches!(protocol.as_str(), "SSL" | "SASL_PLAINTEXT" | "SASL_SSL") =>
            {
                Err(ClientError::Config(format!(
                    "security.protocol={protocol} is not supported by the admin tools yet; use a PLAINTEXT listener of the broker"
                )))
            }
            Some(protocol) => Err(ClientError::Config(format!(
                "Invalid value {protocol} for configuration security.protocol: (case insensitive) String must be one of: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
            ))),
        }
    }
}
