//! The life of one HTTP/2 connection: one loop that reads, answers, and writes, over its streams. The effects of frames
//! are in `frames`; tasks of slow answers pass their output to this loop.

use super::frames::{ConnectionEnded, FrameBatch};
use crate::client::Client;
use crate::client_socket::{ClientGone, ClientSocket};
use crate::handler::Handler;
use crate::outbox::{KEEP, Outbox, SHIFTED, SendProgress};
use crate::streams::{ClientStream, Floods, STREAM_WINDOW, StreamEnd, StreamReset, StreamsLink};
use crate::worker::{Expired, ReadPhase, TransferLimits, TransportWorker};
use larder_semantics::field::Field;
use larder_stdx::clock;
use larder_wire::http2::ErrorCode;
use larder_wire::http2::frame::{self, EndFlag, MAX_SIZE};
use larder_wire::http2::hpack::{Encoder, HpackDecoder, TABLE, encode};
use larder_wire::message::HeadLimits;
use larder_wire::message::fields::is_hop_by_hop;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes of waiting output before more is taken from the streams.
pub(super) const BATCH: u64 = 128 * 1024;
/// With one more frame, a head, and the shifted start.
const _: () = assert!(BATCH as usize + 2 * MAX_SIZE + SHIFTED < KEEP);
/// Bytes of waiting output before reading stops: input may require an answer.
pub(super) const FULL: u64 = 512 * 1024;
/// Reads and writes of one connection before other connections take their turn.
const TURNS: usize = 8;
/// Bytes that all streams may send before they are read.
pub(super) const WINDOW: u32 = 1024 * 1024;
/// The PING behind which no stream follows that was started before the client received GOAWAY.
pub(super) const GOAWAY_PING: [u8; 8] = *b"farewell";
/// How many milliseconds its answer is awaited on a connection without streams.
const GOAWAY_WAIT: u64 = 1_000;
/// Streams that larder ended and the client may not know of yet.
const MOST_ENDED: usize = 256;

/// One connection; its streams' tasks share it.
pub(super) struct Http2Connection {
    pub link: ClientSocket,
    /// Whether the client was offered extended CONNECT.
    pub offers_upgrades: bool,
    pub state: RefCell<Http2State>,
    /// The connection's own task.
    waker: RefCell<Option<Waker>>,
}

pub(super) type Shared = Rc<Http2Connection>;

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.link.worker.counters.http2_open.sub(1);
    }
}

/// The state of a connection.
pub(super) struct Http2State {
    pub decoder: HpackDecoder,
    /// For every field section that is sent, in the order of sending.
    pub encoder: Encoder,
    /// Bytes that were read and are not a complete frame.
    pub input: Vec<u8>,
    /// The arrival of the first of them, if they are not a complete frame: see [`Client::began`].
    pub began: u64,
    /// Whether some of them may be complete frames: not all were parsed.
    pub is_unread: bool,
    pub has_preface: bool,
    pub has_settings: bool,
    /// A field section that continues in the next frame.
    pub block: Option<Block>,
    pub streams: BTreeMap<u32, Rc<ClientStream>>,
    /// Streams with output, in turn.
    pub ready: VecDeque<Rc<ClientStream>>,
    /// The latest stream, and the first of the consecutive ones up to it.
    pub last: u32,
    pub first_consecutive: u32,
    /// Streams that larder ended and the client had not: further frames of them are not an error.
    pub ended_streams: VecDeque<u32>,
    /// Bytes that larder may send.
    pub window: i64,
    /// The initial window of new streams.
    pub first_window: i64,
    /// Bytes that the client may send.
    pub credit: i64,
    /// Bytes that were read and not yet returned as credit.
    pub uncredited: u32,
    pub floods: Floods,
    pub goaway: GoawayState,
    /// Whether a request was answered or begun in this turn.
    pub had_request: bool,
}

/// The progress of a graceful shutdown of the connection (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoawayState {
    No,
    /// The first GOAWAY was sent, at this time of the monotonic clock; new streams are still served until the PING is
    /// answered.
    Announced(u64),
    /// The final GOAWAY with the last stream was sent.
    Yes,
}

/// A field section of several frames.
pub(super) struct Block {
    pub stream: u32,
    pub end_stream: bool,
    pub bytes: Vec<u8>,
    pub frames: u32,
    /// The arrival of its first byte: see [`Client::began`].
    pub began: u64,
}

/// Serves one connection to its end, of which `input` was read already.
pub(crate) async fn serve<H: Handler>(link: ClientSocket, input: Vec<u8>, client: Client, handler: Rc<H>) {
    let connection = Rc::new(Http2Connection {
        offers_upgrades: link.worker.limits().upgrades,
        link,
        state: RefCell::new(Http2State {
            decoder: HpackDecoder::new(TABLE),
            encoder: Encoder::default(),
            is_unread: !input.is_empty(),
            input,
            began: 0,
            has_preface: false,
            has_settings: false,
            block: None,
            streams: BTreeMap::new(),
            ready: VecDeque::new(),
            last: 0,
            first_consecutive: 1,
            ended_streams: VecDeque::new(),
            window: i64::from(frame::FIRST_WINDOW),
            first_window: i64::from(frame::FIRST_WINDOW),
            credit: i64::from(WINDOW),
            uncredited: 0,
            floods: Floods::default(),
            goaway: GoawayState::No,
            had_request: true,
        }),
        waker: RefCell::default(),
    });
    connection.send_settings();
    let ended = {
        let mut is_leaving = false;
        poll_fn(|context| {
            if !is_leaving && connection.link.watched.poll_leaving(context).is_ready() {
                is_leaving = true;
                connection.announce_goaway();
            }
            turn(&connection, context, &client, &handler)
        })
        .await
    };
    connection.close(ended).await;
}

/// Reads, answers and writes as long as that is possible without waiting.
fn turn<H: Handler>(
    connection: &Shared,
    context: &mut Context<'_>,
    client: &Client,
    handler: &Rc<H>,
) -> Poll<ConnectionEnded> {
    {
        let mut waker = connection.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|it| it.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }
    for _ in 0..TURNS {
        let mut goes_on = false;
        if connection.link.waiting() < FULL {
            match connection.read_some(context, client, handler) {
                Poll::Ready(Ok(())) => goes_on = true,
                Poll::Ready(Err(ended)) => return Poll::Ready(ended),
                Poll::Pending => {}
            }
        }
        connection.collect();
        match connection.link.send_now() {
            Ok(SendProgress::All) => connection.link.watched.clear_write_deadline(),
            Ok(SendProgress::Turn) => goes_on = true,
            Ok(SendProgress::Blocked) => match connection.poll_writable(context) {
                Ok(again) => goes_on |= again,
                Err(()) => return Poll::Ready(ConnectionEnded::Gone),
            },
            Err(error) => {
                connection.link.note_failure(error);
                return Poll::Ready(ConnectionEnded::Gone);
            }
        }
        if connection.is_over() {
            return Poll::Ready(ConnectionEnded::Done);
        }
        // Ready output that did not fit continues as soon as there is room.
        let has_more = connection.link.waiting() == 0 && connection.state.borrow().can_send();
        if !goes_on && !has_more {
            connection.set_deadline();
            return Poll::Pending;
        }
    }
    connection.set_deadline();
    context.waker().wake_by_ref();
    Poll::Pending
}

impl Http2State {
    /// Whether a stream has output that may be sent now.
    fn can_send(&self) -> bool {
        self.ready.iter().any(|it| it.has_work() && (self.window > 0 || it.queued.get() == 0))
    }
}

impl Http2Connection {
    /// Sends the settings, and the window of the whole connection.
    fn send_settings(&self) {
        let limits = self.link.worker.limits();
        let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        self.link.with_output(|out| {
            let settings = [
                (0x3, limits.http2_streams),
                (0x4, STREAM_WINDOW),
                (0x6, small(limits.head_size)),
                (0x8, u32::from(self.offers_upgrades)), // RFC 8441 §3
            ];
            frame::write_settings(&settings, out.text());
            frame::write_window_update(0, WINDOW - frame::FIRST_WINDOW, out.text());
        });
        self.link.worker.counters.http2_connections.add(1);
        self.link.worker.counters.http2_open.add(1);
    }

    /// Reads the available bytes and processes their frames.
    fn read_some<H: Handler>(
        self: &Rc<Self>,
        context: &mut Context<'_>,
        client: &Client,
        handler: &Rc<H>,
    ) -> Poll<Result<(), ConnectionEnded>> {
        let worker = self.link.worker.clone();
        let mut scratch = worker.input.borrow_mut();
        let limits = HeadLimits { scheme: client.scheme, ..worker.size_input(&mut scratch) };
        let kept = {
            let state = self.state.borrow();
            let kept = state.input.len().min(scratch.len());
            scratch[..kept].copy_from_slice(&state.input[..kept]);
            kept
        };
        // Unparsed bytes come first; they may fill the whole buffer.
        let read = match self.state.borrow().is_unread {
            true => 0,
            false => match self.link.read(context, &mut scratch[kept..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) if count > 0 => count,
                Poll::Ready(_) => return Poll::Ready(Err(self.ended())),
            },
        };
        let filled = kept + read;
        let mut state = self.state.borrow_mut();
        state.input.drain(..kept);
        state.is_unread = false;
        let mut consumed = 0;
        let bytes = &scratch[..filled];
        let done = self.link.with_output(|out| {
            let state = &mut *state;
            let began = state.began;
            FrameBatch { connection: self, state, limits: &limits, client, handler, out, began }
                .process_all(bytes, &mut consumed)
        });
        let rest = &scratch[consumed..filled];
        state.began = match state.began {
            _ if rest.is_empty() => 0,
            0 => worker.arrival_micros(),
            began if consumed == 0 => began,
            _ => worker.arrival_micros(),
        };
        if state.input.is_empty() {
            state.input = rest.to_vec();
        } else {
            // There were more bytes than fit into the buffer.
            state.input.splice(..0, rest.iter().copied());
            state.is_unread = true;
        }
        Poll::Ready(done)
    }

    /// The reason why no more can be read.
    fn ended(&self) -> ConnectionEnded {
        match self.link.watched.expired() {
            Expired::Writing => ConnectionEnded::Gone,
            Expired::Reading(ReadPhase::Head) => ConnectionEnded::Broken(ErrorCode::EnhanceYourCalm),
            Expired::Reading(_) => ConnectionEnded::Broken(ErrorCode::None),
            Expired::No if self.link.watched.is_leaving() => ConnectionEnded::Broken(ErrorCode::None),
            Expired::No => ConnectionEnded::Gone,
        }
    }

    /// Takes permitted output from the streams, a frame of each in turn.
    fn collect(&self) {
        let mut state = self.state.borrow_mut();
        if state.ready.is_empty() {
            return;
        }
        let state = &mut *state;
        self.link.with_output(|out| {
            let mut skipped = 0;
            while out.len() < BATCH && skipped < state.ready.len() {
                let Some(stream) = state.ready.pop_front() else { return };
                if !stream.has_work() {
                    stream.is_ready.set(false);
                } else if stream.queued.get() > 0 && state.window <= 0 {
                    skipped += 1;
                    state.ready.push_back(stream);
                } else {
                    self.send_part(state, &stream, out);
                    if stream.has_work() {
                        state.ready.push_back(stream);
                    } else {
                        stream.is_ready.set(false);
                    }
                }
            }
        });
    }

    /// One frame of a stream with output.
    fn send_part(&self, state: &mut Http2State, stream: &ClientStream, out: &mut Outbox) {
        let window = state.window.min(stream.window.get()).clamp(0, MAX_SIZE as i64);
        let part = if stream.queued.get() > 0 { stream.take(window.cast_unsigned()) } else { None };
        let length = part.as_ref().map_or(0, crate::body::BodyPiece::len);
        let is_empty = stream.queued.get() == 0;
        let ends = is_empty && *stream.end.borrow() == StreamEnd::Last;
        if length > 0 || ends {
            let end = if ends { EndFlag::Stream } else { EndFlag::Open };
            frame::write_data_header(stream.id, usize::try_from(length).unwrap_or(0), end, out.text());
            if let Some(part) = part {
                out.push_frame(part);
            }
            state.floods.sent_data();
            state.window -= length.cast_signed();
            stream.window.set(stream.window.get() - length.cast_signed());
            stream.sent.set(stream.sent.get() + length);
        }
        let trailers = match &*stream.end.borrow() {
            StreamEnd::Trailers(list) if is_empty => Some(list.clone()),
            _ => None,
        };
        if let Some(list) = &trailers {
            let at = frame::begin_headers(out.text());
            state.encoder.begin(out.text());
            list.iter().for_each(|it| state.encoder.field(it.name.as_bytes(), it.value, out.text()));
            frame::end_headers(at, stream.id, EndFlag::Stream, out.text());
        }
        if ends || trailers.is_some() {
            *stream.end.borrow_mut() = StreamEnd::Sent;
        }
        stream.wake();
    }

    /// Waits for room in the socket; returns whether there is room again.
    fn poll_writable(&self, context: &mut Context<'_>) -> Result<bool, ()> {
        self.link.with_output(Outbox::compact);
        let watched = &self.link.watched;
        if !watched.is_writing() {
            watched.set_write_deadline(self.link.worker.times_of(watched).write);
        }
        let io = watched.io().map_err(drop)?;
        match io.poll_write_ready(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(_)) => Err(()),
            Poll::Ready(Ok(mut guard)) => {
                let before = self.link.waiting();
                let sent = self.link.send_now().map_err(|error| self.link.note_failure(error))?;
                if self.link.waiting() < before {
                    watched.set_write_deadline(self.link.worker.times_of(watched).write);
                }
                if sent == SendProgress::Blocked {
                    guard.clear_ready();
                }
                Ok(true)
            }
        }
    }

    /// Whether every stream is answered, and no new one is accepted.
    fn is_over(&self) -> bool {
        let state = self.state.borrow();
        state.goaway == GoawayState::Yes && state.streams.is_empty() && self.link.waiting() == 0
    }

    /// Sets the deadline for the client.
    fn set_deadline(&self) {
        let mut state = self.state.borrow_mut();
        let (watched, times) = (&self.link.watched, self.link.worker.times());
        let has_begun = state.block.is_some() || (!state.input.is_empty() && state.streams.is_empty());
        let was_asked = std::mem::take(&mut state.had_request);
        if has_begun || !state.has_preface {
            if watched.reading() != ReadPhase::Head {
                watched.set_read_deadline(ReadPhase::Head, times.head);
            }
        } else if !state.streams.is_empty() {
            watched.clear_read_deadline();
        } else if let GoawayState::Announced(since) = state.goaway {
            let passed = clock::monotonic().0.saturating_sub(since);
            watched.set_read_deadline(ReadPhase::Idle, GOAWAY_WAIT.saturating_sub(passed));
        } else if was_asked || watched.reading() != ReadPhase::Idle {
            watched.set_read_deadline(ReadPhase::Idle, times.idle);
            watched.begin_window();
        }
    }

    /// Sends the first GOAWAY: requests that the client has sent by then are still served.
    fn announce_goaway(&self) {
        if !self.state.borrow().has_preface {
            return self.send_goaway(ErrorCode::None);
        }
        self.state.borrow_mut().goaway = GoawayState::Announced(clock::monotonic().0);
        self.link.with_output(|out| {
            frame::write_goaway(i32::MAX.cast_unsigned(), ErrorCode::None, out.text());
            frame::write_ping(GOAWAY_PING, false, out.text());
        });
    }

    /// Accepts no new streams; existing ones continue.
    pub fn send_goaway(&self, code: ErrorCode) {
        let mut state = self.state.borrow_mut();
        if state.goaway != GoawayState::Yes {
            state.goaway = GoawayState::Yes;
            let last = state.last;
            self.link.with_output(|out| frame::write_goaway(last, code, out.text()));
        }
    }

    /// The end: all waiting tasks are notified, and the client gets the reason.
    async fn close(&self, ended: ConnectionEnded) {
        let streams = std::mem::take(&mut self.state.borrow_mut().streams);
        let gone = self.link.gone();
        for it in streams.values() {
            it.close(gone);
        }
        self.state.borrow_mut().ready.clear();
        match ended {
            ConnectionEnded::Gone if self.link.watched.expired() == Expired::Writing => {
                return self.link.reset();
            }
            ConnectionEnded::Gone if self.link.is_broken() => return self.link.linger().await,
            ConnectionEnded::Gone => return,
            ConnectionEnded::Done => {}
            ConnectionEnded::Broken(code) => {
                let counters = &self.link.worker.counters;
                match code {
                    ErrorCode::None => {}
                    ErrorCode::EnhanceYourCalm => counters.http2_floods.add(1),
                    _ => counters.http2_errors.add(1),
                }
                self.send_goaway(code);
            }
        }
        self.link.watched.reset_deadlines();
        if self.link.flush().await.is_err() {
            return;
        }
        self.link.linger().await;
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Ends a stream at once.
    pub fn end_stream(&self, stream: &ClientStream, code: ErrorCode, why: ClientGone) {
        if stream.gone.get().is_none() {
            self.link.with_output(|out| frame::write_reset(stream.id, code, out.text()));
            self.remember_ended(stream);
            self.record_used(stream.close(why));
            self.wake();
        }
    }

    /// Records used bytes of the connection's window.
    pub fn record_used(&self, bytes: u32) {
        let due = self.state.borrow_mut().credit_due(bytes);
        if let Some(due) = due {
            self.link.with_output(|out| frame::write_window_update(0, due, out.text()));
            self.wake();
        }
    }

    /// The end of a stream's task: ends both directions if they are still open.
    pub fn finished(&self, stream: &Rc<ClientStream>) {
        if stream.gone.get().is_none() {
            if !stream.is_answered() {
                self.end_stream(stream, ErrorCode::Internal, ClientGone::Closed);
            } else if !stream.body.borrow().is_whole {
                self.end_stream(stream, ErrorCode::None, ClientGone::Closed);
            }
        }
        self.record_used(stream.take_unread());
        let streams = &mut self.state.borrow_mut().streams;
        streams.remove(&stream.id);
        if streams.is_empty() {
            self.wake(); // It is idle now, or over.
        }
    }

    fn remember_ended(&self, stream: &ClientStream) {
        if !stream.body.borrow().is_whole {
            self.state.borrow_mut().remember_ended(stream.id);
        }
    }
}

impl StreamsLink for Http2Connection {
    fn worker(&self) -> &Rc<TransportWorker> {
        &self.link.worker
    }

    fn write_head<'f>(
        &self,
        stream: &ClientStream,
        status: u16,
        fields: &mut dyn Iterator<Item = Field<'f>>,
        length: Option<u64>,
        end: EndFlag,
    ) {
        let encoder = &mut self.state.borrow_mut().encoder;
        self.link.with_output(|out| {
            let out = out.text();
            let at = frame::begin_headers(out);
            encoder.begin(out);
            encode::status(status, out);
            fields
                .filter(|it| !is_hop_by_hop(it.name))
                .for_each(|it| encoder.field(it.name.as_bytes(), it.value, out));
            if let Some(length) = length {
                encode::field(b"content-length", itoa::Buffer::new().format(length).as_bytes(), out);
            }
            frame::end_headers(at, stream.id, end, out);
        });
        self.wake();
    }

    fn has_work(&self, stream: &Rc<ClientStream>) {
        if stream.has_work() && !stream.is_ready.replace(true) {
            self.state.borrow_mut().ready.push_back(stream.clone());
            self.wake();
        }
    }

    fn reset(&self, stream: &ClientStream, reset: StreamReset, why: ClientGone) {
        let code = match reset {
            StreamReset::Cancel => ErrorCode::Cancel,
            StreamReset::Connect => ErrorCode::Connect,
        };
        self.end_stream(stream, code, why);
    }

    fn give_credit(&self, stream: &ClientStream, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.extend_window(stream, bytes);
        self.record_used(bytes);
    }

    fn extend_window(&self, stream: &ClientStream, bytes: u32) {
        let due = stream.body.borrow_mut().credit_due(bytes);
        if let Some(due) = due {
            self.link.with_output(|out| frame::write_window_update(stream.id, due, out.text()));
            self.wake();
        }
    }

    fn return_credit(&self, bytes: u32) {
        self.record_used(bytes);
    }

    fn has_credit(&self) -> bool {
        self.state.borrow().credit > 0
    }

    fn count(&self) -> u64 {
        self.state.borrow().streams.len() as u64
    }

    /// By the windows and the waiting output of the socket.
    fn sendable_bytes(&self, stream: &ClientStream) -> u64 {
        let state = self.state.borrow();
        let queued: u64 = state.streams.values().map(|it| it.queued.get()).sum();
        let windows = (stream.window.get() - stream.queued.get().cast_signed())
            .min(state.window - queued.cast_signed());
        u64::try_from(windows).unwrap_or(0).min(FULL.saturating_sub(self.link.waiting() + queued))
    }

    fn limit(&self, own: TransferLimits) {
        let (watched, worker) = (&self.link.watched, &self.link.worker);
        let before = watched.own_limits().unwrap_or_else(|| TransferLimits::of(&worker.limits()));
        watched.limit(Some(own.or_longer(before)));
    }
}

impl Http2State {
    /// Whether the client has `most` open streams. Reset ones do not count, although their tasks may continue.
    pub fn has_open(&self, most: usize) -> bool {
        self.streams.len() >= most && self.streams.values().filter(|it| !it.is_closed()).count() >= most
    }

    /// Records a stream that larder ended.
    pub fn remember_ended(&mut self, stream: u32) {
        if self.ended_streams.len() == MOST_ENDED {
            self.ended_streams.pop_front();
        }
        self.ended_streams.push_back(stream);
    }

    /// Records used bytes of the connection's window; returns the credit that is due.
    pub fn credit_due(&mut self, bytes: u32) -> Option<u32> {
        self.uncredited = self.uncredited.saturating_add(bytes);
        if self.uncredited < WINDOW / 2 {
            return None;
        }
        let owed = std::mem::take(&mut self.uncredited);
        self.credit += i64::from(owed);
        Some(owed)
    }
}

/// A guard for the end of a stream's task, in any way.
pub(super) struct Guard {
    pub connection: Shared,
    pub stream: Rc<ClientStream>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.connection.finished(&self.stream);
    }
}
