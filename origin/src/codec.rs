//! One exchange in the protocol of its connection: the interface between the engine in `exchange` and a protocol. The
//! engine has permits, deadlines, retries and the order of events, and knows no protocol.
//!
//! A protocol is a variant here, a module, a row of [`Protocol`], and a [`BodyForm`] where it frames bodies when they are
//! accepted.

use crate::application::ApplicationExchange;
use crate::body_form::BodyForm;
use crate::connection::{History, OriginConnection};
use crate::deadline::Alarms;
use crate::error::OriginError;
use crate::http1::Http1Exchange;
use crate::http2::H2Stream;
use crate::program::ProgramExchange;
use crate::protocol::{Closing, Event, Protocol, Reusable};
use crate::request::OutgoingRequest;
use crate::send_buffer::SendBuffer;
use std::task::{Context, Poll};

/// An exchange in its protocol.
pub(crate) enum Codec {
    /// HTTP/1.1, on an exclusive connection.
    Http1(Http1Exchange),
    /// HTTP/2, as a stream of a shared connection.
    Http2(Box<H2Stream>),
    /// FastCGI, SCGI or uWSGI, on an exclusive connection.
    Application(Box<ApplicationExchange>),
    /// CGI, with a process of its own.
    Program(Box<ProgramExchange>),
}

impl Protocol {
    /// The codec of an exchange with an exclusive connection.
    pub(crate) fn exclusive(self, connection: Box<OriginConnection>) -> Codec {
        match self {
            // For an origin with HTTP/2, only connections of HTTP/1.1 are exclusive.
            Protocol::Http1 | Protocol::Negotiated | Protocol::Http2 => {
                Codec::Http1(Http1Exchange::new(connection))
            }
            Protocol::Application(protocol) => {
                Codec::Application(Box::new(ApplicationExchange::new(protocol, connection)))
            }
        }
    }
}

impl Codec {
    /// Sends the head, as far as possible at once; the rest is in `unsent` from then on. The next write or read reports
    /// an error.
    pub(crate) fn write_head(
        &mut self,
        request: &OutgoingRequest,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) {
        match self {
            Codec::Http1(it) => it.write_head(request, unsent, cx),
            Codec::Http2(it) => it.write_head(request, unsent),
            Codec::Application(it) => it.write_head(request, unsent, cx),
            Codec::Program(it) => it.write_head(request, unsent),
        }
    }

    /// The form of this request body's pieces in the send buffer: it writes them (`write_body`) and their end (`end`).
    pub(crate) fn body_form(&self, request: &OutgoingRequest) -> BodyForm {
        match self {
            Codec::Http1(_) => Http1Exchange::body_form(request),
            Codec::Http2(_) | Codec::Program(_) => BodyForm::Plain,
            Codec::Application(it) => it.body_form(),
        }
    }

    /// Writes once from the unsent bytes, and the end of the request where that is a separate signal.
    ///
    /// # Errors
    /// [`OriginError::Refused`]: the origin did not process the request. Otherwise [`OriginError::Disconnected`]: it
    /// accepts no more bytes; an answer may nevertheless be there.
    pub(crate) fn poll_write(
        &mut self,
        unsent: &mut SendBuffer,
        closing: Closing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        match self {
            Codec::Http1(it) => it.poll_write(unsent, cx),
            Codec::Http2(it) => it.poll_write(unsent, closing, cx),
            Codec::Application(it) => it.poll_write(unsent, cx),
            Codec::Program(it) => it.poll_write(unsent, closing, cx),
        }
    }

    /// Whether an end of the request must still be written after all bytes are sent.
    pub(crate) fn owes_end(&self) -> bool {
        match self {
            Codec::Http1(_) | Codec::Application(_) => false,
            Codec::Http2(it) => !it.is_ended(),
            Codec::Program(it) => it.owes_end(),
        }
    }

    /// Reads the next event of the response to a request with this method; its head has at most `limit` bytes.
    pub(crate) fn poll_read(
        &mut self,
        method: &str,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, OriginError>> {
        match self {
            Codec::Http1(it) => it.poll_read(method, limit, cx),
            Codec::Http2(it) => it.poll_read(method, limit, cx),
            Codec::Application(it) => it.poll_read(method, limit, cx),
            Codec::Program(it) => it.poll_read(method, limit, cx),
        }
    }

    /// Waits until a part of a response is here, and leaves it for [`Codec::poll_read`].
    ///
    /// # Errors
    /// No response will arrive.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        match self {
            Codec::Http1(it) => it.poll_answered(cx),
            Codec::Http2(it) => Poll::Ready(it.answered()),
            Codec::Application(it) => it.poll_answered(cx),
            Codec::Program(it) => it.poll_answered(cx),
        }
    }

    /// Whether the response is complete, as far as known without reading: after a head, whether it has no body.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Codec::Http1(it) => it.is_whole(),
            Codec::Http2(it) => it.is_whole(),
            Codec::Application(it) => it.is_whole(),
            Codec::Program(it) => it.is_whole(),
        }
    }

    /// Whether the connection may be reused, now that the response is complete.
    pub(crate) fn reusable(&self) -> Reusable {
        match self {
            Codec::Http1(it) => it.reusable(),
            Codec::Http2(_) => Reusable::Yes,
            Codec::Application(it) => it.reusable(),
            Codec::Program(_) => Reusable::No,
        }
    }

    /// The connection, where it was exclusive.
    pub(crate) fn into_connection(self) -> Option<Box<OriginConnection>> {
        match self {
            Codec::Http1(it) => Some(it.connection),
            Codec::Http2(_) | Codec::Program(_) => None,
            Codec::Application(it) => Some(it.connection),
        }
    }

    /// Whether it is the first exchange on its connection.
    pub(crate) fn history(&self) -> History {
        match self {
            Codec::Http1(it) => it.connection.history,
            Codec::Http2(it) => it.history,
            Codec::Application(it) => it.connection.history,
            Codec::Program(_) => History::Fresh,
        }
    }

    /// The alarms of its connection.
    pub(crate) fn alarms(&mut self) -> &mut Alarms {
        match self {
            Codec::Http1(it) => &mut it.connection.alarms,
            Codec::Http2(it) => &mut it.alarms,
            Codec::Application(it) => &mut it.connection.alarms,
            Codec::Program(it) => &mut it.alarms,
        }
    }

    /// The origin was silent for too long: a shared connection is not used further until it sends something.
    pub(crate) fn note_silence(&self) {
        match self {
            Codec::Http1(_) | Codec::Application(_) | Codec::Program(_) => {}
            Codec::Http2(it) => it.note_silence(),
        }
    }

    /// From now on reads of the response are small: the bytes are not taken soon.
    pub(crate) fn limit_reads(&mut self) {
        match self {
            Codec::Http1(it) => it.connection.limit_reads(),
            Codec::Http2(_) => {} // Its window bounds it.
            Codec::Application(it) => it.connection.limit_reads(),
            Codec::Program(it) => it.limit_reads(),
        }
    }

    /// Closes larder's side of a connection that is no longer HTTP.
    pub(crate) fn poll_shut(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        match self {
            Codec::Http1(it) => it.connection.poll_shut(cx).map_err(|_| OriginError::Disconnected),
            Codec::Http2(_) | Codec::Application(_) | Codec::Program(_) => Poll::Ready(Ok(())),
        }
    }
}
