//! The HTTP/1.1 server connection: reads heads, answers at two speeds, writes once per batch.
//!
//! The fast speed is [`Handler::answer_now`], called inside the read loop; what it declines goes to
//! [`Handler::answer`], which is async and holds the connection until it is done.
//!
//! ```text
//! connection ── turn ──┬── answer_now … answer_now ── one write ──┐
//!     ^                └── answer (RequestBody, Reply) ───────────┤
//!     └───────────────── next request ────────────────────────────┴── close
//! ```

mod connection;
mod reply;
mod request_body;
mod tunnel;

pub use crate::link::ClientGone;
pub use crate::outbox::Outbox;
pub(crate) use connection::serve;
pub use reply::Reply;
pub use request_body::RequestBody;
pub use tunnel::Tunnel;

use crate::Answer;
use larder_semantics::scheme::Scheme;
use larder_wire::http1::request::{Reject, Request, RequestHead};
use larder_wire::http1::write;
use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address; `None` for Unix sockets.
    pub peer: Option<SocketAddr>,
    /// The address that it connected to; `None` for Unix sockets.
    pub local: Option<SocketAddr>,
    /// How it came.
    pub scheme: Scheme,
    /// When the first byte of the head came that is being answered, or the connection was accepted if it is the first, in
    /// microseconds by the precise clock; 0 where that was just now, or is not asked: see [`Worker::stamp_when`].
    ///
    /// [`Worker::stamp_when`]: crate::worker::Worker::stamp_when
    pub began: Cell<u64>,
}

/// What [`Handler::answer_now`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// The whole response is written.
    Answered,
    /// Not answered, nothing written: take the slow speed.
    Later,
}

/// Answers requests. One instance per worker; `&self` because one thread runs many connections.
pub trait Handler: 'static {
    /// Answers at once and without waiting, or declines. Called only for requests without a body.
    fn answer_now(&self, head: &RequestHead<'_>, client: &Client, answer: &mut Answer<'_>) -> Now;

    /// Answers in its own time. Returning without [`Reply::finish`] closes the connection hard, so that
    /// the client sees a truncated response as one.
    fn answer<'c>(
        &'c self,
        request: Rc<Request>,
        client: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) -> impl Future<Output = ()> + 'c;

    /// A head was refused: its status is being answered with `body` bytes, and the connection closed. For logs.
    fn rejected(&self, reject: Reject, client: &Client, body: u64);

    /// What a client is sent of a head that was refused or did not come in time: content type and text.
    fn refusal(&self, status: u16, sentence: &str) -> (&'static str, String) {
        ("text/plain; charset=utf-8", format!("{status} {}\n{sentence}\n", write::reason(status)))
    }
}

/// How the end of a response body will be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body follows, whatever the fields say (HEAD, 204, 304).
    None,
    /// Exactly this many bytes; the reply writes `Content-Length` if the fields have none.
    Length(u64),
    /// Unknown: chunked for HTTP/1.1, until close for HTTP/1.0.
    Stream,
}
