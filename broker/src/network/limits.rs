//! The limits of the network layer as one small struct.
//! Not here: reading them from the configuration (server.rs).
//! Pure data, shared by all listeners.
//! Kafka: SocketServerConfigs. The limits that Kafka does not have carry their reason.

use std::collections::HashMap;
use std::net::IpAddr;
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
    /// Requests in flight per connection.
    pub const IN_FLIGHT_MAX: usize = 100;
    /// The deadline of one frame.
    pub const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
    /// The wait for responses at a stop.
    pub const DRAIN: Duration = Duration::from_millis(1000);
    /// Kafka's own cap before authentication (`sasl.server.max.receive.size`).
    pub const FIRST_REQUEST_MAX_BYTES: usize = 512 << 10;
}
