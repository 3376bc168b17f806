//! One HTTP/2 connection: its settings, whether streams may still be started, and whether the origin is alive.
//! `h2_stream` has the streams.

use crate::connection::{History, OriginSocket};
use crate::deadline::now;
use crate::error::OriginError;
use crate::limits::OriginLimits;
use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use http::uri::Scheme;
use larder_counters::Counters;
use larder_stdx::descriptors::HeldDescriptor;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// The most streams of one connection at a time, even if the origin allows more.
const MOST_STREAMS: u32 = 100;
/// Bytes of a response that arrive before they are requested.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for a connection: unread streams do not stop the others.
const CONNECTION_WINDOW: u32 = MOST_STREAMS * STREAM_WINDOW;
/// The most overhead of small frames, which windows do not count.
const SMALL_FRAMES: usize = 64 * 1024 * 1024;
/// The library closes the connection for a head above its limit, which is this multiple of the configured size. A head in
/// between is refused at the cost of its own stream.
const HEAD_SIZE_FACTOR: u32 = 4;
/// The longest interval between two checks of a connection.
const LONGEST_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest interval between two checks.
const SHORTEST_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// An origin that has sent nothing since the last ping is not pinged again within this time: some origins close
/// connections that are pinged often.
const PING_INTERVAL: Duration = Duration::from_secs(300);
/// Bytes of a ping's answer.
const PONG: u64 = 17;

/// A connection.
pub(crate) struct Http2Session {
    /// `None` once no stream may be started: the library then closes it after its last stream.
    sender: RefCell<Option<SendRequest<Bytes>>>,
    pub(super) scheme: Scheme,
    streams: Cell<usize>,
    /// The most of them at a time, where that is known better than by its settings.
    stream_limit: Cell<usize>,
    /// The number of streams started so far.
    started: Cell<u64>,
    /// Received bytes.
    received: Rc<Cell<u64>>,
    /// The received bytes when it was last silent for too long: until more arrive, no stream is started.
    silent_at: Cell<Option<u64>>,
    silence_noted: Notify,
    is_persistent: bool,
    pub(super) counters: Arc<Counters>,
}

impl Http2Session {
    /// Starts HTTP/2, and a task that drives it. Runs inside a `LocalSet`.
    pub(crate) async fn connect(
        stream: OriginSocket,
        limits: &OriginLimits,
        is_persistent: bool,
        counters: &Arc<Counters>,
    ) -> Result<Rc<Self>, OriginError> {
        let scheme = match stream {
            OriginSocket::Plain(_) => Scheme::HTTP,
            OriginSocket::Tls(_) => Scheme::HTTPS,
        };
        let (received, greeted) = (Rc::new(Cell::new(0)), Rc::new(Notify::new()));
        let counted = CountedSocket {
            stream,
            received: received.clone(),
            greeted: greeted.clone(),
            counters: counters.clone(),
            _held: HeldDescriptor::for_clients(),
        };
        let head_size = u32::try_from(limits.head_size).unwrap_or(u32::MAX);
        let handshake = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(MOST_STREAMS as usize)
            .max_header_list_size(head_size.saturating_mul(HEAD_SIZE_FACTOR))
            .max_send_buffer_size(STREAM_WINDOW as usize)
            .data_frame_budget(SMALL_FRAMES)
            .handshake::<_, Bytes>(counted);
        let (sender, connection) = match timeout(limits.handshake, handshake).await {
            Ok(Ok(begun)) => begun,
            Ok(Err(_)) => return Err(OriginError::Disconnected),
            Err(_) => return Err(OriginError::ConnectTimeout),
        };
        let session = Rc::new(Self {
            sender: RefCell::new(Some(sender)),
            scheme,
            streams: Cell::new(0),
            stream_limit: Cell::new(MOST_STREAMS as usize),
            started: Cell::new(0),
            received,
            silent_at: Cell::new(None),
            silence_noted: Notify::new(),
            is_persistent,
            counters: counters.clone(),
        });
        tokio::task::spawn_local(drive(Rc::downgrade(&session), connection, *limits, greeted.clone()));
        // The origin's settings arrive first, with its number of streams; a server without HTTP/2 is detected before a
        // request is sent.
        match timeout(limits.handshake, greeted.notified()).await {
            Err(_) => Err(OriginError::ConnectTimeout),
            Ok(()) if session.is_over() => Err(OriginError::Connect("it does not support HTTP/2".to_owned())),
            Ok(()) => {
                counters.origin_http2_connects.add(1);
                Ok(session)
            }
        }
    }

    /// The permit of a stream with the handle that starts it, if it accepts one more now.
    pub(super) fn permit(self: &Rc<Self>) -> Option<(StreamPermit, SendRequest<Bytes>, History)> {
        if !self.accepts_stream() {
            return None;
        }
        let sender = self.sender()?;
        let history = if self.started.get() == 0 { History::Fresh } else { History::Reused };
        self.started.set(self.started.get() + 1);
        self.streams.set(self.streams.get() + 1);
        if !self.is_persistent {
            self.retire();
        }
        Some((StreamPermit(self.clone()), sender, history))
    }

    /// Whether no stream will be started any more.
    pub(crate) fn is_over(&self) -> bool {
        self.sender().is_none()
    }

    fn accepts_stream(&self) -> bool {
        let allowed = self.sender.borrow().as_ref().map_or(0, SendRequest::current_max_send_streams);
        self.streams.get() < self.stream_limit.get().min(allowed)
            && self.silent_at.get() != Some(self.received.get())
    }

    /// The handle for starting a stream; `None` after GOAWAY, and when it is closed.
    fn sender(&self) -> Option<SendRequest<Bytes>> {
        let mut sender = self.sender.borrow().clone()?;
        match sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(_)) => {
                self.retire();
                None
            }
            Poll::Ready(Ok(())) | Poll::Pending => Some(sender),
        }
    }

    /// Prevents new streams.
    pub(crate) fn retire(&self) {
        self.sender.borrow_mut().take();
    }

    /// It was silent for too long: new requests use other connections until it sends something; a ping asks for that.
    pub(super) fn note_silence(&self) {
        self.silent_at.set(Some(self.received.get()));
        self.silence_noted.notify_one();
    }

    /// A stream was refused: the origin accepts no more at a time.
    pub(super) fn was_refused(&self) {
        self.counters.origin_http2_refused.add(1);
        self.stream_limit.set(self.streams.get().saturating_sub(1).max(1));
    }
}

/// The right to one stream.
pub(super) struct StreamPermit(pub(super) Rc<Http2Session>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
    }
}

/// Drives the connection until it ends; checks at intervals whether it is used and whether the origin is alive.
async fn drive(
    session: Weak<Http2Session>,
    mut connection: Connection<CountedSocket, Bytes>,
    limits: OriginLimits,
    greeted: Rc<Notify>,
) {
    let period = (limits.idle / 8).clamp(SHORTEST_CHECK_INTERVAL, LONGEST_CHECK_INTERVAL);
    let mut watch = SessionWatch {
        pings: connection.ping_pong(),
        ping_sent: None,
        received: 0,
        unused: 0,
        period,
        limits,
    };
    let mut checks = interval(period);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Some(session) = session.upgrade() else {
            // Its streams are over, and no new one can start: it closes the connection properly.
            let _ = timeout(limits.handshake, &mut connection).await;
            return;
        };
        let seen = tokio::select! {
            _ = &mut connection => SessionProgress::Dead,
            () = session.silence_noted.notified() => watch.ping(&session),
            _ = checks.tick() => watch.check(&session),
        };
        if seen == SessionProgress::Dead {
            session.retire();
            return greeted.notify_one();
        }
    }
}

/// The state between two checks of a connection.
struct SessionWatch {
    pings: Option<PingPong>,
    /// The time of the last ping, if nothing else has arrived since.
    ping_sent: Option<SentPing>,
    /// Received bytes at the last check.
    received: u64,
    /// Checks since it was last used.
    unused: u32,
    period: Duration,
    limits: OriginLimits,
}

#[derive(Clone, Copy)]
struct SentPing {
    at: Instant,
    /// Received bytes by then.
    received: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionProgress {
    Alive,
    Dead,
}

impl SessionWatch {
    fn check(&mut self, session: &Http2Session) -> SessionProgress {
        let before = std::mem::replace(&mut self.received, session.received.get());
        if session.streams.get() == 0 {
            self.unused += 1;
            if self.period * (self.unused + 1) > self.limits.idle {
                session.retire();
            }
            return SessionProgress::Alive;
        }
        self.unused = 0;
        if before == self.received { self.ping(session) } else { SessionProgress::Alive }
    }

    /// It is silent while a response is awaited: sends a ping, or checks how long the answer has been missing.
    fn ping(&mut self, session: &Http2Session) -> SessionProgress {
        let Some(pings) = &mut self.pings else { return SessionProgress::Alive };
        // A returned ping makes room for the next.
        let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
        let received = session.received.get();
        if let Some(sent) = self.ping_sent {
            let silence = now().saturating_duration_since(sent.at);
            match received - sent.received {
                0 if silence >= self.limits.connect => {
                    session.counters.origin_http2_dead.add(1);
                    return SessionProgress::Dead;
                }
                0 => {
                    session.silent_at.set(Some(received));
                    return SessionProgress::Alive;
                }
                PONG if silence < PING_INTERVAL => return SessionProgress::Alive,
                _ => {}
            }
        }
        if pings.send_ping(Ping::opaque()).is_ok() {
            self.ping_sent = Some(SentPing { at: now(), received });
        }
        SessionProgress::Alive
    }
}

/// The underlying stream, whose bytes are counted.
struct CountedSocket {
    stream: OriginSocket,
    received: Rc<Cell<u64>>,
    /// Notified when the first have arrived.
    greeted: Rc<Notify>,
    counters: Arc<Counters>,
    _held: HeldDescriptor,
}

impl AsyncRead for CountedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let length = (buffer.filled().len() - before) as u64;
        if length > 0 {
            if this.received.get() == 0 {
                this.greeted.notify_one();
            }
            this.received.set(this.received.get() + length);
            this.counters.origin_bytes_received.add(length);
        }
        read
    }
}

impl CountedSocket {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        written.map_ok(|length| {
            self.counters.origin_bytes_sent.add(length as u64);
            length
        })
    }
}

impl AsyncWrite for CountedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.count(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
