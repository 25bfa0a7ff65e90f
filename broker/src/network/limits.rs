//! The limits of the network layer as one small struct.
//! Not here: what happens at a limit (connection.rs, listener.rs).
//! Pure data, shared by all listeners.
//! Kafka: SocketServerConfigs. The limits that Kafka does not have carry their reason.

use crate::network::budget::default_limit_bytes;
use kavka_config::{BrokerConfig, ConfigError};
use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct NetworkLimits {
    /// `socket.request.max.bytes`.
    pub request_max_bytes: usize,
    /// Cap of a connection's first request: who has not yet sent one valid request gets no large buffer.
    pub first_request_max_bytes: usize,
    /// `queued.max.request.bytes`.
    pub queued_request_bytes_max: usize,
    /// Requests of one connection that are dispatched and not yet answered. Kafka has one; clients pipeline five.
    pub in_flight_max: usize,
    /// A request must arrive whole within this time, or at least make progress (see connection.rs). Kafka has only
    /// the idle limit, which one byte a minute keeps away.
    pub frame_timeout: Duration,
    /// `connections.max.idle.ms`.
    pub idle: Duration,
    /// How long a stop waits for responses in flight.
    pub drain: Duration,
    /// `max.connections`.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: usize,
    /// `max.connections.per.ip.overrides`.
    pub connections_per_ip_overrides: HashMap<IpAddr, usize>,
    /// `socket.listen.backlog.size`.
    pub backlog: i32,
    /// `socket.send.buffer.bytes`; `None` leaves it to the system.
    pub send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the system.
    pub receive_buffer_bytes: Option<usize>,
}

impl NetworkLimits {
    /// The settings of this layer.
    pub const KEYS: &[&str] = &[
        "connections.max.idle.ms",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "queued.max.request.bytes",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
    ];

    pub fn from_config(config: &BrokerConfig, memory_bytes: u64) -> Result<Self, ConfigError> {
        let count = |key: &str| usize::try_from(config.unsigned(key)).unwrap_or(usize::MAX);
        // -1 leaves a buffer to the system.
        let buffer = |key: &str| usize::try_from(config.long(key)).ok().filter(|n| *n > 0);
        let request_max_bytes = count("socket.request.max.bytes");
        Ok(NetworkLimits {
            request_max_bytes,
            first_request_max_bytes: Self::FIRST_REQUEST_MAX_BYTES
                .max(count("message.max.bytes").saturating_mul(2))
                .min(request_max_bytes),
            queued_request_bytes_max: match config.long("queued.max.request.bytes") {
                ..=0 => default_limit_bytes(memory_bytes),
                bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
            },
            in_flight_max: Self::IN_FLIGHT_MAX,
            frame_timeout: Self::FRAME_TIMEOUT,
            idle: match u64::try_from(config.long("connections.max.idle.ms")) {
                Ok(ms) => Duration::from_millis(ms).min(Self::FOREVER),
                Err(_) => Self::FOREVER,
            },
            drain: Self::DRAIN,
            connections_max: count("max.connections"),
            connections_per_ip_max: count("max.connections.per.ip"),
            connections_per_ip_overrides: overrides(
                config
                    .text("max.connections.per.ip.overrides")
                    .unwrap_or(""),
            )?,
            backlog: config.int("socket.listen.backlog.size"),
            send_buffer_bytes: buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes: buffer("socket.receive.buffer.bytes"),
        })
    }

    /// A negative idle time. A year keeps timer arithmetic in range.
    const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
    /// Requests in flight per connection.
    pub const IN_FLIGHT_MAX: usize = 100;
    /// The deadline of one frame.
    pub const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
    /// The wait for responses at a stop.
    pub const DRAIN: Duration = Duration::from_millis(1000);
    /// Kafka's own cap before authentication (`sasl.server.max.receive.size`).
    pub const FIRST_REQUEST_MAX_BYTES: usize = 512 << 10;
}

/// `address-or-host:count` between commas.
fn overrides(text: &str) -> Result<HashMap<IpAddr, usize>, ConfigError> {
    const KEY: &str = "max.connections.per.ip.overrides";
    let wrong = |entry: &str| {
        ConfigError::invalid(KEY, text, format!("\"{entry}\" is not address:count")).with_remedy(
            format!("for example {KEY}=127.0.0.1:200,client.example.org:10"),
        )
    };
    let mut found = HashMap::new();
    for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let (host, count) = entry.rsplit_once(':').ok_or_else(|| wrong(entry))?;
        let count = count.trim().parse().map_err(|_| wrong(entry))?;
        let bare = host.trim().trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(ip) => {
                found.insert(ip.to_canonical(), count);
            }
            Err(_) => {
                let addresses = (bare, 0).to_socket_addrs().map_err(|_| wrong(entry))?;
                found.extend(addresses.map(|a| (a.ip().to_canonical(), count)));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_overrides_are_addresses_with_counts() {
        let found = overrides(" 127.0.0.1:5, [::1]:7 ").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[&"127.0.0.1".parse::<IpAddr>().unwrap()], 5);
        assert_eq!(found[&"::1".parse::<IpAddr>().unwrap()], 7);
        assert!(overrides("").unwrap().is_empty());
        for bad in ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:-1"] {
            assert!(overrides(bad).is_err(), "{bad}");
        }
    }
}
