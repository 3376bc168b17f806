//! The engine of an exchange, one request and its response on one connection of any protocol: it orders the sending and
//! receiving, and decides the next step. `codec` has the protocols; this module knows neither the pool nor the meaning of
//! a response.
//!
//! ```text
//! link      Open ──(died before a byte came, may be repeated)──────── Opening ── Open ── Closed
//!           Open ──(failed before a final head came, may go to another origin)── Opening ── Open
//! sending   Length(n) | Unsized ── Done           (Failed: the origin takes no more; it may still answer)
//! reading   Head ── (interim, again Head) ── Body ── Done           (Failed, from anywhere, with the error)
//! ```
//!
//! Every wait is a `poll` of this state, so that dropping a future loses nothing, and writing and reading can be awaited
//! concurrently.

mod accept;
mod failure;
mod reason_count;
mod retry;
mod stalled;
mod start;
mod steps;

use crate::body_form::BodyForm;
use crate::codec::Codec;
use crate::deadline::Deadlines;
use crate::error::{OriginError, TimeLimit};
use crate::group::GroupAttempt;
use crate::limits::OriginLimits;
use crate::pool::{OriginPool, Permit, ReuseDelay};
use crate::protocol::{Closing, Event, Reusable};
use crate::request::OutgoingRequest;
use crate::send_buffer::SendBuffer;
use crate::stalled_exchanges::StallRecord;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::storable::is_endless_of;
use larder_stdx::clock;
use larder_wire::message::{BadResponse, Framing, ResponseHead};
pub use reason_count::ReasonTally;
use retry::{Opening, RetryDecision};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use steps::{ResponsePhase, Sending};

/// One request and its response on one connection. Dropping it before the end closes the connection; at the end the
/// connection returns to the pool.
///
/// Its futures may be awaited concurrently by one task (`select!`, `join!`): one that writes, one that reads.
pub struct Exchange {
    state: RefCell<ExchangeState>,
    /// The time of the request, by the precise clock, until its final head has arrived; `None` without measuring.
    asked: Cell<Option<u64>>,
    /// The time of that head, where it was measured.
    answered: Cell<Option<u64>>,
    /// The microseconds until that head, where it was measured.
    took: Cell<Option<u64>>,
    stalls: StallRecord,
    reason: ReasonTally,
}

impl Exchange {
    /// An exchange before its first write.
    fn new(
        permit: Permit,
        codec: Codec,
        request: Box<OutgoingRequest>,
        asked: Option<u64>,
        attempt: Option<GroupAttempt>,
    ) -> Rc<Self> {
        let measured = permit.origin().measures.get().is_some();
        let asked = measured.then(|| asked.unwrap_or_else(clock::precise_micros));
        let route = permit.origin().measures.get().map(|it| it.route.clone());
        let reason = ReasonTally::new(route, request.reason);
        let state = RefCell::new(ExchangeState::new(permit, codec, request, attempt));
        // Allocated in place: it is large, and often moved.
        Rc::new(Self {
            state,
            asked: Cell::new(asked),
            answered: Cell::new(None),
            took: Cell::new(None),
            stalls: StallRecord::default(),
            reason,
        })
    }

    /// The [`hash`](crate::hash) of the name of its origin: the last one, where it was repeated.
    #[must_use]
    pub fn origin(&self) -> u64 {
        crate::hash(self.state.borrow().origin.name().as_bytes())
    }

    /// The name of its origin: of the last one, where it was repeated.
    #[must_use]
    pub fn name(&self) -> Rc<str> {
        self.state.borrow().origin.name().clone()
    }

    /// Starts by writing the head.
    async fn begin(&self) -> Result<(), OriginError> {
        poll_fn(|cx| {
            self.state.borrow_mut().send_head(cx);
            Poll::Ready(())
        })
        .await;
        if self.state.borrow().has_handed_over() {
            return Ok(());
        }
        match self.flush().await {
            // An origin that refuses the request unread may have sent its reason: `head` will see it.
            Ok(()) | Err(OriginError::Disconnected) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes a piece of the request body. May be called while another future waits in [`Exchange::head`].
    ///
    /// The piece is accepted when the future is first polled. Dropping the future after that neither loses nor repeats a
    /// byte: the rest is sent with the next `write`, `write_end` or `head`.
    ///
    /// # Errors
    /// See [`OriginError`]. A response may nevertheless be there. [`OriginError::Disconnected`] also where the body would
    /// exceed its announced length: the excess is never sent.
    pub async fn write(&self, bytes: Bytes) -> Result<(), OriginError> {
        self.stalls.received.set(self.stalls.received.get() + bytes.len() as u64);
        self.state.borrow_mut().accept(bytes)?;
        self.flush().await
    }

    /// Ends the request body. Without this call the request stays visibly incomplete.
    ///
    /// # Errors
    /// See [`OriginError`]. [`OriginError::Disconnected`] also where the body is shorter than its announced length;
    /// the connection is closed then.
    pub async fn write_end(&self, trailers: Option<&FieldList>) -> Result<(), OriginError> {
        self.state.borrow_mut().accept_end(trailers)?;
        self.flush().await
    }

    /// Closes larder's side of a connection that is no longer HTTP; bytes from the origin may still be read.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn shut(&self) -> Result<(), OriginError> {
        self.state.borrow_mut().accept_end(None)?;
        self.flush().await?;
        poll_fn(|cx| self.state.borrow_mut().poll_shut(cx)).await
    }

    /// Waits for the next head: interim (status below 200) or final. If a reused connection ended before the first byte
    /// of a response, the request is repeated once on a fresh one; where the process of an application ended, also once more,
    /// from the budget of the group. That is limited to requests that cannot take effect twice: idempotent ones, and those with a body of which no byte was written (RFC 9110 §9.2.2). In a group, an
    /// idempotent request goes to another origin if one fails before its first head, as often as the group allows. At
    /// most 64 KiB of its body, the remembered part, may have been sent by then.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn head(&self) -> Result<ResponseHead, OriginError> {
        let head = poll_fn(|cx| self.state.borrow_mut().poll_head(cx)).await;
        head.inspect(|it| self.measure_head(it)).inspect_err(|it| self.report_failure(it))
    }

    /// The next bytes of the body; `None` after the last one, verified by the framing. Bytes that are kept for long
    /// should be copied: they keep their read buffer of up to 64 KiB alive.
    ///
    /// # Errors
    /// The body is incomplete.
    pub async fn next(&self) -> Result<Option<Bytes>, OriginError> {
        let next = poll_fn(|cx| self.state.borrow_mut().poll_next(cx)).await;
        if let (Ok(Some(bytes)), Some(it)) = (&next, self.state.borrow().origin.measures.get()) {
            it.origin.counters.bytes.add(bytes.len() as u64);
        }
        next.inspect_err(|it| self.report_failure(it))
    }

    /// The arrival of the final head, by the precise clock; the current time where it was not measured, so call this
    /// right after it.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.get().unwrap_or_else(clock::precise_micros)
    }

    /// The reason of the request is known for certain, and is counted: `final_reason` if the response has changed it. Without this
    /// call it is counted when the exchange is dropped.
    pub fn count_reason(&self, final_reason: Option<MissReason>) {
        self.reason.count(final_reason);
    }

    /// The response is stored, or validated a stored one, and hits can follow: its time is one that they save.
    pub fn note_reusable(&self) {
        if let (Some(it), Some(micros)) = (self.state.borrow().origin.measures.get(), self.took.get()) {
            it.route.lately.note(micros);
        }
    }

    /// The trailer section, after the end of the body.
    #[must_use]
    pub fn trailers(&self) -> Option<FieldList> {
        self.state.borrow().trailers.clone()
    }

    /// Ends the exchange at once for all its owners: the connection is closed, and its permit is free.
    pub fn give_up(&self) {
        let mut state = self.state.borrow_mut();
        state.reading = ResponsePhase::Failed(OriginError::Busy);
        state.close();
    }

    /// Reports a failure once. Not for a failed write of the request: an origin may stop reading, and answer.
    fn report_failure(&self, error: &OriginError) {
        let state = self.state.borrow();
        if !state.is_reported.replace(true) {
            state.origin.report_failure(error);
        }
    }

    /// Measures the origin's time, once its final head is there.
    fn measure_head(&self, response: &ResponseHead) {
        let Some(asked) = self.asked.get().filter(|_| response.status >= 200) else { return };
        self.asked.set(None);
        if let Some(it) = self.state.borrow().origin.measures.get() {
            let now = clock::precise_micros();
            self.answered.set(Some(now));
            let micros = now.saturating_sub(asked);
            it.route.counters.origin_us.add(micros);
            self.reason.add_time(micros);
            self.took.set(Some(micros));
            it.origin.counters.answers.add(1);
            it.origin.counters.errors_5xx.add(u64::from(response.status >= 500));
            it.origin.latency.record(micros, 1);
        }
    }

    async fn flush(&self) -> Result<(), OriginError> {
        let _writing = Writing::start(&self.state);
        poll_fn(|cx| self.state.borrow_mut().poll_flush(cx)).await
    }
}

/// Marks that a future is writing, so that `head` leaves the writing, and its waker, to it.
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
    Open(Codec),
    /// A fresh one is being opened, in place of one that ended.
    Opening {
        opening: Opening,
        /// To another origin, whose failures are reported elsewhere.
        is_elsewhere: bool,
    },
    /// Returned to the pool, or closed.
    Closed,
}

struct ExchangeState {
    origin: Rc<OriginPool>,
    /// Behind a pointer: it is large, and moves on its way here.
    request: Box<OutgoingRequest>,
    permit: Option<Permit>,
    /// The attempts in the group, where there is a group.
    attempt: Option<GroupAttempt>,
    /// Its failure was reported.
    is_reported: Cell<bool>,
    link: ExchangeLink,
    unsent: SendBuffer,
    /// The form of the body's pieces in there.
    form: BodyForm,
    sending: Sending,
    reading: ResponsePhase,
    trailers: Option<FieldList>,
    deadlines: Deadlines,
    /// Bytes of a response arrived on this connection.
    has_received: bool,
    interim: usize,
    repeats: u32,
    writers: usize,
    /// The connection is no longer HTTP.
    switched: bool,
    /// The body is held back until a 100 arrives: the origin owes an answer although the request is not complete.
    awaits_continue: bool,
    /// The task that reads while the request is not complete: the progress of writing changes its waits.
    reader: Option<Waker>,
}

impl ExchangeState {
    fn new(
        permit: Permit,
        codec: Codec,
        request: Box<OutgoingRequest>,
        attempt: Option<GroupAttempt>,
    ) -> Self {
        Self {
            origin: permit.origin().clone(),
            permit: Some(permit),
            attempt,
            is_reported: Cell::new(false),
            unsent: SendBuffer::default(),
            form: codec.body_form(&request),
            sending: match request.framing {
                Framing::Empty | Framing::Length(0) => Sending::Done,
                Framing::Length(length) => Sending::Length(length),
                Framing::Chunked | Framing::Close => Sending::Unsized,
            },
            reading: ResponsePhase::Head,
            trailers: None,
            deadlines: Deadlines::default(),
            has_received: false,
            interim: 0,
            repeats: 0,
            writers: 0,
            switched: false,
            awaits_continue: request.expects_continue(),
            reader: None,
            request,
            link: ExchangeLink::Open(codec),
        }
    }

    fn limits(&self) -> OriginLimits {
        self.origin.limits
    }

    /// Whether the origin has accepted the whole request.
    fn is_sent(&self) -> bool {
        self.sending == Sending::Done && self.has_handed_over()
    }

    /// Whether it has accepted all bytes given so far, an end included.
    fn has_handed_over(&self) -> bool {
        let owes_end = || matches!(&self.link, ExchangeLink::Open(it) if it.owes_end());
        self.unsent.is_empty() && (self.sending != Sending::Done || !owes_end())
    }

    /// Returns the connection to the pool, or closes it, if the response is complete.
    fn settle(&mut self) {
        if self.switched || !matches!(self.reading, ResponsePhase::Done) {
            return;
        }
        if let ExchangeLink::Open(codec) = mem::replace(&mut self.link, ExchangeLink::Closed) {
            let reuse_delay =
                if self.request.line.method() == "HEAD" { ReuseDelay::AfterSweep } else { ReuseDelay::Now };
            let owes_end = self.sending == Sending::Done && codec.owes_end();
            match codec.reusable() {
                Reusable::Surplus => self.origin.note_surplus(reuse_delay),
                Reusable::No => {}
                Reusable::Yes if self.sending == Sending::Failed => {}
                Reusable::Yes if self.sending == Sending::Done && self.unsent.is_empty() && !owes_end => {
                    if let Some(connection) = codec.into_connection() {
                        self.origin.return_idle(connection, reuse_delay);
                    }
                }
                Reusable::Yes => {
                    self.link = ExchangeLink::Open(codec); // the rest of the request may follow
                    return;
                }
            }
        }
        self.permit = None;
    }

    // ---- the request ----

    /// Writes the head, and leaves to `poll_flush` the bytes that are not sent at once.
    fn send_head(&mut self, cx: &mut Context<'_>) {
        if let ExchangeLink::Open(codec) = &mut self.link {
            codec.write_head(&self.request, &mut self.unsent, cx);
        }
    }

    /// Ready once the origin has accepted all bytes given so far.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        loop {
            ready!(self.poll_open(cx))?;
            if self.sending == Sending::Failed {
                return Poll::Ready(Err(self.failure())); // the unsent part was given up
            }
            if self.has_handed_over() {
                self.wake_reader();
                self.settle();
                return Poll::Ready(Ok(()));
            }
            match ready!(self.poll_write(cx)) {
                Ok(()) => {}
                Err(OriginError::Refused) if self.may_repeat_refused() => self.retry_same_origin(),
                Err(OriginError::Disconnected) if ready!(self.poll_retry(cx)) == RetryDecision::Retry => {}
                Err(OriginError::Disconnected) => {
                    self.unsent.clear();
                    self.sending = Sending::Failed;
                    self.wake_reader();
                    self.settle();
                    return Poll::Ready(Err(self.failure()));
                }
                Err(error) if self.retry_elsewhere(&error) == RetryDecision::Fail => {
                    return Poll::Ready(Err(self.fail(error)));
                }
                Err(_) => {}
            }
        }
    }

    /// Writes once from the unsent bytes, or fires one of the alarms.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        let ExchangeLink::Open(codec) = &mut self.link else {
            return Poll::Ready(Err(OriginError::Disconnected));
        };
        let closing = if self.sending == Sending::Done { Closing::End } else { Closing::NotYet };
        match codec.poll_write(&mut self.unsent, closing, cx) {
            Poll::Ready(written) => {
                if written.is_ok() {
                    self.deadlines.write = None;
                }
                Poll::Ready(written)
            }
            Poll::Pending => {
                let Some(deadline) = self.deadlines.write(&self.origin.limits) else {
                    return Poll::Pending;
                };
                ready!(codec.alarms().write.poll(deadline, cx));
                codec.note_silence();
                Poll::Ready(Err(OriginError::Timeout(self.deadlines.passed(TimeLimit::BetweenBytes))))
            }
        }
    }

    fn poll_shut(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        let ExchangeLink::Open(codec) = &mut self.link else { return Poll::Ready(Ok(())) };
        codec.poll_shut(cx)
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
                    // It may have answered before it stopped reading.
                    Poll::Ready(Ok(()) | Err(OriginError::Disconnected)) | Poll::Pending => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
                ready!(self.poll_open(cx))?;
            }
            let error = match ready!(self.poll_read(cx)) {
                Ok(Event::More) => continue,
                Ok(Event::Head(response)) => match self.take_head(&response) {
                    Ok(RetryDecision::Retry) => continue,
                    Ok(RetryDecision::Fail) => return Poll::Ready(Ok(response)),
                    Err(error) => error,
                },
                Ok(Event::Body(_) | Event::End(..)) => OriginError::BadBody,
                Err(error) => {
                    let repeats = match error {
                        OriginError::Refused => self.may_repeat_refused(),
                        OriginError::Disconnected
                        | OriginError::ApplicationFailed(_)
                        | OriginError::NotHttp2 => self.may_repeat(),
                        _ => false,
                    };
                    if repeats {
                        self.retry_same_origin();
                        continue;
                    }
                    self.reason(error)
                }
            };
            if self.retry_elsewhere(&error) == RetryDecision::Fail {
                return Poll::Ready(Err(self.fail(error)));
            }
        }
    }

    /// A head arrived: decides whether the request goes to another origin instead.
    fn take_head(&mut self, response: &ResponseHead) -> Result<RetryDecision, OriginError> {
        self.unsent.forget();
        if response.status >= 200 && self.retry_on_status(response.status) == RetryDecision::Retry {
            return Ok(RetryDecision::Retry);
        }
        self.begin_response(response).map(|()| RetryDecision::Fail)
    }

    /// Applies a head to the state.
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
                // A stream of events may last for ever: it holds no permit.
                let has_end = matches!(response.framing, Framing::Empty | Framing::Length(_));
                if !has_end && is_endless_of(&response.fields) {
                    self.permit = None;
                }
                self.begin_body();
            }
        }
        Ok(())
    }

    /// HTTP ends on this connection: bytes in both directions, until each has ended. It no longer counts among the
    /// permits that requests wait for.
    fn switch(&mut self) {
        self.permit.iter().for_each(Permit::answered);
        (self.sending, self.reading) = (Sending::Raw, ResponsePhase::Body);
        (self.switched, self.permit) = (true, None);
        self.deadlines.read = None;
    }

    fn begin_body(&mut self) {
        self.deadlines.read = None;
        let is_whole = matches!(&self.link, ExchangeLink::Open(it) if it.is_whole());
        self.reading = if is_whole { ResponsePhase::Done } else { ResponsePhase::Body };
        self.settle();
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, OriginError>> {
        loop {
            match (&self.reading, &self.link) {
                (ResponsePhase::Body, ExchangeLink::Open(_)) => {}
                (ResponsePhase::Done, _) => return Poll::Ready(Ok(None)),
                _ => return Poll::Ready(Err(self.failure())),
            }
            match ready!(self.poll_read(cx)) {
                Ok(Event::More) => {}
                Ok(Event::Body(bytes)) => return Poll::Ready(Ok(Some(bytes))),
                Ok(Event::End(bytes, trailers)) => {
                    self.trailers = trailers;
                    self.reading = ResponsePhase::Done;
                    self.settle();
                    return Poll::Ready(Ok(Some(bytes).filter(|it| !it.is_empty())));
                }
                Ok(Event::Head(_)) => return Poll::Ready(Err(self.fail(OriginError::BadBody))),
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            }
        }
    }

    /// The next event of the response, or one of the alarms.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, OriginError>> {
        let limits = self.limits();
        let ExchangeLink::Open(codec) = &mut self.link else {
            return Poll::Ready(Err(OriginError::Disconnected));
        };
        match codec.poll_read(self.request.line.method(), limits.head_size, cx) {
            Poll::Ready(Ok(event)) => {
                self.has_received = true;
                if matches!(self.reading, ResponsePhase::Body) {
                    self.deadlines.read = None;
                }
                // An origin that always has a byte ready never causes a wait, and is bounded nevertheless.
                if codec.alarms().read.has_rung() && self.deadlines.is_over() {
                    return Poll::Ready(Err(OriginError::Timeout(TimeLimit::Total)));
                }
                Poll::Ready(Ok(event))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_silence(cx).map(Err),
        }
    }

    /// Waits until a part of a response is here, or one of the alarms.
    fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        let ExchangeLink::Open(codec) = &mut self.link else {
            return Poll::Ready(Err(OriginError::Disconnected));
        };
        match codec.poll_answered(cx) {
            Poll::Ready(answered) => {
                self.has_received |= answered.is_ok();
                Poll::Ready(answered)
            }
            Poll::Pending => self.poll_silence(cx).map(Err),
        }
    }

    /// Ready after too long a silence.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<OriginError> {
        let limits = self.limits();
        let is_sent = self.is_sent();
        let silence = match self.reading {
            ResponsePhase::Head if is_sent || self.awaits_continue => Some(limits.first_byte),
            ResponsePhase::Head => None,
            _ if self.switched => None,
            _ => Some(limits.between_bytes),
        };
        let limit = match self.reading {
            ResponsePhase::Head => TimeLimit::FirstByte,
            _ => TimeLimit::BetweenBytes,
        };
        if silence.is_none() {
            self.deadlines.read = None;
        }
        if self.switched {
            return Poll::Pending; // Its caller knows for how long.
        }
        if !is_sent {
            self.reader = Some(cx.waker().clone());
        }
        let ExchangeLink::Open(codec) = &mut self.link else { return Poll::Pending };
        let Some(deadline) = self.deadlines.read(silence, &limits) else { return Poll::Pending };
        ready!(codec.alarms().read.poll(deadline, cx));
        codec.note_silence();
        Poll::Ready(OriginError::Timeout(self.deadlines.passed(limit)))
    }
}
