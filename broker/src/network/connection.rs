//! One client connection: frames in, requests dispatched in order, responses out in the same order.
//! Not here: accepting (listener.rs), decoding and handling (behind `Dispatch`), sending (send_queue.rs).
//! One task per connection owns all of it; requests complete in the background as futures polled by this task.
//! Back-pressure: it stops reading when too many requests are in flight, too much output waits, or the process-wide
//! request budget is used up. Kafka: SocketServer.Processor, Selector (which mutes the connection per request).

use crate::network::budget::Charge;
use crate::network::frame::{self, FrameError, FrameStep, LENGTH_BYTES};
use crate::network::greeting::{Conversation, ConversationStep, Greeting};
use crate::network::pending::{InFlight, Pending, Reply};
use crate::network::send_queue::{SendQueue, SendStep};
use crate::network::{ListenerInfo, NetworkLimits, NetworkShared};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use kavka_protocol::Segment;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};

/// Room for the first bytes of a frame.
const READ_MIN_BYTES: usize = 4096;
/// Least growth of the buffer of a frame that is still arriving.
const READ_GROWTH_BYTES: usize = 16 << 10;
/// A slow frame gets a new deadline each time that so much more of it has arrived.
const FRAME_PROGRESS_BYTES: usize = 256 << 10;
/// Responses in memory beyond which no further request is taken from this peer.
const OUTPUT_MEMORY_MAX_BYTES: usize = 2 << 20;
/// A peer that has sent its last byte still gets its answers for so long.
const HALF_CLOSED_GRACE: Duration = Duration::from_secs(10);

/// Who is at the other end, and through which door it came.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Unique in this process.
    pub id: u64,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub listener: Arc<ListenerInfo>,
}

/// Handles the frames of a listener: `ApiTable` in production, a fake in tests.
pub trait Dispatch: Send + Sync + 'static {
    /// `frame` is the request without its length. Must not block.
    fn dispatch(&self, connection: &Arc<ConnectionInfo>, frame: Bytes) -> Pending;

    /// Looks at the first bytes of a connection, for a listener that speaks more than Kafka's protocol.
    fn greet(&self, _connection: &Arc<ConnectionInfo>, _first_bytes: &[u8]) -> Greeting {
        Greeting::Kafka
    }

    /// The connection is gone.
    fn closed(&self, _connection: &ConnectionInfo) {}
}

/// Why a connection ended; for the log and the counters.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Closed {
    #[error("the peer closed the connection")]
    ByPeer,
    #[error("the peer closed the connection in the middle of a request")]
    ByPeerInFrame,
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error(
        "a request of {length} bytes made no sufficient progress within {within_ms} ms ({arrived} bytes arrived)"
    )]
    FrameTooSlow {
        length: usize,
        arrived: usize,
        within_ms: u128,
    },
    #[error("idle")]
    Idle,
    #[error("{waiting} bytes of responses were not taken by the peer")]
    OutputStalled { waiting: u64 },
    #[error("closed by a request's handler")]
    ByHandler,
    #[error("a command was answered")]
    CommandAnswered,
    #[error("{0}")]
    ByConversation(String),
    #[error("the server stops")]
    Shutdown,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Tells the handlers of the end, however the task ends.
struct EndNotice {
    info: Arc<ConnectionInfo>,
    dispatch: Arc<dyn Dispatch>,
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.dispatch.closed(&self.info);
    }
}

/// The state of the task.
pub(crate) struct Connection {
    _end: EndNotice,
    stream: TcpStream,
    info: Arc<ConnectionInfo>,
    dispatch: Arc<dyn Dispatch>,
    shared: Arc<NetworkShared>,
    input: BytesMut,
    /// The charge of the frame that is arriving.
    charge: Option<Charge>,
    /// The budget refused the frame whose length is known.
    held_back: bool,
    frame_deadline: Option<FrameDeadline>,
    /// Length of the last whole frame: a peer that sent a large one is trusted with a buffer of that size.
    proven_bytes: usize,
    /// The peer's first bytes have been looked at.
    greeted: bool,
    /// Another protocol than Kafka's is spoken.
    conversation: Option<Box<dyn Conversation>>,
    in_flight: FuturesOrdered<InFlight>,
    output: SendQueue,
    cold: Option<JoinHandle<io::Result<Bytes>>>,
    output_blocked: bool,
    /// A request in flight ends the connection: nothing behind it is dispatched.
    sealed: bool,
    /// No further request is read: the peer has finished, a handler asked to close, or the server stops.
    finishing: Option<Closed>,
    finish_by: Option<Instant>,
    last_activity: Instant,
}

enum SendTurn {
    Done,
    Yield,
}

#[derive(Clone, Copy)]
struct FrameDeadline {
    at: Instant,
    arrived: usize,
}

impl Connection {
    pub(crate) fn new(
        stream: TcpStream,
        info: Arc<ConnectionInfo>,
        dispatch: Arc<dyn Dispatch>,
        shared: Arc<NetworkShared>,
    ) -> Self {
        Connection {
            _end: EndNotice {
                info: Arc::clone(&info),
                dispatch: Arc::clone(&dispatch),
            },
            stream,
            info,
            dispatch,
            shared,
            input: BytesMut::new(),
            charge: None,
            held_back: false,
            frame_deadline: None,
            proven_bytes: 0,
            greeted: false,
            conversation: None,
            in_flight: FuturesOrdered::new(),
            output: SendQueue::default(),
            cold: None,
            output_blocked: false,
            sealed: false,
            finishing: None,
            finish_by: None,
            last_activity: Instant::now(),
        }
    }

    /// Serves the connection to its end.
    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>) -> Closed {
        let sleep = tokio::time::sleep_until(self.next_deadline());
        tokio::pin!(sleep);
        loop {
            if let Err(closed) = self.take_input() {
                // Responses to the requests before the bad bytes are not waited for, as in Kafka.
                return closed;
            }
            match self.send() {
                Ok(SendTurn::Done) => {}
                Ok(SendTurn::Yield) => tokio::task::yield_now().await,
                Err(e) => return e.into(),
            }
            if self.finishing.is_some() && self.in_flight.is_empty() && self.output.is_empty() {
                return self.finishing.take().expect("checked above");
            }
            reset_if_earlier(sleep.as_mut(), self.next_deadline());

            let interest = match (self.wants_input(), self.output_blocked) {
                (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
                (true, false) => Some(Interest::READABLE),
                (false, true) => Some(Interest::WRITABLE),
                (false, false) => None,
            };
            tokio::select! {
                ready = ready(&self.stream, interest) => match ready {
                    Ok(ready) => {
                        if ready.is_writable() {
                            self.output_blocked = false;
                        }
                        if ready.is_readable() && self.wants_input()
                            && let Err(e) = self.receive() {
                            return e;
                        }
                    }
                    Err(e) => return e.into(),
                },
                Some(reply) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    self.reply(reply);
                }
                read = join_cold(&mut self.cold), if self.cold.is_some() => {
                    self.cold = None;
                    match read {
                        Ok(bytes) => self.output.fill_cold(bytes),
                        Err(e) => return e.into(),
                    }
                }
                () = self.shared.budget.wait_for_room(), if self.held_back => {
                    self.held_back = false;
                }
                _ = stopping.wait_for(|stop| *stop), if self.finishing.is_none() => {
                    self.finishing = Some(Closed::Shutdown);
                    self.finish_by = Some(Instant::now() + self.limits().drain);
                }
                () = sleep.as_mut() => {
                    if let Some(closed) = self.expired(Instant::now()) {
                        return closed;
                    }
                    let next = self.next_deadline();
                    sleep.as_mut().reset(next);
                }
            }
        }
    }

    fn limits(&self) -> &NetworkLimits {
        &self.shared.limits
    }

    fn idle(&self) -> Duration {
        match &self.conversation {
            Some(conversation) => conversation.idle(),
            None => self.limits().idle,
        }
    }

    fn may_dispatch(&self) -> bool {
        self.finishing.is_none()
            && !self.sealed
            && self.in_flight.len() < self.limits().in_flight_max
            && self.output.memory_bytes() < OUTPUT_MEMORY_MAX_BYTES
    }

    fn wants_input(&self) -> bool {
        self.may_dispatch() && !self.held_back
    }

    fn frame_limit_bytes(&self) -> usize {
        if self.proven_bytes == 0 {
            self.limits()
                .first_request_max_bytes
                .min(self.limits().request_max_bytes)
        } else {
            self.limits().request_max_bytes
        }
    }

    /// Answers as much of the input as the limits allow.
    fn take_input(&mut self) -> Result<(), Closed> {
        if !self.greeted && !self.input.is_empty() {
            match self.dispatch.greet(&self.info, &self.input) {
                Greeting::Incomplete => {
                    self.watch_frame(self.input.len());
                    return Ok(());
                }
                Greeting::Kafka => {}
                Greeting::Answer(answer) => {
                    self.output.push(vec![Segment::Bytes(answer)]);
                    self.input = BytesMut::new();
                    self.finish(Closed::CommandAnswered);
                    return Ok(());
                }
                Greeting::Conversation(conversation) => self.conversation = Some(conversation),
            }
            self.greeted = true;
            self.frame_deadline = None;
        }
        match self.conversation {
            None => self.take_frames(),
            Some(_) => self.converse(),
        }
    }

    fn converse(&mut self) -> Result<(), Closed> {
        while self.may_dispatch()
            && !self.input.is_empty()
            && let Some(conversation) = &mut self.conversation
        {
            match conversation.step(&mut self.input) {
                ConversationStep::More => {
                    if self.input.len() >= conversation.input_max_bytes() {
                        return Err(Closed::ByConversation("too much input".into()));
                    }
                    break;
                }
                ConversationStep::Send(bytes) => self.output.push(vec![Segment::Bytes(bytes)]),
                ConversationStep::SendAndClose(bytes) => {
                    self.output.push(vec![Segment::Bytes(bytes)]);
                    self.finish(Closed::ByConversation("the peer said goodbye".into()));
                }
                ConversationStep::Close(why) => return Err(Closed::ByConversation(why)),
            }
        }
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        Ok(())
    }

    /// Dispatches every whole frame of the input, as far as the limits allow.
    fn take_frames(&mut self) -> Result<(), Closed> {
        while self.may_dispatch() && !self.held_back && !self.input.is_empty() {
            let first = self.proven_bytes == 0;
            let step = frame::step(&self.input, self.frame_limit_bytes(), first)?;
            let length = match step {
                FrameStep::LengthIncomplete => {
                    self.watch_frame(self.input.len());
                    return Ok(());
                }
                FrameStep::Incomplete { length, .. } | FrameStep::Complete { length } => length,
            };
            if self.charge.is_none() {
                self.charge = self.shared.budget.try_charge(length);
                if self.charge.is_none() {
                    self.held_back = true;
                    // The peer is not slow, we are.
                    self.frame_deadline = None;
                    return Ok(());
                }
            }
            if matches!(step, FrameStep::Incomplete { .. }) {
                self.watch_frame(self.input.len());
                return Ok(());
            }
            let charge = self.charge.take().expect("charged above");
            self.frame_deadline = None;
            self.proven_bytes = length;
            let mut frame = self.input.split_to(LENGTH_BYTES + length).freeze();
            bytes::Buf::advance(&mut frame, LENGTH_BYTES);
            let pending = self.dispatch.dispatch(&self.info, frame);
            match pending {
                Pending::Ready(reply) if self.in_flight.is_empty() => self.reply(reply),
                Pending::Ready(Reply::Silent) => {}
                pending => {
                    self.sealed = matches!(pending, Pending::Ready(Reply::Close));
                    self.in_flight.push_back(InFlight::new(pending, charge));
                }
            }
        }
        if self.input.is_empty() {
            // An idle connection holds no buffer.
            self.input = BytesMut::new();
        }
        Ok(())
    }

    /// Starts or renews the deadline of the frame that is arriving.
    fn watch_frame(&mut self, arrived: usize) {
        let renew = match self.frame_deadline {
            None => true,
            Some(deadline) => arrived >= deadline.arrived + FRAME_PROGRESS_BYTES,
        };
        if renew {
            self.frame_deadline = Some(FrameDeadline {
                at: Instant::now() + self.limits().frame_timeout,
                arrived,
            });
        }
    }

    fn receive(&mut self) -> Result<(), Closed> {
        let room = match frame::step(&self.input, usize::MAX, false) {
            // What the peer announces is not believed: the buffer at most doubles, or grows to what the peer
            // has already proven to send.
            Ok(FrameStep::Incomplete { missing, .. }) if self.conversation.is_none() => {
                let arrived = self.input.len();
                missing.min(
                    READ_GROWTH_BYTES
                        .max(arrived)
                        .max(self.proven_bytes.saturating_sub(arrived)),
                )
            }
            _ => READ_MIN_BYTES,
        };
        self.input.reserve(room);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => {
                if !self.input.is_empty() {
                    return Err(Closed::ByPeerInFrame);
                }
                self.input = BytesMut::new();
                self.finish(Closed::ByPeer);
                Ok(())
            }
            Ok(_) => {
                self.last_activity = Instant::now();
                Ok(())
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock) => {
                if self.input.is_empty() {
                    self.input = BytesMut::new();
                }
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }

    fn finish(&mut self, reason: Closed) {
        if self.finishing.is_none() {
            self.finishing = Some(reason);
            self.finish_by = Some(Instant::now() + HALF_CLOSED_GRACE);
        }
    }

    fn reply(&mut self, reply: Reply) {
        self.last_activity = Instant::now();
        match reply {
            Reply::Send(segments) => self.output.push(segments),
            Reply::Silent => {}
            Reply::Close => {
                // What was pipelined behind this request is not answered.
                self.in_flight = FuturesOrdered::new();
                self.input = BytesMut::new();
                self.finishing = None;
                self.finish(Closed::ByHandler);
            }
        }
    }

    fn send(&mut self) -> io::Result<SendTurn> {
        if self.output.is_empty() || self.cold.is_some() {
            self.output_blocked = false;
            return Ok(SendTurn::Done);
        }
        let before = self.output.sent_bytes();
        let mut turn = SendTurn::Done;
        match self.output.try_send(&self.stream)? {
            SendStep::Empty => self.output_blocked = false,
            SendStep::Blocked => self.output_blocked = true,
            SendStep::Yield => {
                // The socket is still writable, so waiting for that brings this task back at once.
                self.output_blocked = true;
                turn = SendTurn::Yield;
            }
            SendStep::Cold(region) => {
                self.output_blocked = false;
                self.cold = Some(tokio::task::spawn_blocking(move || {
                    region.read().map(Bytes::from)
                }));
            }
        }
        if self.output.sent_bytes() > before {
            self.last_activity = Instant::now();
        }
        Ok(turn)
    }

    /// The idle clock runs while the peer owes us something: a request, or the taking of its responses.
    fn idle_runs(&self) -> bool {
        self.in_flight.is_empty() || self.output_blocked
    }

    fn next_deadline(&self) -> Instant {
        let idle = self.idle_runs().then(|| self.last_activity + self.idle());
        [idle, self.frame_deadline.map(|d| d.at), self.finish_by]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_else(|| Instant::now() + self.idle())
    }

    fn expired(&mut self, now: Instant) -> Option<Closed> {
        if let Some(deadline) = self.frame_deadline
            && now >= deadline.at
        {
            let length = match frame::step(&self.input, usize::MAX, false) {
                Ok(FrameStep::Incomplete { length, .. }) => length,
                _ => 0,
            };
            return Some(Closed::FrameTooSlow {
                length,
                arrived: self.input.len(),
                within_ms: self.limits().frame_timeout.as_millis(),
            });
        }
        if let Some(finish_by) = self.finish_by
            && now >= finish_by
        {
            return self.finishing.take();
        }
        if self.idle_runs() && now >= self.last_activity + self.idle() {
            return Some(if self.output.is_empty() {
                Closed::Idle
            } else {
                Closed::OutputStalled {
                    waiting: self.output.queued_bytes(),
                }
            });
        }
        None
    }
}

/// Waits for the socket; for ever when there is nothing to wait for.
async fn ready(stream: &TcpStream, interest: Option<Interest>) -> io::Result<tokio::io::Ready> {
    match interest {
        Some(interest) => stream.ready(interest).await,
        None => pending().await,
    }
}

async fn join_cold(cold: &mut Option<JoinHandle<io::Result<Bytes>>>) -> io::Result<Bytes> {
    match cold {
        Some(handle) => handle.await.map_err(io::Error::other)?,
        None => pending().await,
    }
}

/// A timer that fires too early is looked at and set again; only an earlier deadline must move it.
fn reset_if_earlier(sleep: std::pin::Pin<&mut Sleep>, deadline: Instant) {
    if deadline < sleep.deadline() {
        sleep.reset(deadline);
    }
}
