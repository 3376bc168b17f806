//! The bytes of one client's socket: reading, sending the outbox, and closing. Their meaning is not here: the connections
//! of the protocols are built on this.

use crate::outbox::{Outbox, SendProgress};
use crate::tls::session::{self, HandshakeStage, INCOMING, TlsSession};
use crate::tls::{Secured, ServerTls};
use crate::worker::{Expired, OpenSocket, ReadPhase, TransportWorker};
use larder_stdx::clock;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;

/// The reason why a client can no longer be read from or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientGone {
    /// It closed or reset the connection.
    Closed,
    /// It was too slow.
    TimedOut,
    /// Its body was malformed.
    Malformed,
    /// Its body was over the limit of its route.
    TooLarge,
}

/// One client's socket with its waiting output.
pub(crate) struct ClientSocket {
    pub watched: Rc<OpenSocket>,
    pub worker: Rc<TransportWorker>,
    /// The waiting output, if any: see [`ClientSocket::with_output`].
    output: RefCell<Option<Box<Outbox>>>,
    /// The TLS session, if any.
    session: RefCell<Option<Box<TlsSession>>>,
    /// Whether output could not be sent: the end of the connection must not look like that of a complete response.
    cut: Cell<bool>,
}

/// The longest silence of a client that has not closed its side after larder has closed its own, milliseconds.
const LINGER_SILENCE: u64 = 2_000;
/// The time limit for a client that sends on, milliseconds.
const LINGER_TIME: u64 = 10_000;
/// Bytes that are read and discarded after larder has closed its side, so that a client which sends first and reads then
/// sees its response, such as a 413. More than for an unread request body: this is the last response of the connection.
const LINGER: u64 = 256 * 1024 * 1024;
/// Bytes that are discarded before the other connections of the worker have their turn.
const LINGER_TURN: u64 = 256 * 1024;
/// The interval of checks whether a client has gone that sent more than is read ahead.
const HANG_UP_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Consecutive TLS steps without plain bytes, before other connections take their turn.
const MAX_TLS_STEPS: usize = 32;

/// The reason of a failed TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeFailure {
    /// The client uses clear-text HTTP: so does this socket from now on.
    Plain,
    /// It failed; an alert with the cause is sent.
    Refused,
    /// The client is gone, or was too slow.
    Gone,
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        self.worker.remove(&self.watched);
    }
}

impl ClientSocket {
    /// For a socket that the worker admitted.
    pub fn new(watched: Rc<OpenSocket>, worker: Rc<TransportWorker>) -> Self {
        Self {
            watched,
            worker,
            output: RefCell::default(),
            session: RefCell::default(),
            cut: Cell::new(false),
        }
    }

    /// Sends the end of the TLS stream, if possible. Without it a client knows that the response was truncated, so this
    /// is only for orderly ends.
    pub fn send_close_notify(&self) {
        if self.is_sealed() && !self.cut.get() && self.waiting() == 0 {
            self.with_session(|it, _| it.send_close_notify(self.watched.fd()));
        }
    }

    /// Closes the sending side: the client sees the end of the output.
    pub fn end(&self) {
        self.send_close_notify();
        self.watched.shutdown(Shutdown::Write);
    }

    /// Closes the sending side, and lets the client read the last output: closing with unread bytes would discard it.
    /// Received bytes are discarded without decryption.
    pub async fn linger(&self) {
        self.end();
        let _wait = self.watched.read_while(ReadPhase::Linger, LINGER_SILENCE);
        let end = clock::monotonic().0.saturating_add(LINGER_TIME);
        let mut left = LINGER;
        let read = poll_fn(|context| {
            let mut room = self.worker.input.borrow_mut();
            let _ = self.worker.size_input(&mut room);
            let turn = left.saturating_sub(LINGER_TURN);
            while left > turn {
                match ready!(self.receive_some(context, &mut room)) {
                    Ok(count) if count > 0 => left = left.saturating_sub(count as u64),
                    _ => return Poll::Ready(()),
                }
                let rest = end.saturating_sub(clock::monotonic().0);
                self.watched.set_read_deadline(ReadPhase::Linger, rest.min(LINGER_SILENCE));
            }
            if left == 0 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        read.await;
    }

    /// Makes the following close a reset.
    pub fn reset(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.watched.fd(), Some(Duration::ZERO));
    }

    /// Performs the TLS handshake.
    ///
    /// # Errors
    /// See [`HandshakeFailure`]; it is counted.
    pub async fn handshake(&self, tls: &ServerTls) -> Result<Secured, HandshakeFailure> {
        let counters = &self.worker.counters;
        let Ok(session) = TlsSession::new(tls, counters) else { return Err(HandshakeFailure::Gone) };
        *self.session.borrow_mut() = Some(Box::new(session));
        let mut has_begun = false;
        loop {
            let step = poll_fn(|context| self.continue_handshake(context)).await;
            has_begun |= step.is_ok();
            let sent = self.flush().await;
            match step {
                Ok(HandshakeStage::Handshaking) if sent.is_ok() => {}
                Ok(_) if self.with_session(|it, _| it.is_open() && it.is_challenge) => {
                    return Err(HandshakeFailure::Gone);
                }
                // A client that leaves at once has completed the handshake.
                Ok(_) if self.with_session(|it, _| it.is_open()) => {
                    self.watched.set_read_deadline(ReadPhase::First, self.worker.times().head);
                    return Ok(self.with_session(|it, _| it.secured(counters)));
                }
                Ok(_) | Err(HandshakeFailure::Gone) => {
                    match self.watched.expired() {
                        // A connection without a byte, as of a health check, has not begun a handshake.
                        Expired::No => counters.tls_failed_cut.add(u64::from(has_begun)),
                        _ => counters.tls_failed_timeout.add(1),
                    }
                    return Err(HandshakeFailure::Gone);
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// One step of a handshake.
    fn continue_handshake(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<HandshakeStage, HandshakeFailure>> {
        let mut room = self.worker.sealed.borrow_mut();
        room.resize(INCOMING, 0);
        let kept = self.with_session(|it, _| it.kept(&mut room));
        let count = match ready!(self.receive_some(context, &mut room[kept..])) {
            Ok(count) if count > 0 => count,
            _ => return Poll::Ready(Err(HandshakeFailure::Gone)),
        };
        if kept == 0 && room[0].is_ascii_alphabetic() {
            self.worker.counters.tls_failed_plain.add(1);
            *self.session.borrow_mut() = None;
            return Poll::Ready(Err(HandshakeFailure::Plain));
        }
        let opened = self.with_session(|it, _| it.open(&mut room[..kept + count], &mut []).map(|_| it.stage));
        Poll::Ready(opened.map_err(|error| {
            session::count_failure(&error, &self.worker.counters);
            self.cut.set(true);
            HandshakeFailure::Refused
        }))
    }

    /// Lends the session, which the caller knows to exist, and the buffers for sealing.
    fn with_session<T>(&self, work: impl FnOnce(&mut TlsSession, &mut session::TlsBuffers) -> T) -> T {
        let mut session = self.session.borrow_mut();
        let session = session.as_mut().expect("only a link with a session is asked for it");
        let done = work(session, &mut self.worker.seals.borrow_mut());
        session.count_waiting();
        done
    }

    #[inline]
    fn is_sealed(&self) -> bool {
        self.session.borrow().is_some()
    }

    /// Whether the client sent invalid TLS: the session transfers no more bytes, and the alert was sent, unless the close
    /// with unread bytes discards it ([`ClientSocket::linger`]).
    pub fn is_broken(&self) -> bool {
        self.session.borrow().as_ref().is_some_and(|it| it.stage == HandshakeStage::Broken)
    }

    /// Reads the available bytes.
    #[inline]
    pub fn read(&self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, Errno>> {
        match self.is_sealed() {
            true => self.read_sealed(context, into),
            false => self.receive_some(context, into),
        }
    }

    fn read_sealed(&self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, Errno>> {
        let (here, stage) = self.with_session(|it, _| (it.take_plain(into), it.stage));
        if here > 0 || matches!(stage, HandshakeStage::Over | HandshakeStage::Broken) {
            return Poll::Ready(Ok(here));
        }
        let mut room = self.worker.sealed.borrow_mut();
        room.resize(INCOMING, 0);
        for _ in 0..MAX_TLS_STEPS {
            let kept = self.with_session(|it, _| it.kept(&mut room));
            let count = ready!(self.receive_some(context, &mut room[kept..]))?;
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
            let opened = self.with_session(|it, _| it.open(&mut room[..kept + count], into));
            let (notified, goes_on) = self.with_session(|it, _| {
                (it.waiting() > 0, it.stage != HandshakeStage::Over && !it.has_plain())
            });
            if notified {
                // An alert, or the answer to a key update; the part that does not fit now goes with the next output.
                let _ = self.send_now();
            }
            match opened {
                Ok(0) if goes_on => {}
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) => {
                    session::count_failure(&error, &self.worker.counters);
                    self.cut.set(true);
                    return Poll::Ready(Err(Errno::PROTO));
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Receives the available bytes. A short read marks the socket as empty: the next call waits at once, without a
    /// system call.
    #[inline]
    fn receive_some(&self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, Errno>> {
        if self.watched.may_read_unregistered() && self.worker.eager_read.is_due() {
            let received = self.receive(into);
            let came = !matches!(received, Err(Errno::AGAIN | Errno::INTR));
            self.worker.eager_read.record(came);
            if came {
                return Poll::Ready(received);
            }
        }
        loop {
            let mut guard = match self.watched.io().map(|it| it.poll_read_ready(context)) {
                Ok(Poll::Ready(Ok(guard))) => guard,
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Err(_))) => return Poll::Ready(Err(Errno::IO)),
                Err(_) => {
                    self.worker.counters.accept_errors.add(1);
                    return Poll::Ready(Err(Errno::IO));
                }
            };
            match self.receive(into) {
                Ok(count) => {
                    if count > 0 && count < into.len() {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    #[inline]
    pub fn receive(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let (count, _) = rustix::net::recv(self.watched.fd(), into, RecvFlags::empty())?;
        // The bytes may have been sent while this process was stopped, so the clock is read again.
        larder_stdx::clock::bytes_received();
        self.worker.counters.client_bytes_received.add(count as u64);
        self.watched.note(count as u64);
        Ok(count)
    }

    /// Lends the outbox: the connection's own while it has output, otherwise the worker's.
    #[inline]
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

    /// Writes as much as the socket takes now.
    #[inline]
    pub fn send_now(&self) -> Result<SendProgress, Errno> {
        let is_sealed = self.is_sealed();
        if self.output.borrow().is_none() && !(is_sealed && self.waiting() > 0) {
            return Ok(SendProgress::All);
        }
        let mut moved = 0;
        let sent = self.with_output(|it| match is_sealed {
            true => self.with_session(|session, room| session.send(self.watched.fd(), it, room, &mut moved)),
            false => it.send(self.watched.fd(), &mut moved),
        });
        self.worker.counters.client_bytes_sent.add(moved);
        self.watched.note_sent(moved);
        sent
    }

    /// Writes everything, waiting as long as the client makes progress.
    pub async fn flush(&self) -> Result<(), ClientGone> {
        let mut sent = self.send_now();
        if let Ok(SendProgress::All) = sent {
            return Ok(());
        }
        let limit = self.worker.times_of(&self.watched).write;
        let _wait = self.watched.write_while(limit);
        self.with_output(Outbox::compact);
        loop {
            match sent {
                Ok(SendProgress::All) => return Ok(()),
                Ok(SendProgress::Turn) => tokio::task::yield_now().await,
                Ok(SendProgress::Blocked) => {}
                Err(error) => {
                    self.note_failure(error);
                    return Err(self.gone());
                }
            }
            // Several tasks may wait here at once: a body that sends `100 Continue`, and a reply.
            let Ok(io) = self.watched.io() else { return Err(self.gone()) };
            let Ok(mut guard) = io.writable().await else { return Err(self.gone()) };
            // The guard precedes the attempt: room that appears after it is not missed.
            let before = self.waiting();
            sent = self.send_now();
            if sent == Ok(SendProgress::Blocked) {
                guard.clear_ready();
            }
            if self.waiting() < before {
                self.watched.set_write_deadline(limit);
            }
        }
    }

    /// Waits until the other side has closed, without consuming its bytes.
    pub async fn until_closed(&self) {
        tokio::select! {
            biased;
            () = self.until_end() => {}
            () = self.until_hang_up() => {}
        }
    }

    /// The same if there are more unread bytes than are read ahead: the buffered bytes then do not show the end. The
    /// kernel reports it, a quarter of a second later at most.
    async fn until_hang_up(&self) {
        let Ok(io) = self.watched.io() else { return };
        loop {
            let Ok(guard) = io.ready(Interest::READABLE | Interest::ERROR).await else { return };
            if guard.ready().is_read_closed() || guard.ready().is_error() {
                return;
            }
            drop(guard);
            tokio::time::sleep(HANG_UP_CHECK_INTERVAL).await;
        }
    }

    /// The same if no other bytes arrived.
    async fn until_end(&self) {
        let Ok(io) = self.watched.io() else { return };
        if self.is_sealed() {
            return self.until_closed_over_tls().await;
        }
        loop {
            let Ok(mut guard) = io.readable().await else { return };
            match rustix::net::recv(self.watched.fd(), &mut [0; 1], RecvFlags::PEEK) {
                Ok((count, _)) if count > 0 => return std::future::pending().await,
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// The same with TLS: other decrypted bytes are kept for the next reader.
    async fn until_closed_over_tls(&self) {
        let has_plain = || self.with_session(|it, _| it.has_plain());
        let read = poll_fn(|context| if has_plain() { Poll::Pending } else { self.read(context, &mut []) });
        if matches!(read.await, Ok(0)) && has_plain() {
            std::future::pending().await
        }
    }

    /// Bytes of waiting output.
    pub fn waiting(&self) -> u64 {
        let sealed = self.session.borrow().as_ref().map_or(0, |it| it.waiting());
        self.output.borrow().as_ref().map_or(0, |it| it.len()) + sealed
    }

    /// The reason why no more can be read or written.
    pub fn gone(&self) -> ClientGone {
        if self.watched.expired() == Expired::No { ClientGone::Closed } else { ClientGone::TimedOut }
    }

    /// Records a failed write: a changed file is not the client's fault, and a slow client is counted as such.
    pub fn note_failure(&self, error: Errno) {
        self.cut.set(true);
        if error != Errno::IO && self.watched.expired() == Expired::No {
            self.worker.counters.client_aborts.add(1);
        }
    }
}
