//! Which protocol is spoken with an origin, and the words in which an exchange and the codec of its protocol speak with each other.
//! None of the protocols is known here.

use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::message::ResponseHead;

/// What is spoken with an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 where the origin chooses it within the handshake of TLS (ALPN, RFC 7301), otherwise HTTP/1.1.
    Negotiated,
    /// HTTP/2 from the first byte (RFC 9113 §3.3).
    Http2,
}

/// What a request needs of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelNeeds {
    /// Nothing.
    Any,
    /// HTTP/1.1: it asks to be taken out of HTTP.
    Http1,
}

impl Protocol {
    /// Whether a request may go over a stream of a connection that others use, too.
    pub(crate) fn multiplexes(self, needs: ChannelNeeds) -> bool {
        match self {
            Protocol::Http1 => false,
            Protocol::Negotiated => needs == ChannelNeeds::Any,
            Protocol::Http2 => true,
        }
    }
}

/// What a codec read next of a response.
#[derive(Debug)]
pub(crate) enum Event {
    /// A head, interim (status below 200) or final.
    Head(ResponseHead),
    /// Some of the body; its end has not come.
    Body(Bytes),
    /// The rest of the body, which may be empty, and its trailers: the response is whole by its framing.
    End(Bytes, Option<FieldList>),
    /// Something came, which makes up none of these yet.
    More,
}

/// Whether the connection of an exchange may be used again, once the response is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reusable {
    /// It may, once the request is whole as well.
    Yes,
    /// The response said that it may not.
    No,
    /// Bytes came that belong to no response.
    Surplus,
}

/// Whether all of a request was handed over to its codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// More will be.
    NotYet,
    /// It ends, with the trailers of the send buffer if there are any.
    End,
}
