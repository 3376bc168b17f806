//! One connection: its state, its deadlines and its end. Incoming streams are in `requests` and `uni_streams`, outgoing bytes in
//! `output`.

use super::code;
use super::endpoint_waker::EndpointWaker;
use super::output::StreamOutput;
use super::requests::RequestReader;
use super::uni_streams::UniStreams;
use crate::client::Client;
use crate::client_socket::ClientGone;
use crate::handler::Handler;
use crate::streams::{ClientStream, FloodKind, Floods, StreamReset, StreamsLink};
use crate::tls::AgreedRules;
use crate::tls::certificates::HelloNames;
use crate::worker::{ConnectionPresence, TransferLimits, TransportWorker};
use bytes::Bytes;
use larder_semantics::field::Field;
use larder_wire::http2::frame::EndFlag;
use larder_wire::http3::frame::{begin_headers, end_headers};
use larder_wire::http3::{Http3Error, qpack};
use larder_wire::message::fields::is_hop_by_hop;
use quinn_proto::{Connection, ConnectionHandle, Dir, Event, Side, StreamEvent, StreamId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between the announcement that a connection ends, and its final GOAWAY.
const GOAWAY_WAIT: Duration = Duration::from_secs(1);
/// The time for which a client may acknowledge nothing of its last response where the connection ends, or is needed for another client.
const ACK_WAIT: Duration = Duration::from_secs(5);
/// The interval of checks of a connection with requests.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Requests of one connection, after which clients use another: their numbers have 31 bits.
const MOST_REQUESTS: u32 = 1 << 30;

/// One connection; its streams' tasks share it.
pub(super) struct Http3Connection {
    pub handle: ConnectionHandle,
    pub worker: Rc<TransportWorker>,
    pub quic: RefCell<Connection>,
    pub state: RefCell<Http3State>,
    /// The client, from the end of the handshake on.
    pub client: RefCell<Option<Client>>,
    pub rules: Arc<AgreedRules>,
    pub hello_names: RefCell<HelloNames>,
    /// The negotiated cipher suite.
    pub cipher: Cell<&'static str>,
    pub endpoint_waker: Rc<EndpointWaker>,
    /// Whether it waits for its turn.
    pub is_queued: Cell<bool>,
    /// The time at which the endpoint looks at it.
    pub timer: Cell<Option<Instant>>,
    pub presence: RefCell<Option<ConnectionPresence>>,
    /// Whether its handshake is incomplete.
    pub is_half_open: Cell<bool>,
}

/// The state of a connection.
pub(super) struct Http3State {
    /// The requests in work.
    pub streams: BTreeMap<u32, Rc<ClientStream>>,
    /// Those whose end has not arrived.
    pub readers: BTreeMap<u32, RequestReader>,
    /// Bytes for streams that are not with QUIC yet.
    pub outputs: BTreeMap<u32, StreamOutput>,
    /// Streams with such bytes, in turn.
    pub flush: VecDeque<u32>,
    /// Streams with output, in turn.
    pub ready: VecDeque<Rc<ClientStream>>,
    /// Requests whose bytes are to be read again, since some of their body was taken.
    pub resumed: VecDeque<u32>,
    pub uni: UniStreams,
    pub floods: Floods,
    /// The number of requests so far.
    pub count: u32,
    pub goaway: Http3GoawayState,
    /// The time at which it announces its end, in a drain.
    pub leaves_at: Option<Instant>,
    /// The last change between idle and busy; at first that of the handshake.
    pub last_change: Instant,
    /// The acknowledgements from the client when it leaves, and the time of the last one.
    pub acked: (u64, Instant),
    pub is_closed: bool,
}

/// The progress of a graceful shutdown (RFC 9114 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Http3GoawayState {
    No,
    /// It is announced since this time.
    Announced(Instant),
    /// Requests from this number on are rejected.
    From(u32),
}

impl Drop for Http3Connection {
    fn drop(&mut self) {
        if self.client.borrow().is_some() && !self.state.borrow().is_closed {
            self.worker.counters.http3_open.sub(1);
        }
    }
}

impl Http3Connection {
    pub fn new(
        handle: ConnectionHandle,
        quic: Connection,
        presence: ConnectionPresence,
        rules: Arc<AgreedRules>,
        (worker, waker): (Rc<TransportWorker>, Rc<EndpointWaker>),
        now: Instant,
    ) -> Rc<Self> {
        let state = Http3State {
            streams: BTreeMap::new(),
            readers: BTreeMap::new(),
            outputs: BTreeMap::new(),
            flush: VecDeque::new(),
            ready: VecDeque::new(),
            resumed: VecDeque::new(),
            uni: UniStreams::default(),
            floods: Floods::default(),
            count: 0,
            goaway: Http3GoawayState::No,
            leaves_at: None,
            last_change: now,
            acked: (0, now),
            is_closed: false,
        };
        Rc::new(Self {
            handle,
            worker,
            quic: RefCell::new(quic),
            state: RefCell::new(state),
            client: RefCell::default(),
            rules,
            hello_names: RefCell::default(),
            cipher: Cell::default(),
            endpoint_waker: waker,
            is_queued: Cell::new(false),
            timer: Cell::new(None),
            presence: RefCell::new(Some(presence)),
            is_half_open: Cell::new(true),
        })
    }

    /// The stream of a request.
    pub fn id(index: u32) -> StreamId {
        StreamId::new(Side::Client, Dir::Bi, u64::from(index))
    }

    /// Processes everything that has arrived, and passes output to QUIC.
    pub fn turn<H: Handler>(self: &Rc<Self>, now: Instant, handler: &Rc<H>) {
        if self.state.borrow().is_closed {
            while self.quic.borrow_mut().poll().is_some() {}
            return;
        }
        let result = self.events(handler, now).and_then(|()| {
            self.read_resumed(handler)?;
            if self.client.borrow().is_some() && self.is_leaving(now) {
                self.advance_goaway(now);
            }
            Ok(())
        });
        match result {
            Ok(()) => self.collect(),
            Err(code) => self.close(now, code),
        }
    }

    fn events<H: Handler>(self: &Rc<Self>, handler: &Rc<H>, now: Instant) -> Result<(), Http3Error> {
        loop {
            let event = self.quic.borrow_mut().poll();
            let Some(event) = event else { return Ok(()) };
            match event {
                Event::Connected => {
                    self.connected(now)?;
                    self.begin_early(handler)?;
                }
                Event::ConnectionLost { reason } => {
                    self.lost(&reason);
                    return Ok(());
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => self.accept_requests(handler, now)?,
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => self.accept_uni_streams()?,
                Event::Stream(StreamEvent::Readable { id }) => match id.dir() {
                    Dir::Bi => self.read_request(Self::index(id), handler)?,
                    Dir::Uni => self.read_uni_stream(id)?,
                },
                Event::Stream(StreamEvent::Writable { id }) => self.writable(id),
                Event::Stream(StreamEvent::Stopped { id, .. }) => self.stopped(id)?,
                Event::Stream(StreamEvent::Finished { .. } | StreamEvent::Available { .. })
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// The number of a request by its stream.
    pub fn index(id: StreamId) -> u32 {
        u32::try_from(id.index()).unwrap_or(u32::MAX)
    }

    fn accept_requests<H: Handler>(self: &Rc<Self>, handler: &Rc<H>, now: Instant) -> Result<(), Http3Error> {
        loop {
            let id = self.quic.borrow_mut().streams().accept(Dir::Bi);
            let Some(id) = id else { return Ok(()) };
            let index = Self::index(id);
            {
                let mut state = self.state.borrow_mut();
                state.count = index.saturating_add(1);
                state.last_change = now;
                if state.count >= MOST_REQUESTS && state.goaway == Http3GoawayState::No {
                    drop(state);
                    self.reject_from(index);
                    self.reject(index);
                    continue;
                }
                let limit = self.worker.limits().head_size;
                state.readers.insert(index, RequestReader::new(limit, now));
            }
            self.read_request(index, handler)?;
        }
    }

    /// The client does not want the response to a request.
    fn stopped(&self, id: StreamId) -> Result<(), Http3Error> {
        if id.dir() == Dir::Uni {
            return Err(Http3Error::ClosedCriticalStream);
        }
        let index = Self::index(id);
        let stream = self.state.borrow().streams.get(&index).cloned();
        if let Some(stream) = &stream
            && stream.gone.get().is_none()
            && !stream.is_answered()
        {
            self.worker.counters.client_aborts.add(1);
        }
        let is_open = stream.is_some() || self.state.borrow().readers.contains_key(&index);
        self.end_stream(index, Http3Error::RequestCancelled, ClientGone::Closed);
        if is_open { self.count_flood(FloodKind::Reset) } else { Ok(()) }
    }

    /// Ends both directions of a stream at once.
    pub fn end_stream(&self, index: u32, reset: Http3Error, why: ClientGone) {
        let stream = {
            let mut state = self.state.borrow_mut();
            state.outputs.remove(&index);
            state.readers.remove(&index);
            state.streams.get(&index).cloned()
        };
        {
            let mut quic = self.quic.borrow_mut();
            // It may have ended already.
            let _ = quic.send_stream(Self::id(index)).reset(code(reset));
            let _ = quic.recv_stream(Self::id(index)).stop(code(reset));
        }
        if let Some(stream) = stream {
            stream.body.borrow_mut().is_whole = true;
            stream.close(why);
        }
        self.wake();
    }

    pub fn count_flood(&self, kind: FloodKind) -> Result<(), Http3Error> {
        if self.state.borrow().floods.add(kind) { Err(Http3Error::ExcessiveLoad) } else { Ok(()) }
    }

    /// Puts the connection in line for a turn.
    pub fn wake(&self) {
        self.endpoint_waker.enqueue(self);
    }

    /// Announces the end at this time.
    pub fn leave(&self, at: Instant) {
        self.state.borrow_mut().leaves_at = Some(at);
    }

    fn is_leaving(&self, now: Instant) -> bool {
        self.state.borrow().leaves_at.is_some_and(|it| it <= now)
    }

    /// Announces the end, or completes it.
    fn advance_goaway(&self, now: Instant) {
        let leaving = self.state.borrow().goaway;
        match leaving {
            Http3GoawayState::No => {
                self.state.borrow_mut().goaway = Http3GoawayState::Announced(now);
                self.send_goaway((1 << 62) - 4);
            }
            Http3GoawayState::Announced(since) if now >= since + GOAWAY_WAIT => {
                let count = self.state.borrow().count;
                self.reject_from(count);
            }
            Http3GoawayState::Announced(_) | Http3GoawayState::From(_) => {}
        }
        let (is_over, is_late) = {
            let state = &mut *self.state.borrow_mut();
            let count = self.quic.borrow().stats().frame_rx.acks;
            if state.acked.0 != count {
                state.acked = (count, now);
            }
            let is_over = matches!(state.goaway, Http3GoawayState::From(_)) && state.is_idle();
            (is_over, now >= state.undelivered_until())
        };
        if is_over && (is_late || self.is_delivered()) {
            self.close(now, Http3Error::None);
        }
    }

    /// Requests from this one on are rejected.
    fn reject_from(&self, from: u32) {
        self.state.borrow_mut().goaway = Http3GoawayState::From(from);
        self.send_goaway(u64::from(from) * 4);
    }

    /// The next time at which the connection has to be looked at, apart from QUIC's own timers.
    pub fn deadline(&self) -> Option<Instant> {
        let state = self.state.borrow();
        let limits = self.worker.limits();
        if state.is_closed {
            return None;
        }
        if self.client.borrow().is_none() {
            return state.last_change.checked_add(limits.head_timeout);
        }
        let limit = if state.is_idle() { limits.idle_timeout } else { CHECK_INTERVAL };
        let next = state.last_change.checked_add(limit);
        match state.goaway {
            Http3GoawayState::No => next.into_iter().chain(state.leaves_at).min(),
            Http3GoawayState::Announced(since) => Some(since + GOAWAY_WAIT),
            Http3GoawayState::From(_) if state.is_idle() => Some(state.undelivered_until()),
            Http3GoawayState::From(_) => next,
        }
    }

    /// The deadline has passed.
    pub fn expire(&self, now: Instant) {
        if self.deadline().is_none_or(|it| it > now) {
            return;
        }
        let counters = &self.worker.counters;
        if self.client.borrow().is_none() {
            counters.tls_failed_timeout.add(1);
            return self.close(now, Http3Error::None);
        }
        let (is_idle, leaving) = {
            let state = self.state.borrow();
            (state.is_idle(), state.goaway)
        };
        if leaving == Http3GoawayState::No && self.is_leaving(now) {
            return self.advance_goaway(now);
        }
        if matches!(leaving, Http3GoawayState::Announced(_)) || is_idle && leaving != Http3GoawayState::No {
            return self.advance_goaway(now);
        }
        if is_idle {
            counters.client_idle_timeouts.add(1);
            return self.close(now, Http3Error::None);
        }
        self.check_requests(now);
    }

    /// Ends requests whose head does not come, and keeps the connection alive while requests are in work.
    fn check_requests(&self, now: Instant) {
        let limit = self.worker.limits().head_timeout;
        let write_timeout = self.worker.limits().write_timeout;
        let most_looks = u32::try_from(write_timeout.as_secs()).unwrap_or(u32::MAX);
        let stuck: Vec<u32> = {
            let state = &mut *self.state.borrow_mut();
            let unheld = state.outputs.iter_mut().filter(|it| !state.streams.contains_key(it.0));
            let stuck = unheld.filter_map(|(index, output)| {
                output.checks += 1;
                (output.checks > most_looks.saturating_add(1) && most_looks > 0).then_some(*index)
            });
            stuck.collect()
        };
        for index in stuck {
            self.worker.counters.client_write_timeouts.add(1);
            self.end_stream(index, Http3Error::RequestCancelled, ClientGone::TimedOut);
        }
        let late: Vec<u32> = {
            let mut state = self.state.borrow_mut();
            state.last_change = now;
            let is_late = |it: &RequestReader| it.is_in_head() && now >= it.began + limit;
            state.readers.iter().filter(|it| !limit.is_zero() && is_late(it.1)).map(|it| *it.0).collect()
        };
        for index in late {
            self.worker.counters.client_head_timeouts.add(1);
            self.end_stream(index, Http3Error::RequestIncomplete, ClientGone::TimedOut);
        }
        if !self.state.borrow().streams.is_empty() {
            self.quic.borrow_mut().ping();
        }
        self.wake();
    }

    /// Closes the connection.
    pub fn close(&self, now: Instant, reason: Http3Error) {
        if self.state.borrow().is_closed {
            return;
        }
        let counters = &self.worker.counters;
        match reason {
            Http3Error::None => {}
            Http3Error::ExcessiveLoad => counters.http3_floods.add(1),
            _ => counters.http3_errors.add(1),
        }
        self.quic.borrow_mut().close(now, code(reason), Bytes::new());
        self.ended();
        self.wake();
    }

    /// The connection has ended: all tasks are notified.
    pub fn ended(&self) {
        let streams = {
            let mut state = self.state.borrow_mut();
            if std::mem::replace(&mut state.is_closed, true) {
                return;
            }
            state.readers.clear();
            state.outputs.clear();
            state.ready.clear();
            state.flush.clear();
            std::mem::take(&mut state.streams)
        };
        for it in streams.values() {
            it.body.borrow_mut().is_whole = true;
            it.close(ClientGone::Closed);
        }
        if self.client.borrow().is_some() {
            self.worker.counters.http3_open.sub(1);
        }
        self.end_handshake();
        self.presence.take();
    }

    /// The handshake has ended, in any way.
    pub fn end_handshake(&self) {
        if self.is_half_open.replace(false) {
            self.endpoint_waker.half_open.update(|it| it - 1);
        }
    }

    /// The end of a stream's task: ends both directions if they are still open.
    pub fn finished(&self, stream: &Rc<ClientStream>) {
        let index = stream.id;
        if stream.gone.get().is_none() {
            if !stream.is_answered() {
                self.end_stream(index, Http3Error::Internal, ClientGone::Closed);
            } else if !stream.body.borrow().is_whole {
                self.stop_reading(index);
            }
        }
        let mut state = self.state.borrow_mut();
        state.streams.remove(&index);
        if state.is_idle() {
            state.last_change = self.endpoint_waker.now();
        }
        drop(state);
        self.wake();
    }

    /// Reads no more of a request.
    pub fn stop_reading(&self, index: u32) {
        self.state.borrow_mut().readers.remove(&index);
        let _ = self.quic.borrow_mut().recv_stream(Self::id(index)).stop(code(Http3Error::None));
    }

    /// Whether the client has acknowledged every response: the end of a connection discards the others (RFC 9000 §10.2).
    fn is_delivered(&self) -> bool {
        // The control stream never ends.
        self.quic.borrow_mut().streams().send_streams() <= 1
    }

    /// Closes the connection if it has been idle for `least`, or for longer where the last response is not delivered; whether it did.
    pub fn close_if_idle(&self, now: Instant, least: Duration) -> bool {
        let least = if self.is_delivered() { least } else { least.max(ACK_WAIT) };
        let may = {
            let state = self.state.borrow();
            let is_open = self.client.borrow().is_some() && !state.is_closed;
            is_open && state.is_idle() && now >= state.last_change + least
        };
        if may {
            self.worker.counters.connections_shed.add(1);
            self.close(now, Http3Error::None);
        }
        may
    }
}

impl Http3State {
    /// Whether no request is in work.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.readers.is_empty() && self.outputs.is_empty()
    }

    /// The time until which acknowledgements of the last response are waited for.
    fn undelivered_until(&self) -> Instant {
        self.last_change.max(self.acked.1) + ACK_WAIT
    }
}

impl StreamsLink for Http3Connection {
    fn worker(&self) -> &Rc<TransportWorker> {
        &self.worker
    }

    fn write_head<'f>(
        &self,
        stream: &ClientStream,
        status: u16,
        fields: &mut dyn Iterator<Item = Field<'f>>,
        length: Option<u64>,
        end: EndFlag,
    ) {
        let mut out = Vec::new();
        let at = begin_headers(&mut out);
        qpack::encode::status(status, &mut out);
        fields
            .filter(|it| !is_hop_by_hop(it.name))
            .for_each(|it| qpack::encode::field(it.name.as_bytes(), it.value, &mut out));
        if let Some(length) = length {
            let mut digits = itoa::Buffer::new();
            qpack::encode::field(b"content-length", digits.format(length).as_bytes(), &mut out);
        }
        end_headers(at, &mut out);
        self.queue(stream.id, out.into(), end);
    }

    fn has_work(&self, stream: &Rc<ClientStream>) {
        if stream.has_work() && !stream.is_ready.replace(true) {
            self.state.borrow_mut().ready.push_back(stream.clone());
            self.wake();
        }
    }

    fn reset(&self, stream: &ClientStream, reset: StreamReset, why: ClientGone) {
        if stream.gone.get().is_none() {
            let reset = match reset {
                StreamReset::Cancel => Http3Error::RequestCancelled,
                StreamReset::Connect => Http3Error::Connect,
            };
            self.end_stream(stream.id, reset, why);
        }
    }

    fn give_credit(&self, stream: &ClientStream, _bytes: usize) {
        let mut state = self.state.borrow_mut();
        if state.readers.contains_key(&stream.id) {
            state.resumed.push_back(stream.id);
            drop(state);
            self.wake();
        }
    }

    fn extend_window(&self, stream: &ClientStream, bytes: u32) {
        self.give_credit(stream, bytes as usize);
    }

    fn return_credit(&self, _bytes: u32) {}

    fn has_credit(&self) -> bool {
        true
    }

    fn count(&self) -> u64 {
        self.state.borrow().streams.len() as u64
    }

    fn sendable_bytes(&self, _stream: &ClientStream) -> u64 {
        0
    }

    fn limit(&self, _own: TransferLimits) {}
}

/// A guard for the end of a stream's task, in any way.
pub(super) struct StreamTaskGuard {
    pub connection: Rc<Http3Connection>,
    pub stream: Rc<ClientStream>,
}

impl Drop for StreamTaskGuard {
    fn drop(&mut self) {
        self.connection.finished(&self.stream);
    }
}
