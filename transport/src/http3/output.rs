//! Output of streams: heads in order, pieces of bodies as DATA frames, as far as QUIC takes them. The rest stays in its source.

use super::code;
use super::connection::Http3Connection;
use crate::body::{BodyPiece, FileSlice, FileWritableBy};
use crate::client_socket::ClientGone;
use crate::streams::{ClientStream, StreamEnd};
use bytes::Bytes;
use larder_wire::http2::frame::EndFlag;
use larder_wire::http3::frame::{begin_headers, end_headers, write_data_header};
use larder_wire::http3::{Http3Error, qpack};
use quinn_proto::{Dir, SendStream, StreamId, WriteError};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of a stream that are passed on before other streams have their turn.
const PART: u64 = 64 * 1024;
/// Bytes of a file that are copied at once.
const READ: usize = 64 * 1024;
/// Bytes of a connection that are passed on in one turn.
const TURN: u64 = 512 * 1024;

/// Bytes for a stream that QUIC has not taken yet.
#[derive(Default)]
pub(super) struct StreamOutput {
    /// Frames and heads of frames.
    raw: VecDeque<Bytes>,
    /// Bytes that are left of the DATA frame whose head was written.
    frame_left: u64,
    /// Whether QUIC takes no more until it says so.
    is_blocked: bool,
    /// Whether the stream ends after these bytes.
    ends: bool,
    /// The number of looks at the connection since it was queued.
    pub checks: u32,
}

/// The result of passing bytes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameOutcome {
    /// This many bytes.
    Some(u64),
    /// QUIC takes none now.
    Blocked,
    /// The client does not want them, or the source is broken.
    Failed(Http3Error),
}

impl Http3Connection {
    /// Queues bytes for a stream.
    pub fn queue(&self, index: u32, bytes: Bytes, end: EndFlag) {
        let mut state = self.state.borrow_mut();
        if state.is_closed {
            return;
        }
        let output = state.outputs.entry(index).or_default();
        output.raw.push_back(bytes);
        output.ends |= end == EndFlag::Stream;
        state.flush.push_back(index);
        drop(state);
        self.wake();
    }

    /// QUIC takes bytes of a stream again.
    pub fn writable(&self, id: StreamId) {
        let mut state = self.state.borrow_mut();
        if id.dir() == Dir::Uni {
            return state.uni.is_blocked = false;
        }
        let index = Self::index(id);
        if let Some(output) = state.outputs.get_mut(&index) {
            output.is_blocked = false;
            state.flush.push_back(index);
        }
        let stream = state.streams.get(&index).cloned();
        if let Some(stream) = stream
            && stream.has_work()
            && !stream.is_ready.replace(true)
        {
            state.ready.push_back(stream);
        }
    }

    /// Passes output to QUIC, a part of each stream in turn.
    pub fn collect(&self) {
        self.flush_control();
        let flush = std::mem::take(&mut self.state.borrow_mut().flush);
        for index in flush {
            if let FrameOutcome::Failed(reset) = self.flush(index) {
                self.end_stream(index, reset, ClientGone::Closed);
            }
        }
        let mut moved = 0;
        loop {
            if moved >= TURN {
                return self.wake();
            }
            let stream = self.state.borrow_mut().ready.pop_front();
            let Some(stream) = stream else { return };
            match self.send_part(&stream) {
                FrameOutcome::Some(count) => {
                    moved += count;
                    if stream.has_work() {
                        self.state.borrow_mut().ready.push_back(stream);
                    } else {
                        stream.is_ready.set(false);
                    }
                }
                FrameOutcome::Blocked => stream.is_ready.set(false),
                FrameOutcome::Failed(reset) => {
                    stream.is_ready.set(false);
                    self.end_stream(stream.id, reset, ClientGone::Closed);
                }
            }
        }
    }

    /// Passes on queued heads of a stream, and its end.
    fn flush(&self, index: u32) -> FrameOutcome {
        let mut state = self.state.borrow_mut();
        let Some(output) = state.outputs.get_mut(&index) else { return FrameOutcome::Some(0) };
        if output.is_blocked {
            return FrameOutcome::Blocked;
        }
        let mut quic = self.quic.borrow_mut();
        let mut stream = quic.send_stream(Self::id(index));
        match output.pass(&mut stream) {
            FrameOutcome::Some(count) => {
                if output.ends {
                    let _ = stream.finish();
                }
                if output.ends || output.frame_left == 0 {
                    state.outputs.remove(&index);
                }
                FrameOutcome::Some(count)
            }
            FrameOutcome::Blocked => FrameOutcome::Blocked,
            FrameOutcome::Failed(reset) => {
                state.outputs.remove(&index);
                FrameOutcome::Failed(reset)
            }
        }
    }

    /// Some output of a stream: the bytes queued before it, a part of its body, or its end.
    fn send_part(&self, stream: &Rc<ClientStream>) -> FrameOutcome {
        let index = stream.id;
        match self.flush(index) {
            FrameOutcome::Some(_) => {}
            other => return other,
        }
        if stream.queued.get() > 0 {
            let passed = self.send_body(stream);
            stream.wake();
            return passed;
        }
        let ending = std::mem::replace(&mut *stream.end.borrow_mut(), StreamEnd::Open);
        let bytes = match ending {
            StreamEnd::Open => return FrameOutcome::Some(0),
            StreamEnd::Last => Bytes::new(),
            StreamEnd::Trailers(list) => {
                let mut out = Vec::new();
                let at = begin_headers(&mut out);
                list.iter().for_each(|it| qpack::encode::field(it.name.as_bytes(), it.value, &mut out));
                end_headers(at, &mut out);
                out.into()
            }
            StreamEnd::Sent => Bytes::new(),
        };
        *stream.end.borrow_mut() = StreamEnd::Sent;
        self.queue(index, bytes, EndFlag::Stream);
        let passed = self.flush(index);
        stream.wake();
        if let FrameOutcome::Failed(_) = passed { passed } else { FrameOutcome::Some(0) }
    }

    fn send_body(&self, stream: &ClientStream) -> FrameOutcome {
        let mut state = self.state.borrow_mut();
        let mut quic = self.quic.borrow_mut();
        let mut to = quic.send_stream(Self::id(stream.id));
        let output = state.outputs.entry(stream.id).or_default();
        let Some(piece) = stream.queue.borrow().front().cloned() else { return FrameOutcome::Some(0) };
        if output.frame_left == 0 {
            let mut head = Vec::with_capacity(9);
            write_data_header(piece.len(), &mut head);
            output.raw.push_back(head.into());
            output.frame_left = piece.len();
            match output.pass(&mut to) {
                FrameOutcome::Some(_) => {}
                other => return other,
            }
        }
        let most = output.frame_left.min(piece.len()).min(PART);
        let passed = pass_piece(&piece, most, &mut to);
        match passed {
            FrameOutcome::Some(count) => {
                output.frame_left -= count;
                drop(stream.take(count));
                stream.sent.set(stream.sent.get() + count);
                if output.frame_left == 0 {
                    state.outputs.remove(&stream.id);
                }
            }
            FrameOutcome::Blocked => output.is_blocked = true,
            FrameOutcome::Failed(_) => {}
        }
        passed
    }

    /// An answer at the fast speed: `text` has its frames, except for `rest`.
    pub fn answer(&self, index: u32, text: &[u8], is_last: bool) {
        let written = {
            let mut quic = self.quic.borrow_mut();
            let mut to = quic.send_stream(Self::id(index));
            let written = to.write(text).unwrap_or(0);
            if is_last && written == text.len() {
                let _ = to.finish();
            }
            written
        };
        if written < text.len() {
            let end = if is_last { EndFlag::Stream } else { EndFlag::Open };
            self.queue(index, Bytes::copy_from_slice(&text[written..]), end);
        }
    }

    /// Rejects a request that was not processed.
    pub fn reject(&self, index: u32) {
        let mut quic = self.quic.borrow_mut();
        let _ = quic.send_stream(Self::id(index)).reset(code(Http3Error::RequestRejected));
        let _ = quic.recv_stream(Self::id(index)).stop(code(Http3Error::RequestRejected));
    }
}

impl StreamOutput {
    /// Passes the queued bytes on; `Some` if all of them are.
    fn pass(&mut self, to: &mut SendStream<'_>) -> FrameOutcome {
        let mut sum = 0;
        while let Some(first) = self.raw.front_mut() {
            if first.is_empty() {
                self.raw.pop_front();
                continue;
            }
            match to.write_chunks(std::slice::from_mut(first)) {
                Ok(written) => sum += written.bytes as u64,
                Err(WriteError::Blocked) => {
                    self.is_blocked = true;
                    return FrameOutcome::Blocked;
                }
                Err(_) => return FrameOutcome::Failed(Http3Error::RequestCancelled),
            }
        }
        FrameOutcome::Some(sum)
    }
}

/// Passes up to `most` bytes of a piece on.
fn pass_piece(piece: &BodyPiece, most: u64, to: &mut SendStream<'_>) -> FrameOutcome {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let written = match piece {
        BodyPiece::Bytes(bytes) => {
            let mut part = [bytes.slice(..most.min(bytes.len()))];
            to.write_chunks(&mut part).map(|it| it.bytes)
        }
        BodyPiece::File(slice) => match pass_file(slice, most.min(READ), to) {
            Some(written) => written,
            None => {
                slice.owner.failed();
                return FrameOutcome::Failed(Http3Error::Internal);
            }
        },
    };
    match written {
        Ok(count) => FrameOutcome::Some(count as u64),
        Err(WriteError::Blocked) => FrameOutcome::Blocked,
        Err(_) => FrameOutcome::Failed(Http3Error::RequestCancelled),
    }
}

/// Copies a part of a file; `None` if it has changed or cannot be read.
fn pass_file(slice: &FileSlice, most: usize, to: &mut SendStream<'_>) -> Option<Result<usize, WriteError>> {
    let owner = &slice.owner;
    match owner.kept() {
        FileWritableBy::Ours if !owner.is_intact() => None,
        FileWritableBy::Ours => match owner.mapped(slice.offset, most as u64) {
            Some(bytes) => Some(to.write(bytes)),
            None => lent(slice, most, to),
        },
        FileWritableBy::Checked => lent(slice, most, to),
        FileWritableBy::Theirs => {
            let mut bytes = Vec::with_capacity(most);
            let room = rustix::buffer::spare_capacity(&mut bytes);
            let count = rustix::io::pread(owner.fd(), room, slice.offset).ok()?;
            bytes.truncate(most);
            if count == 0 || !owner.holds(slice.offset, &bytes) {
                return None;
            }
            Some(to.write(&bytes))
        }
    }
}

fn lent(slice: &FileSlice, most: usize, to: &mut SendStream<'_>) -> Option<Result<usize, WriteError>> {
    let mut written = None;
    let lent = slice.owner.lend(slice.offset, most, &mut |bytes| {
        written = Some(to.write(&bytes[..bytes.len().min(most)]));
    });
    lent.ok().and(written)
}
