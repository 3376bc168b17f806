//! Writes the response to one request, over its stream. A slow client stops only its own response: at most 32 KiB of a stream and
//! 512 KiB of a connection wait for it.

use super::StreamsLink;
use super::stream::{ClientStream, StreamEnd};
use super::tunnel::StreamTunnel;
use super::waiting::{StreamSide, wait};
use crate::body::BodyPiece;
use crate::body_length::{BodyRest, ResponseBody};
use crate::client_demand::ClientDemand;
use crate::client_socket::ClientGone;
use larder_semantics::field::FieldList;
use larder_wire::http2::frame::EndFlag;
use larder_wire::message::fields::is_allowed_trailer;
use std::rc::Rc;

/// The most bytes of a stream that wait for its client; with more, the task of the stream waits, too.
const MAX_BUFFERED_PER_STREAM: u64 = 32 * 1024;
/// The least limit of a stream where many share [`MAX_BUFFERED`].
const MIN_BUFFERED_PER_STREAM: u64 = 4 * 1024;
/// The most bytes of all streams of a connection that wait for the client; each stream has an equal share.
const MAX_BUFFERED: u64 = 512 * 1024;
/// The most bytes that are fetched ahead for the streams of a connection.
const MAX_AHEAD: u64 = 2 * 1024 * 1024;

/// Writes the response to one request.
pub(crate) struct StreamReply {
    connection: Rc<dyn StreamsLink>,
    stream: Rc<ClientStream>,
    is_head: bool,
    rest: BodyRest,
    body: u64,
}

impl StreamReply {
    pub(crate) fn new(connection: Rc<dyn StreamsLink>, stream: Rc<ClientStream>, is_head: bool) -> Self {
        Self { connection, stream, is_head, rest: BodyRest::NotStarted, body: 0 }
    }

    /// Fails if the client is gone.
    pub fn check(&self) -> Result<(), ClientGone> {
        self.stream.gone.get().map_or(Ok(()), Err)
    }

    /// Sends a 1xx response other than 101; a 100 only to a client that expects one.
    ///
    /// # Errors
    /// The client is gone.
    pub fn interim(&mut self, status: u16, fields: &FieldList) -> Result<(), ClientGone> {
        if self.started() || !matches!(status, 100 | 102..=199) {
            return Ok(());
        }
        self.check()?;
        if status == 100 && !std::mem::take(&mut self.stream.body.borrow_mut().awaits_continue) {
            return Ok(()); // It does not wait for one, or has had it.
        }
        self.connection.write_head(&self.stream, status, &mut fields.iter(), None, EndFlag::Open);
        Ok(())
    }

    /// Sends the final head; later calls have no effect. `fields` are end-to-end fields only; the length is taken from `body`.
    ///
    /// # Errors
    /// The client is gone, or the response would accept an extended CONNECT.
    pub fn head(&mut self, status: u16, fields: &FieldList, body: ResponseBody) -> Result<(), ClientGone> {
        if self.started() {
            return Ok(());
        }
        self.check()?;
        // From any source: the client would interpret it as an accepted protocol (RFC 9110 §9.3.6).
        if self.stream.is_tunnel && (200..300).contains(&status) {
            return Err(ClientGone::Closed);
        }
        self.rest = BodyRest::of(status, body);
        let length = match self.rest {
            BodyRest::Length(length) => Some(length),
            _ => None,
        };
        // A lone Content-Length without a body is that of the body for GET (RFC 9110 §8.6).
        let is_framed = self.rest != BodyRest::None;
        if self.is_head || length == Some(0) {
            self.rest = BodyRest::None;
        }
        let mut kept = fields.iter().filter(|it| !is_framed || !it.is("content-length"));
        let end = if self.rest == BodyRest::None { EndFlag::Stream } else { EndFlag::Open };
        self.connection.write_head(&self.stream, status, &mut kept, length, end);
        self.stream.has_answer.set(true);
        if end == EndFlag::Stream {
            *self.stream.end.borrow_mut() = StreamEnd::Sent;
        }
        Ok(())
    }

    /// Queues a piece of the body, and waits while more than the limit of the stream is queued.
    ///
    /// # Errors
    /// The client is gone, or took nothing for its time limit.
    pub async fn push_body(&mut self, piece: BodyPiece) -> Result<(), ClientGone> {
        let length = piece.len();
        if !self.rest.takes(length)? {
            return Ok(());
        }
        self.check()?;
        self.stream.push(piece);
        if self.rest == BodyRest::Length(0) {
            *self.stream.end.borrow_mut() = StreamEnd::Last;
        }
        self.body += length;
        self.connection.has_work(&self.stream);
        let (stream, limit) = (&self.stream, self.buffer_limit());
        wait(&*self.connection, stream, StreamSide::Takes, || stream.queued.get() <= limit).await
    }

    /// Waits until little output is left; then returns the amount that the windows and the socket permit, and a little
    /// more, so that the stream does not run dry.
    pub async fn demand(&self) -> Result<ClientDemand, ClientGone> {
        let (stream, limit) = (&self.stream, self.buffer_limit());
        wait(&*self.connection, stream, StreamSide::Takes, || stream.queued.get() <= limit / 2).await?;
        let now = self.connection.sendable_bytes(stream).max(limit - stream.queued.get());
        Ok(ClientDemand { now, ahead: self.buffer_share(MAX_AHEAD) })
    }

    /// This stream's share of an amount for the whole connection.
    fn buffer_share(&self, all: u64) -> u64 {
        all / self.connection.count().max(1)
    }

    /// Bytes that may wait for the client: fewer for clients with more simultaneous requests.
    fn buffer_limit(&self) -> u64 {
        self.buffer_share(MAX_BUFFERED).clamp(MIN_BUFFERED_PER_STREAM, MAX_BUFFERED_PER_STREAM)
    }

    /// Returns when the client gives the stream up.
    pub async fn gone(&self) {
        self.stream.until_closed().await;
    }

    /// Accepts an extended CONNECT with these fields; the stream carries the bytes of the tunnel from now on.
    ///
    /// # Errors
    /// The client is gone, the stream is no tunnel, or its response has begun.
    pub fn switch(&mut self, fields: &FieldList) -> Result<StreamTunnel, ClientGone> {
        self.check()?;
        if !self.stream.is_tunnel || self.started() {
            return Err(ClientGone::Closed);
        }
        self.rest = BodyRest::None;
        Ok(StreamTunnel::begin(&self.connection, &self.stream, fields))
    }

    /// Ends the response, with `trailers` if its length was not announced; returns when its last byte has been sent.
    ///
    /// # Errors
    /// The client is gone, or bytes of the announced length are missing.
    pub async fn finish(self, trailers: Option<&FieldList>) -> Result<(), ClientGone> {
        self.rest.end()?;
        match self.rest {
            BodyRest::Stream => {
                let mut list = trailers.cloned().unwrap_or_default();
                list.retain(|it| is_allowed_trailer(it.name));
                let ending = if list.is_empty() { StreamEnd::Last } else { StreamEnd::Trailers(list) };
                *self.stream.end.borrow_mut() = ending;
                self.connection.has_work(&self.stream);
            }
            BodyRest::Length(_) => {}
            BodyRest::NotStarted | BodyRest::None => return self.check(),
        }
        wait(&*self.connection, &self.stream, StreamSide::Takes, || self.stream.is_answered()).await
    }

    /// Whether the final head was sent.
    pub fn started(&self) -> bool {
        self.rest != BodyRest::NotStarted
    }

    /// Bytes of the body so far.
    pub fn body_bytes(&self) -> u64 {
        self.body
    }
}
