//! The effect of each frame of a client (RFC 9113 §5, §6, §8), and the reaction to protocol errors.

use super::connection::{BATCH, Block, FULL, GOAWAY_PING, GoawayState, Guard, Http2State, Shared};
use crate::ResponseWriter;
use crate::body::BodyPiece;
use crate::client::Client;
use crate::client_socket::ClientGone;
use crate::handler::{self, AnswerNow, Handler};
use crate::outbox::Outbox;
use crate::streams::{
    ClientStream, FloodKind, STREAM_WINDOW, StreamEnd, StreamReply, StreamRequestBody, StreamSide, wait,
};
use larder_wire::http2::frame::{
    self, Http2Frame, Http2Setting, MAX_SIZE, MAX_WINDOW, ParsedFrame, SettingsFrame,
};
use larder_wire::http2::hpack::Section;
use larder_wire::http2::{ErrorCode, PREFACE, head};
use larder_wire::message::{FieldStorage, Framing, HeadLimits, Reject, RequestHead};
use std::rc::Rc;

/// The most frames of one field section. Its size is limited as well; this limits frames without a byte.
const SECTION_FRAMES: u32 = 64;
/// The limit of requests in progress, including those of closed streams: this multiple of the permitted number of
/// streams.
const TASKS_PER_STREAM: usize = 4;

/// The way in which a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnded {
    /// The client is gone.
    Gone,
    /// All streams are answered, and GOAWAY was sent.
    Done,
    /// With this error.
    Broken(ErrorCode),
}

impl From<ErrorCode> for ConnectionEnded {
    fn from(code: ErrorCode) -> Self {
        ConnectionEnded::Broken(code)
    }
}

/// The common state of processing the frames of one read.
pub(super) struct FrameBatch<'a, H> {
    pub connection: &'a Shared,
    pub state: &'a mut Http2State,
    pub limits: &'a HeadLimits,
    pub client: &'a Client,
    pub handler: &'a Rc<H>,
    pub out: &'a mut Outbox,
    /// The arrival of the first byte of the current frame or section; 0 if that was in this read, or is not measured.
    pub began: u64,
}

impl<H: Handler> FrameBatch<'_, H> {
    /// Processes every complete frame of `bytes`.
    pub fn process_all(&mut self, bytes: &[u8], consumed: &mut usize) -> Result<(), ConnectionEnded> {
        if !self.state.has_preface {
            let length = bytes.len().min(PREFACE.len());
            if bytes[..length] != PREFACE[..length] {
                return Err(ConnectionEnded::Broken(ErrorCode::Protocol));
            }
            if length < PREFACE.len() {
                return Ok(());
            }
            self.state.has_preface = true;
            *consumed = length;
        }
        while let ParsedFrame::Frame(frame, length) = frame::parse(&bytes[*consumed..])? {
            *consumed += length;
            self.process(frame)?;
            self.began = 0;
            if self.out.len() >= FULL {
                self.state.is_unread = true;
                break;
            }
        }
        Ok(())
    }

    fn process(&mut self, frame: Http2Frame<'_>) -> Result<(), ConnectionEnded> {
        let is_settings = matches!(frame, Http2Frame::Settings(_));
        let goes_on = match (&self.state.block, frame) {
            (Some(block), Http2Frame::Continuation { stream, .. }) => block.stream == stream,
            (Some(_), _) | (None, Http2Frame::Continuation { .. }) => false,
            (None, _) => true,
        };
        if !goes_on || !(self.state.has_settings || is_settings) {
            return Err(ErrorCode::Protocol.into());
        }
        match frame {
            Http2Frame::Data { stream, data, flow, end_stream } => self.data(stream, data, flow, end_stream),
            Http2Frame::Headers { stream, block, end_stream, end_headers: true } => {
                self.section(stream, block, end_stream)
            }
            Http2Frame::Headers { stream, block, end_stream, .. } => {
                let began =
                    if self.began == 0 { self.connection.link.worker.arrival_micros() } else { self.began };
                let bytes = block.to_vec();
                self.state.block = Some(Block { stream, end_stream, bytes, frames: 1, began });
                Ok(())
            }
            Http2Frame::Continuation { block, end_headers, .. } => self.continuation(block, end_headers),
            Http2Frame::Reset { stream, .. } => self.reset_by_client(stream),
            Http2Frame::Settings(settings) => self.settings(settings),
            Http2Frame::Ping(data) => {
                frame::write_ping(data, true, self.out.text());
                self.count(FloodKind::Ping)
            }
            Http2Frame::WindowUpdate { stream, increment } => self.window_update(stream, increment),
            Http2Frame::Broken { stream, .. } if self.is_idle(stream) => Err(ErrorCode::Protocol.into()),
            Http2Frame::Broken { stream, code } => self.reset(stream, code, ClientGone::Malformed),
            Http2Frame::Priority { .. } | Http2Frame::Unknown => self.count(FloodKind::Nothing),
            Http2Frame::PingAck(GOAWAY_PING) if matches!(self.state.goaway, GoawayState::Announced(_)) => {
                self.state.goaway = GoawayState::Yes;
                frame::write_goaway(self.state.last, ErrorCode::None, self.out.text());
                Ok(())
            }
            Http2Frame::SettingsAck | Http2Frame::PingAck(_) | Http2Frame::GoAway { .. } => {
                self.count(FloodKind::Nothing)
            }
        }
    }

    fn count(&self, kind: FloodKind) -> Result<(), ConnectionEnded> {
        if self.state.floods.add(kind) { Err(ErrorCode::EnhanceYourCalm.into()) } else { Ok(()) }
    }

    /// Whether a stream is idle, or its number can never be used.
    fn is_idle(&self, stream: u32) -> bool {
        stream > self.state.last || stream % 2 == 0
    }

    /// The reaction to a frame of a closed, unknown stream: none if larder ended it.
    fn frame_of_closed(&self, stream: u32) -> Result<(), ConnectionEnded> {
        if self.state.ended_streams.contains(&stream) {
            Ok(())
        } else if stream % 2 == 1 && (self.state.first_consecutive..=self.state.last).contains(&stream) {
            Err(ErrorCode::StreamClosed.into())
        } else {
            Err(ErrorCode::Protocol.into())
        }
    }

    /// The reaction to a frame of a stream that has ended, and whose task does not know yet.
    fn frame_of_ended(&mut self, stream: &ClientStream) -> Result<(), ConnectionEnded> {
        if !stream.body.borrow().is_whole {
            return Ok(()); // We ended it, and the client does not know either.
        }
        self.reset(stream.id, ErrorCode::StreamClosed, ClientGone::Malformed)
    }

    /// Resets a stream because of the client.
    fn reset(&mut self, id: u32, code: ErrorCode, why: ClientGone) -> Result<(), ConnectionEnded> {
        frame::write_reset(id, code, self.out.text());
        if let Some(stream) = self.state.streams.get(&id).cloned() {
            if !stream.body.borrow().is_whole {
                self.state.remember_ended(id);
            }
            self.give_up(&stream, why);
        }
        self.count(FloodKind::Reset)
    }

    /// Ends reading and writing on a stream; its unread bytes become credit of the connection again.
    fn give_up(&mut self, stream: &ClientStream, why: ClientGone) {
        let unread = stream.close(why);
        self.return_credit(unread);
    }

    fn data(&mut self, id: u32, data: &[u8], flow: u32, end_stream: bool) -> Result<(), ConnectionEnded> {
        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        self.state.credit -= i64::from(flow);
        if self.state.credit < 0 {
            return Err(ErrorCode::FlowControl.into());
        }
        // Padding alone uses credit that is returned at once.
        if data.is_empty() && !end_stream {
            self.count(FloodKind::Nothing)?;
        }
        let Some(stream) = self.state.streams.get(&id).cloned() else {
            self.return_credit(flow);
            return self.frame_of_closed(id);
        };
        if stream.gone.get().is_some() {
            self.return_credit(flow);
            return self.frame_of_ended(&stream);
        }
        if stream.body.borrow().is_refused_with(data.len()) {
            self.connection.link.worker.counters.unread_bodies.add(1);
            self.return_credit(flow);
            let code = match stream.body.borrow().is_unread() {
                true => ErrorCode::RefusedStream,
                false => ErrorCode::EnhanceYourCalm,
            };
            return self.reset(id, code, ClientGone::Closed);
        }
        match self.take_data(&stream, data, flow, end_stream) {
            Ok(()) => Ok(()),
            Err(code) => {
                self.connection.link.worker.counters.requests_rejected.add(1);
                self.reset(id, code, ClientGone::Malformed)
            }
        }
    }

    /// Returns the credit of bytes that will not be read.
    fn return_credit(&mut self, flow: u32) {
        if let Some(due) = self.state.credit_due(flow) {
            frame::write_window_update(0, due, self.out.text());
        }
    }

    fn take_data(
        &mut self,
        stream: &ClientStream,
        data: &[u8],
        flow: u32,
        end: bool,
    ) -> Result<(), ErrorCode> {
        let length = data.len() as u64;
        let body = &mut *stream.body.borrow_mut();
        let padding = flow - u32::try_from(data.len()).unwrap_or(flow);
        let mut unused = padding;
        if body.is_whole {
            return Err(ErrorCode::StreamClosed);
        }
        body.received += length;
        body.window -= i64::from(flow);
        if body.window < 0 {
            return Err(ErrorCode::FlowControl);
        }
        if let Some(left) = &mut body.remaining {
            *left = left.checked_sub(length).ok_or(ErrorCode::Protocol)?;
        }
        if body.refused.is_some() {
            unused = flow;
        } else if let Some(room) = body.remaining_limit.checked_sub(length) {
            body.remaining_limit = room;
            body.bytes.extend(data);
        } else {
            self.connection.link.worker.counters.body_too_large.add(1);
            body.refused = Some(ClientGone::TooLarge);
            unused = flow;
        }
        body.awaits_continue &= data.is_empty();
        if end {
            if body.remaining.is_some_and(|it| it > 0) {
                return Err(ErrorCode::Protocol);
            }
            body.is_whole = true;
        }
        // Padding is never read: its credit is due with or without data (RFC 9113 §6.9.1).
        if let Some(due) = body.credit_due(padding) {
            frame::write_window_update(stream.id, due, self.out.text());
        }
        self.return_credit(unused);
        stream.wake();
        Ok(())
    }

    fn continuation(&mut self, block: &[u8], end_headers: bool) -> Result<(), ConnectionEnded> {
        let Some(mut whole) = self.state.block.take() else { return Err(ErrorCode::Protocol.into()) };
        whole.bytes.extend_from_slice(block);
        whole.frames += 1;
        // A compressed section may not be larger than an uncompressed one.
        if whole.bytes.len() > self.limits.head + MAX_SIZE || whole.frames > SECTION_FRAMES {
            return Err(ErrorCode::EnhanceYourCalm.into());
        }
        if end_headers {
            self.began = whole.began;
            return self.section(whole.stream, &whole.bytes, whole.end_stream);
        }
        self.state.block = Some(whole);
        Ok(())
    }

    /// A complete field section: a request, or its trailers.
    fn section(&mut self, id: u32, block: &[u8], end_stream: bool) -> Result<(), ConnectionEnded> {
        let worker = self.connection.link.worker.clone();
        let section = &mut *worker.section.borrow_mut();
        section.begin(self.limits.head);
        self.state.decoder.decode(block, section)?;
        if id % 2 == 0 {
            return Err(ErrorCode::Protocol.into());
        }
        if id > self.state.last {
            return self.request(id, section, end_stream);
        }
        let Some(stream) = self.state.streams.get(&id).cloned() else { return self.frame_of_closed(id) };
        if stream.gone.get().is_some() {
            return self.frame_of_ended(&stream);
        }
        if stream.body.borrow().is_whole {
            return self.reset(id, ErrorCode::StreamClosed, ClientGone::Malformed);
        }
        let is_short = stream.body.borrow().remaining.is_some_and(|it| it > 0);
        match head::trailers(section) {
            // In a tunnel no field section is permitted (RFC 9113 §8.5).
            Ok(list) if end_stream && !is_short && !stream.is_tunnel => {
                let mut body = stream.body.borrow_mut();
                body.trailers = (!list.is_empty()).then_some(list);
                body.is_whole = true;
                drop(body);
                stream.wake();
                Ok(())
            }
            _ => {
                worker.counters.requests_rejected.add(1);
                self.reset(id, ErrorCode::Protocol, ClientGone::Malformed)
            }
        }
    }

    fn request(&mut self, id: u32, section: &Section, end_stream: bool) -> Result<(), ConnectionEnded> {
        let state = &mut *self.state;
        let next = if state.last == 0 { 1 } else { state.last.saturating_add(2) };
        if id != next {
            state.first_consecutive = id;
        }
        state.last = id;
        state.had_request = true;
        if !end_stream {
            state.remember_ended(id); // Until it is known.
        }
        let worker = self.connection.link.worker.clone();
        let is_full = state.has_open(worker.limits().http2_streams as usize);
        if state.goaway == GoawayState::Yes || is_full {
            if is_full {
                worker.counters.http2_streams_refused.add(1);
            }
            return self.reset(id, ErrorCode::RefusedStream, ClientGone::Closed);
        }
        let mut storage = FieldStorage::new();
        match head::parse(section, end_stream, self.limits, &mut storage) {
            Ok(head) if head.protocol.is_some() && !self.connection.offers_upgrades => {
                self.refuse(id, Reject::Pseudo, end_stream)
            }
            Ok(head) => self.begin(id, &head, end_stream),
            Err(reject) => self.refuse(id, reject, end_stream),
        }
    }

    /// Answers a request at once, or starts a task for it.
    fn begin(&mut self, id: u32, head: &RequestHead<'_>, end_stream: bool) -> Result<(), ConnectionEnded> {
        let worker = &self.connection.link.worker;
        worker.counters.requests.add(1);
        worker.counters.http2_requests.add(1);
        if head.framing == Framing::Empty && head.protocol.is_none() {
            // A part that would make this write too long waits for the next one, in its stream.
            let room = BATCH.saturating_sub(self.out.len()).cast_signed();
            let window = self.state.window.min(self.state.first_window).min(room);
            let answer = ResponseWriter::http2(id, window, &mut self.state.encoder, self.out);
            let mut answer = answer.informing(self.client);
            self.client.began.set(self.began);
            if self.handler.answer_now(head, self.client, &mut answer) == AnswerNow::Answered {
                let (sent, rest) = answer.into_rest();
                self.send_rest(id, sent, rest);
                return Ok(());
            }
            answer.take_back();
        }
        // Work of reset streams continues, mostly at origins: hits do not wait for that.
        if self.state.streams.len() >= TASKS_PER_STREAM * worker.limits().http2_streams as usize {
            worker.counters.http2_streams_refused.add(1);
            return self.reset(id, ErrorCode::RefusedStream, ClientGone::Closed);
        }
        if head.protocol.is_some() {
            self.connection.link.watched.clear_read_deadline(); // It is not this client that makes room.
        }
        if !end_stream {
            self.state.ended_streams.pop_back();
        }
        let request = Rc::new(head.to_owned());
        let room = worker.limits().body_size;
        let is_head = head.method == "HEAD";
        let credit = i64::from(STREAM_WINDOW);
        let stream = Rc::new(ClientStream::new(
            id,
            self.state.first_window,
            credit,
            Some(&request),
            room,
            &worker.unread,
        ));
        stream.body.borrow_mut().is_whole |= end_stream;
        self.state.streams.insert(id, stream.clone());
        self.connection.link.watched.reserve_descriptor();
        worker.leave_for_request(&self.connection.link.watched);
        let (handler, client) = (self.handler.clone(), self.client.clone());
        // Further requests of this read may come before the task runs.
        client.began.set(if self.began == 0 { worker.arrival_micros() } else { self.began });
        let guard = Guard { connection: self.connection.clone(), stream };
        tokio::task::spawn_local(async move {
            let (connection, stream) = (&guard.connection, &guard.stream);
            let _permit = match stream.is_tunnel {
                false => None,
                true => match connection.link.worker.permit_for_tunnel().await {
                    None => {
                        return connection.end_stream(stream, ErrorCode::RefusedStream, ClientGone::Closed);
                    }
                    place => place,
                },
            };
            let body = StreamRequestBody::new(connection.clone(), stream.clone());
            let reply = StreamReply::new(connection.clone(), stream.clone(), is_head);
            let rest = StreamRequestBody::new(connection.clone(), stream.clone());
            let (body, reply) =
                (handler::RequestBody::streams(body), handler::Reply::streams(reply).informing(&client));
            handler.answer(request, &client, body, reply).await;
            rest.drain().await;
        });
        Ok(())
    }

    /// Counts the sent part of an answer, and queues the rest.
    fn send_rest(&mut self, id: u32, sent: u64, rest: Option<BodyPiece>) {
        let state = &mut *self.state;
        state.window -= sent.cast_signed();
        if sent > 0 {
            state.floods.sent_data();
        }
        let Some(rest) = rest else { return };
        let window = state.first_window - sent.cast_signed();
        let stream = Rc::new(ClientStream::new(id, window, 0, None, 0, &self.connection.link.worker.unread));
        stream.push(rest);
        *stream.end.borrow_mut() = StreamEnd::Last;
        state.streams.insert(id, stream.clone());
        stream.is_ready.set(true);
        state.ready.push_back(stream.clone());
        let guard = Guard { connection: self.connection.clone(), stream };
        tokio::task::spawn_local(async move {
            let stream = &guard.stream;
            let _ = wait(&*guard.connection, stream, StreamSide::Takes, || stream.is_answered()).await;
        });
    }

    /// A malformed request resets its stream; a request rejected for another reason gets a response.
    fn refuse(&mut self, id: u32, reject: Reject, end_stream: bool) -> Result<(), ConnectionEnded> {
        let counters = &self.connection.link.worker.counters;
        counters.requests_rejected.add(1);
        match reject {
            Reject::HeadTooLarge => counters.head_too_large.add(1),
            Reject::TargetTooLong => counters.target_too_long.add(1),
            _ => {}
        }
        if reject.status() == 400 {
            self.handler.rejected(reject, self.client, 0);
            return self.reset(id, ErrorCode::Protocol, ClientGone::Malformed);
        }
        let page = self.handler.refusal(reject.status(), reject.sentence()).with("Cache-Control", "no-store");
        self.handler.rejected(reject, self.client, page.length());
        let window = self.state.window.min(self.state.first_window);
        let mut answer = ResponseWriter::http2(id, window, &mut self.state.encoder, self.out);
        page.write_now("GET", &mut answer);
        let (sent, rest) = answer.into_rest();
        let is_sent = rest.is_none();
        self.send_rest(id, sent, rest);
        if end_stream || !is_sent {
            return Ok(());
        }
        frame::write_reset(id, ErrorCode::None, self.out.text());
        self.count(FloodKind::Reset)
    }

    fn reset_by_client(&mut self, id: u32) -> Result<(), ConnectionEnded> {
        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        if let Some(stream) = self.state.streams.get(&id).cloned() {
            if stream.gone.get().is_none() && !stream.is_answered() {
                self.connection.link.worker.counters.client_aborts.add(1);
            }
            stream.body.borrow_mut().is_whole = true;
            self.give_up(&stream, ClientGone::Closed);
        }
        self.count(FloodKind::Reset)
    }

    /// Streams get the sum of all changes of their window in one pass: a frame of 16 KiB has room for 2,730 changes.
    fn settings(&mut self, settings: SettingsFrame<'_>) -> Result<(), ConnectionEnded> {
        self.state.has_settings = true;
        let (mut last, mut largest) = (self.state.first_window, self.state.first_window);
        for it in settings.iter() {
            match it? {
                Http2Setting::InitialWindowSize(size) => {
                    last = i64::from(size);
                    largest = largest.max(last);
                }
                Http2Setting::HeaderTableSize(size) => self.state.encoder.set_limit(size),
                _ => {}
            }
        }
        if largest != last || last != self.state.first_window {
            self.change_first_window(last, largest)?;
        }
        frame::write_settings_ack(self.out.text());
        self.count(FloodKind::Settings)
    }

    /// Changes the window of every stream by the difference of initial windows, of which none may exceed the maximum, `largest` in
    /// between included (RFC 9113 §6.9.2).
    fn change_first_window(&mut self, size: i64, largest: i64) -> Result<(), ErrorCode> {
        let before = std::mem::replace(&mut self.state.first_window, size);
        let streams: Vec<_> = self.state.streams.values().cloned().collect();
        for stream in streams {
            if stream.window.get() + largest - before > i64::from(MAX_WINDOW) {
                return Err(ErrorCode::FlowControl);
            }
            self.change_window(&stream, size - before)?;
        }
        Ok(())
    }

    fn window_update(&mut self, id: u32, increment: u32) -> Result<(), ConnectionEnded> {
        self.count(FloodKind::WindowUpdate)?;
        if id == 0 {
            self.state.window += i64::from(increment);
            let is_too_large = self.state.window > i64::from(MAX_WINDOW);
            return if is_too_large { Err(ErrorCode::FlowControl.into()) } else { Ok(()) };
        }
        if self.is_idle(id) {
            return Err(ErrorCode::Protocol.into());
        }
        match self.state.streams.get(&id).cloned() {
            Some(stream) if stream.gone.get().is_none() => {
                if self.change_window(&stream, i64::from(increment)).is_err() {
                    return self.reset(id, ErrorCode::FlowControl, ClientGone::Malformed);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Changes the window of a stream.
    fn change_window(&mut self, stream: &Rc<ClientStream>, by: i64) -> Result<(), ErrorCode> {
        stream.window.set(stream.window.get() + by);
        if stream.window.get() > i64::from(MAX_WINDOW) {
            return Err(ErrorCode::FlowControl);
        }
        if stream.has_work() && !stream.is_ready.replace(true) {
            self.state.ready.push_back(stream.clone());
        }
        Ok(())
    }
}
