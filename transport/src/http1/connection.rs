//! The life of one client connection: turns of fast answers, slow answers one at a time, and the close.

use super::outbox::Sent;
use super::reply::{After, Reply};
use super::request_body::{BodyState, RequestBody};
use super::{Client, ClientGone, Handler, Now, Outbox};
use crate::worker::{Phase, Watched, Worker};
use larder_wire::http1::request::{Limits, Parsed, Reject, Request, Storage, parse};
use larder_wire::http1::{Framing, Version, write};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Bytes of answers that are collected before they are written although more requests are there.
const BATCH: u64 = 64 * 1024;
/// Bytes of an unread request body that are read and thrown away, so that the connection may live on; and bytes
/// that a client may still send after we have closed our side.
pub(super) const DRAIN: u64 = 256 * 1024;
/// How long a client may take to close its side after we have closed ours.
const LINGER: Duration = Duration::from_secs(2);

/// One connection. Shared by the request body and the reply of the request that is being answered.
pub(super) struct Connection {
    pub watched: Rc<Watched>,
    pub worker: Rc<Worker>,
    /// Bytes that were read and belong to what comes next.
    pub input: RefCell<Vec<u8>>,
    /// What is to be written, while there is something: see [`Connection::with_output`].
    pub output: RefCell<Option<Box<Outbox>>>,
    pub body: RefCell<BodyState>,
    pub after: Cell<After>,
}

/// What a turn of the read loop came to.
enum Turn {
    /// A request for the slow speed.
    Slow(Request, KeepAlive),
    /// The socket takes no more: wait for it, then go on.
    Write,
    /// A head was refused.
    Refuse(Reject),
    /// The client is done, or we are.
    Close,
    /// The client is gone, or was too slow without having sent anything.
    Gone,
}

/// What of a turn's requests decides about the next turn.
enum Taken {
    /// Every whole head is answered.
    All,
    Slow(Request, KeepAlive),
    Refuse(Reject),
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

/// Serves one connection to its end.
pub async fn serve<H: Handler>(watched: Rc<Watched>, client: Client, worker: Rc<Worker>, handler: Rc<H>) {
    let connection = Connection {
        watched,
        worker,
        input: RefCell::default(),
        output: RefCell::default(),
        body: RefCell::default(),
        after: Cell::new(After::KeepAlive),
    };
    connection.watched.enter(Phase::Head, connection.worker.limits().head_timeout);
    connection.run(&client, &*handler).await;
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.worker.dismiss(&self.watched);
    }
}

impl Connection {
    async fn run<H: Handler>(&self, client: &Client, handler: &H) {
        let mut look_first = false;
        loop {
            match poll_fn(|context| self.turn(context, client, handler, &mut look_first)).await {
                Turn::Slow(request, keep_alive) => {
                    // Boxed: an idle connection has no room for it.
                    match Box::pin(self.slow(request, keep_alive, client, handler)).await {
                        After::KeepAlive => look_first = true,
                        After::Close => return Box::pin(self.close()).await,
                        After::Hard => return self.reset(),
                    }
                }
                Turn::Write => {
                    if self.flush().await.is_err() {
                        return;
                    }
                    look_first = true;
                }
                Turn::Refuse(reject) => {
                    handler.rejected(reject, client);
                    return Box::pin(self.refuse(reject.status(), reject.sentence())).await;
                }
                Turn::Close => return Box::pin(self.close()).await,
                Turn::Gone if self.watched.expired.get() && !self.input.borrow().is_empty() => {
                    let sentence = "The request's head did not arrive in time.";
                    return Box::pin(self.refuse(408, sentence)).await;
                }
                Turn::Gone => return,
            }
        }
    }

    /// Reads and answers at the fast speed for as long as both go on without waiting.
    fn turn<H: Handler>(
        &self,
        context: &mut Context<'_>,
        client: &Client,
        handler: &H,
        look_first: &mut bool,
    ) -> Poll<Turn> {
        let mut scratch = self.worker.input.borrow_mut();
        self.worker.size_input(&mut scratch);
        loop {
            let kept = {
                let mut input = self.input.borrow_mut();
                let kept = input.len().min(scratch.len());
                scratch[..kept].copy_from_slice(&input[..kept]);
                input.drain(..kept);
                if input.is_empty() {
                    *input = Vec::new();
                }
                kept
            };
            let filled = if std::mem::take(look_first) && kept > 0 {
                kept
            } else {
                match self.read(context, &mut scratch[kept..]) {
                    Poll::Ready(Ok(count)) if count > 0 => kept + count,
                    Poll::Ready(_) => {
                        self.give_back(&scratch[..kept]);
                        return Poll::Ready(Turn::Gone);
                    }
                    Poll::Pending => {
                        self.give_back(&scratch[..kept]);
                        self.wait_for_more(kept);
                        return Poll::Pending;
                    }
                }
            };
            let mut consumed = 0;
            let bytes = &scratch[..filled];
            let taken = self.with_output(|output| self.take(bytes, &mut consumed, client, handler, output));
            self.give_back(&scratch[consumed..filled]);
            let sent = self.send_now();
            return Poll::Ready(match (taken, sent) {
                (_, Err(_)) => Turn::Gone,
                (Taken::Slow(request, keep_alive), _) => Turn::Slow(request, keep_alive),
                (Taken::Refuse(reject), _) => Turn::Refuse(reject),
                (Taken::Last, _) => Turn::Close,
                (_, Ok(Sent::Blocked)) => Turn::Write,
                (Taken::Full, Ok(Sent::All)) => {
                    *look_first = true;
                    continue;
                }
                (Taken::All, Ok(Sent::All)) => continue,
            });
        }
    }

    /// Puts back what was read and not used, before whatever is kept already.
    fn give_back(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let mut input = self.input.borrow_mut();
            if input.is_empty() {
                input.extend_from_slice(bytes);
            } else {
                input.splice(..0, bytes.iter().copied());
            }
        }
    }

    fn wait_for_more(&self, kept: usize) {
        let limits = self.worker.limits();
        if self.worker.is_draining() && kept == 0 {
            self.watched.shut(Shutdown::Read);
        }
        match (kept, self.watched.phase.get()) {
            // Its time runs from the first byte, however often more comes; and from accept for the first.
            (_, Phase::Head) => {}
            (0, _) => self.watched.enter(Phase::Idle, limits.idle_timeout),
            _ => self.watched.enter(Phase::Head, limits.head_timeout),
        }
    }

    /// Answers every whole head at the start of `bytes`, until one needs the slow speed.
    fn take<H: Handler>(
        &self,
        bytes: &[u8],
        consumed: &mut usize,
        client: &Client,
        handler: &H,
        output: &mut Outbox,
    ) -> Taken {
        let limits = self.worker.limits();
        let limits = Limits { head: limits.head_size, target: limits.target_size };
        loop {
            let mut storage = Storage::new();
            let (head, length) = match parse(&bytes[*consumed..], &limits, &mut storage) {
                Ok(Parsed::Head(head, length)) => (head, length),
                Ok(Parsed::Partial) => {
                    if *consumed < bytes.len() && *consumed > 0 {
                        self.watched.enter(Phase::Head, self.worker.limits().head_timeout);
                    }
                    return Taken::All;
                }
                Err(reject) => {
                    self.count(reject);
                    return Taken::Refuse(reject);
                }
            };
            *consumed += length;
            self.worker.counters.requests.add(1);
            let last = !head.keep_alive || self.worker.is_draining();
            let simple = head.framing == Framing::Empty;
            if !simple || handler.answer_now(&head, client, last, output) == Now::Later {
                let keep_alive = if head.keep_alive { KeepAlive::Yes } else { KeepAlive::No };
                return Taken::Slow(head.to_owned(), keep_alive);
            }
            // Idle as soon as nothing of a next head is here.
            self.watched.enter(Phase::Idle, self.worker.limits().idle_timeout);
            if last {
                return Taken::Last;
            }
            if output.len() >= BATCH {
                return Taken::Full;
            }
            if *consumed == bytes.len() {
                return Taken::All;
            }
        }
    }

    fn count(&self, reject: Reject) {
        let counters = &self.worker.counters;
        counters.requests_rejected.add(1);
        match reject {
            Reject::HeadTooLarge => counters.head_too_large.add(1),
            Reject::TargetTooLong => counters.target_too_long.add(1),
            _ => {}
        }
    }

    /// The slow speed: one request, from its head to what becomes of the connection.
    async fn slow<H: Handler>(
        &self,
        request: Request,
        keep_alive: KeepAlive,
        client: &Client,
        handler: &H,
    ) -> After {
        if self.flush().await.is_err() {
            return After::Hard;
        }
        self.watched.enter(Phase::Answer, Duration::ZERO);
        *self.body.borrow_mut() = BodyState::new(&request);
        self.after.set(After::Hard);
        let head = request.method == "HEAD";
        let reply = Reply::new(self, head, request.version, keep_alive);
        handler.answer(request, client, RequestBody::new(self), reply).await;
        let after = self.after.get();
        if after == After::KeepAlive && !self.drain_body().await {
            return After::Close;
        }
        after
    }

    /// Reads what is left of the request body, within bounds; says whether its end was reached.
    async fn drain_body(&self) -> bool {
        let mut body = RequestBody::new(self);
        let mut left = DRAIN;
        loop {
            if self.body.borrow().is_at_end() {
                return true;
            }
            if self.body.borrow().waits_for_continue() {
                return false;
            }
            match body.next().await {
                Ok(None) => return true,
                Ok(Some(bytes)) if (bytes.len() as u64) < left => left -= bytes.len() as u64,
                _ => return false,
            }
        }
    }

    /// Answers a refused head and closes.
    async fn refuse(&self, status: u16, sentence: &str) {
        self.with_output(|output| {
            let text = output.text();
            let page = format!("{status} {}\n{sentence}\n", write::reason(status));
            write::status_line(status, text);
            write::field("Content-Type", b"text/plain; charset=utf-8", text);
            write::field("Content-Length", page.len().to_string().as_bytes(), text);
            write::field("Cache-Control", b"no-store", text);
            text.extend_from_slice(b"Connection: close\r\n\r\n");
            text.extend_from_slice(page.as_bytes());
        });
        self.watched.expired.set(false);
        self.close().await;
    }

    /// Sends what is left, closes our side, and lets the client read it before the descriptor goes: closing with
    /// unread bytes would reset the connection and take the answer with it.
    async fn close(&self) {
        if self.flush().await.is_err() {
            return;
        }
        self.watched.shut(Shutdown::Write);
        self.watched.enter(Phase::Linger, LINGER);
        let mut left = DRAIN;
        let mut scratch = [0; 4096];
        while left > 0 {
            match poll_fn(|context| self.read(context, &mut scratch)).await {
                Ok(count) if count > 0 => left = left.saturating_sub(count as u64),
                _ => return,
            }
        }
    }

    /// Closes so that the client cannot take what it has for whole.
    fn reset(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.watched.fd(), Some(Duration::ZERO));
    }

    /// Reads what is there. A short read leaves the socket marked as empty: the next call waits at once, without
    /// a system call that would only say so.
    pub fn read(&self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, Errno>> {
        loop {
            let mut guard = match ready!(self.watched.io.poll_read_ready(context)) {
                Ok(guard) => guard,
                Err(_) => return Poll::Ready(Err(Errno::IO)),
            };
            match rustix::net::recv(self.watched.fd(), &mut *into, RecvFlags::empty()) {
                Ok((count, _)) => {
                    if count > 0 && count < into.len() {
                        guard.clear_ready();
                    }
                    self.worker.counters.client_bytes_received.add(count as u64);
                    self.watched.moved.set(self.watched.moved.get() + count as u64);
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Lends the outbox: the connection's own while something waits in it, else the worker's.
    pub fn with_output<T>(&self, work: impl FnOnce(&mut Outbox) -> T) -> T {
        let mut own = self.output.borrow_mut();
        let mut outbox = own.take().or_else(|| self.worker.output.take()).unwrap_or_default();
        let done = work(&mut outbox);
        if outbox.is_empty() {
            self.worker.output.set(Some(outbox));
        } else {
            *own = Some(outbox);
        }
        done
    }

    /// Writes what the socket takes now.
    fn send_now(&self) -> Result<Sent, Errno> {
        if self.output.borrow().is_none() {
            return Ok(Sent::All);
        }
        let mut moved = 0;
        let sent = self.with_output(|it| it.send(self.watched.fd(), &mut moved));
        self.sent(moved);
        sent
    }

    fn sent(&self, moved: u64) {
        self.worker.counters.client_bytes_sent.add(moved);
        self.watched.moved.set(self.watched.moved.get() + moved);
    }

    /// Writes everything, waiting as long as the client takes some of it.
    pub async fn flush(&self) -> Result<(), ClientGone> {
        match self.send_now() {
            Ok(Sent::All) => return Ok(()),
            Ok(Sent::Blocked) => {}
            Err(_) => return Err(self.gone()),
        }
        let before = self.watched.phase.get();
        let limit = self.worker.limits().write_timeout;
        self.watched.enter(Phase::Write, limit);
        let done = poll_fn(|context| {
            loop {
                // The guard is from before the attempt: room that comes after it is not overlooked.
                let Ok(mut guard) = ready!(self.watched.io.poll_write_ready(context)) else {
                    return Poll::Ready(Err(ClientGone::Closed));
                };
                let left = self.waiting();
                match self.send_now() {
                    Ok(Sent::All) => return Poll::Ready(Ok(())),
                    Ok(Sent::Blocked) => guard.clear_ready(),
                    Err(_) => return Poll::Ready(Err(self.gone())),
                }
                if self.waiting() < left {
                    self.watched.enter(Phase::Write, limit);
                }
            }
        })
        .await;
        self.watched.enter(before, Duration::ZERO);
        done
    }

    /// Bytes that are to be written.
    pub fn waiting(&self) -> u64 {
        self.output.borrow().as_ref().map_or(0, |it| it.len())
    }

    pub fn gone(&self) -> ClientGone {
        if self.watched.expired.get() { ClientGone::TimedOut } else { ClientGone::Closed }
    }

    /// Writes `HTTP/1.0` or `HTTP/1.1` clients the connection line that they need.
    pub fn write_connection(version: Version, keep_alive: KeepAlive, text: &mut Vec<u8>) {
        match (keep_alive, version) {
            (KeepAlive::No, _) => text.extend_from_slice(b"Connection: close\r\n"),
            (KeepAlive::Yes, Version::Http10) => text.extend_from_slice(b"Connection: keep-alive\r\n"),
            (KeepAlive::Yes, Version::Http11) => {}
        }
    }
}
