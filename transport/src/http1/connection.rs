//! The life of one client connection: turns of fast answers, slow answers one at a time, and the close.

use super::reply::{AfterResponse, Http1Reply};
use super::request_body::{BodyState, Http1RequestBody};
use crate::client::Client;
use crate::client_socket::ClientSocket;
use crate::handler::{self, AnswerNow, Handler};
use crate::outbox::Outbox;
use crate::outbox::SendProgress;
use crate::worker::{Expired, ReadPhase};
use crate::{ResponseWriter, Synthetic, http2};
use larder_wire::http1::request::{ParsedRequest, parse};
use larder_wire::message::{FieldStorage, Framing, HeadLimits, Reject, Request, Version};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Bytes of answers that are collected before they are written even if more requests are available.
const BATCH: u64 = 64 * 1024;
/// Batches of one connection that are answered before other connections take their turn.
const TURNS: usize = 8;
/// Bytes of an unread request body that are read and discarded, so that the connection can be kept.
pub(super) const DRAIN: u64 = 256 * 1024;

/// One connection. Shared by the request body and the reply of the current request.
pub(super) struct Http1Connection {
    pub link: ClientSocket,
    /// Bytes that were read and belong to the next request.
    pub input: RefCell<Vec<u8>>,
    pub body: RefCell<BodyState>,
    pub after: Cell<AfterResponse>,
    /// Whether the final head of the response was sent.
    pub has_answer: Cell<bool>,
    /// Whether no head has arrived yet.
    is_new: Cell<bool>,
}

/// The result of a turn of the read loop.
enum ReadTurn {
    /// A request for the slow speed.
    Slow(Rc<Request>, KeepAlive),
    /// The socket takes no more: wait for it, then continue.
    Write,
    /// A head was rejected.
    Refuse(Reject),
    /// The bytes are the preface of HTTP/2.
    Http2,
    /// A head did not arrive in time.
    Late,
    /// The last response is written, or nearly.
    Close,
    /// The client is gone, or timed out without having sent anything.
    Gone,
}

/// The reason for ending the turn of answers.
enum AnsweringEnd {
    /// Every complete head is answered.
    All,
    Slow(Rc<Request>, KeepAlive),
    Refuse(Reject),
    Http2,
    /// The last response closes the connection.
    Last,
    /// Enough answers for one write.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    Yes,
    No,
}

/// The way in which a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionClose {
    /// At once: every byte that was read was answered.
    Plain,
    /// After the client had time to read its response: closing with unread bytes would reset the connection and discard
    /// the response.
    Lingering,
}

/// Serves one connection to its end.
pub async fn serve<H: Handler>(link: ClientSocket, client: Client, handler: Rc<H>) {
    let connection = Http1Connection::new(link);
    let mut fresh = IsFirstRequest::No;
    loop {
        let turn = poll_fn(|context| connection.turn(context, &client, &*handler, &mut fresh)).await;
        match turn {
            ReadTurn::Gone if !connection.link.is_broken() => return connection.link.send_close_notify(),
            ReadTurn::Http2 => {
                let Http1Connection { link, input, .. } = connection;
                // Boxed: other connections have no room for it.
                return Box::pin(http2::serve(link, input.into_inner(), client, handler)).await;
            }
            _ => {}
        }
        // In a pooled slot of the worker: an idle connection has none.
        let pool = &connection.link.worker.future_pool;
        match pool.lend(|| connection.end_turn(turn, &client, &*handler)).await {
            AfterResponse::KeepAlive => fresh = IsFirstRequest::Yes,
            AfterResponse::Close => return connection.link.send_close_notify(),
            AfterResponse::Cut => return,
            AfterResponse::Reset => return connection.link.reset(),
        }
    }
}

/// Answers any input of the client with a given page, and closes.
pub async fn turn_away<H: Handler>(link: ClientSocket, handler: &H, status: u16, sentence: &str) {
    let connection = Http1Connection::new(link);
    if connection.refuse(handler.refusal(status, sentence)).await == AfterResponse::Reset {
        connection.link.reset();
    }
}

/// Whether the kept bytes have not been parsed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsFirstRequest {
    Yes,
    No,
}

impl Http1Connection {
    fn new(link: ClientSocket) -> Self {
        Self {
            link,
            input: RefCell::default(),
            body: RefCell::default(),
            after: Cell::new(AfterResponse::KeepAlive),
            has_answer: Cell::new(false),
            is_new: Cell::new(true),
        }
    }

    /// Handles the end of a turn; returns whether there is another one.
    async fn end_turn<H: Handler>(&self, turn: ReadTurn, client: &Client, handler: &H) -> AfterResponse {
        self.link.watched.clear_read_deadline();
        let after = match turn {
            ReadTurn::Slow(request, keep_alive) => self.slow(request, keep_alive, client, handler).await,
            ReadTurn::Write if self.link.flush().await.is_ok() => AfterResponse::KeepAlive,
            ReadTurn::Write => self.after_failure(),
            ReadTurn::Refuse(reject) => {
                let page = handler.refusal(reject.status(), reject.sentence());
                handler.rejected(reject, client, page.length());
                self.refuse(page).await
            }
            ReadTurn::Late => self.refuse(handler.refusal(408, "The request head timed out.")).await,
            ReadTurn::Close => self.close(ConnectionClose::Plain).await,
            ReadTurn::Gone | ReadTurn::Http2 => AfterResponse::Close,
        };
        if !self.link.is_broken() {
            return after;
        }
        self.link.linger().await;
        AfterResponse::Cut
    }

    /// Reads and answers at the fast speed as long as both are possible without waiting.
    fn turn<H: Handler>(
        &self,
        context: &mut Context<'_>,
        client: &Client,
        handler: &H,
        fresh: &mut IsFirstRequest,
    ) -> Poll<ReadTurn> {
        let mut scratch = self.link.worker.input.borrow_mut();
        let mut limits = self.link.worker.size_input(&mut scratch);
        limits.scheme = client.scheme;
        for _ in 0..TURNS {
            let filled = match std::mem::replace(fresh, IsFirstRequest::No) {
                IsFirstRequest::Yes if !self.input.borrow().is_empty() => self.fetch_kept(&mut scratch),
                _ => match ready!(self.read_head(context, &mut scratch, client)) {
                    Ok(filled) => filled,
                    Err(turn) => return Poll::Ready(turn),
                },
            };
            let mut consumed = 0;
            let bytes = &scratch[..filled];
            let taken = self
                .link
                .with_output(|output| take(self, bytes, &mut consumed, &limits, client, handler, output));
            let began = client.began.get();
            self.keep(&scratch[consumed..filled], consumed, client);
            if matches!(taken, AnsweringEnd::Slow(..)) {
                client.began.set(began); // The kept bytes come after it.
            }
            let sent = self.link.send_now();
            return Poll::Ready(match (taken, sent) {
                (_, Err(error)) => {
                    self.link.note_failure(error);
                    ReadTurn::Gone
                }
                (AnsweringEnd::Slow(request, keep_alive), _) => ReadTurn::Slow(request, keep_alive),
                (AnsweringEnd::Refuse(reject), _) => ReadTurn::Refuse(reject),
                (AnsweringEnd::Http2, _) => ReadTurn::Http2,
                (AnsweringEnd::Last, Ok(SendProgress::All)) if filled == consumed => ReadTurn::Gone,
                (AnsweringEnd::Last, _) => ReadTurn::Close,
                (_, Ok(SendProgress::Blocked | SendProgress::Turn)) => {
                    *fresh = IsFirstRequest::Yes;
                    ReadTurn::Write
                }
                (AnsweringEnd::Full, Ok(SendProgress::All)) => {
                    *fresh = IsFirstRequest::Yes;
                    continue;
                }
                (AnsweringEnd::All, Ok(SendProgress::All)) => continue,
            });
        }
        // Other connections take their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves the kept bytes to the start of `scratch`; those that do not fit stay.
    fn fetch_kept(&self, scratch: &mut [u8]) -> usize {
        let mut input = self.input.borrow_mut();
        let count = input.len().min(scratch.len());
        scratch[..count].copy_from_slice(&input[..count]);
        if count == input.len() {
            *input = Vec::new();
        } else {
            input.drain(..count);
        }
        count
    }

    /// Keeps bytes that were read and not used. The deadline of a head runs from its first byte, for any number of later
    /// pieces.
    fn keep(&self, bytes: &[u8], consumed: usize, client: &Client) {
        if !bytes.is_empty() {
            let mut input = self.input.borrow_mut();
            if input.is_empty() {
                input.extend_from_slice(bytes);
            } else {
                input.splice(..0, bytes.iter().copied());
            }
        }
        let times = self.link.worker.times();
        if self.input.borrow().is_empty() {
            self.link
                .watched
                .set_read_deadline(ReadPhase::Idle, self.link.worker.idle_limit(&self.link.watched));
        } else if consumed > 0 || self.link.watched.reading() != ReadPhase::Head {
            self.link.watched.set_read_deadline(ReadPhase::Head, times.head);
            client.began.set(self.link.worker.arrival_micros());
        }
    }

    /// Reads behind the kept bytes; returns all bytes, or the reason for the end of the connection.
    fn read_head(
        &self,
        context: &mut Context<'_>,
        scratch: &mut [u8],
        client: &Client,
    ) -> Poll<Result<usize, ReadTurn>> {
        let kept = {
            let input = self.input.borrow();
            let kept = input.len().min(scratch.len());
            scratch[..kept].copy_from_slice(&input[..kept]);
            kept
        };
        // After a slow answer no wait has been set yet.
        if self.link.watched.reading() == ReadPhase::Nothing {
            self.keep(&[], 0, client);
        }
        let read = match self.link.read(context, &mut scratch[kept..]) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => read,
        };
        Poll::Ready(match read {
            Ok(count) if count > 0 => {
                if kept > 0 {
                    *self.input.borrow_mut() = Vec::new();
                }
                Ok(kept + count)
            }
            _ if self.link.watched.expired() == Expired::Reading(ReadPhase::Head) => Err(ReadTurn::Late),
            _ => Err(ReadTurn::Gone),
        })
    }

    fn count(&self, reject: Reject) {
        let counters = &self.link.worker.counters;
        counters.requests_rejected.add(1);
        match reject {
            Reject::HeadTooLarge => counters.head_too_large.add(1),
            Reject::TargetTooLong => counters.target_too_long.add(1),
            _ => {}
        }
    }

    /// The slow speed: one request, from its head to the fate of the connection.
    async fn slow<H: Handler>(
        &self,
        request: Rc<Request>,
        keep_alive: KeepAlive,
        client: &Client,
        handler: &H,
    ) -> AfterResponse {
        // Earlier responses must not wait for this one.
        if self.link.flush().await.is_err() {
            return self.after_failure();
        }
        if client.began.get() == 0 {
            client.began.set(self.link.worker.arrival_micros());
        }
        self.link.watched.reserve_descriptor();
        self.link.worker.leave_for_request(&self.link.watched);
        self.link.watched.begin_window();
        let begun = !self.input.borrow().is_empty();
        *self.body.borrow_mut() = BodyState::new(&request, self.link.worker.limits().body_size, begun);
        self.after.set(AfterResponse::Cut);
        self.has_answer.set(false);
        let reply = Http1Reply::new(self, request.method == "HEAD", request.version, keep_alive);
        let body = handler::RequestBody::http1(Http1RequestBody::new(self));
        handler.answer(request, client, body, handler::Reply::http1(reply).informing(client)).await;
        client.began.set(0);
        let after = self.end_request(keep_alive).await;
        self.link.watched.limit(None);
        after
    }

    /// The fate of the connection after a request of the slow speed.
    async fn end_request(&self, keep_alive: KeepAlive) -> AfterResponse {
        match self.after.get() {
            AfterResponse::KeepAlive if self.drain_body().await => AfterResponse::KeepAlive,
            AfterResponse::KeepAlive => self.close(ConnectionClose::Lingering).await,
            // A client that requested the close sends no more; another one may have sent more, and must not be reset for
            // it.
            AfterResponse::Close
                if keep_alive == KeepAlive::No
                    && self.body.borrow().is_at_end()
                    && self.input.borrow().is_empty() =>
            {
                self.close(ConnectionClose::Plain).await
            }
            AfterResponse::Close => self.close(ConnectionClose::Lingering).await,
            // The output that is still held back is the beginning of a truncated response, and may be sent as such.
            AfterResponse::Cut
                if self.link.watched.expired() == Expired::No && self.link.send_now().is_ok() =>
            {
                AfterResponse::Cut
            }
            AfterResponse::Cut | AfterResponse::Reset => AfterResponse::Reset,
        }
    }

    /// Reads the rest of the request body, within limits; returns whether its end was reached.
    async fn drain_body(&self) -> bool {
        if self.body.borrow().is_too_long_to_drain() {
            return false;
        }
        let mut body = Http1RequestBody::new(self);
        let mut left = DRAIN;
        loop {
            match body.next().await {
                Ok(None) => return true,
                Ok(Some(bytes)) if (bytes.len() as u64) <= left => left -= bytes.len() as u64,
                _ => return false,
            }
        }
    }

    /// Sends the response to a rejected request, and closes.
    async fn refuse(&self, page: Synthetic) -> AfterResponse {
        let page = page.with("Cache-Control", "no-store");
        self.link.with_output(|output| {
            page.write_now("GET", &mut ResponseWriter::http1(Version::Http11, true, output))
        });
        self.link.watched.reset_deadlines();
        self.close(ConnectionClose::Lingering).await
    }

    /// Sends the remaining output and closes the sending side.
    async fn close(&self, farewell: ConnectionClose) -> AfterResponse {
        if self.link.flush().await.is_err() {
            return self.after_failure();
        }
        if farewell == ConnectionClose::Plain {
            return AfterResponse::Close;
        }
        self.link.linger().await;
        AfterResponse::Close
    }

    /// After a failed write: a client that does not read leaves nothing in the kernel's buffer.
    fn after_failure(&self) -> AfterResponse {
        if self.link.watched.expired() == Expired::No { AfterResponse::Cut } else { AfterResponse::Reset }
    }
}

/// Answers every complete head at the start of `bytes`, until one needs the slow speed.
fn take<H: Handler>(
    connection: &Http1Connection,
    bytes: &[u8],
    consumed: &mut usize,
    limits: &HeadLimits,
    client: &Client,
    handler: &H,
    output: &mut Outbox,
) -> AnsweringEnd {
    let worker = &*connection.link.worker;
    while *consumed < bytes.len() {
        let mut storage = FieldStorage::new();
        let (head, length) = match parse(&bytes[*consumed..], limits, &mut storage) {
            Ok(ParsedRequest::Head(head, length)) => (head, length),
            Ok(ParsedRequest::Partial) => return AnsweringEnd::All,
            Err(Reject::Version) if connection.is_new.get() && http2::is_preface(bytes) => {
                return AnsweringEnd::Http2;
            }
            Err(reject) => {
                connection.count(reject);
                return AnsweringEnd::Refuse(reject);
            }
        };
        *consumed += length;
        connection.is_new.set(false);
        worker.counters.requests.add(1);
        let last = !head.keep_alive || connection.link.watched.is_leaving();
        let declined = head.framing != Framing::Empty
            || handler.answer_now(
                &head,
                client,
                &mut ResponseWriter::http1(head.version, last, output).informing(client),
            ) == AnswerNow::Later;
        if declined {
            let keep_alive = if head.keep_alive { KeepAlive::Yes } else { KeepAlive::No };
            return AnsweringEnd::Slow(Rc::new(head.to_owned()), keep_alive);
        }
        client.began.set(0);
        if last {
            return AnsweringEnd::Last;
        }
        if output.len() >= BATCH {
            return AnsweringEnd::Full;
        }
    }
    AnsweringEnd::All
}
