//! The protocols of origins, and the types with which an exchange and its codec communicate. This module knows none of
//! the protocols.

use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::message::{ResponseHead, Version};
use larder_wire::proxy::ConnectionEnds;

/// The protocol of an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 where the origin chooses it within the handshake of TLS (ALPN, RFC 7301), otherwise HTTP/1.1.
    Negotiated,
    /// HTTP/2 from the first byte (RFC 9113 §3.3).
    Http2,
    /// A protocol of applications, whose requests are variables.
    Application(ApplicationProtocol),
}

/// A protocol of applications: variables and a body of known length in place of an HTTP request, and the output of a CGI program
/// as the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApplicationProtocol {
    /// FastCGI 1.0.
    FastCgi,
    /// SCGI.
    Scgi,
    /// The protocol of the uWSGI server.
    Uwsgi,
}

/// The name of the protocol of an origin with this name, whose connection or response has this version.
#[must_use]
pub fn protocol_name(origin: &str, version: Version) -> &'static str {
    match origin.split([':', '+']).next() {
        Some("fastcgi") => "FastCGI",
        Some("scgi") => "SCGI",
        Some("uwsgi") => "uWSGI",
        _ => version.name(),
    }
}

/// A request's requirement for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelNeeds {
    /// Nothing.
    Any,
    /// HTTP/1.1: the request asks for an upgrade.
    Http1,
}

/// A request's requirements for its connection, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelRequest {
    pub needs: ChannelNeeds,
    /// The ends of the client's connection, for an origin that is sent a PROXY header with them: its connection carries
    /// requests of no other client. `None` for requests of larder's own.
    pub client: Option<ConnectionEnds>,
}

impl Protocol {
    /// Whether a request may use a stream of a shared connection.
    pub(crate) fn multiplexes(self, needs: ChannelNeeds) -> bool {
        match self {
            Protocol::Http1 | Protocol::Application(_) => false,
            Protocol::Negotiated => needs == ChannelNeeds::Any,
            Protocol::Http2 => true,
        }
    }
}

/// The next event of a response, as read by a codec.
#[derive(Debug)]
pub(crate) enum Event {
    /// A head, interim (status below 200) or final.
    Head(ResponseHead),
    /// A part of the body; its end has not arrived.
    Body(Bytes),
    /// The rest of the body, which may be empty, and its trailers: the response is complete by its framing.
    End(Bytes, Option<FieldList>),
    /// Bytes arrived that complete none of these yet.
    More,
}

/// Whether the connection of an exchange may be reused, once the response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reusable {
    /// It may, once the request is complete as well.
    Yes,
    /// The response forbids it.
    No,
    /// Bytes arrived that belong to no response.
    Surplus,
}

/// Whether the codec has got the whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// More will be.
    NotYet,
    /// It ends, with the trailers of the send buffer if there are any.
    End,
}
