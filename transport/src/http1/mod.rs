//! The HTTP/1.1 server connection: reads heads, answers at two speeds, writes once per batch.
//!
//! The fast speed is [`Handler::answer_now`], called inside the read loop; what it declines goes to
//! [`Handler::answer`], which is async and holds the connection until it is done.

use crate::body::Piece;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http1::request::{Reject, Request, RequestHead};
use std::future::Future;
use std::net::SocketAddr;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address; `None` for Unix sockets.
    pub peer: Option<SocketAddr>,
    /// The address that it connected to; `None` for Unix sockets.
    pub local: Option<SocketAddr>,
}

/// What [`Handler::answer_now`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// The whole response is in the outbox.
    Answered,
    /// Not answered, nothing written: take the slow speed.
    Later,
}

/// Answers requests. One instance per worker; `&self` because one thread runs many connections.
pub trait Handler: 'static {
    /// Answers at once and without waiting, or declines. Called only for requests without a body.
    /// `last` is true when the connection closes after this response: a `Connection: close` line is then
    /// the handler's to write (and `keep-alive` for HTTP/1.0 otherwise).
    fn answer_now(&self, head: &RequestHead<'_>, client: &Client, last: bool, out: &mut Outbox) -> Now;

    /// Answers in its own time. Returning without [`Reply::finish`] closes the connection hard, so that
    /// the client sees a truncated response as one.
    fn answer<'c>(
        &'c self,
        request: Request,
        client: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) -> impl Future<Output = ()> + 'c;

    /// A head was refused: `status` was answered and the connection is being closed. For logs.
    fn rejected(&self, reject: Reject, client: &Client);
}

/// What is to be written: text and file ranges, in order. Shared by all requests of one batch.
#[derive(Default)]
pub struct Outbox {
    _todo: (),
}

impl Outbox {
    /// The text at the end: append heads and small bodies to it.
    pub fn text(&mut self) -> &mut Vec<u8> {
        todo!()
    }

    /// Appends a piece; file pieces are sent by `sendfile` after the text before them.
    pub fn push(&mut self, piece: Piece) {
        let _ = piece;
        todo!()
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

/// Why a client can no longer be read from or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientGone {
    /// It closed or reset the connection.
    Closed,
    /// It was too slow.
    TimedOut,
    /// Its body was malformed.
    Malformed,
    /// Its body was over `limits.body_size`.
    TooLarge,
}

/// The body of the request that is being answered.
pub struct RequestBody<'c> {
    _connection: std::marker::PhantomData<&'c ()>,
}

impl RequestBody<'_> {
    /// The next bytes; `None` after the last. Sends `100 Continue` before the first read, if the client
    /// waits for one.
    ///
    /// # Errors
    /// The body did not arrive whole: what was forwarded must not look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientGone> {
        todo!()
    }

    /// The trailer section, after [`RequestBody::next`] returned `None`.
    pub fn trailers(&mut self) -> Option<FieldList> {
        todo!()
    }
}

/// Writes the response to the request that is being answered.
pub struct Reply<'c> {
    _connection: std::marker::PhantomData<&'c ()>,
}

impl Reply<'_> {
    /// Sends a 1xx response other than 101; dropped silently for HTTP/1.0 clients.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, status: u16, fields: &FieldList) -> Result<(), ClientGone> {
        let _ = (status, fields);
        todo!()
    }

    /// Sends the final head. `fields` are end-to-end fields only: `Connection`, `Transfer-Encoding` and
    /// (for [`ResponseBody::Length`]) `Content-Length` are the reply's to write. May be held back to leave
    /// together with the first piece.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn head(
        &mut self,
        status: u16,
        fields: &FieldList,
        body: ResponseBody,
    ) -> Result<(), ClientGone> {
        let _ = (status, fields, body);
        todo!()
    }

    /// Sends a piece of the body. Ignored after [`ResponseBody::None`].
    ///
    /// # Errors
    /// The client is gone.
    pub async fn piece(&mut self, piece: Piece) -> Result<(), ClientGone> {
        let _ = piece;
        todo!()
    }

    /// Sends whatever is still held back, now.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn flush(&mut self) -> Result<(), ClientGone> {
        todo!()
    }

    /// Ends the response. A body shorter than its announced length closes the connection hard.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn finish(self, trailers: Option<&FieldList>) -> Result<(), ClientGone> {
        let _ = trailers;
        todo!()
    }

    /// Whether a head was sent: after that, an error can only cut the response off.
    #[must_use]
    pub fn started(&self) -> bool {
        todo!()
    }

    /// Bytes of body sent so far, for the access log.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        todo!()
    }

    /// The connection closes after this response.
    pub fn close_after(&mut self) {
        todo!()
    }
}
