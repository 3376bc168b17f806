//! One request and its response on one connection: what may be sent, what has come, what happens next.
//! The pool is not here, nor is the meaning of a response.
//!
//! ```text
//! link      Open ──(died before a byte came, may be repeated, once)── Opening ── Open ── Closed
//!           Open ──(failed before a final head came, may go to another origin)── Opening ── Open
//!           (Shared in place of Open where it is a stream of a connection with HTTP/2: see `shared`)
//! sending   Length(n) | Chunked ── Done           (Failed: the origin takes no more; it may still answer)
//! reading   Head ── (interim, again Head) ── Body ── Done           (Failed, from anywhere, with the error)
//! ```
//!
//! Every wait is a `poll` over this state, so that dropping a future loses nothing, and writing and reading can be
//! awaited side by side.

mod accept;
mod again;
mod ends;
mod hurried;
mod shared;
mod steps;

use crate::body::{AtClose, RemainingBody, TakenBytes};
use crate::channel::Channel;
use crate::connection::OriginConnection;
use crate::deadline::Deadlines;
use crate::group::GroupAttempt;
use crate::http2::H2Stream;
use crate::pool::{Permit, ReuseDelay};
use crate::send_buffer::{Keeps, SLICES, SendBuffer};
use crate::stalled_exchanges::StallRecord;
use crate::{OriginError, OriginLimits, OriginPool, OutgoingRequest};
use again::{Opening, RetryDecision};
use bytes::{Buf, Bytes};
use larder_semantics::field::FieldList;
use larder_semantics::storable::is_endless;
use larder_stdx::clock;
use larder_wire::http1::response::{ParsedResponse, parse};
use larder_wire::message::{BadResponse, Framing, ResponseHead};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::IoSlice;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use steps::{AfterBody, Filled, ResponsePhase, Sending};

/// Largest head that is written in the room that an origin's exchanges share; larger ones give theirs back.
const SCRATCH: usize = 64 * 1024;

/// One request and its response on one connection. Dropping it before the end closes the connection;
/// at the end it goes back to the pool.
///
/// Its futures may be awaited side by side by one task (`select!`, `join!`): one that writes, one that reads.
pub struct Exchange {
    state: RefCell<ExchangeState>,
    /// When it was asked for, by the precise clock, until its final head has come; `None` where nobody measures.
    asked: Cell<Option<u64>>,
    /// When that came, where it was measured.
    answered: Cell<Option<u64>>,
    pub(crate) rested: StallRecord,
}

impl Exchange {
    /// An exchange over `way` of which nothing is written yet.
    pub(crate) fn new(
        place: Permit,
        way: Channel,
        request: OutgoingRequest,
        asked: Option<u64>,
        turn: Option<GroupAttempt>,
    ) -> Rc<Self> {
        let measured = place.origin().measures.get().is_some();
        let asked = measured.then(|| asked.unwrap_or_else(clock::precise_micros));
        let state = RefCell::new(ExchangeState::new(place, way, request, turn));
        // Where it stays: it is large, and handed on often.
        Rc::new(Self {
            state,
            asked: Cell::new(asked),
            answered: Cell::new(None),
            rested: StallRecord::default(),
        })
    }

    /// Begins by writing the head.
    pub(crate) async fn begin(&self) -> Result<(), OriginError> {
        poll_fn(|cx| {
            self.state.borrow_mut().send_head(cx);
            Poll::Ready(())
        })
        .await;
        if self.state.borrow().has_handed_over() {
            return Ok(());
        }
        match self.flush().await {
            // An origin that refuses the request unread may have said why: `head` will see.
            Ok(()) | Err(OriginError::Disconnected) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes a piece of the request body. May be called while another future waits in [`Exchange::head`].
    ///
    /// The piece is taken over when the future is first polled: dropping the future after that loses no byte and repeats
    /// none, the rest goes out with the next `write`, `write_end` or `head`.
    ///
    /// # Errors
    /// See [`OriginError`]. A response may be there all the same. [`OriginError::Disconnected`] also where the body
    /// would be longer than its announced length: what goes beyond it is never sent.
    pub async fn write(&self, bytes: Bytes) -> Result<(), OriginError> {
        self.rested.came.set(self.rested.came.get() + bytes.len() as u64);
        self.state.borrow_mut().accept(bytes)?;
        self.flush().await
    }

    /// Ends the request body. Not calling it leaves the request incomplete, and visibly so.
    ///
    /// # Errors
    /// See [`OriginError`]. [`OriginError::Disconnected`] also where the body is shorter than its announced length;
    /// the connection is closed then.
    pub async fn write_end(&self, trailers: Option<&FieldList>) -> Result<(), OriginError> {
        self.state.borrow_mut().accept_end(trailers)?;
        self.flush().await
    }

    /// Ends our side of a connection that is no longer HTTP; what the origin still sends may still be read.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn shut(&self) -> Result<(), OriginError> {
        self.state.borrow_mut().accept_end(None)?;
        self.flush().await?;
        poll_fn(|cx| self.state.borrow_mut().poll_shut(cx)).await
    }

    /// Waits for the next head: interim (status below 200) or final. Repeats a request once on a fresh connection if a
    /// reused one died before the first byte of a response came, where that cannot do a thing twice: an idempotent request, or
    /// one with a body of which no byte had been written (RFC 9110 §9.2.2). Of a group, another origin is asked where one fails
    /// before its first head, as often as the group allows, for an idempotent request. Of its body at most 64 KiB may have been
    /// taken: so much is remembered.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn head(&self) -> Result<ResponseHead, OriginError> {
        let head = poll_fn(|cx| self.state.borrow_mut().poll_head(cx)).await;
        head.inspect(|it| self.measure_head(it)).inspect_err(|it| self.tell(it))
    }

    /// The next bytes of the body; `None` after the last, which has been verified by its framing. Bytes that are
    /// kept for long should be copied: they hold on to the read buffer, up to 64 KiB, that they came in.
    ///
    /// # Errors
    /// The body is incomplete.
    pub async fn next(&self) -> Result<Option<Bytes>, OriginError> {
        let next = poll_fn(|cx| self.state.borrow_mut().poll_next(cx)).await;
        if let (Ok(Some(bytes)), Some(it)) = (&next, self.state.borrow().origin.measures.get()) {
            it.origin.counters.bytes.add(bytes.len() as u64);
        }
        next.inspect_err(|it| self.tell(it))
    }

    /// When the final head came, by the precise clock; now where nobody measured it, so ask when it has come.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.get().unwrap_or_else(clock::precise_micros)
    }

    /// The trailer section, after the body's end.
    #[must_use]
    pub fn trailers(&self) -> Option<FieldList> {
        self.state.borrow().trailers.clone()
    }

    /// Ends it where it is, whoever holds it still: the connection is closed, and its place is another's.
    pub fn give_up(&self) {
        let mut state = self.state.borrow_mut();
        state.reading = ResponsePhase::Failed(OriginError::Busy);
        state.close();
    }

    /// Tells whoever listens, once. Not where a request could not be written: an origin may stop reading, and answer.
    fn tell(&self, error: &OriginError) {
        let state = self.state.borrow();
        if !state.is_told.replace(true) {
            state.origin.tell(error);
        }
    }

    /// Counts how long the origin took, once its final head is there.
    fn measure_head(&self, response: &ResponseHead) {
        let Some(asked) = self.asked.get().filter(|_| response.status >= 200) else { return };
        self.asked.set(None);
        if let Some(it) = self.state.borrow().origin.measures.get() {
            let now = clock::precise_micros();
            self.answered.set(Some(now));
            let micros = now.saturating_sub(asked);
            it.route.counters.origin_us.add(micros);
            it.route.lately.note(micros);
            it.origin.counters.answers.add(1);
            it.origin.latency.record(micros, 1);
        }
    }

    async fn flush(&self) -> Result<(), OriginError> {
        let _writing = Writing::start(&self.state);
        poll_fn(|cx| self.state.borrow_mut().poll_flush(cx)).await
    }
}

/// Marks that a future writes, so that `head` leaves the writing, and its waker, to it.
struct Writing<'a>(&'a RefCell<ExchangeState>);

impl<'a> Writing<'a> {
    fn start(state: &'a RefCell<ExchangeState>) -> Self {
        state.borrow_mut().writers += 1;
        Self(state)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().writers -= 1;
    }
}

/// The connection.
enum ExchangeLink {
    Open(OriginConnection),
    /// A stream of a connection that others use, too.
    Shared(Box<H2Stream>),
    /// A fresh one is being opened, in place of one that died.
    Opening {
        opening: Opening,
        /// To another origin, of whose failures somebody else tells.
        is_elsewhere: bool,
    },
    /// Given back, or closed.
    Closed,
}

impl From<Channel> for ExchangeLink {
    fn from(way: Channel) -> Self {
        match way {
            Channel::Alone(connection) => ExchangeLink::Open(connection),
            Channel::Shared(strand) => ExchangeLink::Shared(strand),
        }
    }
}

struct ExchangeState {
    origin: Rc<OriginPool>,
    request: OutgoingRequest,
    place: Option<Permit>,
    /// The way through the group, where there is one to go.
    turn: Option<GroupAttempt>,
    /// Its failure has been told.
    is_told: Cell<bool>,
    link: ExchangeLink,
    unsent: SendBuffer,
    sending: Sending,
    reading: ResponsePhase,
    after_body: AfterBody,
    trailers: Option<FieldList>,
    /// Those of the request, where they are not said in `unsent`: HTTP/2 has no chunks.
    our_trailers: Option<FieldList>,
    deadlines: Deadlines,
    /// Bytes of the response that came on this connection.
    received: u64,
    /// How long the buffer was when it was last seen to hold no whole head.
    partial: usize,
    interim: usize,
    repeats: u32,
    writers: usize,
    /// The connection was taken out of HTTP.
    switched: bool,
    /// The body is held back until a 100 comes: the origin owes an answer although the request is not whole.
    awaits_continue: bool,
    /// It goes over a stream of a shared connection, or did when a body was last accepted.
    is_shared: bool,
    /// Whoever reads while the request is not whole: how writing goes on changes what there is to wait for.
    reader: Option<Waker>,
}

impl ExchangeState {
    fn new(place: Permit, way: Channel, request: OutgoingRequest, turn: Option<GroupAttempt>) -> Self {
        Self {
            origin: place.origin().clone(),
            place: Some(place),
            turn,
            is_told: Cell::new(false),
            unsent: SendBuffer::default(),
            sending: match request.framing {
                Framing::Empty | Framing::Length(0) => Sending::Done,
                Framing::Length(length) => Sending::Length(length),
                Framing::Chunked | Framing::Close => Sending::Chunked,
            },
            reading: ResponsePhase::Head,
            after_body: AfterBody::Close,
            trailers: None,
            our_trailers: None,
            deadlines: Deadlines::default(),
            received: 0,
            partial: 0,
            interim: 0,
            repeats: 0,
            writers: 0,
            switched: false,
            is_shared: matches!(way, Channel::Shared(_)),
            awaits_continue: request.expects_continue(),
            reader: None,
            request,
            link: way.into(),
        }
    }

    fn limits(&self) -> OriginLimits {
        self.origin.limits
    }

    /// Whether the origin has taken the whole request.
    fn is_sent(&self) -> bool {
        self.sending == Sending::Done && self.has_handed_over()
    }

    /// Whether it has taken all that was accepted, an end of it included.
    fn has_handed_over(&self) -> bool {
        self.unsent.is_empty() && !self.owes_an_end()
    }

    /// Gives the connection back, or closes it, if the response is whole.
    fn settle(&mut self) {
        if self.switched || !matches!(self.reading, ResponsePhase::Done) {
            return;
        }
        let trust =
            if self.request.line.method() == "HEAD" { ReuseDelay::AfterSweep } else { ReuseDelay::Now };
        match mem::replace(&mut self.link, ExchangeLink::Closed) {
            ExchangeLink::Shared(it) if !self.is_sent_over(&it) => {
                self.link = ExchangeLink::Shared(it); // as below
                return;
            }
            ExchangeLink::Open(it) if !it.buffer.is_empty() => self.origin.note_surplus(trust),
            ExchangeLink::Open(it) if self.after_body == AfterBody::Keep => {
                if self.is_sent() {
                    self.origin.keep(it, trust);
                } else if self.sending != Sending::Failed {
                    self.link = ExchangeLink::Open(it); // the rest of the request may follow
                    return;
                }
            }
            _ => {}
        }
        self.place = None;
    }

    // ---- the request ----

    /// Writes the head, and leaves to `poll_flush` what does not go out at once.
    fn send_head(&mut self, cx: &mut Context<'_>) {
        let connection = match &mut self.link {
            ExchangeLink::Open(connection) => connection,
            ExchangeLink::Shared(_) => return self.share_head(),
            ExchangeLink::Opening { .. } | ExchangeLink::Closed => return,
        };
        let mut head = self.origin.scratch.take();
        head.clear();
        self.request.write_head(self.origin.persistence(), &mut head);
        let taken = match connection.poll_write(&[IoSlice::new(&head)], cx) {
            Poll::Ready(Ok(length)) => length,
            // An error is met again by the next write.
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        self.origin.counters.origin_bytes_sent.add(taken as u64);
        let keeps = if self.request.is_idempotent() { Keeps::Body } else { Keeps::Nothing };
        self.unsent.begin(Bytes::copy_from_slice(head.get(taken..).unwrap_or_default()), taken, keeps);
        if head.capacity() <= SCRATCH {
            self.origin.scratch.replace(head);
        }
    }

    /// Ready once the origin has taken all that was accepted.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        loop {
            ready!(self.poll_open(cx))?;
            if self.sending == Sending::Failed {
                return Poll::Ready(Err(self.failure())); // what is unsent was given up
            }
            if self.has_handed_over() {
                self.wake_reader();
                self.settle();
                return Poll::Ready(Ok(()));
            }
            match ready!(self.poll_write(cx)) {
                Ok(()) => {}
                Err(OriginError::Refused) if self.may_repeat_refused() => self.repeat(),
                Err(OriginError::Disconnected) if ready!(self.poll_again(cx)) == RetryDecision::Again => {}
                Err(OriginError::Disconnected) => {
                    self.unsent.clear();
                    self.sending = Sending::Failed;
                    self.wake_reader();
                    self.settle();
                    return Poll::Ready(Err(self.failure()));
                }
                Err(error) if self.next_after(&error) == RetryDecision::Fail => {
                    return Poll::Ready(Err(self.fail(error)));
                }
                Err(_) => {}
            }
        }
    }

    /// Writes once of what is unsent, or rings one of the alarms.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        let connection = match &mut self.link {
            ExchangeLink::Open(connection) => connection,
            ExchangeLink::Shared(_) => return self.poll_share(cx),
            ExchangeLink::Opening { .. } | ExchangeLink::Closed => {
                return Poll::Ready(Err(OriginError::Disconnected));
            }
        };
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = self.unsent.slices(&mut slices);
        match connection.poll_write(&slices[..count], cx) {
            Poll::Ready(Ok(length)) => {
                self.unsent.took(length);
                self.origin.counters.origin_bytes_sent.add(length as u64);
                self.deadlines.write = None;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(OriginError::Disconnected)),
            Poll::Pending => {
                let Some(deadline) = self.deadlines.write(&self.origin.limits) else {
                    return Poll::Pending;
                };
                ready!(connection.write_alarm.poll(deadline, cx));
                Poll::Ready(Err(OriginError::Timeout))
            }
        }
    }

    fn poll_shut(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        let ExchangeLink::Open(connection) = &mut self.link else { return Poll::Ready(Ok(())) };
        connection.poll_shut(cx).map_err(|_| OriginError::Disconnected)
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    // ---- the response ----

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, OriginError>> {
        loop {
            ready!(self.poll_open(cx))?;
            if !matches!(self.reading, ResponsePhase::Head) {
                return Poll::Ready(Err(self.failure()));
            }
            if self.writers == 0 && !self.has_handed_over() {
                match self.poll_flush(cx) {
                    // It may have answered before it stopped listening.
                    Poll::Ready(Ok(()) | Err(OriginError::Disconnected)) | Poll::Pending => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
                ready!(self.poll_open(cx))?;
            }
            let taken = match self.link {
                ExchangeLink::Shared(_) => ready!(self.poll_shared_head(cx)),
                _ => self.take_head(),
            };
            let error = match taken {
                Ok(Some(response)) => return Poll::Ready(Ok(response)),
                Ok(None) if matches!(self.link, ExchangeLink::Opening { .. }) => continue,
                Ok(None) => match ready!(self.poll_fill(0, cx)) {
                    Ok(Filled::Bytes) => continue,
                    Ok(Filled::End) | Err(OriginError::Disconnected) if self.may_repeat() => {
                        self.repeat();
                        continue;
                    }
                    Ok(Filled::End) => OriginError::Disconnected,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if self.next_after(&error) == RetryDecision::Fail {
                return Poll::Ready(Err(self.fail(error)));
            }
        }
    }

    /// The next head, if the buffer holds a whole one.
    fn take_head(&mut self) -> Result<Option<ResponseHead>, OriginError> {
        let limits = self.limits();
        let ExchangeLink::Open(connection) = &mut self.link else {
            return Ok(None);
        };
        let buffer = &mut connection.buffer;
        // A head that drips is not read again for every byte: only when a line ended, or the buffer doubled.
        let fresh = buffer.get(self.partial..).unwrap_or_default();
        let is_due = self.partial == 0 || fresh.contains(&b'\n') || buffer.len() >= 2 * self.partial;
        if buffer.is_empty() || !is_due && buffer.len() < limits.head_size {
            return Ok(None);
        }
        let (response, length) = match parse(buffer, limits.head_size, self.request.line.method()) {
            Ok(ParsedResponse::Head(response, length)) => (response, length),
            Ok(ParsedResponse::Partial) => {
                self.partial = buffer.len();
                return Ok(None);
            }
            Err(bad) => return Err(OriginError::BadHead(bad)),
        };
        self.unsent.forget();
        if response.status >= 200 && self.judge(response.status) == RetryDecision::Again {
            return Ok(None);
        }
        let ExchangeLink::Open(connection) = &mut self.link else {
            return Ok(None);
        };
        connection.buffer.advance(length);
        self.partial = 0;
        self.begin_response(&response)?;
        Ok(Some(response))
    }

    /// What a head changes.
    fn begin_response(&mut self, response: &ResponseHead) -> Result<(), OriginError> {
        let limits = self.limits();
        match response.status {
            101 if !self.request.asks_for_upgrade() => {
                return Err(OriginError::BadHead(BadResponse::StatusLine));
            }
            101 => self.switch(),
            100..=199 => {
                self.interim += 1;
                self.awaits_continue = false;
                if self.interim > limits.interim {
                    return Err(OriginError::InterimFlood);
                }
            }
            _ => {
                // A hundred that watch would leave no connection for pages.
                let (fields, has_body) = (&response.fields, response.framing != Framing::Empty);
                if has_body && is_endless(fields.get("content-type"), fields.get("content-length")) {
                    self.place.iter().for_each(Permit::begins_events);
                }
                self.begin_body(response);
            }
        }
        Ok(())
    }

    /// HTTP ends on this connection: bytes in both directions, until each has ended. It is none of those any more that requests
    /// wait for.
    fn switch(&mut self) {
        self.place.iter().for_each(Permit::answered);
        (self.sending, self.reading) = (Sending::Raw, ResponsePhase::Body(RemainingBody::Close));
        (self.switched, self.place) = (true, None);
        self.deadlines.read = None;
    }

    fn begin_body(&mut self, response: &ResponseHead) {
        self.after_body = if response.keep_alive { AfterBody::Keep } else { AfterBody::Close };
        self.deadlines.read = None;
        if let ExchangeLink::Shared(strand) = &self.link {
            self.reading = if strand.has_come() {
                ResponsePhase::Done
            } else {
                ResponsePhase::Body(RemainingBody::Close)
            };
            return self.settle();
        }
        self.reading = match response.framing {
            Framing::Empty | Framing::Length(0) => ResponsePhase::Done,
            Framing::Length(length) => ResponsePhase::Body(RemainingBody::Length(length)),
            Framing::Chunked => ResponsePhase::Body(RemainingBody::Chunked(Box::default())),
            Framing::Close => {
                self.after_body = AfterBody::Close;
                ResponsePhase::Body(RemainingBody::Close)
            }
        };
        self.settle();
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, OriginError>> {
        if matches!((&self.reading, &self.link), (ResponsePhase::Body(_), ExchangeLink::Shared(_))) {
            return self.poll_shared_next(cx);
        }
        loop {
            let (ResponsePhase::Body(body), ExchangeLink::Open(connection)) =
                (&mut self.reading, &mut self.link)
            else {
                return Poll::Ready(match self.reading {
                    ResponsePhase::Done => Ok(None),
                    _ => Err(self.failure()),
                });
            };
            match body.take(&mut connection.buffer) {
                Ok(TakenBytes::Some(bytes)) => return Poll::Ready(Ok(Some(bytes))),
                Ok(TakenBytes::Last(bytes, trailers)) => {
                    self.trailers = trailers;
                    self.reading = ResponsePhase::Done;
                    self.settle();
                    return Poll::Ready(Ok(Some(bytes).filter(|it| !it.is_empty())));
                }
                Ok(TakenBytes::Nothing) => {}
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            }
            let (expects, at_close) = (body.expects(), body.at_close());
            match ready!(self.poll_fill(expects, cx)) {
                Ok(Filled::Bytes) => {}
                Ok(Filled::End) if at_close == AtClose::Complete => {
                    self.reading = ResponsePhase::Done;
                    if !self.switched {
                        self.close();
                    }
                    return Poll::Ready(Ok(None));
                }
                Ok(Filled::End) => return Poll::Ready(Err(self.fail(OriginError::Disconnected))),
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            }
        }
    }

    /// Reads once into the buffer, or rings one of the alarms.
    fn poll_fill(&mut self, expects: u64, cx: &mut Context<'_>) -> Poll<Result<Filled, OriginError>> {
        let limits = self.limits();
        let is_sent = self.is_sent();
        let silence = match self.reading {
            ResponsePhase::Head if is_sent || self.awaits_continue => Some(limits.first_byte),
            ResponsePhase::Head => None,
            _ if self.switched => None,
            _ => Some(limits.between_bytes),
        };
        let ExchangeLink::Open(connection) = &mut self.link else {
            return Poll::Ready(Err(OriginError::Disconnected));
        };
        match connection.poll_read(expects, &self.origin.spares, cx) {
            Poll::Ready(Ok(0)) => Poll::Ready(Ok(Filled::End)),
            Poll::Ready(Ok(length)) => {
                self.received += length as u64;
                self.origin.counters.origin_bytes_received.add(length as u64);
                if !matches!(self.reading, ResponsePhase::Head) {
                    self.deadlines.read = None;
                }
                // An origin that always has a byte ready never makes us wait, and is bounded all the same.
                if connection.read_alarm.has_rung() && self.deadlines.is_over() {
                    return Poll::Ready(Err(OriginError::Timeout));
                }
                Poll::Ready(Ok(Filled::Bytes))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(OriginError::Disconnected)),
            Poll::Pending => {
                if silence.is_none() {
                    self.deadlines.read = None;
                }
                if self.switched {
                    return Poll::Pending; // Its caller knows for how long.
                }
                if !is_sent {
                    self.reader = Some(cx.waker().clone());
                }
                let Some(deadline) = self.deadlines.read(silence, &limits) else {
                    return Poll::Pending;
                };
                ready!(connection.read_alarm.poll(deadline, cx));
                Poll::Ready(Err(OriginError::Timeout))
            }
        }
    }
}
