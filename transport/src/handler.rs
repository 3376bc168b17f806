//! What answers requests, and what it is given for that: the same whatever protocol the client speaks.

use crate::body::BodyPiece;
use crate::client_socket::ClientGone;
use crate::proxy_protocol::MissingPreamble;
use crate::{ResponseWriter, http1, http2};
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_semantics::scheme::Scheme;
use larder_wire::message::{Reject, Request, RequestHead, reason};
use std::cell::Cell;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its address; `None` for Unix sockets. Where a header of the PROXY protocol names another, that one; where a proxy that is
    /// believed said whose request it is, that address.
    pub peer: Option<SocketAddr>,
    /// The proxies by which the request came then, the last being the other end of the connection; `None` for Unix sockets.
    pub hops: Vec<Option<IpAddr>>,
    /// The address that it connected to; `None` for Unix sockets.
    pub local: Option<SocketAddr>,
    /// How it came.
    pub scheme: Scheme,
    /// What its TLS came to; `None` where it came in clear.
    pub tls: Option<std::rc::Rc<crate::tls::Secured>>,
    /// When the first byte of the head came that is being answered, over HTTP/2 that of its first frame, in microseconds by the
    /// precise clock; 0 where that was just now, or is not asked: see [`Worker::stamp_when`].
    ///
    /// [`Worker::stamp_when`]: crate::worker::TransportWorker::stamp_when
    pub began: Cell<u64>,
}

/// What [`Handler::answer_now`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerNow {
    /// The whole response is written.
    Answered,
    /// Not answered, nothing written: take the slow speed.
    Later,
}

/// Answers requests. One instance per worker; `&self` because one thread runs many connections.
pub trait Handler: 'static {
    /// Answers at once and without waiting, or declines. Called only for requests without a body.
    fn answer_now(
        &self,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> AnswerNow;

    /// Answers in its own time. Returning without [`Reply::finish`] closes the connection hard, or resets
    /// the stream, so that the client sees a truncated response as one.
    fn answer<'c>(
        &'c self,
        request: Rc<Request>,
        client: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) -> impl Future<Output = ()> + 'c;

    /// A head was refused: its status is being answered with `body` bytes, and the connection closed. For logs.
    fn rejected(&self, reject: Reject, client: &Client, body: u64);

    /// A connection on which a header of the PROXY protocol is to come first was closed without one. For logs.
    fn unintroduced(&self, why: MissingPreamble, peer: Option<SocketAddr>) {
        let _ = (why, peer);
    }

    /// What a client is sent of a head that was refused or did not come in time: content type and text.
    fn refusal(&self, status: u16, sentence: &str) -> (&'static str, String) {
        ("text/plain; charset=utf-8", format!("{status} {}\n{sentence}\n", reason(status)))
    }
}

/// How the end of a response body will be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body follows, whatever the fields say (HEAD, 204, 304).
    None,
    /// Exactly this many bytes; the reply writes `Content-Length` if the fields have none.
    Length(u64),
    /// Unknown: until the end of the stream for HTTP/2, chunked for HTTP/1.1, until close for HTTP/1.0.
    Stream,
}

/// What a client is to be given of a body of which the rest need not be here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientDemand {
    /// Bytes, now. More would wait for it here.
    pub now: u64,
    /// Bytes of the rest that may be fetched meanwhile: the fewer, the more the client has asked for at once.
    pub ahead: u64,
}

impl ClientDemand {
    /// For a client that has one answer at a time, which waits where it lies.
    pub const ALL: ClientDemand = ClientDemand { now: u64::MAX, ahead: u64::MAX };
}

/// The body of a request.
pub struct RequestBody<'c>(TunnelIncoming<'c>);

enum TunnelIncoming<'c> {
    Http1(http1::Http1RequestBody<'c>),
    Http2(http2::Http2RequestBody),
}

impl<'c> RequestBody<'c> {
    pub(crate) fn http1(body: http1::Http1RequestBody<'c>) -> Self {
        Self(TunnelIncoming::Http1(body))
    }

    pub(crate) fn http2(body: http2::Http2RequestBody) -> Self {
        Self(TunnelIncoming::Http2(body))
    }

    /// The next bytes; `None` after the last. Sends `100 Continue` before the first read, if the client
    /// waits for one. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// The body did not arrive whole: what was forwarded must not look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientGone> {
        match &mut self.0 {
            TunnelIncoming::Http1(it) => it.next().await,
            TunnelIncoming::Http2(it) => it.next().await,
        }
    }

    /// The bytes that have arrived already, without waiting and without asking for any; `None` where there are
    /// none. A body that is announced as too large is refused here as well.
    ///
    /// # Errors
    /// As [`RequestBody::next`].
    pub fn arrived(&mut self) -> Result<Option<Bytes>, ClientGone> {
        match &mut self.0 {
            TunnelIncoming::Http1(it) => it.arrived(),
            TunnelIncoming::Http2(it) => it.arrived(),
        }
    }

    /// Whether all of it has arrived and was taken.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        match &self.0 {
            TunnelIncoming::Http1(it) => it.is_whole(),
            TunnelIncoming::Http2(it) => it.is_whole(),
        }
    }

    /// The trailer section, after [`RequestBody::next`] returned `None`.
    pub fn trailers(&mut self) -> Option<FieldList> {
        match &mut self.0 {
            TunnelIncoming::Http1(it) => it.trailers(),
            TunnelIncoming::Http2(it) => it.trailers(),
        }
    }
}

/// Writes the response to a request.
pub struct Reply<'c>(TunnelOutgoing<'c>);

enum TunnelOutgoing<'c> {
    Http1(http1::Http1Reply<'c>),
    Http2(http2::Http2Reply),
}

impl<'c> Reply<'c> {
    pub(crate) fn http1(reply: http1::Http1Reply<'c>) -> Self {
        Self(TunnelOutgoing::Http1(reply))
    }

    pub(crate) fn http2(reply: http2::Http2Reply) -> Self {
        Self(TunnelOutgoing::Http2(reply))
    }

    /// Sends a 1xx response other than 101; dropped silently for HTTP/1.0 clients.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, status: u16, fields: &FieldList) -> Result<(), ClientGone> {
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => it.interim(status, fields).await,
            TunnelOutgoing::Http2(it) => it.interim(status, fields),
        }
    }

    /// Sends the final head. `fields` are end-to-end fields only: `Connection`, `Transfer-Encoding` and
    /// (for [`ResponseBody::Length`]) `Content-Length` are the reply's to write. Held back to leave
    /// together with the first piece; see [`Reply::flush`].
    ///
    /// # Errors
    /// The client is gone.
    pub async fn head(
        &mut self,
        status: u16,
        fields: &FieldList,
        body: ResponseBody,
    ) -> Result<(), ClientGone> {
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => it.head(status, fields, body).await,
            TunnelOutgoing::Http2(it) => it.head(status, fields, body),
        }
    }

    /// Sends a piece of the body. Ignored after [`ResponseBody::None`] and for HEAD. Small ones may be held back.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn piece(&mut self, piece: BodyPiece) -> Result<(), ClientGone> {
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => it.piece(piece).await,
            TunnelOutgoing::Http2(it) => it.piece(piece).await,
        }
    }

    /// Waits until the client is to have more of a body of which the rest need not be here: what it does not take stays where
    /// it is.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn room(&self) -> Result<ClientDemand, ClientGone> {
        match &self.0 {
            TunnelOutgoing::Http1(_) => Ok(ClientDemand::ALL),
            TunnelOutgoing::Http2(it) => it.room().await,
        }
    }

    /// Sends whatever is still held back, now.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn flush(&self) -> Result<(), ClientGone> {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.flush().await,
            TunnelOutgoing::Http2(it) => it.check(),
        }
    }

    /// Waits until the client has closed its side: for responses without an end, which have to stop. Where it sent another
    /// request meanwhile over HTTP/1 this waits for ever, and sending tells.
    pub async fn gone(&self) {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.gone().await,
            TunnelOutgoing::Http2(it) => it.gone().await,
        }
    }

    /// Waits until the client has taken its request back. Over HTTP/1 it cannot say so: there this waits for ever.
    pub async fn taken_back(&self) {
        match &self.0 {
            TunnelOutgoing::Http1(_) => std::future::pending().await,
            TunnelOutgoing::Http2(it) => it.gone().await,
        }
    }

    /// Agrees to the protocol that was asked for: HTTP ends on this connection, or on this stream. `fields` are end-to-end
    /// fields only.
    ///
    /// # Errors
    /// The client is gone, or over HTTP/2 had not asked for any.
    pub async fn switch(&mut self, protocol: &[u8], fields: &FieldList) -> Result<Tunnel<'c>, ClientGone> {
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => {
                it.switch(protocol, fields).await.map(|it| Tunnel(ReplySide::Http1(it)))
            }
            TunnelOutgoing::Http2(it) => it.switch(fields).map(|it| Tunnel(ReplySide::Http2(it))),
        }
    }

    /// The status with which [`Reply::switch`] agrees.
    #[must_use]
    pub fn agreement(&self) -> u16 {
        match &self.0 {
            TunnelOutgoing::Http1(_) => 101,
            TunnelOutgoing::Http2(_) => 200,
        }
    }

    /// Ends the response. A body shorter than its announced length closes the connection hard, or resets the stream.
    ///
    /// # Errors
    /// The client is gone, or the body was short.
    pub async fn finish(self, trailers: Option<&FieldList>) -> Result<(), ClientGone> {
        match self.0 {
            TunnelOutgoing::Http1(it) => it.finish(trailers).await,
            TunnelOutgoing::Http2(it) => it.finish(trailers).await,
        }
    }

    /// Whether a head was sent: after that, an error can only cut the response off.
    #[must_use]
    pub fn started(&self) -> bool {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.started(),
            TunnelOutgoing::Http2(it) => it.started(),
        }
    }

    /// Bytes of body sent so far, for the access log.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.body_bytes(),
            TunnelOutgoing::Http2(it) => it.body_bytes(),
        }
    }

    /// The connection closes after this response, where it has no other to bring.
    pub fn close_after(&mut self) {
        if let TunnelOutgoing::Http1(it) = &mut self.0 {
            it.close_after();
        }
    }
}

/// The client's side of what is no longer HTTP: bytes in both directions, each with an end of its own. Unless it is closed in an
/// orderly way, it is cut. Reading and writing may be awaited side by side by one task.
pub struct Tunnel<'c>(ReplySide<'c>);

enum ReplySide<'c> {
    Http1(http1::Http1Tunnel<'c>),
    Http2(http2::Http2Tunnel),
}

impl Tunnel<'_> {
    /// What the client sent next; `None` where it has ended its side.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn read(&self) -> Result<Option<Bytes>, ClientGone> {
        match &self.0 {
            ReplySide::Http1(it) => it.read().await,
            ReplySide::Http2(it) => it.read().await,
        }
    }

    /// Sends bytes; done when they have been taken over, so that no more than these wait here.
    ///
    /// # Errors
    /// The client is gone, or takes nothing.
    pub async fn write(&self, bytes: Bytes) -> Result<(), ClientGone> {
        match &self.0 {
            ReplySide::Http1(it) => it.write(bytes).await,
            ReplySide::Http2(it) => it.write(bytes).await,
        }
    }

    /// Ends our side; what the client still sends is still read.
    pub fn end(&self) {
        match &self.0 {
            ReplySide::Http1(it) => it.end(),
            ReplySide::Http2(it) => it.end(),
        }
    }

    /// Waits until the client has given up both directions at once. A connection does not tell before it is read from or
    /// written to: there this waits for ever.
    pub async fn gone(&self) {
        match &self.0 {
            ReplySide::Http1(_) => std::future::pending().await,
            ReplySide::Http2(it) => it.gone().await,
        }
    }

    /// Both sides have ended.
    pub async fn close(self) {
        match self.0 {
            ReplySide::Http1(it) => it.close(),
            ReplySide::Http2(it) => it.close().await,
        }
    }
}
