//! HTTP/2 towards an origin: connections that many requests share, and a request's part of one. What an exchange makes of it is in
//! `exchange`; the protocol itself is the library's, `h2`.
//!
//! A [`Http2Session`] is a connection, driven by a task of its own; a [`H2Stream`] is one stream of it. [`Sessions`] are those of one
//! worker to one origin.

mod h2_stream;
mod head;
mod session;
mod sessions;

pub(crate) use h2_stream::{BodyResult, Closing, H2Stream};
pub(crate) use session::Http2Session;
pub(crate) use sessions::Sessions;

/// Whether HTTP/2 is spoken with an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Http2 {
    /// HTTP/1.1 is.
    #[default]
    Never,
    /// Where the origin chooses it within the handshake of TLS (ALPN).
    Offered,
    /// It is known to speak it (RFC 9113 §3.3).
    Known,
}

/// What a request needs of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelNeeds {
    /// Nothing.
    Any,
    /// HTTP/1.1: it asks to be taken out of HTTP.
    Http1,
}
