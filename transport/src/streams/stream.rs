//! One stream: its output, its input, and the tasks that wait for either.

use super::STREAM_WINDOW;
use crate::body::BodyPiece;
use crate::client_socket::ClientGone;
use crate::transfer_rate::TransferRate;
use crate::unread_bytes::{UnreadBytes, UnreadSum};
use crate::worker::TransferLimits;
use larder_semantics::field::FieldList;
use larder_wire::message::{Framing, Request};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// One stream of a connection. Its task and its connection share it; both run on one thread.
pub(crate) struct ClientStream {
    /// Its number, of the protocol: over HTTP/3 that of the request on its connection, from 0 on.
    pub id: u32,
    /// Bytes that the client's window permits.
    pub window: Cell<i64>,
    /// The output, in order.
    pub queue: RefCell<VecDeque<BodyPiece>>,
    /// Its number of bytes.
    pub queued: Cell<u64>,
    /// Bytes of body sent.
    pub sent: Cell<u64>,
    /// The rates at which the client takes output, and sends its body.
    pub takes: TransferRate,
    pub sends: TransferRate,
    pub end: RefCell<StreamEnd>,
    /// Whether the final head of the response was sent.
    pub has_answer: Cell<bool>,
    /// Whether it is queued for its turn.
    pub is_ready: Cell<bool>,
    /// Whether it requested another protocol: its data are not a body.
    pub is_tunnel: bool,
    /// The received part of the request.
    pub body: RefCell<IncomingBody>,
    /// The reason why no more can be read or written.
    pub gone: Cell<Option<ClientGone>>,
    /// The limits of its route, if they are not those of the worker.
    pub limits: Cell<Option<TransferLimits>>,
    /// The tasks that are notified of any change.
    waiting: RefCell<Vec<Waker>>,
}

/// The end of the response.
#[derive(Debug, PartialEq)]
pub(crate) enum StreamEnd {
    /// More may come.
    Open,
    /// With the last queued piece.
    Last,
    /// With a trailer section.
    Trailers(FieldList),
    /// The end was sent.
    Sent,
}

/// The body of the request, as it arrives.
pub(crate) struct IncomingBody {
    pub bytes: UnreadBytes,
    /// Bytes received so far, read or not.
    pub received: u64,
    /// Remaining bytes, if the length was announced.
    pub remaining: Option<u64>,
    /// Bytes that may still come, by the limit of the route.
    pub remaining_limit: u64,
    /// Bytes that the client may still send before it gets more credit.
    pub window: i64,
    /// Bytes that were read and not yet returned as credit.
    pub uncredited: u32,
    pub is_whole: bool,
    /// The reason why it is not read further, although the request may still be answered.
    pub refused: Option<ClientGone>,
    pub trailers: Option<FieldList>,
    /// Whether the client waits for `100 Continue`.
    pub awaits_continue: bool,
}

impl IncomingBody {
    /// Whether it is refused with this number of bytes more, since too many are in memory. One that had more than its first credit is being read, and
    /// continues.
    pub fn is_refused_with(&self, more: usize) -> bool {
        let begins = self.received + more as u64 <= u64::from(STREAM_WINDOW);
        begins && self.refused.is_none() && self.bytes.is_too_much(more)
    }

    /// Whether nothing of it was read, so that nothing was processed.
    pub fn is_unread(&self) -> bool {
        self.received == self.bytes.len() as u64
    }

    /// Records `bytes` of the stream's window that were used and are free again; returns the credit to send now, if it is
    /// worth a frame.
    pub fn credit_due(&mut self, bytes: u32) -> Option<u32> {
        self.uncredited += bytes;
        if self.uncredited < STREAM_WINDOW / 2 || self.is_whole {
            return None;
        }
        let due = std::mem::take(&mut self.uncredited);
        self.window += i64::from(due);
        Some(due)
    }
}

impl ClientStream {
    /// `window` is the number of bytes that may be sent, `credit` the number that may be received; `room` is the limit of the body.
    pub fn new(
        id: u32,
        window: i64,
        credit: i64,
        request: Option<&Request>,
        room: u64,
        unread: &UnreadSum,
    ) -> Self {
        let framing = request.map_or(Framing::Empty, |it| it.framing);
        let is_tunnel = request.is_some_and(|it| it.protocol.is_some());
        let body = IncomingBody {
            bytes: UnreadBytes::new(unread),
            received: 0,
            remaining: match framing {
                Framing::Length(length) => Some(length),
                // Its end has not arrived yet, and no byte may come before it.
                Framing::Chunked if request.is_some_and(|it| it.fields.get("content-length").is_some()) => {
                    Some(0)
                }
                _ => None,
            },
            // A tunnel has no length limit.
            remaining_limit: if is_tunnel { u64::MAX } else { room },
            window: credit,
            uncredited: 0,
            is_whole: framing == Framing::Empty && !is_tunnel,
            refused: None,
            trailers: None,
            awaits_continue: request.is_some_and(|it| it.expects_continue),
        };
        Self {
            id,
            window: Cell::new(window),
            queue: RefCell::default(),
            queued: Cell::new(0),
            sent: Cell::new(0),
            takes: TransferRate::default(),
            sends: TransferRate::default(),
            end: RefCell::new(StreamEnd::Open),
            has_answer: Cell::new(false),
            is_ready: Cell::new(false),
            is_tunnel,
            body: RefCell::new(body),
            gone: Cell::new(None),
            limits: Cell::new(None),
            waiting: RefCell::default(),
        }
    }

    /// Whether it has output for the connection to send, now.
    pub fn has_work(&self) -> bool {
        match *self.end.borrow() {
            StreamEnd::Sent => false,
            _ if self.queued.get() > 0 => self.window.get() > 0,
            StreamEnd::Open => false,
            StreamEnd::Last | StreamEnd::Trailers(_) => true,
        }
    }

    /// Whether the end of the response was sent.
    pub fn is_answered(&self) -> bool {
        *self.end.borrow() == StreamEnd::Sent
    }

    /// Wakes the task of `context` at the next change.
    pub fn wait(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|it| it.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    /// Waits until no more can be read or written.
    pub async fn until_closed(&self) {
        poll_fn(|context| {
            if self.gone.get().is_some() {
                return Poll::Ready(());
            }
            self.wait(context);
            Poll::Pending
        })
        .await;
    }

    /// Notifies the waiting tasks of a change.
    pub fn wake(&self) {
        for it in self.waiting.borrow_mut().drain(..) {
            it.wake();
        }
    }

    /// Whether it is closed for the client, even if its task continues: the client may open another one.
    pub fn is_closed(&self) -> bool {
        self.gone.get().is_some() || self.is_answered() && self.body.borrow().is_whole
    }

    /// Ends reading and writing; returns the number of received bytes that will not be read.
    pub fn close(&self, why: ClientGone) -> u32 {
        if self.gone.get().is_none() {
            self.gone.set(Some(why));
        }
        self.queue.borrow_mut().clear();
        self.queued.set(0);
        self.wake();
        self.take_unread()
    }

    /// The number of received, unread bytes, which are discarded.
    pub fn take_unread(&self) -> u32 {
        let unread = self.body.borrow_mut().bytes.take();
        unread.map_or(0, |it| u32::try_from(it.len()).unwrap_or(u32::MAX))
    }

    pub fn push(&self, piece: BodyPiece) {
        self.queued.set(self.queued.get() + piece.len());
        self.queue.borrow_mut().push_back(piece);
    }

    /// Up to `most` bytes of the first piece.
    pub fn take(&self, most: u64) -> Option<BodyPiece> {
        let mut queue = self.queue.borrow_mut();
        let first = queue.front_mut()?;
        let length = first.len();
        let taken = if length <= most {
            queue.pop_front()?
        } else {
            let taken = first.slice(0, most);
            *first = first.slice(most, length - most);
            taken
        };
        self.queued.set(self.queued.get() - taken.len());
        Some(taken)
    }
}
