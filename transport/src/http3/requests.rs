//! The streams of requests: their frames (RFC 9114 §4.1), and the beginning of an answer.

use super::connection::{Http3Connection, Http3GoawayState, Http3State, StreamTaskGuard};
use super::early_data::EarlyBytes;
use crate::ResponseWriter;
use crate::body::BodyPiece;
use crate::client::Client;
use crate::client_socket::ClientGone;
use crate::handler::{self, AnswerNow, Handler};
use crate::outbox::Outbox;
use crate::streams::{
    ClientStream, FloodKind, STREAM_WINDOW, StreamEnd, StreamReply, StreamRequestBody, StreamSide, wait,
};
use bytes::Bytes;
use larder_semantics::scheme::Scheme;
use larder_wire::http3::frame::{FrameStream, Http3Frame, Http3FrameReader};
use larder_wire::http3::{Http3Error, head, qpack};
use larder_wire::message::{FieldStorage, Framing, HeadLimits, Reject, RequestHead};
use quinn_proto::ReadError;
use std::rc::Rc;
use std::time::Instant;

/// Bytes that are read of a stream at once.
const READ: usize = 32 * 1024;
/// Unread bytes of a body, after which no more are read.
const AHEAD: usize = 64 * 1024;
/// Bytes of heads of one connection whose requests have not begun: each stream may have one, other than over HTTP/2.
const HEADS: usize = 1024 * 1024;
/// Bytes of one such head beyond which those of the connection are added up: most heads arrive whole, or have fewer.
const LARGE_HEAD: usize = 1024;
/// The limit of requests in work, including those of closed streams: this multiple of the permitted number of streams.
const TASKS_PER_STREAM: usize = 4;

/// The incoming side of a request.
pub(super) struct RequestReader {
    frames: Http3FrameReader,
    part: RequestPart,
    pub began: Instant,
    /// By the precise clock: see [`Client::began`].
    stamp: u64,
    /// Its bytes before the end of the handshake.
    pub early: EarlyBytes,
}

/// The result of reading a stream.
pub(super) enum ReadChunk {
    /// Its next bytes.
    Bytes(Bytes),
    /// It has ended.
    End,
    /// Nothing more has arrived.
    Blocked,
    /// The client has cancelled it.
    Reset,
    /// Its end was read before.
    Over,
}

/// The part of a request that is awaited.
enum RequestPart {
    /// The head.
    Head,
    /// The head has arrived, but not whether anything follows.
    Pending(Vec<u8>),
    /// The body, or the trailers.
    Body,
    /// The end, after the trailers.
    End,
}

impl RequestReader {
    pub fn new(limit: usize, began: Instant) -> Self {
        let frames = Http3FrameReader::new(FrameStream::Request, limit);
        Self { frames, part: RequestPart::Head, began, stamp: 0, early: EarlyBytes::default() }
    }

    /// The bytes kept of it before it has begun.
    fn kept(&self) -> usize {
        match &self.part {
            RequestPart::Pending(block) => block.len(),
            _ => self.frames.kept() + self.early.len(),
        }
    }

    /// Whether the request has not begun yet.
    pub fn is_in_head(&self) -> bool {
        matches!(self.part, RequestPart::Head | RequestPart::Pending(_))
    }
}

/// Whether a request's section is followed by something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadFollowedBy {
    /// By the end of the stream.
    End,
    /// By another frame.
    More,
    /// It is not known yet.
    Unknown,
}

impl Http3Connection {
    /// Reads requests whose bodies have room again.
    pub fn read_resumed<H: Handler>(self: &Rc<Self>, handler: &Rc<H>) -> Result<(), Http3Error> {
        let resumed = std::mem::take(&mut self.state.borrow_mut().resumed);
        resumed.into_iter().try_for_each(|index| self.read_request(index, handler))
    }

    /// Reads the available bytes of a request.
    pub fn read_request<H: Handler>(self: &Rc<Self>, index: u32, handler: &Rc<H>) -> Result<(), Http3Error> {
        if self.client.borrow().is_none() {
            return self.read_early(index, handler);
        }
        while self.state.borrow().readers.contains_key(&index) {
            let stream = self.state.borrow().streams.get(&index).cloned();
            if stream.is_some_and(|it| it.body.borrow().bytes.len() >= AHEAD) {
                return Ok(());
            }
            match self.read_chunk(index) {
                ReadChunk::Bytes(bytes) => self.request_bytes(index, &bytes, handler)?,
                ReadChunk::End => return self.request_ends(index, handler),
                ReadChunk::Blocked => {
                    return self.begin_if_complete(index, HeadFollowedBy::Unknown, handler);
                }
                ReadChunk::Reset => return self.reset_by_client(index),
                ReadChunk::Over => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes the next bytes of a request.
    pub fn read_chunk(&self, index: u32) -> ReadChunk {
        let mut quic = self.quic.borrow_mut();
        let mut stream = quic.recv_stream(Self::id(index));
        let Ok(mut chunks) = stream.read(true) else { return ReadChunk::Over };
        let read = match chunks.next(READ) {
            Ok(Some(chunk)) => ReadChunk::Bytes(chunk.bytes),
            Ok(None) => ReadChunk::End,
            Err(ReadError::Blocked) => ReadChunk::Blocked,
            Err(ReadError::Reset(_)) => ReadChunk::Reset,
        };
        let _ = chunks.finalize();
        read
    }

    pub fn reset_by_client(&self, index: u32) -> Result<(), Http3Error> {
        let stream = self.state.borrow().streams.get(&index).cloned();
        if stream.is_some_and(|it| it.gone.get().is_none() && !it.is_answered()) {
            self.worker.counters.client_aborts.add(1);
        }
        self.end_stream(index, Http3Error::RequestCancelled, ClientGone::Closed);
        self.count_flood(FloodKind::Reset)
    }

    pub fn request_bytes<H: Handler>(
        self: &Rc<Self>,
        index: u32,
        mut bytes: &[u8],
        handler: &Rc<H>,
    ) -> Result<(), Http3Error> {
        loop {
            let frame = {
                let mut state = self.state.borrow_mut();
                let Some(reader) = state.readers.get_mut(&index) else { return Ok(()) };
                if reader.stamp == 0 {
                    reader.stamp = self.worker.arrival_micros();
                }
                let frame = reader.frames.read(&mut bytes)?;
                if frame.is_none() && reader.frames.kept() > LARGE_HEAD {
                    state.admit_heads()?;
                }
                frame
            };
            let Some(frame) = frame else { return Ok(()) };
            self.request_frame(index, frame, handler)?;
        }
    }

    fn request_frame<H: Handler>(
        self: &Rc<Self>,
        index: u32,
        frame: Http3Frame<'_>,
        handler: &Rc<H>,
    ) -> Result<(), Http3Error> {
        if frame == Http3Frame::Unknown {
            return self.count_flood(FloodKind::Nothing);
        }
        self.begin_if_complete(index, HeadFollowedBy::More, handler)?;
        let mut state = self.state.borrow_mut();
        // The request may have been rejected.
        let Some(reader) = state.readers.get_mut(&index) else { return Ok(()) };
        match (&mut reader.part, frame) {
            (RequestPart::Head, Http3Frame::Headers(block)) => {
                let is_large = block.len() > LARGE_HEAD;
                reader.part = RequestPart::Pending(block);
                if is_large { state.admit_heads() } else { Ok(()) }
            }
            (RequestPart::Head, Http3Frame::TooLarge) => {
                drop(state);
                let client = self.client();
                self.refuse(index, Reject::HeadTooLarge, HeadFollowedBy::More, &client, handler)
            }
            (RequestPart::Body, Http3Frame::Data(data)) => {
                drop(state);
                self.data(index, data)
            }
            (RequestPart::Body, Http3Frame::Headers(block)) => {
                reader.part = RequestPart::End;
                drop(state);
                self.trailers(index, &block)
            }
            (RequestPart::Body, Http3Frame::TooLarge) => {
                drop(state);
                self.malformed(index)
            }
            _ => Err(Http3Error::FrameUnexpected),
        }
    }

    pub fn request_ends<H: Handler>(self: &Rc<Self>, index: u32, handler: &Rc<H>) -> Result<(), Http3Error> {
        let is_whole = {
            let state = self.state.borrow();
            let Some(reader) = state.readers.get(&index) else { return Ok(()) };
            if !reader.frames.is_between_frames() {
                return Err(Http3Error::Frame);
            }
            !matches!(reader.part, RequestPart::Head)
        };
        if !is_whole {
            self.worker.counters.requests_rejected.add(1);
            self.end_stream(index, Http3Error::RequestIncomplete, ClientGone::Malformed);
            return self.count_flood(FloodKind::Reset);
        }
        self.begin_if_complete(index, HeadFollowedBy::End, handler)?;
        if self.state.borrow_mut().readers.remove(&index).is_none() {
            return Ok(());
        }
        let stream = self.state.borrow().streams.get(&index).cloned();
        let Some(stream) = stream else { return Ok(()) };
        if stream.body.borrow().remaining.is_some_and(|it| it > 0) {
            return self.malformed(index);
        }
        stream.body.borrow_mut().is_whole = true;
        stream.wake();
        Ok(())
    }

    /// A malformed request resets its stream (RFC 9114 §4.1.2).
    fn malformed(&self, index: u32) -> Result<(), Http3Error> {
        self.worker.counters.requests_rejected.add(1);
        self.end_stream(index, Http3Error::Message, ClientGone::Malformed);
        self.count_flood(FloodKind::Reset)
    }

    fn trailers(&self, index: u32, block: &[u8]) -> Result<(), Http3Error> {
        let worker = self.worker.clone();
        let section = &mut *worker.section.borrow_mut();
        section.begin(worker.limits().head_size);
        qpack::decode(block, section)?;
        let stream = self.state.borrow().streams.get(&index).cloned();
        let Some(stream) = stream else { return Ok(()) };
        match head::trailers(section) {
            Ok(list) if !stream.is_tunnel => {
                stream.body.borrow_mut().trailers = (!list.is_empty()).then_some(list);
                Ok(())
            }
            _ => self.malformed(index),
        }
    }

    fn data(&self, index: u32, data: &[u8]) -> Result<(), Http3Error> {
        if data.is_empty() {
            self.count_flood(FloodKind::Nothing)?;
        }
        let stream = self.state.borrow().streams.get(&index).cloned();
        let Some(stream) = stream.filter(|it| it.gone.get().is_none()) else { return Ok(()) };
        let length = data.len() as u64;
        if stream.body.borrow().is_refused_with(data.len()) {
            self.worker.counters.unread_bodies.add(1);
            let error = match stream.body.borrow().is_unread() {
                true => Http3Error::RequestRejected,
                false => Http3Error::ExcessiveLoad,
            };
            self.end_stream(index, error, ClientGone::Closed);
            return self.count_flood(FloodKind::Reset);
        }
        {
            let body = &mut *stream.body.borrow_mut();
            body.received += length;
            if let Some(left) = &mut body.remaining {
                match left.checked_sub(length) {
                    Some(less) => *left = less,
                    None => *left = u64::MAX,
                }
            }
            if body.remaining == Some(u64::MAX) {
                // More than Content-Length.
            } else if body.refused.is_some() {
            } else if let Some(room) = body.remaining_limit.checked_sub(length) {
                body.remaining_limit = room;
                body.bytes.extend(data);
            } else {
                self.worker.counters.body_too_large.add(1);
                body.refused = Some(ClientGone::TooLarge);
            }
            body.awaits_continue &= data.is_empty();
        }
        if stream.body.borrow().remaining == Some(u64::MAX) {
            return self.malformed(index);
        }
        stream.wake();
        Ok(())
    }

    /// The client; requests come after the handshake.
    fn client(&self) -> Client {
        self.client.borrow().clone().unwrap_or_else(|| Client::local(Scheme::Https))
    }

    /// Begins a request whose head has arrived, if it is known what follows, or does not matter.
    fn begin_if_complete<H: Handler>(
        self: &Rc<Self>,
        index: u32,
        behind: HeadFollowedBy,
        handler: &Rc<H>,
    ) -> Result<(), Http3Error> {
        let block = {
            let mut state = self.state.borrow_mut();
            let Some(reader) = state.readers.get_mut(&index) else { return Ok(()) };
            match std::mem::replace(&mut reader.part, RequestPart::Body) {
                RequestPart::Pending(block) => block,
                other => {
                    reader.part = other;
                    return Ok(());
                }
            }
        };
        let worker = self.worker.clone();
        let limits = worker.limits();
        let limits = HeadLimits { head: limits.head_size, target: limits.target_size, scheme: Scheme::Https };
        let section = &mut *worker.section.borrow_mut();
        section.begin(limits.head);
        qpack::decode(&block, section)?;
        let client = self.client();
        let mut storage = FieldStorage::new();
        match head::parse(section, behind == HeadFollowedBy::End, &limits, &mut storage) {
            Ok(head) if head.protocol.is_some() && !worker.limits().upgrades => {
                self.refuse(index, Reject::Pseudo, behind, &client, handler)
            }
            // The end of most requests without a body arrives in the next frame, or along with their head.
            Ok(head) if behind == HeadFollowedBy::Unknown && may_be_whole(&head) => {
                if let Some(reader) = self.state.borrow_mut().readers.get_mut(&index) {
                    reader.part = RequestPart::Pending(block);
                }
                Ok(())
            }
            Ok(head) => self.begin(index, &head, behind, client, handler),
            Err(reject) => self.refuse(index, reject, behind, &client, handler),
        }
    }

    /// Answers a request at once, or starts a task for it.
    fn begin<H: Handler>(
        self: &Rc<Self>,
        index: u32,
        head: &RequestHead<'_>,
        behind: HeadFollowedBy,
        client: Client,
        handler: &Rc<H>,
    ) -> Result<(), Http3Error> {
        let worker = &self.worker;
        if matches!(self.state.borrow().goaway, Http3GoawayState::From(from) if index >= from) {
            self.state.borrow_mut().readers.remove(&index);
            self.reject(index);
            return Ok(());
        }
        worker.counters.requests.add(1);
        worker.counters.http3_requests.add(1);
        let stamp = self.state.borrow().readers.get(&index).map_or(0, |it| it.stamp);
        client.began.set(stamp);
        if head.framing == Framing::Empty && head.protocol.is_none() {
            let mut out = self.endpoint_waker.scratch.borrow_mut();
            let mut answer = ResponseWriter::http3(&mut out);
            if handler.answer_now(head, &client, &mut answer) == AnswerNow::Answered {
                let (_, rest) = answer.into_rest();
                self.send_answer(index, &mut out, rest);
                return Ok(());
            }
            answer.take_back();
        }
        // Work of reset streams continues, mostly at origins: hits do not wait for that.
        let most = TASKS_PER_STREAM * worker.limits().http2_streams as usize;
        if self.state.borrow().streams.len() >= most {
            worker.counters.http3_requests_refused.add(1);
            self.state.borrow_mut().readers.remove(&index);
            self.reject(index);
            return self.count_flood(FloodKind::Reset);
        }
        self.start(index, head, behind, client, handler);
        Ok(())
    }

    /// Starts the task of a request.
    fn start<H: Handler>(
        self: &Rc<Self>,
        index: u32,
        head: &RequestHead<'_>,
        behind: HeadFollowedBy,
        client: Client,
        handler: &Rc<H>,
    ) {
        let request = Rc::new(head.to_owned());
        let is_head = head.method == "HEAD";
        let room = self.worker.limits().body_size;
        let credit = i64::from(STREAM_WINDOW);
        let stream =
            Rc::new(ClientStream::new(index, i64::MAX, credit, Some(&request), room, &self.worker.unread));
        stream.body.borrow_mut().is_whole |= behind == HeadFollowedBy::End;
        self.state.borrow_mut().streams.insert(index, stream.clone());
        let handler = handler.clone();
        if client.began.get() == 0 {
            client.began.set(self.worker.arrival_micros());
        }
        let guard = StreamTaskGuard { connection: self.clone(), stream };
        tokio::task::spawn_local(async move {
            let (connection, stream) = (&guard.connection, &guard.stream);
            let _permit = match stream.is_tunnel {
                false => None,
                true => match connection.worker.permit_for_tunnel().await {
                    None => {
                        let reset = Http3Error::RequestRejected;
                        return connection.end_stream(stream.id, reset, ClientGone::Closed);
                    }
                    place => place,
                },
            };
            let body = StreamRequestBody::new(connection.clone(), stream.clone());
            let reply = StreamReply::new(connection.clone(), stream.clone(), is_head);
            let rest = StreamRequestBody::new(connection.clone(), stream.clone());
            let (body, reply) = (handler::RequestBody::streams(body), handler::Reply::streams(reply));
            handler.answer(request, &client, body, reply).await;
            rest.drain().await;
        });
    }

    /// Sends an answer of the fast speed, and queues what is left of its body.
    pub fn send_answer(self: &Rc<Self>, index: u32, out: &mut Outbox, rest: Option<BodyPiece>) {
        self.answer(index, out.text(), rest.is_none());
        out.text().clear();
        let Some(rest) = rest else { return };
        let stream = Rc::new(ClientStream::new(index, i64::MAX, 0, None, 0, &self.worker.unread));
        stream.push(rest);
        *stream.end.borrow_mut() = StreamEnd::Last;
        let mut state = self.state.borrow_mut();
        state.streams.insert(index, stream.clone());
        stream.is_ready.set(true);
        state.ready.push_back(stream.clone());
        let guard = StreamTaskGuard { connection: self.clone(), stream };
        tokio::task::spawn_local(async move {
            let stream = &guard.stream;
            let _ = wait(&*guard.connection, stream, StreamSide::Takes, || stream.is_answered()).await;
        });
    }

    /// A malformed request resets its stream; a request rejected for another reason gets a response.
    fn refuse<H: Handler>(
        self: &Rc<Self>,
        index: u32,
        reject: Reject,
        behind: HeadFollowedBy,
        client: &Client,
        handler: &Rc<H>,
    ) -> Result<(), Http3Error> {
        let counters = &self.worker.counters;
        match reject {
            Reject::HeadTooLarge => counters.head_too_large.add(1),
            Reject::TargetTooLong => counters.target_too_long.add(1),
            _ => {}
        }
        if reject.status() == 400 {
            handler.rejected(reject, client, 0);
            return self.malformed(index);
        }
        counters.requests_rejected.add(1);
        let page = handler.refusal(reject.status(), reject.sentence()).with("Cache-Control", "no-store");
        handler.rejected(reject, client, page.length());
        let mut out = self.endpoint_waker.scratch.borrow_mut();
        let mut answer = ResponseWriter::http3(&mut out);
        page.write_now("GET", &mut answer);
        let (_, rest) = answer.into_rest();
        self.send_answer(index, &mut out, rest);
        if behind == HeadFollowedBy::End {
            return Ok(());
        }
        self.stop_reading(index);
        self.count_flood(FloodKind::Reset)
    }
}

impl Http3State {
    /// Fails if the heads of requests that have not begun are too many bytes.
    pub fn admit_heads(&self) -> Result<(), Http3Error> {
        let all: usize = self.readers.values().map(RequestReader::kept).sum();
        if all > HEADS { Err(Http3Error::ExcessiveLoad) } else { Ok(()) }
    }
}

/// Whether a request has no body if its stream ends behind its head, and such an end is likely.
fn may_be_whole(head: &RequestHead<'_>) -> bool {
    let is_unannounced =
        head.framing == Framing::Chunked && !head.expects_continue && head.protocol.is_none();
    let has_length = || head.fields.iter().any(|it| it.is("content-length"));
    is_unannounced && !matches!(head.method, "POST" | "PUT" | "PATCH") && !has_length()
}
