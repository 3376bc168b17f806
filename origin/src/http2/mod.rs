//! HTTP/2 towards an origin: connections that many requests share, and a request's part of one. What an exchange makes of it is in
//! `exchange`; the protocol itself is the library's, `h2`.
//!
//! A [`Http2Session`] is a connection, driven by a task of its own; a [`H2Stream`] is one stream of it. [`Sessions`] are those of one
//! worker to one origin.

mod h2_stream;
mod head;
mod session;
mod sessions;

pub(crate) use h2_stream::H2Stream;
pub(crate) use session::Http2Session;
pub(crate) use sessions::Sessions;
