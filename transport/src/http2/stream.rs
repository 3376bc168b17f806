//! One stream: what is to be sent on it, what has come on it, and who waits for either. Frames are not here.

use super::connection::STREAM_WINDOW;
use super::waiting::TransferRate;
use crate::body::BodyPiece;
use crate::client_socket::ClientGone;
use larder_semantics::field::FieldList;
use larder_wire::message::{Framing, Request};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// One stream of a connection. Its task and its connection share it; both run on one thread.
pub(super) struct Http2Stream {
    pub id: u32,
    /// Bytes that the client lets us send.
    pub window: Cell<i64>,
    /// What is to be sent, in order.
    pub queue: RefCell<VecDeque<BodyPiece>>,
    /// Bytes of that.
    pub queued: Cell<u64>,
    /// Bytes of body that went out.
    pub sent: Cell<u64>,
    /// How fast the client takes them, and sends its body.
    pub takes: TransferRate,
    pub sends: TransferRate,
    pub end: RefCell<Ending>,
    /// The final head of the answer is on its way.
    pub has_answer: Cell<bool>,
    /// It waits among those whose turn it will be.
    pub is_ready: Cell<bool>,
    /// It asks for another protocol than HTTP: what follows is no body.
    pub is_tunnel: bool,
    /// What has come of the request.
    pub body: RefCell<IncomingBody>,
    /// Nothing more can be read or written.
    pub gone: Cell<Option<ClientGone>>,
    /// Who is to be told of any change.
    waiting: RefCell<Vec<Waker>>,
}

/// How the answer ends.
#[derive(Debug, PartialEq)]
pub(super) enum Ending {
    /// More may come.
    Open,
    /// With the last of what is queued.
    Last,
    /// With a field section behind it.
    Trailers(FieldList),
    /// The end is on its way.
    Sent,
}

/// The body of the request, as it comes.
pub(super) struct IncomingBody {
    pub bytes: Vec<u8>,
    /// Bytes that have come until now, read or not.
    pub came: u64,
    /// Bytes that may still come, where their number was announced.
    pub left: Option<u64>,
    /// Bytes that may still come, by `limits.body_size`.
    pub room: u64,
    /// Bytes that the client may still send before it is given more credit.
    pub window: i64,
    /// Bytes that were read, and for which the client has no credit yet.
    pub owed: u32,
    pub is_whole: bool,
    /// Why nobody reads further, though the request may still be answered.
    pub refused: Option<ClientGone>,
    pub trailers: Option<FieldList>,
    /// The client sends nothing until it is told to.
    pub waits: bool,
}

impl IncomingBody {
    /// `bytes` of the stream's window were used up and are free again: the credit that the client is to be given now, if it
    /// is worth a frame.
    pub fn owe(&mut self, bytes: u32) -> Option<u32> {
        self.owed += bytes;
        if self.owed < STREAM_WINDOW / 2 || self.is_whole {
            return None;
        }
        let due = std::mem::take(&mut self.owed);
        self.window += i64::from(due);
        Some(due)
    }
}

impl Http2Stream {
    /// `window` is what may be sent, `credit` what may come.
    pub fn new(id: u32, window: i64, credit: i64, request: Option<&Request>, room: u64) -> Self {
        let framing = request.map_or(Framing::Empty, |it| it.framing);
        let is_tunnel = request.is_some_and(|it| it.protocol.is_some());
        let body = IncomingBody {
            bytes: Vec::new(),
            came: 0,
            left: match framing {
                Framing::Length(length) => Some(length),
                // Its end is still to come, and nothing may come before it.
                Framing::Chunked if request.is_some_and(|it| it.fields.get("content-length").is_some()) => {
                    Some(0)
                }
                _ => None,
            },
            // A tunnel has no end that could be too far.
            room: if is_tunnel { u64::MAX } else { room },
            window: credit,
            owed: 0,
            is_whole: framing == Framing::Empty && !is_tunnel,
            refused: None,
            trailers: None,
            waits: request.is_some_and(|it| it.expects_continue),
        };
        Self {
            id,
            window: Cell::new(window),
            queue: RefCell::default(),
            queued: Cell::new(0),
            sent: Cell::new(0),
            takes: TransferRate::default(),
            sends: TransferRate::default(),
            end: RefCell::new(Ending::Open),
            has_answer: Cell::new(false),
            is_ready: Cell::new(false),
            is_tunnel,
            body: RefCell::new(body),
            gone: Cell::new(None),
            waiting: RefCell::default(),
        }
    }

    /// Whether it has something for the connection to send, now.
    pub fn has_work(&self) -> bool {
        match *self.end.borrow() {
            Ending::Sent => false,
            _ if self.queued.get() > 0 => self.window.get() > 0,
            Ending::Open => false,
            Ending::Last | Ending::Trailers(_) => true,
        }
    }

    /// The end of the answer went out.
    pub fn is_answered(&self) -> bool {
        *self.end.borrow() == Ending::Sent
    }

    /// Has the task of `context` run at the next change.
    pub fn wait(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|it| it.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    /// Waits until nothing more can be read or written.
    pub async fn given_up(&self) {
        poll_fn(|context| {
            if self.gone.get().is_some() {
                return Poll::Ready(());
            }
            self.wait(context);
            Poll::Pending
        })
        .await;
    }

    /// Something changed.
    pub fn ring(&self) {
        for it in self.waiting.borrow_mut().drain(..) {
            it.wake();
        }
    }

    /// Whether it is over for the client, though its task may not be: the client may begin another in its place.
    pub fn is_closed(&self) -> bool {
        self.gone.get().is_some() || self.is_answered() && self.body.borrow().is_whole
    }

    /// Nothing more is read or written; how many bytes that came will not be read.
    pub fn give_up(&self, why: ClientGone) -> u32 {
        if self.gone.get().is_none() {
            self.gone.set(Some(why));
        }
        self.queue.borrow_mut().clear();
        self.queued.set(0);
        self.ring();
        self.take_unread()
    }

    /// How many bytes came and were not read: nobody will.
    pub fn take_unread(&self) -> u32 {
        let unread = std::mem::take(&mut self.body.borrow_mut().bytes);
        u32::try_from(unread.len()).unwrap_or(u32::MAX)
    }

    pub fn push(&self, piece: BodyPiece) {
        self.queued.set(self.queued.get() + piece.len());
        self.queue.borrow_mut().push_back(piece);
    }

    /// Up to `most` bytes of what is first.
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
