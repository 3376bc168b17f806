//! HTTP/2 towards an origin: connections shared by many requests, and a request's stream. `exchange` uses it; the library
//! `h2` implements the protocol.
//!
//! A [`Http2Session`] is a connection with a task of its own; a [`H2Stream`] is one of its streams. [`Sessions`] are
//! those of one worker to one origin.

mod h2_stream;
mod head;
mod session;
mod sessions;

pub(crate) use h2_stream::H2Stream;
pub(crate) use session::Http2Session;
pub(crate) use sessions::Sessions;
