//! HTTP/1.1 towards an origin: one request and its response on an exclusive connection. `exchange` decides what is sent
//! when, how long that may take, and whether a request is repeated.
//!
//! ```text
//! Head ── (interim, again Head) ── Body ── Whole
//! ```

mod body;
mod head;

use crate::body_form::BodyForm;
use crate::connection::OriginConnection;
use crate::error::OriginError;
use crate::protocol::{Event, Reusable};
use crate::request::OutgoingRequest;
use crate::send_buffer::SendBuffer;
use body::{AtClose, RemainingBody, TakenBytes};
use bytes::{Buf, Bytes};
use larder_wire::http1::response::{ParsedResponse, parse};
use larder_wire::message::{Framing, ResponseHead};
use std::task::{Context, Poll, ready};

/// An exchange on its connection.
pub(crate) struct Http1Exchange {
    pub(crate) connection: Box<OriginConnection>,
    reading: ReadPosition,
    /// The length of the buffer when it last had no complete head.
    partial: usize,
    /// The response allows the connection to persist.
    is_persistent: bool,
}

/// The next part of the response.
enum ReadPosition {
    Head,
    Body(RemainingBody),
    Whole,
}

impl Http1Exchange {
    pub(crate) fn new(connection: Box<OriginConnection>) -> Self {
        Self { connection, reading: ReadPosition::Head, partial: 0, is_persistent: false }
    }

    /// Writes the head, and leaves to [`Http1Exchange::poll_write`] the bytes that are not sent at once.
    pub(crate) fn write_head(
        &mut self,
        request: &OutgoingRequest,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) {
        let persistence = self.connection.shared.persistence;
        self.connection.send_head(|head| head::write(request, persistence, head), request, unsent, cx);
    }

    /// The form of the body of a request.
    pub(crate) fn body_form(request: &OutgoingRequest) -> BodyForm {
        match request.framing {
            Framing::Chunked | Framing::Close => BodyForm::Chunked,
            Framing::Empty | Framing::Length(_) => BodyForm::Plain,
        }
    }

    /// Writes once from the unsent bytes.
    pub(crate) fn poll_write(
        &mut self,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        self.connection.poll_send(unsent, cx)
    }

    /// The next event of the response: from the buffer, otherwise from one read.
    pub(crate) fn poll_read(
        &mut self,
        method: &str,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, OriginError>> {
        if let Some(event) = self.take(method, limit)? {
            return Poll::Ready(Ok(event));
        }
        let (expects, at_close) = match &self.reading {
            ReadPosition::Body(body) => (body.expects(), body.at_close()),
            ReadPosition::Head | ReadPosition::Whole => (0, AtClose::Truncated),
        };
        Poll::Ready(match ready!(self.connection.poll_read(expects, cx)) {
            Ok(0) if at_close == AtClose::Complete => {
                self.reading = ReadPosition::Whole;
                Ok(Event::End(Bytes::new(), None))
            }
            Ok(0) | Err(_) => Err(OriginError::Disconnected),
            Ok(_) => Ok(Event::More),
        })
    }

    /// Waits until a part of the response is here, and leaves it in place.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        self.connection.poll_answered(cx)
    }

    fn take(&mut self, method: &str, limit: usize) -> Result<Option<Event>, OriginError> {
        let body = match &mut self.reading {
            ReadPosition::Head => return Ok(self.take_head(method, limit)?.map(Event::Head)),
            ReadPosition::Body(body) => body,
            ReadPosition::Whole => return Ok(None),
        };
        Ok(match body.take(&mut self.connection.buffer)? {
            TakenBytes::Some(bytes) => Some(Event::Body(bytes)),
            TakenBytes::Last(bytes, trailers) => {
                self.reading = ReadPosition::Whole;
                Some(Event::End(bytes, trailers))
            }
            TakenBytes::Nothing => None,
        })
    }

    /// The next head, if the buffer has a complete one.
    fn take_head(&mut self, method: &str, limit: usize) -> Result<Option<ResponseHead>, OriginError> {
        let buffer = &mut self.connection.buffer;
        // A head that arrives slowly is not parsed again for every byte: only when a line ended, or the buffer doubled.
        let fresh = buffer.get(self.partial..).unwrap_or_default();
        let is_due = self.partial == 0 || fresh.contains(&b'\n') || buffer.len() >= 2 * self.partial;
        if buffer.is_empty() || !is_due && buffer.len() < limit {
            return Ok(None);
        }
        match parse(buffer, limit, method) {
            Ok(ParsedResponse::Head(response, length)) => {
                buffer.advance(length);
                self.partial = 0;
                self.begin_body(&response);
                Ok(Some(response))
            }
            Ok(ParsedResponse::Partial) => {
                self.partial = buffer.len();
                Ok(None)
            }
            Err(bad) => Err(OriginError::BadHead(bad)),
        }
    }

    fn begin_body(&mut self, response: &ResponseHead) {
        self.is_persistent = response.keep_alive;
        self.reading = match (response.status, response.framing) {
            // No longer HTTP: it ends with the connection.
            (101, _) => ReadPosition::Body(RemainingBody::Close),
            (100..=199, _) => ReadPosition::Head,
            (_, Framing::Empty | Framing::Length(0)) => ReadPosition::Whole,
            (_, Framing::Length(length)) => ReadPosition::Body(RemainingBody::Length(length)),
            (_, Framing::Chunked) => ReadPosition::Body(RemainingBody::Chunked(Box::default())),
            (_, Framing::Close) => ReadPosition::Body(RemainingBody::Close),
        };
    }

    /// Whether the response is complete.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.reading, ReadPosition::Whole)
    }

    /// Whether the connection may be reused, now that the response is complete.
    pub(crate) fn reusable(&self) -> Reusable {
        match self.is_persistent {
            _ if !self.connection.buffer.is_empty() => Reusable::Surplus,
            true => Reusable::Yes,
            false => Reusable::No,
        }
    }
}
