//! One connection to a memcached: requests are sent as they come, many in flight, and answers come back in order, each
//! with its request's number. A caller waits only for its own answer, and may leave. Later data of a suspect connection
//! is never read. `server` has the deadlines of single requests.

use super::held_body::HeldBody;
use super::settings::{FleetSettings, MemcachedAddress};
use bytes::{Buf, Bytes, BytesMut};
use larder_counters::Counters;
use larder_wire::memcached::{
    Expected, FleetKey, MemcachedRefusal, MemcachedReply, MemcachedRequest, ParsedReply, ReplyKind,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// The most requests that wait for their answers on one connection.
const MOST_WAITING: usize = 4096;

/// The least size of a read.
const READ_AT_LEAST: usize = 16 * 1024;

/// Consecutive reads before other tasks get their turn.
const READS: usize = 16;

/// Pieces in one write.
const PIECES: usize = 16;

/// The runtime's clock, which its timers follow; see `origin/src/deadline.rs`.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

/// A server's reply, with the value if there was one.
#[derive(Debug)]
pub(super) struct ServerReply {
    pub(super) reply: MemcachedReply,
    pub(super) value: Bytes,
}

/// One connection, opened when it is needed and again after it has ended.
pub(super) struct ServerConnection {
    line: RefCell<Rc<ServerLink>>,
}

/// State shared by a connection and its task.
struct ServerLink {
    at: MemcachedAddress,
    settings: Arc<FleetSettings>,
    counters: Arc<Counters>,
    state: RefCell<ServerConnectionState>,
    /// Notifies the task: there is data to send, or the connection is no longer needed.
    wake: Notify,
    is_closing: Cell<bool>,
}

struct ServerConnectionState {
    /// A task exists: it is opening the connection, or has done so.
    is_running: bool,
    out: VecDeque<Outgoing>,
    /// Bytes in `out`.
    queued: u64,
    /// In the order of sending.
    waiting: VecDeque<QueuedOperations>,
    next: u32,
}

/// Bytes to be sent to the server.
enum Outgoing {
    /// Of requests.
    Text(Bytes),
    /// Of a value, in place.
    Body { bytes: HeldBody, sent: usize },
}

impl Outgoing {
    fn rest(&self) -> &[u8] {
        match self {
            Outgoing::Text(it) => it,
            Outgoing::Body { bytes, sent } => &bytes.bytes()[*sent..],
        }
    }

    fn advance(&mut self, more: usize) {
        match self {
            Outgoing::Text(it) => it.advance(more),
            Outgoing::Body { sent, .. } => *sent += more,
        }
    }
}

struct QueuedOperations {
    number: u32,
    kind: ReplyKind,
    /// Of a read: the answer must be about it.
    key: Option<FleetKey>,
    /// When a missing answer means that the connection is dead: its deadline, and the same time again.
    overdue: Instant,
    reply_to: oneshot::Sender<ServerReply>,
}

impl ServerConnection {
    pub(super) fn new(at: MemcachedAddress, settings: Arc<FleetSettings>, counters: Arc<Counters>) -> Self {
        Self { line: RefCell::new(ServerLink::new(at, settings, counters)) }
    }

    /// Drops a connection on which an answer is late, while another shows that the server is healthy. New requests do not
    /// queue behind the late one.
    pub(super) fn replace_if_late(&self) {
        let mut line = self.line.borrow_mut();
        let eldest = line.state.borrow().waiting.front().map(|it| it.overdue);
        if eldest.is_some_and(|it| it <= now() + line.settings.timeout) {
            line.close();
            *line = ServerLink::new(line.at.clone(), line.settings.clone(), line.counters.clone());
        }
    }

    /// Bytes that wait to be written, and requests that wait for answers: its load.
    pub(super) fn load(&self) -> (u64, usize) {
        let line = self.line.borrow();
        let state = line.state.borrow();
        (state.queued, state.waiting.len())
    }

    /// Whether it is open, or being opened.
    pub(super) fn is_running(&self) -> bool {
        self.line.borrow().state.borrow().is_running
    }

    /// Sends a request, once the connection is open, and after it the `rest` of its value. The returned channel delivers
    /// the answer; it closes without one where the connection ends.
    pub(super) fn send_request(
        &self,
        request: &MemcachedRequest<'_>,
        rest: Option<&HeldBody>,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<ServerReply>, QueueFull> {
        let line = self.line.borrow();
        let mut state = line.state.borrow_mut();
        // A request that is larger than the queue is sent alone.
        let is_full = state.queued > 0 && state.queued + size(request) > line.settings.queue;
        if is_full || state.waiting.len() >= MOST_WAITING {
            line.counters.fleet_queue_full.add(1);
            return Err(QueueFull);
        }
        let number = state.next;
        state.next = state.next.checked_add(1).unwrap_or(1);
        let mut text = Vec::new();
        line.settings.protocol.write(request, number, &mut text);
        state.queue(Outgoing::Text(text.into()));
        if let Some(rest) = rest.filter(|it| !it.bytes().is_empty()) {
            state.queue(Outgoing::Body { bytes: rest.clone(), sent: 0 });
            state.queue(Outgoing::Text(Bytes::from_static(line.settings.protocol.end_of_value())));
        }
        let key = match request {
            MemcachedRequest::Get { key, named: true, .. } => Some((*key).clone()),
            _ => None,
        };
        let (asker, answer) = oneshot::channel();
        let overdue = deadline + line.settings.timeout;
        state.waiting.push_back(QueuedOperations {
            number,
            kind: request.kind(),
            key,
            overdue,
            reply_to: asker,
        });
        if state.is_running {
            line.wake.notify_one();
        } else {
            state.is_running = true;
            tokio::task::spawn_local(run(line.clone()));
        }
        Ok(answer)
    }
}

/// The approximate bytes of a request.
fn size(request: &MemcachedRequest<'_>) -> u64 {
    const REST: u64 = 64;
    REST + request.value().map_or(0, |it| it.length() as u64)
}

impl ServerConnectionState {
    fn queue(&mut self, it: Outgoing) {
        let bytes = it.rest().len() as u64;
        if bytes > 0 {
            self.queued += bytes;
            self.out.push_back(it);
        }
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.line.borrow().close();
    }
}

/// Opens the connection and keeps it until it ends for any reason. Callers that still wait learn that from their channel.
async fn run(line: Rc<ServerLink>) {
    let opening = timeout(line.settings.connect_timeout, ServerSocket::open(&line.at)).await;
    if let Ok(Ok(stream)) = opening {
        line.counters.fleet_connects.add(1);
        if let ConnectionEnd::Malformed = exchange_data(&line, &stream).await {
            line.counters.fleet_protocol_errors.add(1);
        }
    }
    let mut state = line.state.borrow_mut();
    state.is_running = false;
    state.queued = 0;
    let unsent = std::mem::take(&mut state.out);
    let unanswered = std::mem::take(&mut state.waiting);
    drop(state);
    drop((unsent, unanswered));
}

/// The end of a connection.
enum ConnectionEnd {
    /// The server closed it, it broke, or it is no longer needed.
    Closed,
    /// A request was not answered within the time after which the connection counts as dead.
    Silent,
    /// The received data is not the expected answer.
    Malformed,
}

async fn exchange_data(line: &ServerLink, stream: &ServerSocket) -> ConnectionEnd {
    let mut input = BytesMut::new();
    // The least bytes of the next answer.
    let mut due = 0;
    let mut reads = 0;
    loop {
        if line.is_closing.get() || line.send(stream).is_err() {
            return ConnectionEnd::Closed;
        }
        match line.receive(stream, &mut input, due) {
            Ok(Received::Nothing) => {}
            Ok(Received::Some) => {
                match line.answer(&mut input) {
                    Ok(more) => due = more,
                    Err(end) => return end,
                }
                reads += 1;
                if reads < READS {
                    continue;
                }
            }
            Err(_) => return ConnectionEnd::Closed,
        }
        reads = 0;
        let (interest, overdue) = {
            let state = line.state.borrow();
            let write = !state.out.is_empty();
            let interest = if write { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            (interest, state.waiting.front().map(|it| it.overdue))
        };
        if input.is_empty() && input.capacity() > 4 * READ_AT_LEAST {
            input = BytesMut::new();
        }
        tokio::select! {
            ready = stream.ready(interest) => if ready.is_err() { return ConnectionEnd::Closed },
            () = line.wake.notified() => {}
            () = sleep_until(overdue.unwrap_or_else(now)), if overdue.is_some() => {
                // The front may have been answered meanwhile: only the present one counts.
                let is_silent = line.state.borrow().waiting.front().is_some_and(|it| it.overdue <= now());
                if is_silent {
                    return ConnectionEnd::Silent;
                }
            }
        }
    }
}

/// The result of a read.
enum Received {
    Nothing,
    Some,
}

impl ServerLink {
    fn new(at: MemcachedAddress, settings: Arc<FleetSettings>, counters: Arc<Counters>) -> Rc<Self> {
        let state = ServerConnectionState {
            is_running: false,
            out: VecDeque::new(),
            queued: 0,
            waiting: VecDeque::new(),
            next: 1,
        };
        let (state, bell) = (RefCell::new(state), Notify::new());
        Rc::new(Self { at, settings, counters, state, wake: bell, is_closing: Cell::new(false) })
    }

    /// No caller asks by it any more.
    fn close(&self) {
        self.is_closing.set(true);
        self.wake.notify_one();
    }

    /// Writes as much as the socket accepts.
    fn send(&self, stream: &ServerSocket) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        while !state.out.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let count = state.out.len().min(PIECES);
            for (piece, chunk) in pieces.iter_mut().zip(&state.out) {
                *piece = IoSlice::new(chunk.rest());
            }
            let mut sent = match stream.try_write(&pieces[..count]) {
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.counters.fleet_bytes_sent.add(sent as u64);
            state.queued = state.queued.saturating_sub(sent as u64);
            while let Some(front) = state.out.front_mut() {
                let taken = sent.min(front.rest().len());
                front.advance(taken);
                sent -= taken;
                if !front.rest().is_empty() {
                    break;
                }
                state.out.pop_front();
            }
        }
        Ok(())
    }

    /// Reads once; an error also where the server has closed the connection. It reads no more than the largest answer: a
    /// larger one was refused when its head arrived.
    fn receive(&self, stream: &ServerSocket, input: &mut BytesMut, due: usize) -> io::Result<Received> {
        input.reserve(due.saturating_sub(input.len()).max(READ_AT_LEAST));
        match stream.try_read(input) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.counters.fleet_bytes_received.add(read as u64);
                Ok(Received::Some)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Delivers every complete answer of `input`; returns the least bytes of the next one.
    fn answer(&self, input: &mut BytesMut) -> Result<usize, ConnectionEnd> {
        let most = usize::try_from(self.settings.max_item).unwrap_or(usize::MAX);
        loop {
            let mut state = self.state.borrow_mut();
            // An answer without a request, or not to the oldest one: from here on no answer can be assigned.
            let Some(eldest) = state.waiting.front() else {
                return if input.is_empty() { Ok(0) } else { Err(ConnectionEnd::Malformed) };
            };
            let expected =
                Expected { opaque: eldest.number, kind: eldest.kind, key: eldest.key.as_ref(), most };
            let (reply, length) = match self.settings.protocol.parse(input, &expected) {
                Ok(ParsedReply::Reply(reply, length)) => (reply, length),
                Ok(ParsedReply::More(due)) => return Ok(due),
                Err(_) => return Err(ConnectionEnd::Malformed),
            };
            let eldest = state.waiting.pop_front();
            drop(state);
            let text = input.split_to(length).freeze();
            let value = match &reply {
                MemcachedReply::Hit(hit) => text.slice(hit.value.clone()),
                _ => Bytes::new(),
            };
            let closes = matches!(reply, MemcachedReply::Refused(it) if MemcachedRefusal::closes(it));
            if let Some(eldest) = eldest {
                // The caller may have left.
                let _ = eldest.reply_to.send(ServerReply { reply, value });
            }
            if closes {
                return Err(ConnectionEnd::Malformed);
            }
        }
    }
}

/// A connected socket.
enum ServerSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ServerSocket {
    /// Names are resolved again each time.
    async fn open(at: &MemcachedAddress) -> io::Result<Self> {
        match at {
            MemcachedAddress::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(ServerSocket::Tcp(stream))
            }
            MemcachedAddress::Unix(path) => Ok(ServerSocket::Unix(UnixStream::connect(path).await?)),
        }
    }

    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            ServerSocket::Tcp(it) => it.ready(interest).await,
            ServerSocket::Unix(it) => it.ready(interest).await,
        }
    }

    fn try_read(&self, into: &mut BytesMut) -> io::Result<usize> {
        match self {
            ServerSocket::Tcp(it) => it.try_read_buf(into),
            ServerSocket::Unix(it) => it.try_read_buf(into),
        }
    }

    fn try_write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            ServerSocket::Tcp(it) => it.try_write_vectored(pieces),
            ServerSocket::Unix(it) => it.try_write_vectored(pieces),
        }
    }
}
