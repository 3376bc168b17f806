//! Talking to origins. The HTTP/1.1 client, its pool, its deadlines. What the answer means is not here.

use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http1::Framing;
use larder_wire::http1::response::{BadResponse, Response};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Where an origin is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Host name or IP address, and port.
    Tcp(String, u16),
    /// `unix:PATH`.
    Unix(PathBuf),
}

/// Deadlines and bounds of one origin, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until a connection stands.
    pub connect: Duration,
    /// From the request's last byte to the response head.
    pub first_byte: Duration,
    /// Longest silence within the response, and longest time in which the origin takes no byte of a request.
    pub between_bytes: Duration,
    /// The whole exchange; zero is off.
    pub total: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Bytes of a response head.
    pub head_size: usize,
    /// Open connections of this worker to one origin.
    pub connections: usize,
    /// Unused connections of this worker kept to one origin.
    pub idle_connections: usize,
    /// Interim responses to one request.
    pub interim: usize,
}

/// Why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// No connection: refused, unreachable, name not found.
    Connect(String),
    /// No connection within `connect`.
    ConnectTimeout,
    /// It closed or reset the connection before a head, or within the body.
    Disconnected,
    /// A deadline passed.
    Timeout,
    /// Its head is not valid HTTP.
    BadHead(BadResponse),
    /// Its body is not valid: broken chunk.
    BadBody,
    /// More interim responses than allowed.
    InterimFlood,
    /// Every connection is in use and waiting took too long.
    Busy,
}

/// The connections of one worker to one origin.
pub struct Origin {
    _todo: (),
}

/// The request as it goes out: end-to-end fields only, `Host` included, framing fields not.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Method.
    pub method: String,
    /// Origin-form or `*`.
    pub target: String,
    /// End-to-end fields.
    pub fields: FieldList,
    /// `Empty`, `Length` or `Chunked`.
    pub framing: Framing,
}

impl Origin {
    /// An origin without connections yet.
    #[must_use]
    pub fn new(
        address: Address,
        limits: Limits,
        counters: std::sync::Arc<larder_counters::Counters>,
    ) -> Rc<Self> {
        let _ = (address, limits, counters);
        todo!()
    }

    /// Opens or reuses a connection and writes the head. A reused connection that turns out dead is replaced
    /// (for requests that may be repeated, see [`Exchange::head`]).
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn send(self: &Rc<Self>, request: Outgoing) -> Result<Exchange, OriginError> {
        let _ = request;
        todo!()
    }
}

/// One request and its response on one connection. Dropping it before the end closes the connection;
/// at the end it goes back to the pool.
pub struct Exchange {
    _todo: (),
}

impl Exchange {
    /// Writes a piece of the request body. May be called while another future waits in [`Exchange::head`].
    ///
    /// # Errors
    /// See [`OriginError`]. A response may be there all the same.
    pub async fn write(&self, bytes: Bytes) -> Result<(), OriginError> {
        let _ = bytes;
        todo!()
    }

    /// Ends the request body. Not calling it leaves the request incomplete, and visibly so.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn write_end(&self, trailers: Option<&FieldList>) -> Result<(), OriginError> {
        let _ = trailers;
        todo!()
    }

    /// Waits for the next head: interim (status below 200) or final. Repeats a bodyless idempotent request once on a
    /// fresh connection if a reused one died before the first byte.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub async fn head(&self) -> Result<Response, OriginError> {
        todo!()
    }

    /// The next bytes of the body; `None` after the last, which has been verified by its framing.
    ///
    /// # Errors
    /// The body is incomplete.
    pub async fn next(&self) -> Result<Option<Bytes>, OriginError> {
        todo!()
    }

    /// The trailer section, after the body's end.
    #[must_use]
    pub fn trailers(&self) -> Option<FieldList> {
        todo!()
    }
}
