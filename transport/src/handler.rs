//! The interface of the code that answers requests: the same for every protocol of clients.

use crate::alternative::AlternativeService;
use crate::body::BodyPiece;
use crate::body_length::ResponseBody;
use crate::client::Client;
use crate::client_demand::ClientDemand;
use crate::client_socket::ClientGone;
use crate::finish::ResponseFinish;
use crate::proxy_protocol::MissingPreamble;
use crate::streams::{StreamReply, StreamRequestBody, StreamTunnel};
use crate::synthetic::{NO_RESPONSE, Synthetic, SyntheticSent};
use crate::worker::RequestLimits;
use crate::{ResponseWriter, http1};
use bytes::Bytes;
use larder_semantics::date;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_wire::message::{Reject, Request, RequestHead};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;

/// The result of [`Handler::answer_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerNow {
    /// The whole response is written.
    Answered,
    /// Not answered, nothing written: use the slow speed.
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

    /// The same for a request that may be a replay, and not from the address of `client` (RFC 8470): declines unless the response
    /// depends on no condition and changes nothing.
    fn answer_early(
        &self,
        head: &RequestHead<'_>,
        client: &Client,
        answer: &mut ResponseWriter<'_>,
    ) -> AnswerNow {
        let _ = (head, client, answer);
        AnswerNow::Later
    }

    /// Answers asynchronously. Returning without [`Reply::finish`] closes the connection hard, or resets the stream, so
    /// that the client detects a truncated response.
    fn answer<'c>(
        &'c self,
        request: Rc<Request>,
        client: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) -> impl Future<Output = ()> + 'c;

    /// A head was rejected: its status is being sent with `body` bytes, and the connection closed. For logs.
    fn rejected(&self, reject: Reject, client: &Client, body: u64);

    /// A connection that requires a PROXY header was closed without one. For logs.
    fn proxy_header_missing(&self, why: MissingPreamble, peer: Option<SocketAddr>) {
        let _ = (why, peer);
    }

    /// The response to a head that was rejected or timed out.
    fn refusal(&self, status: u16, sentence: &str) -> Synthetic {
        Synthetic::page(status, sentence)
    }
}

/// The body of a request.
pub struct RequestBody<'c>(TunnelIncoming<'c>);

enum TunnelIncoming<'c> {
    Http1(http1::Http1RequestBody<'c>),
    Streams(StreamRequestBody),
}

impl<'c> RequestBody<'c> {
    pub(crate) fn http1(body: http1::Http1RequestBody<'c>) -> Self {
        Self(TunnelIncoming::Http1(body))
    }

    pub(crate) fn streams(body: StreamRequestBody) -> Self {
        Self(TunnelIncoming::Streams(body))
    }

    /// The next bytes; `None` after the last. Sends `100 Continue` before the first read, if the client waits for it. May
    /// be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// The body is incomplete: the forwarded part must not look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientGone> {
        match &mut self.0 {
            TunnelIncoming::Http1(it) => it.next().await,
            TunnelIncoming::Streams(it) => it.next().await,
        }
    }

    /// Applies the limits of the request's route: to its body, before the first read, and to its response.
    pub fn limit(&mut self, limits: &RequestLimits) {
        match &mut self.0 {
            TunnelIncoming::Http1(it) => it.limit(limits),
            TunnelIncoming::Streams(it) => it.limit(limits),
        }
    }

    /// The bytes that have arrived already, without waiting or requesting any; `None` if there are none. A body whose
    /// announced length is too large is rejected here as well.
    ///
    /// # Errors
    /// As [`RequestBody::next`].
    pub fn arrived(&mut self) -> Result<Option<Bytes>, ClientGone> {
        match &mut self.0 {
            TunnelIncoming::Http1(it) => it.arrived(),
            TunnelIncoming::Streams(it) => it.arrived(),
        }
    }

    /// Whether all of it has arrived and was taken.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        match &self.0 {
            TunnelIncoming::Http1(it) => it.is_whole(),
            TunnelIncoming::Streams(it) => it.is_whole(),
        }
    }

    /// The trailer section, after [`RequestBody::next`] returned `None`.
    pub fn trailers(&mut self) -> Option<FieldList> {
        match &mut self.0 {
            TunnelIncoming::Http1(it) => it.trailers(),
            TunnelIncoming::Streams(it) => it.trailers(),
        }
    }
}

/// Writes the response to a request.
pub struct Reply<'c>(TunnelOutgoing<'c>, Option<Rc<ResponseFinish>>, Option<Rc<AlternativeService>>);

enum TunnelOutgoing<'c> {
    Http1(http1::Http1Reply<'c>),
    Streams(StreamReply),
}

impl<'c> Reply<'c> {
    pub(crate) fn http1(reply: http1::Http1Reply<'c>) -> Self {
        Self(TunnelOutgoing::Http1(reply), None, None)
    }

    pub(crate) fn streams(reply: StreamReply) -> Self {
        Self(TunnelOutgoing::Streams(reply), None, None)
    }

    /// The same, which tells the client of the HTTP/3 service of its listener, if there is one.
    pub(crate) fn informing(mut self, client: &Client) -> Self {
        self.2 = client.alternative.clone();
        self
    }

    /// Applies `finish` to the response. Before its head.
    pub fn finish_with(&mut self, finish: Rc<ResponseFinish>) {
        self.1 = Some(finish);
    }

    /// The finish of the response.
    #[must_use]
    pub fn finisher(&self) -> Option<&Rc<ResponseFinish>> {
        self.1.as_ref()
    }

    /// Sends a 1xx response other than 101; dropped silently for HTTP/1.0 clients.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, status: u16, fields: &FieldList) -> Result<(), ClientGone> {
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => it.interim(status, fields).await,
            TunnelOutgoing::Streams(it) => it.interim(status, fields),
        }
    }

    /// Sends the final head. `fields` are end-to-end fields only: the reply writes `Connection`, `Transfer-Encoding` and
    /// (for [`ResponseBody::Length`]) `Content-Length`. Held back to be sent together with the first piece; see
    /// [`Reply::flush`].
    ///
    /// # Errors
    /// The client is gone.
    pub async fn head(
        &mut self,
        status: u16,
        fields: &FieldList,
        body: ResponseBody,
    ) -> Result<(), ClientGone> {
        let finished = self.1.as_ref().map(|it| it.apply(status, fields));
        let fields = finished.as_ref().unwrap_or(fields);
        let informed = self.2.as_ref().and_then(|it| it.value()).map(|value| {
            let mut fields = fields.clone();
            fields.push("Alt-Svc", value);
            fields
        });
        let fields = informed.as_ref().unwrap_or(fields);
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => it.head(status, fields, body).await,
            TunnelOutgoing::Streams(it) => it.head(status, fields, body),
        }
    }

    /// Sends a piece of the body. Ignored after [`ResponseBody::None`] and for HEAD. Small ones may be held back.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn push_body(&mut self, piece: BodyPiece) -> Result<(), ClientGone> {
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => it.push_body(piece).await,
            TunnelOutgoing::Streams(it) => it.push_body(piece).await,
        }
    }

    /// Waits until the client can receive more of a body whose rest is elsewhere: the part that it does not take stays
    /// there.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn demand(&self) -> Result<ClientDemand, ClientGone> {
        match &self.0 {
            TunnelOutgoing::Http1(_) => Ok(ClientDemand::ALL),
            TunnelOutgoing::Streams(it) => it.demand().await,
        }
    }

    /// Sends the output that is still held back, now.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn flush(&self) -> Result<(), ClientGone> {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.flush().await,
            TunnelOutgoing::Streams(it) => it.check(),
        }
    }

    /// Waits until the client has closed its side: for responses without an end, which have to stop. If an HTTP/1 client
    /// sent another request meanwhile this waits forever, and a failed write shows the end.
    pub async fn gone(&self) {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.gone().await,
            TunnelOutgoing::Streams(it) => it.gone().await,
        }
    }

    /// Waits until the client has cancelled its request. HTTP/1 has no cancellation: there this waits forever.
    pub async fn cancelled(&self) {
        match &self.0 {
            TunnelOutgoing::Http1(_) => std::future::pending().await,
            TunnelOutgoing::Streams(it) => it.gone().await,
        }
    }

    /// Accepts the requested protocol: HTTP ends on this connection, or on this stream. `fields` are end-to-end fields
    /// only.
    ///
    /// # Errors
    /// The client is gone, or over HTTP/2 had not requested any.
    pub async fn switch(&mut self, protocol: &[u8], fields: &FieldList) -> Result<Tunnel<'c>, ClientGone> {
        match &mut self.0 {
            TunnelOutgoing::Http1(it) => {
                it.switch(protocol, fields).await.map(|it| Tunnel(ReplySide::Http1(it)))
            }
            TunnelOutgoing::Streams(it) => it.switch(fields).map(|it| Tunnel(ReplySide::Streams(it))),
        }
    }

    /// The status with which [`Reply::switch`] accepts.
    #[must_use]
    pub fn agreement(&self) -> u16 {
        match &self.0 {
            TunnelOutgoing::Http1(_) => 101,
            TunnelOutgoing::Streams(_) => 200,
        }
    }

    /// Ends the response. A body shorter than its announced length closes the connection hard, or resets the stream.
    ///
    /// # Errors
    /// The client is gone, or the body was short.
    pub async fn finish(self, trailers: Option<&FieldList>) -> Result<(), ClientGone> {
        match self.0 {
            TunnelOutgoing::Http1(it) => it.finish(trailers).await,
            TunnelOutgoing::Streams(it) => it.finish(trailers).await,
        }
    }

    /// Whether a head was sent: after that, an error can only truncate the response.
    #[must_use]
    pub fn started(&self) -> bool {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.started(),
            TunnelOutgoing::Streams(it) => it.started(),
        }
    }

    /// Bytes of body sent so far, for the access log.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        match &self.0 {
            TunnelOutgoing::Http1(it) => it.body_bytes(),
            TunnelOutgoing::Streams(it) => it.body_bytes(),
        }
    }

    /// Closes the connection after this response, if it has no other stream.
    pub fn close_after(&mut self) {
        if let TunnelOutgoing::Http1(it) = &mut self.0 {
            it.close_after();
        }
    }
}

/// The client's side of an upgraded connection: bytes in both directions, each with an end of its own. It is cut unless
/// it is closed in an orderly way. One task may read and write concurrently.
pub struct Tunnel<'c>(ReplySide<'c>);

enum ReplySide<'c> {
    Http1(http1::Http1Tunnel<'c>),
    Streams(StreamTunnel),
}

impl Tunnel<'_> {
    /// The next bytes of the client; `None` after the end of its side.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn read(&self) -> Result<Option<Bytes>, ClientGone> {
        match &self.0 {
            ReplySide::Http1(it) => it.read().await,
            ReplySide::Streams(it) => it.read().await,
        }
    }

    /// Sends bytes; done when the system has taken them, so that no more than these wait here.
    ///
    /// # Errors
    /// The client is gone, or takes nothing.
    pub async fn write(&self, bytes: Bytes) -> Result<(), ClientGone> {
        match &self.0 {
            ReplySide::Http1(it) => it.write(bytes).await,
            ReplySide::Streams(it) => it.write(bytes).await,
        }
    }

    /// Ends the sending side; bytes of the client are still read.
    pub fn end(&self) {
        match &self.0 {
            ReplySide::Http1(it) => it.end(),
            ReplySide::Streams(it) => it.end(),
        }
    }

    /// Waits until the client has aborted both directions at once. A connection shows that only when it is read or
    /// written: there this waits forever.
    pub async fn gone(&self) {
        match &self.0 {
            ReplySide::Http1(_) => std::future::pending().await,
            ReplySide::Streams(it) => it.gone().await,
        }
    }

    /// Both sides have ended.
    pub async fn close(self) {
        match self.0 {
            ReplySide::Http1(it) => it.close(),
            ReplySide::Streams(it) => it.close().await,
        }
    }
}

impl Synthetic {
    /// Sends it at the slow speed.
    pub async fn send(mut self, mut reply: Reply<'_>) -> SyntheticSent {
        if self.status == NO_RESPONSE {
            // A reply that is dropped before its head ends the connection or the stream.
            return SyntheticSent { status: NO_RESPONSE, body: 0, complete: true };
        }
        self.fields.push("Date", date::format(clock::wall()));
        if let Some(finish) = reply.finisher() {
            let finish = finish.clone();
            self.add_fields(&finish);
        }
        let status = self.status;
        let complete = self.send_by(&mut reply).await;
        let body = reply.body_bytes();
        SyntheticSent { status, body, complete: complete && reply.finish(None).await.is_ok() }
    }

    async fn send_by(self, reply: &mut Reply<'_>) -> bool {
        if reply.head(self.status, &self.fields, self.framing()).await.is_err() {
            return false;
        }
        for piece in self.body {
            if reply.push_body(piece).await.is_err() {
                return false;
            }
        }
        true
    }
}
