//! Requests in early data (0-RTT): they arrive before the end of the handshake, may be a replay, and their address may not be their
//! client's (RFC 9001 §9.2, RFC 8470). A GET or HEAD that is answered at the fast speed, by a route without any condition, is
//! answered at once: that changes nothing. Every other request waits for the end of the handshake, which only the client itself
//! can complete; so none is sent to an origin early, and none gets a 425.

use super::connection::Http3Connection;
use super::requests::ReadChunk;
use crate::ResponseWriter;
use crate::handler::{AnswerNow, Handler};
use larder_semantics::scheme::Scheme;
use larder_wire::http3::frame::{FrameStream, Http3Frame, Http3FrameReader};
use larder_wire::http3::{Http3Error, head, qpack};
use larder_wire::message::{FieldStorage, Framing, HeadLimits, RequestHead};
use std::rc::Rc;

/// The bytes of a request that are kept before the end of the handshake: then QUIC keeps them.
const MOST: usize = 32 * 1024;

/// The bytes of a request before the end of the handshake.
#[derive(Default)]
pub(super) struct EarlyBytes {
    bytes: Vec<u8>,
    /// Whether nothing follows.
    is_whole: bool,
}

impl EarlyBytes {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl Http3Connection {
    /// Keeps the available bytes of a request, and tries to answer it when it is complete.
    pub fn read_early<H: Handler>(self: &Rc<Self>, index: u32, handler: &Rc<H>) -> Result<(), Http3Error> {
        loop {
            match self.state.borrow().readers.get(&index) {
                Some(it) if it.early.len() < MOST && !it.early.is_whole => {}
                _ => return Ok(()),
            }
            match self.read_chunk(index) {
                ReadChunk::Bytes(bytes) => {
                    let state = &mut *self.state.borrow_mut();
                    let Some(reader) = state.readers.get_mut(&index) else { return Ok(()) };
                    reader.early.bytes.extend_from_slice(&bytes);
                    state.admit_heads()?;
                }
                ReadChunk::End => {
                    if let Some(reader) = self.state.borrow_mut().readers.get_mut(&index) {
                        reader.early.is_whole = true;
                    }
                    self.answer_early(index, handler);
                }
                ReadChunk::Blocked | ReadChunk::Over => return Ok(()),
                ReadChunk::Reset => return self.reset_by_client(index),
            }
        }
    }

    /// Answers a request whose answer changes nothing.
    fn answer_early<H: Handler>(self: &Rc<Self>, index: u32, handler: &Rc<H>) {
        let bytes = self.state.borrow().readers.get(&index).map(|it| it.early.bytes.clone());
        let Some(bytes) = bytes else { return };
        let worker = &self.worker;
        let limits = worker.limits();
        let mut frames = Http3FrameReader::new(FrameStream::Request, limits.head_size);
        let mut rest = &*bytes;
        // Errors and all other forms are for the end of the handshake.
        let (Ok(Some(Http3Frame::Headers(block))), true) = (frames.read(&mut rest), rest.is_empty()) else {
            return;
        };
        let limits = HeadLimits { head: limits.head_size, target: limits.target_size, scheme: Scheme::Https };
        let section = &mut *worker.section.borrow_mut();
        section.begin(limits.head);
        let mut storage = FieldStorage::new();
        if qpack::decode(&block, section).is_err() {
            return;
        }
        let Some(head) = head::parse(section, true, &limits, &mut storage).ok().filter(is_safe) else {
            return;
        };
        let client = self.described();
        let mut out = self.endpoint_waker.scratch.borrow_mut();
        let mut answer = ResponseWriter::http3(&mut out);
        if handler.answer_early(&head, &client, &mut answer) == AnswerNow::Later {
            return answer.take_back();
        }
        let (_, rest) = answer.into_rest();
        worker.counters.requests.add(1);
        worker.counters.http3_requests.add(1);
        worker.counters.http3_early.add(1);
        self.state.borrow_mut().readers.remove(&index);
        self.send_answer(index, &mut out, rest);
    }

    /// Begins the requests that waited for the end of the handshake.
    pub fn begin_early<H: Handler>(self: &Rc<Self>, handler: &Rc<H>) -> Result<(), Http3Error> {
        let waiting: Vec<u32> = self.state.borrow().readers.keys().copied().collect();
        for index in waiting {
            let early =
                self.state.borrow_mut().readers.get_mut(&index).map(|it| std::mem::take(&mut it.early));
            let Some(early) = early else { continue };
            self.request_bytes(index, &early.bytes, handler)?;
            match early.is_whole {
                true => self.request_ends(index, handler)?,
                false => self.read_request(index, handler)?,
            }
        }
        Ok(())
    }
}

/// Whether a request without a body has a safe method that larder implements (RFC 9110 §9.2.1).
fn is_safe(head: &RequestHead<'_>) -> bool {
    matches!(head.method, "GET" | "HEAD") && head.framing == Framing::Empty && head.protocol.is_none()
}
