//! Connections over real sockets, with a raw client and a fake table of handlers.

use crate::network::connection::{ConnectionInfo, Dispatch};
use crate::network::greeting::{Conversation, ConversationStep, Greeting};
use crate::network::listener::{Endpoint, ListenerKind};
use crate::network::pending::{Pending, Reply};
use crate::network::{NetworkLimits, SocketServer};
use bytes::{Buf, Bytes, BytesMut};
use kavka_common::{FileRegion, RegionSource, SystemClock};
use kavka_config::SecurityProtocol;
use kavka_protocol::Segment;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Nothing in these tests takes that long unless it hangs.
const HANG: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct OpenFile {
    file: File,
    sendable: bool,
}

impl RegionSource for OpenFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, position)
    }

    fn raw_fd(&self) -> Option<i32> {
        self.sendable.then(|| self.file.as_raw_fd())
    }
}

/// Handles frames of correlation id, opcode, payload.
struct Fake {
    gate: Arc<Semaphore>,
    dispatched: Mutex<Vec<u32>>,
    source: Arc<OpenFile>,
    large: Bytes,
}

impl Dispatch for Fake {
    fn dispatch(&self, _connection: &Arc<ConnectionInfo>, mut frame: Bytes) -> Pending {
        let correlation = frame.get_u32();
        let opcode = frame.get_u8();
        self.dispatched.lock().push(correlation);
        let framed = move |body: Vec<Segment>| {
            let length: usize = body
                .iter()
                .map(|s| match s {
                    Segment::Bytes(b) => b.len(),
                    Segment::File(r) => r.length,
                })
                .sum();
            let mut head = u32::try_from(length + 4).unwrap().to_be_bytes().to_vec();
            head.extend(correlation.to_be_bytes());
            let mut segments = vec![Segment::Bytes(head.into())];
            segments.extend(body);
            Reply::Send(segments)
        };
        match opcode {
            b'e' => Pending::Ready(framed(vec![Segment::Bytes(frame)])),
            b'l' => Pending::Later(Box::pin(async move {
                for _ in 0..(correlation * 7919) % 13 {
                    tokio::task::yield_now().await;
                }
                framed(vec![Segment::Bytes(frame)])
            })),
            b'g' => {
                let gate = Arc::clone(&self.gate);
                Pending::Later(Box::pin(async move {
                    gate.acquire().await.unwrap().forget();
                    framed(vec![Segment::Bytes(frame)])
                }))
            }
            b's' => Pending::SILENT,
            b'c' => Pending::CLOSE,
            b'b' => Pending::Ready(framed(vec![Segment::Bytes(self.large.clone())])),
            b'f' => {
                let position = frame.get_u64();
                let length = usize::try_from(frame.get_u64()).unwrap();
                Pending::Ready(framed(vec![
                    Segment::File(FileRegion {
                        source: Arc::clone(&self.source) as _,
                        position,
                        length,
                    }),
                    Segment::Bytes(Bytes::from_static(b"tail")),
                ]))
            }
            other => panic!("opcode {other}"),
        }
    }

    fn greet(&self, _connection: &Arc<ConnectionInfo>, first_bytes: &[u8]) -> Greeting {
        match first_bytes {
            [_, _, _, _, ..] if first_bytes.starts_with(b"ruok") => {
                Greeting::Answer(Bytes::from_static(b"imok"))
            }
            [_, _, _, _, ..] if first_bytes.starts_with(b"ECHO") => {
                Greeting::Conversation(Box::new(Echo))
            }
            [_, _, _, _, ..] => Greeting::Kafka,
            _ => Greeting::Incomplete,
        }
    }
}

/// Sends lines back; a line `bye` ends it.
struct Echo;

impl Conversation for Echo {
    fn step(&mut self, input: &mut BytesMut) -> ConversationStep {
        let Some(end) = input.iter().position(|b| *b == b'\n') else {
            return ConversationStep::More;
        };
        let line = input.split_to(end + 1).freeze();
        if &line[..] == b"bye\n" {
            ConversationStep::SendAndClose(line)
        } else {
            ConversationStep::Send(line)
        }
    }

    fn input_max_bytes(&self) -> usize {
        100
    }

    fn idle(&self) -> Duration {
        HANG
    }
}

struct Server {
    sockets: Arc<SocketServer>,
    fake: Arc<Fake>,
    content: Vec<u8>,
    address: SocketAddr,
}

fn limits() -> NetworkLimits {
    NetworkLimits {
        request_max_bytes: 4 << 20,
        first_request_max_bytes: 64 << 10,
        queued_request_bytes_max: 64 << 20,
        in_flight_max: NetworkLimits::IN_FLIGHT_MAX,
        frame_timeout: Duration::from_secs(30),
        idle: Duration::from_secs(600),
        drain: Duration::from_secs(5),
        connections_max: usize::MAX,
        connections_per_ip_max: usize::MAX,
        connections_per_ip_overrides: HashMap::new(),
        backlog: 50,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
    }
}

fn endpoint(host: &str, port: u16) -> Endpoint {
    Endpoint {
        name: "PLAINTEXT".into(),
        security_protocol: SecurityProtocol::Plaintext,
        kind: ListenerKind::Broker,
        host: host.into(),
        port,
    }
}

fn server_with(limits: NetworkLimits, sendable: bool) -> Server {
    let mut file = tempfile::tempfile().unwrap();
    let content: Vec<u8> = (0..3_000_000_u32)
        .flat_map(|i| (i / 3).to_le_bytes())
        .take(3 << 20)
        .collect();
    file.write_all(&content).unwrap();
    let fake = Arc::new(Fake {
        gate: Arc::new(Semaphore::new(0)),
        dispatched: Mutex::default(),
        source: Arc::new(OpenFile { file, sendable }),
        large: Bytes::from(vec![b'L'; 1 << 20]),
    });
    let sockets = SocketServer::bind(
        &[endpoint("127.0.0.1", 0)],
        limits,
        Arc::new(SystemClock::new()),
    )
    .unwrap();
    let address = sockets.listeners()[0].address;
    sockets.open(
        ListenerKind::Broker,
        &(Arc::clone(&fake) as Arc<dyn Dispatch>),
        None,
    );
    Server {
        sockets: Arc::new(sockets),
        fake,
        content,
        address,
    }
}

fn server() -> Server {
    server_with(limits(), true)
}

fn request(correlation: u32, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let length = 5 + payload.len().max(3);
    let mut bytes = u32::try_from(length).unwrap().to_be_bytes().to_vec();
    bytes.extend(correlation.to_be_bytes());
    bytes.push(opcode);
    bytes.extend(payload);
    bytes.resize(4 + length, 0);
    bytes
}

fn file_request(correlation: u32, position: u64, length: u64) -> Vec<u8> {
    let mut payload = position.to_be_bytes().to_vec();
    payload.extend(length.to_be_bytes());
    request(correlation, b'f', &payload)
}

async fn response(stream: &mut TcpStream) -> io::Result<(u32, Vec<u8>)> {
    tokio::time::timeout(HANG, async {
        let length = stream.read_u32().await?;
        let correlation = stream.read_u32().await?;
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        stream.read_exact(&mut body).await?;
        Ok((correlation, body))
    })
    .await
    .expect("no response")
}

async fn closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match tokio::time::timeout(HANG, stream.read_to_end(&mut rest)).await {
        Ok(Ok(_)) => true,
        Ok(Err(e)) => matches!(e.kind(), io::ErrorKind::ConnectionReset),
        Err(_) => false,
    }
}

async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    tokio::time::timeout(HANG, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn requests_split_at_every_boundary_are_put_together() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut bytes = Vec::new();
    for i in 0..40 {
        bytes.extend(request(i, b'e', format!("payload {i}").as_bytes()));
    }
    let (mut read, mut write) = stream.split();
    let sending = async {
        let mut at = 0;
        for size in (1..=7).cycle() {
            let end = (at + size).min(bytes.len());
            write.write_all(&bytes[at..end]).await.unwrap();
            tokio::task::yield_now().await;
            at = end;
            if at == bytes.len() {
                break;
            }
        }
    };
    let receiving = async {
        for i in 0..40 {
            let length = read.read_u32().await.unwrap();
            assert_eq!(read.read_u32().await.unwrap(), i);
            let mut body = vec![0; usize::try_from(length).unwrap() - 4];
            read.read_exact(&mut body).await.unwrap();
            assert_eq!(body, format!("payload {i}").as_bytes());
        }
    };
    tokio::time::timeout(HANG, async { tokio::join!(sending, receiving) })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pipelined_requests_are_answered_in_order() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut bytes = Vec::new();
    for i in 0..1000 {
        // Silent requests leave no gap; the others finish in a scrambled order.
        bytes.extend(request(i, if i % 10 == 3 { b's' } else { b'l' }, b"abc"));
    }
    stream.write_all(&bytes).await.unwrap();
    for i in (0..1000).filter(|i| i % 10 != 3) {
        assert_eq!(response(&mut stream).await.unwrap(), (i, b"abc".to_vec()));
    }
    assert_eq!(
        *server.fake.dispatched.lock(),
        (0..1000).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_slow_request_does_not_keep_later_ones_from_being_dispatched() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request(1, b'g', b"abc")).await.unwrap();
    stream.write_all(&request(2, b'e', b"abc")).await.unwrap();
    wait_until("both are dispatched", || {
        server.fake.dispatched.lock().len() == 2
    })
    .await;
    server.fake.gate.add_permits(1);
    assert_eq!(response(&mut stream).await.unwrap().0, 1);
    assert_eq!(response(&mut stream).await.unwrap().0, 2);
}

#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let server = server_with(
        NetworkLimits {
            in_flight_max: 3,
            ..limits()
        },
        true,
    );
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for i in 0..10 {
        stream.write_all(&request(i, b'g', b"abc")).await.unwrap();
    }
    wait_until("three are dispatched", || {
        server.fake.dispatched.lock().len() == 3
    })
    .await;
    server.fake.gate.add_permits(1);
    assert_eq!(response(&mut stream).await.unwrap().0, 0);
    wait_until("the fourth follows the first answer", || {
        server.fake.dispatched.lock().len() == 4
    })
    .await;
    server.fake.gate.add_permits(9);
    for i in 1..10 {
        assert_eq!(response(&mut stream).await.unwrap().0, i);
    }
}

#[tokio::test]
async fn bad_lengths_and_other_protocols_are_disconnected() {
    let server = server();
    let bad: [&[u8]; 8] = [
        &[0xff, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0, 0, 0, 0],
        &[0, 0, 0, 3],
        &[0x7f, 0xff, 0xff, 0xff],
        b"GET / HTTP/1.0\r\n\r\n",
        &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01],
        // Above the cap of a first request.
        &[0, 0x10, 0, 0],
    ];
    for bytes in bad {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        assert!(closed(&mut stream).await, "{bytes:?}");
    }
    wait_until("all connections are gone", || {
        server.sockets.connections() == 0
    })
    .await;
    assert!(server.fake.dispatched.lock().is_empty());
}

#[tokio::test]
async fn a_large_request_is_taken_once_the_peer_is_known() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request(1, b'e', b"abc")).await.unwrap();
    response(&mut stream).await.unwrap();
    let payload = vec![7; 3 << 20];
    let large = request(2, b'e', &payload);
    let (mut read, mut write) = stream.split();
    let receiving = async {
        let length = read.read_u32().await.unwrap();
        assert_eq!(read.read_u32().await.unwrap(), 2);
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        read.read_exact(&mut body).await.unwrap();
        assert_eq!(body, payload);
    };
    tokio::time::timeout(HANG, async {
        tokio::join!(async { write.write_all(&large).await.unwrap() }, receiving)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn zookeepers_words_are_answered_where_the_listener_does() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"ruok").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"imok");

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"stat\n").await.unwrap();
    assert!(closed(&mut stream).await);
}

#[tokio::test]
async fn another_protocol_may_take_the_connection() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for part in [&b"EC"[..], b"HO\none", b"\ntwo\nbye\nlost"] {
        stream.write_all(part).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), "ECHO\none\ntwo\nbye\n");

    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"ECHO").await.unwrap();
    let _ = stream.write_all(&[b'x'; 200]).await;
    assert!(closed(&mut stream).await, "its input is bounded");
}

#[tokio::test]
async fn a_frame_that_trickles_in_is_cut_off() {
    let server = server_with(
        NetworkLimits {
            frame_timeout: Duration::from_millis(100),
            ..limits()
        },
        true,
    );
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let bytes = request(1, b'e', &[1; 5000]);
    let mut cut_off = false;
    for byte in bytes.chunks(1) {
        if stream.write_all(byte).await.is_err() {
            cut_off = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(cut_off || closed(&mut stream).await);
    assert!(server.fake.dispatched.lock().is_empty());
}

#[tokio::test]
async fn an_idle_connection_is_closed_but_not_one_that_waits_for_an_answer() {
    let server = server_with(
        NetworkLimits {
            idle: Duration::from_millis(60),
            ..limits()
        },
        true,
    );
    let mut waiting = TcpStream::connect(server.address).await.unwrap();
    waiting.write_all(&request(1, b'g', b"abc")).await.unwrap();
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    assert!(closed(&mut idle).await);
    server.fake.gate.add_permits(1);
    assert_eq!(response(&mut waiting).await.unwrap().0, 1);
}

#[tokio::test]
async fn a_peer_that_has_sent_its_last_request_still_gets_its_answers() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request(1, b'g', b"abc")).await.unwrap();
    stream.write_all(&request(2, b'e', b"abc")).await.unwrap();
    stream.shutdown().await.unwrap();
    server.fake.gate.add_permits(1);
    assert_eq!(response(&mut stream).await.unwrap().0, 1);
    assert_eq!(response(&mut stream).await.unwrap().0, 2);
    assert!(closed(&mut stream).await);
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_frame_frees_the_connection() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let bytes = request(1, b'e', &[1; 500]);
    stream.write_all(&bytes[..100]).await.unwrap();
    wait_until("it is accepted", || server.sockets.connections() == 1).await;
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
    wait_until("it is freed", || server.sockets.connections() == 0).await;
    assert!(server.fake.dispatched.lock().is_empty());
}

#[tokio::test]
async fn a_handler_may_close_after_the_answers_before_it() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut bytes = request(1, b'g', b"abc");
    bytes.extend(request(2, b'c', b"abc"));
    bytes.extend(request(3, b'e', b"abc"));
    stream.write_all(&bytes).await.unwrap();
    wait_until("two are dispatched", || {
        server.fake.dispatched.lock().len() == 2
    })
    .await;
    server.fake.gate.add_permits(1);
    assert_eq!(response(&mut stream).await.unwrap().0, 1);
    assert!(closed(&mut stream).await);
    assert_eq!(*server.fake.dispatched.lock(), [1, 2]);
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_a_bounded_output_and_is_dropped() {
    let server = server_with(
        NetworkLimits {
            idle: Duration::from_millis(300),
            ..limits()
        },
        true,
    );
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for i in 0..200 {
        // One MiB of answer for each; the rest of the requests stays in the socket.
        stream.write_all(&request(i, b'b', b"abc")).await.unwrap();
    }
    wait_until("it is dropped", || server.sockets.connections() == 0).await;
    let dispatched = server.fake.dispatched.lock().len();
    assert!(dispatched < 60, "{dispatched} answers were made");
}

#[tokio::test]
async fn regions_of_files_are_sent_with_and_without_sendfile() {
    for sendable in [true, false] {
        let server = server_with(limits(), sendable);
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let regions = [
            (0, 1),
            (17, 100_000),
            (5, 3 << 19),
            (1 << 20, 2 << 20),
            (9, 0),
        ];
        for (i, (position, length)) in (0..).zip(regions) {
            stream
                .write_all(&file_request(i, position, length))
                .await
                .unwrap();
            let (correlation, body) = response(&mut stream).await.unwrap();
            assert_eq!(correlation, i);
            let start = usize::try_from(position).unwrap();
            let end = start + usize::try_from(length).unwrap();
            let (records, tail) = body.split_at(body.len() - 4);
            assert!(
                records == &server.content[start..end],
                "{position}+{length}"
            );
            assert_eq!(tail, b"tail");
        }
    }
}

#[tokio::test]
async fn a_region_beyond_the_end_of_its_file_closes_the_connection() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(&file_request(1, 3 << 20, 10))
        .await
        .unwrap();
    assert!(closed(&mut stream).await);
}

#[tokio::test]
async fn a_full_request_budget_holds_back_large_requests_only() {
    let server = server_with(
        NetworkLimits {
            queued_request_bytes_max: 10_000,
            ..limits()
        },
        true,
    );
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first
        .write_all(&request(1, b'g', &[0; 20_000]))
        .await
        .unwrap();
    wait_until("the first is dispatched", || {
        server.fake.dispatched.lock().len() == 1
    })
    .await;
    let mut second = TcpStream::connect(server.address).await.unwrap();
    second
        .write_all(&request(2, b'e', &[0; 20_000]))
        .await
        .unwrap();
    let mut small = TcpStream::connect(server.address).await.unwrap();
    small.write_all(&request(3, b'e', b"abc")).await.unwrap();
    assert_eq!(response(&mut small).await.unwrap().0, 3);
    assert_eq!(*server.fake.dispatched.lock(), [1, 3]);
    server.fake.gate.add_permits(1);
    assert_eq!(response(&mut first).await.unwrap().0, 1);
    assert_eq!(response(&mut second).await.unwrap().0, 2);
}

#[tokio::test]
async fn connections_are_limited_per_address_and_in_all() {
    let server = server_with(
        NetworkLimits {
            connections_per_ip_max: 2,
            ..limits()
        },
        true,
    );
    let mut first = TcpStream::connect(server.address).await.unwrap();
    let mut second = TcpStream::connect(server.address).await.unwrap();
    for stream in [&mut first, &mut second] {
        stream.write_all(&request(1, b'e', b"abc")).await.unwrap();
        response(stream).await.unwrap();
    }
    let mut third = TcpStream::connect(server.address).await.unwrap();
    assert!(closed(&mut third).await);
    drop(first);
    wait_until("the slot is free", || server.sockets.connections() == 1).await;
    let mut fourth = TcpStream::connect(server.address).await.unwrap();
    fourth.write_all(&request(1, b'e', b"abc")).await.unwrap();
    response(&mut fourth).await.unwrap();

    let server = server_with(
        NetworkLimits {
            connections_max: 1,
            ..limits()
        },
        true,
    );
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first.write_all(&request(1, b'e', b"abc")).await.unwrap();
    response(&mut first).await.unwrap();
    let mut second = TcpStream::connect(server.address).await.unwrap();
    second.write_all(&request(2, b'e', b"abc")).await.unwrap();
    drop(first);
    assert_eq!(response(&mut second).await.unwrap().0, 2);
}

#[tokio::test]
async fn a_stop_answers_what_was_dispatched() {
    let server = server();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&request(1, b'g', b"abc")).await.unwrap();
    wait_until("it is dispatched", || {
        server.fake.dispatched.lock().len() == 1
    })
    .await;
    let sockets = Arc::clone(&server.sockets);
    let stopping = tokio::spawn(async move { sockets.shutdown().await });
    wait_until("accepting has stopped", || {
        std::net::TcpListener::bind(server.address).is_ok()
    })
    .await;
    server.fake.gate.add_permits(1);
    assert_eq!(response(&mut stream).await.unwrap().0, 1);
    assert!(closed(&mut stream).await);
    stopping.await.unwrap();
    assert_eq!(server.sockets.connections(), 0);
}

#[tokio::test]
async fn listeners_bind_on_both_families_and_say_why_they_cannot() {
    let clock = Arc::new(SystemClock::new());
    let everywhere = SocketServer::bind(&[endpoint("", 0)], limits(), clock.clone()).unwrap();
    let port = everywhere.listeners()[0].address.port();
    TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let taken = SocketServer::bind(&[endpoint("127.0.0.1", port)], limits(), clock.clone());
    // A listener on all addresses does not take the port from one on a single address everywhere; when it does,
    // the text names the port.
    if let Err(e) = taken {
        assert!(e.to_string().contains(&port.to_string()), "{e}");
    }
    let one = SocketServer::bind(&[endpoint("127.0.0.1", 0)], limits(), clock.clone()).unwrap();
    let port = one.listeners()[0].address.port();
    let e = SocketServer::bind(&[endpoint("127.0.0.1", port)], limits(), clock.clone())
        .err()
        .expect("the port is taken");
    assert!(
        e.to_string().starts_with(&format!(
            "Socket server failed to bind to 127.0.0.1:{port}: Address already in use."
        )),
        "{e}"
    );
    let both = SocketServer::bind(
        &[endpoint("127.0.0.1", port), endpoint("::1", port)],
        limits(),
        clock,
    );
    assert!(both.is_err(), "the first of the two is taken");
}
