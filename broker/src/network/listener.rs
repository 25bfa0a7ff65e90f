//! One listening socket: binding it with Kafka's meaning of hosts, and the loop that accepts.
//! Not here: the connection itself (connection.rs), which endpoints exist (server.rs).
//! One task per listener. Running out of descriptors slows accepting down, it never spins.
//! Kafka: kafka.network.{Acceptor, DataPlaneAcceptor}.

use crate::logging::RateLimit;
use crate::network::connection::{Closed, Connection, ConnectionInfo, Dispatch};
use crate::network::connection_quota::Admitted;
use crate::network::socket_server::NetworkShared;
use kavka_config::{Listener as ConfiguredListener, SecurityProtocol};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::{debug, info, warn};

/// Pause after a failed accept: long enough not to spin, short enough not to be noticed.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Which requests a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenerKind {
    Broker,
    Controller,
}

/// A listener as the configuration names it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub name: String,
    pub security_protocol: SecurityProtocol,
    pub kind: ListenerKind,
    /// Empty: all addresses.
    pub host: String,
    pub port: u16,
}

impl Endpoint {
    pub fn of(listener: &ConfiguredListener, kind: ListenerKind) -> Endpoint {
        Endpoint {
            name: listener.name.clone(),
            security_protocol: listener.security_protocol,
            kind,
            host: listener.host.clone(),
            port: listener.port,
        }
    }
}

/// A bound listener.
#[derive(Debug)]
pub struct ListenerInfo {
    pub name: String,
    pub security_protocol: SecurityProtocol,
    pub kind: ListenerKind,
    /// The host as configured; empty for all addresses.
    pub host: String,
    /// The real port, also where 0 was configured.
    pub address: SocketAddr,
}

/// The listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("Socket server failed to bind to {host}:{port}: {reason}.")]
    Bind {
        host: String,
        port: u16,
        reason: String,
        kind: io::ErrorKind,
    },
    #[error(
        "Listener {name} uses {protocol}, which this server does not speak yet. Use PLAINTEXT in listener.security.protocol.map"
    )]
    Protocol {
        name: String,
        protocol: SecurityProtocol,
    },
}

impl BindError {
    /// What to change: `port_setting` and `host_setting` are the names that port and host have in the file that was read.
    pub fn remedy(&self, port_setting: &str, host_setting: &str) -> Option<String> {
        let BindError::Bind { kind, .. } = self else {
            return None;
        };
        match kind {
            io::ErrorKind::AddrInUse => Some(format!(
                "Another process listens there: stop it, or give this server another port in '{port_setting}'"
            )),
            io::ErrorKind::AddrNotAvailable if port_setting == host_setting => Some(format!(
                "The host is not an address of this machine: correct '{host_setting}', and name outside addresses in 'advertised.listeners'"
            )),
            io::ErrorKind::AddrNotAvailable => Some(format!(
                "The host is not an address of this machine: correct '{host_setting}'"
            )),
            io::ErrorKind::PermissionDenied => Some("Ports below 1024 need a privilege".into()),
            _ => None,
        }
    }
}

pub(crate) struct Listener {
    pub(crate) info: Arc<ListenerInfo>,
    socket: TcpListener,
}

impl Listener {
    /// `v6_only`: another listener has the same port on IPv4.
    pub(crate) fn bind(
        endpoint: &Endpoint,
        v6_only: bool,
        shared: &NetworkShared,
    ) -> Result<Listener, BindError> {
        if endpoint.security_protocol != SecurityProtocol::Plaintext {
            return Err(BindError::Protocol {
                name: endpoint.name.clone(),
                protocol: endpoint.security_protocol,
            });
        }
        let socket = bind_socket(endpoint, v6_only, shared).map_err(|e| BindError::Bind {
            host: if endpoint.host.is_empty() {
                "0.0.0.0".into()
            } else {
                endpoint.host.clone()
            },
            port: endpoint.port,
            reason: reason_text(&e),
            kind: e.kind(),
        })?;
        let address = socket.local_addr().map_err(|e| BindError::Bind {
            host: endpoint.host.clone(),
            port: endpoint.port,
            reason: e.to_string(),
            kind: e.kind(),
        })?;
        Ok(Listener {
            info: Arc::new(ListenerInfo {
                name: endpoint.name.clone(),
                security_protocol: endpoint.security_protocol,
                kind: endpoint.kind,
                host: endpoint.host.clone(),
                address,
            }),
            socket,
        })
    }

    /// Accepts until `stopping`. A protected listener (the one between brokers) goes on when others are full.
    pub(crate) async fn accept_loop(
        self,
        dispatch: Arc<dyn Dispatch>,
        shared: Arc<NetworkShared>,
        protected: bool,
        mut stopping: watch::Receiver<bool>,
    ) {
        let host = if self.info.host.is_empty() {
            "0.0.0.0"
        } else {
            &self.info.host
        };
        info!(target: "kafka.network.DataPlaneAcceptor", "Awaiting socket connections on {host}:{}.", self.info.address.port());
        let refused = RateLimit::per_second(1);
        let failed = RateLimit::per_second(1);
        let mut stop = std::pin::pin!(stopping.wait_for(|stop| *stop));
        loop {
            let accepted = tokio::select! {
                _ = stop.as_mut() => return,
                accepted = async {
                    if !protected {
                        shared.quota.wait_for_slot().await;
                    }
                    self.socket.accept().await
                } => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    match shared.quota.admit(peer.ip()) {
                        Ok(admitted) => {
                            spawn_connection(&self.info, stream, peer, admitted, &dispatch, &shared)
                        }
                        Err(e) => {
                            if let Some(more) = refused.pass(shared.clock.monotonic_ms()) {
                                info!(target: "kafka.network.DataPlaneAcceptor", "Rejected connection from {peer}, address already has the configured maximum of {} connections.{more}", e.max);
                            }
                        }
                    }
                }
                Err(e) => {
                    if let Some(more) = failed.pass(shared.clock.monotonic_ms()) {
                        warn!(target: "kafka.network.DataPlaneAcceptor", "Error while accepting connection on listener {}: {e}.{}{more}", self.info.name, accept_remedy(&e));
                    }
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
}

fn spawn_connection(
    listener: &Arc<ListenerInfo>,
    stream: TcpStream,
    peer: SocketAddr,
    admitted: Admitted,
    dispatch: &Arc<dyn Dispatch>,
    shared: &Arc<NetworkShared>,
) {
    let local = match configure(&stream, shared) {
        Ok(local) => local,
        // The peer is gone already.
        Err(_) => return,
    };
    let info = Arc::new(ConnectionInfo {
        id: shared.next_connection_id(),
        peer,
        local: SocketAddr::new(local.ip().to_canonical(), local.port()),
        listener: Arc::clone(listener),
    });
    let connection = Connection::new(
        stream,
        Arc::clone(&info),
        Arc::clone(dispatch),
        Arc::clone(shared),
    );
    let shared = Arc::clone(shared);
    let stopping = shared.draining.subscribe();
    shared.connections.clone().spawn(async move {
        let closed = connection.run(stopping).await;
        drop(admitted);
        report(&closed, &info, &shared);
    });
}

fn configure(stream: &TcpStream, shared: &NetworkShared) -> io::Result<SocketAddr> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_keepalive(true)?;
    if let Some(bytes) = shared.limits.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    stream.local_addr()
}

/// Ordinary ends are not worth a line; a peer at fault is, but not at its own rate.
fn report(closed: &Closed, info: &ConnectionInfo, shared: &NetworkShared) {
    let (id, peer, listener) = (info.id, info.peer, &info.listener.name);
    match closed {
        Closed::Frame(_) | Closed::FrameTooSlow { .. } | Closed::OutputStalled { .. } => {
            if let Some(more) = shared.fault_lines.pass(shared.clock.monotonic_ms()) {
                warn!(target: "org.apache.kafka.common.network.Selector", "[SocketServer listener={listener}] Unexpected error from {peer}; closing connection: {closed}{more}");
            }
        }
        Closed::ByPeer
        | Closed::ByPeerInFrame
        | Closed::Idle
        | Closed::ByHandler
        | Closed::CommandAnswered
        | Closed::ByConversation(_)
        | Closed::Shutdown
        | Closed::Io(_) => {
            debug!(target: "org.apache.kafka.common.network.Selector", "[SocketServer listener={listener}] Connection {id} with {peer} disconnected: {closed}");
        }
    }
}

fn bind_socket(
    endpoint: &Endpoint,
    v6_only: bool,
    shared: &NetworkShared,
) -> io::Result<TcpListener> {
    let mut last = None;
    for address in addresses(&endpoint.host, endpoint.port)? {
        match bind_address(address, v6_only, shared) {
            Ok(socket) => return Ok(socket),
            // A machine without IPv6 still listens on all its IPv4 addresses.
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address")))
}

/// The addresses to try, in order; the first that can be bound is used.
fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.is_empty() {
        return Ok(vec![
            (Ipv6Addr::UNSPECIFIED, port).into(),
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ]);
    }
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(vec![(ip, port).into()]);
    }
    Ok((bare, port).to_socket_addrs()?.collect())
}

fn bind_address(
    address: SocketAddr,
    v6_only: bool,
    shared: &NetworkShared,
) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(v6_only)?;
    }
    if let Some(bytes) = shared.limits.receive_buffer_bytes {
        // Before listening: the window scale is fixed when a connection is made.
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(shared.limits.backlog)?;
    TcpListener::from_std(socket.into())
}

fn reason_text(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::AddrInUse => "Address already in use".into(),
        io::ErrorKind::AddrNotAvailable => "Cannot assign requested address".into(),
        io::ErrorKind::PermissionDenied => "Permission denied".into(),
        _ => e.to_string(),
    }
}

fn accept_remedy(e: &io::Error) -> &'static str {
    match rustix::io::Errno::from_io_error(e) {
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
            " The limit of open files is reached: raise it (ulimit -n)."
        }
        _ => "",
    }
}
