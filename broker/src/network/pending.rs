//! What a handler gives back for a request: the answer, the promise of one, or why there is none.
//! Not here: how requests are decoded and responses encoded (api/table.rs), their order (connection.rs).
//! A value; the future inside is polled by the connection's task and dropped when the connection goes away.
//! Kafka: RequestChannel.{SendResponse, NoOpResponse, CloseConnectionResponse}.

use futures::future::BoxFuture;
use kavka_protocol::Segment;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The end of a request, as the connection sees it.
#[derive(Debug)]
pub enum Reply {
    /// A framed response.
    Send(Vec<Segment>),
    /// The client expects nothing (`acks=0`).
    Silent,
    /// The connection ends after the responses that are due before this one.
    Close,
}

/// A request that was dispatched. Dispatching happens in the order of arrival, so what must happen in order (an
/// append, a fetch session's step) is done before `Later` is returned.
pub enum Pending {
    Ready(Reply),
    Later(BoxFuture<'static, Reply>),
}

impl Pending {
    pub const SILENT: Pending = Pending::Ready(Reply::Silent);
    pub const CLOSE: Pending = Pending::Ready(Reply::Close);
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pending::Ready(reply) => f.debug_tuple("Ready").field(reply).finish(),
            Pending::Later(_) => f.write_str("Later"),
        }
    }
}

/// A dispatched request in the connection's queue; holds its share of the request budget until it is answered.
pub(crate) struct InFlight {
    state: InFlightState,
    charge: Option<crate::network::budget::Charge>,
}

enum InFlightState {
    Ready(Option<Reply>),
    Later(BoxFuture<'static, Reply>),
}

impl InFlight {
    pub(crate) fn new(pending: Pending, charge: crate::network::budget::Charge) -> Self {
        match pending {
            // The request is over: only its response takes memory from here on.
            Pending::Ready(reply) => InFlight {
                state: InFlightState::Ready(Some(reply)),
                charge: None,
            },
            Pending::Later(future) => InFlight {
                state: InFlightState::Later(future),
                charge: Some(charge),
            },
        }
    }
}

impl Future for InFlight {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let this = &mut *self;
        match &mut this.state {
            InFlightState::Ready(reply) => {
                Poll::Ready(reply.take().expect("polled after it was ready"))
            }
            InFlightState::Later(future) => {
                let reply = std::task::ready!(future.as_mut().poll(cx));
                this.charge = None;
                // Lets go of what the request held, while its response waits for its turn.
                this.state = InFlightState::Ready(None);
                Poll::Ready(reply)
            }
        }
    }
}
