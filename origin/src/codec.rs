//! One exchange in the protocol of its connection: all that the engine in `exchange` asks of a protocol. Permits, deadlines, retries
//! and the order of events are the engine's and know none of them.
//!
//! A protocol is a variant here, its module, a row of [`Protocol`], and where its bodies are framed as they are accepted a
//! [`BodyForm`].

use crate::body_form::BodyForm;
use crate::connection::{History, OriginConnection};
use crate::deadline::Alarms;
use crate::error::OriginError;
use crate::http1::Http1Exchange;
use crate::http2::H2Stream;
use crate::protocol::{Closing, Event, Protocol, Reusable};
use crate::request::OutgoingRequest;
use crate::send_buffer::SendBuffer;
use std::task::{Context, Poll};

/// An exchange in its protocol.
pub(crate) enum Codec {
    /// HTTP/1.1, on a connection of its own.
    Http1(Http1Exchange),
    /// HTTP/2, as a stream of a shared connection.
    Http2(Box<H2Stream>),
}

impl Protocol {
    /// The codec of an exchange that has this connection for itself.
    pub(crate) fn exclusive(self, connection: OriginConnection) -> Codec {
        match self {
            // Of an origin that speaks HTTP/2, connections of HTTP/1.1 alone are exclusive.
            Protocol::Http1 | Protocol::Negotiated | Protocol::Http2 => {
                Codec::Http1(Http1Exchange::new(connection))
            }
        }
    }
}

impl Codec {
    /// Sends the head, as far as it goes out at once; the rest is in `unsent` from then on. What goes wrong is met by the next write or
    /// read.
    pub(crate) fn write_head(
        &mut self,
        request: &OutgoingRequest,
        unsent: &mut SendBuffer,
        cx: &mut Context<'_>,
    ) {
        match self {
            Codec::Http1(it) => it.write_head(request, unsent, cx),
            Codec::Http2(it) => it.write_head(request, unsent),
        }
    }

    /// The form in which the pieces of this request's body lie in the send buffer: it writes them (`write_body`) and their end (`end`).
    pub(crate) fn body_form(&self, request: &OutgoingRequest) -> BodyForm {
        match self {
            Codec::Http1(_) => Http1Exchange::body_form(request),
            Codec::Http2(_) => BodyForm::Plain,
        }
    }

    /// Writes once of what is unsent, and the end of the request where that is a sign of its own.
    ///
    /// # Errors
    /// [`OriginError::Refused`]: the origin did not begin with the request. Otherwise [`OriginError::Disconnected`]: it takes no more; an
    /// answer may be there all the same.
    pub(crate) fn poll_write(
        &mut self,
        unsent: &mut SendBuffer,
        closing: Closing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        match self {
            Codec::Http1(it) => it.poll_write(unsent, cx),
            Codec::Http2(it) => it.poll_write(unsent, closing, cx),
        }
    }

    /// Whether an end of the request is still to be written once nothing is unsent.
    pub(crate) fn owes_end(&self) -> bool {
        match self {
            Codec::Http1(_) => false,
            Codec::Http2(it) => !it.is_ended(),
        }
    }

    /// The next of the response to a request with this method, whose head has `limit` bytes at most.
    pub(crate) fn poll_read(
        &mut self,
        method: &str,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, OriginError>> {
        match self {
            Codec::Http1(it) => it.poll_read(method, limit, cx),
            Codec::Http2(it) => it.poll_read(method, limit, cx),
        }
    }

    /// Waits until something of a response is here, and leaves it there for [`Codec::poll_read`].
    ///
    /// # Errors
    /// None will come.
    pub(crate) fn poll_answered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        match self {
            Codec::Http1(it) => it.poll_answered(cx),
            Codec::Http2(it) => Poll::Ready(it.answered()),
        }
    }

    /// Whether the response is whole, as far as that is known without reading: behind a head, whether it has no body.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Codec::Http1(it) => it.is_whole(),
            Codec::Http2(it) => it.is_whole(),
        }
    }

    /// Whether the connection may be used again, now that the response is whole.
    pub(crate) fn reusable(&self) -> Reusable {
        match self {
            Codec::Http1(it) => it.reusable(),
            Codec::Http2(_) => Reusable::Yes,
        }
    }

    /// The connection, where the exchange had it for itself.
    pub(crate) fn into_connection(self) -> Option<OriginConnection> {
        match self {
            Codec::Http1(it) => Some(it.connection),
            Codec::Http2(_) => None,
        }
    }

    /// Whether it is the first exchange on its connection.
    pub(crate) fn history(&self) -> History {
        match self {
            Codec::Http1(it) => it.connection.history,
            Codec::Http2(it) => it.history,
        }
    }

    /// Those of its connection.
    pub(crate) fn alarms(&mut self) -> &mut Alarms {
        match self {
            Codec::Http1(it) => &mut it.connection.alarms,
            Codec::Http2(it) => &mut it.alarms,
        }
    }

    /// The origin was silent for too long: a connection that others share is not used further until it says something.
    pub(crate) fn doubt(&self) {
        match self {
            Codec::Http1(_) => {}
            Codec::Http2(it) => it.doubt(),
        }
    }

    /// From now on little of the response is read at once: it is not taken soon.
    pub(crate) fn read_little(&mut self) {
        match self {
            Codec::Http1(it) => it.connection.read_little(),
            Codec::Http2(_) => {} // Its window bounds it.
        }
    }

    /// Ends our side of a connection that is no longer HTTP.
    pub(crate) fn poll_shut(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OriginError>> {
        match self {
            Codec::Http1(it) => it.connection.poll_shut(cx).map_err(|_| OriginError::Disconnected),
            Codec::Http2(_) => Poll::Ready(Ok(())),
        }
    }
}
