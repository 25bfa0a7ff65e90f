//! Carries the frames of one connection both ways, as the rules of the pair say.
//! Not here: the rules (mod), Kafka's messages beyond the first bytes of a header.
//! One task for each entrance and for each connection, all on the network's thread.
//! A frame is read as a whole before it goes on, so that it can be cut, held or swallowed.

use super::{Host, Mischief, Shared, locked, whose};
use futures::FutureExt;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// More than any frame of a test; a length beyond it is not Kafka's.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// A request that was held is given so long to be answered, unheard.
const LATE_ANSWER: Duration = Duration::from_secs(5);
/// Between two looks whether somebody who waits for the healing is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Accepts connections to one node.
pub(super) async fn serve(
    shared: Arc<Shared>,
    listener: std::net::TcpListener,
    node: i32,
    target_port: u16,
) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = TcpListener::from_std(listener).expect("a runtime");
    let port = listener.local_addr().expect("an address").port();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Most likely there are too many of them for the moment.
            sleep(LOOK).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let from = {
                let processes = locked(&shared.processes).clone();
                whose::node_of(peer.port(), port, &processes).map_or(Host::Client, Host::Node)
            };
            let link = Link {
                shared,
                from,
                to: node,
            };
            // However it ends, both sides are closed.
            let _ = link.carry(stream, target_port).await;
        });
    }
}

struct Link {
    shared: Arc<Shared>,
    /// Who connected.
    from: Host,
    to: i32,
}

/// What becomes of the answers to requests that are under way, by correlation id.
type Doomed = Mutex<HashMap<i32, Mischief>>;

/// Goes from the reading half of a direction to the writing half.
enum Item {
    Frame(Instant, Vec<u8>),
    /// Bytes that are not followed by anything: the connection is reset after them.
    Last(Vec<u8>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl Link {
    fn ends(&self, direction: Direction) -> (Host, Host) {
        match direction {
            Direction::Requests => (self.from, Host::Node(self.to)),
            Direction::Answers => (Host::Node(self.to), self.from),
        }
    }

    async fn carry(&self, near: TcpStream, target_port: u16) -> io::Result<()> {
        // A connection is made by packets both ways.
        let mut rules = self.shared.rules.subscribe();
        let resets = rules.borrow().resets_of(self.from, Host::Node(self.to));
        // Whatever is not closed in order is reset.
        near.set_zero_linger()?;
        loop {
            let open = rules.wait_for(|rules| !rules.silent(self.from, Host::Node(self.to)));
            match timeout(LOOK, open).await {
                Ok(_) => break,
                // Whoever gave up was never connected.
                Err(_) if given_up(&near) => return Ok(()),
                Err(_) => {}
            }
        }
        let far = TcpStream::connect(("127.0.0.1", target_port)).await?;
        far.set_zero_linger()?;
        far.set_nodelay(true)?;
        near.set_nodelay(true)?;
        let (near_in, near_out) = near.into_split();
        let (far_in, far_out) = far.into_split();
        let doomed = Doomed::default();
        let reset = async {
            let changed = rules
                .wait_for(|rules| rules.resets_of(self.from, Host::Node(self.to)) > resets)
                .await
                .is_ok();
            if changed { Err(cut()) } else { Ok(()) }
        };
        let both = async {
            tokio::try_join!(
                self.pump(Direction::Requests, near_in, far_out, &doomed, target_port),
                self.pump(Direction::Answers, far_in, near_out, &doomed, target_port),
            )
        };
        tokio::select! {
            ended = both => ended.map(|_| ()),
            ended = reset => ended,
        }
    }

    async fn pump(
        &self,
        direction: Direction,
        from: OwnedReadHalf,
        to: OwnedWriteHalf,
        doomed: &Doomed,
        target_port: u16,
    ) -> io::Result<()> {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::try_join!(
            self.read(direction, from, sender, doomed, target_port),
            self.write(direction, to, receiver),
        )?;
        Ok(())
    }

    async fn read(
        &self,
        direction: Direction,
        mut from: OwnedReadHalf,
        sender: mpsc::UnboundedSender<Item>,
        doomed: &Doomed,
        target_port: u16,
    ) -> io::Result<()> {
        while let Some(frame) = frame(&mut from).await? {
            let at = Instant::now() + self.latency(direction);
            let mischief = match direction {
                Direction::Requests => self.of_request(&frame, doomed),
                Direction::Answers => number(&frame, 4)
                    .and_then(|correlation_id| locked(doomed).remove(&correlation_id)),
            };
            let item = match (direction, mischief) {
                (_, None) => Item::Frame(at, frame),
                (Direction::Answers, Some(Mischief::SwallowResponse)) => continue,
                (Direction::Answers, Some(Mischief::CutBeforeResponse)) => Item::Last(Vec::new()),
                (Direction::Requests, Some(Mischief::CutRequest { after_bytes }))
                | (Direction::Answers, Some(Mischief::CutResponse { after_bytes })) => {
                    let length = after_bytes.min(frame.len().saturating_sub(1));
                    Item::Last(frame[..length].to_vec())
                }
                (Direction::Requests, Some(Mischief::HoldRequest { ms })) => {
                    tokio::spawn(late(frame, Duration::from_millis(ms), target_port));
                    Item::Last(Vec::new())
                }
                (Direction::Requests | Direction::Answers, Some(_)) => Item::Frame(at, frame),
            };
            if sender.send(item).is_err() {
                return Err(cut());
            }
        }
        Ok(())
    }

    /// The mischief for a request; where it is one for the answer, that is noted.
    fn of_request(&self, frame: &[u8], doomed: &Doomed) -> Option<Mischief> {
        let api = i16::from_be_bytes(frame.get(4..6)?.try_into().ok()?);
        let mischief = self.shared.mischief(self.from, self.to, api)?;
        if let Some(correlation_id) = number(frame, 8) {
            locked(doomed).insert(correlation_id, mischief);
        }
        Some(mischief)
    }

    fn latency(&self, direction: Direction) -> Duration {
        let rules = self.shared.rules.borrow();
        let Some((from_ms, to_ms)) = rules.delay_ms.get(&self.ends(direction)) else {
            return Duration::ZERO;
        };
        let mut byte = [0];
        getrandom::fill(&mut byte).expect("a random byte");
        let jitter = (to_ms.saturating_sub(*from_ms)) * u64::from(byte[0]) / 255;
        Duration::from_millis(from_ms + jitter)
    }

    async fn write(
        &self,
        direction: Direction,
        mut to: OwnedWriteHalf,
        mut receiver: mpsc::UnboundedReceiver<Item>,
    ) -> io::Result<()> {
        let ends = self.ends(direction);
        let mut rules = self.shared.rules.subscribe();
        let mut passes = async || {
            let _ = rules.wait_for(|rules| !rules.blocked.contains(&ends)).await;
            rules.borrow().pieces_bytes
        };
        while let Some(item) = receiver.recv().await {
            match item {
                Item::Frame(at, frame) => {
                    sleep_until(at).await;
                    match passes().await {
                        None => to.write_all(&frame).await?,
                        Some(bytes) => {
                            for piece in frame.chunks(bytes) {
                                to.write_all(piece).await?;
                            }
                        }
                    }
                }
                Item::Last(bytes) => {
                    passes().await;
                    to.write_all(&bytes).await?;
                    return Err(cut());
                }
            }
        }
        // The end of a connection is a packet, too.
        passes().await;
        to.shutdown().await
    }
}

/// Whether the other end has closed, without taking anything from the stream.
fn given_up(stream: &TcpStream) -> bool {
    stream
        .ready(Interest::READABLE)
        .now_or_never()
        .is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
}

/// A big-endian number of a frame.
fn number(frame: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// The next frame with its length in front; `None` at the end.
async fn frame(from: &mut OwnedReadHalf) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length).await {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let body = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if body > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; 4 + body];
    frame[..4].copy_from_slice(&length);
    from.read_exact(&mut frame[4..]).await?;
    Ok(Some(frame))
}

/// A request that arrives when its sender has long given up.
async fn late(frame: Vec<u8>, after: Duration, target_port: u16) {
    sleep(after).await;
    let deliver = async {
        let mut stream = TcpStream::connect(("127.0.0.1", target_port)).await?;
        stream.write_all(&frame).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await
    };
    // Nobody waits for the answer, and the node may be gone.
    let _ = timeout(LATE_ANSWER, deliver).await;
}
